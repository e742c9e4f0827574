"""The run folder: scenario, result, transcript and the reports themselves, all that an auditor needs.

RUN/scenario.yaml   the resolved scenario
RUN/result.json     the result document
RUN/transcript.jsonl
RUN/reports/7.reports   the reports on question 7, as they were signed
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from common.core import canonical
from common.core.errors import AuditFailed, BadMessage, NotFound
from common.wire.state import write_durably
from referee.state.values import StoredReport

_LENGTHS = struct.Struct("<QQ")


def pack_reports(reports: Iterable[StoredReport]) -> bytes:
    """Encode reports: for each the lengths of header and body (two little-endian 64-bit words), header, body."""
    pieces = []
    for report in reports:
        header = canonical.encode(report.header)
        pieces += [_LENGTHS.pack(len(header), len(report.body)), header, report.body]
    return b"".join(pieces)


def unpack_reports(raw: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """Decode :func:`pack_reports` into (header, body) pairs.

    Raises
    ------
    AuditFailed
        If the bytes are not such a list.
    """
    found, at = [], 0
    while at < len(raw):
        try:
            header_length, body_length = _LENGTHS.unpack_from(raw, at)
            middle = at + _LENGTHS.size + header_length
            if middle + body_length > len(raw):
                raise AuditFailed(f"the reports end in the middle of one, at byte {at}")
            found.append((canonical.decode(raw[at + _LENGTHS.size : middle]), raw[middle : middle + body_length]))
        except (struct.error, BadMessage):
            raise AuditFailed(f"the reports cannot be read at byte {at}") from None
        at = middle + body_length
    return found


def write_run(
    folder: Path,
    scenario: dict[str, Any],
    result: dict[str, Any],
    transcript: str,
    reports: Iterable[tuple[int, bytes]],
) -> None:
    """Write a run folder."""
    (folder / "reports").mkdir(parents=True, exist_ok=True)
    write_durably(folder / "scenario.yaml", yaml.safe_dump(scenario, sort_keys=False).encode())
    write_durably(folder / "transcript.jsonl", transcript.encode())
    for question, raw in reports:
        write_durably(folder / "reports" / f"{question}.reports", raw)
    write_result(folder, result)


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write a run folder's result document, in place of the one that is there."""
    write_durably(folder / "result.json", (json.dumps(result, indent=2) + "\n").encode())


def read_file(folder: Path, name: str) -> bytes:
    """Return a file of a run folder.

    Raises
    ------
    NotFound
        If it is not there.
    """
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise NotFound(f"{folder} is not a run folder: {name} cannot be read") from None
