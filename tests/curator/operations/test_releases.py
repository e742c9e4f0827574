"""What every operation that releases something of the sample itself must keep: checked, charged once, stored."""

from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pytest

from benchmarks.audits.subjects import Office, office, policy
from common.core.errors import BadMessage, BudgetExceeded, OperationFailed, PolicyRefused, TandemError
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import OPERATIONS, Count, parse_operation
from common.privacy.budget import cost
from common.privacy.events import Release
from common.protocols.base import DEMANDS, Demands
from common.protocols.patterns import curator, many
from curator.curator import Curator
from tests.curator.operations.given import charged, offices, release
from tests.support import small
from tests.tiers import for_each

EPSILON = 1.0
RELEASES: dict[str, dict[str, Any]] = {
    "select": {"first": 1, "count": 5},
    "count": {"feature": 5},
    "parities": {"features": 2, "first": 2, "bits": 4, "blocks": 2, "parts": 3},
    "head": {"first": 1, "bits": 5, "most": 4},
    "margins": {"cells": {"hypothesis": {"kind": "linear", "weights": [1.0] * 6, "threshold": 3.0}, "cuts": [0.0]}},
}
"""Each reads the first six features. Of further kinds with an epsilon of their own it is their first example."""
for _kind, _operation in OPERATIONS.items():
    if "epsilon" in _operation.model_fields:
        _fields = _operation.example()[0].wire()
        RELEASES.setdefault(_kind, {name: _fields[name] for name in _fields if name not in ("kind", "epsilon")})
FEATURES = np.random.default_rng(0).integers(0, 2, (40, 24)).astype(np.uint8)
SAMPLE = Records(FEATURES, np.where(FEATURES[:, 0] > 0, 1, -1).astype(np.int8))


def wire(kind: str, **changes: Any) -> dict[str, Any]:
    return {"kind": kind, **RELEASES[kind], "epsilon": EPSILON, **changes}


@pytest.fixture
def local_curator(tmp_path, monkeypatch):
    """Return how to open a curator without a learner, with such a budget for so many releases, of any kind."""
    anything = Demands(many(reduce(or_, map(curator, [*RELEASES, "learn"]))))
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


REFUSED: dict[str, tuple[dict[str, Any], type[TandemError], str]] = {
    "margins that no noise hides": (wire("margins", epsilon=31.0), BadMessage, "epsilon"),
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
    for kind, least in {"count": 0.001, "head": 0.0025, "margins": 0.0025}.items():
        assert local_curator().ask(wire(kind, epsilon=least))


def test_parities_want_features_of_0_and_1(local_curator):
    real = Records(SAMPLE.features.astype(np.float32), SAMPLE.labels)
    TestEveryRelease.refused(local_curator(sample=real), wire("parities"), PolicyRefused, "0/1 features")


def test_a_curator_without_a_learner_learns_nothing(local_curator):
    TestEveryRelease.refused(local_curator(), {"kind": "learn", "round": 1}, PolicyRefused, "no learner")


def test_a_crash_in_an_operation_costs_once_and_repeats_bit_for_bit(tmp_path, monkeypatch, local_curator):
    expected = local_curator().ask(wire("count"))
    open_desk = local_curator()
    with monkeypatch.context() as broken:
        broken.setattr("curator.mechanisms.counts.noisy_counts", _crash)
        with pytest.raises(OperationFailed):
            open_desk.ask(wire("count"))
    assert len(charged(open_desk)) == 1
    open_desk._asked = 0
    assert open_desk.ask(wire("count")) == expected
    assert len(charged(open_desk)) == 1


def _crash(*_: object) -> None:
    raise RuntimeError("crashed")


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
    assert [release(Count(feature=5, epsilon=0.5), sample, seed, cut)["count"] for seed in range(2)] == [38, 35]
