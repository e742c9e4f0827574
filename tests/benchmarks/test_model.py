"""All states of the protocol's model are looked at: every invariant holds, and each rule that is broken breaks one."""

import ast
import random
from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks.model.__main__ import main
from benchmarks.model.code import CODE, NOBODYS, table
from benchmarks.model.invariants import CAN_END, INVARIANTS
from benchmarks.model.rules import SOUND, Rules, Size
from benchmarks.model.search import search, steps_from
from benchmarks.model.state import initial
from tests.tiers import for_each

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


def test_with_numbers_of_their_own_equal_parties_only_make_more_states():
    found = search(Size(crashes=0, pauses=0, rogue=False), symmetry=False)
    assert found.violated is None
    assert found.states > search(Size(crashes=0, pauses=0, rogue=False)).states


@pytest.mark.slow
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


def test_the_page_prints_the_table():
    assert table() in (ROOT / "docs" / "model.md").read_text("utf-8")
