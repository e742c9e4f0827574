"""One person, one record, own policy, at most one answer in a lifetime."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from common.core.durable import hold, write_durably
from common.core.errors import AlreadyAnswered, BadData, BadMessage
from common.crypto.identity import Identity, Signed
from common.local.naming import Names
from common.local.packing import pack_one
from common.local.records import Records
from common.net import messages
from common.numerics.kernels import interpreted
from common.numerics.randomness import durable_secret
from local_agent.answers import evaluate, noise_for, question_digest, randomize_one
from local_agent.person.credential import held_credential
from local_agent.person.receipts import store_receipt
from local_agent.policy import CheckedQuestion, PersonalPolicy

ANSWERED = "answered.json"  # file in the state directory: what the one answer was, and what it cost
SEAL = "sha256"  # key in that file: of all the rest


class Agent:
    """An individual local agent.

    What it spends is on disk, together with the randomized answer itself, *before* anything is sent: after a crash it
    sends the same answer again or nothing, never a second sample.

    Args:
        record: Exactly one person's record.
        folder: State directory: key, secret, and the answered flag.
        names: What the record's features and label are, where its file says it: a run about other columns is refused.

    Raises:
        BadData: If it is not exactly one acceptable record.
        BadInput: If another process works on the same folder.
    """

    def __init__(self, record: Records, policy: PersonalPolicy, folder: Path, names: Names | None = None) -> None:
        if len(record) != 1:
            raise BadData(f"an individual agent has exactly one record, found {len(record)}")
        record.check()
        self._record, self._policy, self._names = record, policy, names
        self._folder, self._path = folder, folder / ANSWERED
        self._lock = hold(folder)
        try:
            self.identity = Identity.load_or_create(folder / "identity.key")
            self._secret = durable_secret(folder / "secret.key")
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        self._lock.close()

    def enrolment(self) -> Signed:
        policy = self._policy.announced(self._record.dimension)
        message = messages.Enrolment(agents=1, credential=held_credential(self._folder), policy=policy)
        return self.identity.sign(message.KIND, message.wire())

    @property
    def answered(self) -> bool:
        return self._path.exists()

    @property
    def report(self) -> Signed | None:
        """The one report of this person's life, if there is one: it may be sent again and again."""
        return Signed.parse(self._stored()["report"]) if self.answered else None

    def keep_receipt(self, receipt: Signed) -> None:
        if self.report is not None:
            body = self._stored().get("body")  # up to 0.3.0 it was not stored
            store_receipt(self._folder, receipt, self.report, None if body is None else bytes.fromhex(body))

    @property
    def spent(self) -> str:
        """What the one answer has cost of the lifetime budget, and what is left, in words."""
        if not self.answered:
            return f"nothing is spent of the lifetime budget, epsilon {self._policy.epsilon:g}"
        stored = self._stored()
        epsilon = float(stored["epsilon"])
        whole = float(stored.get("lifetime", {"epsilon": self._policy.epsilon})["epsilon"])
        left = max(0.0, whole - epsilon) if math.isfinite(epsilon) else 0.0
        cost = f"it cost epsilon {epsilon:g} of the lifetime budget {whole:g}"
        return f"{cost}; {left:g} is left, and it is not spent: this agent answers once"

    @property
    def left(self) -> str:
        """The answer that has left, or may have: what the referee sees, and never the value that was randomized."""
        report = self.report
        return "nothing" if report is None else f"{report.message['answer']:g}"

    def examine(self, assignment: Signed, configuration: Signed) -> CheckedQuestion:
        """Check a question in full, as :meth:`answer` does first; the record is not touched, nothing is spent."""
        return self._policy.check(assignment, configuration, self._record.dimension, self._names)

    def answer(self, assignment: Signed, configuration: Signed) -> Signed:
        """Answer a question, once; the same question again gets the same stored report.

        Raises:
            AlreadyAnswered: If another question was answered before.
            Forged, BadMessage, ConfigurationMismatch, PolicyRefused: As
                :meth:`local_agent.policy.PersonalPolicy.check`; the record is not touched then, nothing is spent.
        """
        question = self.examine(assignment, configuration)
        asked = question.assignment
        if isinstance(asked, messages.MassAssignment):
            raise BadMessage("an assignment to very many people is none for an individual agent")
        slots = messages.unpack_indices(asked.slots)
        if messages.unpack_indices(asked.people).tolist() != [0] or slots.size != 1:
            raise BadMessage("an assignment to an individual agent names its one person, 0, and one slot")
        if self.answered:
            stored = self._stored()
            if stored["question"] != question.fingerprint:
                raise AlreadyAnswered("this person has answered a question before; there is no second answer")
            return Signed.parse(stored["report"])
        # A function of the question: copies of this folder give the same answer, not independent ones.
        person = self._record.fingerprint()
        what, part = question_digest(question.query, question.mechanism), int(question.query.parts(slots)[0])
        source = noise_for(what, part, person, self._secret)
        with interpreted():  # one record: compiling would take a hundred times as long as answering
            value = evaluate(question.query, self._record.only(question.query.columns), slots)
            answer = randomize_one(question.query, value, question.mechanism, slots, source)
        report = messages.Report(
            report_id=self._secret.derive("report", question.fingerprint).words(2).tobytes().hex(),
            run=asked.run,
            digest=asked.digest,
            question=asked.question,
            assignment=asked.fingerprint(),
            answer=answer,
        )
        signed = self.identity.sign(report.KIND, report.wire())
        epsilon, delta = question.mechanism.guarantee
        spent = {
            "epsilon": epsilon,
            "delta": delta,
            "lifetime": {"epsilon": self._policy.epsilon, "delta": self._policy.delta},
            "question": question.fingerprint,
            "report": signed.wire(),
            "body": pack_one(answer, question.answer_kind).hex(),
        }
        write_durably(self._path, json.dumps({**spent, SEAL: _digest(spent)}).encode(), mode=0o600)
        return signed

    def _stored(self) -> dict[str, Any]:
        """Return what the one answer was; a release up to 0.2.0 has not sealed it."""
        try:
            stored = dict(json.loads(self._path.read_bytes()))
            seal = stored.pop(SEAL, None)
            report = Signed.parse(stored["report"])
            if seal in (None, _digest(stored)) and self.identity.sign(report.kind, report.message) == report:
                return {"question": "", "epsilon": 0.0, **stored}
        except (ValueError, KeyError, TypeError, RecursionError, BadMessage):
            pass
        raise BadData(
            f"{self._path} was cut off or damaged: this person has answered, and does not answer again. Put the file "
            f"back if you have it; the directory is of no other use"
        )


def _digest(stored: dict[str, Any]) -> str:
    # Not of canonical JSON, which has no infinite epsilon.
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
