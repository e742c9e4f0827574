"""The learner whose hyperparameters are chosen privately: its two parts, its candidates, its price, what it gives."""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks.audits.subjects import NoisyMean, registered
from common.core.errors import BadScenario, BudgetExceeded
from common.learners.base import Calls, parse_settings
from common.local.hypotheses.hypothesis import Linear
from common.local.records import Records
from common.privacy.budget import cost
from common.privacy.events import PrivateSelection
from common.privacy.theorems.selection import geometric, mu_for_selection
from common.scenario.loading import load
from curator.learners.base import parse_learner
from curator.startup import open_curator
from deploy.checking import checked
from deploy.simulation import conduct
from tests.curator.learners.given import learned
from tests.tiers import for_each

LAW = {"name": "negative-binomial", "gamma": 0.2, "most": 15}
SETTINGS = {
    "name": "chosen", "learner": {"name": "noisy-mean"}, "grid": {"threshold": [-0.6, 0.0, 0.3, 5.0]}, "law": LAW,
    "mu": 1.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def known():
    with registered():
        yield


def people(n=3000, seed=1):
    features = np.random.default_rng(seed).uniform(-1, 1, size=(n, 1)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def learn(records, seed=1, public=None, **changes):
    return learned({**SETTINGS, **changes}, records, seed, public=public)


def test_one_record_is_in_one_part_and_the_parts_are_a_function_of_the_places():
    seen = []

    def fit(self, access, previous, public=None):
        seen.append(Records.joined(list(access._sampler.everybody())).features[:, 0])
        return Linear(weights=(1.0,), threshold=0.0)

    records = Records(np.arange(23, dtype=np.float32)[:, None], np.ones(23, dtype=np.int8))
    with (
        patch.object(NoisyMean, "learn", fit),
        patch(
            "common.local.losses.HypothesisLoss.count",
            lambda loss, held: seen.append(held.features[:, 0]) or np.zeros(1),
        ),
    ):
        learn(records, validation=0.3)
    training, validation = seen[:2]
    assert sorted([*training, *validation]) == list(range(23))
    assert len(validation) == 6
    assert np.diff(validation).max() <= 4
    assert all(np.array_equal(one, training) for one in seen[::2])
    assert len(seen) == 2 * LAW["most"]


def test_public_people_may_judge_and_then_everybody_private_is_for_training():
    seen = []

    def fit(self, access, previous, public=None):
        seen.append((access.people, len(public)))
        return Linear(weights=(1.0,), threshold=self.threshold)

    judged = {"judges": "public", "law": {**LAW, "gamma": 0.05, "most": 60}}
    records, public = people(50), people(400, seed=2)
    with patch.object(NoisyMean, "learn", fit), patch("curator.mechanisms.sums.noisy_sum", side_effect=AssertionError):
        found = Counter(learn(records, seed, public, **judged).threshold for seed in range(12))
    assert set(seen) == {(50, 320)}
    assert found[0.0] >= 10
    learner = parse_learner({**SETTINGS, **judged})
    learner.check_people(1)
    checked_with: list[int] = []
    with patch.object(NoisyMean, "check_public", lambda self, part: checked_with.append(len(part))):
        learner.check_public(public)
    assert set(checked_with) == {320}
    for wanting in (None, people(4)):
        with pytest.raises(BadScenario, match="public people for validation"):
            learner.check_public(wanting)


@for_each(
    ("loss", "cut", "parts", "total"),
    [("zero-one", 0.1, 1, 20), ("squared", 1.0, 1024, 6000), ("squared", 0.125, 128, 2560)],
)
def test_a_score_is_cut_where_its_noise_is_measured(loss, cut, parts, total):
    """20 of 100 people judge, each of whom loses 1, or 300 of 1024."""
    seen, each = [], 1 if loss == "zero-one" else 300

    def noisy(*given):
        seen.append(given[:3])
        return given[0]

    with (
        patch("curator.mechanisms.sums.noisy_sum", noisy),
        patch("common.local.losses.HypothesisLoss.count", lambda loss, held: np.full(len(held), each)),
    ):
        learn(people(100), loss=loss, cut=cut)
    assert set(seen) == {(total, parts, SETTINGS["mu"])}


@for_each(
    ("changes", "says"),
    [
        ({"grid": {}}, "grid"), ({"grid": {"threshold": []}}, "found 0"),
        ({"grid": {"threshold": list(range(300))}}, "found 300"), ({"grid": {"mu": [1.0, 2.0]}}, "mu is the same"),
        ({"grid": {"name": ["sgd"]}}, "name is the same"),
        ({"learner": {"name": "noisy-mean", "mu": 0.1}}, "mu is the same"),
        ({"grid": {"treshold": [1.0]}}, "unknown key"), ({"grid": {"releases": [1, 2]}}, "more than mu"),
        ({"learner": {"name": "oracle"}}, "no learner has the name"),
        ({"learner": {"name": "parity", "epsilon": 1.0}, "grid": {"blocks": [1]}}, "mu"),
        ({"learner": {}}, "no learner has the name"), ({"validation": 1.0}, "validation"),
        ({"law": {"name": "negative-binomial", "gamma": 0.2}}, "most"), ({"loss": "mood"}, "loss"),
        ({}, "leaves 0 of 4 people"),
    ],
)  # fmt: skip
def test_what_cannot_be_chosen_from_is_refused(changes, says):
    with pytest.raises(BadScenario, match=says):
        parse_learner({**SETTINGS, **changes}).check_people(4)


@for_each(
    ("name", "changed", "says"),
    [
        ("event", lambda self, _: PrivateSelection(mu=self.mu, law=geometric(2.0)), "declares selected events"),
        ("by_choice", frozenset({"onnx"}), "not everybody"),
    ],
)
def test_learners_without_gaussian_releases_or_of_which_not_everybody_takes_hypotheses_are_refused(name, changed, says):
    with patch.object(NoisyMean, name, changed), pytest.raises(BadScenario, match=says):
        parse_learner(SETTINGS)


@for_each(
    ("method", "given"),
    [("check", (np.float32, 3)), ("check_public", (None,)), ("check_people", (3000,)), ("check_here", ()),
     ("check_run", (1, ()))],
)  # fmt: skip
def test_what_a_candidate_refuses_is_refused(method, given):
    def refuse(self, *given):
        if self.threshold == 5.0:
            raise BadScenario("not this one")

    with patch.object(NoisyMean, method, refuse), pytest.raises(BadScenario, match="not this one"):
        getattr(parse_learner(SETTINGS), method)(*given)


def test_planning_prices_it_by_its_event():
    mu = mu_for_selection(2.0, 1e-6, geometric(5.0, 15))
    learner = parse_settings({**SETTINGS, "mu": mu})
    assert Calls(10, None, 1.0, 2).events(learner) == [(parse_learner(learner).event(1.0), 2)]
    assert 1.999 < cost(Calls(10, None, 1.0, 1).events(learner), 1e-6) <= 2.0


ADAPTATION = (
    "curator.n=2000", "curator.epsilon=4.0", "public.count=800", "agents.count=2000", "source.distribution.d=4",
    "target.distribution.d=4", "public.distribution.d=4", "divergence={chi_squared: 1.0}", "alpha=0.05",
    "curator.learner={name: chosen, grid: {alpha: [0.2, 0.5, 0.8]}, mu: plan, loss: squared, cut: 0.05,"
    " law: {name: negative-binomial, gamma: 0.2, most: 15},"
    " learner: {name: cnvx-adap, features: 4, response: 4, iterations: 60, norm: 1.0, radius: 2.0}}",
)  # fmt: skip


@pytest.mark.slow
def test_a_run_with_a_choice_keeps_to_its_budget_and_is_the_same_with_the_same_seed():
    scenario = checked(load("domain-adaptation", ADAPTATION))
    learner = parse_learner(scenario.curator.learner)
    assert 3.99 < cost([(learner.event(1.0), 1)], 1e-6) <= 4.0
    first, again, other = (conduct(scenario, seed, lambda *_: None) for seed in (1, 1, 2))
    assert first == again != other
    assert first.status == "done"
    assert first.answer.kind == "regressor"  # type: ignore[attr-defined]


@for_each(
    ("change", "error", "says"),
    [
        ("curator.delta=0", BadScenario, "positive delta"),
        ("curator.rounds=2", BadScenario, "for one round, found 2"),
        ("curator.epsilon=null", BadScenario, "epsilon"),
        ("curator.learner.mu=1.0", BudgetExceeded, "epsilon"),
    ],
)
def test_what_cannot_be_planned_or_paid_is_refused_before_anything_is_learned(change, error, says, tmp_path):
    with pytest.raises(error, match=says):
        open_curator(checked(load("domain-adaptation", (*ADAPTATION, change))), tmp_path, 1, None)
