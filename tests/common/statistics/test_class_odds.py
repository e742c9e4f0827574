"""The odds of several classes: what agents tell leads there, noise does not lead away, and questions tell all apart."""

from dataclasses import replace

import numpy as np
import pytest

from common.numerics.elementary import softmax
from common.operations.operation import ClassScores
from common.statistics import class_odds
from common.statistics.class_odds import APART, FAR, ClassOdds, ClassReport, halves, shares_of
from tests.tiers import for_each

LAW = ClassScores(
    shares=(0.6, 0.3, 0.1),
    means=((2.0, 0.0, -2.0), (0.0, 1.5, -1.0), (0.0, 0.0, 1.0)),
    root=((1.0, 0.2, 0.0), (0.2, 1.0, 0.1), (0.0, 0.1, 1.0)),
)
START = ClassOdds.of_sample(LAW, np.array([0.4, 0.3, 0.3]))


def asked(odds: ClassOdds, truth: tuple[float, np.ndarray], variance: float) -> list[ClassReport]:
    """Return what people whose scores lie as is assumed, and whose odds are others, tell without noise."""
    true, reports = softmax(truth[0] * odds.points + truth[1]), []
    for chosen in (*halves(3), ()):
        chances, moved = odds.asked(chosen)
        mean = float(odds.masses @ ((true - chances) * moved).sum(axis=1))
        reports.append(ClassReport(mean, variance, chances, moved))
    return reports


@for_each("truth", [(1.0, np.array([-1.0, 0.5, 0.5])), (0.7, np.zeros(3)), (1.5, np.array([0.5, 0.5, -1.0]))])
def test_residuals_without_noise_lead_to_the_odds_of_the_population(truth):
    odds = START
    for _ in range(3):
        odds = odds.posterior(asked(odds, truth, 1e-10))
    assert odds.slope == pytest.approx(truth[0], abs=3e-3)
    assert odds.intercepts == pytest.approx(truth[1], abs=5e-3)
    true = softmax(truth[0] * odds.points + truth[1])
    right = float(odds.masses @ true[np.arange(len(true)), odds.points.argmax(axis=1)])
    assert odds.mistakes() == pytest.approx(1.0 - right, abs=2e-3)


def test_a_model_that_is_right_less_often_than_it_expects_has_flatter_odds():
    found = START.posterior([START.right(0.4, 1e-10)])
    assert START.mistakes() < 0.5 < found.mistakes() == pytest.approx(0.6, abs=2e-3)
    assert found.slope < 0.7
    assert START.posterior([START.right(1.0 - START.mistakes(), 1e-10)]).slope == pytest.approx(1.0, abs=2e-3)


def test_what_is_noise_alone_moves_nothing_and_many_surprises_end_within_what_is_believed():
    reports = asked(START, (1.0, np.array([-3.0, 0.0, 3.0])), 1e6)
    assert START.posterior(reports).intercepts == pytest.approx(np.zeros(3), abs=2e-3)
    chances, moved = START.asked((0,))
    far = START.posterior([ClassReport(0.99, 0.01, chances, moved)])
    assert np.isfinite([far.slope, *far.intercepts]).all()
    assert np.abs(far.intercepts).max() < 5.0 * FAR


def test_where_scores_tell_nothing_of_these_people_the_slope_gives_way(monkeypatch):
    def slope() -> float:
        odds = START
        for _ in range(3):
            odds = odds.posterior(asked(odds, (1.0 / 32.0, np.zeros(3)), 0.06**2))
        return odds.slope

    found = slope()
    monkeypatch.setattr(class_odds, "_CHANCES", np.array([1.0, 0.0]))
    assert found < 0.6 * slope()
    monkeypatch.undo()
    usual = START.posterior(asked(START, (1.0, np.zeros(3)), 0.06**2))
    assert usual.slope == pytest.approx(1.0, abs=0.05)


def test_odds_that_are_near_are_the_same_scores_times_a_number():
    for factor, moved, same in ((1.4, 0.0, True), (0.25, 0.02, True), (0.05, 1.5, False)):
        other = replace(START, slope=factor, intercepts=START.intercepts + moved * np.array([1.0, -1.0, 0.0]))
        found = START.beside(other)
        assert (found is not other) == same
        if same:
            assert found.slope == pytest.approx(factor, rel=0.2)
            assert found.scores.argmax(axis=1).tolist() == START.scores.argmax(axis=1).tolist()


def test_shares_are_between_those_of_the_sample_and_what_was_told():
    assert shares_of((0.6, 0.4), [(0.2, 1e-9), (0.8, 1e-9)]) == pytest.approx([0.2, 0.8], abs=1e-3)
    assert shares_of((0.6, 0.4), [(0.2, APART**2), (0.8, APART**2)]) == pytest.approx([0.4, 0.6])
    assert shares_of((1.0, 0.0), [(1.2, 1e-9), (-0.2, 1e-9)])[1] == pytest.approx(1e-3, rel=0.5)


def test_any_two_classes_are_apart_in_more_than_half_of_the_questions():
    for classes in range(2, 20):
        sets = halves(classes)
        size = 1 << (classes - 1).bit_length()
        assert len(sets) <= size - 1
        for one in range(classes):
            for other in range(one):
                assert sum((one in chosen) != (other in chosen) for chosen in sets) >= min(size // 2, len(sets) / 2)
    assert halves(2) == [(1,)]
    assert halves(3) == [(1,), (2,), (1, 2)]
