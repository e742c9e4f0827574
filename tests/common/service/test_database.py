"""Migrations: from nothing to the newest version and back, and what cannot be opened is said in one line."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, inspect, text

from common.core.errors import BadInput
from common.service.database import downgrade, open_database, sqlite_url, upgrade

TABLES = {
    "curator.state.migrations": {"entries"},
    "referee.state.migrations": {"tokens", "participants", "cohorts", "runs", "questions", "reports", "entries"},
}


@pytest.mark.parametrize("package", sorted(TABLES))
def test_up_down_and_up_again(tmp_path, package):
    engine = open_database(sqlite_url(tmp_path / "new" / "state.sqlite"), package)
    assert set(inspect(engine).get_table_names()) == TABLES[package] | {"alembic_version"}
    first = MetaData()
    first.reflect(engine)
    with engine.begin() as connection:
        downgrade(connection, package)
    assert set(inspect(engine).get_table_names()) == {"alembic_version"}
    with engine.begin() as connection:
        upgrade(connection, package)
        again = first
        assert compare_metadata(MigrationContext.configure(connection), again) == []
    engine.dispose()


@pytest.mark.parametrize("package", sorted(TABLES))
def test_opening_again_changes_nothing_and_what_is_committed_is_durable(tmp_path, package):
    url = sqlite_url(tmp_path / "100%.sqlite")
    open_database(url, package).dispose()
    engine = open_database(url, package)
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1
    engine.dispose()


def test_what_cannot_be_opened_is_said_so(tmp_path):
    garbage = tmp_path / "garbage.sqlite"
    garbage.write_bytes(b"this is no database, and never was one" * 100)
    for url in ("nonsense", "nosuch://x/y", sqlite_url(garbage), f"sqlite:///{tmp_path}/no/such/folder/x.sqlite"):
        with pytest.raises(BadInput, match="database"):
            open_database(url, "curator.state.migrations")
