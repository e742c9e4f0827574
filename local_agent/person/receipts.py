"""What an agent keeps of a referee's word, one file each: receipts of its reports, and the newest checkpoint it saw.

An agent that checks again has the referee prove that the history which it shows now goes on from that checkpoint. A
referee that shows different histories (a split view) can keep that up only as long as no agent ever asks again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.core import canonical
from common.core import folder as files
from common.core.durable import file_name, make_folder, write_durably
from common.core.errors import BadData, BadMessage, Forged, NotFound
from common.core.folder import CHECKPOINT, read
from common.core.values import run_name
from common.crypto.identity import Signed
from common.log.receipts import StoredCheckpoint

FOLDER = "receipts"  # folder in the agent's state directory
_LATEST = 1e11  # seconds since 1970, in the year 5138: no clock is later


@dataclass(frozen=True)
class HeldReceipt:
    """A receipt and the report that it is for, as they were signed.

    Attributes:
        leaf: What stands for the report under its question's root, hex: of the very bytes that were sent. Empty for an
            individual's that an earlier version has stored.
        sent: When the receipt came first, by this device's clock, in seconds since 1970; by default now.
    """

    path: Path
    receipt: Signed
    report: Signed
    leaf: str
    sent: float = field(default_factory=time.time)

    @property
    def run(self) -> str:
        return str(self.report.message["run"])

    @property
    def question(self) -> int:
        return int(self.report.message["question"])


def store_receipt(folder: Path, receipt: Signed, report: Signed, body: bytes | None = None) -> None:
    """Store a receipt durably, for its owner alone; ``body``: the packed answers, None where they are not known."""
    path = _receipt_path(folder, report)
    leaf, sent = "" if body is None else leaf_of(report, body).hex(), time.time()
    with suppress(BadData, NotFound):  # a report that is sent again was sent when it was sent first
        sent = read_receipt(path).sent
    what: dict[str, Any] = {"receipt": receipt.wire(), "report": report.wire(), "leaf": leaf, "sent": sent}
    make_folder(path.parent, mode=0o700)
    write_durably(path, json.dumps(what).encode(), mode=0o600)


def has_receipt(folder: Path, report: Signed) -> bool:
    """Tell whether the referee's receipt of a report was stored."""
    return _receipt_path(folder, report).exists()


def _receipt_path(folder: Path, report: Signed) -> Path:
    return folder / FOLDER / f"{file_name(report.message['run'])}-{report.message['question']}.json"


def leaf_of(report: Signed, body: bytes) -> bytes:
    """Return what stands for a report under its question's root: the digest of its signature and packed answers."""
    return hashlib.sha256(bytes.fromhex(report.signature) + body).digest()


def held_receipts(folder: Path) -> Iterator[HeldReceipt]:
    """Return all receipts of a state directory, by name; BadData, if there is none, or one cannot be read."""
    place = folder / FOLDER
    paths = [place / name for name in files.names(place, ".json")] if place.is_dir() else []
    if not paths:
        raise BadData(
            f"there is no receipt in {folder}: no agent has answered with this state directory, or its referee gave "
            "none; name another with --state"
        )
    for path in paths:
        yield read_receipt(path)


def read_receipt(path: Path) -> HeldReceipt:
    """Read one receipt, or raise BadData."""
    try:
        tree = canonical.decode(files.read(path, files.RECEIPT))
        sent, leaf = float(tree.get("sent", path.stat().st_mtime)), bytes.fromhex(tree["leaf"])
        if not 0.0 <= sent < _LATEST or len(leaf) not in (0, hashlib.sha256().digest_size):
            raise ValueError("no time, or no digest")
        return HeldReceipt(path, Signed.parse(tree["receipt"]), Signed.parse(tree["report"]), leaf.hex(), sent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BadMessage):
        raise BadData(f"{path} is no receipt: it was edited, or is another file") from None


SEEN_FOLDER = "checkpoints"  # folder in the agent's state directory


@dataclass(frozen=True)
class SeenCheckpoint:
    """The newest checkpoint of a run that a referee has shown, and the questions on which it has proven a report."""

    kept: StoredCheckpoint
    questions: frozenset[int]


def seen_checkpoint(folder: Path, run: str) -> SeenCheckpoint | None:
    """Return what was shown of a run, None where nothing was; BadData, if the file was edited."""
    # Releases up to 0.2.0 took names as they are.
    places = _seen_path(folder, run), folder / SEEN_FOLDER / f"{run}.json"
    found = next((path for path in places if path.exists()), None)
    if found is None:
        return None
    try:
        tree = canonical.decode(read(found, CHECKPOINT))
        kept = StoredCheckpoint.parse(tree["checkpoint"])
        questions = frozenset(int(number) for number in tree["questions"])
        return SeenCheckpoint(kept, questions) if kept.verified().run == run else None  # where run and Run are one file
    except (ValueError, KeyError, TypeError, BadMessage, Forged):
        raise BadData(f"{found} is no checkpoint: it was edited, or is another file") from None


def store_seen(folder: Path, run: str, what: SeenCheckpoint, *, other: bool = False) -> Path:
    """Store durably what was shown of a run, for its owner alone; return the file.

    If it does not go on from what was shown before (``other``), it is kept beside that, in a file of its own.
    """
    path = _seen_path(folder, run, ".other.json" if other else ".json")
    make_folder(path.parent, mode=0o700)
    tree = {"checkpoint": what.kept.wire(), "questions": sorted(what.questions)}
    write_durably(path, json.dumps(tree).encode(), mode=0o600)
    return path


def _seen_path(folder: Path, run: str, ending: str = ".json") -> Path:
    return folder / SEEN_FOLDER / f"{file_name(run_name(run))}{ending}"
