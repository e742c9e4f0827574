"""The second opinion on a game: its prices against plain integrals, its bound between the truth and the claim."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.core.errors import AuditFailed
from common.privacy.accountants.base import ACCOUNTANTS
from common.privacy.certificate import certificate_of
from common.privacy.events import SubsampledSteps
from referee.audit import games
from tests.referee.audit.test_false_certificates import _pair
from tests.tiers import for_each

DELTA = 1e-5
WIDTH = 0.01


def plane() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coordinates of the plane, and the weights of a standard Gaussian there."""
    z = np.linspace(-9.0, 11.0, 1501)
    first, second = np.meshgrid(z, z, indexing="ij")
    return first, second, np.exp(-(first**2 + second**2) / 2.0) * (z[1] - z[0]) ** 2 / (2.0 * math.pi)


def profile(a: float, u: float) -> float:
    """Return the hockey-stick divergence of Gaussians at distance u, at level a."""
    lower = lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0))  # noqa: E731
    return lower(u / 2.0 - math.log(a) / u) - a * lower(-u / 2.0 - math.log(a) / u)


def test_prices_are_those_of_the_pair_at_each_level() -> None:
    """s E_A (L_B - (1 - s)(a - 1)/s - a L_C)_+ and the chi-squared divergence, by a plain sum over the plane."""
    first, second, weights = plane()
    levels = np.exp(WIDTH * np.array([0.0, 2.0, 7.0, 20.0]))
    for gram in ([[0.5, 0.1], [0.1, 0.4]], [[0.2, -0.15], [-0.15, 0.9]], [[0.3, 0.0], [0.0, 1e-3]]):
        x, xy, y = gram[0][0], gram[0][1], gram[1][1]
        along = xy / math.sqrt(x)
        across = math.sqrt(y - along**2)
        b = np.exp(math.sqrt(x) * first - x / 2.0)
        c = np.exp(along * first + across * second - y / 2.0)
        assert games._chi_squared(np.array(gram), 1.0) == pytest.approx(float((weights * (b - c) ** 2).sum()), rel=1e-6)
        assert games._chi_squared(np.array(gram), 0.5) < games._chi_squared(np.array(gram), 1.0)
        for s in (0.05, 0.5):
            wanted = [s * float((weights * np.maximum(b - (1 - s) * (a - 1) / s - a * c, 0)).sum()) for a in levels]
            assert games._heights(s, np.array(gram), levels) == pytest.approx(wanted, rel=2e-4, abs=1e-9)
    for s, u in ((0.05, 0.3), (0.5, 1.0)):
        assert games._envelope(s, u, levels) == pytest.approx([s * profile(1 + (a - 1) / s, u) for a in levels])


def test_a_law_has_the_chords_of_both_profiles_and_ends_where_little_is_left() -> None:
    s, u, cut = 0.05, 0.5, 1e-8
    places = games._places(s, u, WIDTH, cut)
    levels = np.exp(WIDTH * places)
    assert places[0] == 0
    assert (np.diff(places) > 0).all()
    last = games._envelope(s, u, np.exp(WIDTH * np.array([places[-1] - 2.0, places[-1]])))
    assert last[1] <= cut <= last[0]
    there, back = (games._heights(s, np.array(gram), levels) for gram in ([[0.2, 0], [0, 0.1]], [[0.1, 0], [0, 0.2]]))
    law = games._law(there, back, places, levels)
    away = WIDTH * np.arange(-places[-1], places[-1] + 1)
    assert (law >= 0.0).all()
    assert law.sum() + there[-1] == pytest.approx(1.0, abs=1e-12)
    for a, mine, theirs in zip(levels, there, back, strict=True):
        assert law @ np.maximum(1.0 - a * np.exp(-away), 0.0) + there[-1] == pytest.approx(mine, rel=1e-9)
        # The other way round P and Q change places: Q has the masses p e^{-loss}, at losses -loss.
        rest = (law * np.exp(-away)) @ np.maximum(1.0 - a * np.exp(away), 0.0)
        assert rest + back[-1] == pytest.approx(theirs, rel=1e-9)


def test_what_a_step_gains_is_the_mean_of_the_last_payoff_less_that_payoff() -> None:
    rng = np.random.default_rng(3)
    away = WIDTH * np.arange(-6, 7)
    laws = rng.dirichlet(np.ones(13), 4)
    laws /= (laws @ np.exp(-away))[:, None]  # Q has as much mass as P: payoffs are no less on average
    laws /= laws.sum(axis=1)[:, None]
    payoff = lambda x: np.maximum(-np.expm1(x), 0.0)  # noqa: E731
    for law, gains in zip(laws, games._gains(laws, away), strict=True):
        wanted = [float(law @ payoff(x - away)) - payoff(x) for x in away]
        shifted = float(law @ -np.expm1(-away))  # what Q lacks of P's mass shows below 0
        corrected = [w - (shifted * math.exp(x) if x < 0 else 0.0) for w, x in zip(wanted, away, strict=True)]
        assert gains[1:-1] == pytest.approx(np.maximum(corrected, 0.0)[1:-1], abs=1e-12)


GAMES = [
    (0.3, 0.2, 20, 0.85),
    pytest.param(0.05, 0.25, 60, 0.85, marks=pytest.mark.slow),
    pytest.param(0.02, 0.7, 8, 0.45, marks=pytest.mark.slow),
]


def opinion(s: float, u: float, steps: int, share: float = 1.0) -> tuple[float, float, float]:
    """Return the claimed epsilon times a share, the recomputed delta there, and the grid's width."""
    accountant, event = ACCOUNTANTS["game"](), SubsampledSteps(count=steps, tv_bound=s, ratio=u)
    epsilon = accountant.epsilon([(event, 1)], DELTA)
    width = certificate_of("game", accountant, [(event, 1)], epsilon, DELTA, 0.0).wire()["numbers"]["width"]
    return epsilon, games.delta_of_game(s, u, steps, share * epsilon, width, DELTA), width


@for_each(("s", "u", "steps", "near"), GAMES)
def test_its_bound_is_above_the_truth_and_near_the_claim(s: float, u: float, steps: int, near: float) -> None:
    """Where there are few steps the claim itself is less sharp."""
    epsilon, found, width = opinion(s, u, steps)
    assert _pair(s, u, steps).get_delta_for_epsilon(epsilon) <= found <= 1.01 * DELTA
    assert found >= near * DELTA
    assert games.delta_of_game(s, u, steps, 0.95 * epsilon, width, DELTA) > 1.2 * found
    for more in ((1.05 * s, u, steps), (s, 1.05 * u, steps), (s, u, steps + max(1, steps // 10))):
        assert games.delta_of_game(*more, epsilon, width, DELTA) > 1.05 * found


def test_leaders_bound_what_rounds_would_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one round the leaders take over: what they find is no less, and little more."""
    epsilon, found, width = opinion(0.3, 0.2, 12)
    whole = games._game(0.3, 0.2, 12, epsilon, width, DELTA, games.EXCESSES[0]).bound()
    monkeypatch.setattr(games, "ROUNDS", 1)
    led = games._game(0.3, 0.2, 12, epsilon, width, DELTA, games.EXCESSES[0]).bound()
    assert found <= whole <= led <= 1.4 * whole


def test_a_grid_that_is_none_for_the_game_is_refused() -> None:
    for width in (0.0, 1e-9, 10.0):
        with pytest.raises(AuditFailed, match="grid"):
            games.delta_of_game(0.05, 0.25, 60, 0.5, width, DELTA)
    with pytest.raises(AuditFailed, match="grid"):
        games.delta_of_game(0.05, 5.0, 60, 0.5, 0.01, DELTA)
