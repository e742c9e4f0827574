"""What a public clip of residuals and a public start are worth, at fixed settings.

    python -m benchmarks.adaptation.clips [--json] [--data DIR] [--splits 10]

CnvxAdap at epsilon = 1, delta = .01, alpha = 1/2 and T = 400, on the same splits and with the same noise: with the
greatest residual that there can be as its clip, with the clip that the public source says, and begun at the source's
fit as well. Errors are relative to training on the target without privacy; the public source alone is beside them. No
setting is chosen. A minute of one core.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adaptation.baselines.methods import BASELINES
from benchmarks.adaptation.candidates import score
from benchmarks.adaptation.datasets import DATASETS
from benchmarks.adaptation.ours import DELTA, fit
from benchmarks.adaptation.splits import split
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import mu_allowed
from curator.learners.domains import Domains

EPSILON = 1.0
FIXED: dict[str, Any] = {"alpha": 0.5, "iterations": 400}
SETS = ("flights", "wind", "gas_drift", "gas_drift, batch 5", "wine_quality")
VARIANTS: dict[str, dict[str, Any]] = {
    "greatest clip": {"residual_clip": None, "start": "zero"},
    "public clip": {"residual_clip": "public", "start": "zero"},
    "public clip and start": {"residual_clip": "public", "start": "public"},
}


def relative(dataset: str, data: Path, number: int) -> dict[str, float]:
    """Return the errors of one split, relative to training on the target: of the source alone, and of each variant."""
    pair = DATASETS[dataset](data)
    parts = split(pair, number)
    alone, reference = (
        score("regression", parts.test, next(iter(BASELINES[name](pair, parts))).weights)
        for name in ("train on source", "train on target")
    )
    found = {"source alone": alone / reference}
    for name, variant in VARIANTS.items():
        noise = RandomSource.seeded(number, "clips")
        weights = fit(pair, Domains(parts.source, parts.train), FIXED | variant, mu_allowed(EPSILON, DELTA), noise)
        found[name] = score("regression", parts.test, weights) / reference
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print means and deviations by data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print rows as one JSON list")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TANDEM_DATA", "../shared/data")))
    parser.add_argument("--splits", type=int, default=10)
    given = parser.parse_args(arguments)
    rows = []
    for dataset in SETS:
        splits = [relative(dataset, given.data, number) for number in range(given.splits)]
        for method in splits[0]:
            values = np.array([found[method] for found in splits])
            row = {"dataset": dataset, "method": method, "mean": values.mean(), "deviation": values.std(ddof=1)}
            rows.append(row)
            if not given.json:
                print(f"{dataset:20s} {method:22s} {row['mean']:7.3f} ± {row['deviation']:.3f}", flush=True)
    if given.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
