"""Disks of a history: what was written and not synchronised may be gone once the power is.

What a file holds survives if it was synchronised since (fsync of the file); that it is there, under its name, if its
folder was (fsync of the folder), and that folder's name if the one above it was. POSIX promises no more. A database has
what it has committed, if its connection synchronises commits (``PRAGMA synchronous``); else the commits since the last
one that was. Each change that is not synchronised survives or not for itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FULL = 2
"""``PRAGMA synchronous``, from which on a commit is on the disk when it returns, in either way of logging."""
Tree = dict[Path, dict[str, "File | None"]]
"""By folder: the names that are there after a power cut, each a file or (None) a folder."""


@dataclass(eq=False)
class File:
    """A file, whatever its name: what it holds after a power cut."""

    content: bytes = b""


@dataclass
class Disk:
    """What of the files below a folder is synchronised.

    Args:
        root: The folder; itself it survives.
        tree: What is on the disk at first.
    """

    root: Path
    tree: Tree = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files: dict[int, File] = {}
        self._databases: dict[Path, dict[Path, bytes]] = {}
        for folder, entries in self.tree.items():
            for name, file in entries.items():
                if file is not None and (folder / name).is_file():
                    self._files[(folder / name).stat().st_ino] = file

    # What is written ------------------------------------------------------------------------------------------------

    def synced(self, descriptor: int) -> None:
        """Take over what an open file or folder holds at present: it is synchronised."""
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not path.is_relative_to(self.root):
            return
        if path.is_dir():
            self.tree[path] = {entry.name: self._file(entry) for entry in os.scandir(path) if not _database(entry.name)}
        else:
            self._files.setdefault(os.fstat(descriptor).st_ino, File()).content = path.read_bytes()

    def _file(self, entry: os.DirEntry[str]) -> File | None:
        return None if entry.is_dir() else self._files.setdefault(entry.inode(), File())

    def gone(self, path: Path) -> None:
        """Forget a file that will have no name any more: its number may be given to another one."""
        if path.is_relative_to(self.root) and path.is_file():
            self._files.pop(path.stat().st_ino, None)

    def commit(self, connection: Any) -> None:
        """Note that a connection to a SQLite file of this disk is about to commit: it synchronises, or may be lost."""
        cursor = connection.cursor()
        (synchronous,) = cursor.execute("PRAGMA synchronous").fetchone()
        path = Path(cursor.execute("PRAGMA database_list").fetchone()[2])
        cursor.close()
        if not path.is_relative_to(self.root):
            return
        if synchronous >= FULL:
            self._databases.pop(path, None)
        elif path not in self._databases:
            self._databases[path] = {file: file.read_bytes() for file in path.parent.glob(f"{path.name}*")}

    # What is lost ---------------------------------------------------------------------------------------------------

    def holds(self, path: Path) -> bytes | None:
        """Return what a file is sure to hold after a power cut; None if it may be gone."""
        for folder in path.parents:
            if folder == self.root:
                break
            if folder.name not in self.tree.get(folder.parent, {}):
                return None
        file = self.tree.get(path.parent, {}).get(path.name)
        return None if file is None else file.content

    def committed(self, folder: Path) -> bool:
        """Tell whether all that was committed to the databases in a folder is synchronised."""
        return not any(path.is_relative_to(folder) for path in self._databases)

    def cut(self, folder: Path, survives: Callable[[], bool]) -> list[str]:
        """Take back what was not synchronised in a folder that nobody uses, for each change unless it survives.

        Returns:
            What is lost.
        """
        lost = self._revert(folder, survives)
        for path in [path for path in self._databases if path.is_relative_to(folder)]:
            before = self._databases.pop(path)
            if folder.is_dir() and not survives():
                for file in path.parent.glob(f"{path.name}*"):
                    file.unlink()
                for file, content in before.items():
                    file.write_bytes(content)
                lost.append(f"commits to {path.name}")
        self._settle(folder)
        return lost

    def _revert(self, path: Path, survives: Callable[[], bool]) -> list[str]:
        durable = self.tree.get(path.parent, {})
        sure = path.name in durable
        file = durable.get(path.name)
        if path.is_dir() and (not sure or file is None):
            if not sure and not survives():
                shutil.rmtree(path)
                return [f"the folder {path.name}"]
            names = {*os.listdir(path), *self.tree.get(path, {})}
            inside = [path / name for name in sorted(names) if not _database(name)]
            return [lost for below in inside for lost in self._revert(below, survives)]
        if not path.exists():
            if file is None or survives():
                return []
            path.write_bytes(file.content)
            return [f"that {path.name} was removed"]
        held = self._files.get(path.stat().st_ino)
        if held is not None and held is file and path.read_bytes() == file.content:
            return []
        if file is None and not survives():
            path.unlink()
            return [f"{path.name}, which is new"] if path.name != "lock" else []
        if file is not None and held is not file and not survives():
            path.write_bytes(file.content)
            return [f"what has replaced {path.name}"]
        synced = b"" if held is None else held.content
        if path.read_bytes() != synced and not survives():
            path.write_bytes(synced)
            return [f"what was written to {path.name}"]
        return []

    def _settle(self, folder: Path) -> None:
        """Note that all there is in a folder is on the disk, with the way to it."""
        self.tree = {place: entries for place, entries in self.tree.items() if not place.is_relative_to(folder)}
        if not folder.is_dir():
            self.tree.get(folder.parent, {}).pop(folder.name, None)
            return
        self.tree.setdefault(folder.parent, {})[folder.name] = None
        for place in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            entries: dict[str, File | None] = {}
            for entry in os.scandir(place):
                if not _database(entry.name):
                    entries[entry.name] = None if entry.is_dir() else File(Path(entry.path).read_bytes())
                    if entry.is_file():
                        self._files[entry.inode()] = entries[entry.name] or File()
            self.tree[place] = entries


def _database(name: str) -> bool:
    return ".sqlite" in name


def moved(tree: Tree, before: Path, after: Path) -> Tree:
    """Return what is on the disk after a folder was copied to another place, with files of its own."""
    return {
        after / folder.relative_to(before): {
            name: None if file is None else File(file.content) for name, file in entries.items()
        }
        for folder, entries in tree.items()
        if folder.is_relative_to(before)
    }
