"""A failure is a release, too: no record may make an operation fail, or change what is computed of another record."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import numpy as np
import pytest

from common.core.arrays import AnyArray
from common.core.errors import BadData
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Conjunction, Constant, Stump
from common.local.hypotheses.trees import Trees
from common.local.losses import HypothesisLoss, Loss, count, grain
from common.local.queries.gradient import GradientQuery
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from, parse_learner
from curator.sample.base import LocalSample
from curator.weights.reweighing import Reweighing
from local_agent.answering import evaluate

pytestmark = pytest.mark.slow

N, WIDTH = 40, 6
GREATEST = float(np.finfo(np.float32).max)
EXTREMES = [(GREATEST,) * WIDTH, (-GREATEST, GREATEST) * (WIDTH // 2), (0.0,) * WIDTH, (1e-45,) * WIDTH]
SGD = {"name": "sgd", "steps": 200, "clip": 1.0, "noise": 0.5, "diameter": 2.0}
STUMPS = {"name": "exponential", "hypotheses": "stumps", "draws": 200, "epsilon": 1.0}
LOSSES = ("logistic", "hinge", "perceptron")
LEARNERS = [*({**SGD, "loss": loss, "regularization": weight} for loss in LOSSES for weight in (0, 1)), STUMPS]
HYPOTHESES = [
    Linear(weights=(1e30, -1e30) * (WIDTH // 2), threshold=1e30),
    Linear(weights=(1.0,) * WIDTH, threshold=0.5),
    Stump(feature=2, threshold=1e30, sign=1),
    Conjunction(features=(0, 5)),
    Trees(roots=(0,), feature=(1, -1, -1), threshold=(0.0, -1.0, 1e30), left=(1, -1, -1), right=(2, -1, -1)),
]


def sample(record: tuple[float, ...], n: int = N) -> Records:
    """Ordinary people, and one extreme record among them."""
    features = np.random.default_rng(0).normal(size=(n, WIDTH)).astype(np.float32)
    features[n // 2] = record
    return Records(features, np.where(np.arange(n) % 2, 1, -1).astype(np.int8)).check()


@pytest.mark.parametrize("settings", LEARNERS, ids=lambda settings: f"{settings['name']} {settings.get('loss', '')}")
@pytest.mark.parametrize("record", EXTREMES)
def test_no_record_makes_a_learner_fail(settings: dict[str, Any], record: tuple[float, ...]) -> None:
    records = sample(record)
    held, mistakes = LocalSample.of(records), np.zeros(N, dtype=np.uint8)
    mistakes[N // 2] = 8
    weights = Reweighing.restore(held, 0.26, 5.0, [HypothesisLoss(Constant(label=1))] * 8, [mistakes])
    learned = learn_from(parse_learner(settings), weights.sampler(held), RandomSource.seeded(1), None)
    assert set(learned.predict(records.features)) <= {-1, 1}


def test_bytes_that_are_not_boolean_are_refused_before_anything_is_drawn() -> None:
    # The exponential mechanism refuses them when it *draws* one: whether it fails would tell who is in the sample.
    features = np.ones((N, WIDTH), dtype=np.uint8)
    features[3] = 2
    with pytest.raises(BadData, match="1 of 40 records hold a feature above 1"):
        Records(features, np.ones(N, dtype=np.int8)).check()


@pytest.mark.parametrize("hypothesis", HYPOTHESES, ids=lambda hypothesis: hypothesis.kind)
def test_a_record_changes_no_other_records_loss(hypothesis: Hypothesis) -> None:
    for record, n, loss in product(EXTREMES, (1, 7, N, 5000), get_args(Loss)):
        before, after = (count(loss, hypothesis, sample(r, n)) for r in (EXTREMES[2], record))
        assert others(before) == others(after), (record, n, loss)
        assert after.max() <= grain(loss), (record, n, loss)


@pytest.mark.parametrize("record", EXTREMES)
@pytest.mark.parametrize("hypothesis", HYPOTHESES[:2])
def test_a_record_changes_no_other_persons_value(hypothesis: Linear, record: tuple[float, ...]) -> None:
    query = GradientQuery(hypothesis=hypothesis, bound=1e-300)
    slots = np.arange(N)
    before, after = (evaluate(query, sample(r), slots) for r in (EXTREMES[2], record))
    assert others(before) == others(after)
    assert 0.0 <= after.min() <= after.max() <= 1.0


def others(values: AnyArray) -> list[Any]:
    return np.delete(values, len(values) // 2).tolist()
