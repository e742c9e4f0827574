"""Plans of adaptation: mu of the whole budget, the printed noise only where it is private."""

from __future__ import annotations

from typing import Any

import pytest

from common.core.errors import BadInput
from common.planning.plan import resolve
from common.privacy.theorems.gaussian_dp import delta_of, mu_allowed
from common.scenario import scenario as scenarios
from common.scenario.scenario import Scenario

LINE = {"name": "drifting-line", "d": 2}
LEARNERS = ("cnvx-adap", "ncnvx-adap")


def make(name: str = "cnvx-adap", *, curator: dict[str, Any] | None = None, **learner: Any) -> Scenario:
    """A small scenario with everything at plan."""
    settings = {"name": name, "features": 2, "alpha": 0.3, "mu": "plan", **learner}
    return scenarios.parse(
        {
            "name": "small",
            "title": "Small",
            "protocol": "learn-and-test",
            "alpha": 0.1,
            "divergence": {"chi_squared": 1.0},
            "vc_dimension": 3,
            "source": {"distribution": {**LINE, "side": "target"}},
            "target": {"distribution": {**LINE, "side": "target"}},
            "public": {"count": 50, "distribution": {**LINE, "side": "source"}},
            "curator": {"n": 100, "epsilon": 1.0, "delta": 1e-6, "kappa": None, "learner": settings, **(curator or {})},
            "agents": {"mechanism": {"name": "warner", "epsilon": 1.0}},
        }
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_the_whole_budget_is_spent_exactly(name: str) -> None:
    found = resolve(make(name))
    assert found.curator.settings.mu == mu_allowed(1.0, 1e-6)  # type: ignore[attr-defined]
    assert found.curator.rounds == 1


def test_paper_bounds_take_the_printed_noise() -> None:
    paper = make(calibration="plan").model_copy(update={"bounds": "paper"})
    settings: Any = resolve(paper).curator.settings
    assert settings.calibration == "paper"
    assert settings.mu < mu_allowed(1.0, 1e-6)
    assert delta_of(settings.mu, 1.0) < 1e-6
    assert resolve(make(calibration="plan")).curator.settings.calibration == "tight"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", LEARNERS)
def test_printed_noise_beyond_its_range_is_refused(name: str) -> None:
    for epsilon, said in ((24.0, "not private at epsilon"), (250.0, "Theorem 4.3 covers")):
        paper = make(name, curator={"epsilon": epsilon}).model_copy(update={"bounds": "paper"})
        with pytest.raises(BadInput, match=said):
            resolve(paper)
    assert resolve(make(name, curator={"epsilon": 24.0})).curator.settings.mu > 2.0  # type: ignore[attr-defined]


def test_gaussian_noise_wants_a_delta() -> None:
    with pytest.raises(BadInput, match="positive delta"):
        resolve(make(curator={"delta": 0.0}))
