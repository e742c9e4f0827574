"""The model-agnostic learner: what it declares, what it refuses beforehand, and what it learns."""

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.data.distributions.clusters import ClassClusters
from common.local.hypotheses.composed import Argmax
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian, Release, SubsampledRelease
from common.privacy.theorems.gaussian_dp import delta_of
from curator.learners import teachers
from curator.learners.base import parse_learner
from curator.learners.model_agnostic import ModelAgnostic
from curator.mechanisms.access import Access
from tests.curator.learners import given
from tests.tiers import for_each, thinned

TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 3}}
LINEAR = {"classifier": "RidgeClassifier"}
WRONG = {"classifier": "LinearSVC", "parameters": {"C": -1.0}}
GNMAX = {"name": "gnmax", "noise": 5.0}
SPARSE = {"name": "sparse-vector", "epsilon": 3.0, "delta": 1e-3, "cutoff": 4}
EASY = {**SPARSE, "epsilon": 40.0, "cutoff": 20}
N = 4000


def learner(**settings: Any) -> ModelAgnostic:
    known = {"chunks": 60, "teacher": TREE, "student": LINEAR, "aggregation": GNMAX, "queries": 200}
    found = parse_learner({"name": "model-agnostic", **known, **settings})
    assert isinstance(found, ModelAgnostic)
    return found


def people(n: int, seed: int = 1) -> Records:
    features = np.random.default_rng(seed).uniform(-1, 1, size=(n, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0.1, 1, -1).astype(np.int8))


PUBLIC, PEOPLE = people(200, 2), people(N)


def learned(chosen: ModelAgnostic, records: Records = PEOPLE, public: Records | None = PUBLIC) -> Any:
    """Check as a curator does, and learn."""
    chosen.check(records.features.dtype, records.dimension)
    chosen.check_public(public)
    chosen.check_people(len(records))
    return given.learned(chosen, records, public=public)


CLUSTERS = ClassClusters(side="target", d=3, classes=4, spread=0.1)
CLASSES: dict[str, Any] = {
    "chunks": 80, "classes": {"first": 3, "count": 4},
    "teacher": {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 5}},
}  # fmt: skip


def classes_learner(**settings: Any) -> ModelAgnostic:
    return learner(**{**CLASSES, **settings})


def classes_people(n: int, seed: int) -> Records:
    return CLUSTERS.draw(seed, np.arange(n))


CLASSES_PEOPLE, CLASSES_PUBLIC = classes_people(N, 1), classes_people(200, 2)


WAYS: dict[str, dict[str, Any]] = {
    "gnmax": {}, "gnmax for a budget": {"aggregation": {"name": "gnmax", "epsilon": 3.0, "delta": 1e-3}},
    "sparse vector": {"aggregation": EASY},
    "sparse vector, estimated": {"aggregation": {**EASY, "epsilon": 95.0, "cutoff": 40, "estimate": 0.1}},
    "stability": {"aggregation": {"name": "stability", "epsilon": 99.0, "delta": 1e-3}},
    "draws": {"aggregation": {"name": "gnmax", "epsilon": 3.0, "delta": 1e-3}, "draws": 2000},
    "draws, sparse vector": {"aggregation": EASY, "draws": 3000}, "by content": {"by": "content"},
    "labels only": {"protects": "labels", "chunks": 40}, "graph": {"student": {"classifier": "GaussianNB"}},
    "classes": CLASSES, "classes, by content": {**CLASSES, "by": "content"},
    "classes, labels only": {**CLASSES, "protects": "labels"},
    "classes, forest": {
        **CLASSES, "student": {"classifier": "RandomForestClassifier", "parameters": {"n_estimators": 20}}
    },
    "classes, sparse vector": {**CLASSES, "aggregation": {**EASY, "epsilon": 90.0, "cutoff": 40, "estimate": 0.1}},
    "classes, draws": {**CLASSES, "aggregation": {"name": "gnmax", "epsilon": 3.0, "delta": 1e-3}, "draws": 3000},
}  # fmt: skip


@for_each("way", thinned(WAYS, 6))
def test_it_learns_what_the_teachers_know(way):
    chosen, several = learner(**WAYS[way]), "classes" in WAYS[way]
    own, public = (CLASSES_PEOPLE, CLASSES_PUBLIC) if several else (PEOPLE, PUBLIC)
    found = learned(chosen, own, public)
    assert found.mistakes(classes_people(4000, 3) if several else people(2000, 3)).mean() < (0.12 if several else 0.1)
    assert isinstance(found, Argmax) == several
    assert parse_hypothesis(found.wire()) == found == learned(chosen, own, public)


def test_gnmax_declares_exact_gaussian_releases():
    by_content: Any = learner(by="content").event(1e-3)
    assert (by_content.count, by_content.mu) == (200, pytest.approx(2.0 * math.sqrt(2.0) / 5.0))
    budgeted: Any = learner(**WAYS["gnmax for a budget"]).event(1e-3)
    assert isinstance(budgeted, Gaussian)
    assert delta_of(budgeted.mu * math.sqrt(200), 3.0) == pytest.approx(1e-3, rel=1e-6)
    twice_the_noise: Any = learner(**WAYS["gnmax for a budget"], by="content").event(1e-3)
    assert twice_the_noise.mu == pytest.approx(budgeted.mu)


def test_on_draws_it_declares_a_release_of_so_many_draws():
    for way, epsilon, draws in (("draws", 3.0, 2000), ("draws, sparse vector", 40.0, 3000)):
        event = learner(**WAYS[way]).event(1e-3)
        assert event == SubsampledRelease(draws=draws, tv_bound=1e-3, epsilon=epsilon, delta=1e-3)
    assert learner(aggregation=SPARSE).event(1e-3) == Release(epsilon=3.0, delta=1e-3)


def test_labels_only_needs_no_public_sample_and_a_first_half_teaches_nobody():
    chosen = learner(**WAYS["labels only"])
    access = Access(chosen.event(1.0), given.drawn(PEOPLE), RandomSource.seeded(1), None)
    np.testing.assert_array_equal(chosen.points(access, None, 0, 200), PEOPLE.features[:200])
    turned = Records(PEOPLE.features, np.where(np.arange(N) < N // 2, -1, 1).astype(np.int8) * PEOPLE.labels)
    assert learned(chosen, public=None) == learned(chosen, turned, None)


def test_mistakes_are_estimated_with_the_epsilon_and_the_people_that_are_set_aside_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def none(cast: Any, classes: Any, touched: int, epsilon: float, source: RandomSource) -> float:
        seen.append((cast.shape, len(classes), touched, epsilon))
        return 0.0

    monkeypatch.setattr(teachers, "estimate_mistakes", none)
    chosen = learner(aggregation={**EASY, "epsilon": 9.0, "cutoff": 5, "estimate": 0.1}, by="content")
    said = chosen.mechanism(PUBLIC.features).apply(iter([PEOPLE]), RandomSource.seeded(1))
    assert seen == [((60, 60), 60, 2, math.nextafter(0.9 - 4 * 0.9 * 2.0**-52, 0.0))]
    assert np.count_nonzero(said == -1) == 1  # without mistakes, one bottom is enough
    records, aside = chosen.mechanism(PUBLIC.features).split_records(PEOPLE)
    assert (len(records), len(aside)) == (N // 2, 60)
    np.testing.assert_array_equal(aside.features, PEOPLE.features[N // 2 : N // 2 + 60])


@for_each(
    ("settings", "says"),
    [
        ({"aggregation": {"name": "gnmax"}}, "either noise, or both"),
        ({"aggregation": {"name": "gnmax", "noise": 1.0, "epsilon": 1.0}}, "either noise, or both"),
        ({"aggregation": {"name": "gnmax", "noise": 0.0}}, "noise"),
        ({"aggregation": {"name": "majority"}}, "aggregation"),
        ({"draws": 1000}, "give the aggregation's epsilon and delta"),
        ({"draws": 50, "aggregation": {"name": "gnmax", "epsilon": 1.0, "delta": 1e-3}}, "60 chunks are more than"),
        ({"draws": 100, "aggregation": {**SPARSE, "estimate": 0.1}}, "more than the 50 draws"),
        ({"draws": 1000, "protects": "labels"}, "leave draws out"),
        ({"teacher": {"classifier": "os.system"}}, "no such classifier"),
        ({"chunks": 0}, "chunks"),
        ({"by": "name"}, "by"),
        *(({"classes": classes}, "classes") for classes in ({"first": 0, "count": 4}, {"first": 3, "count": 1}, 4)),
        ({"classes": {"first": 3, "count": 65}}, "classes"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(BadInput, match=says):
        learner(**settings)


@for_each(
    ("settings", "people", "says"),
    [
        ({"chunks": 4001}, 4000, "4001 chunks are more than the 4000 records"),
        ({"chunks": 2001, "protects": "labels"}, 4000, "2001 chunks are more than the 2000"),
        ({"chunks": 2001, "aggregation": {**SPARSE, "estimate": 0.1}}, 4000, "2001 chunks are more than the 2000"),
        ({"queries": 2001, "protects": "labels"}, 4000, "unlabelled half of the sample has 2000"),
        ({"aggregation": {**SPARSE, "cutoff": 100_000, "epsilon": 0.1}}, 4000, "lower the cutoff"),
        ({"aggregation": {**SPARSE, "epsilon": 100.0, "estimate": 0.5}}, 4000, "from 0.001 to 30, found 50"),
        ({"aggregation": {"name": "stability", "epsilon": 0.01, "delta": 1e-6}}, 4000, "stability: .* can be drawn"),
    ],
)
def test_a_sample_that_is_too_small_is_refused(settings, people, says):
    with pytest.raises(BadScenario, match=says):
        learner(**settings).check_people(people)
    for public in (None, PUBLIC.take(np.arange(199))):
        with pytest.raises(BadScenario, match="labels 200 public points"):
            learner().check_public(public)


def test_a_model_that_cannot_be_exported_is_refused_before_anything_private_is_touched(monkeypatch):
    def unwritable(*_: Any) -> None:
        raise ValueError("nobody wrote it")

    monkeypatch.setattr("curator.learners.scikit.as_hypothesis", unwritable)
    with pytest.raises(BadScenario, match="RidgeClassifier: its model cannot be sent as data"):
        learner().check(np.dtype(np.float32), 3)


def test_boolean_features_are_fine():
    features = np.random.default_rng(1).integers(0, 2, size=(N, 4)).astype(np.uint8)
    records = Records(features, np.where(features[:, 0] == features[:, 1], 1, -1).astype(np.int8))
    assert learned(learner(student=TREE), records, records.take(np.arange(200))).mistakes(records).mean() < 0.05


def test_labels_and_the_public_points_classes_are_looked_at_by_nobody():
    blind = Records(CLASSES_PUBLIC.features.copy(), CLASSES_PUBLIC.labels)
    blind.features[:, 3:] = 0.0
    turned = Records(CLASSES_PEOPLE.features, -CLASSES_PEOPLE.labels)
    one = learned(classes_learner(), CLASSES_PEOPLE, CLASSES_PUBLIC)
    assert learned(classes_learner(), turned, blind) == one
    # Several classes cost what two cost.
    assert classes_learner().event(1.0) == classes_learner(classes=None).event(1.0)


def test_points_without_an_answer_get_any_class_alike():
    chosen = classes_learner(student={"classifier": "DecisionTreeClassifier"})
    grown: Any = chosen.transfer(CLASSES_PUBLIC.features[:, :3], np.full(200, -1), RandomSource.seeded(1).derive)
    # 200 draws of four classes: 50 each, standard deviation 6.1.
    assert (np.abs(np.bincount(grown.classes(CLASSES_PUBLIC.features), minlength=4) - 50) < 25).all()


@for_each(
    ("settings", "dimension", "says"),
    [
        ({"classes": None, "teacher": WRONG}, 3, "LinearSVC cannot learn"),
        ({"classes": None, "student": WRONG}, 3, "LinearSVC cannot learn"),
        ({}, 6, "stand in features 3 to 6, records have 6"),
        ({"student": {"classifier": "GaussianNB"}}, 7, "must be linear or made of trees"),
        ({"teacher": WRONG}, 7, "LinearSVC cannot learn"),
        ({"teacher": {"classifier": "LogisticRegression", "parameters": {"solver": "liblinear"}}}, 7, "cannot learn"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_private_is_touched(settings, dimension, says):
    with pytest.raises(BadScenario, match=says):
        classes_learner(**settings).check(np.dtype(np.float32), dimension)
