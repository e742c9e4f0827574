"""State directories: files that survive a crash whole, and a claim that keeps one directory to one purpose."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any

from common.core.errors import BadInput
from common.numerics.randomness import RandomSource


def write_durably(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that after a crash it holds either what it held before or all of ``content``."""
    temporary = path.with_name(path.name + ".part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def hold(folder: Path) -> IO[bytes]:
    """Take a state directory for this process alone, until the returned file is closed or the process ends.

    Two processes on one state would each trust a memory of their own: budgets could be spent twice.

    Raises
    ------
    BadInput
        If another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    lock = (folder / "lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise BadInput(f"the state directory {folder} is in use by another process: stop it first") from None
    return lock


def claim(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Bind a state directory to some facts, the first time; afterwards insist on them.

    A fact that is None is taken from what is written there (such as a seed that was drawn at the first start).

    Returns
    -------
    The facts as they are written.

    Raises
    ------
    BadInput
        If the directory is bound to other facts.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "claim.json"
    if not path.exists():
        write_durably(path, json.dumps(facts, sort_keys=True).encode())
    try:
        written: dict[str, Any] = dict(json.loads(path.read_bytes()))
    except ValueError:
        raise BadInput(f"{path} cannot be read: it was cut off or edited; give a fresh directory") from None
    for name, value in facts.items():
        if value is not None and written.get(name) != value:
            raise BadInput(
                f"the directory {folder} belongs to another {name} "
                f"({written.get(name)!s:.12}, not {value!s:.12}): give a fresh one"
            )
    return written


def claim_people(folder: Path, fingerprint: str | None, name: str = "people") -> None:
    """Bind a state directory to the records of a table: its answered flags and ledger are about these people only.

    Raises
    ------
    BadInput
        If it is bound to others: a person may have moved to another row, and would be asked or charged as another.
    """
    if fingerprint is None:
        return
    path = folder / name
    if not path.exists():
        write_durably(path, fingerprint.encode(), mode=0o600)
    if path.read_text() != fingerprint:
        raise BadInput(
            f"the table has changed since the state directory {folder} was made for it: "
            f"put the old table back, or give a fresh directory with --state (which is a fresh budget)"
        )


def durable_key(path: Path) -> bytes:
    """Return the 32-byte secret at ``path``, drawn from the operating system and written durably the first time."""
    if not path.exists():
        write_durably(path, os.urandom(32), mode=0o600)
    return path.read_bytes()


def durable_secret(path: Path) -> RandomSource:
    """Return a cryptographic source under the secret of :func:`durable_key`."""
    return RandomSource(durable_key(path), simulated=False)
