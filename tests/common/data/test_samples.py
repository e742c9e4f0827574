"""People by their number, simulated or from a table; what a changed field of one row of a file changes in a sample."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from common.core.errors import BadData, BadScenario
from common.data import population as people_module
from common.data.files import Piece, pieces
from common.data.loading import select_rows
from common.data.population import PopulationSpec, locate, open_records, placed, ranked
from common.data.spelling import canonical
from common.data.tables import TableSource, disjoint
from common.numerics.randomness import RandomSource
from common.scenario.loading import load, shipped
from tests.support import public_data
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


def test_simulated_people_are_those_of_the_distribution_on_however_many_cores(monkeypatch):
    population, order = open_records(SIMULATED, None, seed=3, size=1000), np.random.default_rng(0).permutation(1000)
    drawn = SIMULATED.distribution.draw(3, order)
    for cells, fewest in ((people_module._CELLS, people_module._FEWEST), (256, 64)):
        monkeypatch.setattr(people_module, "_CELLS", cells)
        monkeypatch.setattr(people_module, "_FEWEST", fewest)
        found = population.records(order)
        np.testing.assert_array_equal(found.features, drawn.features)
        np.testing.assert_array_equal(found.labels, drawn.labels)
    followers = population.shifted(30)
    assert (len(population), population.dimension, len(followers)) == (1000, 4, 1000)
    expected = SIMULATED.distribution.draw(3, order + 30)
    np.testing.assert_array_equal(followers.records(order).features, expected.features)
    for people in ([-1], [1000], [0, 1000]):
        with pytest.raises(BadData, match=r"numbered 0\.\.999"):
            population.records(np.array(people))


def test_people_of_a_table_are_in_an_order_that_the_seed_decides(tmp_path):
    lines = ["x,label", *(f"{i},{'yes' if i % 3 else 'no'}" for i in range(100))]
    (tmp_path / "people.csv").write_text("\n".join(lines))

    def opened(seed: int, size: int | None = None) -> Any:
        return open_records(TABLE, tmp_path, seed, size)

    def rows(population: Any) -> list[int]:
        return np.rint(population.records(np.arange(len(population))).features[:, 0] * 100).astype(int).tolist()

    population = opened(3)
    assert sorted(rows(population)) == list(range(100)) != rows(population)
    assert rows(population) == rows(opened(3)) != rows(opened(4))
    labels = population.records(np.arange(100)).labels
    np.testing.assert_array_equal(labels, np.where(np.array(rows(population)) % 3, 1, -1))
    part = opened(3, 20)  # its first people; there are no further ones
    assert rows(part) == rows(part.shifted(1000)) == rows(population)[:20]
    with pytest.raises(BadScenario, match="key data"):
        open_records(TABLE, None, seed=3, size=10)
    with pytest.raises(BadScenario, match="no size"):
        open_records(SIMULATED, tmp_path, seed=3, size=None)


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


# A changed field -----------------------------------------------------------------------------------------------------


class Exchanged(RandomSource):
    """The stream of a key in which two rows have each other's keys: a bijection of the keys that keeps their law."""

    def __init__(self, key: bytes, one: int, other: int) -> None:
        super().__init__(key, simulated=False)
        self._rows = one, other

    def words(self, count: int) -> Any:
        one, other = self._rows
        drawn = super().words(max(count, 2 * max(one, other) + 2)).reshape(-1, 2)
        drawn[[one, other]] = drawn[[other, one]]
        return drawn.reshape(-1)[:count]


SEED, KEY = 11, bytes(range(32))


class Sampled:
    """Who is in a sample, slot by slot, and their records."""

    def __init__(self, read: Iterable[Piece], table: TableSource, size: int | None, secret: RandomSource) -> None:
        found = select_rows(read, table)
        slots = placed(found.rows, size, RandomSource.seeded(SEED, "people"), secret)
        self.rows = found.rows[slots]
        self.records = found.records.take(slots)

    def changed(self, read: list[Piece], table: TableSource) -> "Sampled":
        """Return the sample of the changed pieces, under a key that is as likely as :data:`KEY`.

        If a row leaves the sample and another enters it, these two have exchanged their keys; else the key is the same.
        """
        after = Sampled(read, table, len(self.rows), RandomSource(KEY, simulated=False))
        gone, come = np.setdiff1d(self.rows, after.rows), np.setdiff1d(after.rows, self.rows)
        assert len(gone) == len(come) <= 1
        return Sampled(read, table, len(self.rows), Exchanged(KEY, int(gone[0]), int(come[0]))) if len(gone) else after

    def slots_that_differ(self, other: "Sampled") -> int:
        features = (self.records.features != other.records.features).any(axis=1)
        return int(np.count_nonzero(features | (self.records.labels != other.records.labels)))


def read(folder: Path, *tables: TableSource) -> list[Piece]:
    """Return the pieces of the files that all of these tables are kept in, with the columns of all of them."""
    (files,), (layout,) = {table.files for table in tables}, {table.layout for table in tables}
    columns = frozenset[str]().union(*(table.columns for table in tables))
    return [piece for file in files for piece in pieces(folder / file, layout, columns)]


def sampled(files: list[Piece], folder: Path, table: TableSource, size: int) -> Sampled:
    """Return the sample that parties get, under one secret key of the order."""
    found = Sampled(files, table, size, RandomSource(KEY, simulated=False))
    opened = open_records(PopulationSpec(table=table), folder, SEED, size, RandomSource(KEY, simulated=False))
    assert (opened.fingerprint(), len(opened)) == (found.records.fingerprint(), size)
    return found


def with_a_field_changed(files: list[Piece], row: int, column: str, text: str) -> list[Piece]:
    """Return the pieces with another text in one field of row number ``row`` over all files."""
    found = []
    for piece in files:
        frame = piece.frame
        if 0 <= row < len(frame):
            frame = frame.clone()
            frame[row, column] = canonical(text)
        row -= len(frame)
        found.append(replace(piece, frame=frame))
    return found


REAL = [name for name in shipped() if (load(name, ["data=."]).source.table and load(name, ["data=."]).target.table)]
SLOW = ("adult-biased", "domain-adaptation")
"""One of groups of people, one of two domains; the others take minutes."""


def changes(table: TableSource, files: list[Piece]) -> Iterator[tuple[str, int, str, str]]:
    """Yield the kind of each change, a row, a column, and what it comes to hold, which it did not hold before.

    Every number and category once would be many: the first of each, the label, and for what decides who is in the
    sample a change in each direction.
    """
    texts = {name: [text for piece in files for text in piece.frame[name]] for name in table.columns}
    columns = {feature.kind: feature.column for feature in reversed(table.features)} | {"label": table.label.column}
    for kind, column in columns.items():
        yield kind, 7, column, next(text for text in texts[column] if text not in (texts[column][7], "", "?"))
    unless = table.selection.unless if table.selection else ()
    for column in table.conditions:
        values = {*table.where.get(column, ()), *(v for one in unless if one.column == column for v in one.values)}
        inside = next(row for row, text in enumerate(texts[column]) if text in values)
        outside = next(row for row, text in enumerate(texts[column]) if text not in values)
        yield "leaves", inside, column, texts[column][outside]
        yield "enters", outside, column, texts[column][inside]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else pytest.mark.thorough) for name in REAL]
)
def test_a_changed_field_changes_one_record_of_each_side_in_its_slot(name):
    scenario, shelf = load(name), public_data()
    folder = shelf / str(scenario.data)
    if scenario.source.table is None:
        scenario = load(name, [f"data={shelf}"])
        folder = Path(str(scenario.data))
    both = ((scenario.source.table, scenario.curator.n), (scenario.target.table, scenario.agents.count))
    # A side that is kept in other files does not change.
    sides = [(table, size) for table, size in both if table.files == scenario.source.table.files]
    files = read(folder, *(table for table, _ in sides))
    samples = [(table, sampled(files, folder, table, size)) for table, size in sides]
    found = list(changes(scenario.source.table, files))
    for kind, row, column, text in found:
        changed = with_a_field_changed(files, row, column, text)
        for table, before in samples:
            assert before.slots_that_differ(before.changed(changed, table)) <= 1, (kind, column)
    assert {kind for kind, *_ in found} >= {"label", "number"}


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


def kept_by(rules):
    return TableSource.model_validate({"files": ["people.csv"], "label": LABEL, "features": FEATURES, **rules})


def table(name):
    return kept_by(TABLES[name])


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


@pytest.fixture
def files(folder):
    return read(folder, *map(table, TABLES))


CHANGES = [
    (column, text)
    for column, texts in {"age": "0", "rich": ("yes", "no"), "sex": "mf", "spouse": ("yes", "no")}.items()
    for text in texts
]


@for_each("name", TABLES)
@for_each(("column", "text"), thinned(CHANGES, 2, several=True))
def test_a_changed_field_changes_one_record_in_its_slot(folder, files, name, column, text):
    """For rows all over the file; before, all slots behind the changed row had other people in them."""
    before = sampled(files, folder, table(name), N)
    for row in (0, 1, 2, 3, 5, 8, 13, 300, ROWS - 1):
        after = before.changed(with_a_field_changed(files, row, column, text), table(name))
        assert before.slots_that_differ(after) <= 1


def test_rows_enter_and_leave_in_these_tests(folder, files):
    before = sampled(files, folder, table("where"), N)
    changed = [before.changed(with_a_field_changed(files, row, "sex", "f"), table("where")) for row in range(40)]
    assert {before.slots_that_differ(after) for after in changed} == {0, 1}


def kept(files, name):
    """Return the rows that a table keeps, in the files' order."""
    return select_rows(files, table(name)).rows


@for_each("rules", [{}, *TABLES.values()])
def test_the_number_of_a_row_counts_all_before_it_in_all_pieces(folder, monkeypatch, rules):
    monkeypatch.setattr("common.data.files.PIECE", 64)
    found = select_rows(read(folder, kept_by(rules)), kept_by(rules))
    np.testing.assert_array_equal(found.rows, np.rint(found.records.features[:, 0] * ROWS))


def test_filtering_first_and_permuting_afterwards_is_caught(files):
    """The broken twin, as it was: nearly every slot has somebody else in it."""
    changed = with_a_field_changed(files, int(kept(files, "where")[0]), "sex", "f")
    rows = [kept(read, "where") for read in (files, changed)]
    before, after = (found[np.random.default_rng(3).permutation(len(found))[:N]] for found in rows)
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


def named(*columns):
    return {"layout": {"columns": columns}}


@for_each(
    ("one", "other", "separate"),
    [
        ({}, {}, False),
        ({}, {"files": ["others.csv"]}, True),
        ({}, {"files": ["others.csv", "./people.csv.xz"]}, False),
        ({"where": {"sex": ["m"]}}, {"where": {"sex": ["f"], "age": ["3"]}}, True),
        ({"where": {"sex": ["m"]}}, {"where": {"sex": ["f", "m"]}}, False),
        ({"where": {"sex": ["m"]}}, {"where": {"spouse": ["no"]}}, False),
        ({"where": {"sex": ["1"]}}, {"where": {"sex": ["2"]}}, True),  # by values, not by spellings
        *(({"where": {"sex": ["1"]}}, {"where": {"sex": [one]}}, False) for one in ("1.0", "true")),
        # With other names for the columns, the same row may meet both conditions.
        ({"where": {"a": ["1"]}, **named("a", "b")}, {"where": {"a": ["2"]}, **named("b", "a")}, False),
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
    tables = [kept_by(side) for side in (one, other)]
    assert disjoint(*tables) == disjoint(*reversed(tables)) == separate


def test_volunteers_and_population_stay_apart_whatever_field_changes(files):
    for row, (column, text) in enumerate(CHANGES * 3):
        changed = with_a_field_changed(files, row, column, text)
        assert not {*kept(changed, "volunteers").tolist()} & {*kept(changed, "population").tolist()}
