"""The stream that a run has opened, as recorded in the ledger: its answers, and how many may follow."""

from typing import NamedTuple

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BrokenLedger, StreamUsedUp
from common.crypto.identity import Signed
from common.net.messages import PointAnswer, PointQuestion
from common.operations.operation import Labelled, findings
from curator.engine import Engine, constant_failure, next_lineage, silence
from curator.learners.model_agnostic import ModelAgnostic
from curator.learners.teachers import BOTTOM, StreamOfAnswers
from curator.ledger import ChargedOperation, Ledger


class StoredAnswer(NamedTuple):
    """A stored answer: its label, its number, and how many unstable answers may still follow it."""

    label: int | None
    number: int
    unstable_left: int


class RunStream:
    """Questions and answers of a run's stream; each answer is on disk before it is in memory.

    The same point is the same question, whoever asks it, and gets the stored answer. The state changes only with a
    stored answer: a failed question, a crash, a full disk or a refusal does not change it.

    Args:
        charge: The charge of the operation that opened it.

    Raises:
        BrokenLedger: If there are more answers than the stream allows.
    """

    def __init__(self, ledger: Ledger, charge: ChargedOperation, learner: ModelAgnostic, engine: Engine) -> None:
        first = Labelled.parse(findings(charge.result or {}))
        if first.stream is None:
            raise AssertionError("the operation has opened a stream")
        self._ledger, self._charge, self._learner, self._engine = ledger, charge, learner, engine
        self._first, self._opened = first, first.stream
        self._unstable_left = self._opened.cutoff - min(first.unstable, self._opened.cutoff)
        self._steps: list[tuple[str, bool]] = []  # the lineage of each question, and whether its answer was unstable
        self._answers: dict[bytes, StoredAnswer] = {}
        self._live: StreamOfAnswers | None = None
        for question, label in ledger.answers:
            self._enter(self.point(question.point), label)

    def point(self, values: tuple[float, ...]) -> AnyArray:
        """Return a point as teachers see it, shape (d,); BadInput if the values are no point."""
        return self._learner.point(values, self._engine.workspace.sample)

    def answer(self, signed: Signed, question: PointQuestion) -> StoredAnswer:
        """Answer a question without a :meth:`stored_answer`; the answer is stored before it is returned.

        Raises:
            BadInput: If the point has another number of features than records, or is no point.
            StreamUsedUp: If no further unstable answer, or no further question, is allowed.
            OperationFailed: If the teachers' code failed.
        """
        point = self.point(question.point)
        self._check_left()
        live, lineage = self._live_stream(), self._lineage(point)
        with constant_failure("point"), silence():
            answer = live.answer(point, lineage)
        label = self._learner.released(np.array([answer]))[0]
        self._ledger.answer(signed, label)
        live.advance(lineage, bottom=answer == BOTTOM)
        return self._enter(point, label)

    def reply(self, run: str, question: PointQuestion, place: StoredAnswer) -> PointAnswer:
        return PointAnswer(
            run=run,
            question=question.fingerprint(),
            number=place.number,
            label=place.label,
            unstable_left=place.unstable_left,
            questions_left=self._opened.questions - place.number,
            protects=self._first.protects,
        )

    def stored_answer(self, question: PointQuestion) -> StoredAnswer | None:
        """Return the stored answer to the same point, or None; raises BadInput as :meth:`answer` does."""
        return self._answers.get(self.point(question.point).tobytes())

    def _check_left(self) -> None:
        count = len(self._steps)
        if self._unstable_left > 0 and count < self._opened.questions:
            return
        reason = (
            "all unstable answers were given" if self._unstable_left <= 0 else f"all {count:,} questions were asked"
        )
        raise StreamUsedUp(
            f"this stream is used up: {reason}. Nothing was charged, and what was answered can be asked for again; "
            "further labels take a run with new people or a new budget"
        )

    def _lineage(self, point: AnyArray) -> str:
        previous = self._steps[-1][0] if self._steps else self._engine.lineage(self._charge.operation_id)
        return next_lineage(previous, str(len(self._steps) + 1), {"kind": PointQuestion.KIND, "point": point.tolist()})

    def _enter(self, point: AnyArray, label: int | None) -> StoredAnswer:
        self._steps.append((self._lineage(point), label is None))
        self._unstable_left -= label is None
        if self._unstable_left < 0 or len(self._steps) > self._opened.questions:
            raise BrokenLedger("the ledger holds more answers of a stream than it may have")
        place = self._answers[point.tobytes()] = StoredAnswer(label, len(self._steps), self._unstable_left)
        return place

    def _live_stream(self) -> StreamOfAnswers:
        if self._live is None:
            with constant_failure("point"), silence():
                access = self._engine.access(self._charge.operation_id, self._charge.event)
                live = self._learner.open_stream(access, self._opened, self._first)
                access.close()
            for lineage, bottom in self._steps:
                live.advance(lineage, bottom=bottom)
            self._live = live
        return self._live
