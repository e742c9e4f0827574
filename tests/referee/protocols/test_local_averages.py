"""Local averages: no question depends on an answer, estimates have the stated variance, Fisher's discriminant."""

import numpy as np
import pytest

from common.core.errors import BadScenario, PatternViolation
from common.local.answers import Answers
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.moment import MomentQuery
from common.local.records import Records
from common.numerics.randomness import RandomSource
from referee.protocols.base import PROTOCOLS
from referee.protocols.local import averages, discriminant
from tests.referee.protocols.test_protocol_contract import World, play
from tests.support import Bench, tiny

NAME = "local-averages"
QUERY = MomentQuery(dimension=2, bound=1.0, norm=1.5)
WARNER = parse_mechanism({"name": "warner", "epsilon": 1.0})


def two_balls(n, share, seed=0, apart=0.4, sigma=0.1):
    """Two round Gaussian classes, ``apart`` from each other along the first coordinate."""
    random = np.random.default_rng(seed)
    labels = np.where(random.random(n) < share, 1, -1)
    features = random.normal(0.0, sigma, (n, 2)) + 0.1
    features[:, 0] += 0.5 * apart * labels
    return Records(features.astype(np.float32), labels.astype(np.int8))


def told(records, mechanism, seed=1):
    slots = np.arange(len(records))
    return Answers(len(records), mechanism.randomize(QUERY.evaluate(records, slots), RandomSource.seeded(seed)), slots)


def exact(records):
    x, label = records.features.astype(np.float64), records.labels.astype(np.float64)
    return np.array([*x.mean(0), *(label[:, None] * x).mean(0), label.mean(), np.square(x).sum(1).mean()])


def test_no_question_depends_on_an_answer():
    chosen = tiny(f"protocol={NAME}")
    questions = []
    for rate in (0.0, 0.3, 1.0):
        world = World(chosen, rate)
        play(NAME, chosen, world)
        questions.append(world.log[0][1])
    assert questions[0] == questions[1] == questions[2]


def test_the_pattern_admits_one_question_to_learn_from():
    pattern = PROTOCOLS[NAME].pattern
    with pytest.raises(PatternViolation):
        pattern.after("agents", "moment").after("agents", "moment")
    with pytest.raises(PatternViolation):
        pattern.after("agents", "loss")
    with pytest.raises(PatternViolation):
        pattern.after("curator", "learn")


def test_averages_are_unbiased_and_have_the_stated_variance():
    records = two_balls(6000, 0.7)
    truth = exact(records)
    runs = [averages(QUERY, told(two_balls(6000, 0.7, seed), WARNER, seed), WARNER) for seed in range(300)]
    found, stated = np.array([run[0] for run in runs]), np.array([run[1] for run in runs]).mean(axis=0)
    # Six moments at four standard errors, and variances whose ratio has standard deviation sqrt(2/299) = .08.
    np.testing.assert_array_less(np.abs(found.mean(0) - truth), 4.0 * np.sqrt(stated / 300) + 0.01)
    np.testing.assert_allclose(found.var(axis=0) / stated, 1.0, atol=0.35)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_the_discriminant_is_the_best_half_space_of_two_round_gaussians(share):
    records = two_balls(200_000, share)
    found = discriminant(exact(records), np.zeros(6))
    # Where share N(x; .3, .1^2) equals (1 - share) N(x; -.1, .1^2), worked out by hand.
    crossing = 0.1 - 0.01 / 0.4 * np.log(share / (1.0 - share))
    weights = np.array(found.weights)
    assert found.threshold / weights[0] == pytest.approx(crossing, abs=0.002)
    assert abs(weights[1] / weights[0]) < 0.01


def test_with_enough_answers_it_comes_close_to_the_best():
    records = two_balls(60_000, 0.7)
    found = discriminant(*averages(QUERY, told(records, WARNER), WARNER))
    # The best half-space misses about 2.1%.
    assert found.mistakes(two_balls(100_000, 0.7, seed=9)).mean() < 0.06


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_too_few_answers_give_the_more_frequent_label_and_not_noise(share):
    records = two_balls(200_000, share, apart=0.0)
    others = two_balls(2000, share, seed=9, apart=0.0)
    losses = []
    for k in range(40):
        part = records.take(np.arange(600 * k, 600 * (k + 1)))
        losses.append(discriminant(*averages(QUERY, told(part, WARNER, k), WARNER)).mistakes(others).mean())
    # Features say nothing here, so 0.1 is the best there is; noise alone would give 0.5.
    assert np.median(losses) == pytest.approx(0.1, abs=0.02)


def test_nobody_answering_is_no_error():
    nobody = Answers(0, np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64))
    means, variances = averages(QUERY, nobody, WARNER)
    assert np.all(means == 0.0)
    assert np.all(variances > 0.0)
    assert discriminant(means, variances).threshold == 0.0


@pytest.mark.parametrize(
    ("overrides", "words"),
    [(["target.distribution.norm=null", "source.distribution.norm=null"], "norm"), (["agents.count=1"], "found 1")],
)
def test_what_it_cannot_work_with_is_refused_before_anybody_is_asked(overrides, words):
    chosen = tiny(f"protocol={NAME}", *overrides)
    world = World(chosen, 0.5)
    with pytest.raises(BadScenario, match=words):
        play(NAME, chosen, world)
    assert world.log == []


def test_a_run_asks_each_agent_once_and_no_curator(tmp_path):
    with Bench(tmp_path, tiny(f"protocol={NAME}")) as bench:
        result = bench.run()
    assert (result["status"], result["iterations"]) == ("exhausted", 1)
    assert result["agents"]["asked"] == 6000
    assert result["answer"]["kind"] == "linear"
