"""Data sets have the paper's sizes, and are scaled by what is public alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.adaptation.baselines.methods import RIDGE
from benchmarks.adaptation.datasets import DATASETS
from benchmarks.adaptation.datasets.base import Raw
from benchmarks.adaptation.datasets.scaling import CONSTANT, NORM, scaled
from benchmarks.adaptation.splits import resampled, split
from common.core.errors import BadInput
from curator.learners.adaptation.public_fits import logistic
from tests.benchmarks.adaptation.toy import pair, raw

CHECKOUT = Path(__file__).resolve().parents[3]
SHELF = Path(os.environ.get("TANDEM_DATA", CHECKOUT.parent / "shared" / "data"))
PAPER = {
    # source rows, target rows, inputs without the constant
    "wind": (6016, 558, 11),
    "adult": (20_380, 9782, 14),
    "south_german_credit": (562, 438, 20),
    "gas_drift": (4397, 2300, 133),
    "wine_quality": (4898, 1599, 11),
    "flights": (11_219, 5149, 16),
}


@pytest.mark.skipif(not SHELF.is_dir(), reason="the public data sets are not here (TANDEM_DATA)")
@pytest.mark.parametrize("name", PAPER)
def test_sizes(name):
    found = DATASETS[name](SHELF)
    source, target, inputs = PAPER[name]
    assert found.source.features.shape == (source, inputs + 1)
    assert found.target.features.shape == (target, inputs + 1)
    assert sum(found.sizes) <= target
    for side in (found.source, found.target):
        assert np.linalg.norm(side.features, axis=1).max() <= NORM
        assert np.abs(side.responses).max() <= 1.0
    if found.task == "classification":
        assert set(np.unique(found.target.responses)) == {-1.0, 1.0}


@pytest.mark.skipif(not SHELF.is_dir(), reason="the public data sets are not here (TANDEM_DATA)")
def test_seven_months_may_be_the_target_of_wind():
    months = [DATASETS[name](SHELF) for name in DATASETS if name.startswith("wind")]
    assert [len(found.target) for found in months] == [558] * 7
    assert len({found.name for found in months}) == 7


@pytest.mark.slow
@pytest.mark.skipif(not SHELF.is_dir(), reason="the public data sets are not here (TANDEM_DATA)")
@pytest.mark.parametrize("name", ["adult", "south_german_credit"])
def test_the_ball_holds_every_baselines_half_space(name):
    # NCnvxAdap is kept within Lambda: no baseline may be better only because it is longer.
    found = DATASETS[name](SHELF)
    parts = split(found, 0)
    for side in (parts.source, parts.train):
        free = logistic(side, np.full(len(side), 1 / len(side)), RIDGE)
        assert 0.1 * found.radius < np.linalg.norm(free) <= found.radius


def test_missing_files_are_named(tmp_path):
    for name, load in DATASETS.items():
        with pytest.raises(BadInput, match="--data or TANDEM_DATA"):
            load(tmp_path)
        assert name


def test_a_target_row_is_scaled_by_itself_and_the_public_source():
    source, target = raw(50), raw(20, 1.0)
    changed = Raw(target.features.copy(), target.responses.copy())
    changed.features[7] = [1e6, -1e6, 1e6]
    changed.responses[7] = -1.0
    before, after = (scaled("toy", "regression", source, side, (5, 5, 5), 1.0) for side in (target, changed))
    others = np.arange(20) != 7
    np.testing.assert_array_equal(before.target.features[others], after.target.features[others])
    np.testing.assert_array_equal(before.target.responses[others], after.target.responses[others])
    np.testing.assert_array_equal(before.source.features, after.source.features)
    assert np.linalg.norm(after.target.features, axis=1).max() <= NORM
    assert (after.target.features[:, -1] == CONSTANT).all()


def test_columns_that_are_constant_in_the_source_are_centred():
    source, target = raw(50), raw(20)
    source.features[:, 1] = 4.0
    target.features[:, 1] = 5.0
    found = scaled("toy", "regression", source, target, (5, 5, 5), 1.0)
    assert np.isfinite(found.target.features).all()
    assert not np.allclose(found.target.features[:, 1], 0.0)


def _distinct(side):
    return {row.tobytes() for row in side.features}


def test_clean_splits_share_no_row_and_leaky_ones_do():
    parts = {copies: split(pair(copies=8), 3, copies) for copies in ("none", "clean", "leaky")}
    for copies, found in parts.items():
        times = 1 if copies == "none" else 8
        sizes = [len(side) for side in (found.train, found.validation, found.test)]
        assert sizes == [40 * times, 20 * times, 30 * times]
        shared = _distinct(found.train) & _distinct(found.test)
        assert bool(shared) == (copies == "leaky")
    assert _distinct(parts["none"].train) == _distinct(parts["clean"].train)


def test_a_split_is_the_same_whenever_it_is_asked_for():
    first, again, other = (split(pair(), number) for number in (1, 1, 2))
    np.testing.assert_array_equal(first.train.features, again.train.features)
    assert _distinct(first.train) != _distinct(other.train)


def test_resampled_rows_come_from_the_training_rows_alone():
    found = resampled(pair(), 0, 500)
    assert len(found.train) == 500
    assert _distinct(found.train) <= _distinct(split(pair(), 0).train)
    assert not _distinct(found.train) & _distinct(found.test)
