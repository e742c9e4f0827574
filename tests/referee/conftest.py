"""The referee's tests of what it stores run on each kind of store."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import support


@pytest.fixture(params=["sqlite", "postgresql"])
def each_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], str | None]:
    """Let every bench have its database on a store of each kind: the same folder, the same database."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql")
        known: defaultdict[Path, str] = defaultdict(server.database)
        monkeypatch.setattr(support, "database_of", known.__getitem__)
    return support.database_of
