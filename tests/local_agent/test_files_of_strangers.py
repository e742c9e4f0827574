"""Files that somebody hands to a person: whatever they hold, one sentence says that they are none of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from common.core.errors import BadData
from local_agent.cli import _read_fields, read_record
from local_agent.person.receipts import read_receipt
from tests.tiers import for_each

DEEP = b"[" * 100_000, b'{"a":' * 100_000, b'{"features": ' + b"[" * 100_000


@for_each("content", [*DEEP, b"", b"\xff", b"9" * 5000, b'{"label": ' + b"9" * 5000])
@for_each("reader", [read_receipt, read_record, _read_fields])
def test_what_cannot_be_read_is_said_in_a_sentence(
    reader: Callable[[Path], object], content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(BadData):
        reader(path)
