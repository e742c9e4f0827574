"""Figures 1 to 3: what privacy costs against the number of target rows, noisy minibatch SGD, and private matching.

As in the paper, rows are drawn with replacement to have more of them, and each counts as a person of its own. Unlike
there, settings are fixed beforehand, the same for all points, so that no curve hides a choice that was not paid for.
Figure 3 compares CnvxAdap that hardly looks at the target's labels (alpha = .99; the paper's 1 divides by zero) with
private discrepancy minimization, which does not see them: by a noisy moment, and by Frank and Wolfe.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from benchmarks.adaptation.baselines import private_moments
from benchmarks.adaptation.baselines.minibatch_sgd import descend
from benchmarks.adaptation.candidates import score
from benchmarks.adaptation.datasets import DATASETS
from benchmarks.adaptation.datasets.base import Pair
from benchmarks.adaptation.datasets.scaling import NORM
from benchmarks.adaptation.ours import DELTA, fit
from benchmarks.adaptation.points import Point
from benchmarks.adaptation.splits import resampled
from benchmarks.figures.plotting import COLOURS, panels
from benchmarks.figures.store import Row
from common.learners.adaptation import MatchingFields
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import mu_allowed
from curator.learners.domains import Domains
from curator.learners.matching import matched

SIZES = (1000, 2500, 5000, 10_000)
"""Target rows, n."""
EPSILONS = (0.5, 1.0, 4.0, 10.0)
SETTINGS: dict[str, dict[str, Any]] = {
    "gas_drift": {"alpha": 0.5, "iterations": 400},
    "adult": {"alpha": 0.1, "iterations": 600},
}
NONE, SGD, CLIPPED = "no privacy", "SGD", "clipped SGD"
MATCHING, SOURCE_FIRST = "private DM", "CnvxAdap, alpha .99"
FRANK_WOLFE = "private DM by Frank-Wolfe"
THIRD = 15.0
"""Epsilon of Figure 3, the paper's."""
CLIP = 0.5
"""Of the clipped SGD; the other has the greatest gradient there is, as CnvxAdap has."""
_MARK = "figure; "


def names() -> tuple[str, ...]:
    """Return all points: data set, algorithm or epsilon, and n."""
    curves = [("gas_drift", NONE), ("adult", NONE)]
    curves += [(dataset, f"epsilon {epsilon:g}") for dataset, epsilon in product(SETTINGS, EPSILONS)]
    curves += [("gas_drift", f"{name}, epsilon {epsilon:g}") for name, epsilon in product((SGD, CLIPPED), EPSILONS)]
    curves += [("gas_drift", f"{name}, epsilon {THIRD:g}") for name in (MATCHING, FRANK_WOLFE, SOURCE_FIRST)]
    return tuple(f"{_MARK}{dataset}; {curve}; {size}" for (dataset, curve), size in product(curves, SIZES))


def holds(row: Row) -> bool:
    """Tell whether a row is one of a figure's."""
    return row.point.startswith(_MARK)


def missing(rows: Iterable[Row], runs: int) -> list[tuple[str, int]]:
    """Return what is still to be measured, data set by data set."""
    done = {(row.point, row.repetition) for row in rows}
    ordered = sorted(names(), key=lambda name: name.split("; ")[1], reverse=True)
    return [(name, number) for name in ordered for number in range(runs) if (name, number) not in done]


def measure(name: str, number: int, data: Path) -> Row:
    """Measure one run of a point: a split, rows drawn from its training part, a fit, the error on its test part."""
    began = time.perf_counter()
    _, dataset, curve, size = name.split("; ")
    pair = _pair(dataset, data)
    parts = resampled(pair, number, int(size))
    source = RandomSource.seeded(number, name)
    epsilon = None if curve == NONE else float(curve.rpartition(" ")[2])
    if curve.startswith((SGD, CLIPPED)):
        assert epsilon is not None
        clip = CLIP if curve.startswith(CLIPPED) else 2.0 * (pair.radius * NORM + 1.0)
        weights = descend(parts.train, epsilon, DELTA, pair.radius, clip, source)
    elif curve.startswith(FRANK_WOLFE):
        own = MatchingFields(norm=NORM, radius=pair.radius)
        weights = matched(Domains(parts.source, parts.train), own, mu_allowed(THIRD, DELTA), source)
    elif curve.startswith(MATCHING):
        domains = Domains(parts.source, parts.train)
        weights = private_moments.learn(domains, THIRD, DELTA, NORM, pair.radius, source)
    else:
        mu = None if epsilon is None else mu_allowed(epsilon, DELTA)
        settings = {**SETTINGS[dataset], **({"alpha": 0.99} if curve.startswith(SOURCE_FIRST) else {})}
        weights = fit(pair, Domains(parts.source, parts.train), settings, mu, source)
    measured = {"test": score(pair.task, parts.test, weights)}
    return Row(name, number, number, round(time.perf_counter() - began, 3), measured)


def draw(rows: Iterable[Row], output: Path) -> None:
    """Draw the figures from what is there, as SVG and PNG; the tables' rows have what the source alone is worth."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.point.removeprefix(_MARK), []).append(float(row.measured["test"]))
    for ending in ("svg", "png"):
        with panels(output / f"adaptation-figure1.{ending}", ("CnvxAdap on Gas", "NCnvxAdap on Adult")) as axes:
            for axis, dataset in zip(axes, SETTINGS, strict=True):
                _curves(axis, found, dataset, [NONE, *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)])
                _alone(axis, found.get(Point(dataset, "none", "train on source").name), dataset)
                axis.legend(fontsize=7)
        titles = ("CnvxAdap, and SGD (dash-dotted)", f"CnvxAdap, and SGD clipped at {CLIP:g} (dotted)")
        with panels(output / f"adaptation-figure2.{ending}", titles) as axes:
            for axis, other in zip(axes, (SGD, CLIPPED), strict=True):
                _curves(axis, found, "gas_drift", [f"epsilon {epsilon:g}" for epsilon in EPSILONS])
                axis.legend(fontsize=7)
                _curves(axis, found, "gas_drift", [f"{other}, epsilon {epsilon:g}" for epsilon in EPSILONS])

    for ending in ("svg", "png"):
        with panels(output / f"adaptation-figure3.{ending}", (f"Gas, epsilon = {THIRD:g}",)) as (axis,):
            _curves(
                axis,
                found,
                "gas_drift",
                [f"{name}, epsilon {THIRD:g}" for name in (SOURCE_FIRST, MATCHING, FRANK_WOLFE)],
            )
            _alone(axis, found.get(Point("gas_drift", "none", "train on source").name), "gas_drift")
            axis.legend(fontsize=7)


def _alone(axis: Axes, group: list[float] | None, dataset: str) -> None:
    """Draw what training on the public source alone has: no target, no privacy loss."""
    if group:
        mean = float(np.mean(group)) * (100.0 if dataset == "adult" else 1.0)
        axis.axhline(mean, color=COLOURS[7], linewidth=1.0, linestyle=":", label="source alone")


def _curves(axis: Axes, found: dict[str, list[float]], dataset: str, curves: list[str]) -> None:
    """Draw the mean of each curve and its deviation over the runs."""
    for curve in curves:
        groups = [(size, found.get(f"{dataset}; {curve}; {size}", [])) for size in SIZES]
        known = [(size, np.array(group)) for size, group in groups if group]
        if not known:
            continue
        known_places = {NONE: 5, **{f"{epsilon:g}": place for place, epsilon in enumerate((*EPSILONS, THIRD))}}
        place = known_places[curve if curve == NONE else curve.rpartition(" ")[2]]
        style = {NONE: "--", SGD: "-.", CLIPPED: ":", MATCHING: "-.", FRANK_WOLFE: ":"}.get(curve.split(",")[0], "-")
        sizes, means = [size for size, _ in known], np.array([group.mean() for _, group in known])
        spread = np.array([group.std(ddof=1) if len(group) > 1 else 0.0 for _, group in known])
        if dataset == "adult":
            means, spread = 100.0 * means, 100.0 * spread
        axis.plot(sizes, means, style, color=COLOURS[place], label=curve, linewidth=1.5)
        axis.fill_between(sizes, means - spread, means + spread, color=COLOURS[place], alpha=0.12, linewidth=0)
    axis.set_xlabel("target rows n")
    axis.set_ylabel("accuracy, %" if dataset == "adult" else "mean squared error")
    axis.set_xscale("log")
    if dataset != "adult":
        axis.set_yscale("log")


@lru_cache(maxsize=1)
def _pair(dataset: str, data: Path) -> Pair:
    return DATASETS[dataset](data)
