"""Settings of learners: what may be left open, what a settled one has none of, and the JSON form that is kept."""

import json
from typing import Any

import pytest

from common.core.errors import BadScenario
from common.core.values import left_open, may_be_open
from common.learners.base import SETTINGS, LearnerSettings, OpenSettings, open_form, parse_settings
from common.learners.half_spaces import SgdSettings
from common.learners.rules import OpenParity, ParitySettings
from common.scenario.loading import load, shipped
from curator.learners.base import LEARNERS, Learner
from tests.tiers import for_each

SGD = {"name": "sgd", "steps": "plan", "clip": 1, "noise": "plan", "diameter": 60}
SHIPPED = [name for name in shipped() if load(name).curator.learner is not None]


def test_every_learner_of_the_curator_derives_from_public_settings():
    assert LEARNERS.names() == SETTINGS.names()
    for name, learner in LEARNERS.items():
        assert issubclass(learner, SETTINGS[name])
        assert issubclass(learner, Learner)
        assert learner.event is SETTINGS[name].event, "the event is declared once"
        assert (learner.by_choice, learner.reweighs) == (SETTINGS[name].by_choice, SETTINGS[name].reweighs)


@for_each("name", SETTINGS.names())
def test_settled_settings_are_open_ones_of_which_nothing_is_open(name):
    opened, settled = open_form(name), SETTINGS[name]
    assert issubclass(settled, opened)
    assert not issubclass(opened, LearnerSettings)
    assert not any(may_be_open(field.annotation) for field in settled.model_fields.values())
    some = any(may_be_open(field.annotation) for field in opened.model_fields.values())
    assert some == (opened is not OpenSettings)
    for field in opened.model_fields if some else ():
        assert settled.model_fields[field].get_default() == opened.model_fields[field].get_default()


def test_settling_fills_in_what_is_open_and_nothing_else():
    found = parse_settings({**SGD, "noise": 2}).settled(SgdSettings, steps=7, noise=5.0)
    assert (found.steps, found.noise) == (7, 2.0)
    assert json.dumps(found.as_written) == '{"name": "sgd", "steps": 7, "clip": 1, "noise": 2, "diameter": 60}'


def test_settling_refuses_numbers_out_of_range():
    with pytest.raises(BadScenario, match="learner: SgdSettings: noise"):
        parse_settings(SGD).settled(SgdSettings, steps=7, noise=-1.0)
    with pytest.raises(BadScenario, match="the paper's rule"):
        OpenParity(epsilon="plan", rule="paper").settled(ParitySettings, epsilon=5.0)


@for_each("name", SHIPPED)
def test_a_scenario_keeps_its_learner_as_it_is_written(name):
    learner = load(name).curator.learner
    assert isinstance(learner, OpenSettings)
    written = load(name).wire()["curator"]["learner"]
    assert parse_settings(written) == learner
    assert isinstance(learner, LearnerSettings) is not any(left_open(value) for value in written.values())


@for_each(
    ("written", "said"),
    [
        (None, "no learner has the name None"),
        ([], "no learner has the name None"),
        ({"steps": "plan"}, "no learner has the name None"),
        ({"name": "oracle", "mu": "plan"}, "no learner has the name 'oracle'"),
        ({**SGD, "loss": "plan"}, "curator.learner.loss cannot be left at plan for the learner 'sgd'"),
        ({**SGD, "warmth": "plan"}, "curator.learner.warmth cannot be left at plan for the learner 'sgd'"),
        ({"name": "svm", "draws": "plan"}, "curator.learner.draws cannot be left at plan for the learner 'svm'"),
        ({**SGD, "warmth": 1}, "learner: OpenSgd: warmth: unknown key"),
        ({**SGD, "noise": 1, "steps": 0}, "learner: SgdSettings: steps"),
    ],
)
def test_what_is_no_learner_is_refused_in_one_sentence(written: Any, said: str):
    with pytest.raises(BadScenario, match=said):
        parse_settings(written)


MODEL_AGNOSTIC = {
    "name": "model-agnostic", "chunks": 30, "queries": 40, "aggregation": {"name": "gnmax", "noise": 4.0},
    "teacher": {"classifier": "GaussianNB"}, "student": {"classifier": "RidgeClassifier"},
}  # fmt: skip


@for_each(
    ("changes", "protected", "shown"),
    [
        ({}, "records", 0),
        ({"classes": {"first": 7, "count": 3}}, "records", 0),
        ({"protects": "labels"}, "labels", None),
        ({"protects": "labels", "classes": {"first": 7, "count": 3}}, "labels", 7),
    ],
)
def test_features_are_shown_where_labels_alone_are_protected(changes, protected, shown):
    """All of them, or those before the columns of the classes."""
    found = SETTINGS.parse({**MODEL_AGNOSTIC, **changes})
    assert (found.protected, found.shown_features) == (protected, shown)
    for _, settings in SETTINGS.items():
        assert settings.shown_features is LearnerSettings.shown_features, "it follows from what is protected"


def test_a_copy_is_written_down_as_the_original_with_what_was_changed():
    written = {**SGD, "steps": 10, "noise": 2}
    read, made = parse_settings(written), SgdSettings(name="sgd", steps=10, clip=1.0, noise=2.0, diameter=60.0)
    for settings in (read, made):
        assert settings.model_copy().as_written == settings.as_written
        assert settings.model_copy(update={"steps": 20}).as_written == {**settings.as_written, "steps": 20}
