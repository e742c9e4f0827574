"""Planning the model-agnostic learner: the budget is used up and kept, and teachers are heard through the noise."""

from __future__ import annotations

from typing import Any

import pytest

from common.core.errors import BadScenario
from common.learners.base import Calls
from common.planning.accepting import violations
from common.planning.plan import plan, resolve
from common.scenario.loading import load
from common.scenario.scenario import Scenario, parse
from curator.learners.base import parse_learner
from deploy.checking import checked
from tests.tiers import for_each, thinned

SPARSE = {"name": "sparse-vector", "cutoff": 30, "epsilon": "plan", "delta": "plan"}


def scenario(name: str = "model-agnostic", learner: dict[str, Any] | None = None, **curator: Any) -> Scenario:
    tree = load(name).wire()
    tree["curator"] = {**tree["curator"], **curator}
    tree["curator"]["learner"] = {**tree["curator"]["learner"], **(learner or {})}
    return parse(tree)


def cost_of(resolved: Scenario) -> float:
    curator = resolved.curator
    return Calls(curator.n, curator.kappa, curator.eta, curator.rounds).spent(curator.settings, curator.delta)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("model-agnostic", {}, {}),
    ("model-agnostic", {}, {"rounds": 3}),
    ("model-agnostic", {"by": "content"}, {}),
    ("model-agnostic", {"aggregation": {"name": "gnmax", "epsilon": "plan", "delta": "plan"}}, {}),
    ("model-agnostic", {"aggregation": SPARSE}, {}),
    ("model-agnostic", {"aggregation": {"name": "stability", "epsilon": "plan", "delta": "plan"}}, {}),
    ("model-agnostic", {"aggregation": {**SPARSE, "estimate": 0.2}}, {}),
    ("model-agnostic-transfer", {}, {}),
    ("model-agnostic-transfer", {"draws": 9000}, {"rounds": 7, "eta": 0.3}),
    ("model-agnostic-transfer", {"aggregation": SPARSE}, {}),
]


@for_each(("name", "learner", "curator"), thinned(CASES, 4, several=True))
def test_plans_keep_to_the_budget_and_use_it(name, learner, curator):
    resolved = checked(scenario(name, learner, **curator))
    assert "'plan'" not in str(resolved.wire())
    total = cost_of(resolved)
    assert total <= resolved.curator.epsilon
    shared = "rounds" in curator and name == "model-agnostic" and "aggregation" in learner
    assert shared or total > 0.99 * resolved.curator.epsilon
    assert not [text for text in violations(resolved) if text.startswith("privacy")]
    event = parse_learner(resolved.curator.learner).event(1.0)
    assert event.kind in ("gaussian", "release", "subsampled-release")


def test_the_numbers_of_the_corrections_are_the_plan():
    found = plan(scenario())
    assert found.settings["sigma"].value == pytest.approx(188.94, abs=0.01)
    assert found.settings["chunks"].value == 1002
    assert found.settings["flips"].value == pytest.approx(0.00135, abs=1e-5)
    assert found.sample.value == 1002 * 50  # k V/alpha


def test_chunks_of_a_sparse_vector_reach_its_margin():
    found = plan(scenario(learner={"aggregation": SPARSE}))
    margin, chunks = found.settings["margin"].value, found.settings["chunks"].value
    # Nine in ten of k agree: the distance is (c1 - c2)/2 - 1 = 0.4 k - 1.
    assert 0.4 * (chunks - 1) - 1 < margin <= 0.4 * chunks - 1


def test_several_classes_cost_nothing_but_answers_that_go_wrong():
    two, six = (plan(scenario(learner={"classes": classes})) for classes in (None, {"first": 3, "count": 6}))
    for name in ("sigma", "chunks"):
        assert six.settings[name].value == two.settings[name].value
    assert six.sample.value == two.sample.value
    assert two.settings["flips"].value < six.settings["flips"].value < 3 * two.settings["flips"].value


def test_content_takes_twice_the_noise():
    one, two = (plan(scenario(learner={"by": by})).settings["sigma"].value for by in ("slot", "content"))
    assert two == pytest.approx(2.0 * one)


def test_what_is_given_is_kept():
    resolved = resolve(scenario(learner={"chunks": 77, "aggregation": {"name": "gnmax", "noise": 500.0}}))
    assert resolved.curator.settings.chunks == 77  # type: ignore[attr-defined]
    assert resolved.curator.settings.aggregation.noise == 500.0  # type: ignore[attr-defined]


@for_each(
    ("name", "learner", "curator", "says"),
    [
        ("model-agnostic", {}, {"delta": 0.0}, "positive delta"),
        ("model-agnostic", {"aggregation": {"name": "majority"}}, {}, "gnmax', 'stability', 'sparse-vector'"),
        ("model-agnostic", {"aggregation": {**SPARSE, "delta": 1e-9}}, {}, "leave both epsilon and delta"),
        ("model-agnostic", {"queries": "plan"}, {}, "cannot be left at plan"),
        ("model-agnostic-transfer", {"aggregation": {"name": "gnmax", "noise": "plan"}}, {}, "not noise"),
        ("model-agnostic-transfer", {}, {"kappa": None}, r"needs curator\.n and curator\.kappa"),
    ],
)
def test_what_cannot_be_planned_is_refused(name, learner, curator, says):
    with pytest.raises(BadScenario, match=says):
        checked(scenario(name, learner, **curator))


def test_too_dear_a_learner_is_a_violation():
    dear = scenario(learner={"chunks": 77, "aggregation": {"name": "gnmax", "noise": 10.0}})
    assert any("budget is 1" in text for text in violations(dear))
