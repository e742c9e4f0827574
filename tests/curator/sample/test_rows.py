"""Every kind of rows, single or fixed, in memory or mapped from a file: the same records by every way to them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from common.core.errors import BadData, BadScenario
from common.data.distributions.base import parse_distribution
from common.data.population import PopulationSpec
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant, Stump
from common.local.losses import HypothesisLoss
from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from curator.sample.rows import FixedRows, Grid, SingleRows, _mistakes, draw_total, feature, label, row_of
from tests.tiers import for_each

N = 1000
GRID = Grid.between(-1.0, 1.0)


def people(n=N, d=8, dtype=np.float32):
    generator = np.random.default_rng(d)
    features = generator.uniform(-1.0, 1.0, (n, d)) if dtype == np.float32 else generator.integers(0, 2, (n, d))
    return Records(features.astype(dtype), generator.choice(np.array([-1, 1], dtype=np.int8), n))


def mapped(array, path):
    """Return the array as a read-only map of a file."""
    array.tofile(path)
    return np.memmap(path, dtype=array.dtype, mode="r", shape=array.shape)


def kept(kind, records, folder=None):
    """Return rows of a kind, ``single`` or ``fixed``; in files of the folder, if one is given."""
    columns = (records.features, records.labels) if kind == "single" else (GRID.encode(records),)
    if folder is not None:
        columns = tuple(mapped(column, folder / str(place)) for place, column in enumerate(columns))
    return SingleRows(Records(*columns)) if kind == "single" else FixedRows(columns[0], GRID)


def same(one, other):
    np.testing.assert_array_equal(one.features.astype(np.float32), other.features)
    np.testing.assert_array_equal(one.labels, other.labels)


KINDS = {
    "single": lambda folder: kept("single", people()),
    "bytes": lambda folder: kept("single", people(dtype=np.uint8)),
    "fixed": lambda folder: kept("fixed", people()),
    "fixed, many features": lambda folder: kept("fixed", people(d=40)),
    "single, mapped": lambda folder: kept("single", people(), folder),
    "fixed, mapped": lambda folder: kept("fixed", people(), folder),
}
HYPOTHESES = [
    Linear(weights=(0.3, -1.0, 0.0, 2.5, 1e-3), threshold=0.1),
    Linear(weights=(1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 0.5), threshold=-0.2),
    Linear(weights=(0.0,), threshold=-1e30), Linear(weights=(0.0,), threshold=1e30),
    Linear(weights=(1e-30, 1e30), threshold=1e25), Stump(feature=2, threshold=0.25, sign=-1), Constant(label=-1),
]  # fmt: skip


@for_each("kind", KINDS)
class TestContract:
    def test_blocks_and_single_rows_are_the_same_records(self, kind, tmp_path):
        rows = KINDS[kind](tmp_path)
        whole = rows.block(0, N)
        assert (len(rows), rows.dimension, rows.dtype) == (N, whole.dimension, whole.features.dtype)
        chosen = np.random.default_rng(1).integers(0, N, 3000)
        taken = rows.take(chosen)
        np.testing.assert_array_equal(taken.features, whole.features[chosen])
        np.testing.assert_array_equal(taken.labels, whole.labels[chosen])
        assert taken.features.flags.owndata
        np.testing.assert_array_equal(rows.block(17, 300).features, whole.features[17:300])
        assert len(rows.take(np.empty(0, dtype=np.int64))) == 0
        rows.check()

    @for_each("hypothesis", HYPOTHESES, ids=str)
    def test_losses_are_those_of_the_records_each_of_its_row_alone(self, kind, tmp_path, hypothesis):
        rows = KINDS[kind](tmp_path)
        records = rows.block(0, N)
        for loss in ("zero-one", "hinge"):
            wanted = HypothesisLoss(hypothesis, loss).count(records).astype(np.int64)
            losses = rows.losses(HypothesisLoss(hypothesis, loss))
            assert (losses(0, N).astype(np.int64) != wanted).sum() <= 1  # a margin of 0 but for rounding
            pieces = [losses(begin, min(begin + 37, N)) for begin in range(0, N, 37)]
            np.testing.assert_array_equal(losses(0, N), np.concatenate(pieces))  # each depends on its row alone


@for_each("kind", ["single", "fixed"])
def test_rows_that_no_computation_should_see_are_refused(kind):
    features = np.array([[0.0, 0.0], [0.0, np.nan]], dtype=np.float32)
    with pytest.raises(BadData, match="1 of 2 records hold NaN"):
        kept(kind, Records(features, np.ones(2, dtype=np.int8))).check()


# The grid -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.sampled_from([1, 8]))  # for each a loop is compiled
@settings(max_examples=60)
@example(-5e-324, 32767.0, 1)
def test_every_value_is_rounded_to_the_nearest_of_a_grid_that_reaches_both_ends(low, span, d):
    high = low + span
    grid = Grid.between(low, high)
    assert grid.low <= low
    assert grid.step <= 4 * (high - grid.low) / 65535
    features = np.random.default_rng(d).uniform(low, high, (50, d)).astype(np.float32)
    features[0], features[1] = low, high
    steps = np.array([2 * grid.step, *[grid.step] * (d - 1)])
    decoded = FixedRows.from_records(Records(features, np.ones(50, dtype=np.int8)), grid).block(0, 50).features
    # Half a step, and what float32 cannot say of numbers far from 0.
    slack = 2.0**-23 * max(abs(low), abs(high), 1.0)
    assert (np.abs(decoded.astype(np.float64) - features) <= steps / 2 + slack).all()


def test_a_grid_is_the_finest_that_reaches_from_one_bound_to_the_other_and_its_values_come_back_exactly():
    """Its step is a power of two, the first feature has every second value, and half of the step would not reach."""
    generator = np.random.default_rng(4)
    codes = generator.integers(0, 65536, (N, 3), dtype=np.uint16)
    for low, high in [(-1.0, 1.0), (0.0, 1.0), (-5e-324, 1e9), *np.sort(generator.normal(0, 9, (300, 2))).tolist()]:
        grid = Grid.between(low, high)
        assert np.frexp(grid.step)[0] == 0.5
        assert (grid.low / (2.0 * grid.step)).is_integer()  # 0 is on it
        assert grid.low <= low
        assert grid.low + 32767 * 2.0 * grid.step >= high
        assert np.floor(low / grid.step) * grid.step + 32767 * grid.step < high
        np.testing.assert_array_equal(grid.encode(FixedRows(codes[:50], grid).block(0, 50)), codes[:50])
    for low in (0.0, -1.0):
        plain = Records(np.eye(3, dtype=np.float32), np.ones(3, dtype=np.int8))
        same(plain, FixedRows.from_records(plain, Grid.between(low, 1.0)).block(0, 3))  # 0 and 1 lie on it


def test_bounds_come_from_what_is_public():
    ball = {"name": "gaussian-ball", "side": "source", "d": 8, "close": 2, "sigma_source": 0.1, "sigma_target": 0.07}
    shortened = PopulationSpec(distribution=parse_distribution({**ball, "norm": 0.0775}))
    assert Grid.for_population(shortened) == Grid.between(-0.0775, 0.0775)
    with pytest.raises(BadScenario, match="give the distribution a norm, or keep numbers: single"):
        Grid.for_population(PopulationSpec(distribution=parse_distribution(ball)))
    for bounds in ((1.0, 1.0), (2.0, 1.0), (-np.inf, 0.0), (0.0, np.nan)):
        with pytest.raises(BadScenario, match="need public bounds"):
            Grid.between(*bounds)
    beyond = Records(np.array([[9.0, -9.0]], dtype=np.float32), np.ones(1, dtype=np.int8))
    assert GRID.encode(beyond).tolist() == [[65535, 0]]


def test_codes_of_another_shape_are_refused():
    for shape, dtype in ((8, np.uint16), ((3, 0), np.uint16), ((3, 2), np.int16)):
        with pytest.raises(BadData, match="codes must be"):
            FixedRows(np.zeros(shape, dtype=dtype), GRID)
    with pytest.raises(BadData, match="codes must be"):
        FixedRows(np.zeros((4, 4), dtype=np.uint16)[:, :2], GRID)
    with pytest.raises(BadData, match="keep numbers: single"):
        GRID.encode(people(dtype=np.uint8))


@for_each("d", [17, 200, 1000])
def test_sums_that_single_precision_cannot_tell_from_the_threshold_are_taken_exactly(d):
    generator = np.random.default_rng(d)
    codes = generator.integers(0, 65536, (50, d), dtype=np.uint16)
    bits = 53 - 16 - d.bit_length()
    weights = generator.integers(-(1 << bits), 1 << bits, d)
    exact = np.hstack([codes[:, :1] >> 1, codes[:, 1:]]).astype(np.int64) @ weights
    for row, total in enumerate(exact):
        for threshold in (total - 1, total, total + 1):
            wrong = np.empty(1, dtype=np.uint8)
            _mistakes(codes[row : row + 1], weights.astype(np.float64), float(threshold), wrong)
            assert wrong[0] == int(total > threshold) ^ (codes[row, 0] & 1)


@pytest.mark.slow
@given(st.integers(0, 1 << 30), st.sampled_from([1, 8, 17, 40]))  # for each up to 16 a loop is compiled
@settings(max_examples=40)
def test_integer_mistakes_are_those_of_exact_arithmetic(seed, d):
    # Oracle: Python's integers, with weights rounded to 2^-30 of the largest.
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 65536, (60, d), dtype=np.uint16)
    plane = Linear(weights=tuple(generator.normal(size=d)), threshold=float(generator.normal()) * 0.3)
    rows = FixedRows(codes, GRID)
    factors = [2, *[1] * (d - 1)]
    unit = max(abs(w * f) for w, f in zip(plane.weights, factors, strict=True)) / 2**30
    weights = [round(w * f / unit) for w, f in zip(plane.weights, factors, strict=True)]
    wrong = []
    for row in codes.tolist():
        values = [row[0] >> 1, *row[1:]]
        places = [v + GRID.low / GRID.step / f for v, f in zip(values, factors, strict=True)]
        margin = sum(w * p for w, p in zip(weights, places, strict=True)) - plane.threshold / GRID.step / unit
        wrong.append(int((margin > 0) != bool(row[0] & 1)))
    assert rows.losses(HypothesisLoss(plane, "zero-one"))(0, 60).tolist() == wrong


@for_each("dtype", [np.float32, np.uint8])
def test_mistakes_are_those_of_the_half_space_also_where_its_margins_are_known(dtype):
    records, generator = people(dtype=dtype), np.random.default_rng(7)
    rows = kept("single", records)
    # Whole weights: with features of 0 and 1 many margins are exactly 0.
    planes = [Linear(weights=tuple(generator.integers(-2, 3, 8).tolist()), threshold=1.0) for _ in range(3)]
    some = np.sort(generator.choice(N, 600, replace=False))
    for plane in planes:
        margins = plane.margins(records.features) * records.labels
        for asked in (some, some[::-1], some[:5]):
            np.testing.assert_allclose(rows.signed_margins(plane, asked), margins[asked], atol=1e-5)
        for other in planes:
            losses = rows.losses(HypothesisLoss(other, "zero-one"))
            known = np.concatenate([losses(begin, begin + 250) for begin in range(0, N, 250)])
            np.testing.assert_array_equal(known, other.mistakes(records))
            assert known.dtype == np.uint8
        loss = HypothesisLoss(plane, "hinge")
        np.testing.assert_array_equal(rows.losses(loss)(0, N), loss.count(records))


def test_margins_that_are_no_numbers_are_predicted_negative():
    features = np.full((4, 40), 3e38, dtype=np.float32)
    records = Records(features, np.array([1, -1, 1, -1], dtype=np.int8))
    plane = Linear(weights=(1e30, -1e30) * 20, threshold=0.0)
    rows = SingleRows(records)
    assert np.isnan(rows.signed_margins(plane, np.arange(4))).all()
    np.testing.assert_array_equal(rows.losses(HypothesisLoss(plane, "zero-one"))(0, 4), plane.mistakes(records))


FEW = 300


@njit
def read(matrix, labels, rows, codes, features, signs):
    for k in range(draw_total(matrix, rows)):
        row = row_of(rows, k)
        signs[k] = label(matrix, labels, row)
        for j in range(matrix.shape[1]):
            features[k, j] = feature(matrix, codes, row, j)


def seen(draws):
    features, signs = np.empty((draws.size, draws.matrix.shape[1]), np.float32), np.empty(draws.size, np.int8)
    read(*draws, features, signs)  # type: ignore[call-arg]
    return Records(features, signs)


@for_each(("kind", "d", "dtype"), [("single", 70, np.float32), ("fixed", 70, np.float32), ("single", 200, np.uint8)])
def test_a_loop_reads_the_rows_that_would_be_copied(kind, d, dtype):
    held = kept(kind, people(FEW, d, dtype))
    assert held.near
    for chosen in (np.array([5, 0, 299, 5, 17]), np.array([42])):
        same(held.take(chosen), seen(held.gathered(chosen)))


@for_each("kind", ["single", "fixed"])
@for_each(("d", "place"), [(8, "memory"), (70, "memory"), (70, "a file"), (70, "shards")])
def test_located_draws_are_the_draws_and_lie_where_they_are_if_they_are_long_and_in_one_piece(kind, d, place, tmp_path):
    rows = kept(kind, people(FEW, d), tmp_path if place == "a file" else None)
    sample = LocalSample([rows] * (2 if place == "shards" else 1))
    sampler = Reweighing(len(sample), 0.5, 0.1).sampler(sample)
    gathered = sampler.gathered(500, RandomSource.seeded(3))
    in_place = (d, place) == (70, "memory")
    assert (gathered.rows is not None) == (sample.in_place is not None) == in_place
    same(sampler.draws(500, RandomSource.seeded(3)), seen(gathered))
