"""Full rank: known answers, an exact tail against simulation, and plans of the parity learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.planning.accepting import violations
from common.planning.plan import plan, resolve
from common.scenario import loading
from common.scenario import scenario as scenarios
from common.scenario.scenario import Scenario
from common.statistics import spanning
from tests.tiers import for_each


def test_paper_known_answers() -> None:
    # Corollary B.3 at d = 64, X = 4, eps = .5, beta = .05.
    assert spanning.paper_blocks(0.05) == 13
    assert spanning.paper_rows(64, 0.05, 4.0, 0.5) == 128_578


def test_chances_to_leave_a_subspace() -> None:
    chances = spanning.escapes(3, 2.0, None)
    np.testing.assert_allclose(chances, [(7 / 8) ** 2 / 2, (3 / 4) ** 2 / 2, 1 / 8])
    np.testing.assert_allclose(spanning.escapes(3, 1.0, 1.0), [7 / 8, 3 / 4, 1 / 2])
    np.testing.assert_array_equal(spanning.escapes(3, 2.0, 1e9), chances)
    assert np.all(np.diff(spanning.escapes(1024, 4.0, 5.0)) <= 0)


def test_one_feature_is_a_geometric_wait() -> None:
    # (1 - q)^m <= beta first at m = 44 for q = .1, beta = .01.
    assert spanning.spanning_rows(np.array([0.1]), 0.01) == 44


def test_the_tail_is_that_of_uniform_vectors() -> None:
    # P(m uniform vectors span F_2^d) = prod_{i=0}^{d-1} (1 - 2^{i-m}) exactly.
    rows = spanning.spanning_rows(spanning.escapes(30, 1.0, 1.0), 1e-3)

    def missed(m: int) -> float:
        return 1.0 - float(np.prod(1.0 - 2.0 ** (np.arange(30) - m)))

    assert missed(rows) <= 1e-3 < missed(rows - 1)


def test_two_blocks_at_epsilon_1_and_fewer_than_beta_allows_are_refused() -> None:
    chances = 0.46211715726 * spanning.escapes(20, 1.0, 1.0)
    count, rows = spanning.blocks(chances, 0.2119415576, 0.05)
    assert (count, count * rows) == (2, 150)
    with pytest.raises(BadInput, match="more blocks"):
        spanning.rows_of(chances, 0.2119415576, 0.05, 1)


@for_each(("chances", "beta"), [([1e-9] * 4, 0.1), ([1e-300], 0.1), ([0.5], 0.0), ([0.5], 1.0)])
def test_what_cannot_be_counted_is_refused(chances: list[float], beta: float) -> None:
    with pytest.raises(BadInput):
        spanning.spanning_rows(np.array(chances), beta)


def parity(*overrides: str) -> Scenario:
    return loading.load("parity", list(overrides))


@pytest.mark.parametrize("bounds", ["paper", "tight"])
def test_the_shipped_scenario_is_planned_and_breaks_no_bound(bounds: str) -> None:
    resolved = resolve(parity(f"bounds={bounds}"))
    assert "'plan'" not in str(resolved.wire())
    assert violations(resolved) == []
    learner: Any = resolved.curator.settings
    assert resolved.curator.rounds == 1
    assert learner.epsilon == 0.5
    assert (learner.rule, learner.blocks) == (("tight", 3) if bounds == "tight" else ("paper", 13))
    assert resolved.curator.n == (4_446 if bounds == "tight" else 13 * 128_578)


def test_rounds_share_the_budget() -> None:
    resolved = resolve(parity("curator.rounds=2"))
    assert resolved.curator.settings.epsilon == pytest.approx(0.25)  # type: ignore[attr-defined]
    assert violations(resolved) == []


def test_blocks_that_are_given_are_kept_and_counted_with() -> None:
    found = plan(parity("curator.learner.blocks=9"))
    assert found.learner["blocks"] == 9
    assert found.settings["blocks"].rule == 3
    assert found.n.value > plan(parity()).n.value


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


@pytest.mark.parametrize("change", [{"epsilon": None, "delta": None}, {"learner": {"name": "parity", "epsilon": "x"}}])
def test_without_a_number_there_is_no_plan(change: dict[str, Any]) -> None:
    tree = parity().wire()
    tree["curator"] |= change
    with pytest.raises(BadScenario):
        resolve(scenarios.parse(tree))


def test_a_rule_that_nobody_has_is_refused_where_it_is_read() -> None:
    with pytest.raises(BadScenario, match="'tight' or 'paper', found 'loose'"):
        parity("curator.learner.rule=loose")
