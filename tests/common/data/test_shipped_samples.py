"""The shipped scenarios about real people: a changed field of one row, of any kind, changes one record of each side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from common.data.tables import TableSource
from common.data.tables.files import pieces
from common.scenario.loading import load, shipped
from common.scenario.scenario import Scenario
from tests.common.data.stability import afterwards, clear, sampled, with_a_field_changed

SHELF = Path(os.environ.get("TANDEM_DATA", Path(__file__).resolve().parents[3].parent / "shared" / "data"))


def real(name: str) -> Scenario | None:
    """Return a shipped scenario about real people, None if it has none; the files need not be here."""
    scenario = load(name, ["data=."])
    return scenario if scenario.source.table is not None and scenario.target.table is not None else None


REAL = [name for name in shipped() if real(name) is not None]
SLOW = ("adult-biased", "domain-adaptation")
"""One of groups of people, one of two domains; the others take minutes."""


def test_these_are_the_scenarios_with_tables():
    assert {"adult", "adult-biased", "domain-adaptation", "model-agnostic", "reverse-adaptation"} <= set(REAL)


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
        clear(changed)
    assert seen >= {"label", "number"}
