"""One way to open a party's database: SQLAlchemy on a durable SQLite file by default, any other engine by URL."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event


def open_database(url: str, migrations: str) -> Engine:
    """Connect and bring the schema to its newest version.

    Parameters
    ----------
    url
        SQLAlchemy URL. SQLite files get WAL journalling and full synchronisation: what is committed survives a crash.
    migrations
        Package with the party's Alembic ``env.py`` and ``versions``.
    """
    engine = create_engine(url, **({"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}))
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _durable)
    with engine.begin() as connection:
        upgrade(connection, migrations)
    return engine


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path}"


def upgrade(connection: Connection, migrations: str, revision: str = "head") -> None:
    """Apply the migrations of a package up to a revision, in the connection's transaction."""
    config = Config()
    config.set_main_option("script_location", str(resources.files(migrations)))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _durable(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
