"""Settings of learners: what may be left open, what a settled one has none of, and the JSON form that is kept."""

import json
from typing import Any

import pytest

from common.core.errors import BadScenario
from common.core.values import left_open, may_be_open
from common.learners.base import SETTINGS, LearnerSettings, OpenSettings, open_form, parse_settings
from common.learners.half_spaces import OpenSgd, SgdSettings
from common.learners.rules import OpenParity, ParitySettings
from common.privacy.events import Event, Release
from common.privacy.guarantee import Protected
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


OPEN = {name: open_form(name) for name in SETTINGS.names() if open_form(name) is not OpenSettings}


@for_each("name", sorted(OPEN))
def test_settled_settings_are_open_ones_of_which_nothing_is_open(name):
    opened, settled = OPEN[name], SETTINGS[name]
    assert issubclass(settled, opened)
    assert not issubclass(opened, LearnerSettings)
    assert any(may_be_open(field.annotation) for field in opened.model_fields.values())
    assert not any(may_be_open(field.annotation) for field in settled.model_fields.values())
    for field in opened.model_fields:
        assert settled.model_fields[field].get_default() == opened.model_fields[field].get_default()


@pytest.mark.parametrize("name", sorted(set(SETTINGS.names()) - set(OPEN)))
def test_of_other_learners_nothing_may_be_open(name):
    assert not any(may_be_open(field.annotation) for field in SETTINGS[name].model_fields.values())


def test_the_type_says_whether_something_is_open():
    assert type(parse_settings(SGD)) is OpenSgd
    assert type(parse_settings({**SGD, "steps": 5, "noise": 2})) is SgdSettings
    assert type(parse_settings({**SGD, "steps": 5})) is OpenSgd


def test_settling_fills_in_what_is_open_and_nothing_else():
    found = parse_settings({**SGD, "noise": 2}).settled(SgdSettings, steps=7, noise=5.0)
    assert (found.steps, found.noise) == (7, 2.0)
    assert json.dumps(found.as_written) == '{"name": "sgd", "steps": 7, "clip": 1, "noise": 2, "diameter": 60}'


def test_a_changed_copy_is_written_as_it_is():
    found = parse_settings({**SGD, "steps": 5, "noise": 2}).model_copy(update={"noise": 3.0})
    assert found.as_written == {**SGD, "steps": 5, "noise": 3.0}
    assert SgdSettings(steps=5, noise=2, diameter=1).as_written == {
        "name": "sgd", "steps": 5, "noise": 2.0, "diameter": 1.0,
    }  # fmt: skip


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


def test_who_is_protected_is_said_once():
    """Records, unless a learner says less; and then all features are shown, or those before the classes' columns."""

    class Whole(LearnerSettings):
        name: str = "whole"

        def event(self, tv_bound: float) -> Event:
            return Release(epsilon=1.0)

    class Labels(Whole):
        @property
        def protected(self) -> Protected:
            return "labels"

    class Classes(Labels):
        @property
        def class_columns(self) -> tuple[int, int]:
            return 7, 3

    assert (Whole().protected, Whole().shown_features) == ("records", 0)
    assert Labels().shown_features is None
    assert Classes().shown_features == 7
    for settings in SETTINGS.items():
        assert "shown_features" not in vars(settings[1]), "it follows from what is protected"


def test_a_copy_is_written_down_as_the_original_with_what_was_changed():
    written = {**SGD, "steps": 10, "noise": 2}
    read, made = parse_settings(written), SgdSettings(name="sgd", steps=10, clip=1.0, noise=2.0, diameter=60.0)
    for settings in (read, made):
        assert settings.model_copy().as_written == settings.as_written
        assert settings.model_copy(update={"steps": 20}).as_written == {**settings.as_written, "steps": 20}
