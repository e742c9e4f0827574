"""Under seeded faults the invariants hold; and each of the seeded bugs breaks one of them."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from benchmarks.histories.determined import Drawn
from benchmarks.histories.faults import Crash, Faults
from benchmarks.histories.history import play
from benchmarks.histories.world import world
from tests.benchmarks.seeded_bugs import BUGS, Bug

WITHIN = 500


def found(patch: pytest.MonkeyPatch, bug: Bug, within: int = WITHIN) -> tuple[int, list[str]] | None:
    """Return the first seed at which a bug is found, and what it breaks."""
    with world(Faults(0)):
        pass  # what all histories begin with is prepared without the bug
    bug(patch)
    for seed in range(within):
        history = play(seed)
        if history.broken:
            return seed, history.broken
    return None


@pytest.mark.slow
def test_a_seed_repeats_a_history_in_another_process_too():
    command = [sys.executable, "-m", "benchmarks.histories", "--seed", "2"]
    played = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    once, again = play(2), play(2)
    assert once.log == again.log == played[: len(once.log)]
    assert f"stored: {once.digest}" in played  # with all keys, signatures and times
    assert once.digest == again.digest
    assert any(": " in line.partition(": ")[2] for line in once.log)  # something went wrong


def test_without_faults_nothing_is_lost():
    history = play(0, message_rate=0.0, step_rate=0.0, pause_rate=0.0)
    assert (history.status, history.broken, history.answered) == ("exhausted", [], 24)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [0, 50, 100, 150, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(200, 500, 50))]
)
def test_what_must_hold_holds_after_every_history(first):
    broken = {seed: history.broken for seed in range(first, first + 50) if (history := play(seed)).broken}
    assert not broken


def test_no_other_thread_draws_from_a_seed():
    drawn = Drawn(1)
    with ThreadPoolExecutor(1) as pool:
        for draw in (
            drawn.random,
            lambda: drawn.randbytes(2),
            lambda: drawn.choice((1, 2)),
            lambda: drawn.shuffle([1, 2]),
        ):
            with pytest.raises(AssertionError, match="another thread draws"):
                pool.submit(draw).result()


def test_what_another_thread_stores_is_no_step_of_a_history(tmp_path):
    def store() -> int:
        engine = create_engine(f"sqlite:///{tmp_path}/other.sqlite")
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE t (a INTEGER)"))
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO t VALUES (1)"))
        with engine.connect() as connection:
            kept = connection.execute(text("SELECT count(*) FROM t")).scalar_one()
        engine.dispose()
        return int(kept)

    faults = Faults(0, step_rate=1.0)
    with world(faults), faults.working("host"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(store).result() == 1
        assert faults.log == []
        with pytest.raises((Crash, OperationalError)):
            store()  # in the history's own thread it is one


@pytest.mark.slow
@pytest.mark.parametrize("bug", list(BUGS))
def test_each_seeded_bug_is_found(monkeypatch, bug):
    assert found(monkeypatch, bug)


def test_a_driver_that_stands_still_is_replaced_and_writes_nothing_more():
    history = play(1, message_rate=0.0, step_rate=0.0, pause_rate=0.2)
    assert any("stands still" in line for line in history.log)
    assert any("does not drive" in line for line in history.log)
    assert (history.status, history.broken, history.answered) == ("exhausted", [], 24)
