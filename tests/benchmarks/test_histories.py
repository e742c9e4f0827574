"""Under seeded faults the invariants hold; and each of the seeded bugs breaks one of them."""

import ast
import os
import random
import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from benchmarks.histories.bugs import BUGS, found_within
from benchmarks.histories.determined import Drawn
from benchmarks.histories.disk import Disk
from benchmarks.histories.faults import Crash, Faults
from benchmarks.histories.history import play
from benchmarks.histories.world import world
from benchmarks.model.__main__ import main
from benchmarks.model.code import CODE, NOBODYS
from benchmarks.model.invariants import CAN_END, INVARIANTS
from benchmarks.model.rules import SOUND, Rules, Size
from benchmarks.model.search import search, steps_from
from benchmarks.model.state import initial
from common.core.durable import make_folder, write_durably
from tests.tiers import for_each

WITHIN = 500


def test_a_seed_repeats_a_history_in_another_process_too():
    command = [sys.executable, "-m", "benchmarks.histories", "--seed", "2"]
    played = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    once, again = play(2), play(2)
    assert once.log == again.log == played[: len(once.log)]
    assert f"stored: {once.digest}" in played  # with all keys, signatures and times
    assert once.digest == again.digest
    assert any(": " in line.partition(": ")[2] for line in once.log)  # something went wrong


def test_without_faults_nothing_is_lost_and_a_driver_that_stands_still_is_replaced():
    for seed, pauses in ((0, 0.0), (1, 0.2)):
        history = play(seed, message_rate=0.0, step_rate=0.0, pause_rate=pauses)
        assert (history.status, history.broken, history.answered) == ("exhausted", [], 24)
        for said in ("stands still", "does not drive"):
            assert any(said in line for line in history.log) == bool(pauses)


FIRST = [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(25, 500, 25))]


@pytest.mark.parametrize("first", FIRST)
def test_what_must_hold_holds_after_every_history(first):
    broken = {seed: history.broken for seed in range(first, first + 25) if (history := play(seed)).broken}
    assert not broken


def test_no_other_thread_draws_from_a_seed():
    drawn = Drawn(1)
    draws = (drawn.random, lambda: drawn.randbytes(2), lambda: drawn.choice((1, 2)), lambda: drawn.shuffle([1, 2]))
    with ThreadPoolExecutor(1) as pool:
        for draw in draws:
            with pytest.raises(AssertionError, match="another thread draws"):
                pool.submit(draw).result()


def test_what_another_thread_stores_is_no_step_of_a_history(tmp_path):
    def store() -> int:
        engine = create_engine(f"sqlite:///{tmp_path}/other.sqlite")
        for statement in ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)"):
            with engine.begin() as connection:
                connection.execute(text(statement))
        with engine.connect() as connection:
            kept = int(connection.execute(text("SELECT count(*) FROM t")).scalar_one())
        engine.dispose()
        return kept

    faults = Faults(0, step_rate=1.0)
    with world(faults), faults.working("host"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(store).result() == 1
        assert faults.log == []
        with pytest.raises((Crash, OperationalError)):
            store()  # in the history's own thread it is one


RARE = {"acknowledges_before_it_is_stored": 41, "agent_draws_again_after_a_crash": 380, "nobody_looks_at_the_lease": 69}
"""Seeds from which on it is looked for the rare ones: a little before the first that shows them from 0 on."""


LAST_FOUND = {"agent_draws_again_after_a_crash", "nobody_looks_at_the_lease"}  # few of many histories show them


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=pytest.mark.thorough if bug.__name__ in LAST_FOUND else ()) for bug in BUGS]
)
def test_each_seeded_bug_is_found(bug):
    history = found_within(bug, WITHIN, RARE.get(bug.__name__, 0))
    assert history
    assert not any(re.match(r"ends: \w+Error: ", what) for what in history.broken)  # an invariant broke, not the bug


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path)
    with Faults(0, 0.0, 0.0, 0.0).installed(disk):
        yield disk


@pytest.fixture
def folder(disk):
    make_folder(disk.root / "party")
    return disk.root / "party"


def test_what_is_written_durably_survives_and_is_known_to(disk, folder):
    write_durably(folder / "file", b"old")
    write_durably(folder / "file", b"new")
    assert disk.holds(folder / "file") == b"new"
    assert disk.cut(folder, lambda: False) == []
    assert (folder / "file").read_bytes() == b"new"


def test_a_folder_that_was_not_synchronised_goes_with_all_that_is_in_it(disk):
    folder = disk.root / "party"
    folder.mkdir()
    write_durably(folder / "file", b"content")
    assert disk.holds(folder / "file") is None
    assert disk.cut(folder, lambda: False) == ["the folder party"]
    assert not folder.exists()


def test_a_file_whose_content_was_not_synchronised_is_there_and_empty(disk, folder):
    (folder / "part").write_bytes(b"content")
    os.replace(folder / "part", folder / "file")
    make_folder(folder)
    assert disk.holds(folder / "file") == b""
    assert disk.cut(folder, lambda: False) == ["what was written to file"]
    assert (folder / "file").read_bytes() == b""


def test_a_file_that_was_replaced_and_not_its_folder_is_the_old_one(disk, folder):
    write_durably(folder / "file", b"old")
    with (folder / "part").open("wb") as file:
        file.write(b"new")
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / "part", folder / "file")
    assert disk.holds(folder / "file") == b"old"
    assert disk.cut(folder, lambda: True) == []  # it may survive
    assert (folder / "file").read_bytes() == b"new"
    assert disk.holds(folder / "file") == b"new"  # and then it is on the disk


@pytest.mark.parametrize(("synchronous", "rows"), [("NORMAL", 1), ("FULL", 2)])
def test_a_database_has_the_commits_that_it_synchronises(disk, folder, synchronous, rows):
    connection = sqlite3.connect(folder / "x.sqlite")
    connection.execute("PRAGMA journal_mode=WAL")
    for pragma in ("FULL", synchronous):
        connection.execute(f"PRAGMA synchronous={pragma}")
        connection.execute("CREATE TABLE IF NOT EXISTS t (a)")
        connection.execute("INSERT INTO t VALUES (1)")
        disk.commit(connection)
        connection.commit()
    assert disk.committed(folder) == (synchronous == "FULL")
    connection.close()
    disk.cut(folder, lambda: False)
    with closing(sqlite3.connect(folder / "x.sqlite")) as after:
        assert after.execute("SELECT count(*) FROM t").fetchone() == (rows,)


SMALLEST = Size(crashes=0, rogue=False)

TAKEOVER, CRASH, LATE = Size(crashes=0, rogue=False), Size(agents=1, pauses=0), Size(agents=1, crashes=0, rogue=False)
BREAKS = {
    "fenced": (TAKEOVER, "only the driver of the newest lease writes"),
    "fenced_inside": (TAKEOVER, "only the driver of the newest lease writes"),
    "lease_ends": (CRASH, CAN_END),
    "in_a_turn": (LATE, "after a question is closed nothing is taken"),
    "learns": (LATE, "nobody is stored twice"),
    "looks_whether_open": (LATE, "after a question is closed nothing is taken"),
    "stored_before_receipt": (TAKEOVER, "what was acknowledged is stored"),
    "counts_what_is_stored": (LATE, "what is counted is what is stored"),
    "charged_before_release": (CRASH, "a charge comes before its release"),
    "stored_before_release": (CRASH, "a release is stored before it leaves"),
    "charged_once": (CRASH, "nothing is charged twice"),
    "released_once": (CRASH, "nothing is released in two ways"),
    "carried_on": (CRASH, CAN_END),
    "stored_before_report": (CRASH, "nobody answers twice"),
    "remembers": (CRASH, "nobody answers twice"),
    "answers_once": (CRASH, "nobody answers twice"),
}
"""Within which size a broken rule breaks which invariant; ``numbered`` is a second line behind ``in_a_turn``."""


def test_all_invariants_hold_in_every_state_of_the_smallest_size():
    found = search(SMALLEST)
    assert (found.violated, found.states, found.steps) == (None, 1978, 6637)


def test_all_invariants_hold_in_every_state_with_a_crash_of_each():
    assert search(Size(pauses=0, rogue=False)).violated is None
    assert search(Size(agents=1, pauses=0)).violated is None


@for_each("rule", BREAKS)
def test_each_broken_rule_breaks_an_invariant(rule):
    size, invariant = BREAKS[rule]
    broken = SOUND.without(rule)
    found = search(size, broken, watched={invariant}, symmetry=False)
    assert found.violated == invariant
    holds = INVARIANTS.get(invariant)
    state = initial(size)
    for step in found.trace:  # it can be followed, and only its end is wrong
        assert holds is None or holds(state)
        state = dict(steps_from(state, size, broken))[step]
    assert holds is None or not holds(state)


def test_unique_numbers_keep_a_report_from_being_stored_twice_where_no_turn_does():
    twice, size = "nobody is stored twice", Size(crashes=0, pauses=0, agents=1, rogue=False)
    assert search(size, SOUND.without("in_a_turn"), watched={twice}).violated is None
    assert search(size, SOUND.without("in_a_turn", "numbered"), watched={twice}).violated == twice


def test_every_rule_is_broken_once():
    assert {rule.name for rule in fields(Rules)} == {*BREAKS, "numbered"}
    found = {invariant for _, invariant in BREAKS.values()}
    assert found == {*INVARIANTS, CAN_END} - {"an answer is stored before it is sent"}  # it goes with "answers twice"


def test_the_shortest_way_to_what_does_not_hold_is_printed(capsys):
    assert main(["--without", "charged_before_release"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "a charge comes before its release: does not hold after",
        "  1  take the lease(0)",
        "  2  ask the curator(0, 0)",
        "  3  release(0)",
    ]


ROOT = Path(__file__).parents[2]


def test_each_function_that_carries_an_action_exists():
    for file, name in (place for places in CODE.values() for place in places):
        found: list[ast.stmt] = ast.parse((ROOT / file).read_text("utf-8")).body
        for part in name.split("."):
            (node,) = [n for n in found if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == part]
            found = node.body


def test_every_action_that_happens_has_its_row():
    size, chosen, actions = Size(agents=1), random.Random(1), set()
    for _ in range(100):
        state = initial(size)
        while steps := list(steps_from(state, size)):
            step, state = chosen.choice(steps)
            actions.add(step.action)
            if len(state.replies) == size.steps and chosen.random() < 0.1:
                break
    assert actions == {*CODE, *NOBODYS} - {"crash of an agent"}  # it changes nothing while no rule is broken
