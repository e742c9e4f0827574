"""The loop that feeds a protocol: order, notes, and what happens when the protocol breaks its own pattern."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import PatternViolation
from common.statistics.intervals import Estimate
from common.vocabulary.hypotheses.constant import Constant
from common.vocabulary.operations import Learn, Reweigh
from common.vocabulary.queries.loss import LossQuery
from common.vocabulary.steps import Answers, AskAgents, AskCurator, Progress
from referee.protocols.base import Outcome
from referee.protocols.driver import drive
from referee.protocols.patterns import agents, curator, sequence

ONE = Constant.parse({"kind": "constant", "label": 1})
PATTERN = sequence(curator("learn"), agents("loss"))
OUTCOME = Outcome("done", 1, ONE, Estimate(value=0.1, low=0.0, high=0.2, confidence=0.95), "because")


def replies(sent: list[Any]):
    def exchange(number: int, step: Any) -> Any:
        sent.append((number, step))
        if isinstance(step, AskCurator):
            return {"hypothesis": ONE.wire()}
        return Answers(step.count, np.zeros(step.count, dtype=np.uint8), np.arange(step.count))

    return exchange


def test_messages_are_numbered_notes_are_not():
    sent: list[Any] = []
    notes: list[Progress] = []

    def script():
        assert (yield Progress("hello", {"a": 1.0})) is None
        release = yield AskCurator(Learn(round=1))
        assert release == {"hypothesis": ONE.wire()}
        answers = yield AskAgents(LossQuery(hypothesis=ONE), 3)
        assert answers.asked == 3
        return OUTCOME

    assert drive(script(), PATTERN, replies(sent), notes.append) is OUTCOME
    assert [(number, type(step).__name__) for number, step in sent] == [(0, "AskCurator"), (1, "AskAgents")]
    assert notes == [Progress("hello", {"a": 1.0})]


def test_a_message_out_of_turn_is_never_sent():
    sent: list[Any] = []

    def script():
        yield AskCurator(Learn(round=1))
        yield AskCurator(Reweigh(hypothesis=ONE))
        raise AssertionError("the driver let it pass")

    with pytest.raises(PatternViolation, match="'reweigh' to the curator"):
        drive(script(), PATTERN, replies(sent), lambda note: None)
    assert [step.operation.kind for _, step in sent] == ["learn"]


def test_ending_too_early_is_a_violation():
    def script():
        yield AskCurator(Learn(round=1))
        return OUTCOME

    with pytest.raises(PatternViolation, match="may not end"):
        drive(script(), PATTERN, replies([]), lambda note: None)
