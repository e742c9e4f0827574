"""Databases: tables are made once, and what cannot be opened is refused in one line and left as it is."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from sqlalchemy import MetaData, text

from common.core.database import VERSION_TABLE, alone, open_database, sqlite_url
from common.core.errors import BadInput
from common.log import ledger
from curator.contributions import store
from issuer import issuer
from referee import tables

REFEREE = tables.SCHEMA
SCHEMAS = {schema.name: schema for schema in (ledger.SCHEMA, REFEREE, store.SCHEMA, issuer.SCHEMA)}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_new_file_has_the_tables_with_their_types(tmp_path, name):
    schema = SCHEMAS[name]
    engine = open_database(sqlite_url(tmp_path / "new" / "state.sqlite"), schema)
    found = MetaData()
    found.reflect(engine)
    assert set(found.tables) == {*schema.tables.tables, VERSION_TABLE}
    for table in schema.tables.tables.values():
        made = found.tables[table.name].columns
        kinds = {column.name: (column.type.compile(engine.dialect), column.nullable) for column in table.columns}
        assert kinds == {column.name: (column.type.compile(engine.dialect), column.nullable) for column in made}
    engine.dispose()


@pytest.mark.parametrize("name", SCHEMAS)
def test_opening_again_changes_nothing_and_what_is_committed_is_durable(tmp_path, name):
    url = sqlite_url(tmp_path / "100%.sqlite")
    open_database(url, SCHEMAS[name]).dispose()
    engine = open_database(url, SCHEMAS[name])
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
            open_database(url, ledger.SCHEMA)


# On a PostgreSQL server -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_processes_that_start_at_once_make_the_tables_once(tmp_path, kind, request):
    url = sqlite_url(tmp_path / "x.sqlite") if kind == "sqlite" else request.getfixturevalue("postgresql").database()
    code = (
        "import sys; from common.core.database import open_database; from referee.tables import SCHEMA\n"
        "open_database(sys.argv[1], SCHEMA).dispose()"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, url], stderr=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate(timeout=600)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, said


def test_sessions_on_a_server_commit_to_its_disk_and_never_fail_as_not_serializable(postgresql):
    url = postgresql.database()
    postgresql.execute("ALTER ROLE postgres SET synchronous_commit = off")
    postgresql.execute("ALTER ROLE postgres SET default_transaction_isolation = serializable")
    try:
        engine = open_database(url, REFEREE)
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
            open_database(url, REFEREE)
    finally:
        postgresql.execute(f"ALTER SYSTEM RESET {setting}")
        postgresql.execute("SELECT pg_reload_conf()")


def test_a_turn_is_one_transactions_at_a_time_and_sees_what_the_one_before_wrote(postgresql):
    """Two threads read the greatest number and write the next one, over and over: none is written twice or left out."""
    engine = open_database(postgresql.database(), REFEREE)
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


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_newer_database_is_refused_with_both_versions(name, tmp_path):
    file, schema = tmp_path / "state.db", SCHEMAS[name]
    open_database(sqlite_url(file), schema).dispose()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version = 9")
        connection.commit()
    with pytest.raises(BadInput, match=rf"version 9 of its tables.*has {schema.version}: .*version that wrote it"):
        open_database(sqlite_url(file), schema)


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_older_database_is_refused_whole_with_the_version_that_reads_it(name, tmp_path):
    file, schema = tmp_path / "state.db", SCHEMAS[name]
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        connection.commit()
        before = list(connection.iterdump())
    with pytest.raises(schema.error, match=rf"{schema.name} .* by Tandem 0\.3\.0 or older.* Nothing was changed\. "):
        open_database(sqlite_url(file), schema)
    with closing(sqlite3.connect(file)) as connection:
        assert list(connection.iterdump()) == before
