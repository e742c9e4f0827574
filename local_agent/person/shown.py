"""What a referee has shown of the history of a run before: the newest checkpoint, one file a run.

Whoever checks again has the referee prove that the history which it shows now goes on from there. A referee that
shows a history to some and another one to others can keep that up only as long as none of them ever asks again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from common.core import canonical
from common.core.durable import file_name, make_folder, write_durably
from common.core.errors import BadData, BadMessage, Forged
from common.core.folder import CHECKPOINT, read
from common.core.values import run_name
from common.log.receipts import StoredCheckpoint

FOLDER = "checkpoints"
"""Folder in the agent's state directory."""


@dataclass(frozen=True)
class Shown:
    """The newest checkpoint of a run that a referee has shown, and the questions on which it has proven a report."""

    kept: StoredCheckpoint
    questions: frozenset[int]


def shown(folder: Path, run: str) -> Shown | None:
    """Return what was shown of a run; None where nothing was.

    Raises
    ------
    BadData
        If the file was edited.
    """
    path, old = _path(folder, run), folder / FOLDER / f"{run}.json"  # releases up to 0.2.0 took names as they are
    if not path.exists() and not old.exists():
        return None
    found = path if path.exists() else old
    try:
        tree = canonical.decode(read(found, CHECKPOINT))
        kept = StoredCheckpoint.parse(tree["checkpoint"])
        questions = frozenset(int(number) for number in tree["questions"])
        return Shown(kept, questions) if kept.said().run == run else None  # where run and Run are one file
    except (ValueError, KeyError, TypeError, BadMessage, Forged):
        raise BadData(f"{found} is no checkpoint: it was edited, or is another file") from None


def keep(folder: Path, run: str, what: Shown, *, other: bool = False) -> Path:
    """Store durably what was shown of a run, for its owner alone; return the file.

    Parameters
    ----------
    folder
        The state directory.
    other
        Whether it does not go on from what was shown before: it is then kept beside that, in a file of its own.
    """
    path = _path(folder, run, ".other.json" if other else ".json")
    make_folder(path.parent, mode=0o700)
    tree = {"checkpoint": what.kept.wire(), "questions": sorted(what.questions)}
    write_durably(path, json.dumps(tree).encode(), mode=0o600)
    return path


def _path(folder: Path, run: str, ending: str = ".json") -> Path:
    return folder / FOLDER / f"{file_name(run_name(run))}{ending}"
