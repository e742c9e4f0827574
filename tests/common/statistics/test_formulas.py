"""Known answers of the formulas, and the theorems behind the tighter ones, tried on real samples."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom

from common.data.distributions.base import parse_distribution
from common.scenario import loading
from common.scenario.accepting import violations
from common.scenario.plan import resolve
from common.scenario.scenario import Scenario
from common.statistics import formulas, spanning
from common.statistics.formulas import gaussian_moment, truncation
from tests.common.privacy.test_budget import project
from tests.tiers import for_each

X = 1.3515339910798754


@for_each(
    ("found", "known"),
    [
        (formulas.paper_rounds(0.08, X), 141_570),
        (formulas.paper_rounds(0.1, 2.0), 93_721),
        (formulas.paper_n_sgd(50_000_000, 1000, 0.08 / (4 * 1.35), 0.5), 324_814_045),  # Appendix D
        (formulas.paper_answers(0.08, 0.05, 1000, 1.0, 1e-4), 74_171),
        (formulas.paper_answers_valid(0.05, 141_570, 1.0, 1e-4), True),
        (formulas.paper_answers_valid(0.05, 141_570, 4.0, 1e-4), False),
        (formulas.paper_noise(0.5, 1e-4, 1e100), math.sqrt(20)),
        (formulas.paper_noise(0.5, 1e-4, 1e6) ** 2, (32 * math.log(1e4) + 8) / math.log(1e6)),
        (formulas.paper_steps(0.1, 0.05, 0.5, 2.0, 3.0, 7), math.ceil(9 * 9 * 0.25 * 29 / 0.01)),
        (formulas.paper_steps(0.1, 0.05, 0.5, 2.0, 0.1, 7, 0.01), math.ceil(4 * 7250 * math.log(7250))),
        (formulas.paper_steps(0.1, 0.05, 0.5, 0.0, 9.0, 7, 1e6), math.ceil(8 * 81 * 0.25 * math.log(40) / 0.01)),
        (formulas.steps(0.1, 1e-9, 1000, 0.5, 0.0, 3.0, 7), math.ceil(32 * 9 * 0.25 * math.log(2e12) / 0.01)),
        (formulas.sample_finite(0.1, 0.05, 2.0, 1000), math.ceil(6400 * math.log(40_000))),
        (formulas.sample_finite(0.1, 0.05, 2.0, 10**400), 6400 * (400 * math.log(10) + math.log(40))),  # no double
        (spanning.paper_blocks(0.05), 13),  # Corollary B.3 at d = 64, X = 4, eps = .5, beta = .05
        (spanning.paper_rows(64, 0.05, 4.0, 0.5), 128_578),
        (spanning.spanning_rows(np.array([0.1]), 0.01), 44),  # (1 - q)^m <= beta
        (truncation(0.08, 2.0, X), X / 0.08),
    ],
)
def test_known_answers(found: float, known: float) -> None:
    assert found == pytest.approx(known, rel=1e-6 if isinstance(found, float) or known > 1e6 else 0.0)


@for_each(("alpha", "x", "expected"), [(0.08, 1.3515, 265), (0.1, 2.0, 314)])
def test_tight_rounds(alpha: float, x: float, expected: int) -> None:
    dense = formulas.density(alpha, x, None)
    gap, entropy = formulas.gap(alpha, 1.0, 2.0, dense.truncated), formulas.entropy(alpha, x, None)
    assert dense[:2] == pytest.approx(((1 - 3 * alpha / 8) * alpha / x, True))
    assert gap == pytest.approx(3 * alpha / 8)
    assert entropy == pytest.approx(math.log(1.12 * x / (1 - 3 * alpha / 8) ** 2))
    assert formulas.rounds(entropy, gap) == expected == math.floor(32 * entropy / (9 * alpha**2)) + 1
    assert formulas.density(alpha, x, 1e6) == formulas.density(alpha, x, None, {4: 1e9}) == dense
    whole = formulas.density(alpha, x, 2.04)  # a known supremum gives a larger density and a larger gap
    assert whole[:2] == pytest.approx(((1 - alpha / 8) / 2.04, False))
    assert formulas.slack(alpha, whole.truncated) == pytest.approx(3 * alpha / 8)


@for_each(("supremum", "moments"), [(None, {}), (2.5, {}), (None, {4.0: math.exp(6 * 0.6**2)})])
def test_the_good_distribution_exists_on_a_sample_of_the_planned_size(supremum, moments):
    """Weights exp(gamma z - gamma^2/2) (unbounded), or three values with supremum 2.5: Lemma 3.2's claims hold."""
    alpha, beta, rng = 0.1, 0.05, np.random.default_rng(1)
    x = math.exp(0.6**2) if supremum is None else 0.3 * 2.5**2 + 0.5 * 0.4**2 + 0.2 * 0.25**2
    n = formulas.sample_weights(alpha, beta, x)
    kappa, truncated, _ = formulas.density(alpha, x, supremum, moments)
    assert truncated == (supremum is None)
    level = min([x / alpha, *(truncation(alpha, p, moment) for p, moment in moments.items())])
    failures = 0
    for _ in range(20):
        unbounded = np.exp(0.6 * rng.standard_normal(n) - 0.18)
        weights = unbounded if supremum is None else rng.choice([2.5, 0.4, 0.25], p=[0.3, 0.5, 0.2], size=n)
        good = np.minimum(weights, level) / np.minimum(weights, level).sum()
        divergence = float(np.sum(good * np.log(n * good)))
        failures += not (good.max() <= 1 / (kappa * n) and divergence <= formulas.entropy(alpha, x, supremum, moments))
    # Each fails with probability beta/2 at most; 7 of 20 has probability below 1e-6.
    assert failures < 7


def test_multiplicative_weights_halt_in_time_against_an_adversary() -> None:
    """The regret bound behind T: lazy, projected weights against losses chosen to waste as many rounds as possible."""
    alpha, x, n = 0.2, 1.5, 400
    kappa, truncated, _ = formulas.density(alpha, x, None)
    entropy, gap = formulas.entropy(alpha, x, None), formulas.gap(alpha, 1.0, 2.0, truncated)
    most, step = formulas.rounds(entropy, gap), 4.0 * gap
    rng = np.random.default_rng(3)
    # A good distribution as concentrated as the entropy allows.
    size = math.ceil(n * math.exp(-entropy))
    good = np.zeros(n)
    good[:size] = 1.0 / size
    assert 1 / size <= 1 / (kappa * n)
    scores, used = np.zeros(n), 0
    for _ in range(2 * most):
        weights = np.exp(-step * (scores - scores.min()))
        mu = project(weights, kappa * n)
        # Wrong on good people as often as it must be, and where mu is smallest; right elsewhere.
        losses = np.zeros(n)
        must = 2.0 * alpha - formulas.slack(alpha, truncated)
        order = np.argsort(mu[:size] + 1e-9 * rng.random(size))
        losses[order[: math.ceil(must * size)]] = 1.0
        if float(mu @ losses) > alpha:
            break
        scores += 1.0 - losses
        used += 1
    assert 0 < used < most


@given(dimension=st.integers(1, 2000), alpha=st.floats(0.01, 0.4), x=st.floats(1.0, 1e4))
@settings(max_examples=100, derandomize=True)
def test_uniform_sample_size_satisfies_its_inequality_and_hardly_more(dimension: int, alpha: float, x: float) -> None:
    n = formulas.sample_uniform(alpha, 0.05, x, dimension)

    def holds(n: float) -> bool:
        scaled = math.sqrt(4 / n * (dimension * math.log(2 * math.e * n / dimension) + math.log(8 / 0.05)))
        return scaled < 1 and scaled * math.sqrt(x * (2 - math.log(scaled))) <= alpha / 4 * (1 + 1e-9)

    assert holds(n)
    assert not holds(0.99 * n)


def test_draws_let_the_exponential_mechanism_reach_alpha() -> None:
    """Two kinds of hypotheses, one perfect and 200 with loss just above alpha: the bad ones are rarely chosen."""
    alpha, beta, epsilon, count = 0.1, 0.2, 1.0, 201
    m = formulas.draws(alpha, beta, 1, epsilon, count)
    rng = np.random.default_rng(5)
    bad = 0
    for _ in range(400):
        mistakes = np.concatenate([[0], rng.binomial(m, alpha * 1.01, size=count - 1)])
        chances = np.exp(-epsilon * mistakes / 2.0)
        bad += rng.random() > chances[0] / chances.sum()
    assert bad / 400 <= beta


@for_each(("answers", "dropout"), [(1, 0.5), (1000, 0.1), (10**6, 0.3)])
def test_enrolment_covers_dropout(answers: int, dropout: float) -> None:
    enrolled = formulas.enrolled(answers, dropout)
    assert binom.cdf(answers - 1, enrolled, 1 - dropout) <= 1e-6
    assert enrolled <= (answers + 30 + 10 * math.sqrt(answers)) / (1 - dropout)
    assert formulas.enrolled(answers, 0.0) == answers


ORDERS = st.floats(1.2, 40.0)
ALPHAS = st.floats(0.01, 0.4)


@settings(max_examples=200)
@given(
    alpha=ALPHAS,
    order=ORDERS,
    values=st.lists(st.floats(0.0, 50.0), min_size=1, max_size=8).filter(lambda some: max(some) > 1e-6),
)
def test_what_is_cut_off_is_at_most_a_quarter_of_alpha(alpha: float, order: float, values: list[float]) -> None:
    weights = np.array(values) / np.mean(values)
    level = truncation(alpha, order, max(1.0, float(np.mean(weights**order))))
    assert float(np.mean(np.maximum(weights - level, 0.0))) <= alpha / 4 * (1 + 1e-9)


@given(alpha=ALPHAS, order=ORDERS, level=st.floats(20.0, 100.0))
def test_no_bound_by_that_moment_alone_is_better(alpha: float, order: float, level: float) -> None:
    top, chance = level * order / (order - 1.0), alpha * (order - 1.0) / (4.0 * level)
    assert chance * (top - level) == pytest.approx(alpha / 4)
    assume(chance * top**order >= 1.0)
    assert truncation(alpha, order, chance * top**order) == pytest.approx(level)


@for_each(("order", "close", "truncated"), [(16.0, 2, False), (4.0, 2, False), (4.0, 8, True)])
def test_the_rule_with_the_fewest_people_is_taken(order: float, close: int, truncated: bool) -> None:
    """... but not enough for the rounds that the smaller gap costs, unless the supremum is far above the moments."""
    x, supremum = gaussian_moment(2.0, 0.1, 0.07, close), (0.1 / 0.07) ** close
    moments = {order: gaussian_moment(order, 0.1, 0.07, close)}
    found, cut = formulas.density(0.08, x, supremum, moments), formulas.density(0.08, x, None, moments)
    whole = formulas.density(0.08, x, supremum)
    assert found == (cut if truncated else whole)
    assert found.truncated == truncated
    people = {
        rule: math.sqrt(
            formulas.rounds(formulas.entropy(0.08, x, *known), formulas.gap(0.08, 1.0, 2.0, rule.truncated))
        )
        / rule.kappa
        for rule, known in ((cut, (None, moments)), (whole, (supremum,)))
    }
    assert people[found] == min(people.values())


@for_each(("order", "target"), [(1.0, 0.7), (3.0, 0.7), (4.0, 1.1), (2.5, 1.2)])
def test_gaussian_moments_are_their_integrals(order: float, target: float) -> None:
    def integrand(x: float) -> float:
        log_weight = -math.log(target) - 0.5 * x * x * (target**-2 - 1.0)
        return math.exp(order * log_weight - 0.5 * x * x) / math.sqrt(2.0 * math.pi)

    assert gaussian_moment(order, 1.0, target, 3) == pytest.approx(quad(integrand, -40, 40, limit=500)[0] ** 3)
    ball: Any = parse_distribution(
        {"name": "gaussian-ball", "side": "source", "d": 2, "close": 2, "sigma_source": 0.1, "sigma_target": 0.07}
    )
    assert gaussian_moment(2.0, 0.1, 0.07, 2) == pytest.approx(ball.chi_squared(), rel=1e-12)
    assert math.isinf(gaussian_moment(6.0, 0.1, 0.11, 2))


def test_chances_to_leave_a_subspace() -> None:
    chances = spanning.escapes(3, 2.0, None)
    np.testing.assert_allclose(chances, [(7 / 8) ** 2 / 2, (3 / 4) ** 2 / 2, 1 / 8])
    np.testing.assert_allclose(spanning.escapes(3, 1.0, 1.0), [7 / 8, 3 / 4, 1 / 2])
    np.testing.assert_array_equal(spanning.escapes(3, 2.0, 1e9), chances)
    assert np.all(np.diff(spanning.escapes(1024, 4.0, 5.0)) <= 0)


def test_the_tail_is_that_of_uniform_vectors() -> None:
    # P(m uniform vectors span F_2^d) = prod_{i=0}^{d-1} (1 - 2^{i-m}) exactly.
    rows = spanning.spanning_rows(spanning.escapes(30, 1.0, 1.0), 1e-3)
    few, enough = (1.0 - float(np.prod(1.0 - 2.0 ** (np.arange(30) - m))) for m in (rows - 1, rows))
    assert enough <= 1e-3 < few
    assert spanning.blocks(0.46211715726 * spanning.escapes(20, 1.0, 1.0), 0.2119415576, 0.05) == (2, 75)


def parity(*overrides: str) -> Scenario:
    return loading.load("parity", list(overrides))


@for_each(
    ("overrides", "epsilon", "rule", "blocks", "n"),
    [
        (["bounds=tight"], 0.5, "tight", 3, 4_446),
        (["bounds=paper"], 0.5, "paper", 13, 13 * 128_578),
        (["curator.rounds=2"], pytest.approx(0.25), "tight", 3, 8_907),
        (["curator.learner.blocks=9"], 0.5, "tight", 9, 13_689),
    ],
)
def test_the_shipped_scenario_is_planned_and_breaks_no_bound(overrides, epsilon, rule, blocks, n):
    resolved = resolve(parity(*overrides))
    assert "'plan'" not in str(resolved.wire())
    assert violations(resolved) == []
    learner: Any = resolved.curator.settings
    assert (learner.epsilon, learner.rule, learner.blocks, resolved.curator.n) == (epsilon, rule, blocks, n)


@for_each(
    ("overrides", "said"),
    [
        (["curator.learner.epsilon=0.6"], "privacy: 1 rounds cost epsilon = 0.6"),
        (["curator.n=1000"], "accuracy: n = 1000 is below"),
        (["curator.learner.blocks=1"], "accuracy: 1 blocks all say bottom"),
        (["curator.learner.rule=paper", "curator.epsilon=5"], "accuracy: the paper's rule"),
    ],
)
def test_what_breaks_a_bound_is_named(overrides: list[str], said: str) -> None:
    told = violations(parity(*overrides))
    assert any(text.startswith(said) for text in told), told
