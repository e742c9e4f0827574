"""The questions that a host was asked, as a chain whose head is stored elsewhere, too: so copied folders are refused.

This module also reads and writes the file of each question: who was asked, and the report that was sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from common.core.durable import make_folder, write_durably
from common.core.errors import BadData, BrokenLedger, RolledBack
from common.crypto.identity import Identity, Signed
from common.log.ledger import Journal
from common.log.witness import Witness
from common.numerics.loops import all_distinct

if TYPE_CHECKING:
    from common.lifetime.account import Account

Kind = TypeVar("Kind")
FOLDER = "questions"  # in the host's state directory
ASKED = "asked"  # the kind of entry with the digest of a question and of the people that it asks


class QuestionChain:
    """The journal of one host's questions.

    BrokenLedger if a witness has seen another history of this host: the folder is a copy, or was restored.
    PeerUnavailable if a witness does not answer.

    Args:
        state: The host's state directory, locked by this process.
        witnesses: Services that store the heads; later starts must name them, too.
        account: The host's people in the ledger of people, which is a witness as well; None if no one is charged.
    """

    def __init__(self, state: Path, host: str, witnesses: Sequence[Witness], account: Account | None) -> None:
        self._state = state
        make_folder(state / FOLDER, mode=0o700)
        self._journal = self._trusted(lambda: Journal(state / FOLDER, {"about": "questions"}, witnesses))
        self._asked = {str(e.body["question"]) for e in self._journal.chain.entries if e.kind == ASKED}
        if account is not None:
            beside = account.witness(host)
            self._trusted(lambda: self._journal.add_witness(beside, opened=bool(self._asked)))

    def note(self, fingerprint: str) -> None:
        """Publish to the witnesses that a question is about to be answered; idempotent.

        BrokenLedger if a witness has seen another question instead: another copy of this folder is in use. CannotWrite
        or PeerUnavailable if it cannot be stored, or a witness does not answer: then call it again.
        """
        if fingerprint not in self._asked:
            self._journal.append(ASKED, {"question": fingerprint})
            self._asked.add(fingerprint)
        self._trusted(self._journal.publish)

    def _trusted(self, look: Callable[[], Kind]) -> Kind:
        try:
            return look()
        except (BrokenLedger, RolledBack) as error:
            raise BrokenLedger(
                f"the folder {self._state} is not the newest of this host: it was copied or put back, and its people "
                f"may have answered elsewhere ({error.detail}). Nothing was answered: delete this copy and go on with "
                f"the other one, or leave these people out"
            ) from None


PEOPLE, MASK = ".people", ".mask"  # uint32 numbers, or a bit per person: who was asked, and then their report
_LENGTH, _DIGEST = 8, 32


def keep(path: Path, people: bytes, header: Signed, body: bytes) -> None:
    """Store durably who was asked, with a digest, and the report of their answers, all or nothing."""
    content = len(people).to_bytes(_LENGTH, "little") + people
    report = header.model_dump_json().encode() + b"\n" + body
    write_durably(path, content + hashlib.sha256(content).digest() + report, mode=0o600)


def asked(path: Path) -> bytes:
    """Return who was asked, as :func:`keep` has stored it; BadData if it is damaged."""
    with path.open("rb") as file:
        return _asked(path, file)


def _asked(path: Path, file: IO[bytes]) -> bytes:
    length = file.read(_LENGTH)
    people = file.read(min(int.from_bytes(length, "little"), path.stat().st_size))
    if hashlib.sha256(length + people).digest() != file.read(_DIGEST):
        raise _damaged(path)
    return people


def everybody_asked(folder: Path, size: int, run: str, previous: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """Return how often each person was asked, in all runs and in the given run, shape (size, 2).

    ``previous`` are these counts for another run: then only the files of this run are read, and ``previous`` is
    overwritten. BadData if a file is damaged.
    """
    counts = np.zeros((size, 2), dtype=np.uint8) if previous is None else previous
    counts[:, 1] = 0

    def of_run(path: Path) -> bool:
        return path.stem.rsplit("-", 2)[0] == run

    def files(ending: str) -> list[Path]:
        return [path for path in folder.glob(f"*{ending}") if previous is None or of_run(path)]

    def columns(path: Path) -> slice:
        return slice(0 if previous is None else 1, 2 if of_run(path) else 1)

    for path in files(PEOPLE):
        content = asked(path)
        people = np.frombuffer(content[: len(content) // 4 * 4], dtype="<u4").astype(np.int64)
        if len(content) % 4 or not people.size or people.max() >= size or not all_distinct(people):
            raise _damaged(path)
        counts[people, columns(path)] += 1
    for path in files(MASK):
        content = asked(path)
        if len(content) != -(-size // 8) or not any(content):
            raise _damaged(path)
        counts[:, columns(path)] += np.unpackbits(np.frombuffer(content, dtype=np.uint8), count=size)[:, None]
    return counts


def report(path: Path, identity: Identity) -> tuple[Signed, bytes] | None:
    """Return a stored report; None if there is none, or it is damaged, so that it must be made again.

    BadData if it is damaged who was asked.
    """
    if not path.exists():
        return None
    with path.open("rb") as file:
        _asked(path, file)
        line, _, body = file.read().partition(b"\n")
    try:
        header = Signed.model_validate_json(line)
    except ValueError:
        return None
    again = identity.sign(header.kind, header.message)
    intact = header.message.get("body_sha256") == hashlib.sha256(body).hexdigest()
    return (header, body) if intact and again == header else None


def _damaged(path: Path) -> BadData:
    return BadData(
        f"{path} is gone, or was cut off or damaged: it says which people were asked, and without it some could answer "
        f"twice. Leave these people out, or put the file back if you have it"
    )
