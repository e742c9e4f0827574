"""The search for the least noise: few questions, and the noise that more of them would find."""

from collections.abc import Callable
from typing import Any

import pytest

from common.core.errors import BadInput, BadScenario
from common.learners.base import Calls
from common.learners.half_spaces import MIN_NOISE, _least, _least_noise
from common.privacy.calibration import PRECISION
from common.privacy.theorems.gaussian_dp import delta_of, mu_allowed
from common.scenario import scenario as scenarios
from common.scenario.accepting import violations
from common.scenario.loading import load
from common.scenario.plan import plan, resolve
from common.scenario.scenario import Scenario, parse
from curator.learners.base import parse_learner
from deploy.checking import checked
from tests.tiers import for_each, thinned

Fits = Callable[[float, bool], bool]


def asking_at_every_step(fits: Fits) -> float:
    """The same search, which asks at each of the three steps down."""
    private = _least(lambda noise: fits(noise, True))
    while private > MIN_NOISE:
        lower = [max(private * (1.0 - step * PRECISION), MIN_NOISE) for step in (1.0, 4.0, 16.0, 64.0)]
        less = [noise for noise in lower[:3] if fits(noise, False)]
        if not less:
            return private
        private = less[-1]
        if len(less) == 3 and fits(lower[3], False):
            private = lower[3]
    return private


@for_each("slow", [0.05, 0.11, 0.5, 1.0, 1.8, 1.97, 1.9999, 2.0])
def test_fewer_questions_find_the_same_noise(slow):
    asked: dict[str, int] = {"few": 0, "all": 0}

    def answering(way: str) -> Fits:
        def fits(noise: float, quick: bool) -> bool:
            asked[way] += not quick
            return noise >= (2.0 if quick else slow)

        return fits

    assert _least_noise(answering("few")) == asking_at_every_step(answering("all"))
    assert asked["few"] <= asked["all"]


def test_where_the_slow_accountants_show_nothing_nearby_but_a_little_further_down_that_is_found():
    def fits(noise: float, quick: bool) -> bool:
        return noise >= 2.0 if quick else 1.5 <= noise < 2.0 * (1.0 - 8.0 * PRECISION)

    found = _least_noise(fits)
    assert fits(found, False)
    assert found < 1.52


SPARSE = {"name": "sparse-vector", "cutoff": 30, "epsilon": "plan", "delta": "plan"}


def scenario(name: str = "model-agnostic", learner: dict[str, Any] | None = None, **curator: Any) -> Scenario:
    tree = load(name).wire()
    tree["curator"] = {**tree["curator"], **curator}
    tree["curator"]["learner"] = {**tree["curator"]["learner"], **(learner or {})}
    return parse(tree)


def cost_of(resolved: Scenario) -> float:
    curator = resolved.curator
    return Calls(curator.n, curator.kappa, curator.eta, curator.rounds).spent(curator.settings, curator.delta)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("model-agnostic", {}, {}),
    ("model-agnostic", {}, {"rounds": 3}),
    ("model-agnostic", {"by": "content"}, {}),
    ("model-agnostic", {"aggregation": {"name": "gnmax", "epsilon": "plan", "delta": "plan"}}, {}),
    ("model-agnostic", {"aggregation": SPARSE}, {}),
    ("model-agnostic", {"aggregation": {"name": "stability", "epsilon": "plan", "delta": "plan"}}, {}),
    ("model-agnostic", {"aggregation": {**SPARSE, "estimate": 0.2}}, {}),
    ("model-agnostic-transfer", {}, {}),
    ("model-agnostic-transfer", {"draws": 9000}, {"rounds": 7, "eta": 0.3}),
    ("model-agnostic-transfer", {"aggregation": SPARSE}, {}),
]


@for_each(("name", "learner", "curator"), thinned(CASES, 4, several=True))
def test_plans_keep_to_the_budget_and_use_it(name, learner, curator):
    resolved = checked(scenario(name, learner, **curator))
    assert "'plan'" not in str(resolved.wire())
    total = cost_of(resolved)
    assert total <= resolved.curator.epsilon
    shared = "rounds" in curator and name == "model-agnostic" and "aggregation" in learner
    assert shared or total > 0.99 * resolved.curator.epsilon
    assert not [text for text in violations(resolved) if text.startswith("privacy")]
    event = parse_learner(resolved.curator.learner).event(1.0)
    assert event.kind in ("gaussian", "release", "subsampled-release")


def test_the_numbers_of_the_corrections_are_the_plan():
    found = plan(scenario())
    assert found.settings["sigma"].value == pytest.approx(188.94, abs=0.01)
    assert found.settings["chunks"].value == 1002
    assert found.settings["flips"].value == pytest.approx(0.00135, abs=1e-5)
    assert found.sample.value == 1002 * 50  # k V/alpha


def test_chunks_of_a_sparse_vector_reach_its_margin():
    found = plan(scenario(learner={"aggregation": SPARSE}))
    margin, chunks = found.settings["margin"].value, found.settings["chunks"].value
    # Nine in ten of k agree: the distance is (c1 - c2)/2 - 1 = 0.4 k - 1.
    assert 0.4 * (chunks - 1) - 1 < margin <= 0.4 * chunks - 1


def test_several_classes_cost_nothing_but_answers_that_go_wrong():
    two, six = (plan(scenario(learner={"classes": classes})) for classes in (None, {"first": 3, "count": 6}))
    for name in ("sigma", "chunks"):
        assert six.settings[name].value == two.settings[name].value
    assert six.sample.value == two.sample.value
    assert two.settings["flips"].value < six.settings["flips"].value < 3 * two.settings["flips"].value


def test_content_takes_twice_the_noise():
    one, two = (plan(scenario(learner={"by": by})).settings["sigma"].value for by in ("slot", "content"))
    assert two == pytest.approx(2.0 * one)


def test_what_is_given_is_kept():
    resolved = resolve(scenario(learner={"chunks": 77, "aggregation": {"name": "gnmax", "noise": 500.0}}))
    assert resolved.curator.settings.chunks == 77  # type: ignore[attr-defined]
    assert resolved.curator.settings.aggregation.noise == 500.0  # type: ignore[attr-defined]


@for_each(
    ("name", "learner", "curator", "says"),
    [
        ("model-agnostic", {}, {"delta": 0.0}, "positive delta"),
        ("model-agnostic", {"aggregation": {"name": "majority"}}, {}, "gnmax', 'stability', 'sparse-vector'"),
        ("model-agnostic", {"aggregation": {**SPARSE, "delta": 1e-9}}, {}, "leave both epsilon and delta"),
        ("model-agnostic", {"queries": "plan"}, {}, "cannot be left at plan"),
        ("model-agnostic-transfer", {"aggregation": {"name": "gnmax", "noise": "plan"}}, {}, "not noise"),
        ("model-agnostic-transfer", {}, {"kappa": None}, r"needs curator\.n and curator\.kappa"),
    ],
)
def test_what_cannot_be_planned_is_refused(name, learner, curator, says):
    with pytest.raises(BadScenario, match=says):
        checked(scenario(name, learner, **curator))


def test_too_dear_a_learner_is_a_violation():
    dear = scenario(learner={"chunks": 77, "aggregation": {"name": "gnmax", "noise": 10.0}})
    assert any("budget is 1" in text for text in violations(dear))


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
