"""Private learners of half-spaces on real shifts: the quality on T of the curator's model alone.

    python -m benchmarks.real.learners [--splits 6] [--data DIR]

epsilon = 1, the twelve shifts of benchmarks.real, means over splits and shifts: the loss of the unchanged model, the
loss with the best threshold of its score for T, and the area under the curve. It takes some minutes; docs/learners.md
has the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from benchmarks.real.datasets import SHELF
from benchmarks.real.methods import METHODS
from benchmarks.real.running import facts, split
from benchmarks.real.shifts import SHIFTS, Shift, load
from common.scenario.loading import altered
from common.scenario.plan import resolve
from deploy.simulation import conduct

LEARNERS = {
    "`discriminant` with `precondition: 0`": "{name: discriminant, mu: plan, precondition: 0}",
    "`discriminant`": "{name: discriminant, mu: plan}",
    "`full-batch`": "{name: full-batch, mu: plan}",
    "`sgd`": "{name: sgd, steps: 200000, noise: plan, diameter: 10, intercept: 0.25}",
    "`sgd` with `look: plan`": "{name: sgd, steps: 200000, noise: plan, diameter: 10, intercept: 0.25, look: plan}",
}
EPSILON = 1.0


def measured(shift: Shift, data: Path, learner: str, splits: int) -> list[float]:
    """Return the mean loss, that with the best threshold, and the area under the curve, all times 100."""
    people = load(shift, data)
    known = facts(shift, people, None)
    scenario = METHODS["curator-alone"].scenario(shift, known.n, known.agents, EPSILON)
    assert scenario is not None
    plan = resolve(altered(scenario, [f"curator.learner={learner}"]))
    found = []
    for seed in range(splits):
        one = split(shift, people, seed)
        outcome = conduct(plan, seed, lambda round_, hypothesis: None, records=(one.volunteers, one.agents))
        model: Any = outcome.hypothesis
        scores, positive = np.asarray(model.margins(one.judges.features)), one.judges.labels > 0
        false_alarms, hits, _ = roc_curve(positive, scores)
        wrong = (1.0 - hits) * positive.mean() + false_alarms * (1.0 - positive.mean())
        found.append([np.mean((scores > 0) != positive), wrong.min(), roc_auc_score(positive, scores)])
    means: list[float] = (100.0 * np.mean(found, axis=0)).tolist()
    return means


def main(arguments: list[str] | None = None) -> None:
    """Measure and print a row of the table for each learner."""
    parser = argparse.ArgumentParser(description="Private learners of half-spaces on real shifts.")
    parser.add_argument("--splits", type=int, default=6, help="splits of each shift (6)")
    parser.add_argument("--data", type=Path, default=SHELF, help="where data sets lie")
    chosen = parser.parse_args(arguments)
    for name, learner in LEARNERS.items():
        means = np.mean([measured(shift, chosen.data, learner, chosen.splits) for shift in SHIFTS], axis=0)
        print(f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main()
