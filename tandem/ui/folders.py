"""The run folders of a directory: which there are, how each stands, and what is shown of it.

Nothing but a run folder's public files is opened (:mod:`referee.view.pages`); a folder is found by its name in
the directory's own listing, never by a path that a request holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from common.core.errors import AuditFailed, NotFound, TandemError
from common.core.folder import names, present
from referee.view.pages import view_of
from referee.view.wording import RunView, Tone

T = TypeVar("T")
MAX_KEPT = 500
"""What is made of folders' files and kept, at most: the oldest is made again when it is asked for."""
PUBLIC = ("claim.json", "scenario.yaml", "result.json", "transcript.jsonl")
"""A folder with one of these is, or was to be, a run folder."""


@dataclass(frozen=True)
class ListedRun:
    """A run folder in the list.

    Attributes:
        text: What the run has shown; of a folder that cannot be shown, what happened and what to do.
        began: When the folder was made, in this machine's time.
        shown: Whether it has a page.
    """

    name: str
    scenario: str
    status: str
    text: str
    tone: Tone
    began: str
    shown: bool = True


class RunFolders:
    """A directory of run folders, or one run folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._kept: dict[tuple[str, str], tuple[tuple[float, ...], object]] = {}

    def listed(self) -> list[ListedRun]:
        found = [(_made(folder), name, folder) for name, folder in self._folders().items()]
        return [self._line(name, folder) for _, name, folder in sorted(found, key=lambda each: each[:2], reverse=True)]

    def folder(self, name: str) -> Path:
        """Return a run folder; ``NotFound`` if there is none of this name."""
        found = self._folders().get(name)
        if found is None:
            raise NotFound(f"there is no run folder {name!r} in {self.root}")
        return found

    def view(self, name: str) -> RunView:
        """Return what is shown of a finished run; raises what :func:`referee.view.pages.view_of` does."""
        folder = self.folder(name)
        return self.kept("view", folder, lambda: view_of(folder))

    def kept(self, what: str, folder: Path, make: Callable[[], T], *, alone: bool = False) -> T:
        """Return what is made of a folder's files, made again only where they have changed.

        Of what is large (``alone``) nothing else of its kind is kept beside it.
        """
        stamp = tuple(part for name in PUBLIC for part in _stamp(folder / name))
        before = self._kept.get((what, folder.name))
        if before is None or before[0] != stamp:
            for kind, name in [key for key in self._kept if key[0] == what and (alone or key[1] == folder.name)]:
                del self._kept[kind, name]
            while len(self._kept) >= MAX_KEPT:
                self._kept.pop(next(iter(self._kept)))
            before = self._kept[what, folder.name] = (stamp, make())
        return before[1]  # type: ignore[return-value]  # what ``make`` made under this name

    def _folders(self) -> dict[str, Path]:
        if _is_run(self.root):
            return {self.root.absolute().name: self.root}
        try:
            return {name: self.root / name for name in names(self.root) if _is_run(self.root / name)}
        except NotFound:
            return {}

    def _line(self, name: str, folder: Path) -> ListedRun:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(_made(folder)))
        try:
            view = self.kept("view", folder, lambda: view_of(folder))
            return ListedRun(name, view.name, view.status, view.verdict.title, view.verdict.tone, began)
        except NotFound as error:
            return ListedRun(name, "", "not ended", error.detail, "open", began, shown=False)
        except TandemError as error:
            shown = isinstance(error, AuditFailed)
            return ListedRun(name, "", "cannot be shown", error.detail, "bad", began, shown)


def _is_run(path: Path) -> bool:
    return path.is_dir() and any(present(path, name) for name in PUBLIC)


def _made(folder: Path) -> float:
    return next((found[0] for name in PUBLIC if (found := _stamp(folder / name))[0]), 0.0)


def _stamp(path: Path) -> tuple[float, float]:
    try:
        found = path.lstat()
    except OSError:
        return 0.0, 0.0
    return found.st_mtime, float(found.st_size)
