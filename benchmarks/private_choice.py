"""The cost and the benefit of a private choice of hyperparameters.

    python -m benchmarks.private_choice [--people 4000] [--repetitions 10] [--json]

First the cost: epsilon of a choice among runs that cost (1, 1e-6) each, by the direct bound and by Renyi divergences,
and the mu that is left for a run if the choice costs (1, 1e-6). Then the benefit, on simulated people: the squared
error of CnvxAdap for each setting of a grid at the whole budget, for the best of them selected on the people's data
(which has no guarantee), and for the private choice, with everything within the budget.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

from common.data.population import PopulationSpec, open_records
from common.learners.chosen import combinations
from common.local.losses import evaluate
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.renyi import ORDERS, epsilon_at
from common.privacy.theorems.selection import (
    AnyLaw,
    NegativeBinomial,
    Poisson,
    epsilon_of_selection,
    geometric,
    mu_for_selection,
    selection_rdp,
)
from curator.learners.base import learn_from, parse_learner
from curator.sample.reweighing import Reweighing

EPSILON, DELTA = 1.0, 1e-6
LAWS: dict[str, AnyLaw] = {
    "one run": geometric(1.0, 1),
    "Poisson, 4": Poisson(rate=4.0, most=14),
    "Poisson, 10": Poisson(rate=10.0, most=26),
    "geometric, 4": geometric(4.0),
    "geometric, 10": geometric(10.0),
    "geometric, 30": geometric(30.0),
    "logarithmic, 10": NegativeBinomial(eta=0.0, gamma=0.0275, most=80),
    "eta = -1/2, 10": NegativeBinomial(eta=-0.5, gamma=0.00277, most=150),
}
CHOICES = ("geometric, 4", "geometric, 10")
LINE = {"name": "drifting-line", "d": 10, "slope": 0.8, "noise": 0.05, "drift": 0.5, "skew": 2.0}
LEARNER = {"name": "cnvx-adap", "features": 10, "response": 10, "radius": 2.0, "norm": 1.6, "iterations": 300}
GRID = {"alpha": [0.1, 0.3, 0.5, 0.7, 0.9], "kappa_1": [0.0, 30.0]}
PUBLIC, TEST = 8000, 20_000


def prices() -> list[dict[str, Any]]:
    """Return the cost of each law of the number of runs."""
    one = mu_allowed(EPSILON, DELTA)
    return [
        {
            "law": name,
            "expected": law.expected,
            "most": law.most,
            "epsilon": epsilon_of_selection(one, law, DELTA),
            "renyi": min(epsilon_at(order, selection_rdp(order, one, law), DELTA) for order in ORDERS),
            "mu_left": mu_for_selection(EPSILON, DELTA, law) / one,
        }
        for name, law in LAWS.items()
    ]


def people(side: str, seed: int, count: int) -> Records:
    """Return simulated people of one side."""
    population = open_records(
        PopulationSpec.model_validate({"distribution": {**LINE, "side": side}}), None, seed, count
    )
    return population.records(np.arange(count))


def worth(repetition: int, curator: int) -> dict[str, float]:
    """Return the squared error of each method to choose settings, for one sample."""
    sample, public, test = (
        people(side, 3 * repetition + place, count)
        for place, (side, count) in enumerate([("target", curator), ("source", PUBLIC), ("target", TEST)])
    )
    draws, source = Reweighing(curator, None, 1.0).sampler(sample), RandomSource.seeded(repetition, "choice")

    def error(settings: dict[str, Any]) -> float:
        learned = learn_from(parse_learner(settings), draws, source.derive(json.dumps(settings)), None, public)
        return float(evaluate("squared", learned, test).mean())

    whole = mu_allowed(EPSILON, DELTA)
    fixed = [error({**LEARNER, **settings, "mu": whole}) for settings in combinations(GRID)]
    found = {"worst settings": max(fixed), "mean over the grid": float(np.mean(fixed)), "tuned for free": min(fixed)}
    wrapped = {"name": "chosen", "learner": LEARNER, "grid": GRID, "loss": "squared", "cut": 0.05}
    for name in CHOICES:
        mu = mu_for_selection(EPSILON, DELTA, LAWS[name])
        found[f"chosen privately: {name}"] = error({**wrapped, "law": LAWS[name].wire(), "mu": mu})
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="the price and the worth of a private choice")
    parser.add_argument("--people", type=int, default=4000, help="the curator's")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    table = prices()
    errors = [worth(repetition, chosen.people) for repetition in range(chosen.repetitions)]
    rows = [
        {"method": name, "mean": float(np.mean(values)), "deviation": float(np.std(values))}
        for name, values in ((name, [found[name] for found in errors]) for name in (errors[0] if errors else ()))
    ]
    if chosen.json:
        print(json.dumps({"prices": table, "people": chosen.people, "worth": rows}))
        return 0
    print(f"{'law of K':<18} {'E[K]':>6} {'most':>5} {'epsilon':>8} {'Renyi':>6} {'mu left':>8}")
    for price in table:
        numbers = "{expected:>6.1f} {most:>5} {epsilon:>8.3f} {renyi:>6.3f} {mu_left:>8.3f}".format(**price)
        print(f"{price['law']:<18} {numbers}")
    print(f"\nsquared error, {chosen.people:,} people of the curator's, {chosen.repetitions} repetitions")
    for row in rows:
        print(f"{row['method']:<32} {row['mean']:.5f} +- {row['deviation']:.5f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
