"""A curator's office in memory, and the referee that puts the curator to the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from common.numerics.randomness import RandomSource
from common.scenario.resolved import ResolvedScenario, parse_resolved
from common.vocabulary.records import Records
from common.wire import messages
from common.wire.identity import Identity
from curator.sample.local import LocalSample
from curator.service import curator as service
from curator.service.curator import Curator
from curator.state.ledger import Charge, Holder

REFEREE = Identity.create()
_PEOPLE = {"name": "sparse-conjunction", "side": "source", "d": 3, "truth": [0, 1], "rates": []}
_NOBODY = ({"first": 0, "agents": 1, "used": 0, "sha256": "0" * 64},)


class MemoryLedger:
    """The curator's ledger without a disk: an audit opens hundreds of curators."""

    def __init__(self, url: str) -> None:
        self._holder: Holder | None = None
        self._charges: dict[str, Charge] = {}

    def close(self) -> None: ...

    def holder(self) -> Holder | None:
        return self._holder

    def open_run(self, holder: Holder) -> None:
        self._holder = holder

    def charges(self) -> list[Charge]:
        return list(self._charges.values())

    def charge(self, run: str, charge: Charge) -> None:
        self._charges[charge.operation_id] = charge

    def finish(self, run: str, operation_id: str, result: dict[str, Any]) -> None:
        self._charges[operation_id] = replace(self._charges[operation_id], result=result)


def policy(**curator: Any) -> ResolvedScenario:
    """Return a scenario with the given section of the curator."""
    return parse_resolved(
        {
            "name": "audit",
            "title": "A tiny sample under audit",
            "alpha": 0.1,
            "divergence": {"chi_squared": 2.0},
            "source": {"distribution": _PEOPLE},
            "target": {"distribution": {**_PEOPLE, "side": "target"}},
            "curator": curator,
            "agents": {"count": 1, "mechanism": {"name": "warner", "epsilon": 1.0}},
        }
    )


class Office:
    """A curator whose budget a run holds; operations get numbers in the order they are asked for."""

    def __init__(self, curator: Curator, digest: str) -> None:
        self._curator = curator
        self._digest = digest
        self._asked = 0

    def ask(self, operation: dict[str, Any], *, times: int = 1) -> list[dict[str, Any]]:
        """Send one and the same request so many times; return every result."""
        request = messages.Perform(run="audit", digest=self._digest, operation_id=str(self._asked), operation=operation)
        self._asked += 1
        signed = REFEREE.sign(request.KIND, request.wire())
        return [self._curator.perform(signed).message["result"] for _ in range(times)]


@contextmanager
def office(
    kind: type[Curator], scenario: ResolvedScenario, records: Records, folder: Path, source: RandomSource
) -> Iterator[Office]:
    """Open a curator with an empty ledger and randomness of its own, and give its budget to a run."""
    seed = int(source.integers(1 << 62, 1)[0])
    with patch.object(service, "Ledger", MemoryLedger):
        curator = kind(scenario, LocalSample.of(records), folder, seed=seed)
    try:
        configuration = messages.Configuration(
            run="audit", referee=REFEREE.public, scenario=scenario.wire(), order=_NOBODY
        )
        curator.open_run(REFEREE.sign(configuration.KIND, configuration.wire()))
        yield Office(curator, configuration.fingerprint())
    finally:
        curator.close()
