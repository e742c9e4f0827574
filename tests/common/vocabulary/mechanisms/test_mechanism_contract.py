"""What every registered mechanism for a value in [0, 1] must keep, and the known answers of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, PolicyRefused
from common.numerics.randomness import RandomSource
from common.vocabulary.mechanisms.base import GRID, MECHANISMS, BitMechanism, Mechanism, bounded, parse_mechanism
from common.vocabulary.mechanisms.gaussian import Gaussian
from common.vocabulary.mechanisms.laplace import Laplace
from common.vocabulary.mechanisms.none import NoMechanism
from common.vocabulary.mechanisms.warner import Warner

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "warner": [{"epsilon": 0.1}, {"epsilon": 1.0}, {"epsilon": 3.0}, {"epsilon": 700.0}],
    "none": [{}],
    "laplace": [{"epsilon": 0.25}, {"epsilon": 1.0}, {"epsilon": 8.0}],
    "gaussian": [
        {"epsilon": 0.5, "delta": 1e-4},
        {"epsilon": 4.0, "delta": 1e-6, "calibration": "analytic"},
    ],
}
OF_VALUES = [name for name, kind in MECHANISMS.items() if issubclass(kind, Mechanism)]
EACH = [{"name": name, **settings} for name in OF_VALUES for settings in SETTINGS[name]]
VALUES = [0.0, 1.0, 0.3, 1.0 - 2.0**-53]
PEOPLE = 100_000
# Means and variances are compared at 5.5 standard errors: 4e-8 each, below 4e-6 over the file.
SIGMAS = 5.5


@pytest.fixture(params=EACH, ids=str)
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    return parse_mechanism(request.param)


def draw(mechanism: Mechanism, values: Any, seed: int = 7) -> Any:
    return mechanism.randomize(values, RandomSource.seeded(seed, str(mechanism)))


def likelihoods(mechanism: Mechanism, value: float) -> dict[float, float]:
    """The exact law of one answer, from the parameters and the definition in the docstring."""
    if isinstance(mechanism, BitMechanism):
        # What the sampler compares a uniform 53-bit integer with, in integers.
        low = GRID - int(mechanism.truth * GRID)
        ones = low + round(value * (GRID - 2 * low))
        return {1: ones / GRID, 0: (GRID - ones) / GRID}
    assert isinstance(mechanism, Laplace)
    q = mechanism.ratio
    noise = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-41, 42)}
    return {z: value * noise[z - 1] + (1 - value) * noise[z] for z in range(-40, 42)}


@pytest.mark.parametrize("value", VALUES)
def test_answers_are_unbiased_and_vary_as_much_as_stated(mechanism: Mechanism, value: float) -> None:
    answers = draw(mechanism, np.full(PEOPLE, value))
    assert answers.shape == (PEOPLE,)
    estimates = mechanism.unbias(answers)
    stated = mechanism.variance(value)
    assert estimates.mean() == pytest.approx(value, abs=SIGMAS * math.sqrt(stated / PEOPLE) + 1e-15)
    spread = (estimates - value) ** 2
    error = SIGMAS * math.sqrt(max(spread.var(), stated * stated) / PEOPLE) + 1e-12
    # Rare answers (a bit that is almost never 1) have no normal limit: allow for a few of them.
    rare = 40.0 * spread.max() / PEOPLE if spread.size else 0.0
    assert spread.mean() == pytest.approx(stated, abs=error + (rare if stated * PEOPLE < 50 else 0.0))


def test_kind_of_answers_is_as_declared(mechanism: Mechanism) -> None:
    answers = draw(mechanism, np.linspace(0, 1, 1000))
    if mechanism.answers == "bit":
        assert answers.dtype == np.uint8
        assert set(np.unique(answers)) <= {0, 1}
    else:
        assert answers.dtype == np.float64
        assert np.isfinite(answers).all()


@pytest.mark.parametrize("name", [n for n in OF_VALUES if n != "gaussian"])
def test_guarantee_holds_for_the_exact_law_of_the_sampler(name: str) -> None:
    for settings in SETTINGS[name]:
        mechanism = parse_mechanism({"name": name, **settings})
        epsilon, delta = mechanism.guarantee
        if delta == 1.0:
            continue
        for value in (0.0, 0.25, 1.0):
            for other in (0.0, 0.7, 1.0):
                first, second = likelihoods(mechanism, value), likelihoods(mechanism, other)
                worst = max(math.log(first[a] / second[a]) for a in first if second[a] > 0)
                assert worst <= epsilon * (1 + 1e-12)


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


def test_bits_and_floats_have_the_same_law() -> None:
    bits = np.arange(PEOPLE, dtype=np.uint8) % 2
    for mechanism in (Warner(epsilon=1.0), NoMechanism()):
        for values in (bits, bits.astype(np.float64)):
            answers = draw(mechanism, values)
            for bit in (0, 1):
                share = answers[bits == bit].mean()
                expected = mechanism.truth if bit else 1 - mechanism.truth
                assert share == pytest.approx(expected, abs=SIGMAS / math.sqrt(2 * PEOPLE))


def test_a_byte_above_one_counts_as_one() -> None:
    assert draw(NoMechanism(), np.array([0, 1, 2, 255], dtype=np.uint8)).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("hostile", "as_if"), [(math.nan, 0.0), (-5.0, 0.0), (math.inf, 1.0), (-math.inf, 0.0), (1e300, 1.0)]
)
def test_hostile_values_are_clamped_and_still_randomized(mechanism: Mechanism, hostile: float, as_if: float) -> None:
    assert bounded(np.array([hostile]))[0] == as_if
    given, clamped = (draw(mechanism, np.full(5_000, v)) for v in (hostile, as_if))
    np.testing.assert_array_equal(given, clamped)
    if mechanism.guarantee[0] <= 8:
        assert len(np.unique(given)) > 1


def test_each_answer_is_fresh(mechanism: Mechanism) -> None:
    source = RandomSource.seeded(3)
    values = np.full(2_000, 0.5)
    assert (mechanism.randomize(values, source) != mechanism.randomize(values, source)).any()


def test_items_are_refused(mechanism: Mechanism) -> None:
    assert mechanism.answer_kind(None) == mechanism.answers
    with pytest.raises(PolicyRefused, match=r"randomizes a value in .*, the query says one of 16 items"):
        mechanism.answer_kind(16)


def test_empty_batch(mechanism: Mechanism) -> None:
    assert len(draw(mechanism, np.empty(0))) == 0


def test_wire_round_trip(mechanism: Mechanism) -> None:
    again = parse_mechanism(mechanism.wire())
    assert again == mechanism
    np.testing.assert_array_equal(draw(again, np.full(100, 0.5)), draw(mechanism, np.full(100, 0.5)))


@pytest.mark.parametrize("rate", [-3.0, -0.1, 0.05, 0.4, 3.0])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_log_mgf_bounds_the_moments(mechanism: Mechanism, rate: float, value: float) -> None:
    bound = mechanism.log_mgf(rate)
    if isinstance(mechanism, Gaussian):
        exact = rate**2 * mechanism.sigma**2 / 2
    elif math.isinf(bound):
        assert abs(rate) >= -math.log(mechanism.ratio)  # type: ignore[attr-defined]  # laplace alone has such rates
        return
    else:
        law = likelihoods(mechanism, value)
        points = mechanism.unbias(np.array(list(law)))
        exact = math.log(math.fsum(p * math.exp(rate * (x - value)) for x, p in zip(points, law.values(), strict=True)))
    assert exact <= bound + 1e-12


@pytest.mark.parametrize(
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
