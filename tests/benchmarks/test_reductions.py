"""The reductions of "The power of synergy", small: each finds what its claim says, and not without its idea."""

import json

import numpy as np
import pytest

from benchmarks.reductions import (
    all_parities,
    chooses,
    claim_4_3,
    claim_5_3,
    claim_c2,
    converted,
    lemma_5_5,
    main,
    selection,
    sized,
    with_shares_alone,
)
from common.local.hypotheses.rules import Parity, Stump
from common.local.records import Records

SEEDS = (1, 2, 3)


def test_a_selection_protocol_is_a_proper_learner_of_any_class() -> None:
    """Claim C.2. The concept that labels the records is right on all, and a bit is what its concept's error is of."""
    random = np.random.default_rng(0)
    x = random.random((500, 3)).astype(np.float32)
    concepts = [Stump(feature=j, threshold=0.4, sign=1) for j in range(3)]
    people = Records(x, concepts[1].predict(x))
    right = converted(people, concepts).features
    assert right[:, 1].all()
    np.testing.assert_allclose(1.0 - right.mean(axis=0), [concept.mistakes(people).mean() for concept in concepts])
    assert all(claim_c2(seed, bits=3)["right"] for seed in SEEDS)


def test_the_selection_it_begins_with_falls_short_by_alpha_on_average() -> None:
    """The premise, by the normal law at its worst: all other features are alpha below the best one."""
    scenario, alpha = selection(8, 0.2, 4.0), 0.2
    each, truth = scenario.agents.count // 8, scenario.agents.bit_mechanism.truth
    random = np.random.default_rng(1)
    means = np.array([0.5, *[0.5 - 1.01 * alpha] * 7])
    ones = random.binomial(each, 1.0 - truth + (2.0 * truth - 1.0) * means, (4000, 8))
    assert float((0.5 - means[ones.argmax(axis=1)]).mean()) <= alpha


def test_one_curator_finds_all_parities_by_a_protocol_that_finds_one_and_not_without_the_share_that_changes() -> None:
    assert all(claim_4_3(seed, c=2, d=1)["right"] for seed in SEEDS)
    budget = ("curator.learner.epsilon=6.0", "curator.rounds=2", "beta=0.025")
    scenario = sized("one-of-many-parities", {"c": 2, "d": 1}, *budget, epsilon=12.0)
    x = np.random.default_rng(1).integers(0, 2, (scenario.curator.n + scenario.agents.count, 2))
    people = np.concatenate([x, x], axis=1).astype(np.uint8)  # the two parities are the two features
    assert all_parities(scenario, people, 1) == [Parity(features=(0,)), Parity(features=(1,))]
    same = all_parities(scenario, people, 1, adaptive=False)
    assert same in ([Parity(features=(0,))] * 2, [Parity(features=(1,))] * 2)


def test_agents_with_shares_alone_need_the_curator_who_chooses_between_their_messages() -> None:
    """Claim 5.3. Without the choice nobody's message depends on r, and which secret is wanted is a guess."""
    # With probability 1 - 2 beta, the claim's.
    assert sum(claim_5_3(seed, c=2)["right"] for seed in range(1, 31)) >= 0.9 * 30
    scenario, agents = chooses(3)
    people = scenario.target.distribution
    assert people is not None
    volunteers = people.draw(1, np.arange(scenario.curator.n))
    holders = people.draw(2, np.arange(agents)).features
    assert with_shares_alone(scenario, volunteers, holders, 1)[0] == 0b100
    assert with_shares_alone(scenario, volunteers, holders, 1, chosen=False)[0] != 0b100


def test_messages_that_are_sent_once_tell_all_secrets() -> None:
    """Lemma 5.5: as many agents as its bound asks for, at least."""
    for seed in SEEDS:
        found = lemma_5_5(seed, c=2)
        assert found["right"]
        assert found["agents"] >= found["least"]


def test_it_prints_a_row_a_claim(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "5.3", "--runs", "1", "--json"])
    row = json.loads(capsys.readouterr().out)
    assert (row["claim"], row["right"], row["runs"]) == ("5.3", 1, 1)
