"""Plans of problems: numbers of docs/corrections.md, numbers that grow the right way, and sizes that are too small."""

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from common.core.errors import BadMessage, BadScenario
from common.protocols.base import PROBLEMS
from common.scenario.loading import load, shipped
from common.scenario.plan import planned_values, resolve_problem
from common.scenario.scenario import Scenario, parse
from deploy.checking import checked
from tests.support import ABOUT, small
from tests.tiers import for_each

NAMES = ABOUT


def coins(bias=0.1, **numbers):
    people = {"name": "biased-coins", "d": 1, "biased": [0], "rates": [0.5 + bias / 2]}
    return of("hypothesis-testing", people, f"problem.bias={bias}", **numbers)


def of(protocol, people, *overrides, **numbers):
    places = [f"{side}.distribution={json.dumps(people)}" for side in ("source", "target")]
    given = [f"{key.replace('__', '.')}={json.dumps(value)}" for key, value in numbers.items()]
    return load(protocol, [*places, *overrides, *given])


def secrets(c=4, shares=101, **numbers):
    people = {"name": "parity-chooses-secret", "c": c, "shares": shares, "secret": [0]}
    return of("parity-chooses-secret", people, f"problem.c={c}", f"problem.shares={shares}", **numbers)


def many(c=4, d=11, shares=101, **numbers):
    people = {"name": "one-of-many-parities", "c": c, "d": d, "shares": shares}
    sizes = [f"problem.c={c}", f"problem.d={d}", f"problem.shares={shares}"]
    return of("one-of-many-parities", people, *sizes, **{"agents__mechanism__epsilon": 1.0, **numbers})


def features(d=50, precise=0.02, **numbers):
    people = {"name": "biased-coins", "d": d, "biased": [0], "rates": [0.7]}
    return of("select-then-estimate", people, f"problem.d={d}", f"problem.precise={precise}", **numbers)


def items(bits=32, heavy=0.01, precise=0.004, most=64, **numbers):
    people = {"name": "zipf-items", "b": bits, "items": 100}
    sizes = [f"problem.bits={bits}", f"problem.heavy={heavy}", f"problem.precise={precise}", f"problem.most={most}"]
    return of("blender", people, *sizes, **numbers)


def planned(scenario: Scenario, name: str, paper: bool = False) -> float:
    return planned_values(scenario, scenario.problem, paper)[name].value


# Known answers -------------------------------------------------------------------------------------------------------


def test_plans_have_the_numbers_of_the_corrections():
    """Bias .1, epsilon 1, 95%: the plan's sides have half of the evidence each, z/sqrt 2; one alone has the whole z.

    docs/corrections.md takes 1/4 for the variance of a bit; it is 1/4 - shift^2, which spares two agents.
    """
    whole = float(ndtr(np.sqrt(2.0) * ndtri(0.05)))
    assert planned(coins(beta=whole), "agents") == pytest.approx(1267, abs=2)
    assert planned(coins(beta=whole), "n") == pytest.approx(277, abs=1)
    assert planned(secrets(beta=0.1), "agents") == pytest.approx(518_000, rel=0.001)
    assert planned(many(beta=0.1), "agents") == pytest.approx(9_700_000, rel=0.005)
    tight, printed = (planned(secrets(c=16, curator__learner__rule=rule), "n") for rule in ("tight", "paper"))
    assert printed > 2.0 * tight
    scenario = features(d=1000, alpha=0.1, precise=0.01)
    for side, most in (("n", 60.0), ("agents", 12.0)):
        assert 1.0 < planned(scenario, side) / planned(scenario, side, paper=True) < most


# The right way -------------------------------------------------------------------------------------------------------

GROWING = {
    "a smaller bias": ("n agents", coins(0.2), coins(0.1), 3.0),
    "a smaller beta of a decision": ("n agents", coins(beta=0.1), coins(beta=0.01), 2.0),
    "more shares": ("agents", secrets(shares=50), secrets(shares=100), 4.0),
    "less privacy for the agents": ("agents", secrets(agents__mechanism__epsilon=1.0), secrets(), 1.0),
    "longer secrets": ("n", secrets(c=4), secrets(c=12), 1.3),
    "people who do not answer": ("agents", secrets(), secrets(agents__dropout=0.5), 1.99),
    "more parities": ("agents", many(d=2), many(d=11), 1.2),
    "half of the people with an equation": ("n", secrets(c=8), many(c=8, curator__epsilon=1.0), 1.3),
    "less of the curator's epsilon": ("n", many(curator__epsilon=2.0), many(curator__epsilon=0.5), 2.5),
    "more features": ("n", features(d=10), features(d=1000), 1.2),
    "a finer selection": ("n", features(alpha=0.2), features(alpha=0.1), 3.0),
    "a finer estimate": ("agents", features(precise=0.02), features(precise=0.01), 3.99),
    "rarer items": ("n", items(heavy=0.02), items(heavy=0.01), 2.0),
    "longer items": ("n", items(bits=16), items(bits=64), 1.5),
    "finer shares": ("agents", items(precise=0.004), items(precise=0.002), 3.99),
    "longer lists": ("agents", items(most=16), items(most=256), 1.1),
}


@for_each("what", sorted(GROWING))
def test_it_takes_more_people(what):
    sides, less, more, factor = GROWING[what]
    for side in sides.split():
        assert planned(more, side) >= factor * planned(less, side)


@for_each("name", NAMES)
@for_each("paper", [False, True])
def test_plans_say_formula_and_source(name, paper):
    scenario = small(name)
    for key, figure in planned_values(scenario, scenario.problem, paper).items():
        assert figure.value > 0, key
        assert figure.formula
        assert figure.source


# Resolving -----------------------------------------------------------------------------------------------------------


@for_each("alone", [None, "curator", "agents"])
@for_each("name", NAMES)
def test_a_resolved_scenario_stays_as_it_is(name, alone):
    scenario = small(name, alone=alone)
    assert checked(scenario) == scenario
    assert resolve_problem(scenario, scenario.problem) is scenario
    assert "plan" not in json.dumps(scenario.curator.wire())


def test_the_curators_epsilon_is_divided_among_its_releases():
    assert small("select-then-estimate").curator.share == 1.0
    alone = small("select-then-estimate", alone="curator")
    assert alone.curator.rounds == 2
    assert alone.curator.share < 0.5 < alone.curator.share * (1 + 1e-12)


@for_each("name", NAMES)
@for_each("key", ["curator.n", "agents.count"])
def test_sizes_below_the_guarantee_are_refused_with_what_is_needed(name, key):
    needed = small(name)
    number = needed.curator.n if key == "curator.n" else needed.agents.count
    with pytest.raises(BadScenario, match=rf"{number - 1}\b.* is below the {number}\b"):
        small(name, f"{key}={number - 1}")
    assert small(name, f"{key}={number}") == needed


@for_each("name", NAMES)
def test_a_side_that_is_left_out_may_be_of_any_size(name):
    assert small(name, alone="curator").agents.count == 1  # who stands by
    assert small(name, alone="curator").curator.n == small(name).curator.n
    assert small(name, "agents.count=3", alone="curator").agents.count <= 3
    assert small(name, "curator.n=9", alone="agents").curator.n == 9


def test_every_problem_is_covered():
    assert PROBLEMS.names() == NAMES == sorted(RIGHT) == sorted(WRONG)
    assert set(PROBLEMS.names()) <= set(shipped())
    assert all(load(name).protocol == load(name).problem.name == name for name in PROBLEMS.names())


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


@for_each("name", NAMES)
def test_right_answers_are_told_from_wrong_ones_and_others_refused(name):
    assert [judged(name, answer)["correct"] for answer in RIGHT[name]] == [True] * len(RIGHT[name])
    assert [judged(name, answer)["correct"] for answer in WRONG[name]] == [False] * len(WRONG[name])
    for answer in ({}, {"kind": "linear"}, {**RIGHT[name][0], "surprise": 1}):
        with pytest.raises(BadMessage):
            judged(name, answer)
    scenario = small(name)
    others = people("parity-chooses-secret" if name != "parity-chooses-secret" else "select-then-estimate")
    with pytest.raises(BadScenario, match="the truth of this problem is known of"):
        scenario.problem.judge(RIGHT[name][0], scenario.alpha, others)


def test_what_is_wrong_with_an_answer_is_said_in_numbers():
    found = judged("blender", head([STRINGS[0], 1023], [SHARES[0] - 0.1, 0.05]))
    assert (found["missing"], found["listed"]) == (1, 2)
    assert found["worst_error"] == pytest.approx(0.1)
    assert found["root_mean_square_error"] == pytest.approx((0.0125 / 2) ** 0.5)
    found = judged("parity-and-threshold", {"kind": "parity-and-threshold", "features": [0], "threshold": 36})
    # Half of all people, and those with 20 <= y < 36 of 64: six standard errors of 2^17 people.
    assert found["parity_error"] == pytest.approx(0.5, abs=0.009)
    assert found["threshold_error"] == pytest.approx(0.25, abs=0.008)


COINS = "{name: biased-coins, d: 3, biased: [0], rates: [0.7]}"


@for_each("name", NAMES)
def test_a_protocol_without_its_problem_or_with_that_of_another(name):
    ball = "curator.learner={name: sgd, steps: 10, clip: 1, noise: 1, diameter: 1}"
    with pytest.raises(BadScenario, match=f"protocol {name} is about problem {name}, found none"):
        checked(load("ball", [f"protocol={name}", ball]))
    with pytest.raises(BadScenario, match=f"protocol subsample-test-reweigh is about problem none, found {name}"):
        small(name, "protocol=subsample-test-reweigh")
    other = NAMES[NAMES.index(name) - 1]
    with pytest.raises(BadScenario, match=f"protocol {other} is about problem {other}, found {name}"):
        small(name, f"protocol={other}")


def test_what_only_problems_may_leave_out_and_a_side_alone_without_a_problem():
    for key, words in (("divergence", "divergence: must be given"), ("learner", "give the name")):
        tree = load("ball").wire()
        del (tree if key in tree else tree["curator"])[key]
        with pytest.raises(BadScenario, match=words):
            parse(tree)
    with pytest.raises(BadScenario, match="alone is for scenarios with a problem"):
        load("ball", ["alone=curator"])


BESIDE = "leave them out beside a problem"
REFUSED = {
    "alone=referee": "alone",
    "problem.surprise=1": "surprise",
    "problem={name: halting}": r"no problem .*'halting'",
    "tasks=[{features: 1}]": BESIDE,
    "baselines=[optimum]": BESIDE,
    "curator.epsilon=null": "epsilon",
    **{f"beta={beta}": "beta" for beta in ("0", "0.5", "-1", "soon")},
    **{
        f"{side}.distribution={COINS}": rf"is about \d+ features, the {side} people have 3"
        for side in ("source", "target")
    },
}


@for_each("override", REFUSED)
@for_each("name", NAMES)
def test_what_no_problem_takes_is_refused(name, override):
    with pytest.raises(BadScenario, match=REFUSED[override]):
        small(name, override)


@for_each("name", NAMES)
def test_a_mechanism_that_cannot_say_the_answers(name):
    unfit = "krr" if load(name).agents.mechanism.name == "warner" else "warner"
    with pytest.raises(BadScenario, match=r"agents\.mechanism"):
        small(name, f"agents.mechanism={{name: {unfit}, epsilon: 1}}")


RANGES = {
    "blender": ["bits=65", "bits=7", "most=0", "heavy=0", "heavy=1", "precise=0", "precise=1"],
    "hypothesis-testing": ["bias=0", "bias=1", "bias=-0.1"],
    "one-of-many-parities": ["c=0", "c=129", "d=0", "d=13", "shares=1"],
    "parity-and-threshold": ["c=0", "c=129", "b=0", "b=53"],
    "parity-chooses-secret": ["c=0", "c=17", "shares=1", "shares=65537"],
    "parity-xor-threshold": ["c=0", "c=129", "b=0", "b=53", "blocks=1", "rule=loose"],
    "select-then-estimate": ["d=1", "d=65537", "precise=0", "precise=1"],
}


@for_each(("name", "wrong"), [(name, wrong) for name in NAMES for wrong in RANGES[name]])
def test_numbers_out_of_range_are_named(name, wrong):
    with pytest.raises(BadScenario, match=wrong.partition("=")[0]):
        small(name, f"problem.{wrong}")


@pytest.mark.parametrize("name", ["one-of-many-parities", "parity-chooses-secret"])
def test_a_setting_of_the_learner_that_no_plan_gives(name):
    with pytest.raises(BadScenario, match=r"curator\.learner\.rule"):
        small(name, "curator.learner.rule=plan")
    with pytest.raises(BadScenario, match="the paper's rule"):
        small(name, "curator.learner.rule=paper", "curator.epsilon=5")
    with pytest.raises(BadScenario, match="'tight' or 'paper', found 'printed'"):
        small(name, "curator.learner.rule=printed")
    with pytest.raises(BadScenario, match=r"curator\.learner"):
        small(name, "curator.learner=null")
