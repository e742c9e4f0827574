"""CnvxAdap and NCnvxAdap as methods of the tables: without privacy, tuned for free, and chosen privately.

"tuned for free" fits with the whole mu of (epsilon, delta) for every setting and looks at the validation rows, as the
paper does: the fit is private, the choice is not, so the row has no guarantee. "chosen privately" pays for the choice:
each of a secret number of runs gets the smaller mu of
:func:`common.privacy.theorems.selection.mu_for_selection`, for a fit of the training rows and a noisy
score of the validation rows, which are people too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.adaptation.baselines.methods import ALPHAS, loss_of, training_loss
from benchmarks.adaptation.candidates import Candidate, Method
from benchmarks.adaptation.datasets.base import Pair
from benchmarks.adaptation.datasets.scaling import NORM
from benchmarks.adaptation.splits import Split
from common.core.arrays import Floats
from common.learners.chosen import combinations
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.selection import NegativeBinomial, mu_for_selection
from curator.learners.adaptation import ConvexSettings, NonconvexSettings, solve
from curator.learners.discrepancy import discrepancy
from curator.learners.domains import Domains, fit_public
from curator.mechanisms.selection import choose
from curator.mechanisms.sums import noisy_sum

DELTA = 0.01
"""The paper's."""
EPSILONS = (1.0, 10.0)
LAW = NegativeBinomial(eta=1.0, gamma=0.125, most=40)
"""Of the number of runs of a private choice: about 8."""
GRIDS: dict[str, dict[str, list[Any]]] = {
    "regression": {"alpha": [0.1, 0.5, 0.9], "iterations": [100, 400]},
    "classification": {"alpha": [0.1, 0.5, 0.9], "iterations": [200, 800]},
}
"""Settings that private versions choose from: public, the same for all data sets. kappa_1 lets the source in."""
SCORE_CLIP = 2.0
"""Where a private score of a regression clips residuals, in units of the clip that the public source says."""
MANY = 100
"""Features beyond which nothing converges in a few thousand steps."""
_PARTS = 1 << 20


def without_privacy(pair: Pair, split: Split) -> Iterator[Candidate]:
    """Fit with mu = None over a grid of alpha and kappa_1 (as SBest's lambda_1); kappa_2 = kappa_inf = 0.

    In regression T = 15,000 as in the paper where there are many features, 2,500 where that is enough, and the last
    half is averaged. In classification 4,000 steps, whose last iterate is taken.
    """
    domains, source = Domains(split.source, split.train), RandomSource.seeded(split.number, "without privacy")
    apart = discrepancy(domains, pair.radius, NORM, loss_of(split.task)).value
    least = training_loss(pair, split)
    if split.task == "regression":
        grid = product(ALPHAS, (2.0 * least, apart + 20.0 * least))
        iterations = 15_000 if pair.source.dimension > MANY else 2500
    else:
        grid, iterations = product((0.1, 0.5), (apart + 20.0 * least,)), 4000
    for alpha, kappa in grid:
        settings = {"alpha": alpha, "kappa_1": kappa, "iterations": iterations}
        yield Candidate(fit(pair, domains, settings, None, source), settings)


def tuned_for_free(pair: Pair, split: Split, epsilon: float) -> Iterator[Candidate]:
    """Fit with the whole mu for each setting of the grid: private fits, but no private choice among them."""
    domains, source = Domains(split.source, split.train), RandomSource.seeded(split.number, "tuned", repr(epsilon))
    mu = mu_allowed(epsilon, DELTA)
    for settings in combinations(GRIDS[split.task]):
        yield Candidate(fit(pair, domains, settings, mu, source.derive(repr(settings))), settings)


def chosen_privately(pair: Pair, split: Split, epsilon: float) -> Iterator[Candidate]:
    """Fit and choose, together (epsilon, DELTA)-DP for the people of the training and of the validation rows.

    Those are disjoint, so a fit that is mu-GDP in one part and a score that is mu-GDP in the other are mu-GDP together.
    """
    domains, source = Domains(split.source, split.train), RandomSource.seeded(split.number, "chosen", repr(epsilon))
    mu = mu_for_selection(epsilon, DELTA, LAW)

    def attempt(settings: dict[str, Any], own: RandomSource) -> Floats:
        return fit(pair, domains, settings, mu, own)

    largest = largest_residual(pair, split)

    def judge(weights: Floats, own: RandomSource) -> float:
        return float(-noisy_sum(losses(split, weights, largest), _PARTS, mu, own))

    # Nobody times a simulation: it need not carry out the runs that do not count.
    chosen = choose(attempt, judge, GRIDS[split.task], LAW, source, constant_time=False)
    yield Candidate(chosen.output, chosen.settings)


def fit(
    pair: Pair, domains: Domains, settings: Mapping[str, Any], mu: float | None, source: RandomSource
) -> Floats:  # fmt: skip
    """Fit by the algorithm of the pair's task; what ``settings`` leave out is the same for all fits.

    Private fits begin at the fit of the public source, and clip residuals by its residuals.
    """
    common = {"kappa_1": 30.0, "kappa_2": 0.0, "kappa_inf": 0.0, "radius": pair.radius, "norm": NORM, **settings}
    common = {"start": "zero" if mu is None else "public", **common}
    if pair.task == "regression":
        clip = None if mu is None else "public"
        chosen = ConvexSettings(**{"output": "suffix", "residual_clip": clip, **common})
        return solve(domains, chosen, mu, source).weights
    return solve(domains, NonconvexSettings(output="last", **common), mu, source).weights


def largest_residual(pair: Pair, split: Split) -> float:
    """Return where the score of a regression clips residuals: a function of the public source alone."""
    if split.task == "classification":
        return 1.0
    return SCORE_CLIP * fit_public(split.source, "squared", pair.radius, NORM).residual_clip


def losses(split: Split, weights: Floats, largest: float) -> int:
    """Return the sum of the validation rows' losses in [0, 1], in whole parts of 2^-20; 1 is a residual ``largest``."""
    side = split.validation
    scores = side.features @ weights
    if split.task == "regression":
        each = np.minimum(np.abs(scores - side.responses) / largest, 1.0) ** 2
    else:
        each = np.where(scores >= 0.0, 1.0, -1.0) != side.responses
    return int(np.rint(each * _PARTS).astype(np.int64).sum())


def _methods() -> dict[str, Method]:
    found: dict[str, Method] = {}
    for algorithm in ("CnvxAdap", "NCnvxAdap"):
        found[algorithm] = without_privacy
        for epsilon in EPSILONS:
            found[f"{algorithm}, epsilon {epsilon:g}, chosen privately"] = partial(chosen_privately, epsilon=epsilon)
            found[f"{algorithm}, epsilon {epsilon:g}, tuned for free"] = partial(tuned_for_free, epsilon=epsilon)
    return found


OURS = _methods()
"""By the names that the tables use."""
