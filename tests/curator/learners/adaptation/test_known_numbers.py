"""Known numbers of both adaptation algorithms: noise, steps, and what comes out under a fixed key.

That noise suffices and optima are found is shown beside this file, with room for both. Here whatever moves shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from common.learners.adaptation import Private, split
from common.numerics.randomness import RandomSource
from curator.learners.adaptation import algorithms
from curator.learners.adaptation.algorithms import course, prepare, scaled_steps
from curator.learners.adaptation.discrepancy import curvatures, discrepancy, private_discrepancy, sensitivity
from curator.learners.adaptation.noisy_descent import Bounds, descend, sensitivities, unit_of
from tests.curator.learners.adaptation.given import domains
from tests.tiers import for_each


class Known(NamedTuple):
    """A case, and what is known of it.

    Attributes
    ----------
    prepared
        The discrepancy, and both deviations of the noise.
    steps
        Of the weights, of the source's and of the target's scales.
    weights, scales
        What is found; the scales, added up.
    """

    kind: Literal["convex", "nonconvex"]
    private: Private
    mu: float | None
    settings: dict[str, Any]
    prepared: tuple[float, float, float]
    steps: tuple[float, float, float]
    weights: list[float]
    scales: float


# fmt: off
KNOWN = [
    Known(
        "convex", "target", None, {},
        (0.5945179134860314, 0.0, 0.0),
        (0.5, 0.1074155349524227, 0.10404580327495543),
        [0.5192337, -0.0562462, 0.5757038, 0.02099806],
        50.00067,
    ),
    Known(
        "convex", "target", 2.0, {"output": "suffix"},
        (0.9565103114691738, 0.7869260311649681, 13.50090966582186),
        (0.11600466791317851, 0.09966487525464948, 0.003380775635756786),
        [0.06515149, 0.1205027, 0.03686466, 0.06420114],
        54.63421,
    ),
    Known(
        "convex", "source", 2.0, {"steps": "paper", "calibration": "paper", "kappa_inf": 0.5},
        (0.8358462513242557, 0.3179665121473428, 15.894418600920503),
        (0.04507742031166785, 1.7498293927680505e-05, 0.00021982600255746466),
        [0.09963001, 0.05502537, 0.08605818, 0.03525735],
        50.02359,
    ),
    Known(
        "convex", "source", None, {"kappa_inf": 0.5, "kappa_1": 0.1, "output": "last"},
        (0.5945179134860314, 0.0, 0.0),
        (0.5, 0.10518888570204993, 0.10094124827447178),
        [0.6216595, -0.1234215, 0.7056009, 0.0107295],
        79.53168,
    ),
    Known(
        "convex", "target", 0.5, {"scales_share": 0.7, "spread": 0.1, "discrepancy_share": 0.2},
        (1.3185027094514226, 5.528269316679875, 51.688810305903104),
        (0.016512779622023223, 0.09295745096000893, 0.0003532180074460034),
        [-0.1375982, 0.1622245, -0.2182231, 0.1453225],
        56.87065,
    ),
    Known(
        "nonconvex", "target", None, {"output": "average"},
        (0.15423534019870017, 0.0, 0.0),
        (4.0, 0.19780051393561907, 0.18666781372844024),
        [0.6880581, 0.1215765, 0.6953797, -0.0146903],
        50.25867,
    ),
    Known(
        "nonconvex", "target", 2.0, {},
        (0.24473343969384587, 0.15369535469780435, 7.968001687310049),
        (0.5939482887886642, 0.19096379224891877, 0.005728355521241467),
        [0.4780301, 0.4033334, 0.5719053, -0.1115563],
        53.9757,
    ),
    Known(
        "nonconvex", "source", 2.0, {"steps": "paper", "output": "last", "kappa_inf": 0.5},
        (0.21456742465761636, 0.04251631701909641, 10.947614177129639),
        (3.816979048553976, 3.816979048553977e-06, 0.00016365297670675166),
        [0.8124534, -0.06869974, 0.5472331, 0.1890393],
        50.00554,
    ),
    Known(
        "nonconvex", "source", 1.0, {"radius": 5.0, "norm": 2.0, "kappa_2": 0.2},
        (3.6961837543549336, 0.23116975392391984, 241.53465856270444),
        (1.0, 0.00018897307214779858, 0.03392489129411671),
        [0.4731761, 0.7609394, 0.8028889, -0.4023333],
        54.22105,
    ),
]
# fmt: on


@for_each("known", KNOWN, ids=lambda known: f"{known.kind}-{known.private}-{known.mu}-{known.settings}")
def test_known_runs(known: Known) -> None:
    given = domains(private=known.private, labels=known.kind == "nonconvex")
    source, settings = RandomSource.seeded(1), {"alpha": 0.3, "iterations": 30, **known.settings}
    if known.kind == "convex":
        chosen = algorithms.ConvexSettings(**settings)
        prepared = prepare(given, chosen, known.mu, source)
        printed = algorithms.convex_steps(chosen, prepared)
        found = algorithms.solve_convex(given, chosen, known.mu, source)
        steps = printed if chosen.steps == "paper" else scaled_steps(chosen, prepared)
    else:
        other = algorithms.NonconvexSettings(**settings)
        prepared = prepare(given, other, known.mu, source)
        steps = algorithms.nonconvex_steps(other, prepared) if other.steps == "paper" else scaled_steps(other, prepared)
        found = algorithms.solve_nonconvex(given, other, known.mu, source)
    assert (prepared.discrepancy, *prepared.noise) == pytest.approx(known.prepared, rel=1e-10)
    assert tuple(steps) == pytest.approx(known.steps, rel=1e-10)
    assert found.weights.tolist() == pytest.approx(known.weights, rel=1e-4, abs=1e-5)
    assert found.scales.sum() == pytest.approx(known.scales, rel=1e-5)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_both_noises_are_added_as_they_were_calibrated(loss: str) -> None:
    # One short step, from where no scale can fall below 1: what varies from run to run is the noise.
    given = domains(private="source", labels=loss == "logistic")
    kind = algorithms.ConvexSettings if loss == "squared" else algorithms.NonconvexSettings
    chosen = kind(alpha=0.3, iterations=50)
    prepared = prepare(given, chosen, 1.0, RandomSource.seeded(1))
    plan = course(chosen, prepared, scaled_steps(chosen, prepared), 1, 0)
    short = replace(plan, step_weights=1e-9, steps_scales=(1e-9, 1e-9), discrepancy=1e6)
    runs = [descend(prepared.domains, chosen.bounds, short, RandomSource.seeded(seed)) for seed in range(300)]
    weights = np.std([run.weights for run in runs], axis=0) / 1e-9
    scales = np.std([run.scales for run in runs], axis=0) / 1e-9
    assert weights.mean() == pytest.approx(prepared.noise[0], rel=0.06)
    assert scales[: len(given.source)].mean() == pytest.approx(prepared.noise[1], rel=0.03)
    assert len({run.scales[len(given.source) :].tobytes() for run in runs}) == 1  # the public side has no noise


def test_known_bounds() -> None:
    squared, logistic = Bounds("squared", 2.0, 1.5), Bounds("logistic", 2.0, 1.5)
    assert (squared.most, squared.greatest, squared.width, squared.slope, squared.smoothness) == (4, 16, 16, 12, 4.5)
    assert (logistic.most, logistic.width, logistic.smoothness) == (3.0, 3.0, 0.5625)
    assert (logistic.greatest, logistic.slope) == pytest.approx(
        (3.048587351573742, 1.42886119023365), rel=1e-14, abs=0.0
    )


def test_known_sensitivities() -> None:
    given, bounds = domains(m=300, n=200), Bounds("squared", 1.0, 1.0)
    assert unit_of(bounds, given.shares(0.3)) == pytest.approx(3.726199793163687e-09, rel=1e-14, abs=0.0)
    assert sensitivities(bounds, given, 0.3) == pytest.approx(
        (0.028006904261127834, 4.000007629394531), rel=1e-14, abs=0.0
    )
    small = domains(m=3, n=2)
    assert unit_of(bounds, small.shares(0.3)) == pytest.approx(3.338675810677006e-07, rel=1e-14, abs=0.0)
    assert [sensitivity(given, radius, 1.5, "logistic") for radius in (1.0, 2.0)] == pytest.approx(
        [0.007500044703483581, 0.015625089406967163], rel=1e-14
    )
    assert sensitivity(given, 2.0, 1.5) == pytest.approx(0.0800004768371582, rel=1e-14, abs=0.0)


def test_the_chord_is_never_above_the_tangent() -> None:
    # Near 0 it is the quotient of two rounding errors, and at this first score would be above.
    for scores in [0.00010046157902783947, *(10.0 ** (-k / 16.0) for k in range(-32, 97))]:
        tangent, chord = curvatures(scores)
        assert tangent == 0.125
        assert 0.0 <= chord <= tangent
    assert curvatures(3.0)[1] == pytest.approx(0.09504890789042186, rel=1e-14, abs=0.0)
    assert curvatures(5e-5)[1] == 0.0


def test_the_discrepancys_part_of_mu_and_the_others_are_all_of_it() -> None:
    first, rest = split(algorithms.ConvexSettings(alpha=0.3, discrepancy_share=0.2), 2.0)
    assert first**2 + rest**2 <= 4.0
    assert (first, rest) == pytest.approx((2.0 * 0.2**0.5, 2.0 * 0.8**0.5), rel=4e-15, abs=0.0)
    assert first < 2.0 * 0.2**0.5
    assert rest < 2.0 * 0.8**0.5


def test_the_private_discrepancy_lies_on_its_public_grid() -> None:
    # The value and the noise are whole multiples of one unit: 2^-40 of the greatest loss, here 9.
    for seed in range(5):
        found = private_discrepancy(domains(), 1.0, 2.0, 1.0, RandomSource.seeded(seed))
        assert found / (9.0 * 2.0**-40) == round(found / (9.0 * 2.0**-40))
    assert found != 0.0


def test_a_discrepancy_of_a_domain_with_itself_is_nothing() -> None:
    given = domains()
    assert discrepancy(type(given)(given.source, given.source), 1.0, 1.0).value == pytest.approx(0.0, abs=1e-12)
