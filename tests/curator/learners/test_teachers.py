"""Teachers: chunks and votes, of which one record moves little; and what is counted of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from common.learners.model_agnostic import TOUCHED
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.scikit import Classifier
from curator.learners.teachers import chunk_of, count_votes, distances, votes, winners
from tests.tiers import for_each

TREE = Classifier(classifier="DecisionTreeClassifier")
POINTS = np.random.default_rng(9).normal(size=(50, 3)).astype(np.float32)


def people(n: int = 200, seed: int = 1) -> Records:
    features = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def cast(records: Records, classifier: Classifier = TREE, chunks: int = 5, seed: int = 1) -> np.ndarray:
    return votes(classifier, records, np.arange(len(records)) % chunks, chunks, POINTS, RandomSource.seeded(seed))


@for_each("name", ["DecisionTreeClassifier", "RandomForestClassifier", "LogisticRegression", "GaussianNB"])
def test_a_record_changes_the_votes_of_its_own_teacher_only(name):
    classifier = Classifier(classifier=name, parameters={"n_estimators": 3} if "Forest" in name else {})
    records = people()
    before = cast(records, classifier)
    records.features[7], records.labels[7] = (3e38, -3e38, 0.0), -records.labels[7]
    after = cast(records, classifier)
    np.testing.assert_array_equal(np.delete(before, 2, axis=0), np.delete(after, 2, axis=0))


def test_a_teacher_that_is_warned_says_what_it_learned_all_the_same():
    # Tests make an error of a warning, which a teacher would hide as any other: it would say the negative class.
    hasty = Classifier(classifier="LogisticRegression", parameters={"max_iter": 1, "C": 1e6})
    said = cast(people(1000), hasty)
    assert 0.2 < said.mean() < 0.8


def test_teachers_learn_what_their_chunks_show():
    truth = POINTS[:, 0] > 0
    assert np.mean(cast(people(1000)) == truth) > 0.9


def test_a_chunk_without_records_votes_for_class_0_and_one_with_one_label_for_that():
    records = people(12)
    records.labels[:] = np.where(np.arange(12) % 3 == 1, 1, -1)
    found = votes(TREE, records, np.arange(12) % 3, 5, POINTS, RandomSource.seeded(1))
    np.testing.assert_array_equal(found.min(axis=1), [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(found.max(axis=1), [0, 1, 0, 0, 0])


@for_each(
    "classifier",
    [
        Classifier(classifier="KNeighborsClassifier", parameters={"n_neighbors": 100}),
        Classifier(classifier="LinearDiscriminantAnalysis", parameters={"solver": "svd", "n_components": 7}),
        Classifier(classifier="GaussianProcessClassifier", parameters={"max_iter_predict": 0}),
    ],
)
def test_a_teacher_that_fails_votes_and_does_not_say_so(classifier):
    assert cast(people(20), classifier).shape == (5, 50)


def test_the_same_source_gives_the_same_votes():
    forest = Classifier(classifier="RandomForestClassifier", parameters={"n_estimators": 3})
    np.testing.assert_array_equal(cast(people(), forest), cast(people(), forest))
    assert not np.array_equal(cast(people(), forest), cast(people(), forest, seed=2))


def records_of(n: int, seed: int = 1) -> Records:
    features = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def replaced(records: Records, place: int) -> Records:
    features, labels = records.features.copy(), records.labels.copy()
    features[place], labels[place] = -features[place] + 1.0, -labels[place]
    return Records(features, labels)


def contents(records: Records, chunks: int, by: str) -> list[frozenset[bytes]]:
    chunk = chunk_of(records, chunks, by)
    rows = [row.tobytes() + label.tobytes() for row, label in zip(records.features, records.labels, strict=True)]
    return [frozenset(row for row, place in zip(rows, chunk, strict=True) if place == j) for j in range(chunks)]


@pytest.mark.parametrize("by", ["slot", "content"])
def test_replacing_a_record_changes_no_more_chunks_than_stated(by):
    records = records_of(60)
    before = contents(records, 7, by)
    for place in range(60):
        after = contents(replaced(records, place), 7, by)
        assert 1 <= sum(a != b for a, b in zip(before, after, strict=True)) <= TOUCHED[by]


def test_by_content_a_record_that_leaves_changes_one_chunk_and_by_place_it_may_change_all():
    records = records_of(60)
    rest = records.take(np.arange(1, 60))
    changed = {
        by: sum(a != b for a, b in zip(contents(records, 7, by), contents(rest, 7, by), strict=True))
        for by in ("slot", "content")
    }
    assert changed == {"slot": 7, "content": 1}


def test_content_alone_decides_and_not_the_order():
    records = records_of(60)
    order = np.random.default_rng(2).permutation(60)
    np.testing.assert_array_equal(chunk_of(records.take(order), 7, "content"), chunk_of(records, 7, "content")[order])


def test_a_slot_is_counted_from_the_first_one():
    np.testing.assert_array_equal(chunk_of(records_of(5), 3, "slot", first=4), [1, 2, 0, 1, 2])


@pytest.mark.parametrize("by", ["slot", "content"])
def test_chunks_are_of_nearly_one_size(by):
    sizes = np.bincount(chunk_of(records_of(7000), 7, by), minlength=7)
    assert sizes.min() > 850
    assert sizes.max() < 1150


def every_count(teachers: int, classes: int) -> list[tuple[int, ...]]:
    return [c for c in itertools.product(range(teachers + 1), repeat=classes) if sum(c) == teachers]


def neighbours(counts: tuple[int, ...], touched: int) -> set[tuple[int, ...]]:
    """Return all counts that at most so many teachers can lead to, changing their votes."""
    reached = {counts}
    for _ in range(touched):
        for one in list(reached):
            for loser, gainer in itertools.permutations(range(len(counts)), 2):
                if one[loser]:
                    changed = list(one)
                    changed[loser] -= 1
                    changed[gainer] += 1
                    reached.add(tuple(changed))
    return reached


def distance(counts: tuple[int, ...], touched: int = 1) -> int:
    return int(distances(np.array([counts]), touched)[0])


def winner(counts: tuple[int, ...]) -> int:
    return int(winners(np.array([counts]))[0])


def leads(counts: tuple[int, ...], label: int) -> bool:
    return all(other < counts[label] for place, other in enumerate(counts) if place != label)


def printed(counts: tuple[int, ...]) -> int:
    lesser, greater = sorted(counts)[-2:]
    return max(0, greater - lesser - 1)


CASES = [(9, 2, 1), (9, 2, 2), (7, 3, 1), (6, 3, 2), (5, 4, 1)]


@for_each(("teachers", "classes", "touched"), CASES)
def test_one_record_changes_a_distance_by_at_most_1_and_only_at_0_the_winner(teachers, classes, touched):
    for counts in every_count(teachers, classes):
        for other in neighbours(counts, touched):
            assert abs(distance(counts, touched) - distance(other, touched)) <= 1
            if winner(counts) != winner(other):
                assert distance(counts, touched) == distance(other, touched) == 0


@for_each(("teachers", "classes"), [(9, 2), (8, 2), (7, 3)])
def test_it_is_the_number_of_teachers_that_can_change_without_another_winner_and_without_a_tie(teachers, classes):
    for counts in every_count(teachers, classes):
        exact = 0
        while all(leads(c, winner(counts)) for c in neighbours(counts, exact + 1)):
            exact += 1
        assert distance(counts) == exact


def test_the_printed_distance_has_sensitivity_2():
    changes = [abs(printed(c) - printed(o)) for c in every_count(9, 2) for o in neighbours(c, 1)]
    assert max(changes) == 2


def test_votes_are_counted_by_class():
    votes = np.array([[0, 1, 2], [0, 2, 2], [1, 2, 2], [0, 0, 2]], dtype=np.uint8)
    np.testing.assert_array_equal(count_votes(votes, 3), [[3, 1, 0], [1, 1, 2], [0, 0, 4]])
    np.testing.assert_array_equal(winners(count_votes(votes, 3)), [0, 2, 2])
