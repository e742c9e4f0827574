"""From contributions to a run: the same as about the file that they would be in, fixed from its beginning."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from common.core.durable import durable_key
from common.core.errors import BadInput, BrokenLedger, BudgetExceeded, RunBegun
from common.crypto.identity import Identity
from common.data.tables import load
from common.data.tables.record import record_of
from common.lifetime.ledger import PeopleLedger
from common.log.ledger import KEY, LEDGER, Chain
from curator.contributions import fields, opening
from curator.contributions.collection import Collection
from curator.contributions.contributor import Contributor
from curator.contributions.opening import after_the_beginning, collecting
from curator.contributions.store import FILE
from curator.service.startup import open_curator
from curator.state.copies import backup, restore
from curator.state.ledger import listed
from deploy.embedded import Embedded
from tests.curator.contributions.given import PEOPLE, TABLE, TOKEN, Direct, fill, give, rows, scenario, write

LEFT = {"plan": "pro", "visits": 29, "renews": "no"}
"""Somebody who withdraws."""


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A curator to whom all have contributed, one of them from a directory of their own. To be copied."""
    folder = tmp_path_factory.mktemp("collected")
    chosen = scenario(folder)
    fill(folder / "curator", chosen, rows()[:-1])
    with collecting(folder / "curator", chosen) as collection:
        give(folder / "me", collection, rows()[-1])
    return folder


@pytest.fixture
def curator(tmp_path: Path, collected: Path) -> Path:
    """A copy of its state directory; beside it that of one of the people."""
    shutil.copytree(collected, tmp_path / "state")
    return tmp_path / "state" / "curator"


def test_a_value_is_read_in_any_spelling_and_sealed_in_that_of_the_list(tmp_path: Path) -> None:
    plans = {"kind": "category", "column": "plan", "values": ["True", "False", "1e3"]}
    label = {"column": "renews", "positive": ["1.0"], "negative": ["0"]}
    chosen = scenario(tmp_path, {**TABLE, "features": [plans], "label": label, "contributed": True})
    table = chosen.source.table
    assert table is not None
    kinds_of = [(True, 1), ("true", 1.0), ("FALSE", "0"), (False, False), (1000, "01"), (1000.0, "0.0")]
    people = [{"plan": plan, "renews": renews} for plan, renews in (kinds_of * PEOPLE)[:PEOPLE]]
    assert {len(fields.written(fields.checked(person, table), table)) for person in people} == {fields.length(table)}
    assert fields.checked(people[0], table) == {"plan": "True", "renews": "1.0"}
    fill(tmp_path / "curator", chosen, people)
    found = opening.Contributions(tmp_path / "curator", chosen)(table, None).records
    single = [record_of(person, table) for person in people]
    assert found.features.tolist() == [one.features[0].tolist() for one in single]
    assert found.labels.tolist() == [int(one.labels[0]) for one in single]
    assert found.features.sum(axis=1).tolist() == [1.0] * PEOPLE


def begin(folder: Path, seed: int | None = 1) -> None:
    """Start the curator, and stop it."""
    open_curator(scenario(folder.parent), folder, seed, None).close()


def kinds(folder: Path) -> list[str]:
    return [entry["kind"] for entry in listed(folder)]


def released(folder: Path) -> list[object]:
    """Return all that a curator has charged and released."""
    with closing(Chain(folder / LEDGER)) as chain:
        found = [entry.body for entry in chain.entries if entry.kind in ("charge", "result")]
    return [{name: body[name] for name in ("operation", "event", "result") if name in body} for body in found]


@pytest.mark.slow
def test_a_run_about_contributions_is_that_about_the_same_rows_in_a_file(tmp_path, curator):
    """Bit for bit: what the curator releases, what agents are asked, and the result."""
    write(tmp_path / "people.csv", rows())
    of_file = scenario(tmp_path, {**TABLE, "files": ["people.csv"]})
    runs = [
        Embedded(curator.parent).run(scenario(tmp_path), 1, "run", lambda text, numbers: None),
        Embedded(tmp_path / "filed").run(of_file, 1, "run", lambda text, numbers: None),
    ]
    same = ("status", "reason", "iterations", "answer", "estimate", "agents", "privacy", "rounds")
    first, second = ({name: run.result[name] for name in same if name in run.result} for run in runs)
    assert first == second
    assert first["answer"] is not None
    assert released(curator) == released(tmp_path / "filed" / "curator")
    assert len(released(curator)) >= 2


def test_who_withdrew_is_not_in_it_and_the_others_keep_their_positions(tmp_path):
    """As a row of a file that is not kept: sampling goes by the number of the row."""
    chosen = scenario(tmp_path)
    fill(tmp_path / "curator", chosen, rows()[:5])
    with collecting(tmp_path / "curator", chosen) as collection:
        leaving = give(tmp_path / "me", collection, LEFT)
    fill(tmp_path / "curator", chosen, [])
    with collecting(tmp_path / "curator", chosen, most=PEOPLE + 1) as collection:
        for place, fields in enumerate(rows()[5:]):
            give(tmp_path / str(place), collection, fields)
        leaving.withdraw(Direct(collection), TOKEN)
    found = opening.Contributions(tmp_path / "curator", chosen)(chosen.source.table, None)
    assert found.rows.tolist() == [place for place in range(PEOPLE + 1) if place != 5]
    write(tmp_path / "people.csv", rows())
    loaded = load(tmp_path, scenario(tmp_path, {**TABLE, "files": ["people.csv"]}).source.table)
    assert found.records.features.tobytes() == loaded.features.tobytes()
    assert found.records.labels.tobytes() == loaded.labels.tobytes()


@pytest.mark.slow
def test_real_contributors_are_charged_as_people_and_stand_in_a_secret_order(tmp_path, curator):
    real = scenario(tmp_path, people="real")
    keys = fill(tmp_path / "one" / "curator", real, rows())
    fill(tmp_path / "two" / "curator", real, rows(), keys)
    Embedded(tmp_path / "one").run(real, None, "run", lambda text, numbers: None)
    assert [row["people"] for row in PeopleLedger().table()] == [PEOPLE]
    assert len(durable_key(tmp_path / "one" / "curator" / "order.key")) == 32
    with pytest.raises(BudgetExceeded, match=r"12 of 12 rows of the curator's people .*curator.lifetime"):
        open_curator(real, tmp_path / "two" / "curator", None, None)
    # Nobody was asked anything, so nothing is fixed: they may still go.
    with collecting(tmp_path / "two" / "curator", real) as collection:
        assert collection.counts() == (PEOPLE, 0)


def test_too_few_begin_nothing(tmp_path, curator):
    with pytest.raises(BadInput, match="nobody has contributed"):
        open_curator(scenario(tmp_path), tmp_path / "nobody", 1, None)
    me = Contributor(curator.parent / "me", None)
    with collecting(curator, scenario(curator.parent)) as collection:
        me.withdraw(Direct(collection), TOKEN)
    with pytest.raises(BadInput, match="12 people are wanted, and fewer have contributed"):
        begin(curator)
    with collecting(curator, scenario(curator.parent)) as collection:
        give(tmp_path / "another", collection, rows()[-1])
    begin(curator)


def test_the_beginning_is_an_entry_of_the_ledger_and_a_restart_is_the_same_run(curator):
    chosen = scenario(curator.parent)
    me = Contributor(curator.parent / "me", None)
    with closing(open_curator(chosen, curator, 1, None)):
        with pytest.raises(BadInput, match="in use by another process"), collecting(curator, chosen):
            pass
        with (
            closing(after_the_beginning(curator, chosen)) as collection,
            pytest.raises(RunBegun, match="the run has begun"),
        ):
            me.withdraw(Direct(collection), TOKEN)
    assert kinds(curator) == ["genesis", "sample"]
    with pytest.raises(RunBegun, match="fresh directory"), collecting(curator, chosen):
        pass
    begin(curator)
    assert kinds(curator) == ["genesis", "sample"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE kept SET position = 100 WHERE position = 3",
        "UPDATE kept SET envelope = (SELECT envelope FROM kept WHERE position = 4) WHERE position = 3",
        'UPDATE kept SET envelope = replace(envelope, \'"sealed":"\', \'"sealed":"A\') WHERE position = 3',
        "DELETE FROM kept WHERE position = 3",
    ],
)
def test_contributions_that_were_touched_after_the_beginning_are_not_started_on(curator, change):
    begin(curator)
    with closing(sqlite3.connect(curator / "contributions" / FILE)) as connection:
        connection.execute(change)
        connection.commit()
    with pytest.raises((BrokenLedger, BadInput), match=r"run has begun with|cannot be opened|fewer have contributed"):
        begin(curator)


def test_what_comes_while_a_curator_starts_stops_the_start(tmp_path, curator, monkeypatch):
    """The directory is held only once the sample is read: what was contributed in between is not lost in silence."""
    real = opening.Contributions.__call__

    def late(self, table, seen):
        found = real(self, table, seen)
        with collecting(curator, scenario(curator.parent), most=PEOPLE + 1) as collection:
            give(tmp_path / "late", collection, LEFT)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(opening.Contributions, "__call__", late)
        with pytest.raises(BadInput, match="while the curator started"):
            begin(curator)
    assert kinds(curator) == ["genesis"]
    begin(curator)


def test_without_the_key_that_lies_beside_them_they_cannot_be_opened(curator):
    (curator / "contributions" / "hpke.key").write_bytes(bytes(31) + b"\x01")
    with pytest.raises(BrokenLedger, match="cannot be opened"):
        begin(curator)
    identity = Identity.load_or_create(curator / KEY)
    with pytest.raises(BadInput, match="another scenario, curator or policy"):
        Collection(curator, scenario(curator.parent), identity, most=2)


def test_a_copy_holds_contributions_once_nobody_can_be_taken_out_any_more(tmp_path, curator):
    """A copy from before would bring back who has withdrawn."""
    backup(curator, tmp_path / "early")
    assert not (tmp_path / "early" / "contributions").exists()
    begin(curator)
    backup(curator, tmp_path / "late")
    shutil.rmtree(curator / "contributions")
    (curator / LEDGER).unlink()
    restore(tmp_path / "late", curator)
    begin(curator)
    assert kinds(curator) == ["genesis", "sample"]
