"""Plans of problems: numbers of docs/corrections.md, numbers that grow the right way, and sizes that are too small."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from common.core.errors import BadMessage, BadScenario, PatternViolation
from common.local.mechanisms.mechanism import Laplace
from common.numerics.randomness import RandomSource
from common.protocols.base import PROBLEMS
from common.protocols.frequencies import Blender, HypothesisTesting
from common.protocols.patterns import END, NOTHING, Pattern, agents, curator, many, maybe, sequence, some
from common.scenario.loading import load, shipped
from common.scenario.plan import planned_values, resolve
from common.scenario.scenario import Scenario, parse
from deploy.checking import checked
from tests.support import ABOUT, ALONE, small
from tests.tiers import for_each


def of(protocol, people, problem, **numbers):
    """Return a scenario about such a problem of such people; other keys have __ in the place of dots."""
    places = [f"{side}.distribution={json.dumps(people)}" for side in ("source", "target")]
    sizes = [f"problem.{key}={value}" for key, value in problem.items()]
    return load(
        protocol, [*places, *sizes, *(f"{key.replace('__', '.')}={json.dumps(numbers[key])}" for key in numbers)]
    )


def coins(bias=0.1, **numbers):
    people = {"name": "biased-coins", "d": 1, "biased": [0], "rates": [0.5 + bias / 2]}
    return of("hypothesis-testing", people, {"bias": bias}, **numbers)


def secrets(c=4, shares=101, **numbers):
    sizes = {"c": c, "shares": shares}
    return of("parity-chooses-secret", {"name": "parity-chooses-secret", **sizes, "secret": [0]}, sizes, **numbers)


def one_of_many(c=4, d=11, shares=101, agents__mechanism__epsilon=1.0, **numbers):
    sizes, epsilon = {"c": c, "d": d, "shares": shares}, {"agents__mechanism__epsilon": agents__mechanism__epsilon}
    return of("one-of-many-parities", {"name": "one-of-many-parities", **sizes}, sizes, **epsilon, **numbers)


def features(d=50, precise=0.02, **numbers):
    people = {"name": "biased-coins", "d": d, "biased": [0], "rates": [0.7]}
    return of("select-then-estimate", people, {"d": d, "precise": precise}, **numbers)


def items(bits=32, heavy=0.01, precise=0.004, most=64, **numbers):
    sizes = {"bits": bits, "heavy": heavy, "precise": precise, "most": most}
    return of("blender", {"name": "zipf-items", "b": bits, "items": 100}, sizes, **numbers)


def planned(scenario: Scenario, name: str, paper: bool = False) -> float:
    return planned_values(scenario, scenario.problem, paper)[name].value


def test_plans_have_the_numbers_of_the_corrections():
    """Bias .1, epsilon 1, 95%: the plan's sides have half of the evidence each, z/sqrt 2; one alone has the whole z.

    docs/corrections.md takes 1/4 for the variance of a bit; it is 1/4 - shift^2, which spares two agents.
    """
    whole = float(ndtr(np.sqrt(2.0) * ndtri(0.05)))
    assert planned(coins(beta=whole), "agents") == pytest.approx(1267, abs=2)
    assert planned(coins(beta=whole), "n") == pytest.approx(277, abs=1)
    assert planned(secrets(beta=0.1), "agents") == pytest.approx(518_000, rel=0.001)
    assert planned(one_of_many(beta=0.1), "agents") == pytest.approx(9_700_000, rel=0.005)
    tight, printed = (planned(secrets(c=16, curator__learner__rule=rule), "n") for rule in ("tight", "paper"))
    assert printed > 2.0 * tight
    scenario = features(d=1000, alpha=0.1, precise=0.01)
    for side, most in (("n", 60.0), ("agents", 12.0)):
        assert 1.0 < planned(scenario, side) / planned(scenario, side, paper=True) < most


GROWING = {
    "a smaller bias": ("n agents", coins(0.2), coins(0.1), 3.0),
    "a smaller beta of a decision": ("n agents", coins(beta=0.1), coins(beta=0.01), 2.0),
    "more shares": ("agents", secrets(shares=50), secrets(shares=100), 4.0),
    "less privacy for the agents": ("agents", secrets(agents__mechanism__epsilon=1.0), secrets(), 1.0),
    "longer secrets": ("n", secrets(c=4), secrets(c=12), 1.3),
    "people who do not answer": ("agents", secrets(), secrets(agents__dropout=0.5), 1.99),
    "more parities": ("agents", one_of_many(d=2), one_of_many(d=11), 1.2),
    "half of the people with an equation": ("n", secrets(c=8), one_of_many(c=8, curator__epsilon=1.0), 1.3),
    "less of the curator's epsilon": ("n", one_of_many(curator__epsilon=2.0), one_of_many(curator__epsilon=0.5), 2.5),
    "more features": ("n", features(d=10), features(d=1000), 1.2),
    "a finer selection": ("n", features(alpha=0.2), features(alpha=0.1), 3.0),
    "a finer estimate": ("agents", features(precise=0.02), features(precise=0.01), 3.99),
    "rarer items": ("n", items(heavy=0.02), items(heavy=0.01), 2.0),
    "longer items": ("n", items(bits=16), items(bits=64), 1.5),
    "finer shares": ("agents", items(precise=0.004), items(precise=0.002), 3.99),
    "longer lists": ("agents", items(most=16), items(most=256), 1.1),
}


@for_each(("sides", "less", "more", "factor"), GROWING.values(), ids=list(GROWING))
def test_it_takes_more_people(sides, less, more, factor):
    for side in sides.split():
        assert planned(more, side) >= factor * planned(less, side)


@for_each(("name", "alone"), [*((name, None) for name in ABOUT), *ALONE])
def test_a_resolved_scenario_stays_as_it_is_and_each_number_says_formula_and_source(name, alone):
    scenario = small(name, alone=alone)
    assert checked(scenario) == scenario
    assert resolve(scenario) is scenario
    assert "plan" not in json.dumps(scenario.curator.wire())
    for paper in (False, True):
        for key, figure in planned_values(scenario, scenario.problem, paper).items():
            assert figure.value > 0, key
            assert figure.formula
            assert figure.source


@for_each("dropout", [0.02, 0.3, 0.9])
def test_a_plan_has_agents_enough_for_its_answers_where_some_do_not_answer_but_once_in_a_million(dropout):
    answers = int(planned(coins(), "agents"))
    agents = int(planned(coins(agents__dropout=dropout), "agents"))
    assert binom.cdf(answers - 1, agents, 1.0 - dropout) <= 1e-6
    assert agents <= (answers + 30 + 10 * np.sqrt(answers)) / (1.0 - dropout)


def test_interaction_spares_people_at_a_smaller_error():
    rounds, at_once = load("parity-xor-threshold-rounds"), load("parity-xor-threshold")
    assert rounds.alpha < at_once.alpha / 4
    assert planned(rounds, "n") < planned(at_once, "n") / 20
    assert set(rounds.problem.wire()) - set(at_once.problem.wire()) == {"interactive"}
    assert planned(rounds.model_copy(update={"alpha": 0.1}), "agents") < planned(rounds, "agents") / 3.9


def test_the_curators_epsilon_is_divided_among_its_releases():
    assert small("select-then-estimate").curator.share == 1.0
    alone = small("select-then-estimate", alone="curator")
    assert alone.curator.rounds == 2
    assert alone.curator.share < 0.5 < alone.curator.share * (1 + 1e-12)


@for_each("name", ABOUT)
@for_each("key", ["curator.n", "agents.count"])
def test_sizes_below_the_guarantee_are_refused_with_what_is_needed(name, key):
    needed = small(name)
    number = needed.curator.n if key == "curator.n" else needed.agents.count
    if number == 1:
        return  # of the side that is never asked any number will do, and none is not possible
    with pytest.raises(BadScenario, match=rf"{number - 1}\b.* is below the {number}\b"):
        small(name, f"{key}={number - 1}")
    assert small(name, f"{key}={number}") == needed


@for_each("name", dict(ALONE))
def test_a_side_that_is_left_out_may_be_of_any_size(name):
    alone = small(name, alone="curator")
    assert (alone.agents.count, alone.curator.n) == (1, small(name).curator.n)  # one agent stands by
    assert small(name, "agents.count=3", alone="curator").agents.count <= 3
    assert small(name, "curator.n=9", alone="agents").curator.n == 9


def test_every_problem_is_covered():
    assert PROBLEMS.names() == ABOUT == sorted(RIGHT) == sorted(WRONG)
    assert set(PROBLEMS.names()) <= set(shipped())
    assert all(load(name).protocol == load(name).problem.name == name for name in PROBLEMS.names())


def people(name: str) -> Any:
    return small(name).target.distribution


def judged(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    scenario = small(name)
    return scenario.problem.judge(answer, scenario.alpha, scenario.target.distribution)


def head(items: list[int], shares: list[float]) -> dict[str, Any]:
    return {"kind": "head", "items": items, "shares": shares, "deviations": [0.1] * len(items)}


STRINGS, SHARES = (getattr(people("blender"), what).tolist() for what in ("strings", "shares"))
"""Shares are .48, .24, .16 and .12; at least .2 is heavy, and .15 precise."""
WHICH, PARITY = people("one-of-many-parities").target_index(), list(people("one-of-many-parities").parity(2))
BIT = people("parity-chooses-secret").bit(0b101)


def form(kind: str, *names: str) -> Callable[..., dict[str, Any]]:
    """Return what makes the JSON form of an answer from the values of its fields."""
    return lambda *values: {"kind": kind, **dict(zip(names, values, strict=True))}


parity = form("parity-and-threshold", "features", "threshold")
wanted = form("wanted", "which", "features")
secret = form("secret", "which", "bit")
selected = form("selected", "feature", "mean")


def pieces(*pieces: list[int] | None) -> dict[str, Any]:
    return {"kind": "parity-xor-threshold", "cuts": [20], "pieces": list(pieces)}


def means(*values: float) -> dict[str, Any]:
    answers = [{"value": value, "low": 0.0, "high": 1.0} for value in values]
    return {"kind": "query-answers", "answers": answers, "confidence": 0.95}


RIGHT: dict[str, list[dict[str, Any]]] = {
    "blender": [
        head(STRINGS, SHARES),
        head(STRINGS[:2], SHARES[:2]),
        head([*STRINGS[:2], 1023], [SHARES[0] - 0.14, SHARES[1] + 0.14, 0.1]),
    ],
    "hypothesis-testing": [{"kind": "decision", "world": 1}],
    "one-of-many-parities": [wanted(WHICH, PARITY)],
    "parity-and-threshold": [parity([1, 2], 20), parity([1, 2], 30)],
    "parity-chooses-secret": [secret(0b101, BIT)],
    "parity-xor-threshold": [pieces([1, 2], [1, 2, 4])],
    "select-then-estimate": [selected(3, 0.8), selected(3, 0.9)],
    "statistical-query": [means(0.25, 0.25), means(0.39, 0.11)],
}
WRONG: dict[str, list[dict[str, Any]]] = {
    "blender": [
        head([], []),
        head(STRINGS[1:], SHARES[1:]),
        head(STRINGS, [0.3, *SHARES[1:]]),
        head([*STRINGS, 1023], [*SHARES, 0.2]),
    ],
    "hypothesis-testing": [{"kind": "decision", "world": 0}],
    "one-of-many-parities": [wanted(WHICH ^ 1, PARITY), wanted(WHICH, [0, *PARITY]), wanted(WHICH, None)],
    "parity-and-threshold": [parity([1, 3], 20), parity(None, 20), parity([1, 2], 50)],
    "parity-chooses-secret": [secret(0b101, 1 - BIT), secret(0b100, BIT)],
    "parity-xor-threshold": [pieces([1, 2], [1, 2]), pieces([1, 2, 4], [1, 2]), pieces(None, None)],
    "select-then-estimate": [selected(3, 0.6), selected(7, 0.0)],
    "statistical-query": [means(0.25, 0.41), means(0.09, 0.25)],
}


NO_ANSWERS = {
    "select-then-estimate": [selected(10**6, 0.8)],
    "parity-xor-threshold": [{**pieces([1], [1]), "cuts": [cut]} for cut in (-1, 1 << 64)],
}


@for_each("name", ABOUT)
def test_right_answers_are_told_from_wrong_ones_and_others_refused(name):
    assert [judged(name, answer)["correct"] for answer in RIGHT[name]] == [True] * len(RIGHT[name])
    assert [judged(name, answer)["correct"] for answer in WRONG[name]] == [False] * len(WRONG[name])
    for answer in ({}, {"kind": "linear"}, {**RIGHT[name][0], "surprise": 1}, *NO_ANSWERS.get(name, [])):
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
    found = judged("parity-and-threshold", parity([0], 36))
    # Half of all people, and those with 20 <= y < 36 of 64: six standard errors of 2^17 people.
    assert found["parity_error"] == pytest.approx(0.5, abs=0.009)
    assert found["threshold_error"] == pytest.approx(0.25, abs=0.008)


COINS = "{name: biased-coins, d: 3, biased: [0], rates: [0.7]}"


def test_a_learner_that_only_problems_may_leave_out_and_a_side_alone_without_a_problem():
    tree = load("ball").wire()
    del tree["curator"]["learner"]
    with pytest.raises(BadScenario, match="give the name"):
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


@for_each("name", ABOUT)
def test_what_no_problem_takes_is_refused(name):
    other = ABOUT[ABOUT.index(name) - 1]
    unfit = "krr" if load(name).agents.mechanism.name == "warner" else "warner"
    for override, why in {
        **REFUSED,
        "protocol=subsample-test-reweigh": f"protocol subsample-test-reweigh is about problem none, found {name}",
        f"protocol={other}": f"protocol {other} is about problem {other}, found {name}",
        f"agents.mechanism={{name: {unfit}, epsilon: 1}}": r"agents\.mechanism",
    }.items():
        with pytest.raises(BadScenario, match=why):
            small(name, override)
    ball = "curator.learner={name: sgd, steps: 10, clip: 1, noise: 1, diameter: 1}"
    with pytest.raises(BadScenario, match=f"protocol {name} is about problem {name}, found none"):
        checked(load("ball", [f"protocol={name}", ball]))


RANGES = {
    "blender": ["bits=65", "bits=7", "most=0", "heavy=0", "heavy=1", "precise=0", "precise=1"],
    "hypothesis-testing": ["bias=0", "bias=1", "bias=-0.1"],
    "one-of-many-parities": ["c=0", "c=129", "d=0", "d=13", "shares=1"],
    "parity-and-threshold": ["c=0", "c=129", "b=0", "b=53"],
    "parity-chooses-secret": ["c=0", "c=17", "shares=1", "shares=65537"],
    "parity-xor-threshold": ["c=0", "c=129", "b=0", "b=53", "blocks=1", "rule=loose"],
    "select-then-estimate": ["d=1", "d=65537", "precise=0", "precise=1"],
    "statistical-query": ["d=0", "d=65537", "queries=[]", "queries=[{terms: [{weight: 2}]}]"],
}


LEARNER = {
    "rule=plan": r"curator\.learner\.rule",
    "rule=printed": "'tight' or 'paper', found 'printed'",
    "rule=paper": "the paper's rule",
}


@for_each("name", ABOUT)
def test_numbers_out_of_range_and_settings_that_no_plan_gives_are_named(name):
    for wrong in RANGES[name]:
        with pytest.raises(BadScenario, match=wrong.partition("=")[0]):
            small(name, f"problem.{wrong}")
    if name in ("one-of-many-parities", "parity-chooses-secret"):
        for rule, why in LEARNER.items():
            with pytest.raises(BadScenario, match=why):
                small(name, f"curator.learner.{rule}", "curator.epsilon=5")
        with pytest.raises(BadScenario, match=r"curator\.learner"):
            small(name, "curator.learner=null")


STR: Pattern = many(sequence(curator("learn"), some(agents("loss")), maybe(curator("reweigh"))))
LEARN, LOSS, REWEIGH = ("curator", "learn"), ("agents", "loss"), ("curator", "reweigh")

MESSAGES = {"l": LEARN, "a": LOSS, "r": REWEIGH, "x": ("agents", "reweigh"), "y": ("curator", "loss")}


@for_each(
    ("said", "legal", "may_end"),
    [("", "l", True), ("l", "a", False), ("la", "alr", True), ("laa", "alr", True), ("lar", "l", True)],
)
def test_subsample_test_reweigh_allows_exactly_these_messages(said, legal, may_end):
    state = STR
    for letter in said:
        state = state.after(MESSAGES[letter])
    assert state.may_end is may_end
    before = str(state), state.expected()
    for letter, message in MESSAGES.items():
        if letter in legal:
            state.after(message)
            continue
        with pytest.raises(PatternViolation, match="is not legal here; legal: '"):
            state.after(message)
        assert (str(state), state.expected()) == before


def test_an_end_too_early_says_what_is_missing_and_nothing_is_legal_after_it():
    with pytest.raises(PatternViolation, match="the protocol has ended"):
        curator("a").after(("curator", "a")).after(("curator", "a"))
    assert (str(NOTHING), str(END)) == ("nothing", "end")
    assert not NOTHING.may_end
    assert NOTHING.expected() == END.expected() == frozenset()
    with pytest.raises(PatternViolation, match="may not end here; expected: 'loss' to the agents"):
        STR.after(LEARN).end()
    STR.after(LEARN).after(LOSS).end()
    letter = curator("a")
    assert NOTHING + letter is letter + NOTHING is NOTHING
    assert END + letter is letter + END is letter
    assert NOTHING | letter is letter | NOTHING is letter | letter is letter
    assert not (many(NOTHING) + letter).may_end


LETTERS = {"a": ("curator", "a"), "b": ("curator", "b"), "c": ("agents", "a")}
EXPRESSIONS: st.SearchStrategy[tuple[Pattern, str]] = st.recursive(
    st.sampled_from([(curator("a"), "a"), (curator("b"), "b"), (agents("a"), "c"), (END, "")]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: (two[0][0] + two[1][0], f"(?:{two[0][1]}{two[1][1]})")),
        st.tuples(inner, inner).map(lambda two: (two[0][0] | two[1][0], f"(?:{two[0][1]}|{two[1][1]})")),
        inner.map(lambda one: (many(one[0]), f"(?:{one[1]})*")),
        inner.map(lambda one: (maybe(one[0]), f"(?:{one[1]})?")),
        inner.map(lambda one: (some(one[0]), f"(?:{one[1]})+")),
    ),
    max_leaves=6,
)


@settings(max_examples=300, derandomize=True)
@given(EXPRESSIONS, st.text("abc", max_size=6))
def test_patterns_accept_what_the_same_regular_expression_accepts(expression, word):
    pattern, regex = expression
    accepted: bool
    try:
        state = pattern
        for letter in word:
            state = state.after(LETTERS[letter])
        accepted = state.may_end
    except PatternViolation:
        accepted = False
    assert accepted is (re.fullmatch(regex, word) is not None)


@settings(max_examples=100, derandomize=True)
@given(EXPRESSIONS, st.text("abc", max_size=4))
def test_expected_names_exactly_the_legal_messages(expression, word):
    state = expression[0]
    for letter in word:
        party, kind = LETTERS[letter]
        if f"{kind!r} to the {party}" in state.expected():
            state = state.after((party, kind))
        else:
            with pytest.raises(PatternViolation):
                state.after((party, kind))


def test_a_long_run_keeps_the_pattern_small():
    state = STR
    for _ in range(200):
        for message in (LEARN, LOSS, LOSS, REWEIGH):
            state = state.after(message)
    assert len(str(state)) < 300


@for_each(
    "laws", [((1.0,), (1.0,)), ((0.5, 0.4), (0.4, 0.6)), ((0.5, 0.5), (0.5, 0.5)), ((0.5, 0.5), (0.2, 0.3, 0.5)), None]
)
def test_what_are_no_two_laws_is_refused(laws):
    with pytest.raises(ValueError, match=r"add up to 1|are the same|of the same values|give either|at least 2"):
        HypothesisTesting(laws=laws)


def test_the_set_that_is_counted_tells_two_laws_farther_apart_than_any_other_set():
    random = np.random.default_rng(1)
    for zero, one in (*random.dirichlet(np.ones(6), size=(20, 2)), ([0.2, 0.3, 0.5], [0.2, 0.5, 0.3])):
        problem = HypothesisTesting(laws=(tuple(zero), tuple(one)))
        apart = problem.chances[1] - problem.chances[0]
        subsets = (np.array([k >> x & 1 for x in range(len(zero))], bool) for k in range(1 << len(zero)))
        assert apart == pytest.approx(max(np.sum(np.subtract(one, zero)[inside]) for inside in subsets), rel=1e-12)


def test_a_coin_is_the_case_of_two_values():
    coin, laws = HypothesisTesting(bias=0.1), HypothesisTesting(laws=((0.55, 0.45), (0.45, 0.55)))
    assert laws.telling == (1,)
    for evidence in (lambda p: p.counted(70, 120, 1.0), lambda p: p.evidence_of_answers(300, 500, 0.73)):
        assert evidence(coin).model_dump() == pytest.approx(evidence(laws).model_dump(), rel=1e-12)


@for_each("world", [0, 1])
def test_two_laws_are_told_apart_as_often_as_planned(world):
    chosen = checked(load("two-laws"))
    problem, n, count = chosen.problem, chosen.curator.n, chosen.agents.count
    assert isinstance(problem, HypothesisTesting)
    truth, random, runs = chosen.agents.bit_mechanism.truth, np.random.default_rng(world), 4000
    chance = problem.chances[world]
    noise = Laplace(epsilon=1.0).noise(runs, RandomSource.seeded(world))
    counted = random.binomial(n, chance, runs) + noise
    told = random.binomial(count, 1 - truth + (2 * truth - 1) * chance, runs)
    scores = [
        problem.counted(int(c), n, 1.0).score + problem.evidence_of_answers(int(t), count, truth).score
        for c, t in zip(counted, told, strict=True)
    ]
    # By the normal law beta = .05, with the larger variance of both laws; four standard errors.
    assert np.mean((np.array(scores) > 0) != world) < 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs) + 0.01


def test_a_ranking_is_worth_what_its_gains_say_and_a_query_what_its_urls_do():
    truth = {1: 0.5, 2: 0.3, 3: 0.2}
    plain = Blender(bits=8, most=4, heavy=0.1, precise=0.1)
    assert plain.ndcg({1: 0.6, 2: 0.3}, truth) == 1.0
    half = 1.0 / math.log2(3.0)
    assert plain.ndcg({1: 0.1, 2: 0.3}, truth) == pytest.approx((0.3 + 0.5 * half) / (0.5 + 0.3 * half), rel=1e-12)
    assert (plain.ndcg({7: 1.0}, truth), plain.ndcg({}, truth)) == (0.0, 0.0)
    pairs = Blender(bits=8, most=4, heavy=0.1, precise=0.1, query=4)
    of_pairs = {0x11: 0.4, 0x12: 0.2, 0x21: 0.25, 0x22: 0.15}
    assert pairs.ndcg({0x11: 0.4, 0x12: 0.2, 0x21: 0.2}, of_pairs) == 1.0
    # The URLs of the first query stand in the wrong order, the queries in the right one.
    wrong = (0.2 + 0.4 * half) / (0.4 + 0.2 * half)
    told = pairs.ndcg({0x11: 0.1, 0x12: 0.5, 0x21: 0.2}, of_pairs)
    assert told == pytest.approx((0.6 * wrong + 0.4 * half) / (0.6 + 0.4 * half), rel=1e-12)
    with pytest.raises(ValueError, match="leave none of 8 for a URL"):
        Blender(bits=8, most=4, heavy=0.1, precise=0.1, query=8)
