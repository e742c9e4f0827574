"""The run folder: scenario, result, transcript and the reports themselves, all that an auditor needs.

RUN/scenario.yaml       the resolved scenario
RUN/result.json         the result document
RUN/transcript.jsonl
RUN/checkpoints.jsonl   how far the transcript went when, signed, with the words of witnesses
RUN/participants        everybody who was enrolled: key and number of agents (referee.collection.roster)
RUN/vouchers            what they have shown of issuers (referee.collection.enrolment); absent where nobody has
RUN/reports/7.reports   the reports on question 7, as they were signed
"""

import io
import json
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import yaml

from common.core import canonical, strictyaml
from common.core import folder as files
from common.core.durable import write_durably
from common.core.errors import AuditFailed, BadData, BadMessage, NotFound
from common.core.plain import command
from common.log.receipts import StoredCheckpoint
from common.log.transcript import StoredEntry, read
from referee.tables import StoredReport

_KINDS = {
    "scenario.yaml": files.SCENARIO,
    "result.json": files.RESULT,
    "transcript.jsonl": files.TRANSCRIPT,
    "checkpoints.jsonl": files.CHECKPOINTS,
    "participants": files.PARTICIPANTS,
    "vouchers": files.VOUCHERS,
}
"""What each file is; those of reports have numbers for names."""
_HEAD = struct.Struct("<QQB16s64sQQ")
"""Of each report: slot, agents that answered, 1 for an individual, id, signature, lengths of body and message."""


def pack_reports(reports: Iterable[StoredReport]) -> bytes:
    """Encode reports: of each the numbers of :data:`_HEAD`, little-endian, the body, the message if there is one."""
    pieces = bytearray()
    for r in reports:
        pieces += _HEAD.pack(r.slot, r.answered, r.individual, r.report_id, r.signature, len(r.body), len(r.message))
        pieces += r.body
        pieces += r.message
    return bytes(pieces)


def unpack_reports(raw: bytes | BufferedIOBase) -> Iterator[StoredReport]:
    """Decode :func:`pack_reports`, one after the other; of a file no more than one report is in memory."""
    file = io.BytesIO(raw) if isinstance(raw, bytes) else raw
    size, position = file.seek(0, io.SEEK_END), file.seek(0)
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise AuditFailed(f"the reports cannot be read at byte {position}")
        slot, answered, individual, report_id, signature, body, message = _HEAD.unpack(head)
        end = position + _HEAD.size + body + message
        if end > size or individual > 1:
            raise AuditFailed(f"the reports end in the middle of one, at byte {position}")
        parts = file.read(body), file.read(message)
        yield StoredReport(slot, bool(individual), report_id, answered, signature, *parts)
        position = end


def write_run(
    folder: Path,
    scenario: dict[str, Any],
    result: dict[str, Any],
    transcript: str,
    participants: bytes,
    reports: Iterable[tuple[int, bytes]],
    checkpoints: Iterable[StoredCheckpoint] = (),
    vouchers: bytes = b"",
) -> None:
    """Write a run folder."""
    (folder / "reports").mkdir(parents=True, exist_ok=True)
    write_durably(folder / "scenario.yaml", yaml.safe_dump(scenario, sort_keys=False).encode())
    write_durably(folder / "transcript.jsonl", transcript.encode())
    write_durably(folder / "checkpoints.jsonl", b"".join(canonical.encode(k.wire()) + b"\n" for k in checkpoints))
    write_durably(folder / "participants", participants)
    if vouchers:
        write_durably(folder / "vouchers", vouchers)
    for question, raw in reports:
        write_durably(folder / "reports" / f"{question}.reports", raw)
    write_result(folder, result)


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write a run folder's result document, in place of the one that is there."""
    write_durably(folder / "result.json", (json.dumps(result, indent=2) + "\n").encode())


def not_ended(folder: Path) -> str:
    """Say that a run has no result yet, and how it goes on."""
    return (
        f"the run in {folder} has not ended: result.json is not written yet; the same `referee run` with "
        f"`{command('--output', folder)}` goes on with it"
    )


def begun(folder: Path) -> bool:
    """Tell whether a run folder has entries to verify: a run that was cancelled while it waited has none."""
    transcript = folder / "transcript.jsonl"
    return transcript.exists() and transcript.stat().st_size > 0


@contextmanager
def open_file(folder: Path, name: str, *, large: bool = False) -> Iterator[BufferedIOBase]:
    """Open a file of a run folder, which another party may have written (:mod:`common.core.folder`)."""
    try:
        kind = _KINDS.get(name, files.REPORTS)
        kind = kind._replace(most=max(kind.most, kind.large), large=0) if large else kind
        with files.opened(Path(name), kind, folder) as file:
            yield file
    except NotFound:
        started = any((folder / begins).exists() for begins in ("claim.json", "transcript.jsonl"))
        if started and not (folder / "result.json").exists():
            raise NotFound(not_ended(folder)) from None
        raise NotFound(f"{folder} is not a run folder: {name} cannot be read") from None


def read_file(folder: Path, name: str, *, large: bool = False) -> bytes:
    """Return what a file of a run folder holds; parameters and errors are those of :func:`open_file`."""
    with open_file(folder, name, large=large) as file:
        return file.read()


def read_transcript(folder: Path, key: str | None = None, *, large: bool = False) -> list[StoredEntry]:
    """Return the entries of a run folder's transcript, each verified (:func:`common.log.transcript.read`)."""
    with open_file(folder, "transcript.jsonl", large=large) as file:
        return read(file, key)


def read_scenario(folder: Path) -> Any:
    """Return the tree in a run folder's scenario."""
    try:
        return strictyaml.load(read_file(folder, "scenario.yaml").decode("utf-8"))
    except UnicodeDecodeError as error:
        why = str(error)
    except yaml.YAMLError as error:
        why = " ".join(str(error).split()).replace(' in "<unicode string>",', ",")
    raise BadData(f"{folder}/scenario.yaml is not YAML as Tandem writes it ({why}): it was cut off or changed")


def read_result(folder: Path) -> dict[str, Any]:
    """Return a run folder's result document."""
    try:
        document = canonical.decode(read_file(folder, "result.json"))
    except BadMessage as error:
        raise BadData(f"{folder}/result.json is not JSON ({error.detail}): it was cut off or changed") from None
    if not isinstance(document, dict):
        raise BadData(f"{folder}/result.json must hold a mapping, found a {type(document).__name__}")
    return document
