"""Head list and counts: the law of each, spurious values, disjoint halves, and what a neighbour changes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.audits.subjects import Office
from common.core.errors import BadScenario, BudgetExceeded, PolicyRefused
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.mechanisms.mechanism import Laplace
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import HeadList, LabelPoints
from common.privacy.budget import cost
from common.privacy.events import Gaussian, Release
from common.privacy.rounding import down
from common.protocols.frequencies import SPURIOUS, threshold
from common.scenario.scenario import ResolvedScenario, parse_resolved
from curator.engine import Workspace
from curator.mechanisms.counts import top_items
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from tests.curator.operations.given import assert_law, charged, geometric, numbers, offices, release, workspace
from tests.tiers import for_each, thinned

MOST = 40
"""Noise beyond this hardly ever comes, at the epsilons here."""


@pytest.fixture
def generous(monkeypatch):
    """A threshold that empty cells reach quite often."""
    monkeypatch.setattr("common.protocols.frequencies.SPURIOUS", 0.8)


@pytest.mark.usefixtures("generous")
@pytest.mark.parametrize("counts", thinned([(0, 1), (0, 0), (1, 0), (2, 2)], 1))
@pytest.mark.parametrize("most", [1, 2])
def test_the_list_is_a_function_of_the_noisy_histogram(counts, most):
    """Which values are held shows in the noisy counts only: neither in the order of equals, nor in what is left out."""
    noise = Laplace(epsilon=1.0)
    values = np.repeat(np.arange(2, dtype=np.uint64), counts)
    found = [tuple(top_items(values, 1, most, noise, RandomSource.seeded(seed)).tolist()) for seed in range(800)]
    assert_law(found, truncated(counts, noise, most, threshold(1, noise), MOST))


@for_each("bits", [8, 48, 64])
@for_each("epsilon", [0.3, 1.0, 8.0])
def test_the_threshold_is_the_least_that_keeps_spurious_values_rare(bits, epsilon):
    noise = Laplace(epsilon=epsilon)
    least = threshold(bits, noise)
    expected = [2.0**bits * noise.ratio**t / (1.0 + noise.ratio) for t in (least - 1, least)]
    assert expected[1] <= SPURIOUS * (1 + 1e-9)
    assert expected[0] > SPURIOUS * (1 - 1e-9) or least == 1


@pytest.mark.slow
def test_spurious_values_are_uniform_among_those_that_nobody_holds(monkeypatch):
    monkeypatch.setattr("common.protocols.frequencies.SPURIOUS", 3.0)
    noise, held = Laplace(epsilon=2.0), np.repeat(np.array([2, 9], dtype=np.uint64), 50)
    least = threshold(4, noise)
    chance = noise.ratio**least / (1.0 + noise.ratio)
    lists = [top_items(held, 4, 16, noise, RandomSource.seeded(seed)).tolist() for seed in range(1000)]
    assert all(sorted(items[:2]) == [2, 9] for items in lists)
    counts = np.bincount([item for items in lists for item in items[2:]], minlength=16)
    assert counts[2] == counts[9] == 0
    # Fourteen cells at 5.5 standard errors: chance below 1e-6.
    others = np.delete(counts, [2, 9])
    assert np.abs(others - 1000 * chance).max() < 5.5 * np.sqrt(1000 * chance * (1 - chance))
    assert_law([len(items) - 2 for items in lists], {k: float(binom.pmf(k, 14, chance)) for k in range(15)})


def test_the_domain_of_64_bits_is_no_larger_than_others():
    values = np.full(200, (1 << 64) - 1, dtype=np.uint64)
    assert top_items(values, 64, 4, Laplace(epsilon=1.0), RandomSource.seeded(0)).tolist() == [(1 << 64) - 1]
    assert top_items(values[:0], 64, 4, Laplace(epsilon=1.0), RandomSource.seeded(0)).tolist() == []


# Both halves ---------------------------------------------------------------------------------------------------------

EXACT = 60.0
"""So much privacy to spend that there hardly is noise."""


def test_the_people_at_even_places_choose_and_those_at_odd_places_are_counted():
    values = np.empty(20, dtype=int)
    values[::2], values[1::2] = [5] * 6 + [1] * 4, [5] * 3 + [2] * 7
    for cut in (0, 7):
        found = release(HeadList(bits=3, most=8, epsilon=EXACT), numbers(values, 3), cut=cut)
        assert found == {"items": [5, 1], "counts": [3, 0], "people": 10}
    assert release(HeadList(bits=3, most=1, epsilon=EXACT), numbers(values, 3))["items"] == [5]
    odd = release(HeadList(bits=2, first=1, most=8, epsilon=EXACT), numbers(values[:-1], 3))
    assert odd == {"items": [1], "counts": [3], "people": 9}


@pytest.mark.slow
def test_counts_have_geometric_noise_at_half_of_epsilon():
    values = np.empty(140, dtype=int)
    values[::2], values[1::2] = 5, [5] * 30 + [0] * 40
    noise = Laplace(epsilon=1.0)
    found = [release(HeadList(bits=3, most=1, epsilon=2.0), numbers(values, 3), seed) for seed in range(500)]
    assert {tuple(told["items"]) for told in found} == {(5,)}
    assert_law([told["counts"][0] - 30 for told in found], geometric(noise, MOST))


def test_one_person_alone_cannot_be_in_two_halves():
    asked = HeadList(bits=3, most=4, epsilon=1.0)
    with pytest.raises(PolicyRefused, match="that takes two people, found 1"):
        workspace(numbers([3], 3)).check(asked)
    workspace(numbers([3, 3], 3)).check(asked)


def test_a_person_is_in_one_half_only():
    """With the same randomness a person at an odd place changes no list, one at an even place no count of it."""
    values = np.array([3, 3, 6, 6] * 20)
    one = release(HeadList(bits=3, most=4, epsilon=1.0), numbers(values, 3), seed=4)
    counted, chosen = values.copy(), values.copy()
    counted[1], chosen[0] = 6, 6
    other = release(HeadList(bits=3, most=4, epsilon=1.0), numbers(counted, 3), seed=4)
    assert other["items"] == one["items"]
    moved = dict(zip(other["items"], np.subtract(other["counts"], one["counts"]), strict=True))
    assert (moved[3], moved[6]) == (-1, 1)
    third = release(HeadList(bits=3, most=4, epsilon=1.0), numbers(chosen, 3), seed=4)
    if third["items"] == one["items"]:
        assert third["counts"] == one["counts"]


@for_each("most", [1, 2, 3])
def test_neighbours_have_lists_within_e_to_the_epsilon(most):
    """All samples of two people, and three cells; the noise is for epsilon/2, as two cells change."""
    epsilon = 2.4
    noise = Laplace(epsilon=down(epsilon / 2.0))
    laws = {}
    for sample in product(range(3), repeat=2):
        counts = tuple(np.bincount(sample, minlength=3).tolist())
        laws[sample] = truncated(counts, noise, most)
    largest = 0.0
    for (kept, one), other in product(laws, range(3)):
        p, q = laws[kept, one], laws[kept, other]
        largest = max(largest, *(np.log(p[answer] / q[answer]) for answer in p if q[answer] > 1e-6))
    assert 0.5 * epsilon < largest <= epsilon * (1 + 1e-3)


def truncated(counts, noise, most, least=1, width=9):
    """Return the law of the list: the largest noisy counts from ``least`` on first, of equals the smaller cell.

    The noise is in a window; what is left out with the narrow one is below 1e-4 of each chance here.
    """
    cells, q, count = np.arange(-width, width + 1), noise.ratio, len(counts)
    mass = np.prod(np.meshgrid(*[(1 - q) / (1 + q) * q ** np.abs(cells)] * count, indexing="ij"), axis=0).ravel()
    noisy = np.stack([grid.ravel() for grid in np.meshgrid(*[held + cells for held in counts], indexing="ij")])
    order = np.lexsort((np.broadcast_to(np.arange(count)[:, None], noisy.shape), -noisy), axis=0)
    long = np.minimum((np.take_along_axis(noisy, order, axis=0) >= least).sum(axis=0), most)
    chances: Any = Counter()
    for length in range(most + 1):
        chosen = long == length
        for key, chance in zip(map(tuple, order[:length, chosen].T.tolist()), mass[chosen], strict=True):
            chances[key] += chance
    return chances


N, POINTS = 600, 40
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 2}}
LEARNER: dict[str, Any] = {"name": "model-agnostic", "chunks": 30, "queries": POINTS, "teacher": TREE, "student": TREE}
LEARNER["aggregation"] = {"name": "gnmax", "noise": 4.0}
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
            **{side: {"distribution": person} for side in ("source", "target")},
            "public": {"distribution": person, "count": POINTS},
            "curator": {**section, **curator},
            "agents": {"count": 10, "mechanism": {"name": "warner", "epsilon": 1.0}},
        }
    )


@pytest.fixture
def local_curator(tmp_path) -> Iterator[Callable[..., Office]]:
    """Return how to open a curator with the public points and such a learner."""
    with offices(tmp_path) as opening:

        def of_learner(changes: Mapping[str, Any] = LEARNER, public: Records | None = PUBLIC, **curator: Any) -> Office:
            return opening(scenario({**LEARNER, **changes}, **curator), SAMPLE, public=public)

        yield of_learner


def wire(**fields: Any) -> dict[str, Any]:
    return {"kind": "label", "count": POINTS, **fields}


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


def test_learners_without_answers_of_their_own_are_refused(local_curator):
    draws = {"draws": 100, "aggregation": {"name": "gnmax", "epsilon": 1e-3, "delta": 1e-6}}
    with pytest.raises(PolicyRefused, match="wants draws"):
        local_curator(draws, kappa=0.5).ask(wire())
    records = LocalSample.from_records(SAMPLE)
    bare = Workspace(records, Reweighing(N, None, 1.0), None, public=PUBLIC)
    with pytest.raises(PolicyRefused, match="takes a curator whose learner is model-agnostic"):
        bare.event(LabelPoints(count=1))


def test_a_curator_does_not_open_where_its_learner_cannot_work(local_curator):
    graph = {"classes": {"first": 1, "count": 2}, "student": {"classifier": "GaussianNB"}}
    for changes, public, says in (
        ({}, None, "public section has 0"),
        ({"chunks": N + 1}, PUBLIC, "601 chunks"),
        ({"classes": {"first": 2, "count": 2}}, PUBLIC, "records have 3 features"),
        (graph, PUBLIC, "linear or made of trees"),  # it has no place among several
    ):
        with pytest.raises(BadScenario, match=says):
            local_curator(changes, public)
