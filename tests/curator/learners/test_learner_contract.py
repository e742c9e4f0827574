"""What every registered learner must do: declare its event first, draw from mu only, and give data back.

Made on its own examples, so a new one is tested by being registered.
"""

import inspect
import math
import sys
import tracemalloc
from functools import cache
from typing import Any

import numpy as np
import pytest

from common.core import machine
from common.core.arrays import AnyArray
from common.core.errors import BadInput, BadScenario
from common.learners.base import parse_settings
from common.learners.scikit import ALLOWED, SEVERAL
from common.local.hypotheses.hypothesis import Hypothesis, parse_hypothesis
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Learn
from common.privacy import events
from common.privacy.accountants import grouped
from common.privacy.budget import cost
from curator.engine import Workspace
from curator.learners import networks
from curator.learners.base import LEARNERS, CallSizes, Learner, learn_from, parse_learner
from curator.learners.scikit import classifiers
from curator.mechanisms import gaussian_noise
from curator.mechanisms.access import Overdrawn
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from curator.startup import check_room, open_curator
from tests.contracts import ONLY, entries, examples, with_a_number_that_is_none
from tests.curator.learners.given import CountingSampler, drawn
from tests.curator.learners.given import learned as learned_by
from tests.curator.mechanisms.greedy import CHEATS, Honest
from tests.support import tiny
from tests.tiers import for_each, thinned


def threshold(x):
    return x[:, 0] > 0.2


@cache
def people(booleans, label=threshold, n=4000):
    """Return people whose label is a threshold of the first of three features, or 0/1 features, of which it is one."""
    features = np.random.default_rng(1).uniform(-1, 1, size=(n, 3)).astype(np.float32)
    features = (features > 0.2).astype(np.uint8) if booleans else features
    return Records(features, np.where(label(features), 1, -1).astype(np.int8))


def wanted(learner, label=threshold):
    """Return a sample that the learner accepts, and the public sample that it wants: some of the same people."""
    booleans = not accepts(lambda: learner.check(np.dtype(np.float32), 3))
    records = people(booleans, label)
    learner.check(records.features.dtype, records.dimension)
    learner.check_people(len(records))
    public = None if accepts(lambda: learner.check_public(None)) else records.take(np.arange(500))
    learner.check_public(public)
    return records, public


def accepts(check):
    try:
        check()
    except BadScenario:
        return False
    return True


def learn(learner, label=threshold, previous=None):
    """Learn with the same randomness every time; return the people, too."""
    records, public = wanted(learner, label)
    return learned_by(learner, records, 1, previous, public), records


ALL_ALIKE = (lambda x: np.zeros(len(x), dtype=bool), lambda x: np.ones(len(x), dtype=bool))


def counted(draw, drawn):
    def drawing(*arguments):
        numbers = draw(*arguments)
        drawn.append(np.size(numbers))
        return numbers

    return drawing


NOISY = events.SubsampledSteps | events.Gaussian | events.PrivateSelection


@for_each("learner", examples(LEARNERS))
class TestContract:
    def test_declares_an_event_that_can_be_stored_and_priced(self, learner):
        event = learner.event(1e-4)
        assert events.parse_event(event.wire()) == event
        assert not isinstance(event, events.NoEvent)
        assert np.isfinite(cost(grouped([event]), 1e-6)) != isinstance(event, events.NonPrivate)

    def test_learns_what_can_be_learned_the_same_again_and_gives_data(self, learner):
        learned, records = learn(learner)
        assert learned.mistakes(records).mean() < 0.1
        assert parse_hypothesis(learned.wire()) == learned == learn(learner)[0]
        assert learner.can_give(learned)
        assert isinstance(learn(learner, previous=learned)[0], Hypothesis)

    @for_each("positive", [False, True])
    def test_a_sample_with_one_label_is_no_trouble(self, learner, positive):
        learned, records = learn(learner, ALL_ALIKE[positive])
        none = positive and learned == Constant(label=-1)  # no hypothesis of its class is +1 everywhere
        assert none or learned.mistakes(records).mean() < 0.1

    def test_draws_no_more_numbers_of_noise_than_its_event_pays_for(self, learner, monkeypatch):
        """What is drawn is counted; and with one number less in a step or release, the call would be refused before."""
        drawn: list[int] = []
        for module in [module for name, module in sys.modules.items() if name.startswith("curator.")]:
            for name in ("normals", "fine_normals", "whole_normals"):
                if getattr(module, name, None) is getattr(gaussian_noise, name) and module is not gaussian_noise:
                    monkeypatch.setattr(module, name, counted(getattr(gaussian_noise, name), drawn))
        event = learner.event(1e-4)
        learn(learner)
        records, public = wanted(learner)
        sizes = CallSizes(
            len(records), 0 if public is None else len(public), records.dimension, records.features.itemsize
        )
        paid = learner.noise_numbers(sizes)
        parts = events.parts_of(event)
        times = [
            part.law.most if isinstance(part, events.PrivateSelection) else getattr(part, "count", 1) for part in parts
        ]
        assert sum(drawn) <= paid * sum(times)
        learner.check_noise(sizes)
        if paid and any(isinstance(part, NOISY) for part in parts):
            assert drawn
            monkeypatch.setattr(events, "COORDINATES", paid - 1)
            monkeypatch.setattr(events, "NUMBERS", paid - 1)
            with pytest.raises(BadScenario, match="Nothing was charged"):
                learner.check_noise(sizes)

    def test_travels_as_settings_of_which_unknown_and_non_finite_ones_are_refused(self, learner):
        assert parse_learner(learner.wire()) == learner
        for broken in ({**learner.wire(), "epsilom": 1.0}, *with_a_number_that_is_none(learner.wire())):
            with pytest.raises(BadInput):
                parse_learner(broken)


@for_each("settings", [None, {}, {"name": "oracle"}])
def test_unknown_learners_are_refused(settings):
    with pytest.raises(BadScenario, match="no learner has the name"):
        parse_learner(settings)


S = 1e-3
"""What is declared as the total variation of mu and mu': a release with it is one from draws."""
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 2}}
VOTING = {"name": "model-agnostic", "chunks": 20, "teacher": TREE, "student": TREE, "queries": 30}
BUDGET = {"epsilon": 5.0, "delta": 1e-3}
ALSO: dict[str, dict[str, Any]] = {
    "exponential conjunctions": {"name": "exponential", "hypotheses": "conjunctions", "draws": 70, "epsilon": 1.0},
    "model-agnostic on draws": {**VOTING, "aggregation": {"name": "gnmax", **BUDGET}, "draws": 300},
    "model-agnostic on everybody": {**VOTING, "aggregation": {"name": "stability", **BUDGET}},
    "sgd of many coordinates": {"name": "sgd", "steps": 1500, "noise": 2.0, "diameter": 2.0, "output": "last"},
    "sgd without noise": {"name": "sgd", "steps": 777, "noise": 0.0, "diameter": 2.0, "regularization": 0.1},
}
"""Other ways in which some of them learn."""
SHORT: dict[str, dict[str, Any]] = {"model-agnostic": {"queries": 50, "chunks": 20}, "sgd": {"steps": 1234}}
"""Less work than the examples are."""
WAYS = {
    f"{name} {place}": {**example.wire(), **SHORT.get(name, {})}
    for name, kind in entries(LEARNERS)
    for place, example in enumerate(kind.example())
} | ({} if ONLY else ALSO)


def six_hundred(way: str) -> tuple[Learner, Records, Records]:
    """Return a way's learner with 600 people that it can learn from, and some of them for a public sample."""
    learner = parse_learner(WAYS[way])
    features: Any = np.random.default_rng(3).uniform(-1, 1, size=(600, 90 if "many" in way else 3)).astype(np.float32)
    if not accepts(lambda: learner.check(features.dtype, features.shape[1])):
        features = (features > 0.2).astype(np.uint8)
    records = Records(features, np.where(features[:, 0] > 0.2, 1, -1).astype(np.int8))
    return learner, records, records.take(np.arange(100))


def declared(event: events.Event, settings: dict[str, Any]) -> int:
    """Return how many draws from mu an event pays for: 0 if it is paid by replacing a record of the sample itself."""
    match event:
        case events.SubsampledSteps(count=count, tv_bound=tv_bound):
            assert tv_bound == S
            return count
        case events.Release() | events.Gaussian() | events.PrivateSelection():
            return 0
        case events.SubsampledRelease(draws=draws, tv_bound=tv_bound):
            assert tv_bound == S
            return draws
        case events.NonPrivate():  # pays for anything; it is to draw what its settings say
            return int(settings["steps" if "steps" in settings else "draws"])
    raise AssertionError(f"no rule for the event {event}")


@for_each("way", sorted(WAYS))
def test_draws_as_often_as_its_event_pays_for(way: str) -> None:
    learner, records, public = six_hundred(way)
    sampler = CountingSampler(records)
    learn_from(learner, sampler, RandomSource.seeded(1), None, public)
    parts = [declared(part, learner.wire()) for part in events.parts_of(learner.event(S))]
    assert (sampler.drawn, sampler.passes > 0) == (sum(parts), 0 in parts)


PROMISING = sorted(way for way, wire in WAYS.items() if not isinstance(parse_learner(wire).event(S), events.NonPrivate))


def cheated(way: str, cheat: type[Honest] | None) -> Workspace:
    """Return a workspace whose learner is the way's, or a twin: its own code, with an access between that cheats."""
    learner, records, public = six_hundred(way)
    if cheat is not None:
        honest = type(learner).learned

        def learned(self: Any, access: Any, previous: Any, public: Any = None) -> Any:
            return honest(self, cheat(access), previous, public)

        twin: Any = type("Twin", (type(learner),), {"learned": learned})
        learner = twin.parse(learner.wire())
    return Workspace(LocalSample.from_records(records), Reweighing(600, 0.5, 0.1), learner, public=public)


def run(workspace: Workspace) -> Any:
    """Learn as the engine has it learned, by the event that the honest one is charged."""
    operation = Learn(round=1)
    return workspace.run(operation, workspace.event(operation), RandomSource.seeded(1))


@for_each("way", PROMISING)
def test_a_twin_that_asks_for_no_more_is_the_learner(way: str) -> None:
    assert run(cheated(way, Honest)) == run(cheated(way, None))


@for_each("cheat", thinned(CHEATS, 4), ids=lambda cheat: cheat.__name__)
@for_each("way", PROMISING)
def test_a_twin_that_asks_for_more_releases_nothing(way: str, cheat: type[Honest]) -> None:
    with pytest.raises(Overdrawn):
        run(cheated(way, cheat))


def one_step(side: int, width: int, settings: dict[str, Any], runs: int) -> AnyArray:
    """Return what one step of SGD releases if the draw's gradient points that way, and is much longer than the clip."""
    features = np.full((50, width), 1e3, dtype=np.float32)
    features[:, ::2] *= -1.0  # the margin is 0 at the start
    learner, draws = parse_learner(settings), drawn(Records(features, np.full(50, side, dtype=np.int8)))
    return np.array([learned_by(learner, draws, run).weights for run in range(runs)])


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
    assert isinstance(event, events.SubsampledSteps)
    assert event.ratio >= 2.0 / noise
    assert apart == pytest.approx(event.ratio, rel=0.07)


@for_each(("hypotheses", "kind"), [("stumps", np.float32), ("conjunctions", np.uint8)])
def test_a_draw_changes_the_exponential_mechanisms_odds_by_half_its_epsilon(hypotheses: str, kind: Any) -> None:
    # One draw, on which half of the members are right: the others are e^(epsilon/2) times as rare.
    epsilon, runs = 1.5, 1500
    settings = {"draws": 1, "epsilon": epsilon, "cells": 2, "literals": 1}
    learner = parse_learner({"name": "exponential", "hypotheses": hypotheses, **settings})
    records = Records(np.array([[1, 0]] * 9, dtype=kind), np.ones(9, dtype=np.int8))
    draws = drawn(records)
    wrong = sum(int(learned_by(learner, draws, run).mistakes(records)[0]) for run in range(runs))
    assert math.log((runs - wrong) / wrong) == pytest.approx(epsilon / 2.0, abs=0.2)


MANY: dict[str, Any] = {"name": "scikit", "draws": 100, "classifier": "VotingClassifier"}
TELLING = ("verbose", "n_jobs", "warm_start", "copy_X", "copy_X_train", "store_covariance", "store_cv_results")
ALSO_REFUSED = {"cache_size", "covariance_estimator", "interaction_cst", "kernel", "metric_params", "monotonic_cst"}
"""Beside these: memory of any size, and what takes objects of scikit-learn or tables."""
OPEN = sorted((name, what) for name, kind in classifiers().items() for what in inspect.signature(kind).parameters)
LOUD = [(name, what) for name, what in OPEN if what in TELLING and name not in SEVERAL]


def test_every_classifier_has_a_list_and_every_name_on_it_is_one_of_its_own() -> None:
    assert set(ALLOWED) == set(classifiers()) - set(SEVERAL)
    for name, allowed in ALLOWED.items():
        own = set(inspect.signature(classifiers()[name]).parameters)
        assert allowed <= own, name
        assert not allowed & set(TELLING)
        assert own - allowed <= {*TELLING, *ALSO_REFUSED}, name


@for_each(("name", "what"), LOUD)
def test_what_tells_of_records_is_refused_with_its_name_and_what_is_allowed(name: str, what: str) -> None:
    loud = {"classifier": name, "parameters": {what: 1}}
    one = next(iter(sorted(ALLOWED[name])))
    for settings in (
        {"name": "scikit", "draws": 100, **loud},
        {**VOTING, "teacher": loud, "aggregation": {"name": "gnmax", "noise": 4.0}},
        {**MANY, "parameters": {"estimators": [TREE, loud]}},
    ):
        for read in (parse_learner, parse_settings):  # by the curator, and by everybody else
            with pytest.raises(BadInput, match=rf"{name} may not be given '{what}'; allowed: .*\b{one}\b"):
                read(settings)


@for_each("value", [{"classifier": "print"}, {"__class__": "x"}, [[1]], ["print"]])
def test_arguments_are_data(value: Any) -> None:
    with pytest.raises(BadInput):
        parse_learner({**MANY, "classifier": "BaggingClassifier", "parameters": {"estimator": value}})


SMALL, AHEAD, BLOCK = 4 << 20, 32 << 20, 64 << 20
"""Bytes of blocks, whatever the sizes are; SGD has some of draws and noise ahead."""
N, D = 80_000, 24
ADAPTING: dict[str, Any] = {"features": D, "alpha": 0.5, "iterations": 2, "mu": 1.0, "norm": 5.0}
MANY_CHUNKS = {**VOTING, "chunks": 200, "aggregation": {"name": "gnmax", "noise": 60.0}}
CASES: dict[str, dict[str, Any]] = {
    "sgd": {"name": "sgd", "steps": 200_000, "diameter": 1.0, "clip": 1.0, "noise": 1.0},
    "discriminant": {"name": "discriminant", "mu": 1.0, "norm": 5.0},
    "full-batch": {"name": "full-batch", "mu": 1.0, "steps": 2},
    "parity": {"name": "parity", "epsilon": 1.0, "blocks": 2},
    "stumps": {"name": "exponential", "hypotheses": "stumps", "draws": 2 * N, "epsilon": 1.0},
    "conjunctions": {"name": "exponential", "hypotheses": "conjunctions", "draws": 2 * N, "epsilon": 1.0},
    "linear": {"name": "scikit", "classifier": "LogisticRegression", "draws": 2 * N},
    "tree": {"name": "scikit", **TREE, "draws": 2 * N},
    "svm": {"name": "svm", "draws": N},
    "svm at the minimum": {"name": "svm", "draws": N // 4, "until": "minimum"},
    "votes": {**MANY_CHUNKS, "queries": 1000},
    "many votes": {**MANY_CHUNKS, "queries": 20_000},
    "labels": {**MANY_CHUNKS, "queries": 1000, "protects": "labels"},
    "cnvx": {"name": "cnvx-adap", **ADAPTING},
    "ncnvx": {"name": "ncnvx-adap", **ADAPTING},
    "network": {"name": "network-adap", **ADAPTING, "hidden": 32},
    "chosen": {
        "name": "chosen", "learner": {"name": "cnvx-adap", "features": D, "alpha": 0.5, "iterations": 2, "norm": 5.0},
        "grid": {"alpha": [0.3, 0.7]}, "law": {"name": "negative-binomial", "eta": 1.0, "gamma": 0.5, "most": 2},
        "mu": 1.0,
    },
}  # fmt: skip
TRIED = {settings["name"] for settings in CASES.values()}
OTHERS = {name: kind.example()[0].wire() for name, kind in LEARNERS.items() if name not in TRIED}
"""Learners of plug-ins, which work with a block of 65,536 records at a time."""
CASES |= OTHERS


def room_people(count: int, bits: bool) -> Records:
    uniform = np.random.default_rng(count).random((count, D), dtype=np.float32)
    features = (uniform < 0.5).astype(np.uint8) if bits else uniform
    return Records(features, np.where(uniform[:, 0] + uniform[:, 1] > 1.0, 1, -1).astype(np.int8))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "public"),
    [
        *thinned(((case, N // 2) for case in CASES), 5, several=True, rest=pytest.mark.thorough),
        *((case, 4 * N) for case in ("cnvx", "chosen")),
        *(pytest.param(case, 4 * N, marks=pytest.mark.thorough) for case in ("ncnvx", "network")),
    ],
)
def test_no_call_takes_more_than_it_says(case, public, monkeypatch):
    monkeypatch.setattr(networks, "FIT_STEPS", 2)  # each of them takes the same memory
    learner = parse_learner(CASES[case])
    bits = case in ("parity", "conjunctions")
    size = 4 << 16 if case in OTHERS else N
    sample, others = LocalSample.from_records(room_people(size, bits)), room_people(public, bits)
    learner.check(sample.dtype, D)  # as a curator does: what is imported for it is no part of the call
    # Loops are compiled before, which takes ten times as long while it is traced.
    if case == "sgd":
        learned_by(CASES[case] | {"steps": 100}, sample, public=others)
    elif case == "network":
        learned_by(learner, room_people(9, bits), public=room_people(9, bits))
    tracemalloc.start()
    try:
        learned_by(learner, sample, public=others)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    stated = learner.room(CallSizes(size, public, D, 1 if bits else 4))
    assert taken <= stated + (AHEAD if case == "sgd" else BLOCK if case in OTHERS else SMALL)
    if not case.startswith("svm"):  # which holds few of its draws where most are far from the half-space
        assert stated <= 5 * taken + SMALL


def test_work_for_which_there_is_no_room_is_refused_before_any_work(tmp_path, monkeypatch):
    """The sample of 3,000 people fits anywhere, ten million draws do not."""
    learner = {"name": "scikit", **TREE, "draws": 10**7}
    chosen = tiny("curator.n=3000", "curator.epsilon=null", "curator.delta=null")
    chosen = chosen.model_copy(
        update={"curator": chosen.curator.model_copy(update={"learner": parse_settings(learner)})}
    )
    sizes = CallSizes(3000, 0, chosen.source.dimension, 4)
    enough = parse_learner(learner).room(sizes) + 3000 * (sizes.width + 1) + machine.SPARE
    monkeypatch.setattr(machine, "available_memory", lambda: enough)
    check_room(chosen, tmp_path)
    monkeypatch.setattr(machine, "available_memory", lambda: enough - 1)
    with pytest.raises(
        BadScenario, match=r"3,000 people of \d+ bytes, with 1\.\d GiB for the learner's work on it, needs"
    ):
        open_curator(chosen, tmp_path, 1, None)
    assert not list(tmp_path.iterdir())
