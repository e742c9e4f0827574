"""What every registered mechanism for a value in [0, 1] must keep; a new one is tested on its own examples.

Known answers of the shipped ones stand in ``test_known_mechanisms.py``.
"""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, PolicyRefused
from common.local.mechanisms.mechanism import MECHANISMS, BitMechanism, Laplace, Mechanism, bounded, parse_mechanism
from common.numerics.randomness import RandomSource
from common.privacy.auditing import audit
from tests.common.local.mechanisms.laws import PEOPLE, SIGMAS, draw, likelihoods
from tests.contracts import examples, with_a_number_that_is_none
from tests.tiers import for_each

EACH = examples(MECHANISMS, lambda kind: issubclass(kind, Mechanism))
BITS = examples(MECHANISMS, lambda kind: issubclass(kind, BitMechanism))
EXACT = examples(MECHANISMS, lambda kind: issubclass(kind, (BitMechanism, Laplace)))
VALUES = [0.0, 1.0, 0.3, 1.0 - 2.0**-53]


@for_each("value", VALUES)
@for_each("mechanism", EACH)
def test_answers_are_unbiased_and_vary_as_much_as_stated(mechanism: Mechanism, value: float) -> None:
    answers = draw(mechanism, np.full(PEOPLE, value))
    assert (answers.shape, answers.dtype) == ((PEOPLE,), np.float64 if mechanism.answers == "real" else np.uint8)
    assert set(np.unique(answers)) <= {0, 1} if mechanism.answers == "bit" else np.isfinite(answers).all()
    estimates = mechanism.unbias(answers)
    stated = mechanism.variance(value)
    assert estimates.mean() == pytest.approx(value, abs=SIGMAS * math.sqrt(stated / PEOPLE) + 1e-15)
    spread = (estimates - value) ** 2
    error = SIGMAS * math.sqrt(max(spread.var(), stated * stated) / PEOPLE) + 1e-12
    # Rare answers (a bit that is almost never 1) have no normal limit: allow for a few of them.
    rare = 40.0 * spread.max() / PEOPLE if spread.size else 0.0
    assert spread.mean() == pytest.approx(stated, abs=error + (rare if stated * PEOPLE < 50 else 0.0))


@for_each("exact", EXACT)
def test_the_guarantee_holds_for_the_exact_law_of_the_sampler(exact: Mechanism) -> None:
    epsilon, delta = exact.guarantee
    if delta == 1.0:
        assert (epsilon, exact.for_real_people) == (math.inf, False)
        return
    for value, other in product((0.0, 0.25, 1.0), (0.0, 0.7, 1.0)):
        first, second = likelihoods(exact, value), likelihoods(exact, other)
        worst = max(math.log(first[a] / second[a]) for a in first if second[a] > 0)
        assert worst <= epsilon * (1 + 1e-12)


@for_each("bit_mechanism", BITS)
def test_a_bit_follows_that_exact_law_given_as_a_byte_or_as_a_number(bit_mechanism: BitMechanism) -> None:
    bits = np.arange(PEOPLE, dtype=np.uint8) % 2
    for values, expected in [
        (bits, {0: 1 - bit_mechanism.truth, 1: bit_mechanism.truth}),
        (bits.astype(np.float64), {0: 1 - bit_mechanism.truth, 1: bit_mechanism.truth}),
        (np.full(PEOPLE, 0.4), {0: likelihoods(bit_mechanism, 0.4)[1], 1: likelihoods(bit_mechanism, 0.4)[1]}),
    ]:
        answers = draw(bit_mechanism, values)
        for bit, share in expected.items():
            assert answers[bits == bit].mean() == pytest.approx(share, abs=SIGMAS / math.sqrt(2 * PEOPLE))


@for_each("mechanism", EACH)
def test_no_audit_shows_a_greater_epsilon_than_is_guaranteed(mechanism: Mechanism) -> None:
    epsilon, delta = mechanism.guarantee

    def answered(value: float, runs: int, source: RandomSource) -> Any:
        simulated = RandomSource.seeded(int(source.integers(1 << 30, 1)[0]), "audit")
        return mechanism.randomize(np.full(runs, value), simulated)

    found = audit(answered, (0.0, 1.0), RandomSource.seeded(11), runs=PEOPLE, delta=delta if delta < 1.0 else 0.0)
    assert found.epsilon <= epsilon


@for_each("bit_mechanism", BITS)
def test_a_byte_above_one_counts_as_one(bit_mechanism: BitMechanism) -> None:
    hostile, clamped = np.array([0, 1, 2, 255] * 500, dtype=np.uint8), np.array([0, 1, 1, 1] * 500, dtype=np.uint8)
    np.testing.assert_array_equal(draw(bit_mechanism, hostile), draw(bit_mechanism, clamped))


@for_each(("hostile", "as_if"), [(math.nan, 0.0), (-5.0, 0.0), (math.inf, 1.0), (-math.inf, 0.0), (1e300, 1.0)])
@for_each("mechanism", EACH)
def test_hostile_values_are_clamped_and_still_randomized(mechanism: Mechanism, hostile: float, as_if: float) -> None:
    assert bounded(np.array([hostile]))[0] == as_if
    given, clamped = (draw(mechanism, np.full(5_000, v)) for v in (hostile, as_if))
    np.testing.assert_array_equal(given, clamped)
    if mechanism.guarantee[0] <= 8:
        assert len(np.unique(given)) > 1


@for_each("mechanism", EACH)
def test_it_travels_and_takes_values_only(mechanism: Mechanism) -> None:
    assert parse_mechanism(mechanism.wire()) == mechanism
    for broken in ({**mechanism.wire(), "surprise": 1.0}, *with_a_number_that_is_none(mechanism.wire())):
        with pytest.raises(BadMessage):
            parse_mechanism(broken)
    assert mechanism.answer_kind(None) in (mechanism.answers, 2 * len(getattr(mechanism, "epsilons", ())))
    assert mechanism.leaves(None).startswith(("One ", "A whole number"))
    for ask in (mechanism.answer_kind, mechanism.leaves):
        with pytest.raises(PolicyRefused, match=r"randomizes a value in .*, the query says one of 16 items"):
            ask(16)
    assert len(draw(mechanism, np.empty(0))) == 0
    both = [mechanism.parse(mechanism.wire()) for _ in range(2)]
    for used in both:
        used.unbias(draw(used, np.full(3, 0.5)))
    assert both[0] == both[1]  # after use too: nothing is cached that has no equality


RATES = [-3.0, -0.1, 0.05, 0.4, 3.0]


@for_each("rate", RATES)
@for_each("value", [0.0, 0.5, 1.0])
@for_each("exact", EXACT)
def test_log_mgf_bounds_the_moments_of_the_exact_law(exact: Mechanism, rate: float, value: float) -> None:
    bound, law = exact.log_mgf(rate), likelihoods(exact, value)
    if math.isinf(bound):
        assert isinstance(exact, Laplace)
        assert abs(rate) >= -math.log(exact.ratio)
        return
    points = exact.unbias(np.array(list(law)))
    moments = math.log(math.fsum(p * math.exp(rate * (x - value)) for x, p in zip(points, law.values(), strict=True)))
    assert moments <= bound + 1e-12


@for_each("rate", RATES)
@for_each("value", [0.0, 0.5, 1.0])
@for_each("mechanism", EACH)
def test_log_mgf_bounds_the_moments_that_are_seen(mechanism: Mechanism, rate: float, value: float) -> None:
    bound = mechanism.log_mgf(rate)
    if math.isinf(bound) or bound > 100.0:  # no sample can contradict it
        return
    moments = np.exp(rate * (mechanism.unbias(draw(mechanism, np.full(PEOPLE, value))) - value))
    assert moments.mean() - SIGMAS * moments.std() / math.sqrt(PEOPLE) <= math.exp(bound) * (1 + 1e-12)
