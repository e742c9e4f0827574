"""Classes in columns: read, told, and taught one against the rest; labels beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.hypotheses.argmax import Argmax
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.scikit import Classifier
from curator.learners.teacher_classes import ColumnClasses, LabelClasses
from curator.learners.teachers import count_votes, distances, votes
from tests.tiers import for_each

COLUMNS = ColumnClasses(first=2, count=3)
CORNERS = np.array([[-1, -1], [1, -1], [0, 1.5]], dtype=np.float32)
RIDGE = Classifier(classifier="RidgeClassifier")
FOREST = Classifier(classifier="RandomForestClassifier", parameters={"n_estimators": 20})


def people(n: int = 600, seed: int = 1) -> tuple[Records, np.ndarray]:
    """Return people around three corners, and which of them each is at; one more feature follows the classes."""
    generator = np.random.default_rng(seed)
    classes = generator.integers(0, 3, n)
    points = CORNERS[classes] + generator.normal(0, 0.3, (n, 2))
    features = np.column_stack([points, np.eye(3)[classes], generator.normal(size=n)]).astype(np.float32)
    return Records(features, np.ones(n, dtype=np.int8)), classes


def test_classes_are_read_from_their_columns_and_labels_from_the_label():
    records, classes = people()
    np.testing.assert_array_equal(COLUMNS.of(records), classes)
    records.features[:2, 2:5] = [[1, 1, 0], [0, 0, 0]]
    assert COLUMNS.of(records)[:2].tolist() == [-1, -1]
    np.testing.assert_array_equal(COLUMNS.inputs(records.features), records.features[:, :2])
    assert COLUMNS.inputs(records.features).flags.c_contiguous
    signs = Records(records.features, np.where(classes > 0, 1, -1).astype(np.int8))
    np.testing.assert_array_equal(LabelClasses().of(signs), classes > 0)
    assert LabelClasses().inputs(records.features).shape == records.features.shape


def test_answers_are_told_as_labels_or_as_numbers():
    assert [LabelClasses().released(answer) for answer in (0, 1, -1, -2)] == [-1, 1, None, None]
    assert [COLUMNS.released(answer) for answer in (0, 1, 2, -1, -2)] == [0, 1, 2, None, None]


@pytest.mark.parametrize("student", [RIDGE, FOREST], ids=lambda student: student.classifier)
def test_a_student_of_several_classes_is_the_surest_of_one_a_class(student):
    (records, classes), (others, _) = people(), people(seed=2)
    points = COLUMNS.inputs(records.features)
    learned = COLUMNS.taught(student, points, classes, RandomSource.seeded(1))
    assert isinstance(learned, Argmax)
    assert (learned.first, len(learned.hypotheses)) == (2, 3)
    assert learned.mistakes(others).mean() < 0.03
    assert COLUMNS.taught(student, points, classes, RandomSource.seeded(1)) == learned


@pytest.mark.parametrize("student", [RIDGE, FOREST], ids=lambda student: student.classifier)
def test_a_class_that_no_point_has_is_never_predicted(student):
    records, classes = people()
    points = COLUMNS.inputs(records.features)
    for known in (np.where(classes == 1, 0, classes), np.full_like(classes, 2)):
        learned: Any = COLUMNS.taught(student, points, known, RandomSource.seeded(1))
        far = np.column_stack([1e6 * points, np.zeros((len(points), 3))]).astype(np.float32)
        for features in (records.features, far):
            assert set(learned.classes(features)) <= set(known)


def test_a_student_that_travels_as_a_graph_is_refused():
    records, classes = people()
    bayes = Classifier(classifier="GaussianNB")
    with pytest.raises(BadScenario, match="GaussianNB: with several classes a student must be linear or made of trees"):
        COLUMNS.taught(bayes, COLUMNS.inputs(records.features), classes, RandomSource.seeded(1))


def test_students_that_are_too_large_together_are_refused(monkeypatch):
    monkeypatch.setattr("common.local.hypotheses.argmax.MAX_NODES", 100)
    records, classes = people()
    with pytest.raises(BadScenario, match=r"RandomForestClassifier: its models are too large together.* 100 nodes"):
        COLUMNS.taught(FOREST, COLUMNS.inputs(records.features), classes, RandomSource.seeded(1))


def test_records_without_the_columns_are_refused():
    assert COLUMNS.before(5) == 2
    with pytest.raises(BadScenario, match=r"features 2 to 4, records have 4 features"):
        COLUMNS.before(4)


def cast(records: Records) -> np.ndarray:
    known, inputs = COLUMNS.of(records), Records(COLUMNS.inputs(records.features), records.labels)
    points, chunk = COLUMNS.inputs(people(50, 3)[0].features), np.arange(len(records)) % 20
    tree = Classifier(classifier="DecisionTreeClassifier")
    return votes(tree, inputs, chunk, 20, points, RandomSource.seeded(1), classes=known)


def test_teachers_vote_for_the_classes_of_their_chunks():
    assert np.mean(cast(people()[0]) == people(50, 3)[1]) > 0.9


@for_each("columns", [[0, 0, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]])
def test_a_record_of_any_class_or_none_changes_the_votes_of_its_own_teacher_only(columns):
    (records, _), (other, _) = people(60), people(60)
    other.features[7] = [9.0, 9.0, *columns, 0.0]
    np.testing.assert_array_equal(np.delete(cast(records), 7, axis=0), np.delete(cast(other), 7, axis=0))


@for_each("seed", range(8))
def test_one_record_moves_counts_by_a_root_of_two_and_distances_by_one_whatever_the_number_of_classes(seed):
    (records, _), (other, _) = people(60, seed), people(60, seed)
    generator = np.random.default_rng(seed)
    other.features[generator.integers(60)] = [*generator.normal(size=2), *np.eye(4)[generator.integers(4)][:3], 0.0]
    one, two = (count_votes(cast(which), COLUMNS.number) for which in (records, other))
    assert np.linalg.norm(one - two, axis=1).max() <= np.sqrt(2.0)
    assert np.abs(distances(one) - distances(two)).max() <= 1


def test_a_record_of_no_class_teaches_nobody():
    records, classes = people(20)
    records.features[4, 2:5] = 0.0
    found = cast(records)  # one record a teacher
    np.testing.assert_array_equal(found, np.tile(np.where(np.arange(20) == 4, 0, classes)[:, None], (1, 50)))
