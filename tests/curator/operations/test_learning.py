"""Counts, selections and parities have the laws of their mechanisms; one person moves these by e^epsilon at most."""

from contextlib import nullcontext
from functools import cache
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario, PolicyRefused
from common.local.mechanisms.mechanism import Laplace
from common.local.records import Records
from common.operations.operation import Count, Learn, LearnParities, Select
from common.privacy.rounding import down
from common.privacy.theorems.randomized_response import rates
from curator.learners.base import CallSizes
from curator.operations import LearnHandler, Standing
from tests.curator.operations.given import assert_law, geometric, people, release
from tests.tiers import for_each, thinned

SAMPLE = people(np.arange(24).reshape(12, 2) % 3 == 0)
"""Either feature is 1 for four people of twelve."""


@for_each("epsilon", thinned([1.0, 0.3, 4.0], 1))
@for_each("feature", [0, 1])
def test_the_count_has_geometric_noise(feature, epsilon):
    truth = int(SAMPLE.features[:, feature].sum())
    noise = Laplace(epsilon=epsilon)
    found = [release(Count(feature=feature, epsilon=epsilon), SAMPLE, seed)["count"] - truth for seed in range(600)]
    assert_law(found, geometric(noise, 60))


class Judge:
    """Stands for a learner: keeps what it is asked, and refuses what it is told to."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.asked: list[Any] = []

    def check(self, dtype: Any, features: int) -> None:
        self.asked.append((dtype, features))
        if self.refuses == "view":
            raise BadScenario("such a view cannot be learned from")

    def check_noise(self, sizes: CallSizes) -> None:
        self.asked.append(sizes)
        if self.refuses == "noise":
            raise BadScenario("so much noise cannot be drawn")


@for_each("public", [None, 2])
@for_each(("refuses", "error", "asked"), [("", "", 2), ("view", "such a view", 1), ("noise", "so much noise", 2)])
def test_the_learner_is_asked_with_the_people_of_either_side_and_may_refuse(public, refuses, error, asked):
    learner, kind = Judge(refuses), np.dtype(np.float32)
    known = None if public is None else Records(np.zeros((public, 3), np.float32), np.ones(public, np.int8))
    standing = Standing(10, 3, kind, 1.0, learner, None, known, lambda weighing: None)
    with pytest.raises(PolicyRefused, match=error) if refuses else nullcontext():
        LearnHandler().check(Learn(round=1), standing)
    assert learner.asked == [(kind, 3), CallSizes(10, public or 0, 3, 4)][:asked]


SELECT_SAMPLE = people([[0, 1, 1, 0, 1], [0, 1, 0, 1, 0], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])


def law(records, first, count, epsilon):
    """Return the chance of each feature: e^{epsilon C_i/2}, normalized."""
    ones = records.features[:, first : first + count].sum(axis=0, dtype=np.float64)
    weights = np.exp(0.5 * epsilon * ones)
    return dict(zip(range(first, first + count), weights / weights.sum(), strict=True))


@for_each(("first", "count", "epsilon"), thinned([(0, 5, 1.0), (1, 3, 2.0), (2, 3, 0.1)], 1, several=True))
def test_a_feature_is_selected_as_often_as_the_exponential_mechanism_says(first, count, epsilon):
    operation = Select(first=first, count=count, epsilon=epsilon)
    found = [release(operation, SELECT_SAMPLE, seed)["feature"] for seed in range(1500)]
    assert_law(found, law(SELECT_SAMPLE, first, count, epsilon))


def test_neighbours_have_laws_within_e_to_the_epsilon_for_select():
    """All pairs of samples of two people with three features that differ in one person."""
    epsilon, largest = 1.0, 0.0
    rows = list(product([0, 1], repeat=3))
    for other, one, two in product(rows, repeat=3):
        laws = [law(people([other, row]), 0, 3, epsilon) for row in (one, two)]
        largest = max(largest, *(abs(np.log(laws[0][i] / laws[1][i])) for i in range(3)))
    assert 0.7 * epsilon < largest <= epsilon


BITS = 4


def learn(blocks, parts, epsilon, features=3, **more):
    return LearnParities(
        features=features, first=features, bits=BITS, blocks=blocks, parts=parts, epsilon=epsilon, **more
    )


def ranked(values, part, blocks, parts):
    """Return the places of each block's people: sorted by value, ties by place."""
    members = sorted(range(part, len(values), parts), key=lambda place: (values[place], place))
    cuts = [len(members) * block // blocks for block in range(blocks + 1)]
    return [members[begin:end] for begin, end in pairwise(cuts)]


def secrets_by_block(values, blocks, parts, seed):
    """Return people whose label is another parity of (x, 1) in each part's and block's people, and these parities."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 2, (len(values), 3))
    labels, secrets = np.zeros(len(values), dtype=int), []
    for part in range(parts):
        own = []
        for places in ranked(values, part, blocks, parts):
            secret = random.integers(0, 2, 4)
            labels[places] = (x[places] @ secret[:3] + secret[3]) % 2
            own.append(np.flatnonzero(secret).tolist())
        secrets.append(own)
    y = np.array(values)[:, None] >> np.arange(BITS - 1, -1, -1) & 1
    return people(np.concatenate([x, y], axis=1), labels), secrets


@for_each(("blocks", "parts"), [(1, 1), (4, 1), (1, 3), (4, 3), (3, 2)])
@for_each("ties", [False, True])
def test_with_much_privacy_to_spend_each_part_learns_the_parity_of_each_of_its_blocks(blocks, parts, ties):
    random = np.random.default_rng(blocks + 10 * parts)
    values = [5] * 600 if ties else random.integers(0, 16, 600).tolist()
    records, secrets = secrets_by_block(values, blocks, parts, seed=1)
    for cut in (0, 250):
        found = release(learn(blocks, parts, 100.0 * blocks), records, cut=cut)["parities"]
        assert found == secrets


def test_a_part_with_fewer_people_than_blocks_answers_for_all_blocks():
    records, _ = secrets_by_block([3, 1, 2], 1, 1, seed=0)
    found = release(learn(4, 2, 400.0), records)["parities"]
    assert [len(part) for part in found] == [4, 4]
    assert all(answer is not None for part in found for answer in part)


# The law of a block --------------------------------------------------------------------------------------------------


@cache
def parities_law(block, width, kept, answers):
    """Return the exact law of KLNRS on equations ((x, 1), label): every kept subset, every solution.

    Args:
        block: Tuple of (x, label), where x is a tuple of ``width`` bits.
    """
    chances = {None: 1.0 - answers}
    for size in range(len(block) + 1):
        for some in combinations(block, size):
            chance = answers * kept**size * (1.0 - kept) ** (len(block) - size)
            solutions = [
                point
                for point in product([0, 1], repeat=width + 1)
                if all((np.dot(point[:-1], x) + point[-1]) % 2 == label for x, label in some)
            ]
            for point in solutions:
                features = tuple(np.flatnonzero(point).tolist())
                chances[features] = chances.get(features, 0.0) + chance / len(solutions)  # type: ignore[call-overload]
            if not solutions:
                chances[None] += chance
    return chances


@for_each(
    ("rule", "blocks", "epsilon"), thinned([("tight", 2, 2.0), ("tight", 1, 1.0), ("paper", 2, 4.0)], 1, several=True)
)
def test_each_block_has_the_law_of_klnrs_at_its_share_of_epsilon(rule, blocks, epsilon):
    """Every part has the same three people a block, so that one release has a thousand independent answers a block."""
    given = [(((1,), 0), ((0,), 1), ((1,), 1)), (((1,), 1), ((1,), 1), ((0,), 0))][:blocks]
    rows = [(x[0], *(int(bit) for bit in f"{block:04b}")) for block in range(blocks) for x, _ in given[block]]
    labels = [label for block in given for _, label in block]
    parts = 1000
    records = people(np.repeat(rows, parts, axis=0), np.repeat(labels, parts))
    answers = [
        part
        for seed in range(2)
        for part in release(learn(blocks, parts, epsilon, features=1, rule=rule), records, seed)["parities"]
    ]
    share = rates(rule, epsilon / blocks)
    for block in range(blocks):
        found = [None if part[block] is None else tuple(part[block]) for part in answers]
        assert_law(found, parities_law(given[block], 1, *share))


# The theorem ---------------------------------------------------------------------------------------------------------


def largest_ratio(blocks, epsilon_of_a_block):
    """Return the largest log-ratio of the laws of all blocks together, over all neighbours of three people.

    A person is (x, y, label), a bit each. Blocks are independent given the sample: the largest ratio of products is the
    product of the largest ratios.
    """
    share = rates("tight", epsilon_of_a_block)
    kinds = list(product([0, 1], repeat=3))
    apart = {}

    def blocks_of(sample):
        return [
            tuple(sorted(((sample[place][0],), sample[place][2]) for place in places))
            for places in ranked([y for _, y, _ in sample], 0, blocks, 1)
        ]

    def between(one, two):
        if (one, two) not in apart:
            p, q = parities_law(one, 1, *share), parities_law(two, 1, *share)
            assert p.keys() == q.keys()
            apart[one, two] = max(np.log(p[answer] / q[answer]) for answer in p)
        return apart[one, two]

    largest = 0.0
    for sample in product(kinds, repeat=3):
        for place, other in product(range(3), kinds):
            neighbour = (*sample[:place], other, *sample[place + 1 :])
            largest = max(largest, sum(map(between, blocks_of(sample), blocks_of(neighbour))))
    return largest


@for_each("blocks", [1, 2, 3])
def test_neighbours_have_laws_within_e_to_the_epsilon_for_parities(blocks):
    """Replacing one person can change every block of ranks, by one person each."""
    share = 1.0 if blocks == 1 else down(1.0 / blocks)
    assert 0.9 < largest_ratio(blocks, share) <= 1.0 + 1e-12


def test_blocks_of_ranks_at_full_epsilon_each_would_cost_more():
    assert largest_ratio(2, 1.0) > 1.5
