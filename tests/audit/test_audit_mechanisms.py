"""Agents' mechanisms pass the audit, and twins that are broken on purpose do not.

Each audit claims too much with probability at most 1e-6; seeds are fixed.
"""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from benchmarks.audits.adaptation_cases import SMALL, person
from common.core.arrays import AnyArray, Bits, Words
from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.mechanism import MECHANISMS, Mechanism, parse_mechanism
from common.numerics.randomness import RandomSource
from common.privacy.auditing import AuditFinding, Subject, audit
from common.privacy.theorems.gaussian_dp import delta_of, joint_step, mu_allowed
from curator.learners.adaptation import ConvexSettings, solve

pytestmark = pytest.mark.slow

RUNS = 200_000
BITS = (np.uint8(0), np.uint8(1))
REALS = (0.0, 1.0)


def once(mechanism: Mechanism) -> Any:
    def subject(value: Any, runs: int, source: RandomSource) -> AnyArray:
        return mechanism.randomize(np.full(runs, value), source)

    return subject


def test_a_fresh_answer_on_every_retry_is_caught() -> None:
    warner: Any = parse_mechanism({"name": "warner", "epsilon": 1.0})

    def twin(value: Any, runs: int, source: RandomSource) -> AnyArray:
        return warner.randomize(np.full(2 * runs, value), source).reshape(runs, 2)

    assert audit(twin, BITS, RandomSource.seeded(3), runs=RUNS).epsilon > 1.8


def test_values_that_nobody_clamped_are_caught() -> None:
    def twin(value: float, runs: int, source: RandomSource) -> AnyArray:
        noise = np.random.default_rng(int(source.words(1)[0])).laplace(0.0, 1.0, runs)
        return value + noise

    assert audit(twin, (0.0, 1.0), RandomSource.seeded(7), runs=RUNS).epsilon <= 1.0
    assert audit(twin, (0.0, 3.0), RandomSource.seeded(7), runs=RUNS).epsilon > 1.0


def test_a_rare_leak_is_charged_to_delta() -> None:
    def leak(value: float, runs: int, source: RandomSource) -> AnyArray:
        return np.where(source.bernoullis(0.02, runs), 1.0 + value, 0.0)

    assert audit(leak, REALS, RandomSource.seeded(10), runs=RUNS, delta=0.02).epsilon == 0.0
    assert audit(leak, REALS, RandomSource.seeded(10), runs=RUNS, delta=0.001).epsilon > 3.0


def test_an_output_that_is_not_finite_is_an_output_like_any_other() -> None:
    def crash(value: float, runs: int, source: RandomSource) -> AnyArray:
        return np.full(runs, math.nan if value else math.inf)

    assert audit(crash, REALS, RandomSource.seeded(11), runs=2000).epsilon > 4.0


ORACLES = [name for name, kind in MECHANISMS.items() if issubclass(kind, FrequencyOracle)]
DOMAIN = 8
INPUTS = (2, 5)


class Truthful(RandomSource):
    """Coins that always say that the truth is told."""

    def bernoullis(self, probability: float, count: int) -> Bits:
        return np.ones(count, dtype=np.uint8)


def made(name: str, epsilon: float) -> FrequencyOracle:
    oracle = parse_mechanism({"name": name, "epsilon": epsilon})
    assert isinstance(oracle, FrequencyOracle)
    return oracle


def truth(oracle: FrequencyOracle, item: int, words: Words) -> AnyArray:
    """What agents with this item would say without noise: a function that everybody knows."""
    items = np.full(len(words), item, dtype=np.uint64)
    return oracle.randomize(items, DOMAIN, words, Truthful(bytes(32), simulated=True))


def same(word: int) -> Callable[[FrequencyOracle, int], Words]:
    return lambda oracle, runs: np.full(runs, word, dtype=np.uint64)


def separating(oracle: FrequencyOracle, runs: int) -> Words:
    """The same word for everybody, chosen so that the two inputs are not one and the same truth."""
    words = np.arange(100, dtype=np.uint64)
    apart = np.flatnonzero(truth(oracle, INPUTS[0], words) != truth(oracle, INPUTS[1], words))
    return np.full(runs, apart[0], dtype=np.uint64)


def drawn(oracle: FrequencyOracle, runs: int) -> Words:
    """As a referee draws them."""
    return public_words(7, np.arange(runs))


WORDS = {"all zero": same(0), "all ones": same((1 << 64) - 1), "separating": separating, "drawn": drawn}


def view(oracle: FrequencyOracle, answers: AnyArray, words: Words) -> AnyArray:
    """What an adversary makes of an answer and a word: 1 and -1 where it fits one of the inputs and not the other."""
    fits = [(answers == truth(oracle, item, words)).astype(np.int64) for item in INPUTS]
    return fits[0] - fits[1]


def told(oracle: FrequencyOracle, words: Callable[[FrequencyOracle, int], Words]) -> Subject:
    """An answer as the adversary sees it."""

    def subject(item: int, runs: int, source: RandomSource) -> AnyArray:
        known = words(oracle, runs)
        answers = oracle.randomize(np.full(runs, item, dtype=np.uint64), DOMAIN, known, source)
        return view(oracle, answers, known)

    return subject


def found(subject: Subject, inputs: tuple[Any, Any] = INPUTS) -> AuditFinding:
    return audit(subject, inputs, RandomSource.seeded(1, "frequencies"), runs=RUNS)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(("epsilon", "words"), [*product([1.0], WORDS), (0.5, "separating"), (3.0, "separating")])
def test_oracles_pass_and_where_a_word_separates_the_audit_comes_close(name: str, epsilon: float, words: str) -> None:
    oracle = made(name, epsilon)
    measured = found(told(oracle, WORDS[words])).epsilon
    assert measured <= epsilon
    if words == "separating":
        assert measured > 0.97 * epsilon - 0.12


@pytest.mark.parametrize("name", ORACLES)
def test_the_answers_themselves_pass(name: str) -> None:
    oracle = made(name, 1.0)

    def subject(item: int, runs: int, source: RandomSource) -> AnyArray:
        return oracle.randomize(np.full(runs, item, dtype=np.uint64), DOMAIN, separating(oracle, runs), source)

    for inputs in ((2, 5), (0, DOMAIN - 1), (3, (1 << 64) - 1)):
        assert found(subject, inputs).epsilon <= 1.0


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("words", ["separating", "drawn"])
def test_a_truth_without_noise_or_too_often_is_caught(name: str, words: str) -> None:
    """A hash is no secret: it hides the item from nobody who knows the public word."""
    oracle = made(name, 1.0)

    def twin(item: int, runs: int, source: RandomSource) -> AnyArray:
        known = WORDS[words](oracle, runs)
        return view(oracle, truth(oracle, item, known), known)

    assert found(twin).epsilon > 8.0
    assert words == "drawn" or found(told(made(name, 1.15), separating)).epsilon > 1.0  # the truth too often


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("words", ["separating", "drawn"])
def test_coins_that_depend_on_the_public_words_are_caught(name: str, words: str) -> None:
    oracle = made(name, 1.0)

    def coins(known: Words) -> RandomSource:
        return RandomSource.seeded(int(known[0]))

    def twin(item: int, runs: int, source: RandomSource) -> AnyArray:
        known = WORDS[words](oracle, runs)
        answers, guess = (
            oracle.randomize(np.full(runs, held, dtype=np.uint64), DOMAIN, known, coins(known))
            for held in (item, INPUTS[0])
        )
        return answers == guess

    assert found(twin).epsilon > 8.0


def test_a_lie_that_may_be_the_truth_is_caught() -> None:
    """k-ary response that draws "another" item from all k of them: the truth is told with p + (1 - p)/k."""
    oracle = made("krr", 1.0)
    p = oracle.rates(DOMAIN)[0]

    def twin(item: int, runs: int, source: RandomSource) -> AnyArray:
        honest = source.bernoullis(p, runs) == 1
        return np.where(honest, item, source.integers(DOMAIN, runs))

    assert found(twin).epsilon > 1.2


@pytest.mark.parametrize("name", ORACLES)
def test_a_second_answer_under_another_word_is_caught(name: str) -> None:
    """An agent that answers again, because the public word is another one, has spent twice."""
    oracle = made(name, 1.0)

    def twin(item: int, runs: int, source: RandomSource) -> AnyArray:
        words = separating(oracle, runs)
        return sum(told(oracle, lambda *_: words)(item, runs, source) for _ in range(2))  # type: ignore[return-value]

    assert found(twin).epsilon > 1.5


EPSILON, DELTA, ADAPTATION_RUNS = 36.0, 0.01, 600


def separation(calibration: str, whole: float) -> tuple[float, float]:
    """Return a lower and an upper estimate, four standard errors apart from the measured one, of one step's mu."""
    common = {"alpha": 0.5, "radius": SMALL, "kappa_2": 0.0, "iterations": 1, "scales_share": 0.1}
    settings = ConvexSettings.parse({**common, "steps": "paper", "calibration": calibration})
    source = RandomSource.seeded(1, "separation")

    def weight(side: int, run: int) -> float:
        people = person(1.0, (1.0, -1.0)[side])
        return float(solve(people, settings, whole, source.derive(side, run)).weights[0])

    drawn = np.array([[weight(side, run) for run in range(ADAPTATION_RUNS)] for side in (0, 1)])
    spread = float(np.sqrt(drawn.var(axis=1).mean()))
    found = abs(float(drawn[0].mean() - drawn[1].mean())) / spread
    error = math.sqrt(2 / ADAPTATION_RUNS + found**2 / (4 * ADAPTATION_RUNS))
    return found - 4 * error, found + 4 * error


def test_the_printed_noise_leaks_at_an_epsilon_of_36() -> None:
    printed = EPSILON / math.sqrt(2 * math.log(3 / DELTA))
    low, high = separation("paper", printed / math.sqrt(0.95))
    assert high > printed / math.sqrt(2) * 0.99 > low  # half of mu^2, nearly the worst pair
    assert delta_of(low, EPSILON) > DELTA  # by w alone; with the private scales' half it would be .968
    assert delta_of(printed, EPSILON) > 0.96


def test_the_exact_noise_keeps_its_delta() -> None:
    mu = mu_allowed(EPSILON, DELTA)
    low, high = separation("tight", mu)
    assert low > 0.85 * mu * math.sqrt(0.95)  # little of the budget is left unused
    assert low <= mu
    assert joint_step(1.0, 0.693) <= 1.0 + 1e-9  # and the private scales' noise comes with it
    assert delta_of(low, EPSILON) <= DELTA
    assert high < 1.1 * mu


@pytest.mark.parametrize(
    ("epsilon", "inputs"),
    [*product([0.1, 0.5, 1.0, 3.0], [BITS]), *product([1.0], [REALS, (-5.0, math.inf), (math.nan, 1.0)])],
)
def test_randomized_response_passes_and_the_audit_comes_close(epsilon: float, inputs: tuple[Any, Any]) -> None:
    warner = parse_mechanism({"name": "warner", "epsilon": epsilon})
    found = audit(once(warner), inputs, RandomSource.seeded(1, "warner"), runs=RUNS)
    assert 0.98 * epsilon - 0.1 < found.epsilon <= epsilon
