"""What only a simulation can know: which answers are right, and the numbers that say why."""

from __future__ import annotations

from typing import Any

import pytest

from common.core.errors import BadMessage, BadScenario
from tests.support import ABOUT, small
from tests.tiers import for_each

NAMES = ABOUT


def people(name: str) -> Any:
    return small(name).target.distribution


def judged(name: str, answer: dict[str, Any], **changes: Any) -> dict[str, Any]:
    scenario = small(name).model_copy(update=changes)
    return scenario.problem.judge(answer, scenario.alpha, scenario.target.distribution)


def head(items: list[int], shares: list[float]) -> dict[str, Any]:
    return {"kind": "head", "items": items, "shares": shares, "deviations": [0.1] * len(items)}


STRINGS, SHARES = (getattr(people("blender"), what).tolist() for what in ("strings", "shares"))
"""Shares are .48, .24, .16 and .12; at least .2 is heavy, and .15 precise."""
WHICH, PARITY = people("one-of-many-parities").wanted(), list(people("one-of-many-parities").parity(2))
BIT = people("parity-chooses-secret").bit(0b101)
XOR = {"kind": "parity-xor-threshold", "cuts": [20]}

RIGHT: dict[str, list[dict[str, Any]]] = {
    "blender": [
        head(STRINGS, SHARES),
        head(STRINGS[:2], SHARES[:2]),
        head([*STRINGS[:2], 1023], [SHARES[0] - 0.14, SHARES[1] + 0.14, 0.1]),
    ],
    "hypothesis-testing": [{"kind": "decision", "world": 1}],
    "one-of-many-parities": [{"kind": "wanted", "which": WHICH, "features": PARITY}],
    "parity-and-threshold": [
        {"kind": "parity-and-threshold", "features": [1, 2], "threshold": 20},
        {"kind": "parity-and-threshold", "features": [1, 2], "threshold": 30},
    ],
    "parity-chooses-secret": [{"kind": "secret", "which": 0b101, "bit": BIT}],
    "parity-xor-threshold": [{**XOR, "pieces": [[1, 2], [1, 2, 4]]}],
    "select-then-estimate": [
        {"kind": "selected", "feature": 3, "mean": 0.8},
        {"kind": "selected", "feature": 3, "mean": 0.9},
    ],
}
WRONG: dict[str, list[dict[str, Any]]] = {
    "blender": [
        head([], []),
        head(STRINGS[1:], SHARES[1:]),
        head(STRINGS, [0.3, *SHARES[1:]]),
        head([*STRINGS, 1023], [*SHARES, 0.2]),
    ],
    "hypothesis-testing": [{"kind": "decision", "world": 0}],
    "one-of-many-parities": [
        {"kind": "wanted", "which": WHICH ^ 1, "features": PARITY},
        {"kind": "wanted", "which": WHICH, "features": [0, *PARITY]},
        {"kind": "wanted", "which": WHICH, "features": None},
    ],
    "parity-and-threshold": [
        {"kind": "parity-and-threshold", "features": [1, 3], "threshold": 20},
        {"kind": "parity-and-threshold", "features": None, "threshold": 20},
        {"kind": "parity-and-threshold", "features": [1, 2], "threshold": 50},
    ],
    "parity-chooses-secret": [
        {"kind": "secret", "which": 0b101, "bit": 1 - BIT},
        {"kind": "secret", "which": 0b100, "bit": BIT},
    ],
    "parity-xor-threshold": [
        {**XOR, "pieces": [[1, 2], [1, 2]]},
        {**XOR, "pieces": [[1, 2, 4], [1, 2]]},
        {**XOR, "pieces": [None, None]},
    ],
    "select-then-estimate": [
        {"kind": "selected", "feature": 3, "mean": 0.6},
        {"kind": "selected", "feature": 7, "mean": 0.0},
    ],
}


def test_every_problem_is_covered():
    assert sorted(RIGHT) == sorted(WRONG) == NAMES


@for_each(("name", "answer"), [(name, answer) for name in NAMES for answer in RIGHT[name]])
def test_a_right_answer_is_correct(name, answer):
    assert judged(name, answer)["correct"] is True


@for_each(("name", "answer"), [(name, answer) for name in NAMES for answer in WRONG[name]])
def test_a_wrong_answer_is_not(name, answer):
    assert judged(name, answer)["correct"] is False


@for_each("name", NAMES)
def test_an_answer_of_another_kind_is_refused(name):
    for answer in ({}, {"kind": "linear"}, {**RIGHT[name][0], "surprise": 1}):
        with pytest.raises(BadMessage):
            judged(name, answer)


@for_each("name", NAMES)
def test_the_truth_is_known_of_its_own_people_only(name):
    scenario = small(name)
    others = people("parity-chooses-secret" if name != "parity-chooses-secret" else "select-then-estimate")
    with pytest.raises(BadScenario, match="the truth of this problem is known of"):
        scenario.problem.judge(RIGHT[name][0], scenario.alpha, others)


def test_a_head_says_what_is_missing_and_how_wrong_it_is():
    found = judged("blender", head([STRINGS[0], 1023], [SHARES[0] - 0.1, 0.05]))
    assert (found["missing"], found["listed"]) == (1, 2)
    assert found["worst_error"] == pytest.approx(0.1)
    assert found["root_mean_square_error"] == pytest.approx((0.0125 / 2) ** 0.5)


def test_errors_of_a_parity_and_a_threshold_are_shares_of_people():
    found = judged("parity-and-threshold", {"kind": "parity-and-threshold", "features": [0], "threshold": 36})
    # Half of all people, and those with 20 <= y < 36 of 64: six standard errors of 2^17 people.
    assert found["parity_error"] == pytest.approx(0.5, abs=0.009)
    assert found["threshold_error"] == pytest.approx(0.25, abs=0.008)
