"""What every registered learner must do: declare its event first, draw from mu only, and give data back."""

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.numerics.randomness import RandomSource
from common.privacy.events import (
    Gaussian,
    NonPrivate,
    PrivateSelection,
    SubsampledRelease,
    SubsampledSteps,
    parse_event,
)
from common.vocabulary.hypotheses.base import Hypothesis, parse_hypothesis
from common.vocabulary.records import Records
from curator.learners.base import LEARNERS, parse_learner
from curator.weights.reweighing import Reweighing

VIEW = {"features": 3, "center": 0.0, "norm": 1.8, "radius": 3.0}
EXAMPLES = {
    "chosen": {
        "name": "chosen",
        "learner": {"name": "cnvx-adap", "iterations": 300, **VIEW},
        "grid": {"alpha": [0.3, 0.4]},
        "law": {"name": "negative-binomial", "gamma": 0.5, "most": 4},
        "mu": 2.0,
    },
    "cnvx-adap": {"name": "cnvx-adap", "alpha": 0.3, "mu": 2.0, "iterations": 300, **VIEW},
    "ncnvx-adap": {"name": "ncnvx-adap", "alpha": 0.3, "mu": 2.0, "iterations": 300, "output": "average", **VIEW},
    "sgd": {"name": "sgd", "steps": 20_000, "noise": 1.0, "diameter": 20.0},
    "exponential": {"name": "exponential", "hypotheses": "stumps", "draws": 2000, "epsilon": 1.0},
    "model-agnostic": {
        "name": "model-agnostic",
        "protects": "labels",
        "chunks": 50,
        "teacher": {"classifier": "DecisionTreeClassifier"},
        "student": {"classifier": "DecisionTreeClassifier"},
        "aggregation": {"name": "gnmax", "noise": 5.0},
        "queries": 1000,
    },
    "parity": {"name": "parity", "epsilon": 20.0},
    "scikit": {"name": "scikit", "classifier": "LogisticRegression", "draws": 2000},
    "svm": {"name": "svm", "draws": 2000},
}


BOOLEANS = ("parity",)
"""Those that want 0/1 features."""
ITSELF = ("parity",)
"""Those that see the sample itself, not draws from mu: what they cost does not depend on mu."""


PUBLIC = ("chosen", "cnvx-adap", "ncnvx-adap")
"""Those that want a public sample, too."""


def learn(name, draws, previous=None):
    """Learn with the same randomness every time; public people are some of the curator's, if there are any."""
    public = next(iter(draws.everybody())).take(np.arange(500)) if name in PUBLIC else None
    return parse_learner(EXAMPLES[name]).learn(draws, RandomSource.seeded(1), previous, public)


def sampler(name, label=lambda x: x[:, 0] > 0.2, n=4000):
    features = np.random.default_rng(1).uniform(-1, 1, size=(n, 3)).astype(np.float32)
    features = (features > 0.2).astype(np.uint8) if name in BOOLEANS else features
    records = Records(features, np.where(label(features), 1, -1).astype(np.int8))
    return Reweighing(n, 0.5, 0.1).sampler(records), records


def test_every_registered_learner_has_an_example_here():
    assert sorted(EXAMPLES) == LEARNERS.names()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
class TestContract:
    def test_declares_an_event_that_can_be_stored(self, name):
        event = parse_learner(EXAMPLES[name]).event(1e-4)
        assert parse_event(event.wire()) == event
        assert isinstance(event, NonPrivate | SubsampledSteps | SubsampledRelease | Gaussian | PrivateSelection)
        assert isinstance(event, NonPrivate | Gaussian | PrivateSelection) or event.sampling == (
            1.0 if name in ITSELF else 1e-4
        )

    def test_learns_what_can_be_learned(self, name):
        draws, records = sampler(name)
        learned = learn(name, draws)
        assert learned.mistakes(records).mean() < 0.1

    def test_answer_is_data(self, name):
        draws, _ = sampler(name)
        learned = learn(name, draws)
        assert isinstance(learned, Hypothesis)
        assert parse_hypothesis(learned.wire()) == learned

    def test_the_same_source_gives_the_same_answer(self, name):
        draws, _ = sampler(name)
        first = learn(name, draws)
        assert learn(name, draws) == first
        assert learn(name, draws, first) is not None

    @pytest.mark.parametrize("label", [-1, 1])
    def test_a_sample_with_one_label_is_no_trouble(self, name, label):
        draws, records = sampler(name, lambda x: np.full(len(x), label > 0))
        learned = learn(name, draws)
        never = name == "parity" and label == 1  # no parity is odd everywhere
        assert never or learned.mistakes(records).mean() < 0.1

    def test_refuses_unknown_settings(self, name):
        with pytest.raises(BadInput):
            parse_learner({**EXAMPLES[name], "epsilom": 1.0})


@pytest.mark.parametrize("settings", [None, {}, {"name": "oracle"}])
def test_unknown_learners_are_refused(settings):
    with pytest.raises(BadScenario, match="no learner has the name"):
        parse_learner(settings)


def test_conjunctions_refuse_numbers_before_anything_is_learned():
    learner = parse_learner({"name": "exponential", "hypotheses": "conjunctions", "draws": 10, "epsilon": 1.0})
    learner.check(np.dtype(np.uint8), 2)
    for dtype, dimension in ((np.float32, 5), (np.uint8, 1)):
        with pytest.raises(BadScenario, match="0/1 features"):
            learner.check(np.dtype(dtype), dimension)
