"""What a learner does is what its event says: so many draws from mu, and noise of that size on a record's part."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.arrays import AnyArray
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import (
    Event,
    Gaussian,
    NonPrivate,
    PrivateSelection,
    Release,
    SubsampledRelease,
    SubsampledSteps,
)
from curator.learners.base import LEARNERS, learn_from, parse_learner
from curator.weights.reweighing import Reweighing
from tests.curator.learners.counted import CountingSampler
from tests.curator.learners.test_learner_contract import accepts
from tests.tiers import for_each

S = 1e-3
"""What is declared as the total variation of mu and mu': a release with it is one from draws."""
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 2}}
ALSO: dict[str, dict[str, Any]] = {
    "exponential conjunctions": {"name": "exponential", "hypotheses": "conjunctions", "draws": 70, "epsilon": 1.0},
    "model-agnostic on draws": {
        "name": "model-agnostic",
        "chunks": 20,
        "teacher": TREE,
        "student": TREE,
        "aggregation": {"name": "gnmax", "epsilon": 5.0, "delta": 1e-3},
        "queries": 30,
        "draws": 300,
    },
    "model-agnostic on everybody": {
        "name": "model-agnostic",
        "chunks": 20,
        "teacher": TREE,
        "student": TREE,
        "aggregation": {"name": "stability", "epsilon": 5.0, "delta": 1e-3},
        "queries": 30,
    },
    "sgd of many coordinates": {"name": "sgd", "steps": 1500, "noise": 2.0, "diameter": 2.0, "output": "last"},
    "sgd without noise": {"name": "sgd", "steps": 777, "noise": 0.0, "diameter": 2.0, "regularization": 0.1},
}
"""Other ways in which some of them learn."""
EXAMPLES = {
    f"{name} {place}": example.wire() for name, kind in LEARNERS.items() for place, example in enumerate(kind.example())
}
WAYS = {**EXAMPLES, **ALSO}
SHORT: dict[str, dict[str, Any]] = {"model-agnostic": {"queries": 50, "chunks": 20}, "sgd": {"steps": 1234}}
"""Less work than the examples are."""


def declared(event: Event, settings: dict[str, Any]) -> int:
    """Return how many draws from mu an event pays for: 0 if it is paid by replacing a record of the sample itself."""
    match event:
        case SubsampledSteps(count=count, tv_bound=tv_bound):
            assert tv_bound == S
            return count
        case Release() | Gaussian() | PrivateSelection():
            return 0
        case SubsampledRelease(draws=draws, tv_bound=tv_bound):
            assert tv_bound == S
            return draws
        case NonPrivate():  # pays for anything; it is to draw what its settings say
            return int(settings["steps" if "steps" in settings else "draws"])
    raise AssertionError(f"no rule for the event {event}")


@for_each("way", sorted(WAYS))
def test_draws_as_often_as_its_event_pays_for(way: str) -> None:
    learner = parse_learner({**WAYS[way], **(SHORT.get(WAYS[way]["name"], {}) if way in EXAMPLES else {})})
    features = np.random.default_rng(3).uniform(-1, 1, size=(600, 90 if "many" in way else 3)).astype(np.float32)
    if not accepts(lambda: learner.check(features.dtype, features.shape[1])):
        features = (features > 0.2).astype(np.uint8)
    records = Records(features, np.where(features[:, 0] > 0.2, 1, -1).astype(np.int8))
    public = records.take(np.arange(100))
    sampler = CountingSampler(records)
    learn_from(learner, sampler, RandomSource.seeded(1), None, public)
    wanted = declared(learner.event(S), learner.wire())
    assert sampler.drawn == wanted
    assert (sampler.passes > 0) == (wanted == 0)


def test_every_learner_that_draws_is_counted() -> None:
    assert {settings["name"] for settings in WAYS.values()} == set(LEARNERS.names())


# How far neighbours are apart, in units of the noise ------------------------------------------------------------------


def one_step(side: int, width: int, settings: dict[str, Any], runs: int) -> AnyArray:
    """Return what one step of SGD releases if the draw's gradient points that way, and is much longer than the clip."""
    features = np.full((50, width), 1e3, dtype=np.float32)
    features[:, ::2] *= -1.0  # the margin is 0 at the start
    records = Records(features, np.full(50, side, dtype=np.int8))
    learner = parse_learner(settings)
    sampler = Reweighing(50, None, 0.1).sampler(records)
    found = [learn_from(learner, sampler, RandomSource.seeded(run), None) for run in range(runs)]
    return np.array([h.wire()["weights"] for h in found])


@for_each(
    ("width", "noise", "clip"),
    [(2, 0.5, 1.0), (2, 2.0, 3.0), (2, 1000.0, 1.0), (80, 2.0, 0.5)],
    ids=["little noise", "noise", "fine grid", "single precision"],
)
def test_one_step_of_sgd_is_as_private_as_its_event_says(width: int, noise: float, clip: float) -> None:
    # From the middle of the box, in steps that are much shorter than it: no projection hides a part of the move.
    settings = {"name": "sgd", "steps": 1, "loss": "hinge", "intercept": 0.0, "output": "last", "domain": "box"}
    settings |= {"start": 0.5, "diameter": 1e-3, "noise": noise, "clip": clip}
    runs = 500 if width == 2 else 40
    plus, minus = (one_step(side, width, settings, runs) for side in (1, -1))
    apart = np.linalg.norm((plus - minus).mean(axis=0)) / math.sqrt(plus.var(axis=0).mean())
    event = parse_learner(settings).event(S)
    assert isinstance(event, SubsampledSteps)
    assert event.ratio >= 2.0 / noise
    assert apart == pytest.approx(event.ratio, rel=0.07)


@pytest.mark.parametrize("hypotheses", ["stumps", "conjunctions"])
def test_a_draw_changes_the_exponential_mechanisms_odds_by_half_its_epsilon(hypotheses: str) -> None:
    # One draw, on which half of the members are right: the others are e^(epsilon/2) times as rare.
    epsilon, runs = 1.5, 1500
    settings = {"name": "exponential", "hypotheses": hypotheses, "draws": 1, "epsilon": epsilon, "cells": 2}
    features = np.array([[1, 0]] * 9, dtype=np.uint8 if hypotheses == "conjunctions" else np.float32)
    records = Records(features, np.ones(9, dtype=np.int8))
    learner, sampler = parse_learner({**settings, "literals": 1}), Reweighing(9, None, 0.1).sampler(records)
    found = [learn_from(learner, sampler, RandomSource.seeded(run), None) for run in range(runs)]
    wrong = sum(int(h.mistakes(records)[0]) for h in found)
    assert math.log((runs - wrong) / wrong) == pytest.approx(epsilon / 2.0, abs=0.2)
