"""State directories: files that survive a crash intact, and a claim that binds a directory to one purpose.

BadInput if a directory or file cannot be used.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from common.core.errors import BadInput, NotFound
from common.core.folder import read_own
from common.core.version import PROTOCOL, release, release_of

CLAIM = "claim.json"  # file in a state directory: the facts that it is bound to
SPEAKS = "protocol"  # the fact with the protocol of the party that bound a directory; not stored up to 0.3.0
_SECRET = 32
_RESERVED = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")  # names of devices on some file systems
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)  # this user cannot use the folder


def write_durably(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that after a crash it contains either its previous content or all of ``content``."""
    write_whole(path, content, mode=mode, durably=True)
    sync_folder(path.parent)


def write_whole(path: Path, content: bytes, *, mode: int = 0o644, durably: bool = False) -> None:
    """Write a file atomically: readers see the old or the new content; without ``durably`` a power cut may lose it."""
    temporary = path.with_name(path.name + ".part")
    _check_folder(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if durably:
            os.fsync(file.fileno())
    os.replace(temporary, path)


def append_line(descriptor: int, end: int, line: bytes) -> None:
    """Append a line durably to an open file whose complete lines end at ``end``; if this fails, write nothing.

    Content after ``end`` is part of a line that was cut off and never acknowledged, so it is overwritten.
    """
    os.ftruncate(descriptor, end)
    rest, at = memoryview(line + b"\n"), end
    try:
        while len(rest):
            written = os.pwrite(descriptor, rest, at)
            rest, at = rest[written:], at + written
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise NotFound(f"there is no directory {path.parent}, in which {path.name} is to be written: make it first")


def file_name(name: str) -> str:
    """Return a file name for a name that another party has chosen: 1 to 64 of the characters 0-9 a-z A-Z _ -.

    Two names never share a file, even if a file system does not distinguish ``Run`` and ``run``: a name that is not in
    lower case, or names a device, is followed by ``+`` and a part of its SHA-256.
    """
    if re.fullmatch(r"[0-9a-zA-Z_-]{1,64}", name) is None:
        raise BadInput(f"no file is named after {name[:100]!r}: a name has 1 to 64 of the characters 0-9 a-z A-Z _ -")
    if name == name.lower() and _RESERVED.fullmatch(name) is None:
        return name
    return f"{name}+{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def sync_folder(folder: Path) -> None:
    """Synchronise a folder, so that its entries survive a power cut; synchronising a file covers only its content."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Create a folder and its missing parents durably, so that it and its files survive a power cut.

    An existing folder is synchronised again, since the process that created it may have been interrupted.
    """
    missing = [place for place in folder.parents if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=mode)
    sync_folder(folder)
    for place in (folder, *missing):
        with suppress(PermissionError):  # a folder that this user cannot list existed before
            sync_folder(place.parent)


def user_state() -> Path:
    """Return the absolute directory of this user's durable state: ``tandem`` in XDG_STATE_HOME, or ~/.local/state."""
    state_home, home = Path(os.environ.get("XDG_STATE_HOME", "")), Path(os.path.expanduser("~"))
    if not (state_home.is_absolute() or home.is_absolute()):
        raise BadInput(
            "this user has no home directory for durable state (HOME names none): set XDG_STATE_HOME to a folder that "
            "is kept and that only this user can write"
        )
    return (state_home if state_home.is_absolute() else home / ".local" / "state") / "tandem"


def hold(folder: Path, *, wait: bool = False) -> IO[bytes]:
    """Lock a state directory for this process, until the returned file is closed or the process ends.

    If another process has locked it: BadInput, or with ``wait``, wait for it.
    """
    try:
        make_folder(folder, mode=0o700)
        folder.chmod(0o700)
        lock = (folder / "lock").open("wb")
        os.fchmod(lock.fileno(), 0o600)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        raise BadInput(
            f"the state directory {folder} cannot be written ({error.strerror}: {error.filename}): let this user write "
            "it, or name another one: with --state (of a run: --output), or for all of this user's with XDG_STATE_HOME"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        lock.close()
        raise BadInput(f"the state directory {folder} is in use by another process: stop it first") from None
    return lock


def write_once(path: Path, content: Callable[[], bytes], *, mode: int = 0o600) -> None:
    """Write a file durably if it does not exist; of concurrent processes one writes, and the others wait.

    ``content`` is called under a lock of the folder, and must not call this function for the same folder.
    """
    if path.exists():
        return
    _check_folder(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not path.exists():
            write_durably(path, content(), mode=mode)
    finally:
        os.close(folder)


def claim(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Bind a state directory to facts, or verify them if it is already bound; return the stored facts.

    A fact that is None matches any stored value. BadInput if a fact differs, or the directory has another protocol.
    """
    make_folder(folder, mode=0o700)
    path = folder / CLAIM
    write_once(path, lambda: json.dumps(facts, sort_keys=True).encode(), mode=0o644)
    stored = claimed(folder)
    speaks = stored.get(SPEAKS, PROTOCOL - 1)
    if not isinstance(speaks, int):
        raise _unreadable(path)
    if SPEAKS in facts and speaks != PROTOCOL:
        raise BadInput(
            f"the directory {folder} was written by Tandem {release_of(speaks)}, and this is Tandem "
            f"{release() or 'unreleased'}, which does not read it. Nothing was changed. Go on with that version"
        )
    for name, value in facts.items():
        if name not in stored:
            raise _unreadable(path)
        if value is not None and stored.get(name) != value:
            raise BadInput(
                f"the directory {folder} belongs to another {name} "
                f"({stored.get(name)!s:.12}, not {value!s:.12}): give a fresh one"
            )
    return stored


def claimed(folder: Path) -> dict[str, Any]:
    """Return the facts that a state directory is bound to; empty if it is not bound yet."""
    path = folder / CLAIM
    if not path.exists():
        return {}
    try:
        return dict(json.loads(read_own(path)))
    except (ValueError, TypeError, RecursionError):
        raise _unreadable(path) from None


def _unreadable(path: Path) -> BadInput:
    return BadInput(
        f"{path} cannot be read: it was cut off, edited or damaged; put it back from a copy, or give a fresh directory"
    )


def claim_people(folder: Path, fingerprint: str | None, name: str = "people") -> None:
    """Bind a state directory to the records of a table that its ledger is about; BadInput for another table."""
    if fingerprint is None:
        return
    path = folder / name
    write_once(path, fingerprint.encode)
    if read_own(path) != fingerprint.encode():
        raise BadInput(
            f"the table has changed since the state directory {folder} was made for it: put the old table back, or "
            "give a fresh directory with --state, of a run with --output (it is charged to the same people)"
        )


def durable_key(path: Path) -> bytes:
    """Return the 32-byte secret at ``path``, drawn from the operating system and written durably the first time.

    It is followed by its SHA-256, except in files of releases up to 0.2.0.
    """

    def new_secret() -> bytes:
        secret = os.urandom(_SECRET)
        return secret + hashlib.sha256(secret).digest()

    write_once(path, new_secret)
    content = read_own(path)
    secret, seal = content[:_SECRET], content[_SECRET:]
    if len(secret) != _SECRET or (seal and seal != hashlib.sha256(secret).digest()):
        raise BadInput(
            f"{path} holds no secret that can be trusted: it was cut off or damaged; put it back from a copy of this "
            "directory. Without it what was drawn under it cannot be drawn again"
        )
    return secret
