"""The curator's ledger: what was charged is on disk before anything runs; what was computed, before anything leaves.

Entries of the journal: ``open`` gives the budget to a run, ``charge`` holds the referee's signed request and its event,
``result`` what was released, ``acknowledgement`` that the referee received the last of it; ``share`` to which beacon
the curator has opened its share of the order. Everything else follows from them, in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common.core.errors import BadInput, BrokenLedger
from common.crypto.identity import Identity, Signed
from common.log.entries import Entry, Extension, Head
from common.log.ledger import CLOSED, HEAD, KEY, LEDGER, REMEDY, Chain, Journal, read_head
from common.log.witness import Witness, behind
from common.net.messages import Acknowledgement, Perform, Spent
from common.privacy.events import Event, NoEvent, parse_event

OPEN, SHARE, CHARGE, RESULT, ACKNOWLEDGEMENT = "open", "share", "charge", "result", "acknowledgement"


@dataclass
class ChargedOperation:
    """One operation in the order it was charged.

    Attributes:
        request: The referee's message, as it was signed; with the head of this ledger that it had seen.
        operation: The JSON form of what it asks for, all defaults filled in: an operation's randomness is derived from
            it.
        event: What was declared before it ran.
        result: What was released; None while it has not finished.
        entries: How long the ledger was when the result was in it.
    """

    request: Signed
    operation: dict[str, Any]
    event: Event
    result: dict[str, Any] | None = None
    entries: int = 0

    def __post_init__(self) -> None:
        self.perform = Perform.parse(self.request.message)

    @property
    def operation_id(self) -> str:
        """Its number."""
        return self.perform.operation_id


@dataclass(frozen=True)
class Holder:
    """The run that holds the budget, the digests of its configuration and policy, and the referee that opened it.

    ``spent`` is what the data set's people have spent over all runs, this one included; None where nobody counts.
    ``people`` is the head of the ledger of people after that charge.
    """

    run: str
    digest: str
    policy: str
    referee: str
    spent: Spent | None = None
    people: Head | None = None


class Ledger:
    """Charges and results of the one run that holds the curator's budget. Each line is on disk before it is here.

    Args:
        journal: The durable chain of entries.

    Attributes:
        events: The events that cost something, in the order in which they were charged.
        holder: The run that holds the budget, if there is one.
        acknowledged: How many entries the referee has countersigned after its last request; 0 if none.
        beacon: The value of the beacon to which the curator's share of the order was opened; None while it is not.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._charges: dict[str, ChargedOperation] = {}
        self.events: list[Event] = []
        self.holder: Holder | None = None
        self.acknowledged = 0
        self.beacon: str | None = None
        self._opened = 0
        for number, entry in journal.chain.numbered():
            self._enter(entry, number)

    def __iter__(self) -> Iterator[ChargedOperation]:
        return iter(self._charges.values())

    def find(self, operation_id: str) -> ChargedOperation | None:
        """Return the charge of an operation."""
        return self._charges.get(operation_id)

    def unfinished(self) -> ChargedOperation | None:
        """Return the charge whose operation has not finished; only the last one can be."""
        last = next(reversed(self._charges.values()), None)
        return last if last is not None and last.result is None else None

    def open_run(self, holder: Holder) -> None:
        """Give the budget to a run, durably first."""
        body = {**asdict(holder), "spent": None if holder.spent is None else holder.spent.wire()}
        if holder.people is None:
            del body["people"]  # as it was before there was any: a seeded run stays the same
        else:
            body["people"] = holder.people.wire()
        self._append(OPEN, body)

    def charge(self, request: Signed, operation: dict[str, Any], event: Event) -> ChargedOperation:
        """Record a charge, durably first; return it."""
        self._append(CHARGE, {"request": request.wire(), "operation": operation, "event": event.wire()})
        return next(reversed(self._charges.values()))

    def finish(self, operation_id: str, result: dict[str, Any]) -> None:
        """Store an operation's result, durably first."""
        self._append(RESULT, {"operation_id": operation_id, "result": result})

    def acknowledge(self, signed: Signed) -> None:
        """Store the referee's acknowledgement, durably first; one that says no more than another is left out."""
        if Acknowledgement.parse(signed.message).seen.entries > self.acknowledged:
            self._append(ACKNOWLEDGEMENT, {"acknowledgement": signed.wire()})

    def open_share(self, beacon: str, signed: Signed) -> None:
        """Note to which beacon the share of the order is opened, durably first; the request is kept with it."""
        self._append(SHARE, {"beacon": beacon, "request": signed.wire()})

    def opening(self) -> Extension:
        """Return the head at which the run was opened, and the links from the beginning to it."""
        return self.journal.chain.extension(0, self._opened)

    def since(self, seen: Head, charge: ChargedOperation) -> Extension:
        """Return the head at which an operation's result was stored, and the links from an older head to it."""
        return self.journal.chain.extension(seen.entries, charge.entries)

    def _append(self, kind: str, body: dict[str, Any]) -> None:
        head = self.journal.append(kind, body)
        self._enter(self.journal.chain.entries[-1], head.entries)

    def _enter(self, entry: Entry, number: int) -> None:
        body = entry.body
        try:
            if entry.kind == OPEN:
                spent = None if body["spent"] is None else Spent.parse(body["spent"])
                people = None if body.get("people") is None else Head.parse(body["people"])
                self.holder, self._opened = Holder(**{**body, "spent": spent, "people": people}), number
            elif entry.kind == CHARGE:
                charge = ChargedOperation(Signed.parse(body["request"]), body["operation"], parse_event(body["event"]))
                self._charges[charge.operation_id] = charge
                if not isinstance(charge.event, NoEvent):
                    self.events.append(charge.event)
            elif entry.kind == RESULT:
                charge = self._charges[body["operation_id"]]
                charge.result, charge.entries = body["result"], number
            elif entry.kind == SHARE:
                self.beacon = str(body["beacon"])
            elif entry.kind == ACKNOWLEDGEMENT:
                self.acknowledged = Acknowledgement.parse(body["acknowledgement"]["message"]).seen.entries
        except (KeyError, TypeError):
            raise BrokenLedger(f"entry {number} of the ledger ({entry.kind}) cannot be read") from None


def verify_ledger(state: Path, witnesses: Sequence[Witness] = ()) -> dict[str, Any]:
    """Check a ledger against its head and its witnesses; return how far it goes.

    Raises:
        BrokenLedger: Saying what does not agree, and what to do.
    """
    with closing(_chain(state)) as chain:
        identity = Identity.load_or_create(state / KEY)
        if not (state / HEAD).exists():
            raise BrokenLedger(f"the ledger's head {state / HEAD} is gone. {REMEDY}")
        seen = [(f"the file {state / HEAD}", read_head(state / HEAD, identity.public))]
        for witness in witnesses:
            last = witness.last()
            if last is None:
                raise BrokenLedger(f"the witness {witness.place} knows nothing of this ledger. {REMEDY}")
            seen.append((f"the witness {witness.place}", last))
        for who, head in seen:
            if not chain.holds(head):
                raise BrokenLedger(f"{behind(who, head, chain.head())}. {REMEDY}")
        closed = next((str(e.body["why"]) for e in chain.entries if e.kind == CLOSED), None)
        return {"curator": identity.public, **chain.head().wire(), "agreed": [who for who, _ in seen], "closed": closed}


def listed(state: Path) -> list[dict[str, Any]]:
    """Return the entries of a ledger whose chain holds, oldest first, each in a few words; no hypothesis is shown."""
    with closing(_chain(state)) as chain:
        return [{"entry": number, "kind": entry.kind, **_words(entry)} for number, entry in chain.numbered()]


def _chain(state: Path) -> Chain:
    if not (state / LEDGER).exists() or not (state / KEY).exists():
        raise BadInput(f"{state} is not a curator's state directory: it has no ledger")
    return Chain(state / LEDGER)


def _words(entry: Entry) -> dict[str, Any]:
    body = entry.body
    if entry.kind == "charge":
        request = body["request"]["message"]
        return {
            "operation": request["operation_id"],
            "asks": body["operation"]["kind"],
            "event": body["event"],
            "referee_had_seen": request["seen"]["entries"],
        }
    if entry.kind == "acknowledgement":
        return {"referee_had_seen": body["acknowledgement"]["message"]["seen"]["entries"]}
    if entry.kind == "result":
        return {"operation": body["operation_id"]}
    return dict(body)
