"""The loop that feeds a protocol: order, notes, and what happens when the protocol breaks its own pattern."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import PatternViolation, PeerMisbehaved
from common.local.answers import Answers, AskAgents
from common.local.hypotheses.rules import Constant
from common.local.queries.loss import LossQuery
from common.operations.learning import Learn, Learned
from common.operations.weighting import Reweigh
from common.protocols.patterns import agents, curator, sequence, together
from common.protocols.steps import AskCurator, Progress, Together
from common.statistics.intervals import Estimate
from referee.protocols.base import Outcome
from referee.protocols.driver import drive
from tests.tiers import for_each

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
        learned = yield AskCurator(Learn(round=1))
        assert learned == Learned(hypothesis=ONE)
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


@for_each(
    "release",
    [None, [], {}, {"hypothesis": None}, {"hypothesis": {"kind": "code"}}, {"hypothesis": ONE.wire(), "x": 1}],
)
def test_a_release_that_is_no_result_of_what_was_asked_for_never_reaches_the_script(release):
    sent: list[Any] = []

    def exchange(number: int, step: Any) -> Any:
        return release if isinstance(step, AskCurator) else replies(sent)(number, step)

    def script():
        yield Together((AskCurator(Learn(round=1)), AskAgents(LossQuery(hypothesis=ONE), 3)))
        raise AssertionError("the driver let it pass")

    at_once = together(curator("learn"), agents("loss"))
    with pytest.raises(PeerMisbehaved, match="the curator released nothing acceptable for 'learn'"):
        drive(script(), at_once, exchange, lambda note: None)
    assert len(sent) == 1, "what leaves at once leaves whatever comes back"
