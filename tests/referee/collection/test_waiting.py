"""How a run waits for reports: nobody sleeps through what has come, or when nothing further can come."""

from __future__ import annotations

import threading

import pytest


class Slept(Exception):
    """Somebody would have slept now."""


class Sleepless(threading.Condition):
    """Says so instead of sleeping."""

    def wait(self, timeout: float | None = None) -> bool:
        raise Slept(timeout)


@pytest.fixture
def questions(bench):
    found = bench.referee.collection.questions
    found._arrived = Sleepless()
    return found


def test_a_question_that_everybody_has_answered_is_counted_at_once(bench, questions):
    """Neither before nor behind the last report, as long as the question is open; then the next news is waited for."""
    seen = []

    def answered() -> None:
        assert bench.host.step()
        questions.wait(60.0)
        seen.append(questions.open)
        with pytest.raises(Slept):
            questions.wait(60.0)

    bench.meanwhile(answered)
    bench.run()
    assert seen == [[("run", 1)]]


def test_what_came_before_the_wait_is_not_slept_through(bench, questions):
    """With nobody's question complete a moment is left for further reports, and no second."""
    questions.announce()
    with pytest.raises(Slept) as moment:
        questions.wait(60.0)
    assert moment.value.args[0] <= 0.01
