"""Learners of rules: equations over F_2, the parities' law computed exactly, the exponential mechanism's counts."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from common.core.errors import BadData, BadInput, BadScenario
from common.local.hypotheses.rules import Conjunction, Parity, Stump
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.theorems.randomized_response import rates
from common.scenario.loading import load
from common.scenario.plan import resolve
from curator.learners.base import parse_learner
from curator.learners.rules import BOTTOM, Exponential, vote
from curator.mechanisms.parities import Equations
from curator.mechanisms.selection import _Conjunctions, _Stumps, _weights, choose_level
from tests.curator.given import Counted
from tests.curator.learners.given import learned
from tests.tiers import for_each, thinned


class EveryWord:
    """A source that gives one word again and again: all of them in turn are the law of a source of fair coins."""

    def __init__(self, word):
        self._word = word

    def words(self, count):
        return np.full(count, self._word, dtype=np.uint64)


def system(coefficients, values):
    equations = Equations(len(coefficients[0]))
    equations.add(np.asarray(coefficients, dtype=np.uint8), np.asarray(values, dtype=np.uint8))
    return equations


def plain_rank(rows):
    """Rank over F_2 with Python's integers."""
    basis: list[int] = []
    for row in rows:
        number = int("".join(map(str, row)), 2)
        for known in basis:
            number = min(number, number ^ known)
        basis += [number] * (number > 0)
    return len(basis)


@settings(max_examples=150)
@given(st.data())
def test_points_are_uniform_on_exactly_the_solutions(data):
    unknowns = data.draw(st.integers(1, 4))
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 1)] * (unknowns + 1)), min_size=1, max_size=6))
    table = np.array(rows, dtype=np.uint8)
    equations = system(table[:, :-1], table[:, -1])
    solutions = {a for a in product((0, 1), repeat=unknowns) if all((table[:, :-1] @ np.array(a)) % 2 == table[:, -1])}
    assert equations.consistent == bool(solutions)
    assert equations.rank == plain_rank(table[:, :-1].tolist())
    if solutions:
        drawn = Counter(tuple(equations.point(EveryWord(word)).tolist()) for word in range(1 << unknowns))
        assert set(drawn) == solutions
        assert len(set(drawn.values())) == 1
    else:
        with pytest.raises(BadInput, match="inconsistent"):
            equations.point(RandomSource.seeded(1))


@for_each("unknowns", [1, 2, 63, 64, 65, 127, 128, 200, 1024])
def test_every_width_finds_a_planted_secret(unknowns):
    generator = np.random.default_rng(unknowns)
    secret = generator.integers(0, 2, unknowns).astype(np.uint8)
    coefficients = generator.integers(0, 2, (unknowns + 40, unknowns)).astype(np.uint8)
    values = (coefficients @ secret % 2).astype(np.uint8)
    equations = system(coefficients, values)
    np.testing.assert_array_equal(equations.point(RandomSource.seeded(1)), secret)
    equations.add(coefficients[:1], 1 - values[:1])
    assert (equations.consistent, equations.rank) == (False, unknowns)


def test_neither_order_nor_pieces_change_the_point():
    generator = np.random.default_rng(2)
    coefficients = generator.integers(0, 2, (3000, 90)).astype(np.uint8)
    coefficients[:, 7] = 0
    values = (coefficients @ generator.integers(0, 2, 90) % 2).astype(np.uint8)
    whole, pieces = system(coefficients, values), Equations(90)
    for rows in np.array_split(generator.permutation(3000), 11):
        pieces.add(coefficients[rows], values[rows])
    assert whole.rank == pieces.rank == 89
    for seed in range(5):
        np.testing.assert_array_equal(*(system.point(RandomSource.seeded(seed)) for system in (whole, pieces)))


@for_each(("shape", "values", "says"), [((1, 3), 1, "2 unknowns"), ((1, 2), 2, "2 equations")])
def test_equations_that_do_not_fit_are_refused_and_change_nothing(shape, values, says):
    equations = system([[1, 0]], [1])
    with pytest.raises(BadInput, match=says):
        equations.add(np.ones(shape, dtype=np.uint8), np.ones(values, dtype=np.uint8))
    assert equations.rank == 1


def parity(**settings):
    return parse_learner({"name": "parity", "epsilon": 1.0} | settings)


def people(rows):
    """Records of rows (features..., parity bit)."""
    table = np.array(rows, dtype=np.uint8)
    return Records(np.ascontiguousarray(table[:, :-1]), np.where(table[:, -1] == 1, 1, -1).astype(np.int8))


def answers(chosen, records, seed=1, pieces=()):
    parts = [records.take(rows) for rows in np.split(np.arange(len(records)), pieces)]
    return chosen.mechanism(records.dimension).apply(iter(parts), RandomSource.seeded(seed))


@cache
def outcomes(records, dimension, uniform):
    """Return the law of the answer (a point's number, or bottom last) if exactly these records are kept."""
    law = np.zeros((1 << dimension) + 1)
    equations = Equations(dimension)
    if records:
        table = np.array(sorted(records), dtype=np.uint8)
        equations.add(table[:, :-1], table[:, -1])
    if not equations.consistent:
        law[-1] = 1.0
        return law
    words = range(1 << dimension) if uniform else [0]
    for word in words:
        law[int("".join(map(str, equations.point(EveryWord(word)))), 2)] += 1.0 / len(words)
    return law


def law(sample, dimension, kept, answers, uniform=True):
    """Return the exact law of one block's answer."""
    total = np.zeros((1 << dimension) + 1)
    for chosen in product((0, 1), repeat=len(sample)):
        weight = math.prod(kept if one else 1.0 - kept for one in chosen)
        held = frozenset(itertools.compress(sample, chosen))
        total += weight * outcomes(held, dimension, uniform)
    total *= answers
    total[-1] += 1.0 - answers
    return total


def worst(dimension, records, kept, answers, uniform=True):
    """Return the greatest log-ratio of the laws of any two neighbouring samples."""
    everyone = list(product((0, 1), repeat=dimension + 1))
    greatest = 0.0
    for others in combinations_with_replacement(everyone, records - 1):
        laws = np.array([law((*others, one), dimension, kept, answers, uniform) for one in everyone])
        with np.errstate(divide="ignore", invalid="ignore"):
            greatest = max(greatest, float(np.nanmax(laws[:, np.newaxis] / laws[np.newaxis])))
    return math.log(greatest)


@for_each(("dimension", "records"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)])
@for_each("epsilon", [0.25, 1.0, 3.0, 3.8])
def test_the_tight_rule_spends_exactly_epsilon_and_the_printed_one_less(dimension, records, epsilon):
    found = worst(dimension, records, *rates("tight", epsilon))
    assert found <= epsilon
    assert records > 1 or found == pytest.approx(epsilon, rel=1e-9)
    kept, answers = rates("paper", epsilon)
    assert worst(dimension, records, kept, answers) <= min(2.0 * math.atanh(kept) + 1e-12, epsilon * (1 - 1e-9))


def test_broken_twins_are_caught():
    """A record kept too often, bottom too rare, a point that is not uniform."""
    kept, answers = rates("tight", 1.0)
    assert worst(2, 2, kept, answers) <= 1.0
    for twin in ((1.02 * kept, answers), (kept, 1.0 - 0.95 * (1.0 - answers)), (kept, answers, False)):
        assert worst(2, 2, *twin) > 1.0 + 1e-3


@for_each(("rule", "epsilon"), [("paper", 3.9), ("paper", 4.0), ("tight", 0.0), ("tight", math.inf)])
def test_rates_that_do_not_exist_are_refused(rule, epsilon):
    with pytest.raises(BadInput):
        rates(rule, epsilon)
    with pytest.raises(BadScenario):
        parity(rule=rule, epsilon=epsilon)


@pytest.mark.parametrize("sample", thinned([[(1, 0, 1), (1, 1, 0), (0, 1, 1)], [(1, 0, 1), (1, 0, 0), (0, 0, 0)]], 1))
def test_answers_follow_the_law(sample):
    chosen, records, runs, counts = parity(), people(sample), 4000, np.zeros(5)
    for seed in range(runs):
        (answer,) = answers(chosen, records, seed)
        counts[-1 if answer is None else sum(2 >> j for j in answer)] += 1
    assert chisquare(counts, runs * law(tuple(sample), 2, *rates("tight", 1.0))).pvalue > 1e-6


def test_replacing_a_record_changes_its_own_block_only():
    table = np.random.default_rng(1).integers(0, 2, (36, 7))
    table[:, -1] = table[:, 2] ^ table[:, 4]
    chosen = parity(blocks=6, epsilon=8.0)
    before, touched = answers(chosen, people(table)), set()
    for place in range(len(table)):
        other = table.copy()
        other[place, -1] ^= 1
        after = answers(chosen, people(other))
        changed = {block for block in range(6) if before[block] != after[block]}
        assert changed <= {place % 6}
        touched |= changed
    assert len(touched) == 6


def test_pieces_of_any_size_give_the_same_answers():
    records, chosen = people(np.random.default_rng(2).integers(0, 2, (1000, 31))), parity(blocks=5, epsilon=0.1)
    whole = answers(chosen, records)
    assert answers(chosen, records, pieces=[1, 2, 300, 301, 900]) == whole
    assert any(answer is not None for answer in whole)


def test_the_vote_takes_the_most_frequent_answer_and_bottom_only_without_any():
    one, other = (1,), (0, 2)
    assert vote([None, one, other, other]) == Parity(features=other)
    assert vote([None, one, other]) == Parity(features=one)
    assert vote([None, None]) == BOTTOM


def test_the_shipped_scenario_misses_no_more_often_than_it_says():
    # Documents run it with whatever seed it draws, again where it misses: a rate beyond beta is seen only here.
    scenario = resolve(load("parity"))
    source, settings = scenario.source.distribution, scenario.curator.learner
    truth, n = Parity(features=tuple(source.secret)), scenario.curator.n

    def missed(chosen):
        return sum(learned(chosen, source.draw(seed, np.arange(n)), seed) != truth for seed in range(400))

    assert binom.sf(40, 400, scenario.beta) < 1e-4
    assert missed(parse_learner(settings)) <= 40
    assert missed(parse_learner(settings.model_copy(update={"blocks": 1}))) > 40, "a twin that asks one block"


def boolean(n=130, d=9):
    features = np.random.default_rng(1).integers(0, 2, size=(n, d)).astype(np.uint8)
    return Records(features, np.where(features[:, 2] & features[:, 5], 1, -1).astype(np.int8))


def real(n=130):
    features = np.random.default_rng(1).normal(size=(n, 3)).astype(np.float32)
    features[:20] = np.linspace(-1, 1, 9)[np.arange(20) % 9][:, np.newaxis]  # on the grid: ties
    return Records(features, np.where(features[:, 1] > 0.25, 1, -1).astype(np.int8))


@for_each("literals", [0, 1, 2, 3, 4, 5])
def test_every_member_of_a_class_is_counted_once_and_found_by_its_rank(literals):
    """Against brute force; 0 literals stand for stumps."""
    records, grid, members = boolean(d=6) if literals else real(), np.linspace(-1, 1, 9), list[Any]()
    if literals:
        members += [Conjunction(features=chosen) for chosen in itertools.combinations(range(6), literals)]
    else:
        stumps = product(range(3), grid.tolist(), (1, -1))
        members += [Stump(feature=j, threshold=t, sign=s) for j, t, s in stumps]
    scored: Any = _Conjunctions(records, literals) if literals else _Stumps(records, grid)
    mistakes = [int(member.mistakes(records).sum()) for member in members]
    people = scored.people()
    np.testing.assert_array_equal(people, np.bincount(mistakes, minlength=len(records) + 1))
    for count in set(mistakes):
        alike = [member for member, made in zip(members, mistakes, strict=True) if made == count]
        assert [scored.find(count, rank) for rank in range(people[count])] == alike


@for_each("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0, 700.0])
def test_weights_are_the_exponentials_to_thirty_digits(epsilon: float) -> None:
    weights = _weights(epsilon, 2000)
    with mpmath.workdps(80):
        for j in {0, 1, len(weights) // 2, len(weights) - 1}:
            exact = mpmath.exp(-mpmath.mpf(j) * mpmath.mpf(epsilon) / 2) * mpmath.mpf(2) ** 192
            wanted = max(exact, mpmath.mpf(2) ** 128)
            assert 0 <= weights[j] / wanted - 1 + mpmath.mpf(2) ** -100 < 1e-15 * epsilon * (j + 1)
    assert len(weights) == 2001 or weights[-1] == 1 << 128


@for_each("epsilon", [0.01, 1.0, 8.0])
def test_each_step_of_the_weights_costs_less_than_half_of_epsilon(epsilon: float) -> None:
    """With the slack for both roundings of a probability: pure epsilon-DP, not almost."""
    weights = _weights(epsilon, 5000)
    with mpmath.workdps(80):
        least = mpmath.exp(-mpmath.mpf(epsilon) / 2) * (1 + mpmath.mpf(2) ** -90)
        for heavier, lighter in pairwise(weights):
            assert least < mpmath.mpf(lighter) / heavier < 1


def test_words_are_consumed_alike_whatever_the_counts_are() -> None:
    for seed in range(20):
        people = np.zeros(301, dtype=np.int64)
        people[seed :: 1 + 7 * seed] = 1 + 10**seed % 1013
        drawn: list[int] = []
        choose_level(people, 1.0, Counted(bytes([seed] * 32), drawn))
        assert sum(drawn) == 9


def test_levels_far_behind_the_best_share_one_weight() -> None:
    """min(c, c_min + J) changes by at most one with each count, so the tail may be flat; here it is all the mass."""
    people = np.zeros(5001, dtype=np.int64)
    people[10], people[3000:3004] = 1, 1 << 60
    people[4000] = 1 << 61
    found = np.bincount([choose_level(people, 0.5, RandomSource.seeded(s)) for s in range(3000)], minlength=5001)
    weights = _weights(0.5, 5000)
    assert len(weights) < 200
    tail = Fraction(6 * (1 << 60) * weights[-1], 6 * (1 << 60) * weights[-1] + weights[0])
    assert found[10] == pytest.approx(3000 * float(1 - tail), abs=6 * 28)
    assert found[4000] == pytest.approx(2 * found[3000:3004].mean(), rel=0.2)


def test_conjunctions_of_other_features_or_too_many_are_refused():
    learner = Exponential(hypotheses="conjunctions", draws=20, epsilon=1.0)
    twos = Records(np.full((130, 3), 2, dtype=np.uint8), boolean().labels)
    for records in (real(), twos):
        with pytest.raises(BadData, match="want 0/1 features"):
            learned(learner, records, 1)
    with pytest.raises(BadData, match="want as many features"):
        _Conjunctions(boolean(d=6), 7)
    few, many = "0/1 features", "fewer literals"
    for kind, dimension, literals, says in ((np.float32, 5, 2, few), (np.uint8, 1, 2, few), (np.uint8, 1000, 4, many)):
        with pytest.raises(BadScenario, match=says):
            learner.model_copy(update={"literals": literals}).check(np.dtype(kind), dimension)
    learner.model_copy(update={"literals": 4}).check(np.dtype(np.uint8), 400)
