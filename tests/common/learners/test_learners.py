"""Settings of learners: what may be left open, what a settled one has none of, and the JSON form that is kept."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.core.values import left_open, may_be_open
from common.learners.base import SETTINGS, Calls, LearnerSettings, OpenSettings, open_form, parse_settings
from common.learners.half_spaces import MIN_NOISE, SgdSettings, _least_noise
from common.learners.rules import OpenParity, ParitySettings
from common.privacy.budget import PRECISION
from common.privacy.theorems.gaussian_dp import delta_of, mu_allowed
from common.privacy.theorems.votes import answers_sigma, calibrated, enough_bottoms, flips
from common.scenario.accepting import violations
from common.scenario.loading import load, shipped
from common.scenario.plan import plan, resolve
from common.scenario.scenario import Scenario, parse
from common.statistics.formulas import agnostic_sample, consistent_sample
from curator.learners.base import LEARNERS, Learner, parse_learner
from deploy.checking import checked
from tests.tiers import for_each, thinned

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
        ({"name": "discriminant", "mu": 1.0, "ridge": 5e-324}, "ridge: Input should be greater than or equal"),
        ({"name": "least-squares", "mu": 1.0, "ridge": 5e-324}, "ridge: Input should be greater than or equal"),
        *(
            (
                {"name": "cnvx-adap", "mu": 1.0, "alpha": 0.5, name: 1e-160},
                f"{name}: Input should be greater than or equal",
            )
            for name in ("norm", "radius", "local")
        ),
        ({"name": "cnvx-adap", "mu": 1.0, "alpha": 0.5, "features": 1, "norm": 1e6}, "norm = 1000000 is too large"),
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
    found = SETTINGS.parse({**MODEL_AGNOSTIC, **changes})
    assert (found.protected, found.shown_features) == (protected, shown)
    assert SETTINGS.parse({"name": "svm", "draws": 9}).class_columns == (0, 0)
    for _, settings in SETTINGS.items():
        assert settings.shown_features is LearnerSettings.shown_features, "it follows from what is protected"


def test_a_copy_is_written_down_as_the_original_with_what_was_changed():
    written = {**SGD, "steps": 10, "noise": 2}
    read, made = parse_settings(written), SgdSettings(name="sgd", steps=10, clip=1.0, noise=2.0, diameter=60.0)
    for settings in (read, made):
        assert settings.model_copy().as_written == settings.as_written
        assert settings.model_copy(update={"steps": 20}).as_written == {**settings.as_written, "steps": 20}


@for_each("least", [0.05, 0.11, 0.5, 1.0, 1.8, 1.97, 1.9999, 2.0])
def test_the_least_noise_is_found_to_within_the_precision(least):
    found = _least_noise(lambda noise, quick: noise >= (2.0 if quick else least))
    assert max(least, MIN_NOISE) <= found < max(least / (1.0 - PRECISION), MIN_NOISE * (1.0 + 1e-9)) * 1.0001


def test_where_the_slow_accountants_show_nothing_nearby_but_a_little_further_down_that_is_found():
    found = _least_noise(lambda noise, quick: noise >= 2.0 if quick else 1.5 <= noise < 2.0 * (1.0 - 8.0 * PRECISION))
    assert 1.5 <= found < 1.52


SPARSE = {"name": "sparse-vector", "cutoff": 30, "epsilon": "plan", "delta": "plan"}


def scenario(name: str = "model-agnostic", learner: dict[str, Any] | None = None, **curator: Any) -> Scenario:
    tree = load(name).wire()
    tree["curator"] = {**tree["curator"], **curator}
    tree["curator"]["learner"] = {**tree["curator"]["learner"], **(learner or {})}
    return parse(tree)


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
    found = resolved.curator
    total = Calls(found.n, found.kappa, found.eta, found.rounds).spent(found.settings, found.delta)
    assert 0.99 * found.epsilon < total <= found.epsilon
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


def test_content_takes_twice_the_noise_and_several_classes_cost_only_answers_that_go_wrong():
    six = {"classes": {"first": 3, "count": 6}}
    two, more, content = (plan(scenario(learner=learner)) for learner in ({}, six, {"by": "content"}))
    assert content.settings["sigma"].value == pytest.approx(2.0 * two.settings["sigma"].value)
    assert more.sample.value == two.sample.value
    assert [more.settings[name] for name in ("sigma", "chunks")] == [two.settings[name] for name in ("sigma", "chunks")]
    assert two.settings["flips"].value < more.settings["flips"].value < 3 * two.settings["flips"].value


def sized(learner: dict[str, Any] | None = None, epsilon: float = 1.0, **top: Any) -> Scenario:
    return parse({**scenario(learner=learner, epsilon=epsilon).wire(), **top})


def test_agnostic_teachers_need_more_people_and_more_public_points():
    """Definition 2.1: V/alpha draws of a learner become V/alpha^2 where nothing is assumed of the best."""
    one, other = plan(sized()), plan(sized(mode="agnostic"))
    assert (one.sample.value, other.sample.value) == (1002 * 50, 1002 * 500)
    assert other.settings["theorem_people"].value > 50 * one.settings["theorem_people"].value
    plans = (plan(sized({"aggregation": SPARSE}, mode=mode)) for mode in ("realizable", "agnostic"))
    cutoffs = [found.settings["theorem_cutoff"] for found in plans]
    assert ["gamma = alpha" in cutoff.formula for cutoff in cutoffs] == [False, True]
    assert cutoffs[1].value > 1.9 * cutoffs[0].value


def test_m_t_k_and_n_are_those_of_the_theorems():
    """Theorems 3.2, 4.2 and 4.3: m of the student, T, then k for the noise of m answers, then n of k teachers."""
    m = agnostic_sample(0.3, 0.05, 5)
    for aggregation in ({}, {"aggregation": SPARSE}):
        found = plan(sized(aggregation, 30.0, alpha=0.3))
        sizes = {name: row.value for name, row in found.settings.items()}
        k = int(sizes["theorem_chunks"])
        assert sizes["theorem_queries"] == m
        assert sizes["theorem_people"] == k * consistent_sample(0.3, 0.05 / k, 5)
        if aggregation:
            bottoms = enough_bottoms(0.3, m, 0.05)
            assert sizes["theorem_cutoff"] == min(m, bottoms)
            law = calibrated(min(m, bottoms), m, 30.0, 1e-6)
            # Two thirds of k against one third are this far from instability, and answered surely.
            assert law.margin(0.05 / m) == -(-(k // 3) // 2) - 1
            assert law.failure(30.0) <= 1e-6
        else:
            sigma = answers_sigma(m, 30.0, 1e-6)
            assert flips(2 / 3, k, sigma) <= 0.05 / m < flips(2 / 3, k - 1, sigma * (1 - 1e-9))
    wide = plan(sized({"aggregation": SPARSE}))
    assert "too many for this budget" in wide.settings["theorem_cutoff"].formula
    assert "theorem_chunks" not in wide.settings


def test_no_number_of_teachers_that_noise_can_be_drawn_for_goes_on_for_ever():
    """Teachers of a class of dimension 1 who label what as many new ones learn from have to be hundreds of times as
    many, and twice that where they are four times as many."""

    def wanted(chunks: int) -> int:
        points = chunks * consistent_sample(0.1, 0.05 / chunks, 1)
        law = calibrated(enough_bottoms(0.1, points, 0.05), points, 10.0, 1e-6)
        return 6 * (law.margin(0.05 / points) + 1)

    assert (wanted(64), wanted(256)) == (42_738, 90_654)
    with pytest.raises(BadInput, match=r"noise would be of epsilon 0\.00098"):
        wanted(1024)


def test_queries_at_plan_are_those_that_the_student_needs():
    settings: Any = resolve(sized({"queries": "plan"}, alpha=0.3)).curator.settings
    assert settings.queries == agnostic_sample(0.3, 0.05, 5)
    assert settings.aggregation.noise == pytest.approx(answers_sigma(settings.queries, 1.0, 1e-6))
    with pytest.raises(BadScenario, match="needs vc_dimension, or hypotheses"):
        resolve(sized({"queries": "plan"}, vc_dimension=None))


@for_each(("alpha", "beta", "dimension"), [(0.1, 0.05, 5), (0.3, 1e-6, 1), (0.01, 0.5, 100)])
def test_samples_of_learners_are_the_least_of_their_bounds(alpha, beta, dimension):
    def missed(n):  # 4 S(2n) exp(-n (alpha/2)^2/8), S by Sauer's lemma
        return math.log(4) + dimension * math.log(2 * math.e * n / dimension) - n * alpha**2 / 32

    n = agnostic_sample(alpha, beta, dimension)
    assert missed(n) <= math.log(beta) < missed(n - 1)
    least = consistent_sample(alpha, beta, dimension)
    assert least >= max(4 / alpha * math.log2(2 / beta), 8 * dimension / alpha * math.log2(13 / alpha)) > least - 1


def test_consistent_thresholds_on_so_many_draws_err_on_alpha_at_most():
    """Realizable PAC learning, V = 1: of 4000 learners not more than beta err on more than alpha."""
    alpha, beta = 0.2, 0.1
    draws = np.random.default_rng(1).random((4000, consistent_sample(alpha, beta, 1)))
    worst = np.where(draws > 0.5, draws, 1.0).min(axis=1) - 0.5  # the highest threshold that errs on no draw
    assert np.mean(worst > alpha) <= beta


def test_what_is_given_is_kept():
    settings: Any = resolve(scenario(learner={"chunks": 77, "aggregation": {"name": "gnmax", "noise": 500.0}})).curator
    assert (settings.settings.chunks, settings.settings.aggregation.noise) == (77, 500.0)


def test_a_call_on_draws_has_no_more_epsilon_than_is_of_use_however_large_the_budget() -> None:
    settings: Any = resolve(scenario("model-agnostic-transfer", epsilon=1e12)).curator.settings
    assert 0.0 < settings.aggregation.epsilon <= 32.0


@for_each(
    ("name", "learner", "curator", "says"),
    [
        ("model-agnostic", {}, {"delta": 0.0}, "positive delta"),
        ("model-agnostic", {"aggregation": {"name": "majority"}}, {}, "gnmax', 'stability', 'sparse-vector'"),
        ("model-agnostic", {"aggregation": {**SPARSE, "delta": 1e-9}}, {}, "leave both epsilon and delta"),
        ("model-agnostic", {"draws": "plan"}, {}, "cannot be left at plan"),
        ("model-agnostic-transfer", {"aggregation": {"name": "gnmax", "noise": "plan"}}, {}, "not noise"),
        ("model-agnostic-transfer", {}, {"kappa": None}, r"needs curator\.n and curator\.kappa"),
        *(("ball", {"steps": "plan", **huge}, {}, "no double") for huge in ({"diameter": 1e308}, {"clip": 1e200})),
    ],
)
def test_what_cannot_be_planned_is_refused(name, learner, curator, says):
    with pytest.raises(BadScenario, match=says):
        checked(scenario(name, learner, **curator))


@for_each(
    ("name", "override", "says"),
    [
        *(("ball", f"{key}=1e-300", "no double") for key in ("alpha", "accuracy.learner")),
        ("ball", "divergence.chi_squared=1e300", "no double"),
        ("transfer-classes", "alpha=1e-9", "takes more than 2\\^40 answers"),
        ("parity", "curator.epsilon=1e-300", "records a block are needed"),
        ("model-agnostic", "alpha=1e-160", "more than 2\\^62 draws"),
    ],
)
def test_numbers_beyond_all_doubles_are_refused_in_words(name, override, says):
    with pytest.raises(BadScenario, match=says):
        checked(load(name, [override]))


def test_adaptation_spends_the_whole_budget_and_with_paper_bounds_takes_the_printed_noise() -> None:
    chosen = scenario("domain-adaptation", {"calibration": "plan"})
    tight: Any = resolve(chosen).curator
    assert (tight.settings.calibration, tight.rounds) == ("tight", 1)
    assert tight.settings.mu == mu_allowed(1.0, 1e-6), "the whole budget is spent, exactly"
    paper: Any = resolve(chosen.model_copy(update={"bounds": "paper"})).curator.settings
    assert paper.calibration == "paper"
    assert paper.mu < tight.settings.mu
    assert delta_of(paper.mu, 1.0) < 1e-6


@for_each("name", ["domain-adaptation", "domain-adaptation-nonconvex"])
def test_adaptation_refuses_what_has_no_noise(name: str) -> None:
    for budget, bounds, said in (
        ({"epsilon": 24.0}, "paper", "not private at epsilon"),
        ({"epsilon": 250.0}, "paper", "Theorem 4.3 covers"),
        ({"delta": 0.0}, "tight", "positive delta"),
    ):
        with pytest.raises(BadInput, match=said):
            resolve(scenario(name, **budget).model_copy(update={"bounds": bounds}))
    for epsilon in (24.0, 250.0):  # of the latter delta pays for less
        assert resolve(scenario(name, epsilon=epsilon)).curator.settings.mu > 2.0  # type: ignore[attr-defined]
