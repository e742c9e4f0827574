"""What is measured for the tables: methods on splits of data sets, each repetition a split, and where its rows go."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.adaptation.baselines.methods import BASELINES
from benchmarks.adaptation.candidates import Method
from benchmarks.adaptation.datasets import DATASETS
from benchmarks.adaptation.ours import OURS
from benchmarks.adaptation.splits import Copies

METHODS: dict[str, Method] = {**BASELINES, **OURS}
SPLITS = 10


@dataclass(frozen=True)
class Point:
    """A method on splits of a data set, with the paper's copies of rows or without."""

    dataset: str
    copies: Copies
    method: str

    @property
    def name(self) -> str:
        """Of its rows in the file of results."""
        return f"{self.dataset}; {self.copies}; {self.method}"


REGRESSION = ("train on source", "train on target", "KMM", "DM", "SBest", "CnvxAdap")
CLASSIFICATION = ("train on source", "train on target", "KMM", "SBest", "NCnvxAdap")
BY_MONTH = ("train on target", "SBest", "CnvxAdap")
"""What is measured for each month that wind's target may be."""
MONTHS = tuple(name for name in DATASETS if name.startswith("wind, "))


def points() -> tuple[Point, ...]:
    """Return all points of the tables; what others are compared with comes first."""
    found: list[Point] = []
    for dataset in ("wind", "gas_drift", "gas_drift, batch 5", "wine_quality"):
        found += [Point(dataset, "none", method) for method in (*REGRESSION, *private("CnvxAdap"))]
    labelled: tuple[tuple[str, Copies], ...] = (
        ("adult", "none"),
        ("south_german_credit", "leaky"),
        ("south_german_credit", "clean"),
    )
    for dataset, copies in labelled:
        found += [Point(dataset, copies, method) for method in (*CLASSIFICATION, *private("NCnvxAdap"))]
    found += [Point("south_german_credit", "none", method) for method in private("NCnvxAdap")]
    found += [Point(month, "none", method) for month in MONTHS for method in BY_MONTH]
    return tuple(found)


def private(algorithm: str) -> tuple[str, ...]:
    """Return the names of an algorithm's private versions."""
    return tuple(name for name in OURS if name.startswith(f"{algorithm}, "))
