"""State directories: whole files, one purpose, one process. Databases: tables made once, refusals that change none."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from sqlalchemy import MetaData, text

from common.core import durable
from common.core.database import VERSION_TABLE, alone, database_bytes, open_database, sqlite_url
from common.core.durable import CLAIM, SPEAKS, claim, hold, make_folder, user_state, write_durably
from common.core.errors import BadInput, TandemError
from common.core.version import PROTOCOL
from common.log import ledger
from common.numerics.randomness import durable_secret
from curator.contributions import store
from issuer import issuer
from local_agent.person.consent import ActivityLog
from referee import tables
from tests.tiers import for_each


def test_a_cut_off_write_leaves_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_durably(path, b"old", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600

    def dies(*arguments: object) -> None:
        raise KeyboardInterrupt

    for step in ("fsync", "replace"):
        monkeypatch.setattr(os, step, dies)
        with pytest.raises(KeyboardInterrupt):
            write_durably(path, b"new and longer")
        monkeypatch.undo()
        assert path.read_bytes() == b"old"
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_claim_stands(tmp_path):
    folder = tmp_path / "deep" / "state"
    assert claim(folder, {"a": 1, "seed": None}) == {"a": 1, "seed": None}
    assert claim(folder, {"a": 1}) == {"a": 1, "seed": None}
    with pytest.raises(BadInput, match="belongs to another a"):
        claim(folder, {"a": 2})
    with pytest.raises(BadInput, match="belongs to another seed"):
        claim(folder, {"seed": 4})
    for damaged in ("", "[1]", "{}", '{"a": 1, "protocol": "3"}'):
        (folder / CLAIM).write_text(damaged)
        with pytest.raises(BadInput, match="was cut off, edited or damaged"):
            claim(folder, {"a": 1, SPEAKS: PROTOCOL} if "protocol" in damaged else {"a": 1})


def test_a_directory_is_held_by_one_until_it_lets_go_or_dies(tmp_path):
    with hold(tmp_path), pytest.raises(BadInput, match="in use by another process"):
        hold(tmp_path)
    code = f"from pathlib import Path; from common.core.durable import hold; held = hold(Path({str(tmp_path)!r}))\n"
    command = [sys.executable, "-c", code + "print(1, flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(BadInput, match="in use"):
            hold(tmp_path)
        other.kill()
    hold(tmp_path).close()


def test_a_place_where_no_directory_can_be_is_named(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput) as refused:
            hold(place)
        assert refused.value.detail.startswith(f"the state directory {place} cannot be written (")
        assert "XDG_STATE_HOME" in refused.value.detail


@for_each(
    ("given", "home", "expected"),
    [
        ("/given", None, Path("/given/tandem")),
        ("relative", "/home/me", Path("/home/me/.local/state/tandem")),
        ("", "relative", None),
        (None, "relative", None),
    ],
)
def test_the_users_directory_is_absolute_or_refused(monkeypatch, given, home, expected):
    for name, value in (("XDG_STATE_HOME", given), ("HOME", home)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with nullcontext() if expected else pytest.raises(BadInput, match="no home directory"):
        assert user_state() == expected


def test_a_secret_is_drawn_once(tmp_path):
    first = durable_secret(tmp_path / "secret").words(4)
    assert (first == durable_secret(tmp_path / "secret").words(4)).all()
    assert (first != durable_secret(tmp_path / "other").words(4)).any()
    assert not durable_secret(tmp_path / "secret").simulated


def test_of_processes_that_begin_at_once_one_draws_the_secret_and_claims_the_folder(tmp_path, monkeypatch):
    """Each has a moment between its look and its write in which another one could do both."""
    real, others = durable.write_durably, ThreadPoolExecutor()

    def slow(path: Path, content: bytes, **given: Any) -> None:
        if path.name not in begun:
            begun[path.name] = others.submit(work[path.name])
            time.sleep(0.2)
        real(path, content, **given)

    begun: dict[str, Future[object]] = {}
    work: dict[str, Callable[[], object]] = {
        "secret": lambda: durable.durable_key(tmp_path / "secret"),
        CLAIM: lambda: claim(tmp_path, {"run": os.urandom(8).hex()}),
        "people": lambda: durable.claim_people(tmp_path, os.urandom(8).hex()),
    }
    monkeypatch.setattr(durable, "write_durably", slow)
    with others:
        first = {name: each() for name, each in work.items()}
        assert begun["secret"].result() == first["secret"] == (tmp_path / "secret").read_bytes()[:32]
        for name, why in ((CLAIM, "belongs to another run"), ("people", "the table has changed")):
            with pytest.raises(BadInput, match=why):
                begun[name].result()


def _synced(monkeypatch) -> list[str]:
    """Return the names of what is synchronised from here on, as it is."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


@for_each("opened", [lambda place: hold(place).close(), lambda place: claim(place, {}), make_folder])
def test_a_power_cut_does_not_take_a_folder_that_was_made(tmp_path, monkeypatch, opened):
    synced = _synced(monkeypatch)
    opened(tmp_path / "made" / "below" / "state")
    made = tmp_path / "made"
    assert {str(tmp_path), str(made), str(made / "below"), str(made / "below" / "state")} <= set(synced)
    synced.clear()
    opened(made / "below" / "state")  # one that exists again: its maker, and whoever put a file into it, may be cut off
    assert {str(made / "below"), str(made / "below" / "state")} <= set(synced)


def test_a_new_file_is_in_its_folder_before_anybody_relies_on_it(tmp_path, monkeypatch):
    synced = _synced(monkeypatch)
    ActivityLog(tmp_path).write("asked")
    assert synced == [str(tmp_path / "log.jsonl"), str(tmp_path)]
    ActivityLog(tmp_path).write("answered")
    assert synced[2:] == [str(tmp_path / "log.jsonl")]


REFEREE = tables.SCHEMA
SCHEMAS = (REFEREE, store.SCHEMA, issuer.SCHEMA)


@for_each("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_a_new_file_has_the_tables_with_their_types_and_keeps_what_is_committed(tmp_path, schema):
    file = tmp_path / "what? [1]" / "100%25.sqlite"
    url = sqlite_url(file)
    for _ in range(2):  # to open it again changes nothing
        engine, found = open_database(url, schema), MetaData()
        found.reflect(engine)
        assert set(found.tables) == {*schema.tables.tables, VERSION_TABLE}
        for table in schema.tables.tables.values():
            here, made = (
                {column.name: (column.type.compile(engine.dialect), column.nullable) for column in columns}
                for columns in (table.columns, found.tables[table.name].columns)
            )
            assert here == made
        with engine.connect() as connection:
            settings = [f"PRAGMA {name}" for name in ("journal_mode", "synchronous", "foreign_keys")]
            assert [connection.execute(text(setting)).scalar() for setting in settings] == ["wal", 2, 1]
            assert database_bytes(url) == sum(path.stat().st_size for path in file.parent.iterdir())
        engine.dispose()
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert database_bytes(url) == file.stat().st_size > 0


def test_what_cannot_be_opened_is_said_so(tmp_path):
    garbage = tmp_path / "garbage.sqlite"
    garbage.write_bytes(b"this is no database, and never was one" * 100)
    for url in ("nonsense", "nosuch://x/y", sqlite_url(garbage), f"sqlite:///{tmp_path}/no/such/folder/x.sqlite"):
        with pytest.raises(BadInput, match="database"):
            open_database(url, REFEREE)


# On a PostgreSQL server -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_that_start_at_once_make_the_tables_once(tmp_path, kind, request):
    url = sqlite_url(tmp_path / "x.sqlite") if kind == "sqlite" else request.getfixturevalue("postgresql").database()
    with ThreadPoolExecutor(8) as threads:
        for engine in threads.map(lambda _: open_database(url, REFEREE), range(8)):
            engine.dispose()


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

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(work) for _ in range(2)]:
            done.result()
    with engine.connect() as connection:
        assert connection.execute(greatest).scalar_one() == 99
    engine.dispose()


def in_file(file, *statements):
    """Carry out some statements on a SQLite file; return all that it then holds."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
        return list(connection.iterdump())


@for_each("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_a_database_of_another_version_is_refused_whole_with_the_version_that_reads_it(tmp_path, schema):
    newer, older = tmp_path / "newer.db", tmp_path / "older.db"
    open_database(sqlite_url(newer), schema).dispose()
    in_file(newer, f"UPDATE {VERSION_TABLE} SET version = 9")
    with pytest.raises(BadInput, match=rf"version 9 of its tables.*has {schema.version}: .*version that wrote it"):
        open_database(sqlite_url(newer), schema)
    made = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"
    before = in_file(older, made, "INSERT INTO alembic_version VALUES ('0001')")
    with pytest.raises(BadInput, match=rf"{schema.name} .* by Tandem 0\.3\.0 or older.* Nothing was changed\. "):
        open_database(sqlite_url(older), schema)
    assert in_file(older) == before


@for_each("kind", ["pipe", "device"])
def test_a_state_file_that_is_a_pipe_or_a_device_is_refused_at_once(tmp_path, kind):
    """In the place of a key, a claim, a ledger, its heads, or an issuer's key: reading it would never end."""
    readers: dict[str, Callable[[Path], Any]] = {
        "identity.key": durable.durable_key,
        CLAIM: lambda path: claim(path.parent, {"run": "x"}),
        "people": lambda path: durable.claim_people(path.parent, "x"),
        "ledger.jsonl": ledger.stored_lines,
        "heads.jsonl": lambda path: ledger.read_head(path, "0" * 64),
        "tokens.key": lambda path: issuer.Keys(path.parent),
        "issuer.json": lambda path: issuer.Keys(path.parent),
    }
    for name, read in readers.items():
        (folder := tmp_path / name).mkdir()
        path = folder / name
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/null")
        unblock = Timer(10, lambda path=path: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
        unblock.start()
        with pytest.raises((OSError, TandemError), match=f"found a {kind}"):
            read(path)
        unblock.cancel()
