"""The documented selection bias: who volunteers, who is never asked, and what bounds the weights."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core.errors import BadMessage
from common.data.tables import Layout, Selection, TableSource, load
from common.data.tables.files import Piece
from common.data.tables.loading import volunteering
from tests.tiers import for_each

ROWS = 30_000
UNLESS = (
    {"column": "spouse", "values": ["yes"], "factor": 0.1},
    {"column": "age", "above": 40, "below": 60, "factor": 0.5},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("selection")
    random = np.random.default_rng(0)
    age, spouse = random.integers(20, 80, ROWS), random.random(ROWS) < 0.4
    rows = [
        f"{i},{a},{'yes' if s else 'no'},{'rich' if a > 50 else 'poor'}"
        for i, (a, s) in enumerate(zip(age, spouse, strict=True))
    ]
    (folder / "people.csv").write_text("\n".join(["row,age,spouse,label", *rows]))
    return folder


def kept(folder, keep, where=None, **selection):
    source = TableSource.model_validate(
        {
            "files": ["people.csv"],
            "label": {"column": "label", "positive": ["rich"], "negative": ["poor"]},
            "features": [
                {"kind": "number", "column": "row", "low": 0, "high": ROWS},
                {"kind": "number", "column": "age", "low": 0, "high": 100},
                {"kind": "category", "column": "spouse", "values": ["yes"]},
            ],
            "where": where or {},
            "selection": {"keep": keep, "seed": 1, "unless": UNLESS} | selection,
        }
    )
    features = load(folder, source).features.astype(np.float64)
    return np.rint(features[:, 0] * ROWS).astype(int), np.rint(features[:, 1] * 100), features[:, 2] == 1


def test_nobody_is_both_a_volunteer_and_never_asked(folder):
    volunteers, population = kept(folder, "volunteers")[0], kept(folder, "population")[0]
    assert not set(volunteers) & set(population)


def test_the_never_asked_are_a_fair_share_of_everybody(folder):
    # 6 standard errors.
    rows, age, spouse = kept(folder, "population", unasked=0.3)
    assert abs(len(rows) - 0.3 * ROWS) < 6 * np.sqrt(0.21 * ROWS)
    assert abs(spouse.mean() - 0.4) < 6 * np.sqrt(0.24 / len(rows))
    assert abs(age.mean() - 49.5) < 6 * 17.4 / np.sqrt(len(rows))


@pytest.mark.slow
def test_each_group_volunteers_at_its_public_rate(folder):
    # 6 standard errors in each of the four groups; half of the people are asked.
    everybody = kept(folder, "volunteers", unless=[], unasked=1e-9)
    volunteers = kept(folder, "volunteers", willing=0.8)

    def size(people, married, middle):
        _, age, spouse = people
        return np.sum((spouse == married) & (((age > 40) & (age <= 60)) == middle))

    for married, middle, chance in [(0, 0, 0.8), (0, 1, 0.4), (1, 0, 0.08), (1, 1, 0.04)]:
        of, rate = size(everybody, married, middle), chance / 2
        assert abs(size(volunteers, married, middle) - of * rate) < 6 * np.sqrt(of * rate * (1 - rate))


@pytest.mark.slow
def test_the_coins_belong_to_the_row_whatever_else_is_filtered(folder):
    rows, _, spouse = kept(folder, "volunteers")
    married = kept(folder, "volunteers", where={"spouse": ["yes"]})[0]
    assert set(married) == set(rows[spouse])


@pytest.mark.slow
def test_another_seed_chooses_others(folder):
    assert set(kept(folder, "population")[0]) != set(kept(folder, "population", seed=2)[0])


def test_conditions_do_not_hold_where_the_field_is_missing():
    frame = polars.DataFrame({"age": ["?", "50", "", "40", "61"], "spouse": ["yes", "?", "", "no", "no"]})
    selection = Selection.model_validate({"keep": "volunteers", "seed": 0, "unless": UNLESS})
    chances = volunteering(Piece("f", frame, np.arange(5)), selection, Layout())
    np.testing.assert_allclose(chances, [0.1, 0.5, 1, 1, 1])


def test_a_condition_may_have_one_side_only():
    frame = polars.DataFrame({"age": ["10", "40", "41"]})
    piece = Piece("f", frame, np.arange(3))
    for sides, expected in [({"above": 40}, [1, 1, 0.5]), ({"below": 40}, [0.5, 0.5, 1])]:
        unless = [{"column": "age", "factor": 0.5, **sides}]
        selection = Selection.model_validate({"keep": "volunteers", "seed": 0, "unless": unless})
        np.testing.assert_allclose(volunteering(piece, selection, Layout()), expected)


@given(
    st.lists(st.floats(0.05, 1), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 7), st.floats(0.01, 1)), min_size=1, max_size=12),
)
def test_the_public_divergences_bound_those_of_every_population(factors, groups):
    # Kantorovich's inequality, whatever shares the groups have. Bit k of a group: condition k holds.
    unless = [{"column": "c", "values": ["v"], "factor": factor} for factor in factors]
    selection = Selection.model_validate({"keep": "volunteers", "seed": 0, "unless": unless})
    chances = np.array([np.prod([f for k, f in enumerate(factors) if group >> k & 1]) for group, _ in groups])
    shares = np.array([share for _, share in groups]) / sum(share for _, share in groups)
    mean = shares @ chances
    assert mean * (shares @ (1 / chances)) <= selection.chi_squared * (1 + 1e-9)
    assert mean / chances.min() <= selection.supremum * (1 + 1e-9)


def test_without_conditions_there_is_no_bias():
    selection = Selection(keep="volunteers", seed=0)
    assert (selection.chi_squared, selection.supremum) == (1.0, 1.0)


@for_each(
    "condition",
    [
        {"column": "a", "factor": 0.5},
        {"column": "a", "values": ["x"], "above": 3, "factor": 0.5},
        {"column": "a", "values": ["x"], "factor": 0},
        {"column": "a", "values": ["x"], "factor": 1.5},
    ],
)
def test_conditions_that_make_no_sense_are_refused(condition):
    with pytest.raises(BadMessage):
        Selection.parse({"keep": "volunteers", "seed": 0, "unless": [condition]})
