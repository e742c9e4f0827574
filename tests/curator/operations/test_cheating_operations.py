"""No operation can take more than it declared: of each handler, twins that try to are stopped before a release."""

from __future__ import annotations

from typing import Any

import pytest

from common.numerics.randomness import RandomSource
from common.operations.operation import OPERATIONS, Operation
from common.privacy.events import NoEvent
from curator.metering.meter import Overdrawn
from curator.operations import HANDLERS
from tests.contracts import examples
from tests.curator.metering.greedy import CHEATS, Homemade, Honest
from tests.curator.operations.test_operation_contract import people, prepared
from tests.tiers import for_each, thinned

EACH = pytest.mark.parametrize("operation", examples(OPERATIONS))


def run(operation: Operation[Any], cheat: type[Honest] | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run an operation by its event, with a cheat between its handler and its access."""
    kind = HANDLERS[operation.kind]
    space = prepared(operation, people(1))
    if cheat is not None:
        honest = kind.run
        monkeypatch.setattr(
            kind, "run", lambda self, asked, access, standing: honest(self, asked, cheat(access), standing)
        )
    return space.run(operation, space.event(operation), RandomSource.seeded(0, "release"))


@EACH
def test_a_twin_that_asks_for_no_more_is_the_handler(operation: Operation[Any], monkeypatch: Any) -> None:
    assert run(operation, Honest, monkeypatch) == run(operation, None, monkeypatch)


@EACH
@for_each("cheat", thinned(CHEATS, 4), ids=lambda cheat: cheat.__name__)
def test_a_twin_that_asks_for_more_releases_nothing(
    operation: Operation[Any], cheat: type[Honest], monkeypatch: Any
) -> None:
    space = prepared(operation, people(1))
    if isinstance(space.event(operation), NoEvent):
        pytest.skip("asks its access for nothing: see below")
    with pytest.raises(Overdrawn):
        run(operation, cheat, monkeypatch)


@EACH
@for_each("what", ["records", "people", "features", "release", "draws"])
def test_what_costs_nothing_gets_nothing(operation: Operation[Any], what: str, monkeypatch: Any) -> None:
    space = prepared(operation, people(1))
    asked = {
        "records": lambda access: access.records(),
        "people": lambda access: access.people,
        "features": lambda access: access.features(0, 1),
        "release": lambda access: access.release(Homemade()),
        "draws": lambda access: access.distinct(1),
    }[what]
    monkeypatch.setattr(HANDLERS[operation.kind], "run", lambda self, _, access, standing: asked(access))
    with pytest.raises(Overdrawn):
        space.run(operation, NoEvent(), RandomSource.seeded(0))
