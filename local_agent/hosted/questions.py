"""The questions that a host was asked, as a chain whose head lies elsewhere too: a copy of its folder is refused.

A host remembers who was asked, and nobody answers a second question. Two copies of its folder remember apart: each
would answer another question about the same people, with noise of its own, and both answers together cost them twice.
So each question is an entry of a journal (:mod:`common.log.ledger`) before it is answered, and its witnesses take no
head but an extension of the last. Of two copies the first to be asked goes on; the other one is refused when it starts,
or at its next question.

Witnesses are those that the host's operator names, and, where people are charged, the ledger of people. Without any a
copy cannot be told from the original.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from common.core.durable import make_folder
from common.core.errors import BrokenLedger, RolledBack
from common.log.ledger import Journal
from common.log.witness import Witness

if TYPE_CHECKING:
    from common.lifetime.account import Account

Kind = TypeVar("Kind")
FOLDER = "questions"
"""In the host's state directory."""
ASKED = "asked"
"""The kind of entry that holds the digest of a question and of whom it asks."""


class Questions:
    """The journal of one host's questions.

    Parameters
    ----------
    state
        The host's state directory, held by this process.
    host
        The host's public key.
    witnesses
        Where heads go. A journal remembers them: later starts must name them.
    account
        The host's people in the ledger of people, which is a witness as well; None where nobody is charged.

    Raises
    ------
    BrokenLedger
        If a witness has seen another history of this host: the folder is a copy, or was put back.
    PeerUnavailable
        If a witness does not answer.
    """

    def __init__(self, state: Path, host: str, witnesses: Sequence[Witness], account: Account | None) -> None:
        self._state = state
        make_folder(state / FOLDER, mode=0o700)
        self._journal = self._trusted(lambda: Journal(state / FOLDER, {"about": "questions"}, witnesses))
        try:
            self._asked = {str(e.body["question"]) for e in self._journal.chain.entries if e.kind == ASKED}
            if account is not None:
                beside = account.witness(host)
                self._trusted(lambda: self._journal.attend(beside, opened=bool(self._asked)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._journal.close()

    def note(self, fingerprint: str) -> None:
        """Have the witnesses see that a question is about to be answered; the same one again changes nothing.

        Raises
        ------
        BrokenLedger
            If a witness has seen another question instead: another copy of this folder is at work.
        CannotWrite, PeerUnavailable
            If it cannot be stored, or a witness does not answer: to be called again.
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
