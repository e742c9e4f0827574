"""TransferClassifier by default: it runs what fits the numbers of people, and says beforehand who cannot help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadFit, FitFailed
from referee.audit.audit import audit
from tandem.estimators import CannotHelpWarning, TransferClassifier, fitting
from tandem.estimators.fitting import chosen
from tests.tandem.estimators.people import square
from tests.tandem.estimators.plain import Plain
from tests.tiers import for_each

LEARNER = {"name": "sgd", "steps": 3000, "noise": 8.0, "diameter": 6.0}
"""Noise enough for all that is asked here, so that no fit waits for a plan of it."""


def quick(**changes: Any) -> TransferClassifier:
    return TransferClassifier(**{"learner": LEARNER, "random_state": 0, "agent_epsilon": 2.0, "epsilon": 4.0} | changes)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "Embedded", Plain)


def scenario(people: int, agents: int, **changes: Any) -> dict[str, Any]:
    model = quick(**changes).fit(*square(people, 1), population=square(agents, 2))
    return dict(model._scenario)


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_many_agents_repair_and_judge_and_fewer_judge_only():
    many, few = scenario(2000, 6000), scenario(2000, 600)
    assert (many["protocol"], many["curator"]["rounds"], "portfolio" in many) == ("portfolio", 1, False)
    assert (few["protocol"], few["curator"]["rounds"], few["portfolio"]["repair"]) == ("portfolio", 1, 0.0)
    assert many["alpha"] == 0.01


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_a_second_model_is_learned_where_it_can_be_told_apart():
    assert scenario(5000, 100_000)["curator"]["rounds"] == 2
    assert scenario(5000, 100_000, rounds=1)["curator"]["rounds"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_what_a_user_names_is_what_is_run():
    """Without the advice it is what every fit was before there was any."""
    named = scenario(2000, 600, protocol="subsample-test-reweigh")
    curator = named["curator"]
    assert (curator["rounds"], curator["kappa"], curator["eta"], named["alpha"]) == (3, 0.3, 0.3, 0.1)
    given = scenario(2000, 600, protocol="portfolio", kappa=0.2, eta=1.0, alpha=0.03, rounds=2)
    curator = given["curator"]
    assert (curator["rounds"], curator["kappa"], curator["eta"], given["alpha"]) == (2, 0.2, 1.0, 0.03)
    assert "portfolio" not in given


@pytest.mark.usefixtures("plain")
def test_who_cannot_help_is_named_before_anything_is_spent(monkeypatch):
    spent: list[str] = []

    def broken(*arguments: Any) -> None:
        spent.append("the run began")
        raise FitFailed("somebody pulled the plug")

    monkeypatch.setattr("tandem.estimators.base.run", broken)
    model = quick()
    with pytest.warns(CannotHelpWarning, match="30 agents cannot tell less than") as said, pytest.raises(FitFailed):
        model.fit(*square(400, 1), population=square(30, 2))
    assert spent
    assert said[0].filename == __file__
    with pytest.raises(CannotHelpWarning):  # warnings are errors here: nothing of it is reached
        quick().fit(*square(400, 1), population=square(30, 2))
    assert len(spent) == 1
    with pytest.raises(CannotHelpWarning, match="may be noise alone"):
        quick(epsilon=0.01).fit(*square(400, 1), population=square(3000, 2))


@pytest.mark.usefixtures("plain")
def test_named_protocols_warn_of_nothing():
    scenario(400, 30, protocol="learn-and-test")


@for_each(
    ("changes", "said"),
    [
        ({"protocol": "magic"}, "protocol must be fit, subsample-test-reweigh, portfolio, learn-and-test"),
        ({"mode": "realizable"}, "mode='realizable' is for protocol='subsample-test-reweigh'"),
        ({"protocol": "learn-and-test", "rounds": 2}, "so the curator learns once"),
        ({"alpha": 0.7}, "alpha"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, said, monkeypatch):
    monkeypatch.setattr("tandem.estimators.base.run", lambda *arguments: pytest.fail("the run began"))
    model = quick(**changes)
    with pytest.raises(BadFit, match=said):
        model.fit(*square(2000, 1), population=square(6000, 2))
    assert not hasattr(model, "guarantee_")


def test_no_protocol_is_unknown_to_its_defaults():
    with pytest.raises(BadFit, match="protocol must be"):
        chosen("hopeful", "agnostic", {}, None)


@pytest.mark.slow
def test_a_fit_shows_its_candidates_and_the_gap_that_it_is_sure_of(tmp_path):
    """The right half is rare in the sample; the population's labels have other shares."""
    everybody = square(20_000, 2)
    model = quick().fit(*square(2000, 1, rare=0.05), population=everybody)
    assert [judged.name for judged in model.candidates_] == list(model.advice_.candidates)
    assert {judged.name: judged.hypothesis for judged in model.candidates_}["constant +1"] != model.hypothesis_
    assert model.gap_ == model.result_["gap"]
    losses = [
        float(np.mean(judged.hypothesis.predict(everybody[0]) != 2 * everybody[1] - 1)) for judged in model.candidates_
    ]
    assert 1.0 - model.score(*everybody) <= min(losses) + model.gap_
    assert model.estimate_ in [judged.estimate for judged in model.candidates_]
    assert audit(model.save_run(tmp_path / "run"), None, None).status == model.result_["status"]
    assert model.guarantee_.epsilon == 4.0
    again = quick(protocol="learn-and-test").fit(*square(400, 1), population=square(100, 2))
    assert (again.candidates_, again.gap_) == ((), None)


@pytest.mark.usefixtures("plain")
def test_nothing_of_a_record_decides_what_is_run():
    X, y = square(600, 1)
    other, labels = np.array(X), np.array(y)
    other[7], labels[7] = [1e300, -1e300], 1 - labels[7]
    first, second = (
        quick(classes=(0, 1)).fit(*people, population=square(900, 2)) for people in ((X, y), (other, labels))
    )
    assert first._scenario == second._scenario
    assert first.advice_ == second.advice_
