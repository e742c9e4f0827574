"""What else reduces n of Appendix D, private? Noise, moments of the weights, averages, minibatches, rounds.

    python -m benchmarks.people.reductions [--runs 30] [--json]

One round if nothing else is said, the privacy of :mod:`benchmarks.people.settings`. Where noise changes, so does the
number of steps, R ~ sigma^2: as much is then learned. All but the averages, which are run, is arithmetic.
docs/people.md says what follows.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from benchmarks.people.settings import ALPHA, APPENDIX_D, CENTER, DELTA, EPSILON, ETA, Gaussians, accounted
from common.core.arrays import Floats
from common.numerics.bisection import least
from common.numerics.randomness import subseed
from common.privacy.budget import MOST
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.renyi import ORDERS, epsilon_at
from common.scenario.plan import resolve
from common.statistics.formulas import density, gaussian_moment
from deploy.baselines import evaluation_source, loss
from deploy.simulation import conduct

NOISE, STEPS = 12.0, 1_870_000
"""sigma / L and R of which the other pairs carry the information."""
NOISES = (2.0, 3.0, 4.0, 6.0, 12.0, 24.0)
ORDERS_OF_MOMENTS = (2.0, 4.0, 16.0)
OUTPUTS = ("average", "last", "suffix")
PEOPLE = 1600
"""n of the runs."""
BATCHES = (1, 2, 4)
ROUNDS = (1, 2, 5)
_MAX_ORDER = 128
"""Renyi orders beyond are not tried for batches: at this epsilon and delta the best is near 40."""


def steps_for(noise: float) -> int:
    """Return R that carries the same information at another noise."""
    return round(STEPS * (noise / NOISE) ** 2)


def people_by_noise(noise: float, rounds: int = 1) -> int:
    """Return the least n for so many rounds at a noise, each with all steps."""
    return accounted(APPENDIX_D.kappa, ETA, rounds, steps_for(noise), noise)


def gaussian_limit() -> float:
    """Return the n at which R steps would do if they were the Gaussian that they tend to, mu = s sqrt(R (e^{u^2} - 1)).

    s = 1/n. Bu, Dong, Long and Su (2020): a limit for many steps, not a bound, and nothing rests on it.
    """
    return math.sqrt(STEPS * math.expm1((2.0 / NOISE) ** 2)) / mu_allowed(EPSILON, DELTA)


def kappa_by_moment(task: Gaussians, order: float) -> float | None:
    """Return the density that one moment of the weights shows; None where it is infinite."""
    moment = gaussian_moment(order, 0.1, task.sigma_target, task.close)
    if math.isinf(moment):
        return None
    return density(ALPHA, task.chi_squared, None, {} if order == 2.0 else {order: moment}).kappa


def batch_rdp(order: int, tv_bound: float, ratio: float, batch: int) -> float:
    """Bound the Renyi divergence of one step on the mean of ``batch`` draws.

    ::

        (k-1) rho = ln(1 + C(k,2) (sum_j p_j (1-s)^{-(b-j)/2} sqrt(e^{(ju/b)^2} - 1))^2
                         + sum_{i=3..k} C(k,i) (sum_j p_j ((1-s)^{-(b-j)(i-1)} 2 e^{i(i-1)(ju/b)^2/2})^{1/i})^i)

    with p_j = C(b,j) s^j (1-s)^{b-j} for j = 1, ..., b draws from the part in which neighbours differ.

    Proof idea: P - Q is the sum of p_j (P_j - Q_j), whose b-j other draws are shared; Minkowski's inequality in
    L^i(1/Q^{i-1}); Q is at least (1-s)^{b-j} times a law that shares them, too; given these, the means lie in a ball of
    diameter j u/b, and the bounds of :func:`common.privacy.theorems.renyi.closed_form` hold, which this is for one
    draw. Not rounded up, for no run rests on it.

    Args:
        order: k, an integer of at least 2.
        tv_bound: s in (0, 1).
        ratio: u = 2 L / sigma > 0, for noise sigma on the mean.
        batch: b, at least 1.
    """
    drawn = np.arange(1.0, batch + 1.0)
    log_p = _log_binomial(batch, drawn) + drawn * math.log(tv_bound)
    log_p += (batch - drawn) * math.log1p(-tv_bound)
    shared = -(batch - drawn) * math.log1p(-tv_bound)
    square = (drawn * ratio / batch) ** 2
    log_root = 0.5 * (square + np.log(-np.expm1(-square)))
    index = np.arange(2.0, order + 1.0)
    higher = index[1:, None]
    norms = (shared * (higher - 1.0) + math.log(2.0) + 0.5 * higher * (higher - 1.0) * square) / higher
    terms = np.append(2.0 * logsumexp(log_p + 0.5 * shared + log_root), index[1:] * logsumexp(log_p + norms, axis=1))
    return float(np.logaddexp(0.0, logsumexp(_log_binomial(order, index) + terms))) / (order - 1)


def people_by_batch(batch: int) -> int:
    """Return the least n for as many draws in batches, with noise sigma/sqrt(b), which carry the same information."""
    ratio, steps = 2.0 * math.sqrt(batch) / NOISE, round(STEPS / batch)
    orders = [order for order in ORDERS if order <= _MAX_ORDER]

    def fits(n: int) -> bool:
        each = partial(batch_rdp, tv_bound=1.0 / n, ratio=ratio, batch=batch)
        return min(epsilon_at(order, steps * each(order), DELTA) for order in orders) <= EPSILON

    return least(fits, 100, MOST)


def losses(output: str, runs: int) -> list[float]:
    """Return the true losses on T of what so many runs learned in their one round."""
    scenario = resolve(APPENDIX_D.scenario(PEOPLE, 1, STEPS, ETA, CENTER, output=output))
    found = []
    for repetition in range(runs):
        seed = subseed(repetition, "people by average")
        answer = conduct(scenario, seed, lambda number, hypothesis: None).hypothesis
        found.append(loss(answer, evaluation_source(scenario, seed)))
    return found


def _log_binomial(total: int, chosen: Floats) -> Floats:
    return np.asarray(gammaln(total + 1.0) - gammaln(chosen + 1.0) - gammaln(total - chosen + 1.0))


def main() -> None:
    """Compute, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30, help="runs for each average")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error(f"--runs must be at least 1, found {given.runs}")
    tasks = {"Appendix D": APPENDIX_D, "a wider target": Gaussians(2, 0.11)}
    found: dict[str, Any] = {
        "noise": [{"noise": z, "steps": steps_for(z), "n": people_by_noise(z)} for z in NOISES],
        "gaussian limit": gaussian_limit(),
        "kappa": {name: {p: kappa_by_moment(task, p) for p in ORDERS_OF_MOMENTS} for name, task in tasks.items()},
        "kappa by D_inf": APPENDIX_D.kappa,
        "batches": [{"batch": b, "noise": NOISE / math.sqrt(b), "n": people_by_batch(b)} for b in BATCHES],
        "rounds": [{"rounds": rounds, "n": people_by_noise(NOISE, rounds)} for rounds in ROUNDS],
        "averages": {output: statistics.fmean(losses(output, given.runs)) for output in OUTPUTS},
    }
    print(json.dumps(found) if given.json else _lines(found, given.runs))


def _lines(found: dict[str, Any], runs: int) -> str:
    lines = ["noise / L      steps      n"]
    lines += [f"{row['noise']:9g} {row['steps']:10,d} {row['n']:6,d}" for row in found["noise"]]
    lines += [f"in the limit of many steps, at {NOISE:g} L: {found['gaussian limit']:,.0f}", "", "kappa by E[w^p]"]
    for name, kappas in found["kappa"].items():
        shown = ", ".join(f"p = {p:g}: " + ("none" if kappa is None else f"{kappa:.3f}") for p, kappa in kappas.items())
        lines.append(f"{name}: {shown}")
    lines += [f"Appendix D by D_inf: {found['kappa by D_inf']:.3f}", "", "draws a step   noise / L      n"]
    lines += [f"{row['batch']:12d} {row['noise']:11.3g} {row['n']:6,d}" for row in found["batches"]]
    lines += ["", "rounds      n", *(f"{row['rounds']:6d} {row['n']:6,d}" for row in found["rounds"])]
    lines += ["", f"output: mean loss on T of {runs} runs with n = {PEOPLE:,}"]
    lines += [f"{output}: {mean:.3f}" for output, mean in found["averages"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
