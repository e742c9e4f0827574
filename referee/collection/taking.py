"""A question while its reports are taken: who has reported, in memory; what they reported is in the store."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from referee.collection.asked import Asked
from referee.state.values import Question


class Taking:
    """Who has reported on one question: eight bytes for everybody who was enrolled when it was asked.

    Parameters
    ----------
    question, asked
        As it is stored, and as it was asked.
    reports
        Slot and number in the store of each report that was taken before.

    Attributes
    ----------
    open
        Whether it takes further reports.
    heard
        How many of its agents somebody has reported for, or declined for.
    declined
        Who will not answer, by the place in the roster: why, and for how many agents.
    """

    def __init__(self, question: Question, asked: Asked, reports: Iterable[tuple[int, int]]) -> None:
        self.question = question
        self.asked = asked
        self.open = question.open
        self.heard = 0
        self.declined: dict[int, tuple[str, int]] = {}
        asked.batch.sort()
        self._numbers = np.zeros(len(asked.batch.roster), dtype=np.int64)
        for slot, number in reports:
            self.enter(slot, number)

    @property
    def complete(self) -> bool:
        """Whether everybody has reported who was asked."""
        return self.heard >= self.question.asked

    def enter(self, slot: int, number: int) -> None:
        """Note that the participant to whom a slot belongs has reported, and where its report is; once counts."""
        batch = self.asked.batch
        position = batch.position(slot)
        if not self._numbers[position]:
            self._numbers[position] = number
            if self.declined.pop(position, None) is None:
                self.heard += len(batch.slots_from(slot))

    def decline(self, position: int, reason: str, agents: int) -> None:
        """Note that a participant will not answer for its agents; what it has reported stays."""
        if not self.number(position) and position not in self.declined:
            self.declined[position] = reason, agents
            self.heard += agents

    def reported(self, slot: int) -> bool:
        """Return whether the participant to whom a slot belongs has reported."""
        return bool(self._numbers[self.asked.batch.position(slot)])

    def number(self, position: int | None) -> int:
        """Return the number of a participant's report, given its place in the roster; 0 if there is none."""
        return int(self._numbers[position]) if position is not None and position < len(self._numbers) else 0
