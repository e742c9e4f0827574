"""The race's theorem, by trying: the best is never lost, the interval covers, the gap holds, as often as promised."""

from collections.abc import Sequence

import numpy as np
import pytest

from common.local.mechanisms.mechanism import Warner
from common.statistics.intervals import Matches, bounds
from common.statistics.race import WIDER, Race
from tests.common.statistics.test_means import bits
from tests.tiers import for_each

WARNER = Warner(epsilon=1.0)


class Hasty(Race):
    """Has everybody leave whose estimate is not the least, whatever is known of it: a broken twin."""

    def eliminate(self) -> list[int]:
        self.running = (min(self.running, key=lambda k: self.estimates[k].value),)
        return []


def heats(
    losses: tuple[float, ...], seed: int, sizes: tuple[int, ...] = (200, 300, 600, 1500), kind: type[Race] = Race
) -> Race:
    race, rng = kind(WARNER, len(losses), 0.8), np.random.default_rng(seed)
    for size in sizes:
        for k in race.running:
            race.add(k, float(rng.binomial(size, (1 - WARNER.truth) + (2 * WARNER.truth - 1) * losses[k])), size)
        race.eliminate()
    return race


def kept(race: Race, losses: Sequence[float]) -> bool:
    winner, best = race.winner, min(losses)
    found = race.estimates[winner]
    stayed = any(losses[k] == best for k in race.running)
    return stayed and found.low <= losses[winner] <= found.high and losses[winner] - best <= race.gap


@for_each("losses", [(0.3, 0.3, 0.3), (0.1, 0.25, 0.4, 0.5), (0.2, 0.22)])
def test_all_that_is_promised_holds_together_as_often_as_promised(losses):
    assert sum(kept(heats(losses, seed), losses) for seed in range(150)) >= 0.8 * 150


def test_a_race_that_believes_estimates_loses_the_best_too_often():
    assert sum(0 in heats((0.2, 0.22), seed, kind=Hasty).running for seed in range(150)) < 0.8 * 150


def test_who_is_clearly_worse_leaves_and_is_asked_about_no_more():
    race, unasked = heats((0.05, 0.6), 1), Race(WARNER, 3, 0.9)
    assert (race.running, race.winner, race.gap) == ((0,), 0, 0.0)
    assert race.counts[1] < race.counts[0]
    assert (unasked.eliminate(), unasked.gap, unasked.winner, unasked.running) == ([], 1.0, 0, (0, 1, 2))
    assert Race(WARNER, 1, 0.9).gap == 0.0


def test_the_gap_counts_those_who_left_with_the_best_ends_that_each_interval_ever_had():
    race, rng = Race(WARNER, 3, 0.8), np.random.default_rng(2)
    lows, highs = [0.0] * 3, [1.0] * 3
    for size in (200, 300, 600, 1500):
        for k in race.running:
            chance = (1 - WARNER.truth) + (2 * WARNER.truth - 1) * (0.3, 0.3, 0.7)[k]
            race.add(k, float(rng.binomial(size, chance)), size)
            lows[k], highs[k] = max(lows[k], race.estimates[k].low), min(highs[k], race.estimates[k].high)
        race.eliminate()
    assert race.running == (0, 1)
    assert race.gap == pytest.approx(max(0.0, highs[race.winner] - min(lows[k] for k in range(3) if k != race.winner)))


def near(aim: float) -> Race:
    race = Race(WARNER, 3, 0.9, aim)
    for k, ones in enumerate((400, 402, 600)):
        race.add(k, float(ones), 1000)
    return race


def test_beliefs_choose_among_those_whom_answers_hardly_tell_apart_and_nobody_else():
    assert near(0.0).winner == 0
    race = near(0.0)
    before = race.gap
    race.believe(1, 0.1, 0.01)
    assert race.winner == 1
    assert race.gap <= WIDER * before
    race.believe(1, 0.9, 0.01)
    assert race.winner == 0
    far = near(0.0)
    far.believe(2, 0.0, 1e-6)
    assert far.winner == 0  # the gap would be too wide


def test_the_aim_is_what_a_choice_by_beliefs_may_reach_and_no_more():
    gap = near(0.0)._gap(1)
    assert near(0.0).gap < gap
    for aim, winner in ((gap, 1), (np.nextafter(gap, 0.0), 0)):
        race = near(float(aim))
        race.believe(1, 0.0, 1e-6)
        assert race.winner == winner


@for_each("liar", [0, 1, 2])
def test_the_promise_holds_whatever_is_believed(liar):
    losses, races = (0.2, 0.24, 0.3), []
    for seed in range(150):
        races.append(heats(losses, seed))
        races[-1].believe(liar, 0.0, 1e-3)
    assert sum(kept(race, losses) for race in races) >= 0.8 * 150


class Reusing(Race):
    """Counts every answer 32 times, as if as many agents had been asked: a broken twin."""

    def compare(self, first, second, firsts, seconds):
        super().compare(first, second, np.tile(firsts, 32), np.tile(seconds, 32))

    def update(self, answers):
        super().update({k: np.tile(bits, 32) for k, bits in answers.items()})


def judged(losses: tuple[float, ...], seed: int, kind: type[Race] = Race, liar: int | None = None) -> Race:
    """Return a race whose last two are compared by where only one of them errs; both err on half of the smaller loss.

    The first two candidates are constants: who is no mistake of the one is one of the other.
    """
    race, rng = kind(WARNER, len(losses), 0.8, planned=1500, mirrored=(0, 1)), np.random.default_rng(seed)
    if liar is not None:
        race.believe(liar, 0.0, 1e-3)

    def told(share: float, size: int) -> np.ndarray:
        return bits(rng, share, size)

    race.add(1, float(told(losses[1], 300).sum()), 300)
    for size in (200, 300, 600, 1500):
        running = race.running
        if len(running) == 2 and running != (0, 1):
            i, j = running
            both = min(losses[i], losses[j]) / 2
            race.compare(i, j, told(losses[i] - both, size), told(losses[j] - both, size - 7))
        else:
            race.update(
                {k: told(losses[k], size - k) for k in ({*running, 1} - {0} if {0, 1} & {*running} else running)}
            )
        race.eliminate()
    return race


@pytest.mark.thorough
@pytest.mark.parametrize("liar", [None, 0, 3])
@pytest.mark.parametrize("losses", [(0.8, 0.2, 0.2, 0.2), (0.5, 0.5, 0.5, 0.5), (0.95, 0.05, 0.06, 0.5)])
def test_races_that_compare_keep_what_they_promise(losses, liar):
    """Confidence is .8, and bounds that hold at all counts are wide: of 50 races, fewer than 40 would be a mistake."""
    assert sum(kept(judged(losses, seed, liar=liar), losses) for seed in range(50)) >= 40


@pytest.mark.thorough
def test_a_race_that_counts_agents_again_and_again_breaks_its_promise():
    losses = (0.8, 0.2, 0.23, 0.2)
    assert sum(kept(judged(losses, seed, kind=Reusing), losses) for seed in range(50)) < 40


def test_who_is_expected_to_be_best_is_a_standard_error_above_the_mean_of_all_that_is_known():
    """Against least squares: answers, beliefs and comparisons as rows, each weighed by 1 over its standard error."""
    rng, race, believed = np.random.default_rng(11), Race(WARNER, 4, 0.9), ((1, 0.25, 0.05), (2, 0.1, 0.02))
    race.update({0: bits(rng, 0.3, 900), 1: bits(rng, 0.2, 400)})
    for told in believed:
        race.believe(*told)
    race.compare(2, 0, bits(rng, 0.1, 700), bits(rng, 0.3, 500))
    race.compare(0, 2, bits(rng, 0.3, 300), bits(rng, 0.1, 200))
    unit = np.eye(4)
    rows = [(unit[k], 0.5, 1e3) for k in range(4)]  # all faintly take a loss of 1/2
    for k in (0, 1):
        value = race.estimates[k].value
        rows.append((unit[k], value, np.sqrt(WARNER.variance(value) / race.counts[k])))
    rows += [(unit[k], mean, deviation) for k, mean, deviation in believed]
    ones, asked_first, others, asked_second = race._compared[0, 2]
    assert (asked_first, asked_second) == (800, 900)
    first, second = (
        min(1.0, max(0.0, (x / n + WARNER.truth - 1) / (2 * WARNER.truth - 1))) for x, n in ((ones, 800), (others, 900))
    )
    error = np.sqrt(WARNER.variance(first) / 800 + WARNER.variance(second) / 900)
    rows.append((unit[0] - unit[2], first - second, error))
    matrix, values = (np.array([row[part] / row[2] for row in rows]) for part in (0, 1))
    inverse = np.linalg.inv(matrix.T @ matrix)
    wanted = inverse @ matrix.T @ values + np.sqrt(np.diag(inverse))
    assert race._expected() == pytest.approx(wanted, rel=1e-9)


def test_a_heat_bounds_differences_by_its_matched_answers():
    rng = np.random.default_rng(12)
    race = Race(WARNER, 2, 0.9, planned=3000)
    one, other = bits(rng, 0.4, 3000), bits(rng, 0.3, 2500)
    race.update({1: other, 0: one})
    low, high = bounds(WARNER, Matches.of(one, other), 0.1 / 2, 3000)
    assert race._most[0][1] <= high < 1.0
    assert race._most[1][0] <= -low < 1.0
    assert race.counts == [3000, 2500]
    assert race.answers == 5500


def test_what_is_known_of_one_pair_counts_for_others_and_contradictions_lose_nobody():
    ones, zeros, mixed = (np.full(4000, value, dtype=np.uint8) for value in (1, 0, 0))
    mixed[::2] = 1
    race = Race(WARNER, 3, 0.9, planned=4000)
    race.compare(0, 1, mixed, mixed)
    race.compare(1, 2, mixed, ones)
    assert race._most[0][2] == pytest.approx(race._most[0][1] + race._most[1][2])
    assert race._most[0][2] < 0.0
    assert race.eliminate() == [2]
    circle = Race(WARNER, 3, 0.9, planned=4000)  # 0 beats 1, 1 beats 2 and 2 beats 0: somebody lied, or it was chance
    for first, second in ((0, 1), (1, 2), (2, 0)):
        circle.compare(first, second, zeros, ones)
    assert circle.eliminate() == []
    assert 0.0 <= circle.gap <= 1.0


def test_a_mirrored_answer_counts_for_both_and_is_matched_with_itself_never():
    race = Race(WARNER, 2, 0.9, planned=100, mirrored=(0, 1))
    race.update({1: np.array([1, 1, 1, 0], dtype=np.uint8)})
    assert race.counts == [4, 4]
    assert race.answers == 4
    assert race.estimates[0].value == pytest.approx(1.0 - race.estimates[1].value)
    assert not race._matched
