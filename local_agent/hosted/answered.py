"""What a hosted population has on disk of each question that it was asked: who was, and the report that left.

Who was asked decides whether somebody may answer again. So it is sealed: nobody starts on a list that was damaged. A
report can be made again, bit for bit in its answers, from who was asked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.core.durable import write_durably
from common.core.errors import BadData
from common.crypto.identity import Identity, Signed

PEOPLE, MASK, REPORT = ".people", ".mask", ".report"
"""Suffixes: numbers of people (uint32, little-endian), a bit for each person, a signed header and packed answers."""
_SEALED = b"\xff\xff\xff\xff"
"""Begins what is sealed. As the number of a person it would be beyond every population, so that a release up to 0.2.0,
whose files are their content alone, does not read it as one."""
_DIGEST = 32


def keep_asked(path: Path, content: bytes) -> None:
    """Store durably who was asked."""
    write_durably(path, _SEALED + content + hashlib.sha256(content).digest(), mode=0o600)


def asked(path: Path) -> bytes:
    """Return what :func:`keep_asked` has stored; of an earlier release's file all of it.

    Raises
    ------
    BadData
        If it was damaged.
    """
    stored = path.read_bytes()
    if not stored.startswith(_SEALED):
        return stored
    content, digest = stored[len(_SEALED) : -_DIGEST], stored[-_DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise _damaged(path)
    return content


def everybody_asked(folder: Path, size: int) -> NDArray[np.bool_]:
    """Return for each person of a population whether it was asked, ever.

    Parameters
    ----------
    folder
        Where its questions are.
    size
        How many people it has.

    Raises
    ------
    BadData
        If a file was damaged, or is gone although its report is there: somebody could answer again.
    """
    found = np.zeros(size, dtype=np.bool_)
    for path in folder.glob(f"*{PEOPLE}"):
        content = asked(path)
        people = np.frombuffer(content[: len(content) // 4 * 4], dtype="<u4")
        if len(content) % 4 or not people.size or people.max() >= size or np.unique(people).size != people.size:
            raise _damaged(path)
        found[people] = True
    for path in folder.glob(f"*{MASK}"):
        content = asked(path)
        if len(content) != -(-size // 8) or not any(content):
            raise _damaged(path)
        found |= np.unpackbits(np.frombuffer(content, dtype=np.uint8), count=size).astype(np.bool_)
    for path in folder.glob(f"*{REPORT}"):
        if not path.with_suffix(PEOPLE).exists() and not path.with_suffix(MASK).exists():
            raise _damaged(path.with_suffix(PEOPLE))
    return found


def keep_report(path: Path, header: Signed, body: bytes) -> None:
    """Store a report durably."""
    write_durably(path, header.model_dump_json().encode() + b"\n" + body, mode=0o600)


def report(path: Path, identity: Identity) -> tuple[Signed, bytes] | None:
    """Return a stored report; None if there is none, or it was damaged: then it is to be made again."""
    if not path.exists():
        return None
    line, _, body = path.read_bytes().partition(b"\n")
    try:
        header = Signed.model_validate_json(line)
    except ValueError:
        return None
    again = identity.sign(header.kind, header.message)
    whole = header.message.get("body_sha256") == hashlib.sha256(body).hexdigest()
    return (header, body) if whole and again == header else None


def _damaged(path: Path) -> BadData:
    return BadData(
        f"{path} is gone, or was cut off or damaged: it says which people were asked, and without it some could answer "
        f"twice. Leave these people out, or put the file back if you have it"
    )
