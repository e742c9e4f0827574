"""Numbers of the tests and intervals to their last places: they decide how many people are asked.

That they are right is shown elsewhere, by the rates of errors that they promise. Those tests leave room; here a weight,
a slack or a border that moves shows. Whoever changes one changes its numbers here, knowingly.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from common.local.mechanisms.mechanism import Mechanism, parse_mechanism
from common.statistics import evidence
from common.statistics.evidence import SequentialTest
from common.statistics.intervals import estimate
from tests.tiers import for_each


def made(**settings: float | str) -> Mechanism:
    mechanism = parse_mechanism(settings)
    assert isinstance(mechanism, Mechanism)
    return mechanism


WARNER, LAPLACE = made(name="warner", epsilon=1.0), made(name="laplace", epsilon=1.0)
NORMAL = made(name="gaussian", epsilon=0.5, delta=1e-4)
MECHANISMS = (WARNER, LAPLACE, NORMAL)
TEST = (0.16, 0.32, 5e-5)


def both(mechanism: Mechanism) -> evidence.EProcesses:
    return evidence.gather(mechanism, *TEST[:2])


KNOWN: list[tuple[Callable[[Any], float], tuple[float, float, float]]] = [
    (lambda m: evidence.worst_case(m, *TEST), (3880, 7385, 280404)),
    (lambda m: evidence.fixed_size(m, *TEST), (3404, 6478, 245973)),
    (lambda m: evidence.typical(m, *TEST, 0.5), (235, 447, 16748)),
    (lambda m: evidence.typical(m, *TEST, 0.01), (262, 510, 19170)),
    (lambda m: evidence.typical(m, *TEST, 0.24), (3783, 7384, 280403)),
    (lambda m: both(m).middle, (0.23898885325873137, 0.24, 0.24)),
    (lambda m: both(m).rate, (0.00291059422157796, 0.0015290443814997717, 4.026276465631321e-05)),
    (lambda m: both(m).above.log_value(125.0, 250), (11.167084918108518, 5.388769378192263, 0.08510092107078798)),
    (lambda m: both(m).above.log_value(80.0, 250), (-2.851437085685193, 0.7941175413435323, -0.07544908372226229)),
    (lambda m: both(m).below.log_value(40.0, 250), (28.260156455969643, 1.186072210584592, 0.02835170420754691)),
    (lambda m: both(m).below.log_value(70.0, 250), (8.898083140992698, -0.6590277532303175, -0.03633558494289789)),
    (lambda m: both(m).above.slack(1e5, 3e5), (2.5076612477688614e-08, 5.600542512148512e-09, 4.30540961923292e-09)),
    (lambda m: both(m).below.slack(1e5, 3e5), (1.944672364959773e-08, 4.580263186290684e-09, 4.272724505340903e-09)),
    (lambda m: len(both(m).above.weights), (8, 8, 8)),
    (lambda m: both(m).below.weights[-1], (0.1875, 0.1875, 0.1875)),
    (lambda m: both(m).above.slopes[-1], (1.6504853793718257, 0.3533838098782465, 0.010568975681712398)),
    (lambda m: both(m).below.offsets[-1], (-0.22599583875271995, -0.02421516700058308, -0.0006442042345010114)),
    (lambda m: estimate(m, 130.0, 400, 0.95).value, (0.12130815259573544, 0.325, 0.325)),
    (lambda m: estimate(m, 130.0, 400, 0.95).low, (0.0, 0.03579834408283206, 0.0)),
    (lambda m: estimate(m, 130.0, 400, 0.95).high, (0.3064988689959173, 0.614201655916986, 1.0)),
    (lambda m: estimate(m, 130.0, 400, 0.95, 9).low, (0.0, 0.0, 0.0)),
    (lambda m: estimate(m, 250.0, 400, 0.8).high, (0.9280501618446466, 0.884570142751727, 1.0)),
    (lambda m: estimate(m, 40000.0, 100000, 0.99).low, (0.268209635980763, 0.3787307415397663, 0.26887347939336903)),
    (lambda m: estimate(m, 40000.0, 100000, 0.99).high, (0.29906077256190805, 0.42126925846041574, 0.5311265206068131)),
]
"""What each is for Warner's bit, for Laplace noise and for Gaussian noise."""
SINGLE: list[tuple[Callable[[], float], float]] = [
    (lambda: evidence.best_rate(LAPLACE, 0.1), 0.04771185028661568),
    (lambda: evidence.best_rate(NORMAL, 0.1), 0.0012582113844809804),
    (lambda: estimate(WARNER, 0.0, 30, 0.95).low, 0.0),
    (lambda: estimate(WARNER, 0.0, 30, 0.95).high, 0.0),
    (lambda: estimate(WARNER, 30.0, 30, 0.95).low, 1.0),
    (lambda: evidence.kl(0.3, 0.4), 0.02160085414354654),
    (lambda: evidence.needed(0.05), 2.995732273553991),
]


@for_each(
    ("number", "known"),
    [*((partial(f, m), n) for f, ns in KNOWN for m, n in zip(MECHANISMS, ns, strict=True)), *SINGLE],
)
def test_known_numbers(number: Callable[[], float], known: float) -> None:
    assert number() == pytest.approx(known, rel=2e-14, abs=1e-18)


def test_where_nothing_is_gained_the_worst_case_is_typical(monkeypatch: pytest.MonkeyPatch) -> None:
    # Told truly, a mean of 1/2 neither raises nor lowers exp(2 total - count).
    flat = evidence.EProcess(weights=(1.0,), slopes=(2.0,), offsets=(1.0,), condition=1.0)
    monkeypatch.setattr(evidence, "gather", lambda *asked: evidence.EProcesses(flat, flat, middle=0.5, rate=0.01))
    told = made(name="none")
    assert evidence.typical(told, 0.2, 0.4, 0.05, 0.5) == evidence.worst_case(told, 0.2, 0.4, 0.05) == 440
    assert evidence.typical(told, 0.2, 0.4, 0.05, 0.51) == 150


def test_the_sequential_test_asks_for_half_of_what_came_and_for_no_more_than_is_left() -> None:
    test = SequentialTest(WARNER, 0.16, 0.32, 5e-5)
    assert test.next_batch(100) == 100
    asked = []
    while test.verdict is None:
        asked.append(test.next_batch(101))
        # Ones as with a loss of 0.2372, near which neither null falls fast.
        ones = round(0.37855 * (test.count + asked[-1]))
        test.update(total=ones - round(test.total), count=asked[-1])
    assert asked == [101, 51, 76, 114, 171, 257, 385, 578, 867, 1280]
    assert test.count == test.worst_case
    assert test.next_batch(100) == 0
