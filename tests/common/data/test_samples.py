"""People by their number, simulated or from a table."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from common.core.errors import BadData, BadScenario
from common.data import population as people_module
from common.data.files import pieces
from common.data.population import (
    PopulationSpec,
    SimulatedRecordSource,
    TableRecordSource,
    locate,
    open_records,
    placed,
    ranked,
)
from common.data.tables import TableSource, disjoint
from common.numerics.randomness import RandomSource
from common.scenario.loading import load, shipped
from common.scenario.scenario import Scenario
from tests.common.data.stability import Sampled, afterwards, sampled, with_a_field_changed
from tests.tiers import for_each, thinned

BALL = {"name": "gaussian-ball", "side": "source", "d": 4, "close": 2, "sigma_source": 1, "sigma_target": 0.7}
SIMULATED = PopulationSpec.model_validate({"distribution": BALL})
TABLE = PopulationSpec.model_validate(
    {
        "table": {
            "files": ["people.csv"],
            "label": {"column": "label", "positive": ["yes"], "negative": ["no"]},
            "features": [{"kind": "number", "column": "x", "low": 0, "high": 100}],
        }
    }
)


@pytest.fixture
def folder(tmp_path):
    lines = ["x,label", *(f"{i},{'yes' if i % 3 else 'no'}" for i in range(100))]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    return tmp_path


def rows(population):
    return np.rint(population.records(np.arange(len(population))).features[:, 0] * 100).astype(int).tolist()


def test_a_simulated_crowd_is_the_distribution(folder):
    population = open_records(SIMULATED, None, seed=3, size=50)
    people = np.array([7, 0, 49])
    assert isinstance(population, SimulatedRecordSource)
    assert (len(population), population.dimension) == (50, 4)
    drawn = SIMULATED.distribution.draw(3, people)
    np.testing.assert_array_equal(population.records(people).features, drawn.features)


def test_many_people_drawn_on_all_cores_are_the_same_people(monkeypatch):
    population, order = open_records(SIMULATED, None, seed=3, size=1000), np.random.default_rng(0).permutation(1000)
    at_once = population.records(order)
    monkeypatch.setattr(people_module, "_SHARE", 64)
    in_shares = population.records(order)
    np.testing.assert_array_equal(in_shares.features, at_once.features)
    np.testing.assert_array_equal(in_shares.labels, at_once.labels)


def test_a_table_crowd_is_the_table_in_an_order_that_the_seed_decides(folder):
    population = open_records(TABLE, folder, seed=3, size=None)
    assert isinstance(population, TableRecordSource)
    assert (len(population), population.dimension) == (100, 1)
    assert rows(population) != list(range(100))
    assert sorted(rows(population)) == list(range(100))
    assert rows(population) == rows(open_records(TABLE, folder, seed=3, size=None))
    assert rows(population) != rows(open_records(TABLE, folder, seed=4, size=None))
    labels = population.records(np.arange(100)).labels
    np.testing.assert_array_equal(labels, np.where(np.array(rows(population)) % 3, 1, -1))
    part = open_records(TABLE, folder, seed=3, size=20)  # its first people; there are no further ones
    assert rows(part) == rows(part.shifted(1000)) == rows(population)[:20]


def test_shifted_simulated_people_are_those_who_follow(folder):
    population, people = open_records(SIMULATED, None, seed=3, size=50), np.arange(10)
    np.testing.assert_array_equal(
        population.shifted(30).records(people).features, population.records(people + 30).features
    )
    assert len(population.shifted(1000)) == 50


@for_each("people", [[-1], [50], [0, 50]])
def test_people_who_are_not_there_are_refused(people):
    with pytest.raises(BadData, match=r"numbered 0\.\.49"):
        open_records(SIMULATED, None, seed=3, size=50).records(np.array(people))


def test_a_table_needs_its_directory_and_a_simulation_its_size(folder):
    with pytest.raises(BadScenario, match="key data"):
        open_records(TABLE, None, seed=3, size=10)
    with pytest.raises(BadScenario, match="no size"):
        open_records(SIMULATED, folder, seed=3, size=None)


def test_data_is_found_where_it_is_said_to_be_or_on_the_shelf(tmp_path, monkeypatch):
    (tmp_path / "adult").mkdir()
    monkeypatch.delenv("TANDEM_DATA", raising=False)
    assert locate(str(tmp_path / "adult")) == tmp_path / "adult"
    with pytest.raises(BadScenario, match="there is no directory adult; put the files there"):
        locate("adult")
    monkeypatch.setenv("TANDEM_DATA", str(tmp_path))
    assert locate("adult") == tmp_path / "adult"
    with pytest.raises(BadScenario, match="there is no directory wine nor "):
        locate("wine")


SHELF = Path(os.environ.get("TANDEM_DATA", Path(__file__).resolve().parents[3].parent / "shared" / "data"))


def real(name: str) -> Scenario | None:
    """Return a shipped scenario about real people, None if it has none; the files need not be here."""
    scenario = load(name, ["data=."])
    return scenario if scenario.source.table is not None and scenario.target.table is not None else None


REAL = [name for name in shipped() if real(name) is not None]
SLOW = ("adult-biased", "domain-adaptation")
"""One of groups of people, one of two domains; the others take minutes."""


def changes(table: TableSource, folder: Path) -> list[tuple[str, int, str, str]]:
    """Return the kind of each change, a row, a column, and what it comes to hold, which it did not hold before.

    Every number and category once would be many: the first of each, the label, and for what decides who is in the
    sample a change in each direction.
    """
    columns = {name: _texts(table, folder, name) for name in table.columns}
    asked = [("label", table.label.column)]
    asked += [(kind, next(f.column for f in table.features if f.kind == kind)) for kind in _kinds(table)]
    found = [(kind, 7, column, _another(columns[column], 7)) for kind, column in asked]
    for column in table.conditions:
        values = {*table.where.get(column, ()), *_values(table, column)}
        inside = next(row for row, text in enumerate(columns[column]) if text in values)
        outside = next(row for row, text in enumerate(columns[column]) if text not in values)
        found += [
            ("leaves", inside, column, columns[column][outside]),
            ("enters", outside, column, columns[column][inside]),
        ]
    return found


def _kinds(table: TableSource) -> list[str]:
    return sorted({feature.kind for feature in table.features})


def _values(table: TableSource, column: str) -> set[str]:
    unless = table.selection.unless if table.selection else ()
    return {value for condition in unless if condition.column == column for value in condition.values}


def _texts(table: TableSource, folder: Path, column: str) -> list[str]:
    texts: list[str] = []
    for file in table.files:
        for piece in pieces(folder / file, table.layout, frozenset({column})):
            texts += piece.frame[column].to_list()
    return texts


def _another(texts: list[str], row: int) -> str:
    return next(text for text in texts if text not in (texts[row], *("", "?")))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else pytest.mark.thorough) for name in REAL]
)
def test_a_changed_field_changes_one_record_of_each_side_in_its_slot(name, tmp_path):
    if not SHELF.is_dir():
        pytest.skip(f"there is no folder {SHELF}: set TANDEM_DATA to that of the public data sets")
    scenario = load(name)
    folder = SHELF / str(scenario.data)
    if scenario.source.table is None:
        scenario = load(name, [f"data={SHELF}"])
        folder = Path(str(scenario.data))
    sides = {
        "curator": (scenario.source.table, scenario.curator.n),
        "agents": (scenario.target.table, scenario.agents.count),
    }
    samples = {side: sampled(table, size, folder) for side, (table, size) in sides.items()}
    seen: set[str] = set()
    for number, (kind, row, column, text) in enumerate(changes(scenario.source.table, folder)):
        changed = with_a_field_changed(folder, tmp_path / str(number), scenario.source.table, row, column, text)
        for side, (table, size) in sides.items():
            before, after = samples[side], afterwards(samples[side], table, size, changed)
            assert len(before) == size
            assert before.people_that_differ(after) <= 1, (kind, column)
            assert before.slots_that_differ(after) <= 1, (kind, column)
        seen.add(kind)
        shutil.rmtree(changed)
    assert seen >= {"label", "number"}


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
def samples_folder(tmp_path_factory):
    samples_folder, chance = tmp_path_factory.mktemp("stable"), np.random.default_rng(0)
    lines = ["row,age,sex,spouse,rich"]
    for row in range(ROWS):
        sex, spouse, rich = chance.random(3) < (0.6, 0.4, 0.3)
        lines.append(
            f"{row},{chance.integers(100)},{'m' if sex else 'f'},{'yes' if spouse else 'no'},{'yes' if rich else 'no'}"
        )
    (samples_folder / "people.csv").write_text("\n".join(lines))
    return samples_folder


CHANGES = [
    (column, text)
    for column, texts in {"age": "0", "rich": ("yes", "no"), "sex": "mf", "spouse": ("yes", "no")}.items()
    for text in texts
]


@for_each("name", TABLES)
@for_each(("column", "text"), thinned(CHANGES, 2, several=True))
def test_a_changed_field_changes_one_record_in_its_slot(samples_folder, tmp_path, name, column, text):
    """For rows all over the file; before, all slots behind the changed row had other people in them."""
    before = sampled(table(name), N, samples_folder)
    for row in (0, 1, 2, 3, 5, 8, 13, 300, ROWS - 1):
        changed = with_a_field_changed(samples_folder, tmp_path / str(row), table(name), row, column, text)
        after = afterwards(before, table(name), N, changed)
        assert before.slots_that_differ(after) <= 1
        assert before.people_that_differ(after) <= 1


def test_rows_enter_and_leave_in_these_tests(samples_folder, tmp_path):
    before = sampled(table("where"), N, samples_folder)
    moved: set[int] = set()
    for row in range(40):
        changed = with_a_field_changed(samples_folder, tmp_path / str(row), table("where"), row, "sex", "f")
        after = afterwards(before, table("where"), N, changed)
        moved.add(before.slots_that_differ(after))
    assert moved == {0, 1}


def test_filtering_first_and_permuting_afterwards_is_caught(samples_folder, tmp_path):
    """The broken twin, as it was: nearly every slot has somebody else in it."""

    def twin(where):
        sampled = Sampled(where, table("where"), None, RandomSource.seeded(1))
        rows = np.sort(sampled.rows)
        return rows[np.random.default_rng(3).permutation(len(rows))[:N]]

    row = int(np.sort(Sampled(samples_folder, table("where"), None, RandomSource.seeded(1)).rows)[0])
    changed = with_a_field_changed(samples_folder, tmp_path / "twin", table("where"), row, "sex", "f")
    before, after = twin(samples_folder), twin(changed)
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
    assert disjoint(*tables) == disjoint(*reversed(tables)) == separate


def test_volunteers_and_population_stay_apart_whatever_field_changes(samples_folder, tmp_path):
    for row, (column, text) in enumerate(CHANGES * 3):
        changed = with_a_field_changed(samples_folder, tmp_path / str(row), table("volunteers"), row, column, text)
        sides = [
            Sampled(changed, table(side), None, RandomSource.seeded(1)).rows for side in ("volunteers", "population")
        ]
        assert not set(sides[0].tolist()) & set(sides[1].tolist())
