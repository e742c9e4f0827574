"""The ledger as the curator works with it: every charge in memory too, and what follows from all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from common.privacy.events import Event, NoEvent
from curator.state.ledger import Charge, Ledger


class LedgerIndex:
    """What was charged so far, in order. Each line is on disk before it is here.

    Parameters
    ----------
    ledger
        The durable ledger.

    Attributes
    ----------
    events
        The events that cost something, in the order in which they were charged.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._charges: dict[str, Charge] = {}
        self.events: list[Event] = []
        for charge in ledger.charges():
            self._enter(charge)

    def __iter__(self) -> Iterator[Charge]:
        return iter(self._charges.values())

    def find(self, operation_id: str) -> Charge | None:
        """Return the charge of an operation."""
        return self._charges.get(operation_id)

    def unfinished(self) -> Charge | None:
        """Return the charge whose operation has not finished; only the last one can be."""
        last = next(reversed(self._charges.values()), None)
        return last if last is not None and last.result is None else None

    def charge(self, run: str, charge: Charge) -> None:
        """Record a charge, durably first."""
        self._ledger.charge(run, charge)
        self._enter(charge)

    def finish(self, run: str, operation_id: str, result: dict[str, Any]) -> None:
        """Store an operation's result, durably first."""
        self._ledger.finish(run, operation_id, result)
        self._charges[operation_id] = replace(self._charges[operation_id], result=result)

    def _enter(self, charge: Charge) -> None:
        self._charges[charge.operation_id] = charge
        if not isinstance(charge.event, NoEvent):
            self.events.append(charge.event)
