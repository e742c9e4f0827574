"""A database that a newer version wrote is refused with both schemas, and is left as it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from common.core.errors import BadInput
from common.service.storage.database import open_database, sqlite_url


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
