"""Labelling public points: charged as declared, once; refused before anything is touched; the student beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario, BudgetExceeded, PolicyRefused
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.learning import Label
from common.operations.operation import parse_operation
from common.privacy.budget import cost
from common.privacy.events import Gaussian, Release
from common.scenario.resolved import ResolvedScenario, parse_resolved
from curator.engine.engine import Workspace
from curator.sample.base import LocalSample
from curator.service.curator import Curator
from curator.weights.reweighing import Reweighing
from deploy.auditing.office import Office, office
from tests.tiers import for_each

N, POINTS = 600, 40
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 2}}
LEARNER: dict[str, Any] = {
    "name": "model-agnostic",
    "chunks": 30,
    "queries": POINTS,
    "teacher": TREE,
    "student": TREE,
    "aggregation": {"name": "gnmax", "noise": 4.0},
}
SPARSE = {"name": "sparse-vector", "epsilon": 30.0, "delta": 1e-3, "cutoff": 5}


def people(n: int, seed: int) -> Records:
    features = np.random.default_rng(seed).uniform(-1, 1, size=(n, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


SAMPLE, PUBLIC = people(N, 1), people(POINTS, 2)
TRUTH = PUBLIC.labels


def scenario(learner: dict[str, Any], **curator: Any) -> ResolvedScenario:
    person = {"name": "gaussian-ball", "side": "target", "d": 3, "close": 2, "sigma_source": 0.1, "sigma_target": 0.07}
    section = {"n": N, "epsilon": 40.0, "delta": 1e-3, "kappa": None, "eta": 1.0, "rounds": 1, "learner": learner}
    return parse_resolved(
        {
            "name": "labels",
            "title": "A sample that labels",
            "protocol": "model-agnostic",
            "alpha": 0.1,
            "divergence": {"chi_squared": 1.0},
            "source": {"distribution": person},
            "target": {"distribution": person},
            "public": {"distribution": person, "count": POINTS},
            "curator": {**section, **curator},
            "agents": {"count": 10, "mechanism": {"name": "warner", "epsilon": 1.0}},
        }
    )


@pytest.fixture
def local_curator(tmp_path) -> Iterator[Callable[..., Office]]:
    """Return how to open a curator with the public points and such a learner."""
    opened: list[Any] = []

    def opening(
        changes: Mapping[str, Any] = MappingProxyType({}), public: Records | None = PUBLIC, **curator: Any
    ) -> Office:
        def kind(*arguments: Any, **names: Any) -> Curator:
            return Curator(*arguments, public=public, **names)

        chosen = scenario({**LEARNER, **changes}, **curator)
        entered = office(kind, chosen, SAMPLE, tmp_path / str(len(opened)), RandomSource.seeded(3))
        opened.append(entered)
        return entered.__enter__()

    yield opening
    for entered in opened:
        entered.__exit__(None, None, None)


def wire(**fields: Any) -> dict[str, Any]:
    return {"kind": "label", "count": POINTS, **fields}


def charged(local_curator: Office) -> list[Any]:
    return [charge.event for charge in local_curator._curator._ledger]


def test_points_are_labelled_and_charged_as_declared_and_once(local_curator):
    office = local_curator()
    first, again = office.ask(wire(transfer=True), times=2)
    assert first == again
    (event,) = charged(office)
    assert isinstance(event, Gaussian)
    assert (event.count, event.mu) == (POINTS, pytest.approx(np.sqrt(2.0) / 4.0, rel=1e-12))  # type: ignore[comparison-overlap]
    assert first["event"] == event.wire()
    assert np.mean(np.array(first["labels"]) == TRUTH) > 0.9
    assert first["protects"] == "records"
    assert parse_hypothesis(first["hypothesis"]).mistakes(people(1000, 3)).mean() < 0.2


def test_some_points_cost_less_than_all_and_operations_add_up(local_curator):
    office = local_curator(rounds=2, epsilon=60.0)
    (few,) = office.ask(wire(first=3, count=5))
    assert len(few["labels"]) == 5
    assert "hypothesis" not in few
    office.ask(wire())
    few_event, all_event = charged(office)
    assert (few_event.count, all_event.count) == (5, POINTS)
    together = cost([(few_event, 1), (all_event, 1)], 1e-3)
    assert cost([(all_event, 1)], 1e-3) < together
    assert together == pytest.approx(cost([(Gaussian(count=POINTS + 5, mu=all_event.mu), 1)], 1e-3), rel=1e-9)


def test_what_does_not_fit_into_the_budget_is_refused(local_curator):
    with pytest.raises(BudgetExceeded, match="the plan costs"):
        local_curator(epsilon=1.0)
    office = local_curator(epsilon=20.0)
    with pytest.raises(PolicyRefused, match="points up to number"):
        office.ask(wire(count=POINTS + 1))
    office.ask(wire(count=3))
    with pytest.raises((BudgetExceeded, PolicyRefused)):
        office.ask(wire())


def test_a_sparse_vector_answers_one_whole_sequence(local_curator):
    office = local_curator({"aggregation": SPARSE})
    for part in ({"count": POINTS - 1}, {"first": 1, "count": POINTS - 1}):
        with pytest.raises(PolicyRefused, match="sparse-vector answers one whole sequence, the first 40 points"):
            office.ask(wire(**part))
    assert charged(office) == []
    (told,) = office.ask(wire())
    assert charged(office) == [Release(epsilon=30.0, delta=1e-3)]
    answered = np.array([label is not None for label in told["labels"]])
    assert np.mean(answered) > 0.7
    assert all(label == truth for label, truth in zip(told["labels"], TRUTH, strict=True) if label is not None)


def test_labels_only_labels_the_first_half_of_the_sample(local_curator):
    office = local_curator({"protects": "labels"}, None, rounds=2, epsilon=60.0)
    (told,) = office.ask(wire(first=10, count=20))
    assert told["protects"] == "labels"
    assert np.mean(np.array(told["labels"]) == SAMPLE.labels[10:30]) > 0.8
    with pytest.raises(PolicyRefused, match="there are 300"):
        office.ask(wire(first=290, count=11))


def test_a_student_of_labels_only_holds_features_of_people_exactly_and_the_guarantee_says_that_it_may(local_curator):
    """Its thresholds are midpoints of two people's features, without any noise: found in every run."""
    office = local_curator({"protects": "labels"}, None, rounds=2, epsilon=60.0)
    (told,) = office.ask(wire(transfer=True))
    tree, points = told["hypothesis"], np.sort(SAMPLE.features[:POINTS], axis=0).astype(np.float64)
    asked = [(feature, cut) for feature, cut in zip(tree["feature"], tree["threshold"], strict=True) if feature >= 0]
    assert asked
    for feature, cut in asked:
        assert np.any(np.isclose((points[1:, feature] + points[:-1, feature]) / 2, cut, rtol=0, atol=1e-7))
    promised = office._curator.guarantee
    assert (promised.protects, promised.neighbours) == ("labels", "one label")
    assert "LABEL ONLY, features are not protected" in str(promised)
    assert "whole record" not in str(promised)


def test_classes_are_released_as_their_numbers(local_curator):
    classes = {"first": 1, "count": 2}
    (told,) = local_curator({"classes": classes, "student": {"classifier": "RidgeClassifier"}}).ask(wire(transfer=True))
    assert set(told["labels"]) <= {0, 1}
    assert (told["hypothesis"]["kind"], told["hypothesis"]["first"]) == ("argmax", 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"classes": {"first": 2, "count": 2}}, "records have 3 features"),
        ({"classes": {"first": 1, "count": 2}, "student": {"classifier": "GaussianNB"}}, "linear or made of trees"),
    ],
    ids=["no such columns", "a graph"],
)
def test_a_curator_does_not_open_without_the_columns_or_with_a_student_that_has_no_place_among_several(
    local_curator, changes, says
):
    with pytest.raises(BadScenario, match=says):
        local_curator(changes)


def test_learners_without_answers_of_their_own_are_refused(local_curator):
    draws = {"draws": 100, "aggregation": {"name": "gnmax", "epsilon": 1e-3, "delta": 1e-6}}
    with pytest.raises(PolicyRefused, match="wants draws"):
        local_curator(draws, kappa=0.5).ask(wire())
    records = LocalSample.of(SAMPLE)
    bare = Workspace(records, Reweighing(N, None, 1.0), None, public=PUBLIC)
    with pytest.raises(PolicyRefused, match="takes a curator whose learner is model-agnostic"):
        bare.event(Label(count=1))


def test_a_curator_does_not_open_with_too_few_public_points_or_too_many_chunks(local_curator):
    for changes, public, says in (({}, None, "public section has 0"), ({"chunks": N + 1}, PUBLIC, "601 chunks")):
        with pytest.raises(Exception, match=says):
            local_curator(changes, public)


@for_each("fields", [{"count": 0}, {"first": -1}, {"count": 1 << 21}, {"transfer": "x"}, {"more": 1}])
def test_malformed_requests_are_refused(fields):
    with pytest.raises(BadMessage):
        parse_operation(wire(**fields))
