"""What every registered operation must do: declare its cost before it runs, give data back, and be repeatable.

Made on its own examples, so a new one is tested by being registered. Its workspace is the first with which its check is
content: without a learner, or with one of the examples of learners; with or without a public sample.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario, PolicyRefused
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import OPERATIONS, Operation, Result, parse_operation
from common.privacy.budget import cost
from common.privacy.events import NoEvent, parse_event
from curator.engine import Workspace
from curator.learners.base import LEARNERS, Learner
from curator.mechanisms.access import Overdrawn
from curator.operations import HANDLERS
from tests.contracts import examples, with_a_number_that_is_none
from tests.curator.mechanisms.greedy import CHEATS, Homemade, Honest
from tests.curator.operations.given import workspace
from tests.tiers import for_each, thinned

PEOPLE = 4000
FEATURES = 24
EACH = pytest.mark.parametrize("operation", examples(OPERATIONS))


@cache
def people(seed: int, features: int = FEATURES) -> Records:
    """Return people with 0/1 features; every third one is the label."""
    draw = np.random.default_rng(seed)
    rows = draw.integers(0, 2, (PEOPLE, features), dtype=np.uint8)
    return Records(rows, np.where(rows[:, :1].any(axis=1), 1, -1).astype(np.int8))


def prepared(operation: Operation[Any], records: Records, cut: int = 0) -> Workspace:
    """Return a workspace in which the operation can be carried out."""
    for learner, public in _helpers():
        space = workspace(records, cut)
        space.learner, space.public = learner, public
        try:
            if learner is not None:
                learner.check(records.features.dtype, records.dimension)
                learner.check_public(public)
                learner.check_people(len(records))
            space.event(operation)
            space.check(operation)
        except (BadScenario, PolicyRefused):
            continue
        return space
    raise AssertionError(f"no workspace of the suite can carry out {operation}")


def _helpers() -> Iterator[tuple[Learner | None, Records | None]]:
    yield None, None
    public = people(99).take(np.arange(300))
    for _, kind in LEARNERS.items():
        yield from ((learner, given) for learner in kind.example() for given in (None, public))


def release(operation: Operation[Any], space: Workspace, seed: int = 0) -> Result:
    found: Result = space.perform(operation, RandomSource.seeded(seed, "release"))
    return found


@EACH
def test_the_request_travels_as_json(operation: Operation[Any]) -> None:
    again = parse_operation(json.loads(json.dumps(operation.wire())))
    assert again == operation
    assert type(again) is OPERATIONS[operation.kind]
    for broken in ({**operation.wire(), "code": "print()"}, *with_a_number_that_is_none(operation.wire())):
        with pytest.raises(BadMessage):
            parse_operation(broken)


@EACH
def test_the_event_follows_from_public_numbers_and_can_be_stored_and_priced(operation: Operation[Any]) -> None:
    event, other = (prepared(operation, people(seed)).event(operation) for seed in (1, 2))
    assert event == other
    assert parse_event(json.loads(json.dumps(event.wire()))) == event
    assert cost([(event, 1)], 1e-6) >= 0.0


@EACH
def test_the_release_is_data_and_the_same_for_the_same_source(operation: Operation[Any]) -> None:
    first = release(operation, prepared(operation, people(1)))
    wire = json.loads(json.dumps(first.wire(), allow_nan=False))
    assert wire == first.wire()
    assert operation.read(wire) == first
    assert release(operation, prepared(operation, people(1))) == first
    assert release(operation, prepared(operation, people(1), 400)) == first, "however the sample is split"


@EACH
def test_what_declares_no_event_releases_nothing_about_anybody(operation: Operation[Any]) -> None:
    event = prepared(operation, people(1)).event(operation)
    if isinstance(event, NoEvent):
        one, other = (release(operation, prepared(operation, people(seed))) for seed in (1, 2))
        assert one == other


@EACH
def test_replay_leads_to_the_same_workspace_without_a_release(operation: Operation[Any]) -> None:
    ran, replayed = (prepared(operation, people(1)) for _ in range(2))
    replayed.advance(operation, release(operation, ran))
    assert replayed.previous == ran.previous
    assert replayed.reweighing.updates == ran.reweighing.updates
    np.testing.assert_array_equal(
        *(np.concatenate(list(space.sample.cumulative_losses())) for space in (ran, replayed))
    )
    assert release(operation, replayed, seed=1) == release(operation, ran, seed=1)


@EACH
def test_the_features_that_it_says_it_needs_are_enough(operation: Operation[Any]) -> None:
    narrow = people(1, max(operation.min_features, 1))
    try:
        space = prepared(operation, narrow)
    except AssertionError:  # its learner looks at more
        space = prepared(operation, people(1))
    assert isinstance(release(operation, space), operation.result)


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
