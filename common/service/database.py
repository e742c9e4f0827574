"""One way to open a party's database: SQLAlchemy on a durable SQLite file by default, any other engine by URL."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, MetaData, Table, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from common.core.errors import BadInput

_SCHEMAS: dict[tuple[str, str], MetaData] = {}


def open_database(url: str, migrations: str) -> Engine:
    """Connect and bring the schema to its newest version.

    Parameters
    ----------
    url
        SQLAlchemy URL. SQLite files get WAL journalling and full synchronisation: what is committed survives a crash.
    migrations
        Package with the party's Alembic ``env.py`` and ``versions``.

    Raises
    ------
    BadInput
        If there is no such database, or it cannot be opened.
    """
    try:
        engine = create_engine(url, **({"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}))
    except (SQLAlchemyError, ImportError) as error:
        raise BadInput(f"not a database that can be used: {error}") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _durable)
    try:
        with engine.begin() as connection:
            upgrade(connection, migrations)
    except SQLAlchemyError as error:
        engine.dispose()
        raise BadInput(f"the database {engine.url} cannot be opened: {str(error).splitlines()[0]}") from None
    return engine


def open_tables(url: str, migrations: str) -> tuple[Engine, Mapping[str, Table]]:
    """Open a database and return its tables by name; parameters and errors are those of :func:`open_database`.

    The newest schema is read once in a process: it is the same in every database of the same kind of engine.
    """
    engine = open_database(url, migrations)
    kind = engine.dialect.name, migrations
    if kind not in _SCHEMAS:
        metadata = MetaData()
        metadata.reflect(engine)
        _SCHEMAS[kind] = metadata
    return engine, _SCHEMAS[kind].tables


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path}"


def upgrade(connection: Connection, migrations: str, revision: str = "head") -> None:
    """Apply the migrations of a package up to a revision, in the connection's transaction."""
    command.upgrade(_config(connection, migrations), revision)


def downgrade(connection: Connection, migrations: str, revision: str = "base") -> None:
    """Take back the migrations of a package down to a revision, in the connection's transaction."""
    command.downgrade(_config(connection, migrations), revision)


def _config(connection: Connection, migrations: str) -> Config:
    config = Config()
    # The configuration parser reads a percent sign as the start of a name to fill in.
    config.set_main_option("script_location", str(resources.files(migrations)).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _durable(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
