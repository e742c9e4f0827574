"""Change the schema of a database by Alembic: what an older version wrote, a new database on a server, the way back.

``python -m common.core.migrating PACKAGE`` writes, beside a party's migrations, what they make of a new
SQLite file: ``newest.sql``. Whoever adds a migration runs it once; a test compares.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from importlib import import_module, resources
from pathlib import Path
from tempfile import TemporaryDirectory

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError as UnknownRevision
from sqlalchemy import Connection, create_engine

__all__ = ["UnknownRevision", "downgrade", "schema_of", "upgrade"]


def upgrade(connection: Connection, migrations: str, revision: str = "head") -> None:
    """Apply the migrations of a package up to a revision, in the connection's transaction.

    Raises
    ------
    UnknownRevision
        If the database is at a revision that the package does not have.
    """
    command.upgrade(_config(connection, migrations), revision)


def downgrade(connection: Connection, migrations: str, revision: str = "base") -> None:
    """Take back the migrations of a package down to a revision, in the connection's transaction."""
    command.downgrade(_config(connection, migrations), revision)


def schema_of(migrations: str) -> str:
    """Return the statements by which a new SQLite file gets what the migrations make of it, an empty line between."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "new.sqlite"
        engine = create_engine(f"sqlite:///{file}")
        with engine.begin() as connection:
            upgrade(connection, migrations)
        engine.dispose()
        with closing(sqlite3.connect(file)) as made:
            dump = [statement for statement in made.iterdump() if statement not in ("BEGIN TRANSACTION;", "COMMIT;")]
    return re.sub(r"[ \t]+$", "", "\n\n".join(dump), flags=re.MULTILINE) + "\n"


def _config(connection: Connection, migrations: str) -> Config:
    config = Config()
    # The configuration parser reads a percent sign as the start of a name to fill in.
    config.set_main_option("script_location", str(resources.files(migrations)).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


if __name__ == "__main__":
    for package in sys.argv[1:]:
        folder = Path(str(import_module(package).__file__)).parent
        (folder / "newest.sql").write_text(schema_of(package), encoding="utf-8")
