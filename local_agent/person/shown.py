"""What a referee has shown of the history of a run before: the newest checkpoint, one file a run.

Whoever checks again has the referee prove that the history which it shows now goes on from there. A referee that
shows a history to some and another one to others can keep that up only as long as none of them ever asks again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from common.core import canonical
from common.core.errors import BadData, BadMessage
from common.core.folder import CHECKPOINT, read
from common.wire.messages import run_name
from common.wire.receipts import Kept
from common.wire.state import write_durably

FOLDER = "checkpoints"
"""Folder in the agent's state directory."""


@dataclass(frozen=True)
class Shown:
    """The newest checkpoint of a run that a referee has shown, and the questions on which it has proven a report."""

    kept: Kept
    questions: frozenset[int]


def shown(folder: Path, run: str) -> Shown | None:
    """Return what was shown of a run; None where nothing was.

    Raises
    ------
    BadData
        If the file was edited.
    """
    path = folder / FOLDER / f"{run_name(run)}.json"
    if not path.exists():
        return None
    try:
        tree = canonical.decode(read(path, CHECKPOINT))
        return Shown(Kept.parse(tree["checkpoint"]), frozenset(int(number) for number in tree["questions"]))
    except (ValueError, KeyError, TypeError, BadMessage):
        raise BadData(f"{path} is no checkpoint: it was edited, or is another file") from None


def keep(folder: Path, run: str, what: Shown, *, other: bool = False) -> Path:
    """Store durably what was shown of a run, for its owner alone; return the file.

    Parameters
    ----------
    folder
        The state directory.
    other
        Whether it does not go on from what was shown before: it is then kept beside that, in a file of its own.
    """
    path = folder / FOLDER / f"{run_name(run)}{'.other' if other else ''}.json"
    path.parent.mkdir(exist_ok=True, mode=0o700)
    tree = {"checkpoint": what.kept.wire(), "questions": sorted(what.questions)}
    write_durably(path, json.dumps(tree).encode(), mode=0o600)
    return path
