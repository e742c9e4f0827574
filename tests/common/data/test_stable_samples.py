"""One changed field of one row changes one record of a sample, in its own slot, whatever the field decides."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from common.core.errors import BadData
from common.data.tables import TableSource
from common.data.tables.sampling import placed, ranked
from common.data.tables.source import apart
from common.numerics.randomness import RandomSource
from tests.common.data.stability import Sampled, afterwards, sampled, with_a_field_changed
from tests.tiers import for_each, thinned

ROWS, N = 600, 150
LABEL = {"column": "rich", "positive": ["yes"], "negative": ["no"]}
FEATURES = [
    {"kind": "number", "column": "row", "low": 0, "high": ROWS},
    {"kind": "number", "column": "age", "low": 0, "high": 100},
]
RULE = {"seed": 5, "unasked": 0.4, "unless": [{"column": "spouse", "values": ["yes"], "factor": 0.3}]}
TABLES = {
    "where": {"where": {"sex": ["m"]}},
    "volunteers": {"selection": {"keep": "volunteers", **RULE}},
    "population": {"selection": {"keep": "population", **RULE}},
    "both": {"where": {"sex": ["m"]}, "selection": {"keep": "volunteers", **RULE, "unasked": 0.1}},
}


def table(name):
    return TableSource.model_validate({"files": ["people.csv"], "label": LABEL, "features": FEATURES, **TABLES[name]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp("stable"), np.random.default_rng(0)
    lines = ["row,age,sex,spouse,rich"]
    for row in range(ROWS):
        sex, spouse, rich = chance.random(3) < (0.6, 0.4, 0.3)
        lines.append(
            f"{row},{chance.integers(100)},{'m' if sex else 'f'},{'yes' if spouse else 'no'},{'yes' if rich else 'no'}"
        )
    (folder / "people.csv").write_text("\n".join(lines))
    return folder


CHANGES = [
    (column, text)
    for column, texts in {"age": "0", "rich": ("yes", "no"), "sex": "mf", "spouse": ("yes", "no")}.items()
    for text in texts
]


@for_each("name", TABLES)
@for_each(("column", "text"), thinned(CHANGES, 2, several=True))
def test_a_changed_field_changes_one_record_in_its_slot(folder, tmp_path, name, column, text):
    """For rows all over the file; before, all slots behind the changed row had other people in them."""
    before = sampled(table(name), N, folder)
    for row in (0, 1, 2, 3, 5, 8, 13, 300, ROWS - 1):
        changed = with_a_field_changed(folder, tmp_path / str(row), table(name), row, column, text)
        after = afterwards(before, table(name), N, changed)
        assert before.slots_that_differ(after) <= 1
        assert before.people_that_differ(after) <= 1


def test_rows_enter_and_leave_in_these_tests(folder, tmp_path):
    before = sampled(table("where"), N, folder)
    moved: set[int] = set()
    for row in range(40):
        changed = with_a_field_changed(folder, tmp_path / str(row), table("where"), row, "sex", "f")
        after = afterwards(before, table("where"), N, changed)
        moved.add(before.slots_that_differ(after))
    assert moved == {0, 1}


def test_filtering_first_and_permuting_afterwards_is_caught(folder, tmp_path):
    """The broken twin, as it was: nearly every slot has somebody else in it."""

    def twin(where):
        sampled = Sampled(where, table("where"), None, RandomSource.seeded(1))
        rows = np.sort(sampled.rows)
        return rows[np.random.default_rng(3).permutation(len(rows))[:N]]

    row = int(np.sort(Sampled(folder, table("where"), None, RandomSource.seeded(1)).rows)[0])
    changed = with_a_field_changed(folder, tmp_path / "twin", table("where"), row, "sex", "f")
    before, after = twin(folder), twin(changed)
    assert np.count_nonzero(before != after) > 0.9 * N
    assert len(set(before.tolist()) - set(after.tolist())) > 10


def test_the_order_is_uniformly_random_whoever_is_in_the_sample():
    """All 24 orders of 4 rows are equally likely, for any four rows; p = 1e-6."""
    for rows in (np.arange(4), np.array([0, 3, 17, 90])):
        found = [tuple(ranked(rows, RandomSource.seeded(seed, "order"))) for seed in range(2400)]
        counts = np.unique(np.array(found), axis=0, return_counts=True)[1]
        assert len(counts) == 24
        assert stats.chisquare(counts).pvalue > 1e-6


def test_a_rank_is_a_function_of_the_row_number_alone():
    rows = np.arange(100)
    everybody = ranked(rows, RandomSource.seeded(1)).tolist()
    some = np.flatnonzero(np.arange(100) % 3 == 0)
    assert [row for row in everybody if row % 3 == 0] == some[ranked(some, RandomSource.seeded(1))].tolist()
    assert ranked(np.arange(0), RandomSource.seeded(1)).tolist() == []


def test_too_few_people_are_refused_without_saying_how_many_there_are():
    with pytest.raises(BadData, match="11 people are wanted, the table has fewer") as refused:
        placed(np.arange(10), 11, RandomSource.seeded(1), None)
    assert "10" not in refused.value.detail


@for_each(
    ("one", "other", "separate"),
    [
        ({}, {}, False),
        ({}, {"files": ["others.csv"]}, True),
        ({}, {"files": ["others.csv", "./people.csv.xz"]}, False),
        ({"where": {"sex": ["m"]}}, {"where": {"sex": ["f"], "age": ["3"]}}, True),
        ({"where": {"sex": ["m"]}}, {"where": {"sex": ["f", "m"]}}, False),
        ({"where": {"sex": ["m"]}}, {"where": {"spouse": ["no"]}}, False),
        (TABLES["volunteers"], TABLES["population"], True),
        (TABLES["volunteers"], TABLES["volunteers"], False),
        (TABLES["volunteers"], {"selection": {"keep": "population", **RULE, "seed": 6}}, False),
        (TABLES["volunteers"], {"selection": {"keep": "population", **RULE, "unasked": 0.5}}, False),
        (TABLES["volunteers"], {**TABLES["population"], "layout": {"skip_lines": 1}}, False),
        (TABLES["volunteers"], {**TABLES["population"], "files": ["others.csv", "people.csv"]}, False),
        (TABLES["volunteers"], {}, False),
    ],
)
def test_sides_are_apart_only_if_no_row_can_be_on_both(one, other, separate):
    tables = [
        TableSource.model_validate({"files": ["people.csv"], "label": LABEL, "features": FEATURES, **side})
        for side in (one, other)
    ]
    assert apart(*tables) == apart(*reversed(tables)) == separate


def test_volunteers_and_population_stay_apart_whatever_field_changes(folder, tmp_path):
    for row, (column, text) in enumerate(CHANGES * 3):
        changed = with_a_field_changed(folder, tmp_path / str(row), table("volunteers"), row, column, text)
        sides = [
            Sampled(changed, table(side), None, RandomSource.seeded(1)).rows for side in ("volunteers", "population")
        ]
        assert not set(sides[0].tolist()) & set(sides[1].tolist())
