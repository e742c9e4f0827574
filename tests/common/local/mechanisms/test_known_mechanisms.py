"""Known answers of the shipped mechanisms for a value in [0, 1], and what parameters they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, PolicyRefused
from common.local.mechanisms.gaussian import Gaussian
from common.local.mechanisms.laplace import Laplace
from common.local.mechanisms.mechanism import GRID, parse_mechanism
from common.local.mechanisms.none import NoMechanism
from common.local.mechanisms.warner import Warner
from common.numerics.randomness import RandomSource
from tests.common.local.mechanisms.laws import PEOPLE, SIGMAS, draw, likelihoods
from tests.tiers import for_each

RATES = [-3.0, -0.1, 0.05, 0.4, 3.0]


@for_each("laplace", Laplace.example(), ids=str)
def test_the_guarantee_of_laplace_holds_for_the_exact_law_of_the_sampler(laplace: Laplace) -> None:
    for value in (0.0, 0.25, 1.0):
        for other in (0.0, 0.7, 1.0):
            first, second = likelihoods(laplace, value), likelihoods(laplace, other)
            worst = max(math.log(first[a] / second[a]) for a in first if second[a] > 0)
            assert worst <= laplace.epsilon * (1 + 1e-12)


def test_warner_guarantee_is_not_loose() -> None:
    for epsilon in (0.01, 0.5, 1.0, 5.0):
        law, other = (likelihoods(Warner(epsilon=epsilon), v) for v in (1.0, 0.0))
        assert math.log(law[1] / other[1]) == pytest.approx(epsilon, rel=1e-10)


def test_sampler_follows_that_exact_law() -> None:
    for mechanism in (Warner(epsilon=1.0), Laplace(epsilon=1.0)):
        answers = draw(mechanism, np.full(PEOPLE, 0.4))
        for answer, probability in likelihoods(mechanism, 0.4).items():
            expected = probability * PEOPLE
            if expected > 100:
                assert np.count_nonzero(answers == answer) == pytest.approx(expected, abs=SIGMAS * math.sqrt(expected))


def test_a_byte_above_one_counts_as_one() -> None:
    assert draw(NoMechanism(), np.array([0, 1, 2, 255], dtype=np.uint8)).tolist() == [0, 1, 1, 1]


@for_each("rate", RATES)
@for_each("value", [0.0, 0.5, 1.0])
@for_each("laplace", Laplace.example(), ids=str)
def test_the_log_mgf_of_laplace_bounds_its_moments(laplace: Laplace, rate: float, value: float) -> None:
    bound = laplace.log_mgf(rate)
    if math.isinf(bound):
        assert abs(rate) >= -math.log(laplace.ratio)
        return
    law = likelihoods(laplace, value)
    points = laplace.unbias(np.array(list(law)))
    exact = math.log(math.fsum(p * math.exp(rate * (x - value)) for x, p in zip(points, law.values(), strict=True)))
    assert exact <= bound + 1e-12


@for_each("rate", RATES)
@for_each("gaussian", Gaussian.example(), ids=str)
def test_the_log_mgf_of_gaussian_bounds_its_moments(gaussian: Gaussian, rate: float) -> None:
    assert rate**2 * gaussian.sigma**2 / 2 <= gaussian.log_mgf(rate) + 1e-12


@for_each(
    "wire",
    [
        None,
        7,
        {"name": "unheard-of"},
        {"name": ["warner"], "epsilon": 1.0},
        {"name": "warner"},
        {"name": "warner", "epsilon": 0.0},
        {"name": "warner", "epsilon": -1.0},
        {"name": "warner", "epsilon": 1e-9},
        {"name": "warner", "epsilon": math.inf},
        {"name": "warner", "epsilon": math.nan},
        {"name": "warner", "epsilon": 701},
        {"name": "warner", "epsilon": 1.0, "truth": 0.9},
        {"name": "none", "epsilon": 1.0},
        {"name": "laplace", "epsilon": 1e-5},
        {"name": "laplace", "epsilon": 31},
        {"name": "gaussian", "epsilon": 0.5},
        {"name": "gaussian", "epsilon": 0.5, "delta": 0.0},
        {"name": "gaussian", "epsilon": 0.5, "delta": 1.0},
        {"name": "gaussian", "epsilon": 8.51, "delta": 1e-3},
        {"name": "gaussian", "epsilon": 1.01, "delta": 1e-3, "calibration": "paper"},
        {"name": "gaussian", "epsilon": 1.0, "delta": 1e-3, "calibration": "hope"},
    ],
    ids=str,
)
def test_hostile_parameters_are_refused(wire: Any) -> None:
    with pytest.raises(BadMessage):
        parse_mechanism(wire)


def test_warner_known_answers() -> None:
    mechanism = Warner(epsilon=1.0)
    assert mechanism.truth == pytest.approx(0.731058578630005, abs=1e-15)
    np.testing.assert_allclose(mechanism.unbias(np.array([0, 1])), [-0.581976706869326, 1.58197670686933], rtol=1e-13)
    assert mechanism.variance(0.0) == pytest.approx(0.920673594207792, rel=1e-13)
    assert mechanism.variance(1.0) == pytest.approx(0.920673594207792, rel=1e-13)


def test_worst_case_variances_at_one_half() -> None:
    warner = Warner(epsilon=0.5)
    assert max(warner.variance(v) for v in np.linspace(0, 1, 101)) == pytest.approx(4.17, abs=0.005)
    laplace = Laplace(epsilon=0.5)
    assert max(laplace.variance(v) for v in np.linspace(0, 1, 101)) < 2 / 0.5**2 + 0.25 == 8.25
    # The paper's, for a 0/1 loss: the noise and the loss's own variance, 1/4 at most.
    assert Gaussian(epsilon=0.5, delta=1e-4).variance(0.5) + 0.25 == pytest.approx(79.5, abs=0.05)


def test_discrete_laplace_tends_to_laplace() -> None:
    assert Laplace(epsilon=0.001).variance(0.0) == pytest.approx(2e6, rel=1e-6)


def test_truth_is_rounded_to_the_private_side() -> None:
    for epsilon in np.geomspace(1e-6, 700, 200):
        truth = Warner(epsilon=float(epsilon)).truth
        assert truth * GRID == int(truth * GRID)
        assert 0.5 < truth < 1.0
        assert math.log(truth / (1 - truth)) <= epsilon * (1 + 1e-9)


def test_gaussian_refuses_real_people() -> None:
    with pytest.raises(PolicyRefused):
        Gaussian(epsilon=0.5, delta=1e-4).randomize(np.zeros(1), RandomSource.secure())


@for_each("mechanism", Laplace.example(), ids=str)
def test_nothing_is_said_to_leave_of_an_item_that_laplace_does_not_randomize(mechanism: Laplace) -> None:
    assert "whole number" in mechanism.leaves(None)
    with pytest.raises(PolicyRefused, match="says one of 5 items"):
        mechanism.leaves(5)
