"""The reader of all files from other parties: only regular files of a limited size, which is verified while reading.

Their *contents* are bounded by the parsers (:mod:`common.core.canonical`, :mod:`common.core.strictyaml`). Files of a
party's own state directory may have any size.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from common.core.errors import BadData, NotFound

MOST_NAMES = 100_000  # most names in a directory
MOST_TOGETHER = 64 << 20  # most bytes in total of the files of a directory that are read together
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_MIB = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY  # does not wait for the other end of a pipe


class Kind(NamedTuple):
    """A kind of file: its name in messages, its most bytes, and its most bytes with ``--large``."""

    words: str
    most: int
    large: int = 0


SCENARIO = Kind("scenario", 4 * _MIB)
SCHEMA = Kind("schema of a table", 4 * _MIB)
RESULT = Kind("result", 32 * _MIB)
MODEL = Kind("model", 32 * _MIB)
TRANSCRIPT = Kind("transcript", 64 * _MIB, 1024 * _MIB)
CHECKPOINTS = Kind("list of checkpoints", 16 * _MIB)
PARTICIPANTS = Kind("list of participants", 40 * _MIB, 40_000 * _MIB)
VOUCHERS = Kind("file of vouchers", 1024 * _MIB, 400_000 * _MIB)
REPORTS = Kind("file of reports", 1024 * _MIB, 400_000 * _MIB)
RECEIPT = Kind("receipt", _MIB)
CHECKPOINT = Kind("checkpoint", _MIB)
ISSUER = Kind("issuer's public keys", _MIB)
LEDGER = Kind("ledger", 64 * _MIB)
CONTRIBUTIONS = Kind("file of contributions", 1024 * _MIB)
KEY = Kind("key", 64 << 10)


@contextmanager
def opened(path: Path, kind: Kind, within: Path | None = None) -> Iterator[BufferedIOBase]:
    """Open a file for reading within the block; NotFound if it does not exist.

    Args:
        path: The file; if ``within`` is given, its path inside that folder.
        within: The folder of another party. No part of the path inside it may be a link.

    Raises:
        BadData: If it cannot be opened, is not a regular file, or is larger than its kind allows.
    """
    full_path = path if within is None else within / path
    try:
        descriptor = _descriptor(path, within)
    except FileNotFoundError:
        raise NotFound(f"there is no {kind.words} {full_path}") from None
    except (OSError, ValueError) as error:
        obstacle = _obstacle(path, within) or getattr(error, "strerror", None) or str(error)
        raise _refusal(kind, full_path, obstacle) from None
    try:
        status = os.fstat(descriptor)  # of the opened file, even if its name now leads to another one
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(kind, full_path, _KINDS.get(stat.S_IFMT(status.st_mode), "no file"))
        if status.st_size > kind.most:
            raise _too_large(kind, full_path, status.st_size)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def read(path: Path, kind: Kind, within: Path | None = None) -> bytes:
    """Return the contents of a file; parameters and errors are those of :func:`opened`."""
    with opened(path, kind, within) as file:
        raw = file.read(kind.most + 1)  # it may have grown, and some special files state no size
    if len(raw) > kind.most:
        raise _too_large(kind, path if within is None else within / path, len(raw))
    return raw


def read_own(path: Path) -> bytes:
    """Return the contents of a file of this party's own state; OSError, without waiting, if it is no regular file."""
    descriptor = os.open(path, _FLAGS)
    try:
        file_type = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if file_type != stat.S_IFREG:
            reason = f"found {_KINDS.get(file_type, 'no file')}, and it must be a regular file"
            raise OSError(errno.EINVAL, reason, str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def present(folder: Path, name: str) -> bool:
    """Return whether a folder has an entry with a name, of any type."""
    with suppress(OSError, ValueError):
        return bool(os.lstat(folder / name))
    return False


def names(folder: Path, suffix: str = "") -> list[str]:
    """Return the names in a directory with a suffix, sorted; BadData if it has more than :data:`MOST_NAMES` in all."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == MOST_NAMES:
                    raise _too_many(f"the directory {folder} holds", MOST_NAMES, "names")
                if entry.name.endswith(suffix):
                    names.append(entry.name)
    except OSError as error:
        raise NotFound(f"the directory {folder} cannot be read: {error.strerror}") from None
    return sorted(names)


def documents(place: Path, kind: Kind, suffix: str = ".json") -> Iterator[tuple[Path, bytes]]:
    """Yield path and contents of a file or, for a directory, of each file whose name has a suffix, by name.

    BadData if the files of a directory have more than :data:`MOST_TOGETHER` bytes in total.
    """
    if not place.is_dir():
        yield place, read(place, kind)
        return
    together = 0
    for name in names(place, suffix):
        raw = read(Path(name), kind, place)
        together += len(raw)
        if together > MOST_TOGETHER:
            raise _too_many(f"the files in {place} have", MOST_TOGETHER, "bytes together")
        yield place / name, raw


def _too_many(what: str, most: int, items: str) -> BadData:
    return BadData(f"{what} more than {most:,} {items}: move what you need into a directory of its own")


def _descriptor(path: Path, within: Path | None) -> int:
    """Open a file without waiting for the other end of a pipe, and without following links inside ``within``."""
    if within is None:
        return os.open(path, _FLAGS)
    place = os.open(within, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        *folders, name = path.parts
        for folder in folders:
            deeper = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = deeper
        return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=place)
    finally:
        os.close(place)


def _obstacle(path: Path, within: Path | None) -> str | None:
    """Return, in words, what is at the path or a folder on the way instead of a regular file; None if nothing is."""
    places = [path] if within is None else [within.joinpath(*path.parts[:end]) for end in range(1, len(path.parts) + 1)]
    for place in places:
        try:
            file_type = stat.S_IFMT(os.lstat(place).st_mode)
        except (OSError, ValueError):
            return None
        if file_type in _KINDS and (file_type != stat.S_IFDIR or place == places[-1]):
            return _KINDS[file_type] if place == places[-1] else f"{_KINDS[file_type]} at {place}"
    return None


def _refusal(kind: Kind, path: Path, obstacle: str) -> BadData:
    return BadData(
        f"the {kind.words} {path} cannot be used: found {obstacle}, and it must be a regular file of its own; get it "
        "again from the party that wrote it"
    )


def _too_large(kind: Kind, path: Path, size: int) -> BadData:
    what = "get it again from the party that wrote it"
    if kind.large > kind.most:
        what += ", or give --large if you know that it is so large"
    return BadData(f"the {kind.words} {path} has {size:,} bytes, and a {kind.words} may have {kind.most:,}: {what}")
