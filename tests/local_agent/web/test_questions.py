"""The agent in JavaScript decides, computes and says of questions, whole and damaged, what the one in Python does."""

from benchmarks.web_agent import messages
from benchmarks.web_agent.compare import compared


def test_generated_questions_have_one_meaning() -> None:
    assert compared(2000, seed=1) == (2000, [])


def test_damaged_messages_are_refused_alike() -> None:
    assert compared(1500, 1, "messages.js", messages.cases) == (1500, [])
