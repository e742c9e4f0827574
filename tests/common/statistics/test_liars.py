"""What liars can move: intervals and tests hold whatever a share of the answers say, and not with more lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadInput
from common.local.mechanisms.laplace import Laplace
from common.local.mechanisms.warner import Warner
from common.statistics.evidence import implausible
from common.statistics.intervals import estimate
from common.statistics.loss_tests import SequentialTest
from common.statistics.robustness import RobustTest, liars, robust
from tests.tiers import for_each

WARNER = Warner(epsilon=1.0)


@for_each(("count", "share", "found"), [(0, 0.3, 0), (100, 0.29, 29), (30, 0.1, 3), (7, 0.1, 0), (5, 1, 5)])
def test_how_many_may_lie(count, share, found):
    assert liars(count, share) == found


@settings(max_examples=60, derandomize=True)
@given(st.integers(1, 400), st.data())
def test_the_interval_is_the_hull_over_every_count_of_ones_that_honest_agents_can_have_given(count, data):
    """The module's second theorem, against all counts one by one."""
    ones = data.draw(st.integers(0, count))
    share = data.draw(st.floats(0.0, 1.0))
    lies = liars(count, share)
    each = [estimate(WARNER, s, count, 0.95) for s in range(max(0, ones - lies), min(count, ones + lies) + 1)]
    found = robust(WARNER, ones, count, 0.95, share=share)
    assert found.low == pytest.approx(min(one.low for one in each), abs=1e-9)
    assert found.high == pytest.approx(max(one.high for one in each), abs=1e-9)
    assert found.value == estimate(WARNER, ones, count, 0.95).value


def test_without_liars_it_is_the_usual_interval():
    assert robust(WARNER, 30, 100, 0.95, share=0.0) == estimate(WARNER, 30, 100, 0.95)
    assert robust(WARNER, 30, 100, 0.95, share=0.005) == estimate(WARNER, 30, 100, 0.95)


def test_numbers_bear_no_liar():
    found = robust(Laplace(epsilon=1.0), 30.0, 100, 0.95, share=0.01)
    assert (found.low, found.high) == (0.0, 1.0)


@for_each("share", [-0.1, 1.1, float("nan")])
def test_shares_outside_are_refused(share):
    with pytest.raises(BadInput, match="share of liars"):
        robust(WARNER, 30, 100, 0.95, share=share)


@pytest.mark.parametrize("share", [-0.1, 0.5])
def test_tests_refuse_them_too(share):
    with pytest.raises(BadInput, match="bears liars"):
        RobustTest(WARNER, 0.1, 0.3, 0.05, share)
    with pytest.raises(BadInput, match="bears liars"):
        RobustTest(Laplace(epsilon=1.0), 0.1, 0.3, 0.05, 0.1)


def test_the_robust_test_takes_the_least_evidence_that_honest_answers_can_have_left():
    """For either verdict, against all counts of ones that differ from what was counted by the lies at most."""
    for count, ones, share in ((40, 0, 0.2), (40, 3, 0.2), (40, 20, 0.2), (40, 37, 0.2), (40, 40, 0.2), (40, 20, 0.0)):
        test, plain = RobustTest(WARNER, 0.2, 0.3, 0.01, share), SequentialTest(WARNER, 0.2, 0.3, 0.01)._evidences
        test.update(ones, count)
        lies = liars(count, share)
        honest = range(max(0, ones - lies), min(count, ones + lies) + 1)
        least = [min(side.log_value(float(s), count) for s in honest) for side in (plain.above, plain.below)]
        assert test._evidence() == pytest.approx(least, abs=1e-9)


def test_the_robust_test_asks_for_half_as_many_as_came_and_for_none_after_its_verdict():
    test = RobustTest(WARNER, 0.2, 0.3, 0.01, 0.05)
    assert test.next_batch(500) == 500
    for ones, count, following in ((1, 1, 1), (0, 3, 2), (2, 5, 5), (50_000, 50_000, 0)):
        test.update(ones, count)
        assert test.next_batch(500) == following
    assert test.verdict == "above"


# Measured -------------------------------------------------------------------------------------------------------------

RUNS, COUNT, LOSS, SHARE = 200, 40_000, 0.3, 0.05


def counts(say: float, seed: int) -> np.ndarray:
    """Ones among honest answers and those of a share of liars, who all say 1 with a chance: 0, 1, or nobody lies."""
    generator = np.random.default_rng(seed)
    p = WARNER.truth
    q = LOSS * p + (1 - LOSS) * (1 - p)
    lies = liars(COUNT, SHARE)
    return generator.binomial(COUNT - lies, q, RUNS) + generator.binomial(lies, say, RUNS)


@pytest.mark.parametrize("say", [0.0, 1.0])
def test_liars_who_all_say_the_same_leave_the_usual_interval_false_and_not_the_robust_one(say):
    usual = robustly = 0
    for ones in counts(say, 7):
        found = estimate(WARNER, int(ones), COUNT, 0.95)
        usual += found.low <= LOSS <= found.high
        found = robust(WARNER, int(ones), COUNT, 0.95, share=SHARE)
        robustly += found.low <= LOSS <= found.high
    assert usual < 0.9 * RUNS  # 5% of liars are more than its confidence bears
    assert robustly >= 0.95 * RUNS
    # More lies than were assumed: it need not hold.
    found = robust(WARNER, int(counts(say, 7)[0]), COUNT, 0.95, share=SHARE / 10)
    assert not found.low <= LOSS <= found.high


def decided(test: SequentialTest, loss: float, say: float, share: float, generator: np.random.Generator) -> str | None:
    """Run a test on fresh answers, of which the first of each batch are lies."""
    p = WARNER.truth
    q = loss * p + (1 - loss) * (1 - p)
    while test.verdict is None and test.count < 60_000:
        batch = test.next_batch(500)
        lies = liars(batch, share)
        test.update(int(generator.binomial(batch - lies, q)) + say * lies, batch)
    return test.verdict


@pytest.mark.parametrize(("loss", "say", "false"), [(0.15, 1.0, "above"), (0.35, 0.0, "below")])
def test_a_test_is_misled_by_liars_and_the_robust_one_is_not(loss, say, false):
    """The loss is on one side of both levels; liars push it to the other one."""
    generator, levels = np.random.default_rng(3), (0.2, 0.3)
    share = 0.2
    misled = [decided(SequentialTest(WARNER, *levels, 0.01), loss, say, share, generator) for _ in range(20)]
    bears = [decided(RobustTest(WARNER, *levels, 0.01, share), loss, say, share, generator) for _ in range(20)]
    assert misled.count(false) > 10
    assert bears.count(false) == 0


def test_the_robust_test_decides_where_lies_do_not_reach():
    generator = np.random.default_rng(5)
    assert decided(RobustTest(WARNER, 0.2, 0.3, 0.01, 0.01), 0.05, 1.0, 0.01, generator) == "below"
    assert decided(RobustTest(WARNER, 0.2, 0.3, 0.01, 0.01), 0.6, 0.0, 0.01, generator) == "above"


def test_evidence_grows_as_the_theorem_takes_it_to():
    found = SequentialTest(WARNER, 0.2, 0.3, 0.01)._evidences
    assert min(found.above.slopes) > 0 > max(found.below.slopes)


def test_lies_that_are_borne_do_not_make_answers_implausible():
    ones = round(1000 * (1 - WARNER.truth)) - 150
    assert implausible(WARNER, ones, 1000)
    assert not implausible(WARNER, ones, 1000, 150)
    assert implausible(WARNER, ones - 150, 1000, 150)
    assert implausible(WARNER, 1000 - ones, 1000)
    assert not implausible(WARNER, 1000 - ones, 1000, 150)
