"""A stream of questions: teachers stay, and answer any further public point, until the unstable answers are used up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from common.core.arrays import AnyArray
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Event
from common.privacy.theorems.votes import Thresholds
from curator.learners import teachers as voting
from curator.mechanisms.base import CentralMechanism, central
from curator.mechanisms.counts import geometric_noise
from curator.mechanisms.stability import distances, winners


@central
@dataclass(frozen=True, eq=False)
class TeacherStream(CentralMechanism[Records, "StreamOfAnswers"]):
    """The same teachers, which stay, for questions that come later, one at a time: an interactive mechanism.

    Together with the answers that the sequence has begun with it is one sparse vector, whose law does not depend on how
    many stable answers there are, nor on when questions are chosen; so it costs what the sequence costs.

    Attributes:
        opening: The mechanism that has answered the first questions, from the same source.
        law: The sparse vector's.
        bottoms: How many of the first answers were bottoms.
    """

    opening: voting.TeacherAnswers
    law: Thresholds
    bottoms: int

    @property
    def price(self) -> Event:
        return self.opening.price

    def apply(self, values: Iterator[Records], source: RandomSource) -> StreamOfAnswers:
        opening, records = self.opening, self.opening.taught(Records.joined(list(values)))[0]
        kinds, chunk = opening.classes, voting.chunk_of(records, opening.chunks, opening.by)
        taught = (kinds.inputs(records.features), chunk, opening.chunks, source.derive("votes"), kinds.of(records))
        with voting.unchecked():
            teachers = list(voting.trained(opening.teacher, *taught))
        return StreamOfAnswers(teachers, kinds, opening.touched, self.law, self.bottoms, source.derive("said"))


class StreamOfAnswers:
    """What is left of a sequence of questions: teachers, a threshold, and how many bottoms there may still be.

    The noise of a question, and that of a threshold which follows a bottom, are functions of the secret source and of a
    ``lineage``, a digest of the question and of all before it: no noise is drawn for two questions, nor twice for one,
    also if an old ledger should be put back.
    """

    def __init__(
        self,
        teachers: list[voting.Teacher],
        kinds: voting.LabelClasses | voting.ColumnClasses,
        touched: int,
        law: Thresholds,
        bottoms: int,
        source: RandomSource,
    ) -> None:
        self._teachers, self._kinds, self._touched, self._law, self._source = teachers, kinds, touched, law, source
        self._bottoms = bottoms
        first = geometric_noise(law.cutoff, law.of_threshold, source.derive("thresholds"))
        self._threshold = int(first[bottoms]) if bottoms < law.cutoff else 0

    def answer(self, point: AnyArray, lineage: str) -> int:
        """Return the class of a point, shape (d,), as :meth:`judge` does; changes nothing."""
        cast = np.empty((len(self._teachers), 1), dtype=np.uint8)
        with voting.unchecked():
            for number, teacher in enumerate(self._teachers):
                cast[number] = voting.vote(teacher, point[None, :])
        counts = voting.count_votes(cast, self._kinds.number)
        return self.judge(int(winners(counts)[0]), int(distances(counts, self._touched)[0]), lineage)

    def judge(self, value: int, stable: int, lineage: str) -> int:
        """Return a winner at such a distance to instability, or a bottom; after the last one, that it is unanswered."""
        if self._bottoms >= self._law.cutoff:
            return voting.UNANSWERED
        noise = int(geometric_noise(1, self._law.of_query, self._source.derive("question", lineage))[0])
        return value if stable + noise > self._law.level + self._threshold else voting.BOTTOM

    def advance(self, lineage: str, *, bottom: bool) -> None:
        """Go on behind a question whose answer is stored: after a bottom the threshold's noise is drawn anew."""
        if bottom:
            self._bottoms += 1
            fresh = geometric_noise(1, self._law.of_threshold, self._source.derive("threshold", lineage))
            self._threshold = int(fresh[0])
