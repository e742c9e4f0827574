"""The engine: in which order an operation is checked, run and left behind; what the past leads to."""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from common.core.errors import BadScenario, BudgetExceeded, OperationFailed, PolicyRefused
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Operation, parse_operation
from common.privacy import events
from common.privacy.events import NoEvent
from common.scenario.loading import load
from common.scenario.plan import resolve
from curator.engine import CuratorPolicy, Engine, OperationHistory, next_lineage, silence
from curator.operations import LearnHandler
from curator.sample.base import LocalSample
from tests.curator.given import cumulative_losses
from tests.support import tiny
from tests.tiers import for_each

HYPOTHESIS = {"kind": "linear", "weights": [1.0] * 8, "threshold": 0.0}
LEARN = parse_operation({"kind": "learn", "round": 1})
REWEIGH = parse_operation({"kind": "reweigh", "hypothesis": HYPOTHESIS})
TOO_WIDE = parse_operation({"kind": "reweigh", "hypothesis": {**HYPOTHESIS, "weights": [1.0] * 9}})
SCRIPT = [LEARN, REWEIGH, LEARN, REWEIGH, LEARN]


class Entry(NamedTuple):
    operation_id: str
    operation: dict[str, Any]
    result: dict[str, Any] | None


@cache
def records() -> Records:
    found = RandomSource.seeded(5, "people").uniforms(1200 * 8).reshape(1200, 8)
    labels = np.where(found.sum(axis=1) > 4.0, 1, -1)
    return Records((found / 8.0).astype(np.float32), labels.astype(np.int8))


def engine(past: list[Entry] | None = None, seed: int = 1, **more: Any) -> Engine:
    sample = LocalSample.from_records(records())
    policy = CuratorPolicy.from_scenario(tiny(), sample, None)
    return Engine(policy, sample, RandomSource.seeded(seed, "curator"), past=past or [], **more)


def perform_all(given: Engine, script: list[Operation[Any]], first: int = 0) -> list[Entry]:
    """Carry out operations; one that was admitted already, before the power went, is taken up again."""
    done = []
    for place, operation in enumerate(script, first):
        number = str(place)
        if number in given._history.lineages:
            result = given.run(number, operation, given.workspace.event(operation))
            given.advance()
        else:
            result = given.perform(number, operation)
        done.append(Entry(number, operation.wire(), result.wire()))
    return done


def test_what_it_costs_is_asked_after_the_features_and_before_rounds_and_handler(monkeypatch):
    asked: list[Any] = []

    def broke(event: Any) -> None:
        asked.append(event)
        raise BudgetExceeded("nothing is left")

    given = engine()
    with pytest.raises(PolicyRefused, match="needs 9 features"):
        given.admit(TOO_WIDE, broke)
    assert asked == []
    monkeypatch.setattr(LearnHandler, "check", lambda *_: pytest.fail("checked"))
    with pytest.raises(BudgetExceeded):
        given.admit(LEARN, broke)
    monkeypatch.undo()
    for number in range(3):
        given.perform(str(number), REWEIGH)
    with pytest.raises(BudgetExceeded):
        given.admit(REWEIGH, broke)
    with pytest.raises(PolicyRefused, match="allows 3 rounds, 3 'reweigh'"):
        given.admit(REWEIGH, asked.append)
    assert asked == [engine().admit(LEARN), NoEvent(), NoEvent()]


def test_more_noise_than_delta_pays_for_is_refused_before_the_charge(monkeypatch):
    given = engine()
    monkeypatch.setattr(events, "COORDINATES", 1)
    with pytest.raises(PolicyRefused, match=r"numbers of noise.*Nothing was charged"):
        given.admit(LEARN)
    with pytest.raises(BadScenario, match="numbers of noise"):
        engine()


def test_admission_changes_nothing_and_one_operation_has_one_release_under_each_seed_and_number():
    given, first = engine(), engine().perform("0", LEARN)
    for _ in range(5):
        given.admit(LEARN)
        given.admit(REWEIGH)
    assert given.perform("0", LEARN) == first
    assert engine(seed=2).perform("0", LEARN) != first
    assert engine().perform("1", LEARN) != first


def test_nothing_is_taken_until_the_engine_is_told_to_go_on():
    given = engine()
    event = given.admit(LEARN)
    given.run("0", LEARN, event)
    for act in (lambda: given.admit(LEARN), lambda: given.run("1", LEARN, event), lambda: given.run("0", LEARN, event)):
        with pytest.raises(RuntimeError, match="not finished"):
            act()
    given.advance()
    given.perform("1", REWEIGH)


@for_each("cut", range(len(SCRIPT)))
@for_each("unfinished", [False, True])
def test_the_past_leads_to_the_same_workspace_and_the_same_releases(cut, unfinished):
    """Also where the last operation was charged, and perhaps half done, before the power went."""
    whole = engine()
    past = perform_all(whole, SCRIPT)
    left = past[: cut + 1]
    if unfinished:
        left[-1] = left[-1]._replace(result=None)
    again = engine(left)
    begin = cut if unfinished else cut + 1
    assert perform_all(again, SCRIPT[begin:], begin) == past[begin:]
    np.testing.assert_array_equal(*(cumulative_losses(one.workspace.sample) for one in (again, whole)))


def test_a_public_sample_that_is_missing_is_refused_and_one_that_was_not_read_is_not_missed():
    chosen = resolve(load("domain-adaptation"))
    shape = np.dtype(np.float32), chosen.source.dimension
    with pytest.raises(BadScenario, match="adapts from a public sample"):
        CuratorPolicy.for_shape(chosen, *shape, None)
    assert CuratorPolicy.for_shape(chosen, *shape, None, public_is_read=False).learner.name == "cnvx-adap"


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


SAYING = [*(kind(SECRET) for kind in (ValueError, BadScenario, KeyError)), ExceptionGroup(SECRET, [OSError(SECRET)])]


@for_each("error", [*SAYING, SystemExit()], ids=lambda error: type(error).__name__)
def test_every_failure_is_the_same_problem_says_nothing_and_ends_the_engine(error, monkeypatch, capfd, caplog):
    def fails(*_: Any) -> None:
        prints()
        raise error

    given = engine()
    given.perform("0", LEARN)
    event = given.admit(LEARN)
    monkeypatch.setattr(LearnHandler, "run", fails)
    with caplog.at_level(logging.DEBUG), pytest.raises(OperationFailed) as failed:
        given.run("1", LEARN, event)
    assert failed.value.document() == {
        "type": "urn:tandem:problem:operation-failed",
        "title": "Operation failed",
        "status": 500,
        "detail": "the operation 'learn' failed inside the curator and released nothing; its charge stays. The "
        "curator's operator finds the reason in its log: without a change there, it will fail again",
    }
    assert (failed.value.__cause__, failed.value.__suppress_context__) == (None, True)
    assert type(error).__name__ in caplog.text
    assert SECRET not in caplog.text
    assert capfd.readouterr() == ("", "")
    with pytest.raises(RuntimeError, match="not finished"):
        given.run("1", LEARN, event)


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


def reweigh(number: int) -> dict[str, object]:
    return {"kind": "reweigh", "h": number}


def entered(*past: dict[str, object]) -> OperationHistory:
    history = OperationHistory()
    for number, operation in enumerate(past):
        history.enter(str(number), operation)
    return history


def test_the_same_operation_after_another_history_has_another_lineage_and_the_last_may_be_entered_again():
    asked: dict[str, object] = {"kind": "learn"}
    assert len({entered(*past).enter("9", asked) for past in ([], [reweigh(1)], [reweigh(2)])}) == 3
    history = entered(asked, reweigh(0))
    first = history.enter("1", reweigh(0))
    for number, operation in (("1", reweigh(1)), ("0", asked), ("0", reweigh(0))):
        with pytest.raises(ValueError, match="entered already"):
            history.enter(number, operation)
    assert (history.counts["learn"], history.counts["reweigh"]) == (1, 1)
    assert history.enter("2", asked) == next_lineage(first, "2", asked)
