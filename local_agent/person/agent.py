"""An individual agent: one person's record and policy, and answers until the lifetime budget is spent."""

import hashlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from common.core.durable import hold, write_durably
from common.core.errors import BadData, BadMessage
from common.crypto.identity import Identity, Signed
from common.local.naming import Names
from common.local.packing import pack_one
from common.local.records import Records
from common.net import messages
from common.numerics.kernels import interpreted
from common.numerics.randomness import durable_secret
from common.privacy.rounding import above, stated
from local_agent.answers import evaluate, noise_for, question_digest, randomize
from local_agent.person.checking import store_receipt
from local_agent.person.credential import held_credential
from local_agent.policy import CheckedQuestion, PersonalPolicy, own_slot

ANSWERED = "answered.json"  # file in the state directory: every answer, and its cost
SEAL = "sha256"  # key in that file: the digest of the rest


class Agent:
    """An individual local agent.

    The cost and the randomized answer are on disk *before* anything is sent: after a crash it sends the same answer
    again or nothing, never a second sample. All its answers together are (sum epsilon_i, sum delta_i)-differentially
    private in the record, for any behaviour of all others, even if each question is chosen after all previous answers:
    this is basic composition, which is a valid privacy filter for adaptively chosen budgets (Rogers, Roth, Ullman and
    Vadhan 2016). Sums are exact, and a question that would exceed the lifetime budget is refused.

    ``names`` are those of the record's features and label, if its file states them: a run about other columns is
    refused. BadData if there is not exactly one valid record, or the stored answers cannot be read. BadInput if another
    process uses the same folder.
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
            self._answers = self._read() if self._path.exists() else []
        except BaseException:
            self._lock.close()
            raise
        self._settled = 0  # number of answers that need not be sent again: acknowledged or refused

    def close(self) -> None:
        self._lock.close()

    def enrolment(self, *, again: bool = False) -> Signed:
        """Return the signed enrolment; ``again``: it has been asked before, and may be asked once more."""
        policy = replace(self._policy, epsilon=self.left[0], delta=self.left[1]).announced(self._record.dimension)
        credential, again = held_credential(self._folder), again and self.left[0] > 0.0
        message = messages.Enrolment(agents=1, credential=credential, policy=policy, again=again)
        return self.identity.sign(message.KIND, message.wire())

    @property
    def answered(self) -> int:
        return len(self._answers)

    @property
    def left(self) -> tuple[float, float]:
        """The remaining lifetime budget (epsilon, delta), never rounded up; infinite for simulated people."""
        return self._left("epsilon", self._policy.epsilon), self._left("delta", self._policy.delta)

    def _left(self, name: str, total: float) -> float:
        costs = [float(answer[name]) for answer in self._answers]
        if not math.isfinite(total) or not all(map(math.isfinite, costs)):
            return total if not math.isfinite(total) else 0.0
        return 0.0 - above(min(Fraction(0), sum(map(Fraction, costs)) - Fraction(total)))  # never rounded up

    @property
    def report(self) -> Signed | None:
        """The newest report, if there is one; it may be sent repeatedly."""
        return Signed.parse(self._answers[-1]["report"]) if self._answers else None

    @property
    def unacknowledged(self) -> Signed | None:
        """The newest report, until the referee acknowledges it to this process or refuses it for good.

        After a restart the process sends it again, since the referee may have been restored to an earlier state.
        """
        return self.report if self._settled < self.answered else None

    @property
    def finished(self) -> bool:
        """Whether the lifetime budget is spent, and every report was acknowledged or refused."""
        return self.left[0] <= 0.0 and self.unacknowledged is None

    def keep_receipt(self, receipt: Signed) -> None:
        report = self.report
        if report is not None:
            body = self._answers[-1].get("body", "")  # not stored up to 0.3.0; no current referee accepts such a report
            store_receipt(self._folder, receipt, report, bytes.fromhex(body))
            self._settled = self.answered

    def not_taken(self) -> None:
        """Note that the referee will never accept the newest report; its cost remains spent."""
        self._settled = self.answered

    @property
    def spent(self) -> str:
        """The cost of the last answer, and what is left of the lifetime budget, in words."""
        budget = self._policy.epsilon
        if not self._answers:
            return f"nothing is spent of the lifetime budget, epsilon {budget:g}"
        last = float(self._answers[-1]["epsilon"])
        answers = "1 answer" if len(self._answers) == 1 else f"{len(self._answers)} answers"
        left = f"after {answers}, {self.left[0]:g} of the lifetime budget {budget:g} is left"
        return f"it cost epsilon {stated(last)}; {left}"

    @property
    def sent(self) -> str:
        """The newest randomized answer, which the referee sees; never the value that was randomized."""
        report = self.report
        return "nothing" if report is None else f"{report.message['answer']:g}"

    def examine(self, assignment: Signed, configuration: Signed) -> CheckedQuestion:
        """Validate a question in full, as :meth:`answer` does first, without reading the record or spending budget."""
        question = self._policy.check(assignment, configuration, self._record.dimension, self._names, self.left)
        if self._known(question) is None:
            self._policy.check_cost(question.mechanism.guarantee, self.left)
        own_slot(question.assignment)
        return question

    def _known(self, question: CheckedQuestion) -> Signed | None:
        reports = (answer["report"] for answer in self._answers if answer["question"] == question.fingerprint)
        return next(map(Signed.parse, reports), None)

    def answer(self, assignment: Signed, configuration: Signed) -> Signed:
        """Answer a question; for a repeated question, return the stored report at no further cost.

        Forged, BadMessage, ConfigurationMismatch or PolicyRefused if the policy refuses, or the remaining lifetime
        budget is too small; then the record is not read and nothing is spent.
        """
        question = self.examine(assignment, configuration)
        asked, slots = question.assignment, np.array([own_slot(question.assignment)])
        stored = self._known(question)
        if stored is not None:
            return stored
        # The noise is a function of the question: copies of this folder give the same answer, not independent ones.
        person = self._record.fingerprint()
        what, part = question_digest(question.query, question.mechanism), int(question.query.parts(slots)[0])
        source = noise_for(what, part, person, self._secret)
        with interpreted():  # one record: compiling would take a hundred times as long as answering
            value = evaluate(question.query, self._record.only(question.query.columns), slots)
            answer = float(randomize(question.query, value, question.mechanism, slots, source)[0])
        report = messages.Report(
            report_id=self._secret.derive("report", question.fingerprint).words(2).tobytes().hex(),
            run=asked.run,
            digest=asked.digest,
            question=asked.question,
            assignment=question.digest,
            answer=answer,
        )
        signed = self.identity.sign(report.KIND, report.wire())
        epsilon, delta = question.mechanism.guarantee
        spent = {
            "epsilon": epsilon,
            "delta": delta,
            "question": question.fingerprint,
            "report": signed.wire(),
            "body": pack_one(answer, question.answer_kind).hex(),
        }
        answers = [*self._answers, spent]
        tree = {"answers": answers, SEAL: _digest(answers)}
        write_durably(self._path, json.dumps(tree).encode(), mode=0o600)
        self._answers = answers
        return signed

    def _read(self) -> list[dict[str, Any]]:
        """Return the stored answers; releases up to 0.3.0 stored one answer, and those up to 0.2.0 without a seal."""
        try:
            stored = dict(json.loads(self._path.read_bytes()))
            seal = stored.pop(SEAL, None)
            once = "answers" not in stored
            answers = [{"question": "", "epsilon": math.inf, "delta": 1.0, **stored}] if once else stored["answers"]
            intact = seal == _digest(stored if once else answers) or (seal is None and once)
            reports = [Signed.parse(answer["report"]) for answer in answers]
            own = all(self.identity.sign(report.kind, report.message) == report for report in reports)
            if intact and own and reports:
                return answers
        except (ValueError, KeyError, TypeError, RecursionError, BadMessage):
            pass
        raise BadData(
            f"{self._path} was cut off or damaged: this person has answered, and does not answer again. Put the file "
            f"back if you have it; the directory is of no other use"
        )


def _digest(stored: Any) -> str:
    # Not canonical JSON, which cannot encode an infinite epsilon.
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
