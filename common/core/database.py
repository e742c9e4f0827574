"""Parties' databases through SQLAlchemy: by default a durable SQLite file, or a PostgreSQL database by its URL."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from common.core import folder as files
from common.core.durable import make_folder
from common.core.errors import MAKE_ROOM, BadData, BadInput, CannotWrite, TandemError
from common.core.plain import plain
from common.core.version import older

VERSION_TABLE = "schema_version"  # the table with the version of a database's tables

_NUMBER = sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
_VERSION = sa.Table(VERSION_TABLE, sa.MetaData(), _NUMBER)
_SETTINGS: dict[str, dict[str, Any]] = {
    "sqlite": {"connect_args": {"timeout": 60}},
    "postgresql": {
        "isolation_level": "READ COMMITTED",  # no transaction fails as not serializable, whatever the server's default
        "pool_pre_ping": True,
        # A server that has disappeared is detected within half a minute.
        "connect_args": {
            "connect_timeout": 10,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 25_000,
        },
    },
}
"""Settings of engines for each kind of database."""
_OURS = 0x7A4D  # the first number of all advisory locks that Tandem takes on a PostgreSQL database
STANDSTILL = "15s"
"""How long a process may be idle (stopped, or on a frozen machine) in a transaction that others wait for; then a
PostgreSQL server ends its session and rolls the transaction back."""
MAKING = 0  # the lock for creating the tables (:func:`alone`); parties use other numbers


@dataclass(frozen=True)
class DatabaseSchema:
    """The tables of a party's database; ``name`` describes it in messages.

    A database of another ``version`` is refused, not migrated; the message ends with ``remedy`` if a release up to
    0.3.0 wrote it.
    """

    name: str
    tables: sa.MetaData
    version: int = 1
    remedy: str = "Finish what it holds with that version, or give a new state directory"


def open_database(url: str, schema: DatabaseSchema, *, log: bool = True) -> sa.Engine:
    """Connect, and create the tables if there are none; committed transactions survive a crash.

    Args:
        url: SQLAlchemy URL of a SQLite file or a PostgreSQL database.
        log: Whether SQLite uses a write-ahead log beside the file, which is faster. Without it, a copy of the file is
            complete.

    Raises:
        BadInput: If there is no such database, it cannot be opened, its server may lose committed transactions, or
            another version of Tandem wrote it. Nothing is changed then.
    """
    try:
        kind = sa.make_url(url).get_backend_name()
        if kind not in _SETTINGS:
            raise BadInput(f"not a database that can be used: {kind}; take sqlite or postgresql+psycopg")
        engine = sa.create_engine(url, **_SETTINGS[kind])
    except (SQLAlchemyError, ImportError) as error:
        remedy = "; pip install 'tandem-hybrid[postgresql]'" if isinstance(error, ImportError) else ""
        raise BadInput(f"not a database that can be used: {error}{remedy}") from None
    if kind == "sqlite":
        sa.event.listen(engine, "connect", partial(_make_durable, "WAL" if log else "TRUNCATE"))
    else:
        sa.event.listen(engine, "connect", _make_synchronous)
    try:
        with engine.begin() as connection:
            if kind == "postgresql":
                _check_server(connection)
            if not _has_tables(connection, schema):
                alone(connection, MAKING)
                if not _has_tables(connection, schema):  # another process may have been faster
                    _VERSION.create(connection)
                    connection.execute(sa.insert(_VERSION).values(version=schema.version))
                    schema.tables.create_all(connection)
    except (SQLAlchemyError, TandemError) as error:
        engine.dispose()
        if isinstance(error, TandemError):
            raise
        reason, remedy = str(error).splitlines()[0], "; it was damaged: put the newest copy back"
        if isinstance(error, OperationalError):
            remedy = MAKE_ROOM * ("disk" in reason)
        raise BadInput(f"the database {engine.url} cannot be opened: {reason}{remedy}") from None
    return engine


def alone(connection: sa.Connection, turn: int) -> None:
    """Acquire the lock number ``turn``, which one transaction at a time has, of all processes, until it ends.

    Call this first in the transaction, which then sees what others wrote under the same lock. A process that is idle
    loses it (:func:`ending`). SQLite has one lock for everything: that for writing.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(sa.select(ending(), sa.func.pg_advisory_xact_lock(_OURS, turn)))


def ending() -> sa.Function[str]:
    """Return the SQL call that has a PostgreSQL server end the transaction if it is idle for :data:`STANDSTILL`."""
    return sa.func.set_config("idle_in_transaction_session_timeout", STANDSTILL, True)


@contextmanager
def storing(what: str, unchanged: str) -> Iterator[None]:
    """Convert errors of a disk or a database to CannotWrite, which states ``what`` failed and what is ``unchanged``."""
    try:
        yield
    except (OSError, SQLAlchemyError) as error:
        why = str(getattr(error, "orig", None) or error)
        raise CannotWrite(
            f"{what} cannot be written ({why}); {unchanged}. Make room or make the place writable: the same request is "
            "then answered"
        ) from None


def count_commits(engine: sa.Engine) -> Callable[[], int]:
    """Return a counter of transactions committed from now on; each that writes to SQLite takes one fsync of its log.

    On PostgreSQL, commits of several sessions may share an fsync.
    """
    count, counting = 0, threading.Lock()

    def committed(connection: sa.Connection) -> None:
        nonlocal count
        with counting:
            count += 1

    sa.event.listen(engine, "commit", committed)
    return lambda: count


def database_bytes(url: str) -> int:
    """Return the size of a database on disk in bytes, including indexes and a file's log."""
    parts = sa.make_url(url)
    if parts.get_backend_name() == "sqlite":
        files_of = (Path(f"{parts.database}{end}") for end in ("", "-wal", "-shm", "-journal"))
        return sum(path.stat().st_size for path in files_of if path.exists())
    engine = sa.create_engine(url, poolclass=NullPool)
    tables = "FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    with engine.connect() as connection:
        return int(connection.execute(sa.text(f"SELECT sum(pg_total_relation_size(oid)) {tables}")).scalar_one())


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file, and create its folder."""
    make_folder(path.parent)
    return sa.URL.create("sqlite", database=str(path)).render_as_string()  # this escapes "?" and "%"


def _has_tables(connection: sa.Connection, schema: DatabaseSchema) -> bool:
    inspector = sa.inspect(connection)
    if inspector.has_table("alembic_version"):  # releases up to 0.3.0 marked their databases so
        raise BadInput(f"{older(f'{schema.name} {connection.engine.url}')} {schema.remedy}")
    if not inspector.has_table(_VERSION.name):
        return False
    version = connection.execute(sa.select(_VERSION.c.version)).scalar_one()
    if version != schema.version:
        raise BadInput(
            f"{schema.name} {connection.engine.url} has version {version} of its tables, and this version of Tandem "
            f"has {schema.version}: open it with the version that wrote it, or a newer one"
        )
    return True


def _make_durable(journal: str, connection: Any, record: Any) -> None:
    # FULL also synchronises a journal's truncation, so that a commit cannot be undone; deleting it takes far longer.
    for pragma in (f"journal_mode={journal}", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _make_synchronous(connection: Any, record: Any) -> None:
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    connection.commit()


def _check_server(connection: sa.Connection) -> None:
    for setting in ("fsync", "full_page_writes"):
        if connection.execute(sa.text("SELECT current_setting(:name)"), {"name": setting}).scalar_one() != "on":
            raise BadInput(f"this PostgreSQL server has {setting}=off and may lose what was committed: set it to on")


def place_for_copy(copy: Path) -> None:
    """Create an empty directory for a copy, accessible to its owner only, since the copy contains secrets."""
    if copy.exists() and (not copy.is_dir() or any(copy.iterdir())):
        raise BadInput(f"{copy} is not empty: give a new directory for every copy")
    make_folder(copy, mode=0o700)
    copy.chmod(0o700)


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a consistent state of a SQLite database while others write to it, including its write-ahead log."""
    with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(target)) as copied:
        live.backup(copied)


@contextmanager
def opened_copy(place: Path, name: str, kind: files.Kind, tables: frozenset[str]) -> Iterator[sqlite3.Connection]:
    """Open an untrusted SQLite file read-only, and only if it consists of nothing but the given tables.

    BadData if it has triggers, views, virtual tables, generated columns or a non-empty log beside it; NotFound if
    there is no file.
    """
    with files.opened(Path(name), kind, place):
        pass
    for beside in (f"{name}-wal", f"{name}-journal"):
        if files.present(place, beside) and (place / beside).lstat().st_size:
            raise BadData(f"beside {place / name} lies {beside}, and a copy is one file: make the copy again")
    address = f"{(place / name).absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            for what, entry in connection.execute("SELECT type, name FROM sqlite_master ORDER BY rowid"):
                if what not in ("table", "index") or (what == "table" and entry not in tables):
                    text = plain(f"the {what} {entry}")
                    raise BadData(f"{place / name} holds {text}, which no {kind.words} has: find another copy")
            for table in tables:
                if any(row[-1] for row in connection.execute(f"PRAGMA table_xinfo({table})")):
                    raise BadData(f"{place / name} works out a column of {table}, which no {kind.words} does")
            yield connection
    except sqlite3.Error as error:
        raise BadData(f"{place / name} cannot be read as a database ({plain(str(error))}): find another copy") from None
