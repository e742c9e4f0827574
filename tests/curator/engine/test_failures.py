"""What leaves of an operation that fails, prints or warns: one constant problem, and nothing on any stream."""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from common.core.errors import BadScenario, OperationFailed
from curator.engine.failures import silence
from curator.operations import LearnHandler
from tests.curator.engine.test_engine import LEARN, engine

SECRET = "record 17 is 0.25"


def _shown(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def prints(*_: Any) -> None:
    print(SECRET)  # noqa: T201 - what it must not do
    print(SECRET, file=sys.stderr)  # noqa: T201
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _shown  # as it is outside of pytest
        warnings.warn(SECRET, stacklevel=1)
    sys.stdout.write(SECRET)


def failing(error: Exception) -> Callable[..., None]:
    def fails(*_: Any) -> None:
        prints()
        raise error

    return fails


@pytest.mark.parametrize(
    "error",
    [ValueError(SECRET), BadScenario(SECRET), KeyError(SECRET), ExceptionGroup(SECRET, [OSError(SECRET)])],
    ids=lambda error: type(error).__name__,
)
def test_every_failure_is_the_same_problem_and_says_nothing(error, monkeypatch, capfd, caplog):
    monkeypatch.setattr(LearnHandler, "run", failing(error))
    given = engine()
    event = given.admit(LEARN)
    with caplog.at_level(logging.DEBUG), pytest.raises(OperationFailed) as failed:
        given.run("0", LEARN, event)
    document = failed.value.document()
    assert document == {
        "type": "urn:tandem:problem:operation-failed",
        "title": "Operation failed",
        "status": 500,
        "detail": "the operation 'learn' failed inside the curator and released nothing; its charge stays. The "
        "curator's operator finds the reason in its log: without a change there, it will fail again",
    }
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    assert type(error).__name__ in caplog.text
    assert SECRET not in caplog.text
    assert capfd.readouterr() == ("", "")


def test_a_learner_that_prints_writes_nothing_and_learns_the_same(monkeypatch, capfd):
    honest = LearnHandler.run

    def loud(self: Any, *arguments: Any) -> Any:
        prints()
        return honest(self, *arguments)

    quiet = engine().perform("0", LEARN)
    monkeypatch.setattr(LearnHandler, "run", loud)
    assert engine().perform("0", LEARN) == quiet
    assert capfd.readouterr() == ("", "")


def test_other_threads_are_heard_meanwhile_and_this_one_afterwards(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    inside, heard = threading.Event(), threading.Event()

    def other() -> None:
        with silence():
            inside.set()
            heard.wait(60)
            print(SECRET)  # noqa: T201

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(60)
    print("a")  # noqa: T201
    with silence():
        print(SECRET)  # noqa: T201
        with silence():
            print(SECRET)  # noqa: T201
        print(SECRET)  # noqa: T201
    print("b")  # noqa: T201
    heard.set()
    thread.join()
    print("c")  # noqa: T201
    assert stream.getvalue() == "a\nb\nc\n"
    assert sys.stdout is stream
