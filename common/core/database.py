"""One way to open a party's database: SQLAlchemy on a durable SQLite file by default, on a PostgreSQL server by URL."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, MetaData, Table, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from common.core import folder as files
from common.core.durable import make_folder
from common.core.errors import BadData, BadInput
from common.core.plain import plain

_SCHEMAS: dict[tuple[str, str], MetaData] = {}
_SETTINGS: dict[str, dict[str, Any]] = {
    "sqlite": {"connect_args": {"timeout": 60}},
    "postgresql": {
        "isolation_level": "READ COMMITTED",  # no transaction fails as not serializable, whatever the server's default
        "pool_pre_ping": True,
        # A server that has vanished is noticed within half a minute.
        "connect_args": {
            "connect_timeout": 10,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 25_000,
        },
    },
}
"""How engines of each kind are created."""
_OURS = 0x7A4D
"""The first number of all advisory locks that Tandem takes on a PostgreSQL database."""
MIGRATING = 0
"""The turn to change a schema (:func:`alone`); others are the parties' own."""


def open_database(url: str, migrations: str, *, log: bool = True) -> Engine:
    """Connect and bring the schema to its newest version.

    Parameters
    ----------
    url
        SQLAlchemy URL of a SQLite file or a PostgreSQL database. What is committed survives a crash: SQLite files get
        full synchronisation, PostgreSQL's sessions commit synchronously even if the server's default is another one.
    migrations
        Package with the party's Alembic ``env.py`` and ``versions``, and the newest schema in ``newest.sql``.
    log
        Whether SQLite keeps a write-ahead log beside the file, which is faster. Without it, all that is committed is in
        the file itself: a copy of the one file is whole.

    Raises
    ------
    BadInput
        If there is no such database, it cannot be opened, its server does not keep what is committed, or a newer
        version of Tandem wrote it (the message names both schemas; nothing is changed).
    """
    try:
        kind = make_url(url).get_backend_name()
        if kind not in _SETTINGS:
            raise BadInput(f"not a database that can be used: {kind}; take sqlite or postgresql+psycopg")
        engine = create_engine(url, **_SETTINGS[kind])
    except (SQLAlchemyError, ImportError) as error:
        more = "; pip install 'tandem-hybrid[postgresql]'" if isinstance(error, ImportError) else ""
        raise BadInput(f"not a database that can be used: {error}{more}") from None
    if kind == "sqlite":
        event.listen(engine, "connect", partial(_durable, "journal_mode=WAL" if log else "journal_mode=DELETE"))
    else:
        event.listen(engine, "connect", _synchronous)
    try:
        with engine.begin() as connection:
            if kind == "postgresql":
                _check_server(connection)
            if _revisions(connection) != [newest(migrations).revision]:
                alone(connection, MIGRATING)
                _bring_up(connection, migrations)
    except SQLAlchemyError as error:
        engine.dispose()
        lost = "" if isinstance(error, OperationalError) else "; it was damaged: put the newest copy back"
        raise BadInput(f"the database {engine.url} cannot be opened: {str(error).splitlines()[0]}{lost}") from None
    except BadInput:
        engine.dispose()
        raise
    return engine


def alone(connection: Connection, turn: int) -> None:
    """Wait for a turn that only one transaction of all processes has at a time; it ends with the transaction.

    What another transaction wrote in the same turn is seen by all that is read from here on. On SQLite there is one
    turn for everything: the right to write. Call it before anything else in the transaction.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(text("SELECT pg_advisory_xact_lock(:ours, :turn)"), {"ours": _OURS, "turn": turn})


def open_tables(url: str, migrations: str, *, log: bool = True) -> tuple[Engine, Mapping[str, Table]]:
    """Open a database and return its tables by name; parameters and errors are those of :func:`open_database`.

    The newest schema is read once in a process: it is the same in every database of the same kind of engine.
    """
    engine = open_database(url, migrations, log=log)
    kind = engine.dialect.name, migrations
    if kind not in _SCHEMAS:
        metadata = MetaData()
        metadata.reflect(engine)
        _SCHEMAS[kind] = metadata
    return engine, _SCHEMAS[kind].tables


def count_commits(engine: Engine) -> Callable[[], int]:
    """Count the transactions that are committed from here on; each that wrote to a SQLite file is one fsync of its log.

    On PostgreSQL too each is on disk before it is acknowledged, but several sessions' commits may share an fsync.
    """
    count, counting = 0, threading.Lock()

    def committed(connection: Connection) -> None:
        nonlocal count
        with counting:
            count += 1

    event.listen(engine, "commit", committed)
    return lambda: count


def database_bytes(url: str) -> int:
    """Return how many bytes a database takes on disk, its indexes and a file's log included."""
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        file = Path(parts.database or "")
        return sum(path.stat().st_size for path in file.parent.glob(f"{file.name}*"))
    engine = create_engine(url)
    tables = "FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    try:
        with engine.connect() as connection:
            return int(connection.execute(text(f"SELECT sum(pg_total_relation_size(oid)) {tables}")).scalar_one())
    finally:
        engine.dispose()


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file, creating its folder."""
    make_folder(path.parent)
    return f"sqlite:///{path}"


class Newest(NamedTuple):
    """The newest schema of a party's database: its revision, and the statements that make a new SQLite file of it."""

    revision: str
    statements: tuple[str, ...]


@cache
def newest(migrations: str) -> Newest:
    """Return the newest schema of a package of migrations, from its ``newest.sql``.

    The file is what the migrations make of a new SQLite file (:func:`common.core.migrating.schema_of`). So
    nearly nobody waits for Alembic: whoever has the newest schema already, or begins a file.
    """
    whole = resources.files(migrations).joinpath("newest.sql").read_text(encoding="utf-8")
    statements = tuple(whole.rstrip("\n").split("\n\n"))
    (revision,) = re.findall(r'^INSERT INTO "alembic_version" VALUES\(\'(\w+)\'\);$', whole, re.MULTILINE)
    return Newest(revision, statements)


def _revisions(connection: Connection) -> list[str]:
    """Return the revisions that a database says it has: one, or none where it is new."""
    if not inspect(connection).has_table("alembic_version"):
        return []
    return list(connection.execute(text("SELECT version_num FROM alembic_version ORDER BY version_num")).scalars())


def _bring_up(connection: Connection, migrations: str) -> None:
    """Bring a database to the newest schema: by its migrations, or, where a SQLite file is new, by what they come to.

    Raises
    ------
    BadInput
        If this version has no way from the schema that is there.
    """
    if connection.dialect.name == "sqlite" and not connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first():
        for statement in newest(migrations).statements:
            connection.exec_driver_sql(statement)
        return
    from common.core import migrating

    try:
        migrating.upgrade(connection, migrations)
    except migrating.UnknownRevision:
        found = ", ".join(_revisions(connection))
        raise BadInput(
            f"the database {connection.engine.url} has the schema {plain(found)}, which this version of Tandem does "
            f"not know; its own is {newest(migrations).revision}. Open it with the version that wrote it, or a newer "
            "one"
        ) from None


def _durable(journal: str, connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    # EXTRA also synchronises the folder when a journal goes: a commit cannot come back undone.
    for pragma in (journal, "synchronous=FULL" if "WAL" in journal else "synchronous=EXTRA", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _synchronous(connection: Any, record: Any) -> None:
    """Let a session's commits be on the server's disk when they return; a stronger promise stays."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()


def _check_server(connection: Connection) -> None:
    for setting in ("fsync", "full_page_writes"):
        if connection.execute(text("SELECT current_setting(:name)"), {"name": setting}).scalar_one() != "on":
            raise BadInput(f"this PostgreSQL server has {setting}=off and may lose what was committed: set it to on")


def place_for_copy(copy: Path) -> None:
    """Make a directory for a copy, which only its owner can enter, as it will hold secrets.

    Raises
    ------
    BadInput
        If there is something in it.
    """
    if copy.exists() and (not copy.is_dir() or any(copy.iterdir())):
        raise BadInput(f"{copy} is not empty: give a new directory for every copy")
    make_folder(copy, mode=0o700)
    copy.chmod(0o700)


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a SQLite database as of one moment, while others write to it: what is in its write-ahead log comes along.

    A copy of the files by other means can take the file of one moment and the log of another.
    """
    with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(target)) as copied:
        live.backup(copied)


@contextmanager
def opened_copy(place: Path, name: str, kind: files.Kind, tables: frozenset[str]) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file that another party may have written, for reading alone, and only if it is nothing but tables.

    Nothing in it is carried out: it has no triggers, views, virtual tables or generated columns, and no log beside it
    that would be laid over it.

    Raises
    ------
    NotFound
        If there is none.
    BadData
        If it is no such file; says why.
    """
    with files.opened(Path(name), kind, place):
        pass
    for beside in (f"{name}-wal", f"{name}-journal"):
        if files.present(place, beside):
            raise BadData(f"beside {place / name} lies {beside}, and a copy is one file: make the copy again")
    address = f"{(place / name).absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            for what, found in connection.execute("SELECT type, name FROM sqlite_master ORDER BY rowid"):
                if what not in ("table", "index") or (what == "table" and found not in tables):
                    shown = plain(f"the {what} {found}")
                    raise BadData(f"{place / name} holds {shown}, which no {kind.words} has: find another copy")
            for table in tables:
                if any(row[-1] for row in connection.execute(f"PRAGMA table_xinfo({table})")):
                    raise BadData(f"{place / name} works out a column of {table}, which no {kind.words} does")
            yield connection
    except sqlite3.Error as error:
        raise BadData(f"{place / name} cannot be read as a database ({plain(str(error))}): find another copy") from None
