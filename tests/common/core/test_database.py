"""Migrations: from nothing to the newest version and back, and what cannot be opened is said in one line."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import threading
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, MetaData, create_engine, inspect, text

from common.core.database import alone, open_database, sqlite_url
from common.core.errors import BadInput
from common.core.migrating import downgrade, schema_of, upgrade
from tests.tiers import for_each

TABLES = {
    "common.log.migrations": {"entries"},
    "referee.state.migrations": {
        "tokens",
        "participants",
        "cohorts",
        "runs",
        "questions",
        "reports",
        "entries",
        "identity",
        "leases",
        "vouchers",
        "policies",
        "rejections",
        "checkpoints",
    },
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


@for_each("package", [*sorted(TABLES), "curator.contributions.migrations", "issuer.migrations"])
def test_a_new_file_gets_what_the_migrations_come_to(package):
    kept = resources.files(package).joinpath("newest.sql").read_text(encoding="utf-8")
    assert kept == schema_of(package), f"python -m common.core.migrating {package}"


@pytest.mark.parametrize("package", sorted(TABLES))
def test_a_new_file_and_one_that_was_migrated_are_the_same(tmp_path, package):
    def content(engine: Engine) -> list[str]:
        with engine.connect() as connection:
            file: Any = connection.connection.driver_connection
            rows = file.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")
            dumped = [*file.iterdump(), *(" ".join(map(str, row)) for row in rows)]
        engine.dispose()
        return [re.sub(r"\s+", " ", line).strip() for line in dumped]

    made = content(open_database(sqlite_url(tmp_path / "made.sqlite"), package))
    old = create_engine(sqlite_url(tmp_path / "old.sqlite"))
    with old.begin() as connection:
        upgrade(connection, package, "0001")
    old.dispose()
    migrated = content(open_database(sqlite_url(tmp_path / "old.sqlite"), package))
    assert made == migrated
    assert len(made) > 2 * len(TABLES[package])


@pytest.mark.parametrize("package", sorted(TABLES))
def test_nobody_waits_for_the_migrations_who_has_the_newest_schema_or_begins(tmp_path, package):
    code = (
        "import sys; from common.core.database import open_database\n"
        "for _ in range(2): open_database(*sys.argv[1:]).dispose()\n"
        "assert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, sqlite_url(tmp_path / "x.sqlite"), package], check=True)


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
            open_database(url, "common.log.migrations")


# On a PostgreSQL server -----------------------------------------------------------------------------------------------


def test_the_same_migrations_make_the_same_tables_on_a_server(postgresql):
    package = "referee.state.migrations"
    engine = open_database(postgresql.database(), package)
    assert set(inspect(engine).get_table_names()) == TABLES[package] | {"alembic_version"}
    with engine.begin() as connection:
        downgrade(connection, package)
    assert set(inspect(engine).get_table_names()) == {"alembic_version"}
    engine.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_processes_that_start_at_once_make_the_tables_once(tmp_path, kind, request):
    url = sqlite_url(tmp_path / "x.sqlite") if kind == "sqlite" else request.getfixturevalue("postgresql").database()
    code = "import sys; from common.core.database import open_database; open_database(*sys.argv[1:]).dispose()"
    started = [
        subprocess.Popen([sys.executable, "-c", code, url, "referee.state.migrations"], stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    said = [process.communicate(timeout=600)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, said


def test_sessions_on_a_server_commit_to_its_disk_and_never_fail_as_not_serializable(postgresql):
    url = postgresql.database()
    postgresql.execute("ALTER ROLE postgres SET synchronous_commit = off")
    postgresql.execute("ALTER ROLE postgres SET default_transaction_isolation = serializable")
    try:
        engine = open_database(url, "referee.state.migrations")
        with engine.connect() as connection:
            assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"
            assert connection.execute(text("SHOW transaction_isolation")).scalar() == "read committed"
        engine.dispose()
    finally:
        postgresql.execute("ALTER ROLE postgres RESET ALL")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_what_was_committed_is_refused(postgresql, setting):
    url = postgresql.database()
    postgresql.execute(f"ALTER SYSTEM SET {setting} = off")
    postgresql.execute("SELECT pg_reload_conf()")
    try:
        deadline = time.monotonic() + 120
        while postgresql.execute(f"SHOW {setting}") != [("off",)]:
            assert time.monotonic() < deadline
        with pytest.raises(BadInput, match=f"{setting}=off"):
            open_database(url, "referee.state.migrations")
    finally:
        postgresql.execute(f"ALTER SYSTEM RESET {setting}")
        postgresql.execute("SELECT pg_reload_conf()")


def test_a_turn_is_one_transactions_at_a_time_and_sees_what_the_one_before_wrote(postgresql):
    """Two threads read the greatest number and write the next one, over and over: none is written twice or left out."""
    engine = open_database(postgresql.database(), "referee.state.migrations")
    greatest = text("SELECT coalesce(max(first), -1) FROM participants")

    def work() -> None:
        for _ in range(50):
            with engine.begin() as connection:
                alone(connection, 1)
                number = connection.execute(greatest).scalar_one() + 1
                connection.execute(text("INSERT INTO participants VALUES (:n, '', 1)"), {"n": number})

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with engine.connect() as connection:
        assert connection.execute(greatest).scalar_one() == 99
    engine.dispose()


@pytest.mark.parametrize("migrations", ["referee.state.migrations", "common.log.migrations"])
def test_a_newer_schema_is_refused_with_both_versions(migrations: str, tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    open_database(sqlite_url(file), migrations).dispose()
    with sqlite3.connect(file) as connection:
        (own,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(BadInput, match=rf"schema 9999.*its own is {own}.*version that wrote it"):
        open_database(sqlite_url(file), migrations)
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]
    connection.close()
