"""What every registered learner must do: declare its event first, draw from mu only, and give data back.

Made on its own examples, so a new one is tested by being registered.
"""

import sys
from functools import cache

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.local.hypotheses.hypothesis import Hypothesis, parse_hypothesis
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy import sampling_error
from common.privacy.budget import cost
from common.privacy.events import (
    Gaussian,
    NoEvent,
    NonPrivate,
    PrivateSelection,
    SubsampledRelease,
    SubsampledSteps,
    parse_event,
)
from curator.learners.base import LEARNERS, Sizes, learn_from, parse_learner
from curator.numerics import gaussian_noise
from curator.weights.reweighing import Reweighing
from tests.contracts import examples, with_a_number_that_is_none
from tests.tiers import for_each


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
    """Return whether a check refuses nothing."""
    try:
        check()
    except BadScenario:
        return False
    return True


def learn(learner, label=threshold, previous=None):
    """Learn with the same randomness every time; return the people, too."""
    records, public = wanted(learner, label)
    draws = Reweighing(len(records), 0.5, 0.1).sampler(records)
    return learn_from(learner, draws, RandomSource.seeded(1), previous, public), records


def never(x):
    return np.zeros(len(x), dtype=bool)


def always(x):
    return np.ones(len(x), dtype=bool)


def counted(draw, drawn):
    def drawing(*arguments):
        numbers = draw(*arguments)
        drawn.append(np.size(numbers))
        return numbers

    return drawing


@for_each("learner", examples(LEARNERS))
class TestContract:
    def test_declares_an_event_that_can_be_stored_and_priced(self, learner):
        event = learner.event(1e-4)
        assert parse_event(event.wire()) == event
        assert not isinstance(event, NoEvent)
        assert np.isfinite(cost([(event, 1)], 1e-6)) != isinstance(event, NonPrivate)

    def test_the_sample_itself_is_for_learners_whose_event_says_so(self, learner):
        """Draws are amplified by the sampling bound; what looks at everybody must declare that it is 1."""
        event = learner.event(1e-4)
        if not isinstance(event, SubsampledSteps | SubsampledRelease):
            return
        assert event.tv_bound in (1e-4, 1.0)
        if event.tv_bound == 1.0:
            return
        records, public = wanted(learner)
        draws = Reweighing(len(records), 0.5, 0.1).sampler(records)
        draws.everybody = None  # type: ignore[assignment, method-assign]
        learned = learn_from(learner, draws, RandomSource.seeded(1), None, public, tv_bound=1e-4)
        assert isinstance(learned, Hypothesis)

    def test_learns_what_can_be_learned(self, learner):
        learned, records = learn(learner)
        assert learned.mistakes(records).mean() < 0.1

    def test_answer_is_data(self, learner):
        learned, _ = learn(learner)
        assert isinstance(learned, Hypothesis)
        assert parse_hypothesis(learned.wire()) == learned
        assert learner.can_give(learned)

    def test_the_same_source_gives_the_same_answer(self, learner):
        first, _ = learn(learner)
        assert learn(learner)[0] == first
        assert isinstance(learn(learner, previous=first)[0], Hypothesis)

    @for_each("label", [never, always])
    def test_a_sample_with_one_label_is_no_trouble(self, learner, label):
        learned, records = learn(learner, label)
        none = label is always and learned == Constant(label=-1)  # no hypothesis of its class is +1 everywhere
        assert none or learned.mistakes(records).mean() < 0.1

    def test_room_grows_with_the_people_if_at_all(self, learner):
        few, many = (learner.room(Sizes(n, 100, 3, 4)) for n in (1000, 1_000_000))
        assert 0 <= few <= many

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
        sizes = Sizes(len(records), 0 if public is None else len(public), records.dimension, records.features.itemsize)
        paid = learner.noise_numbers(sizes)
        times = event.law.most if isinstance(event, PrivateSelection) else getattr(event, "count", 1)
        assert sum(drawn) <= paid * times
        learner.check_noise(sizes)
        if isinstance(event, SubsampledSteps | Gaussian | PrivateSelection):
            assert drawn
            monkeypatch.setattr(sampling_error, "COORDINATES", paid - 1)
            monkeypatch.setattr(sampling_error, "NUMBERS", paid - 1)
            with pytest.raises(BadScenario, match="Nothing was charged"):
                learner.check_noise(sizes)

    def test_travels_as_settings(self, learner):
        assert parse_learner(learner.wire()) == learner

    def test_refuses_unknown_and_non_finite_settings(self, learner):
        for broken in ({**learner.wire(), "epsilom": 1.0}, *with_a_number_that_is_none(learner.wire())):
            with pytest.raises(BadInput):
                parse_learner(broken)


@for_each("settings", [None, {}, {"name": "oracle"}])
def test_unknown_learners_are_refused(settings):
    with pytest.raises(BadScenario, match="no learner has the name"):
        parse_learner(settings)


def test_conjunctions_refuse_numbers_before_anything_is_learned():
    learner = parse_learner({"name": "exponential", "hypotheses": "conjunctions", "draws": 10, "epsilon": 1.0})
    learner.check(np.dtype(np.uint8), 2)
    for dtype, dimension in ((np.float32, 5), (np.uint8, 1)):
        with pytest.raises(BadScenario, match="0/1 features"):
            learner.check(np.dtype(dtype), dimension)
