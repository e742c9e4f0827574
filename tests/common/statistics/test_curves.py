"""What agents' bits about bins and labels tell of a score: intervals hold what is true of T, and shrink."""

import numpy as np
import pytest

from common.local.mechanisms.frequency import walsh_hadamard
from common.local.mechanisms.mechanism import Warner
from common.statistics.curves import ScoreShares, auc_width, bins_for
from tests.tiers import for_each

TRUE = np.array([[0.30, 0.02], [0.20, 0.05], [0.12, 0.08], [0.05, 0.18]])
RARE = np.array([[0.60, 0.004], [0.25, 0.006], [0.10, 0.010], [0.02, 0.010]])


def told(true: np.ndarray, count: int, epsilon: float, seed: int) -> ScoreShares:
    """Let so many people, drawn by chance, answer one bit of the code of their item, by randomized response."""
    generator, truth = np.random.default_rng(seed), Warner(epsilon=epsilon).truth
    items = generator.choice(true.size, size=count, p=true.ravel())
    rows = generator.integers(0, true.size, size=count)
    bits = np.array([a.bit_count() & 1 for a in range(true.size)])[items & rows]
    bits ^= generator.uniform(size=count) > truth
    sums = np.bincount(rows, weights=1 - 2 * bits, minlength=true.size).astype(np.int64)
    walsh_hadamard(sums)
    scale = 1.0 / (2.0 * truth - 1.0)
    return ScoreShares((sums * scale / count).reshape(true.shape), count, scale)


def auc(true: np.ndarray) -> float:
    below = np.concatenate([[0.0], np.cumsum(true[:, 0])[:-1]]) + true[:, 0] / 2
    return float(true[:, 1] @ below / (true[:, 0].sum() * true[:, 1].sum()))


@for_each(
    ("true", "count", "epsilon"), [(TRUE, 400, 1.0), (TRUE, 20_000, 1.0), (RARE, 5000, 2.0), (RARE, 100_000, 2.0)]
)
def test_intervals_hold_what_is_true(true, count, epsilon):
    """In 300 runs at a miss of .05: by Bernstein's inequality nearly none misses, by the normal law at most 15."""
    missed = {"observed": 0, "recall": 0, "false alarms": 0, "auc": 0}
    for seed in range(300):
        found = told(true, count, epsilon, seed)
        curve = found.observed(0.05)
        rates = true[:, 1] / true.sum(axis=1)
        missed["observed"] += any(not e.low <= rate <= e.high for e, rate in zip(curve, rates, strict=True))
        for name, label, column in (("recall", 1, 1), ("false alarms", -1, 0)):
            e = found.caught(2, label, 0.05)
            missed[name] += not e.low <= true[2:, column].sum() / true[:, column].sum() <= e.high
        e = found.auc(0.05)
        missed["auc"] += not e.low <= auc(true) <= e.high
    assert max(missed["observed"], missed["recall"], missed["false alarms"]) <= 15
    assert missed["auc"] <= 33  # mean 15 at most: more than 33 has probability below 1e-4


def test_intervals_shrink_with_the_number_of_agents():
    wide, narrow = (told(TRUE, count, 1.0, 1) for count in (40_000, 640_000))
    for of in (lambda s: s.caught(2, 1, 0.05), lambda s: s.auc(0.05), lambda s: s.observed(0.05)[3]):
        assert of(narrow).high - of(narrow).low < 0.35 * (of(wide).high - of(wide).low)
    assert narrow.auc(0.05).high - narrow.auc(0.05).low < 0.05
    assert narrow.auc(0.05).value == pytest.approx(auc(TRUE), abs=0.03)


def test_what_a_survey_can_tell_is_planned():
    """A run with the planned score, of balanced labels, has an interval about so wide."""
    scale = 1.0 / (2.0 * Warner(epsilon=1.0).truth - 1.0)
    assert auc_width(100, scale) > 0.45
    items = np.stack([np.arange(8.0, 0.0, -1.0), np.arange(1.0, 9.0)], axis=1) / 72.0
    found = told(items, 100_000, 1.0, 5).auc(0.05)
    assert 0.5 * (found.high - found.low) == pytest.approx(auc_width(100_000, scale), rel=0.1)


def test_a_survey_divides_its_beta_and_cuts_where_the_costs_say():
    found = told(TRUE, 50_000, 2.0, 1).quality([-2.0, -1.0, 0.5], -1.0, 0.05)
    assert (found.bins[0].low, found.bins[0].high) == (0.0, 1.0 / (1.0 + np.exp(2.0)))
    assert found.threshold == pytest.approx(1.0 / (1.0 + np.e))
    assert found.recall.low <= (0.08 + 0.18) / 0.33 <= found.recall.high
    assert found.false_alarms.low <= (0.12 + 0.05) / 0.67 <= found.false_alarms.high
    assert {of.observed.confidence for of in found.bins} == {found.recall.confidence} == {0.95}


def test_few_agents_tell_nothing_and_nobody_nothing_at_all():
    few = told(TRUE, 30, 1.0, 1).auc(0.05)
    assert (few.low, few.high) == (0.0, 1.0)
    nobody = ScoreShares(np.zeros((3, 2)), 0, 2.0)
    for e in (nobody.auc(0.05), *nobody.observed(0.05), nobody.caught(1, 1, 0.05)):
        assert (e.value, e.low, e.high) == (0.5, 0.0, 1.0)


def test_without_noise_shares_are_what_they_are():
    exact = ScoreShares(TRUE, 10**9, 1.0)
    assert exact.auc(0.05).value == pytest.approx(auc(TRUE))
    assert exact.caught(3, 1, 0.05).value == pytest.approx(0.18 / 0.33)
    assert exact.caught(3, -1, 0.05).high < 0.05 / 0.67 + 0.002
    assert [bins_for(answers) for answers in (0, 300, 1100, 10**9)] == [2, 2, 4, 8]
