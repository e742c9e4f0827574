"""The cover of all triples, their profiles and the game's value: against brute force, never below what is reached."""

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from benchmarks.adaptive_pair import value as reached_by_adversary
from benchmarks.adaptive_pair import ways
from benchmarks.tightness import epsilon_of_pair
from common.core.arrays import Floats
from common.privacy.accountants import ACCOUNTANTS
from common.privacy.events import Gaussian, SubsampledSteps
from common.privacy.profile_accountants import GameAccountant
from common.privacy.theorems import games
from common.privacy.theorems.games import Game, GameValue, Gram, Move, cover, move, triple_profiles
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.loss_grids import compose_profiles
from common.privacy.theorems.profiles import Profile, gaussian_profile, release_profile, step_profile
from tests.common.privacy.theorems.test_profiles import dominating
from tests.tiers import for_each

RNG = np.random.default_rng(14)


def gram(a: Floats, b: Floats, c: Floats) -> Gram:
    return float((b - a) @ (b - a)), float((c - a) @ (c - a)), float((b - a) @ (c - a))


def gram_of(psi: float, phi: float) -> Gram:
    b, c, _, _ = games._vectors(psi, phi)
    return gram(np.zeros(2), b, c)


def triples(count: int) -> list[Gram]:
    """Return triples of a ball of diameter 1 in space, many on its surface, and the extreme ones."""
    found = [gram_of(0.0, math.pi / 2), gram_of(0.0, -math.pi / 2), gram_of(math.pi / 3, 0.0), gram_of(math.pi, 0.0)]
    for _ in range(count):
        points = RNG.normal(size=(3, RNG.integers(1, 4)))
        radii = 0.5 * RNG.random((3, 1)) ** RNG.choice([0.0, 0.1, 1.0])
        points *= radii / np.linalg.norm(points, axis=1, keepdims=True)
        found.append(gram(*points))
    return found


@for_each("ratio", [0.25, 1.0, 2.0])
def test_each_triple_lies_below_one_of_the_cover_which_is_hardly_dearer_than_the_dearest(ratio: float) -> None:
    grams = cover(ratio, 0.02)
    above = np.array(grams)
    for one in triples(400):
        x, y, z = (above - np.array(one)).T
        assert np.any((x >= 0.0) & (y >= 0.0) & (x * y >= z * z)), one
    square = ratio * ratio
    assert max(games.chi_squared(one, square) for one in grams) <= 1.0200001 * math.expm1(square)
    assert len(grams) < 600


def test_what_stands_for_a_cell_lies_above_all_of_it() -> None:
    for _ in range(60):
        psi, phi = RNG.uniform(0.0, math.pi), RNG.uniform(-1.5, 1.5)
        sides = RNG.choice([1e-6, 0.02, 0.3, 1.0], size=2)
        above, _, _ = games._upper_gram(psi, psi + sides[0], phi, phi + sides[1], RNG.choice([0.05, 1.0, 4.0]))
        for x, y in [*RNG.random((20, 2)), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]:
            inside = gram_of(psi + x * sides[0], phi + y * sides[1])
            first, second, product = (one - other for one, other in zip(above, inside, strict=True))
            assert min(first, second, first * second - product * product) >= 0.0 < first


def exact(s: float, one: Gram, level: float) -> float:
    """Return H_a(P || Q) of a triple by integrating over the plane, the inner integral by its sign change."""
    x, y, z = one
    size = math.sqrt(x)
    along = z / size
    across = math.sqrt(max(y - along * along, 1e-12))

    def inner(t: float) -> float:
        mine = s * math.exp(size * t - x / 2.0) - (1.0 - s) * (level - 1.0)
        theirs = s * level * math.exp(along * t - along * along / 2.0)
        if mine <= 0.0:
            return 0.0
        d = (math.log(mine / theirs) + across * across / 2.0) / across
        return float(mine * ndtr(d) - theirs * ndtr(d - across)) * math.exp(-t * t / 2.0) / math.sqrt(2.0 * math.pi)

    return float(sum(quad(inner, low, low + 3.0, limit=200)[0] for low in range(-9, 12, 3)))


@pytest.mark.parametrize(("tv_bound", "ratio"), [(0.01, 1.0), (0.3, 0.5)])
def test_the_profile_of_a_triple_is_its_integral_and_never_below(tv_bound: float, ratio: float) -> None:
    square = ratio * ratio
    for one in (gram_of(0.0, 0.3), gram_of(0.5, -0.4), gram_of(0.0, math.pi / 2 - 0.02)):
        scaled = (square * one[0], square * one[1], square * one[2])
        for profile, turned in zip(
            triple_profiles(tv_bound, scaled), (scaled, (*scaled[1::-1], scaled[2])), strict=True
        ):
            losses = tv_bound * np.array([0.0, 0.1, 0.5, 2.0])
            shown = profile.at(losses)
            for loss, height in zip(losses, shown, strict=True):
                truth = exact(tv_bound, turned, math.exp(loss))
                assert truth * (1.0 - 1e-7) <= height <= 1.004 * truth + 1e-12


def test_the_dearest_triple_has_the_envelope_and_more_gram_gives_more_away() -> None:
    levels = 0.01 * np.array([0.0, 0.2, 1.0, 5.0])
    forth, _ = triple_profiles(0.01, gram_of(0.0, math.pi / 2))
    envelope = step_profile(0.01, 1.0).at(levels)
    assert np.all(forth.at(levels) >= envelope * (1.0 - 1e-7))
    assert np.all(forth.at(levels) <= 1.003 * envelope)
    for one in triples(20)[4:]:
        root = RNG.normal(size=(2, 2)) * 0.3
        more = root @ root.T
        greater = (one[0] + more[0, 0], one[1] + more[1, 1], one[2] + more[0, 1])
        for less, dearer in zip(triple_profiles(0.01, one), triple_profiles(0.01, greater), strict=True):
            assert np.all(dearer.at(levels) >= 0.995 * less.at(levels) - 1e-12)


WIDTH = 0.1


def toy(up: float, down: float, places: int = 2) -> Move:
    """Return a pair of laws with two losses, up and -down places of the grid."""
    law = np.zeros(2 * places + 1)
    high, low = round(up), round(down)
    share = (1.0 - math.exp(-WIDTH * high)) / (math.exp(WIDTH * low) - math.exp(-WIDTH * high))
    law[places + high], law[places - low] = 1.0 - share, share
    return Move(law, 0.0, 0.0)


MOVES, LEADER = [toy(1, 2), toy(2, 1)], toy(2, 2)
PLACES = range(0, 40, 4)


def played(steps: int, aim: float, delta: float, *, moves=MOVES, leaders=(LEADER,), span=(-25, 25)) -> GameValue:
    return Game(moves, leaders, WIDTH, span).value(steps, aim, delta)


def never_below_the_truth(value: GameValue, steps: int) -> bool:
    return all(value.delta(WIDTH * place) >= brute(MOVES, steps, place) * (1.0 - 1e-12) for place in PLACES)


def brute(moves: list[Move], steps: int, place: int) -> float:
    @cache
    def reached(left: int, at: int) -> float:
        if left == 0:
            return max(0.0, 1.0 - math.exp(WIDTH * at))
        return max(
            sum(mass * reached(left - 1, at - loss) for loss, mass in enumerate(each.law.tolist(), -2))
            for each in moves
        )

    return reached(steps, place)


@for_each("steps", [1, 2, 3, 30])
def test_the_value_of_a_small_game_is_that_of_all_its_plays(steps: int) -> None:
    value = played(steps, 1.0, 1e-3)
    for place in (0, 3, 10):
        truth = brute(MOVES, steps, place)
        found = value.delta(WIDTH * place)
        assert truth * (1.0 - 1e-12) <= found <= truth + 1e-9
        assert found >= max(brute([each], steps, place) for each in MOVES) * (1.0 - 1e-12)
    assert steps < 30 or brute(MOVES, steps, 2) > max(brute([each], steps, 2) for each in MOVES)


def test_leaders_that_make_many_steps_at_once_never_show_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(games, "WORK", 0)
    for leaders in ([LEADER], [MOVES[0], LEADER], [MOVES[1], MOVES[0], LEADER]):
        for aim in (0.5, 2.0):
            delta = max(1e-6, brute(MOVES, 25, round(10 * aim)))
            assert never_below_the_truth(played(25, aim, delta, leaders=leaders), 25)


def test_a_leader_that_is_too_cheap_pays_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(games, "WORK", 0)
    monkeypatch.setattr(games, "SLACK", 1e3)  # with an aim that is far away, anything may lead
    idle = Move(np.array([0.0, 0.0, 1.0, 0.0, 0.0]), 0.0, 0.0)
    for cheap in (idle, toy(1, 1), MOVES[0]):
        assert never_below_the_truth(played(20, 3.5, 1e-9, leaders=[cheap, LEADER]), 20)


def test_what_is_infinite_and_what_falls_short_is_added_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [Move(each.law * (1.0 - 1e-3), 1e-3, 2e-3) for each in MOVES]
    for work in (0, games.WORK):
        monkeypatch.setattr(games, "WORK", work)
        assert played(10, 1.0, 1e-3, moves=failing).delta(1.9) >= 10 * 2e-3 + (1.0 - (1.0 - 1e-3) ** 10)


def test_a_grid_that_ends_early_only_adds() -> None:
    wide = played(30, 1.0, 1e-3)
    for span in ((-1.0, 2.5), (-0.3, 1.5), (-2.0, 0.5)):
        short = played(30, 1.0, 1e-3, span=span)
        assert all(short.delta(WIDTH * place) >= wide.delta(WIDTH * place) - 1e-12 for place in range(5))


def test_a_move_is_a_pair_whose_profile_lies_above_the_bounds() -> None:
    profiles = triple_profiles(0.02, (1.0, 0.2, 0.1))
    places = games.knots(400)
    made = move(profiles, places, 2e-3)
    assert places[0] == 0
    assert places[-1] >= 400
    assert all(0 < b - a <= max(1, a // 20) for a, b in pairwise(places))
    assert made.law.sum() + made.failure == pytest.approx(1.0, abs=1e-12)
    losses = 2e-3 * np.arange(-places[-1], places[-1] + 1)
    for level in (0.0, 1e-3, 0.0137, 0.05, 0.3):
        ahead = float(made.law @ np.maximum(-np.expm1(level - losses), 0.0)) + made.failure
        assert ahead >= float(profiles[0].at(np.array([level]))[0]) - made.shortfall
        behind = float(made.law @ np.maximum(np.exp(-losses) - np.exp(level), 0.0))
        assert behind >= float(profiles[1].at(np.array([level]))[0]) - float(profiles[1].at(losses[-1:])[0]) - 1e-13


def test_both_directions_of_a_move_agree_at_level_1() -> None:
    def convex(height: float) -> Profile:
        return Profile(lambda levels: height * np.maximum(1.0 - levels / 0.4, 0.0) ** 2, math.inf)

    made = move((convex(0.01), convex(0.02)), range(6), WIDTH)
    losses = WIDTH * np.arange(-5, 6)
    assert float(made.law @ np.maximum(-np.expm1(-losses), 0.0)) >= 0.02 * (1.0 - 1e-12)
    assert float(made.law @ np.exp(-losses)) == pytest.approx(1.0, abs=1e-12)


def test_chords_between_losses_lie_above() -> None:
    value = GameValue(np.array([0.0, 1.0]), np.array([0.5, 0.1]))
    between = 0.5 - 0.4 * math.expm1(0.5) / math.expm1(1.0)
    assert [value.delta(loss) for loss in (-1.0, 0.0, 0.5, 7.0)] == pytest.approx([1.0, 0.5, between, 0.1])


def claimed(tv_bound: float, ratio: float, steps: int, delta: float = 1e-5, *, by: str = "pld") -> float:
    return ACCOUNTANTS[by]().epsilon([(SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=ratio), 1)], delta)


@pytest.mark.slow
@pytest.mark.parametrize(("tv_bound", "ratio", "steps", "width"), [(0.01, 1.0, 1000, 0.004), (0.05, 0.25, 2000, 0.005)])
def test_steps_cost_no_less_than_any_known_adversary_reaches_and_hardly_more(tv_bound, ratio, steps, width):
    shown, truth = claimed(tv_bound, ratio, steps, by="game"), epsilon_of_pair(tv_bound, ratio, steps, 1e-5)
    assert truth <= shown <= 1.035 * truth
    assert reached_by_adversary(tv_bound, ways(ratio)["adaptive"], steps, shown, width) <= 1e-5


def test_only_steps_of_one_kind_are_worth_a_game() -> None:
    accountant = GameAccountant()
    one, other = (SubsampledSteps(count=1000, tv_bound=s, ratio=0.25) for s in (0.05, 0.04))
    assert accountant.worth([(one, 2)], 1e-5, 3.0)
    assert not accountant.worth([(one, 2)], 1e-5, 1.0)
    assert not accountant.worth([(one, 1), (other, 1)], 1e-5, 3.0)
    assert accountant.epsilon([(one, 1), (other, 1)], 1e-5) == math.inf
    assert not accountant.covers(Gaussian(mu=0.1))
    filter_of_two = accountant.budget_filter([(one, 1), (other, 1)], 100.0, 1e-5)
    assert filter_of_two.amount(one) is None


def test_a_jump_by_a_law_whose_spectrum_has_a_zero_is_its_convolution() -> None:
    """Halves and quarters: at the highest frequency they cancel exactly, and nothing is left to take a logarithm of."""
    law = np.array([0.25, 0.5, 0.25])
    one = Move(law, 0.0, 0.0)
    game = Game([one], [one], 0.5, (-8.0, 8.0))
    reached = np.maximum(games._terminal(game._losses), 0.0)
    found, error = game._jump(reached, law, 2)
    far = np.concatenate([games._terminal(game._losses[0] + 0.5 * np.arange(-2, 0)), reached, [reached[-1]] * 2])
    exact = np.convolve(far, np.convolve(law, law), mode="valid")
    assert np.abs(found - np.maximum(exact, reached)).max() <= error < 1e-9


def test_a_thousand_rare_steps_with_little_noise_have_a_price() -> None:
    """Grids fine enough for the many small losses could not reach the few large ones: nothing was shown."""
    prices = [claimed(1e-4, ratio, 1000) for ratio in (1.5, 2.0, 4.0, 10.0)]
    assert prices == pytest.approx([0.05446, 0.5435, 13.983, 150.26], rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tv_bound", "steps", "delta"),
    [(0.01, 5, 1e-6), (0.001, 20, 1e-5), (1e-4, 1000, 1e-5), (1e-5, 10_000, 1e-6), (0.3, 3, 1e-8), (1e-6, 100, 1e-9)],
)
def test_epsilon_falls_as_noise_grows(tv_bound: float, steps: int, delta: float) -> None:
    prices = [claimed(tv_bound, ratio, steps, delta) for ratio in np.geomspace(0.05, 10.0, 24)]
    assert all(less < more < math.inf for less, more in pairwise(prices))


@pytest.mark.parametrize("steps", [1, 10_000])
def test_the_width_suits_small_losses_too(steps: int) -> None:
    found = compose_profiles([(gaussian_profile(1.0 / math.sqrt(steps)), steps)], 1e-6)
    exact = epsilon_of(1.0, 1e-6)
    assert exact <= found.epsilon(1e-6) <= 1.001 * exact
    assert compose_profiles([(gaussian_profile(1e-6), 10**12)], 1e-6) is None  # every useful grid is too long


def test_a_release_without_mass_at_zero_is_put_on_narrow_cells() -> None:
    """Randomized response has all of its mass at its two losses, and slopes between narrow cells are rounded."""
    profile = release_profile(0.0035, 2e-12)
    for width in (1.4e-5, 2e-6):
        dominating(profile, width, (0.0, 0.001, 0.0034))
    steps = step_profile(1e-4, 0.447)
    found = compose_profiles([(steps, 1000), (profile, 1)], 1e-5)
    assert 0.0 < found.epsilon(1e-5) < 0.02
