"""Plans of problems: numbers of docs/corrections.md, numbers that grow the right way, and sizes that are too small."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from common.core.errors import BadScenario
from common.planning.plan import planned_values, resolve_problem
from common.protocols.base import PROBLEMS
from common.scenario.loading import load
from common.scenario.scenario import Scenario
from deploy.checking import checked
from tests.support import ABOUT, small
from tests.tiers import for_each

NAMES = ABOUT


def coins(bias=0.1, **numbers):
    people = {"name": "biased-coins", "d": 1, "biased": [0], "rates": [0.5 + bias / 2]}
    return of("hypothesis-testing", people, f"problem.bias={bias}", **numbers)


def of(protocol, people, *overrides, **numbers):
    """Return the shipped scenario about other people."""
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


def test_hypothesis_testing_takes_1267_agents_or_277_records_alone():
    """Bias .1, epsilon 1, 95%: the plan's sides have half of the evidence each, z/sqrt 2; one alone has the whole z.

    docs/corrections.md takes 1/4 for the variance of a bit; it is 1/4 - shift^2, which spares two agents.
    """
    whole = float(ndtr(np.sqrt(2.0) * ndtri(0.05)))
    assert planned(coins(beta=whole), "agents") == pytest.approx(1267, abs=2)
    assert planned(coins(beta=whole), "n") == pytest.approx(277, abs=1)


def test_parity_chooses_secret_takes_518_000_agents():
    """m = 100, epsilon 1: the whole beta = .05 is the agents' if half of .1 is."""
    assert planned(secrets(beta=0.1), "agents") == pytest.approx(518_000, rel=0.001)


def test_one_of_many_parities_takes_9_7_million_agents():
    assert planned(many(beta=0.1), "agents") == pytest.approx(9_700_000, rel=0.005)


def test_the_printed_rule_takes_far_more_records_than_the_tight_one():
    tight, printed = (planned(secrets(c=16, curator__learner__rule=rule), "n") for rule in ("tight", "paper"))
    assert printed > 2.0 * tight


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


def test_selecting_takes_the_papers_orders_of_magnitude():
    """log d/alpha^2 + log d/(epsilon alpha) people and 1/alpha'^2 agents; constants are ours."""
    scenario = features(d=1000, alpha=0.1, precise=0.01)
    for side, most in (("n", 60.0), ("agents", 12.0)):
        assert 1.0 < planned(scenario, side) / planned(scenario, side, paper=True) < most


# Resolving -----------------------------------------------------------------------------------------------------------


@for_each("alone", [None, "curator", "agents"])
@for_each("name", NAMES)
def test_a_resolved_scenario_stays_as_it_is(name, alone):
    scenario = small(name, alone=alone)
    assert checked(scenario) == scenario
    assert resolve_problem(scenario, scenario.problem) is scenario
    assert "plan" not in json.dumps(scenario.curator.wire())


@for_each("name", NAMES)
def test_the_curator_alone_has_one_agent_who_stands_by(name):
    assert small(name, alone="curator").agents.count == 1
    assert small(name, alone="curator").curator.n == small(name).curator.n


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
    assert small(name, "agents.count=3", alone="curator").agents.count <= 3
    assert small(name, "curator.n=9", alone="agents").curator.n == 9


def test_every_problem_is_covered():
    assert PROBLEMS.names() == NAMES
