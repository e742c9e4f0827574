"""Teachers: what one chunk holds changes its own votes only, and never makes anything fail."""

from __future__ import annotations

import numpy as np
import pytest

from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.scikit import Classifier
from curator.learners.teachers.teachers import votes

TREE = Classifier(classifier="DecisionTreeClassifier")
POINTS = np.random.default_rng(9).normal(size=(50, 3)).astype(np.float32)


def people(n: int = 200, seed: int = 1) -> Records:
    features = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def cast(records: Records, classifier: Classifier = TREE, chunks: int = 5, seed: int = 1) -> np.ndarray:
    return votes(classifier, records, np.arange(len(records)) % chunks, chunks, POINTS, RandomSource.seeded(seed))


@pytest.mark.parametrize(
    "name", ["DecisionTreeClassifier", "RandomForestClassifier", "LogisticRegression", "GaussianNB"]
)
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


@pytest.mark.parametrize(
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
