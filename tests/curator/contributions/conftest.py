"""A curator that collects."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from curator.contributions.collection import Collection, collecting
from tests.curator.contributions.given import TOKEN, scenario


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with collecting(tmp_path / "curator", scenario(tmp_path), token=TOKEN) as found:
        yield found
