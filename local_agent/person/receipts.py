"""Receipts that an agent keeps, one file a report: what it has sent, and the referee's word that it has it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.core import canonical
from common.core import folder as files
from common.core.errors import BadData, BadMessage
from common.wire.identity import Signed
from common.wire.state import make_folder, write_durably

FOLDER = "receipts"
"""Folder in the agent's state directory."""


@dataclass(frozen=True)
class Held:
    """A receipt and the report that it is for.

    Attributes
    ----------
    path
        The file.
    receipt, report
        As they were signed.
    leaf
        What stands for a host's report under its question's root, hex; empty for an individual.
    """

    path: Path
    receipt: Signed
    report: Signed
    leaf: str

    @property
    def run(self) -> str:
        """The run that asked."""
        return str(self.report.message["run"])

    @property
    def question(self) -> int:
        """The number of the question."""
        return int(self.report.message["question"])


def keep(folder: Path, receipt: Signed, report: Signed, body: bytes | None = None) -> None:
    """Store a receipt durably, for its owner alone.

    Parameters
    ----------
    folder
        The state directory.
    body
        The packed answers of a host.
    """
    leaf = "" if body is None else leaf_of(report, body).hex()
    what: dict[str, Any] = {"receipt": receipt.wire(), "report": report.wire(), "leaf": leaf}
    path = folder / FOLDER / f"{report.message['run']}-{report.message['question']}.json"
    make_folder(path.parent, mode=0o700)
    write_durably(path, json.dumps(what).encode(), mode=0o600)


def leaf_of(report: Signed, body: bytes) -> bytes:
    """Return what stands for a report under its question's root: the digest of its signature and packed answers."""
    return hashlib.sha256(bytes.fromhex(report.signature) + body).digest()


def held(folder: Path) -> Iterator[Held]:
    """Return all receipts of a state directory, by name.

    Raises
    ------
    BadData
        If there is none, or one cannot be read.
    """
    place = folder / FOLDER
    paths = [place / name for name in files.names(place, ".json")] if place.is_dir() else []
    if not paths:
        raise BadData(
            f"there is no receipt in {folder}: no agent has answered with this state directory, or its referee gave "
            "none; name another with --state"
        )
    for path in paths:
        yield read(path)


def read(path: Path) -> Held:
    """Read one receipt.

    Raises
    ------
    BadData
        If the file is none.
    """
    try:
        tree = canonical.decode(files.read(path, files.RECEIPT))
        return Held(path, Signed.parse(tree["receipt"]), Signed.parse(tree["report"]), str(tree["leaf"]))
    except (KeyError, TypeError, BadMessage):
        raise BadData(f"{path} is no receipt: it was edited, or is another file") from None
