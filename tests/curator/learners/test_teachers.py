"""Teachers: chunks and votes, of which one record moves little; and what is counted of them."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.learners.model_agnostic import TOUCHED, GnMax, SparseVector, Stability
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian, Release
from common.privacy.theorems.votes import Thresholds, calibrated, enough_bottoms, printed, stability_level
from curator.learners import teachers as voting
from curator.learners.scikit import Trainable
from curator.learners.teachers import BOTTOM, UNANSWERED, ColumnClasses, LabelClasses
from curator.mechanisms.stability import distances, winners
from tests.tiers import for_each

TREE = Trainable(classifier="DecisionTreeClassifier")
POINTS = np.random.default_rng(9).normal(size=(50, 3)).astype(np.float32)


def people(n: int = 200, seed: int = 1) -> Records:
    features = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def cast(records: Records, classifier: Trainable = TREE, chunks: int = 5, seed: int = 1) -> np.ndarray:
    chunk, classes = np.arange(len(records)) % chunks, LabelClasses().of(records)
    return voting.votes(classifier, records.features, chunk, chunks, POINTS, RandomSource.seeded(seed), classes)


@for_each("name", ["DecisionTreeClassifier", "RandomForestClassifier", "LogisticRegression", "GaussianNB"])
def test_a_record_changes_the_votes_of_its_own_teacher_only(name):
    classifier = Trainable(classifier=name, parameters={"n_estimators": 3} if "Forest" in name else {})
    records = people()
    before = cast(records, classifier)
    records.features[7], records.labels[7] = (3e38, -3e38, 0.0), -records.labels[7]
    after = cast(records, classifier)
    np.testing.assert_array_equal(np.delete(before, 2, axis=0), np.delete(after, 2, axis=0))


def test_a_random_state_that_is_null_is_the_teachers_own_seed():
    tree = Trainable(classifier="DecisionTreeClassifier", parameters={"max_features": 1, "random_state": None})
    records = people()
    records.labels[::5] = -1
    records.labels[0] = 1  # without this record the first chunk has one class, and its teacher draws nothing
    state = np.random.get_state()  # noqa: NPY002 - the generator that scikit-learn would take
    before = cast(records, tree)
    records.labels[0] = -1
    np.random.set_state(state)  # noqa: NPY002
    after = cast(records, tree)
    np.testing.assert_array_equal(before[1:], after[1:])
    np.testing.assert_array_equal(after, cast(records, tree))


class AskTogether:
    """A teacher that compares each row with the mean of all rows that it is shown at once."""

    def fit(self, features: np.ndarray, classes: np.ndarray) -> None: ...

    def predict(self, features: np.ndarray) -> np.ndarray:
        return (features[:, 0] > features[:, 0].mean()).astype(np.int64)


@for_each("together", [False, True])
def test_a_person_set_aside_changes_no_vote_on_anybody_else(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    near = Trainable(classifier="RadiusNeighborsClassifier", parameters={"radius": 5.0})
    if together:
        monkeypatch.setattr(voting, "build", lambda classifier, seed: AskTogether())
    records, aside = people(), people(20, 2).features

    def seen() -> np.ndarray:
        chunk, classes = np.arange(len(records)) % 5, LabelClasses().of(records)
        source = RandomSource.seeded(1)
        return voting.votes(near, records.features, chunk, 5, POINTS, source, classes, aside)

    before = seen()
    aside[7] = 1e4  # so far away that the first classifier refuses to predict, and the other sees another mean
    np.testing.assert_array_equal(
        np.delete(before, len(POINTS) + 7, axis=1), np.delete(seen(), len(POINTS) + 7, axis=1)
    )


def test_a_teacher_that_is_warned_says_what_it_learned_all_the_same():
    # Tests make an error of a warning, which a teacher would hide as any other: it would say the negative class.
    hasty = Trainable(classifier="LogisticRegression", parameters={"max_iter": 1, "C": 1e6})
    assert 0.2 < cast(people(1000), hasty).mean() < 0.8


def test_a_chunk_without_records_votes_for_class_0_and_one_with_one_label_for_that():
    records = people(12)
    records.labels[:] = np.where(np.arange(12) % 3 == 1, 1, -1)
    chunk, classes = np.arange(12) % 3, LabelClasses().of(records)
    found = voting.votes(TREE, records.features, chunk, 5, POINTS, RandomSource.seeded(1), classes)
    np.testing.assert_array_equal(found, np.tile([[0], [1], [0], [0], [0]], (1, len(POINTS))))


@for_each(
    ("name", "parameters"),
    [
        ("KNeighborsClassifier", {"n_neighbors": 100}),
        ("LinearDiscriminantAnalysis", {"solver": "svd", "n_components": 7}),
        ("GaussianProcessClassifier", {"max_iter_predict": 0}),
    ],
)
def test_a_teacher_that_fails_votes_and_does_not_say_so(name, parameters):
    assert cast(people(20), Trainable(classifier=name, parameters=parameters)).shape == (5, 50)


def contents(records: Records, by: str) -> list[frozenset[bytes]]:
    chunk = voting.chunk_of(records, 7, by)
    rows = [row.tobytes() + label.tobytes() for row, label in zip(records.features, records.labels, strict=True)]
    return [frozenset(row for row, place in zip(rows, chunk, strict=True) if place == j) for j in range(7)]


def changed(one: Records, other: Records, by: str) -> int:
    return sum(a != b for a, b in zip(contents(one, by), contents(other, by), strict=True))


@for_each(("by", "left"), [("slot", 7), ("content", 1)])
def test_replacing_a_record_changes_no_more_chunks_than_stated_and_leaving_only_by_content(by, left):
    records = people(60)
    for place in range(60):
        other = people(60)
        other.features[place], other.labels[place] = -other.features[place] + 1.0, -other.labels[place]
        assert 1 <= changed(records, other, by) <= TOUCHED[by]
    assert changed(records, records.take(np.arange(1, 60)), by) == left


def test_content_alone_decides_and_not_the_order_and_chunks_are_of_nearly_one_size():
    records, order = people(60), np.random.default_rng(2).permutation(60)
    np.testing.assert_array_equal(
        voting.chunk_of(records.take(order), 7, "content"), voting.chunk_of(records, 7, "content")[order]
    )
    for by in ("slot", "content"):
        assert np.abs(np.bincount(voting.chunk_of(people(7000), 7, by), minlength=7) - 1000).max() < 150


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


@for_each(("teachers", "classes", "touched"), [(9, 2, 1), (9, 2, 2), (7, 3, 1), (6, 3, 2), (5, 4, 1)])
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
        while all(sorted(c)[-2] < c[winner(counts)] for c in neighbours(counts, exact + 1)):
            exact += 1
        assert distance(counts) == exact


def test_the_printed_distance_has_sensitivity_2():
    def printed_distance(counts: tuple[int, ...]) -> int:
        return max(0, sorted(counts)[-1] - sorted(counts)[-2] - 1)

    changes = [abs(printed_distance(c) - printed_distance(o)) for c in every_count(9, 2) for o in neighbours(c, 1)]
    assert max(changes) == 2


COLUMNS = ColumnClasses(first=2, count=3)
CORNERS = np.array([[-1, -1], [1, -1], [0, 1.5]], dtype=np.float32)
RIDGE = Trainable(classifier="RidgeClassifier")
FOREST = Trainable(classifier="RandomForestClassifier", parameters={"n_estimators": 20})


def classes_people(n: int = 600, seed: int = 1) -> tuple[Records, np.ndarray]:
    """Return people around three corners, and which of them each is at; one more feature follows the classes."""
    generator = np.random.default_rng(seed)
    classes = generator.integers(0, 3, n)
    points = CORNERS[classes] + generator.normal(0, 0.3, (n, 2))
    features = np.column_stack([points, np.eye(3)[classes], generator.normal(size=n)]).astype(np.float32)
    return Records(features, np.ones(n, dtype=np.int8)), classes


def test_classes_are_read_from_their_columns_and_labels_from_the_label():
    records, classes = classes_people()
    np.testing.assert_array_equal(COLUMNS.of(records), classes)
    records.features[:2, 2:5] = [[1, 1, 0], [0, 0, 0]]
    assert COLUMNS.of(records)[:2].tolist() == [-1, -1]
    np.testing.assert_array_equal(COLUMNS.inputs(records.features), records.features[:, :2])
    signs = Records(records.features, np.where(classes > 0, 1, -1).astype(np.int8))
    np.testing.assert_array_equal(LabelClasses().of(signs), classes > 0)
    assert [LabelClasses().released(answer) for answer in (0, 1, -1, -2)] == [-1, 1, None, None]
    assert [COLUMNS.released(answer) for answer in (0, 1, 2, -1, -2)] == [0, 1, 2, None, None]


@pytest.mark.parametrize("student", [RIDGE, FOREST], ids=lambda student: student.classifier)
def test_a_class_that_no_point_has_is_never_predicted(student):
    records, classes = classes_people()
    points = COLUMNS.inputs(records.features)
    for known in (np.where(classes == 1, 0, classes), np.full_like(classes, 2)):
        learned: Any = COLUMNS.train_student(student, points, known, RandomSource.seeded(1))
        far = np.column_stack([1e6 * points, np.zeros((len(points), 3))]).astype(np.float32)
        for features in (records.features, far):
            assert set(learned.classes(features)) <= set(known)


def test_students_that_are_too_large_together_are_refused(monkeypatch):
    monkeypatch.setattr("common.local.hypotheses.composed.MAX_NODES", 100)
    records, classes = classes_people()
    with pytest.raises(BadScenario, match=r"RandomForestClassifier: its models are too large together.* 100 nodes"):
        COLUMNS.train_student(FOREST, COLUMNS.inputs(records.features), classes, RandomSource.seeded(1))


def classes_cast(records: Records) -> np.ndarray:
    known, inputs = COLUMNS.of(records), COLUMNS.inputs(records.features)
    points, chunk = COLUMNS.inputs(classes_people(50, 3)[0].features), np.arange(len(records)) % 20
    return voting.votes(TREE, inputs, chunk, 20, points, RandomSource.seeded(1), known)


@for_each("columns", [[0, 0, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]])
@for_each("seed", range(2))
def test_a_record_of_any_class_or_none_changes_its_own_teachers_votes_and_distances_by_one(columns, seed):
    (records, _), (other, _) = classes_people(60, seed), classes_people(60, seed)
    other.features[7] = [9.0 - 9 * seed, 9.0, *columns, 0.0]
    one, two = classes_cast(records), classes_cast(other)
    np.testing.assert_array_equal(np.delete(one, 7, axis=0), np.delete(two, 7, axis=0))
    one, two = voting.count_votes(one, 3), voting.count_votes(two, 3)
    assert np.linalg.norm(one - two, axis=1).max() <= np.sqrt(2.0)
    assert np.abs(distances(one) - distances(two)).max() <= 1


def test_a_record_of_no_class_teaches_nobody():
    records, classes = classes_people(20)
    records.features[4, 2:5] = 0.0
    found = classes_cast(records)  # one record a teacher
    np.testing.assert_array_equal(found, np.tile(np.where(np.arange(20) == 4, 0, classes)[:, None], (1, 50)))


PARTS, WHOLE = GnMax(noise=10.0), Stability(epsilon=1.0, delta=1e-6)


@for_each(("aggregation", "drawn"), [(WHOLE, False), (WHOLE, True), (PARTS, True), (PARTS, False)])
def test_no_more_points_are_answered_than_one_sequence_was_paid_for(aggregation, drawn):
    def answers(count: int) -> voting.TeacherAnswers:
        points = np.zeros((count, 2), dtype=np.float32)
        return voting.TeacherAnswers(aggregation, TREE, LabelClasses(), 10, "slot", 3, points, drawn=drawn)

    answers(3)
    if aggregation is PARTS and not drawn:  # answers that are paid for one by one may go on
        assert answers(4).price.wire()["count"] == 4
        return
    with pytest.raises(ValueError, match="4 points are more than the 3 of one sequence"):
        answers(4)


COUNTS = np.array([[50, 0], [26, 24], [20, 30], [40, 10], [25, 25], [45, 5]] * 3)
SPARSE: dict[str, Any] = {"epsilon": 9.0, "delta": 1e-3, "cutoff": 3}
EACH: list[GnMax | Stability | SparseVector] = [
    GnMax(noise=5.0), GnMax(epsilon=2.0, delta=1e-4), Stability(epsilon=9.0, delta=1e-3), SparseVector(**SPARSE),
    SparseVector(**SPARSE, estimate=0.2),
]  # fmt: skip
SAID = [
    ([0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]),
    ([0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
    ([0, -1, -1, 0, -1, 0, 0, -1, -1, -1, -1, 0, 0, -1, -1, -1, -1, 0], [-1] * 18),
    ([0, -1, -1, 0, -1] + [-2] * 13, [0, -1, -1, 0, -1] + [-2] * 13),
    ([0, -1, -1, 0, -1] + [-2] * 13, [0, -1, -1, -1] + [-2] * 14),
]
"""Under a fixed key, if one record touches one teacher, and if it touches two."""


@for_each(("aggregation", "said"), list(zip(EACH, SAID, strict=True)))
def test_known_answers(aggregation: Any, said: tuple[list[int], list[int]]) -> None:
    mistakes = 0.02 if isinstance(aggregation, SparseVector) and aggregation.estimate is not None else None
    for touched in (1, 2):
        found = voting.aggregate(aggregation, COUNTS, 18, touched, mistakes, RandomSource.seeded(2))
        assert found.tolist() == said[touched - 1]


@for_each("touched", [1, 2])
def test_gnmax_declares_the_noise_that_it_adds(touched: int) -> None:
    # A gap of g votes is kept with probability Phi(g / (sqrt(2) sigma)); a record moves it by 2 votes a teacher.
    queries, gap = 4000, 12
    for aggregation in (GnMax(noise=9.0), GnMax(epsilon=30.0, delta=1e-3)):
        event = aggregation.event(1, queries, touched)
        assert isinstance(event, Gaussian)
        counts = np.array([[50 + gap // 2, 50 - gap // 2]] * queries)
        said = voting.aggregate(aggregation, counts, queries, touched, None, RandomSource.seeded(1))
        apart = gap / (2 * touched) * event.mu
        kept = 0.5 * math.erfc(-apart / math.sqrt(2.0))
        assert (said == 0).mean() == pytest.approx(kept, abs=5 * math.sqrt(kept * (1 - kept) / queries))
        assert aggregation.event(7, queries, touched) == event.model_copy(update={"count": 7})


@for_each("aggregation", EACH[2:], ids=str)
def test_a_sequence_is_one_release_whatever_is_asked_of_it(aggregation: Any) -> None:
    assert aggregation.event(3, 18, 2) == Release(epsilon=9.0, delta=1e-3)
    assert (aggregation.guarantee(), aggregation.in_parts) == ((9.0, 1e-3), False)


def test_what_an_estimate_costs_is_taken_from_the_thresholds() -> None:
    whole, parted = SparseVector(**SPARSE), SparseVector(**SPARSE, estimate=0.25)
    assert whole.estimate_epsilon == 0.0
    assert 2.25 * (1 - 2e-15) <= parted.estimate_epsilon < 2.25
    assert whole.thresholds(18, 3) == calibrated(3, 18, 9.0, 1e-3)
    left = parted.thresholds(18, 3)
    assert left.failure(9.0 - parted.estimate_epsilon) <= 1e-3
    assert left.of_query == pytest.approx(calibrated(3, 18, 6.75, 1e-3).of_query, rel=1e-8)


def test_printed_constants_are_those_of_the_paper_and_want_their_chunks() -> None:
    paper = SparseVector(epsilon=0.5, delta=1e-3, cutoff=2, bounds="paper", beta=0.1)
    law, chunks = printed(2, 30, 0.5, 1e-3, 0.1)
    assert paper.thresholds(30, 2) == law
    paper.check(30, chunks, chunks, 1)
    for short in ((chunks - 1, chunks), (chunks, chunks - 1)):
        with pytest.raises(BadScenario, match=f"take {chunks:,} chunks"):
            paper.check(30, *short, 1)


@for_each(
    ("mistakes", "queries", "beta", "bottoms"), [(0.0, 100, 0.05, 1), (0.01, 200, 0.05, 15), (0.1, 1000, 0.01, 372)]
)
def test_as_many_bottoms_as_theorem_3_2_wants(mistakes: float, queries: int, beta: float, bottoms: int) -> None:
    assert enough_bottoms(mistakes, queries, beta) == bottoms


def test_many_mistakes_leave_the_cutoff_as_it_is_and_few_lower_it() -> None:
    generous = SparseVector(epsilon=60.0, delta=1e-3, cutoff=15, estimate=0.2)
    for mistakes, bottoms in ((0.5, 15), (0.0, 1), (None, 15)):
        said = voting.aggregate(generous, np.full((200, 2), 25), 200, 1, mistakes, RandomSource.seeded(4))
        assert np.count_nonzero(said == -1) == bottoms


SURE = Thresholds(cutoff=3, level=50, of_threshold=2.0, of_query=2.5)
"""Distances of 0 and 100 are told apart surely."""


def said(stable: list[int], law: Thresholds = SURE, seed: int = 1) -> list[int]:
    values = np.arange(len(stable)) % 2
    return voting.release_until_cutoff(values, np.array(stable), law, RandomSource.seeded(seed)).tolist()


def test_stable_values_are_said_and_no_more_others_than_the_cutoff_are_bottoms():
    assert said([100, 0, 100, 100, 0, 100]) == [0, BOTTOM, 0, 1, BOTTOM, 1]
    # It stops at the last bottom and not one later.
    assert said([0, 100, 0, 0, 100, 0, 100]) == [BOTTOM, 1, BOTTOM, BOTTOM, UNANSWERED, UNANSWERED, UNANSWERED]
    for cutoff in (1, 2, 5):
        for seed in range(20):
            assert said([0] * 30, SURE._replace(cutoff=cutoff), seed).count(BOTTOM) == cutoff


def test_the_threshold_is_drawn_anew_after_each_bottom_and_only_then(monkeypatch):
    def fixed(count, epsilon, source):
        """Return noise that is known: of thresholds 0, -40, 40; of queries 0."""
        return np.array([0, -40, 40])[:count] if epsilon == SURE.of_threshold else np.zeros(count, dtype=np.int64)

    monkeypatch.setattr("curator.learners.teachers.geometric_noise", fixed)
    # Levels in force: 50 until the first bottom, 10 until the second, 90 from then on.
    assert said([60, 40, 40, 60, 5, 60, 95]) == [0, BOTTOM, 0, 1, BOTTOM, BOTTOM, UNANSWERED]


def test_a_stab_says_unstable_values_with_probability_delta_and_stable_ones_surely():
    runs, epsilon, delta = 200_000, 1.0, 0.01
    zeros = np.zeros(runs, dtype=np.int64)
    leaked = np.mean(voting.release_if_stable(zeros, zeros, epsilon, delta, RandomSource.seeded(1)) != BOTTOM)
    assert 0.3 * delta < leaked <= delta * 1.05
    far = np.full(1000, stability_level(epsilon, delta) + 20)
    assert np.all(voting.release_if_stable(far, far, epsilon, delta, RandomSource.seeded(2)) == far)
    with pytest.raises(BadScenario, match="stability"):
        Stability(epsilon=1e-4, delta=1e-3).check(50, 5, 5, 1)


@for_each(("teachers", "people", "touched"), [(7, 3, 1), (3, 7, 1), (5, 5, 2), (4, 9, 2)])
def test_one_record_moves_the_estimate_by_one_step_at_most(monkeypatch, teachers, people, touched):
    monkeypatch.setattr("curator.learners.teachers.geometric_noise", lambda count, *_: np.zeros(count, dtype=np.int64))
    step = max(teachers, touched * people) / (teachers * people)
    draw = np.random.default_rng(1)
    for _ in range(200):
        votes, classes = draw.integers(0, 2, (teachers, people)), draw.integers(0, 2, people).astype(np.uint8)
        told = voting.estimate_mistakes(votes, classes, touched, 1.0, RandomSource.seeded(1))
        other_votes, other_classes = votes.copy(), classes.copy()
        if draw.integers(2):  # one of the people who are set aside: every vote on them may change
            place = draw.integers(people)
            other_votes[:, place], other_classes[place] = draw.integers(0, 2, teachers), 1 - classes[place]
        else:  # one of those who teach
            rows = draw.integers(0, teachers, touched)
            other_votes[rows] = draw.integers(0, 2, (touched, people))
        other = voting.estimate_mistakes(other_votes, other_classes, touched, 1.0, RandomSource.seeded(1))
        assert abs(told - other) <= step * (1.0 + 1e-9)


def test_on_all_but_so_many_queries_two_thirds_agree():
    """Lemma 3.3: teachers that err on at most B of m queries leave fewer than 3 B on which a third of them err."""
    draw = np.random.default_rng(3)
    teachers, queries, most = 60, 400, 20
    wrong = np.zeros((teachers, queries), dtype=bool)
    hard = draw.permutation(queries)[:40]
    for row in wrong:
        row[draw.permutation(hard)[:most]] = True
    assert np.count_nonzero(wrong.sum(axis=0) > teachers / 3) < 3 * most
    assert enough_bottoms(most / queries, queries, 0.05) >= 3 * most


@for_each(("wrong", "told"), [(0.0, (0.0, 0.1)), (0.7, (0.6, 0.8)), (1.0, (0.97, 1.0))])
def test_the_estimate_reaches_from_no_mistakes_to_nothing_but_mistakes(wrong, told):
    votes = (np.arange(50)[:, None] < 50 * wrong) * np.ones((1, 60), dtype=np.int64)
    found = [voting.estimate_mistakes(votes, np.zeros(60), 1, 3.0, RandomSource.seeded(seed)) for seed in range(20)]
    assert told[0] <= min(found) <= max(found) <= told[1]
