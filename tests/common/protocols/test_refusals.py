"""Scenarios whose problem does not fit are refused before anybody is asked, and say what would."""

from __future__ import annotations

import pytest

from common.core.errors import BadScenario
from common.protocols.base import PROBLEMS
from common.scenario.loading import load, shipped
from common.scenario.scenario import parse
from deploy.checking import checked
from tests.support import ABOUT, small
from tests.tiers import for_each

NAMES = ABOUT
COINS = "{name: biased-coins, d: 3, biased: [0], rates: [0.7]}"


def test_every_problem_has_a_scenario_of_its_name():
    assert set(PROBLEMS.names()) <= set(shipped())
    assert all(load(name).protocol == load(name).problem.name == name for name in PROBLEMS.names())


@for_each("side", ["source", "target"])
@for_each("name", NAMES)
def test_people_with_other_features_than_the_problem_is_about(name, side):
    with pytest.raises(BadScenario, match=rf"problem {name} is about \d+ features, the {side} people have 3"):
        small(name, f"{side}.distribution={COINS}")


@for_each("name", NAMES)
def test_a_protocol_without_its_problem(name):
    ball = "curator.learner={name: sgd, steps: 10, clip: 1, noise: 1, diameter: 1}"
    with pytest.raises(BadScenario, match=f"protocol {name} is about problem {name}, found none"):
        checked(load("ball", [f"protocol={name}", ball]))
    with pytest.raises(BadScenario, match=f"protocol subsample-test-reweigh is about problem none, found {name}"):
        small(name, "protocol=subsample-test-reweigh")


@for_each("name", NAMES)
def test_a_protocol_with_the_problem_of_another(name):
    other = NAMES[NAMES.index(name) - 1]
    with pytest.raises(BadScenario, match=f"protocol {other} is about problem {other}, found {name}"):
        small(name, f"protocol={other}")


@pytest.mark.parametrize(("key", "words"), [("divergence", "divergence: must be given"), ("learner", "give the name")])
def test_what_only_problems_may_leave_out(key, words):
    tree = load("ball").wire()
    del (tree if key in tree else tree["curator"])[key]
    with pytest.raises(BadScenario, match=words):
        parse(tree)


def test_a_side_alone_without_a_problem():
    with pytest.raises(BadScenario, match="alone is for scenarios with a problem"):
        load("ball", ["alone=curator"])


@for_each("name", NAMES)
class TestEveryProblem:
    def test_nobody_is_called_so(self, name):
        with pytest.raises(BadScenario, match="alone"):
            small(name, "alone=referee")

    def test_unknown_keys(self, name):
        with pytest.raises(BadScenario, match="surprise"):
            small(name, "problem.surprise=1")

    def test_unknown_problems(self, name):
        with pytest.raises(BadScenario, match=r"no problem .*'halting'"):
            small(name, "problem={name: halting}")

    @for_each("beside", ["tasks=[{features: 1}]", "baselines=[optimum]"])
    def test_what_is_about_hypotheses(self, name, beside):
        with pytest.raises(BadScenario, match="leave them out beside a problem"):
            small(name, beside)

    def test_a_curator_without_privacy(self, name):
        with pytest.raises(BadScenario, match="epsilon"):
            small(name, "curator.epsilon=null")

    def test_a_mechanism_that_cannot_say_the_answers(self, name):
        unfit = "krr" if load(name).agents.mechanism.name == "warner" else "warner"
        with pytest.raises(BadScenario, match=r"agents\.mechanism"):
            small(name, f"agents.mechanism={{name: {unfit}, epsilon: 1}}")

    @for_each("beta", ["0", "0.5", "-1", "soon"])
    def test_a_beta_that_is_no_probability_of_failing(self, name, beta):
        with pytest.raises(BadScenario, match="beta"):
            small(name, f"beta={beta}")


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
