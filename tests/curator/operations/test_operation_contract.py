"""What every registered operation must do: declare its cost before it runs, give data back, and be repeatable.

Made on its own examples, so a new one is tested by being registered. Its workspace is the first with which its check is
content: without a learner, or with one of the examples of learners; with or without a public sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, reduce
from operator import or_
from typing import Any, get_args

import numpy as np
import pytest

from benchmarks.audits.subjects import Office, office, policy
from common.core.errors import BadMessage, BadScenario, BudgetExceeded, OperationFailed, PolicyRefused, TandemError
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations import operation as ops
from common.operations.operation import OPERATIONS, Operation, Result, declared_event, parse_operation, release_of
from common.privacy.budget import cost
from common.privacy.events import Gaussian, NoEvent, Release, parse_event
from common.protocols.base import DEMANDS, Demands
from common.protocols.patterns import curator, many
from curator.curator import Curator
from curator.engine import Workspace
from curator.learners.base import LEARNERS, Learner
from curator.mechanisms.access import Overdrawn
from curator.operations import HANDLERS, OperationHandler
from tests.contracts import examples, with_a_number_that_is_none
from tests.curator.mechanisms.greedy import CHEATS, Homemade, Honest
from tests.curator.operations.given import charged, offices, release, workspace
from tests.support import small
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


def carried_out(operation: Operation[Any], space: Workspace, seed: int = 0) -> Result:
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
    first = carried_out(operation, prepared(operation, people(1)))
    wire = json.loads(json.dumps(first.wire(), allow_nan=False))
    assert wire == first.wire()
    assert operation.read(wire) == first
    assert carried_out(operation, prepared(operation, people(1))) == first
    assert carried_out(operation, prepared(operation, people(1), 400)) == first, "however the sample is split"


@EACH
def test_what_declares_no_event_releases_nothing_about_anybody(operation: Operation[Any]) -> None:
    event = prepared(operation, people(1)).event(operation)
    if isinstance(event, NoEvent):
        one, other = (carried_out(operation, prepared(operation, people(seed))) for seed in (1, 2))
        assert one == other


@EACH
def test_replay_leads_to_the_same_workspace_without_a_release(operation: Operation[Any]) -> None:
    ran, replayed = (prepared(operation, people(1)) for _ in range(2))
    replayed.advance(operation, carried_out(operation, ran))
    assert replayed.previous == ran.previous
    assert replayed.reweighing.updates == ran.reweighing.updates
    np.testing.assert_array_equal(
        *(np.concatenate(list(space.sample.cumulative_losses())) for space in (ran, replayed))
    )
    assert carried_out(operation, replayed, seed=1) == carried_out(operation, ran, seed=1)


@EACH
def test_the_features_that_it_says_it_needs_are_enough(operation: Operation[Any]) -> None:
    narrow = people(1, max(operation.min_features, 1))
    try:
        space = prepared(operation, narrow)
    except AssertionError:  # its learner looks at more
        space = prepared(operation, people(1))
    assert isinstance(carried_out(operation, space), operation.result)


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
def test_it_reads_people_in_blocks(operation: Operation[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One record at a time takes fifty microseconds each: that is for the functions of plug-ins."""
    if not HANDLERS[operation.kind].__module__.startswith("curator."):
        pytest.skip("of a plug-in")

    def one_by_one(*_: Any) -> Any:
        raise AssertionError("people are read one by one")

    monkeypatch.setattr("curator.mechanisms.base._values", one_by_one)
    run(operation, None, monkeypatch)


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


EPSILON = 1.0
RELEASES: dict[str, dict[str, Any]] = {
    "select": {"first": 1, "count": 5},
    "count": {"feature": 5},
    "parities": {"features": 2, "first": 2, "bits": 4, "blocks": 2, "parts": 3},
    "head": {"first": 1, "bits": 5, "most": 4},
}
"""Each reads the first six features. Of further kinds with an epsilon of their own it is their first example."""
for _kind, _operation in OPERATIONS.items():
    if "epsilon" in _operation.model_fields:
        _fields = _operation.example()[0].wire()
        RELEASES.setdefault(_kind, {name: _fields[name] for name in _fields if name not in ("kind", "epsilon")})
ROWS = np.random.default_rng(0).integers(0, 2, (40, 24)).astype(np.uint8)
SAMPLE = Records(ROWS, np.where(ROWS[:, 0] > 0, 1, -1).astype(np.int8))


CELLS_OF_SIX = {"hypothesis": {"kind": "linear", "weights": [1.0] * 6, "threshold": 3.0}, "cuts": [0.0]}
MARGINS: dict[str, Any] = {"kind": "margins", "cells": CELLS_OF_SIX, "mu": 0.25}


def wire(kind: str, **changes: Any) -> dict[str, Any]:
    return {"kind": kind, **RELEASES[kind], "epsilon": EPSILON, **changes}


@pytest.fixture
def local_curator(tmp_path, monkeypatch):
    """Return how to open a curator without a learner, with such a budget for so many releases, of any kind."""
    anything = Demands(many(reduce(or_, map(curator, [*RELEASES, "margins", "learn"]))))
    monkeypatch.setitem(DEMANDS._entries, "every-release", (DEMANDS.names(), anything)[1])
    with offices(tmp_path) as opening:

        def with_budget(epsilon: float = EPSILON, rounds: int = 1, sample: Records = SAMPLE) -> Office:
            chosen = small("hypothesis-testing")
            section = chosen.curator.model_copy(update={"n": len(sample), "epsilon": epsilon, "rounds": rounds})
            return opening(chosen.model_copy(update={"protocol": "every-release", "curator": section}), sample)

        yield with_budget


@pytest.mark.parametrize("kind", sorted(RELEASES))
class TestEveryRelease:
    def test_it_is_charged_as_declared_and_once_and_a_second_one_is_beyond_the_budget(self, kind, local_curator):
        open_desk, event = local_curator(), Release(epsilon=EPSILON)
        first, *again = open_desk.ask(wire(kind), times=5)
        assert again == 4 * [first], "a repeated request returns what was stored"
        assert first["event"] == event.wire()
        assert EPSILON * (1 - 1e-9) <= cost([(event, 1)], 0.0) <= EPSILON * (1 + 1e-9)
        with pytest.raises(BudgetExceeded, match=r"spent .* asks for"):
            open_desk.ask(wire(kind))
        assert charged(open_desk) == [event]

    def test_more_than_the_budget_is_refused_before_anything_is_charged(self, kind, local_curator):
        self.refused(local_curator(), wire(kind, epsilon=1.01 * EPSILON), BudgetExceeded, "asks for")

    @for_each("epsilon", [0, -1.0, float("nan"), "one", None])
    def test_an_epsilon_that_is_none_is_refused(self, kind, epsilon, local_curator):
        self.refused(local_curator(), wire(kind, epsilon=epsilon), TandemError, "epsilon|valid JSON|finite")

    def test_records_with_too_few_features_are_refused(self, kind, local_curator):
        needs = parse_operation(wire(kind)).min_features
        fewer = Records(np.ascontiguousarray(SAMPLE.features[:, : needs - 1]), SAMPLE.labels)
        words = f"needs {needs} features, records have {needs - 1}"
        self.refused(local_curator(sample=fewer), wire(kind), PolicyRefused, words)

    @staticmethod
    def refused(open_desk: Office, operation: dict[str, Any], error: type[TandemError], words: str) -> None:
        with pytest.raises(error, match=words):
            open_desk.ask(operation)
        assert charged(open_desk) == []


def test_margins_are_refused_before_anything_is_charged(local_curator):
    """Of records with too few features, and by a budget without a delta: their noise is Gaussian."""
    few = Records(np.ascontiguousarray(SAMPLE.features[:, :5]), SAMPLE.labels)
    words = "needs 6 features, records have 5"
    TestEveryRelease.refused(local_curator(sample=few), MARGINS, PolicyRefused, words)
    TestEveryRelease.refused(local_curator(epsilon=80.0), MARGINS, BudgetExceeded, "never admits")


def test_margins_beyond_their_share_are_refused_and_those_within_are_charged_once(tmp_path):
    """A referee that asks for less noise than the plan paid for gets none of it, and the budget stays as it was."""
    chosen = small("portfolio", "curator.learner={name: full-batch, mu: plan}")
    rows = np.random.default_rng(0).uniform(-1, 1, (chosen.curator.n, chosen.source.dimension)).astype(np.float32)
    sample = Records(rows, np.where(rows[:, 0] > 0, 1, -1).astype(np.int8))
    cells = {"hypothesis": {"kind": "linear", "weights": [1.0], "threshold": 0.0}, "cuts": [0.0]}
    mu = chosen.margins_mu
    with offices(tmp_path) as opening:
        open_desk = opening(chosen, sample)
        open_desk.ask({"kind": "learn", "round": 1})
        before = charged(open_desk)
        with pytest.raises(BudgetExceeded, match=r"spent .* asks for"):
            open_desk.ask({"kind": "margins", "cells": cells, "mu": 1.01 * mu})
        assert charged(open_desk) == before
        first, *again = open_desk.ask({"kind": "margins", "cells": cells, "mu": mu}, times=3)
        assert again == 2 * [first], "a repeated request returns what was stored"
        assert charged(open_desk) == [*before, Gaussian(mu=mu)]


REFUSED: dict[str, tuple[dict[str, Any], type[TandemError], str]] = {
    "margins that no noise hides": (MARGINS | {"mu": 31.0}, BadMessage, "mu"),
    "margins with no mu": (MARGINS | {"mu": 0.0}, BadMessage, "mu"),
    "no feature to select": (wire("select", count=0), BadMessage, "count"),
    "a count that no noise hides": (wire("count", epsilon=31.0), BadMessage, "epsilon"),
    "a head list with more noise than can be drawn": (wire("head", epsilon=0.002), BadMessage, "epsilon"),
    "more blocks than people": (wire("parities", blocks=14, parts=3), PolicyRefused, "more than the 40 people"),
    "a rule that nobody printed": (wire("parities", rule="loose"), BadMessage, "rule"),
    "a rule of the paper that costs more than it says": (
        wire("parities", rule="paper", epsilon=8.0), PolicyRefused, "the paper's rule",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_what_does_not_fit_is_refused_before_anything_is_charged(what, local_curator):
    operation, error, words = REFUSED[what]
    TestEveryRelease.refused(local_curator(epsilon=80.0), operation, error, words)


def test_the_least_epsilon_of_every_release_can_be_carried_out(local_curator):
    for kind, least in {"count": 0.001, "head": 0.0025}.items():
        assert local_curator().ask(wire(kind, epsilon=least))


def test_parities_want_features_of_0_and_1(local_curator):
    real = Records(SAMPLE.features.astype(np.float32), SAMPLE.labels)
    TestEveryRelease.refused(local_curator(sample=real), wire("parities"), PolicyRefused, "0/1 features")


def test_a_curator_without_a_learner_learns_nothing(local_curator):
    TestEveryRelease.refused(local_curator(), {"kind": "learn", "round": 1}, PolicyRefused, "no learner")


def test_a_crash_in_an_operation_costs_once_and_repeats_bit_for_bit(monkeypatch, local_curator):
    expected = local_curator().ask(wire("count"))
    open_desk = local_curator()
    with monkeypatch.context() as broken:
        broken.setattr("curator.mechanisms.counts.noisy_counts", lambda *_: 1 / 0)
        with pytest.raises(OperationFailed):
            open_desk.ask(wire("count"))
    assert len(charged(open_desk)) == 1
    open_desk._asked = 0
    assert open_desk.ask(wire("count")) == expected
    assert len(charged(open_desk)) == 1


# The agreed protocol ------------------------------------------------------------------------------------------------


@for_each("kind", sorted(RELEASES))
def test_what_the_agreed_protocol_does_not_use_is_refused_and_costs_nothing(kind, tmp_path):
    """A curator of a ball took counts and selections while its budget lasted."""
    learner = {"name": "exponential", "hypotheses": "conjunctions", "literals": 1, "draws": 1, "epsilon": EPSILON}
    chosen = policy(n=len(SAMPLE), kappa=None, eta=1.0, rounds=5, learner=learner)
    asked = r"'subsample-test-reweigh', which asks it for 'learn' and 'reweigh', not for '" + kind + "'; nothing was"
    with office(Curator, chosen, SAMPLE, tmp_path, RandomSource.seeded(3)) as ball:
        with pytest.raises(PolicyRefused, match=asked):
            ball.ask(wire(kind))
        assert charged(ball) == []
        ball.ask({"kind": "learn", "round": 1})
        assert len(charged(ball)) == 1


@for_each(("alone", "allowed"), [(None, "'select'"), ("curator", "'count' and 'select'")])
def test_a_curator_alone_is_asked_for_what_remains_of_the_protocol(alone, allowed, tmp_path):
    chosen = small("select-then-estimate")
    section = chosen.curator.model_copy(update={"n": len(SAMPLE), "epsilon": EPSILON, "rounds": 1})
    scenario = chosen.model_copy(update={"alone": alone, "curator": section})
    with offices(tmp_path / str(alone)) as opening:
        selecting = opening(scenario, SAMPLE)
        with pytest.raises(PolicyRefused, match=f"asks it for {allowed}, not for 'head'"):
            selecting.ask(wire("head"))
        selecting.ask(wire("select"))
        assert len(charged(selecting)) == 1


@for_each("cut", [0, 17])
def test_a_seeded_count_is_known(cut: int) -> None:
    """Those of other operations are in the transcripts that are kept (tests/golden)."""
    sample = Records(np.random.default_rng(0).integers(0, 2, (60, 6)).astype(np.uint8), np.ones(60, np.int8))
    assert [release(ops.Count(feature=5, epsilon=0.5), sample, seed, cut)["count"] for seed in range(2)] == [38, 35]


# Requests and their results -------------------------------------------------------------------------------------------

CONSTANT = {"kind": "constant", "label": 1}
CELLS = {"hypothesis": CONSTANT, "cuts": [0.0], "groups": []}
BLOCKS = {"features": 3, "first": 3, "bits": 4, "blocks": 2, "parts": 1, "epsilon": 1.0}
LARGEST = {"items": [str((1 << 64) - 1), 0], "counts": [9, -1], "people": 20}
LEARNED = {"hypothesis": CONSTANT}
ANSWERED: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "learn": [({"round": 1}, LEARNED), ({"round": 2, "task": {"features": 3}}, LEARNED)],
    "reweigh": [({"hypothesis": CONSTANT, "loss": "hinge"}, {})],
    "margins": [({"cells": CELLS, "mu": 1.0}, {"shares": [5, -1, 0, 7], "whole": 8})],
    "select": [({"first": 2, "count": 3, "epsilon": 1.0}, {"feature": 4})],
    "count": [({"feature": 5, "epsilon": 1.0}, {"count": -7})],
    "parities": [(BLOCKS, {"parities": [[[0, 3], None]]})],
    "head": [({"bits": 64, "most": 2, "epsilon": 1.0}, LARGEST)],
    "label": [
        ({"count": 2}, {"labels": [1, None], "protects": "records"}),
        ({"count": 1, "transfer": True}, {"labels": [3], "protects": "labels", **LEARNED}),
    ],
}
"""Requests and results. Those of further kinds are tested as they are carried out (tests/curator/operations)."""
PAIRS = [(kind, *pair) for kind, pairs in ANSWERED.items() for pair in pairs]


def test_every_operation_has_a_handler():
    assert OPERATIONS.shipped() == HANDLERS.shipped()
    assert OPERATIONS.names() == HANDLERS.names()
    assert set(ANSWERED) <= set(OPERATIONS.shipped())


@for_each("kind", OPERATIONS.names())
def test_operation_result_and_handler_belong_together(kind):
    operation = OPERATIONS[kind]
    assert issubclass(operation, Operation)
    assert issubclass(operation.result, Result)
    assert operation.__base__.__pydantic_generic_metadata__["args"] == (operation.result,)
    assert issubclass(HANDLERS[kind], OperationHandler)
    handled, released = get_args(HANDLERS[kind].__orig_bases__[0])  # type: ignore[attr-defined]
    assert handled in (operation, Any)
    assert released is operation.result


@for_each(("kind", "request_", "result"), PAIRS)
def test_requests_and_results_go_there_and_back(kind, request_, result):
    operation = parse_operation({"kind": kind, **request_})
    found = operation.read(json.loads(json.dumps(result)))
    assert type(found) is operation.result
    assert found.wire() == result
    event = Release(epsilon=1.0)
    release = release_of(found, event)
    assert release == {**result, "event": event.wire()}
    assert (operation.read(release), ops.findings(release), declared_event(release)) == (found, result, event)


@for_each(("kind", "request_", "result"), PAIRS)
def test_a_result_holds_what_it_declares_and_nothing_else(kind, request_, result):
    operation = parse_operation({"kind": kind, **request_})
    missing = ({k: result[k] for k in result if k != name} for name in result)
    for wrong in ([result], None, {**result, "surprise": 1}, *missing):
        with pytest.raises(BadMessage):
            operation.read(wrong)


@for_each("kind", OPERATIONS.shipped())
def test_only_reweigh_changes_weights_and_it_releases_nothing(kind):
    operation = OPERATIONS[kind].example()[0]
    assert (operation.reweighs_by is not None) == (kind == "reweigh")
    assert (operation.reweighs_by is not None) == (not operation.result.model_fields)


BOUNDS = [
    {"kind": kind, **ANSWERED[kind][0][0], **changes}
    for kind, changes in [
        ("learn", {"round": 1.5}),
        ("reweigh", {"hypothesis": {"kind": "code"}}),
        ("margins", {"mu": 0.0009}),
        ("head", {"epsilon": 61.0}),
        ("head", {"bits": 65}),
        ("head", {"most": 0}),
        ("parities", {"parts": 0}),
        ("parities", {"blocks": 0}),
        ("select", {"first": -1}),
        *(("label", changes) for changes in ({"count": 0}, {"first": -1}, {"count": 1 << 21}, {"transfer": "x"})),
    ]
]


def test_no_request_or_release_is_one_without_a_kind_or_an_event_that_is_known():
    assert declared_event(release_of(Result(), NoEvent())) == NoEvent()
    for odd in ({}, {"event": None}, {"event": {"kind": "free"}}):
        with pytest.raises(BadMessage):
            declared_event(odd)
    kinds: list[Any] = [{}, {"kind": "hack"}, {"kind": ["learn"]}, {"kind": "learn"}, {"kind": "reweigh"}]
    for wire in (*kinds, {"round": 1}, {"kind": "learn", "round": 0}, *BOUNDS):
        with pytest.raises(BadMessage):
            parse_operation(wire)


REQUESTS = {kind: {"kind": kind, **pairs[0][0]} for kind, pairs in ANSWERED.items()}
REQUESTS["label with transfer"] = {"kind": "label", **ANSWERED["label"][1][0]}
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a feature that was not to be selected from": ("select", {"feature": 1}, "from 2 to 4"),
    "a feature after the last": ("select", {"feature": 5}, "from 2 to 4"),
    "a count that is no number": ("count", {"count": True}, "integer"),
    "another number of parts": ("parities", {"parities": [[[0], None]] * 2}, "1 parts of 2 blocks"),
    "another number of blocks": ("parities", {"parities": [[[0]]]}, "1 parts of 2 blocks"),
    "a parity of more features": ("parities", {"parities": [[[0, 4], None]]}, "3 features and a constant"),
    "a longer list": ("head", {"items": [1, 2, 3], "counts": [1, 2, 3], "people": 9}, "2 different items"),
    "an item twice": ("head", {"items": [1, 1], "counts": [1, 2], "people": 9}, "2 different items"),
    "an item without a count": ("head", {"items": [1, 2], "counts": [1], "people": 9}, "2 different items"),
    "an item of more bits": ("head", {"items": [1 << 64], "counts": [1], "people": 9}, "64 bits"),
    "nobody who was counted": ("head", {"items": [1], "counts": [1], "people": 0}, "at least 1"),
    "another number of labels": ("label", {"labels": [1], "protects": "records"}, "labels of 2 points"),
    "a model too many": ("label", {"labels": [1, 1], "protects": "labels", "hypothesis": CONSTANT}, "not asked for"),
    "a model that is missing": ("label with transfer", {"labels": [1], "protects": "labels"}, "was asked for"),
}


@for_each("what", sorted(WRONG))
def test_a_result_that_does_not_answer_the_request_is_refused(what):
    request_, result, words = WRONG[what]
    with pytest.raises(BadMessage, match=words):
        parse_operation(REQUESTS[request_]).read(result)
