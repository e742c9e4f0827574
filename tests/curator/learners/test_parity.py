"""The parity learner: its law computed exactly, its blocks apart, its answers right as often as planned."""

import math
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from common.core.errors import BadInput, BadScenario
from common.data.distributions.base import parse_distribution
from common.local.hypotheses.rules import Parity
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.theorems.randomized_response import rates
from common.scenario.loading import load
from common.scenario.plan import resolve
from common.statistics import formulas
from curator.learners.base import learn_from, parse_learner
from curator.learners.parity import BOTTOM, vote
from curator.mechanisms.parities import Equations
from tests.curator.learners.test_svm import EveryWord
from tests.tiers import for_each, thinned

CASES = [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)]
"""Features and records of the samples that are gone through, all of them with all their neighbours."""


def learner(**settings):
    return parse_learner({"name": "parity", "epsilon": 1.0} | settings)


def people(rows):
    """Records of rows (features..., parity bit)."""
    table = np.array(rows, dtype=np.uint8)
    return Records(np.ascontiguousarray(table[:, :-1]), np.where(table[:, -1] == 1, 1, -1).astype(np.int8))


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
        point = equations.point(EveryWord(word))
        law[int("".join(map(str, point)), 2)] += 1.0 / len(words)
    return law


def law(sample, dimension, kept, answers, uniform=True):
    """Return the exact law of one block's answer."""
    total = np.zeros((1 << dimension) + 1)
    for chosen in product((0, 1), repeat=len(sample)):
        weight = math.prod(kept if one else 1.0 - kept for one in chosen)
        total += weight * outcomes(
            frozenset(r for r, one in zip(sample, chosen, strict=True) if one), dimension, uniform
        )
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
            ratios = laws[:, np.newaxis] / laws[np.newaxis]
        greatest = max(greatest, float(np.nanmax(ratios)))
    return math.log(greatest)


@for_each(("dimension", "records"), CASES)
@for_each("epsilon", [0.25, 1.0, 3.0, 3.8])
def test_the_tight_rule_spends_exactly_epsilon_and_the_printed_one_less(dimension, records, epsilon):
    found = worst(dimension, records, *rates("tight", epsilon))
    assert found <= epsilon
    assert records > 1 or found == pytest.approx(epsilon, rel=1e-9)
    kept, answers = rates("paper", epsilon)
    found = worst(dimension, records, kept, answers)
    assert found <= 2.0 * math.atanh(kept) + 1e-12
    assert found < epsilon


@for_each("twin", ["kept too often", "bottom too rare", "a point that is not uniform"])
def test_broken_twins_are_caught(twin):
    kept, answers = rates("tight", 1.0)
    broken = {
        "kept too often": (1.02 * kept, answers, True),
        "bottom too rare": (kept, 1.0 - 0.95 * (1.0 - answers), True),
        "a point that is not uniform": (kept, answers, False),
    }
    assert worst(2, 2, kept, answers) <= 1.0 < worst(2, 2, *broken[twin]) - 1e-3


@for_each(("rule", "epsilon"), [("paper", 3.9), ("paper", 4.0), ("tight", 0.0), ("tight", math.inf)])
def test_rates_that_do_not_exist_are_refused(rule, epsilon):
    with pytest.raises(BadInput):
        rates(rule, epsilon)
    with pytest.raises(BadScenario):
        learner(rule=rule, epsilon=epsilon)


@pytest.mark.parametrize("sample", thinned([[(1, 0, 1), (1, 1, 0), (0, 1, 1)], [(1, 0, 1), (1, 0, 0), (0, 0, 0)]], 1))
def test_answers_follow_the_law(sample):
    chosen, runs = learner(), 4000
    records = people(sample)
    counts = np.zeros(5)
    for seed in range(runs):
        (answer,) = chosen.mechanism(2).apply(iter([records]), RandomSource.seeded(seed))
        counts[-1 if answer is None else sum(2 >> j for j in answer)] += 1
    expected = law(tuple(sample), 2, *rates("tight", 1.0))
    assert chisquare(counts, runs * expected).pvalue > 1e-6


def test_replacing_a_record_changes_its_own_block_only():
    generator = np.random.default_rng(1)
    table = generator.integers(0, 2, (36, 7))
    table[:, -1] = table[:, 2] ^ table[:, 4]
    chosen = learner(blocks=6, epsilon=8.0)
    before = chosen.mechanism(6).apply(iter([people(table)]), RandomSource.seeded(3))
    touched = set()
    for place in range(len(table)):
        other = table.copy()
        other[place, -1] ^= 1
        after = chosen.mechanism(6).apply(iter([people(other)]), RandomSource.seeded(3))
        changed = {block for block in range(6) if before[block] != after[block]}
        assert changed <= {place % 6}
        touched |= changed
    assert len(touched) == 6


def test_pieces_of_any_size_give_the_same_answers():
    generator = np.random.default_rng(2)
    records = people(generator.integers(0, 2, (1000, 31)))
    chosen = learner(blocks=5, epsilon=0.1)
    whole = chosen.mechanism(30).apply(iter([records]), RandomSource.seeded(1))
    pieces = [records.take(rows) for rows in np.split(np.arange(1000), [1, 2, 300, 301, 900])]
    assert chosen.mechanism(30).apply(iter(pieces), RandomSource.seeded(1)) == whole
    assert any(answer is not None for answer in whole)


class Sample:
    """What the learner sees of a curator's sample."""

    def __init__(self, records):
        self.dimension = records.dimension
        self._records = records

    def everybody(self):
        return iter([self._records])


def test_the_vote_takes_the_most_frequent_answer_and_bottom_only_without_any():
    one, other = (1,), (0, 2)
    assert vote([None, one, other, other]) == Parity(features=other)
    assert vote([None, one, other]) == Parity(features=one)
    assert vote([None, None]) == BOTTOM


def test_the_truth_comes_out_as_often_as_planned():
    # 200 runs of a plan for 0.9: 158 or fewer have a chance below 1e-5 at that rate.
    shape = {"name": "biased-parity", "side": "source", "d": 20, "secret": [2, 3, 19], "biased": 1, "rate": 0.0669873}
    source, beta = parse_distribution(shape), 0.1
    kept, answers = rates("tight", 1.0)
    acceptance_table = kept * formulas.escapes(20, source.chi_squared(), source.supremum())  # type: ignore[attr-defined]
    count, rows = formulas.blocks(acceptance_table, 1.0 - answers, beta)
    chosen, truth = learner(blocks=count), Parity(features=(2, 3, 19))
    right = sum(
        learn_from(chosen, Sample(source.draw(seed, np.arange(count * rows))), RandomSource.seeded(seed), None) == truth
        for seed in range(200)
    )
    assert binom.cdf(158, 200, 1.0 - beta) < 1e-5
    assert right > 158


def test_the_shipped_scenario_misses_no_more_often_than_it_says():
    # Documents run it with whatever seed it draws, again where it misses: a rate beyond beta is seen only here.
    scenario = resolve(load("parity"))
    source, settings = scenario.source.distribution, scenario.curator.learner
    truth = Parity(features=tuple(source.secret))

    def missed(chosen):
        samples = (Sample(source.draw(seed, np.arange(scenario.curator.n))) for seed in range(400))
        return sum(
            learn_from(chosen, sample, RandomSource.seeded(seed), None) != truth for seed, sample in enumerate(samples)
        )

    assert binom.sf(40, 400, scenario.beta) < 1e-4
    assert missed(parse_learner(settings)) <= 40
    assert missed(parse_learner(settings.model_copy(update={"blocks": 1}))) > 40, "a twin that asks one block"
