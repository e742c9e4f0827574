"""The exponential mechanism: exact counts, and the law exp(-epsilon mistakes / 2)."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from common.core.errors import BadData, BadScenario
from common.local.hypotheses.rules import Conjunction, Stump
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from
from curator.learners.exponential import Exponential
from curator.mechanisms.selection import _Conjunctions, _Stumps, choose_level
from curator.sample.reweighing import Reweighing
from tests.tiers import for_each


def boolean(n=130, d=9, seed=1):
    features = np.random.default_rng(seed).integers(0, 2, size=(n, d)).astype(np.uint8)
    return Records(features, np.where(features[:, 2] & features[:, 5], 1, -1).astype(np.int8))


def real(n=130, d=3, seed=1):
    features = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    features[:20] = np.linspace(-1, 1, 9)[np.arange(20) % 9][:, np.newaxis]  # on the grid: ties
    return Records(features, np.where(features[:, 1] > 0.25, 1, -1).astype(np.int8))


def every_member(records, hypotheses):
    """List the class by brute force."""
    d = records.dimension
    if hypotheses == "stumps":
        grid = np.linspace(-1, 1, 9)
        return [
            Stump(feature=j, threshold=t, sign=s) for j, t, s in itertools.product(range(d), grid.tolist(), (1, -1))
        ]
    return [
        Conjunction(features=pair) for pair in itertools.combinations(range(d), 1 if hypotheses == "singles" else 2)
    ]


CLASSES = {
    "pairs": (boolean(), lambda r: _Conjunctions(r, 2)),
    "singles": (boolean(n=64), lambda r: _Conjunctions(r, 1)),
    "stumps": (real(), lambda r: _Stumps(r, np.linspace(-1, 1, 9))),
}


@for_each("name", sorted(CLASSES))
def test_counts_agree_with_brute_force_and_every_member_can_be_found(name):
    records, build = CLASSES[name]
    members = every_member(records, name)
    mistakes = [int(member.mistakes(records).sum()) for member in members]
    scored: Any = build(records)
    people = scored.people()
    np.testing.assert_array_equal(people, np.bincount(mistakes, minlength=len(records) + 1))
    found = [scored.find(c, rank) for c in range(len(people)) for rank in range(people[c])]
    assert {str(f.wire()) for f in found} == {str(m.wire()) for m in members}
    assert all(f.mistakes(records).sum() == c for f, c in zip(found, sorted(mistakes), strict=True))


@pytest.mark.slow
def test_choice_follows_the_law():
    people = np.array([0, 2, 0, 7, 300, 0])
    acceptance_table = people * np.exp(-0.5 * 1.3 * np.arange(6))
    drawn = np.bincount([choose_level(people, 1.3, RandomSource.seeded(i)) for i in range(20_000)], minlength=6)
    kept = people > 0
    assert not drawn[~kept].any()
    assert chisquare(drawn[kept], 20_000 * acceptance_table[kept] / acceptance_table.sum()).pvalue > 1e-6


def test_choice_far_from_zero_does_not_underflow():
    people = np.zeros(10**6, dtype=np.int64)
    people[999_990] = 3
    assert choose_level(people, 50.0, RandomSource.seeded(1)) == 999_990


def test_utility_is_as_mcsherry_and_talwar_say():
    # With probability 1 - beta at most 2 ln(|H| / beta) / epsilon mistakes more than the best, here 0; beta = 1e-6.
    records = boolean(n=2000, d=30)
    learner = Exponential(hypotheses="conjunctions", draws=500, epsilon=0.8)
    sampler = Reweighing(2000, 0.5, 0.1).sampler(records)
    for seed in range(20):
        source = RandomSource.seeded(seed)
        learned = learn_from(learner, sampler, source, None)
        draws = sampler.draws(500, source.derive("draws"))
        assert learned.mistakes(draws).sum() <= 2 * np.log(30 * 29 / 2 / 1e-6) / 0.8


def test_conjunctions_of_other_features_are_refused():
    learner = Exponential(hypotheses="conjunctions", draws=20, epsilon=1.0)
    with pytest.raises(BadData, match="want 0/1 features"):
        learn_from(learner, Reweighing(130, 0.5, 0.1).sampler(real()), RandomSource.seeded(1), None)
    twos = Records(np.full((130, 3), 2, dtype=np.uint8), boolean().labels)
    with pytest.raises(BadData, match="want 0/1 features"):
        learn_from(learner, Reweighing(130, 0.5, 0.1).sampler(twos), RandomSource.seeded(1), None)
    mixed = boolean()
    mixed.features[7, 3] = 2
    with pytest.raises(BadData, match="want 0/1 features"):
        _Conjunctions(mixed, 2)
    with pytest.raises(BadData, match="want as many features"):
        _Conjunctions(boolean(d=6).take(np.arange(9)[:0]), 7)


@for_each("literals", [1, 2, 3, 4, 5])
def test_every_conjunction_is_counted_once_and_found_by_its_rank(literals):
    generator = np.random.default_rng(literals)
    features = generator.integers(0, 2, (70, 5), dtype=np.uint8)
    labels = np.where(features[:, 0] & features[:, 3] | (generator.random(70) < 0.1), 1, -1).astype(np.int8)
    scored = _Conjunctions(Records(features, labels), literals)
    every = [Conjunction(features=chosen) for chosen in itertools.combinations(range(5), literals)]
    mistakes = [int((h.predict(features) != labels).sum()) for h in every]
    people = scored.people()
    np.testing.assert_array_equal(people, np.bincount(mistakes, minlength=71))
    for count in set(mistakes):
        alike = [h for h, made in zip(every, mistakes, strict=True) if made == count]
        assert [scored.find(count, rank) for rank in range(people[count])] == alike


def test_too_many_conjunctions_are_refused_beforehand():
    learner = Exponential(hypotheses="conjunctions", draws=10, epsilon=1.0, literals=4)
    learner.check(np.dtype(np.uint8), 400)
    with pytest.raises(BadScenario, match="fewer literals"):
        learner.check(np.dtype(np.uint8), 1000)
