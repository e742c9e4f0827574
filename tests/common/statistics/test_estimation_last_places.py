"""Numbers of the tests and intervals to their last places: they decide how many people are asked.

That they are right is shown elsewhere, by the rates of errors that they promise. Those tests leave room; here a weight,
a slack or a border that moves shows. Whoever changes one changes its numbers here, knowingly.
"""

from collections.abc import Callable

import pytest

from common.local.mechanisms.mechanism import Mechanism, parse_mechanism
from common.statistics import evidence
from common.statistics.evidence import FixedTest, SequentialTest
from common.statistics.intervals import estimate
from tests.tiers import for_each


def made(**settings: float | str) -> Mechanism:
    mechanism = parse_mechanism(settings)
    assert isinstance(mechanism, Mechanism)
    return mechanism


WARNER, LAPLACE = made(name="warner", epsilon=1.0), made(name="laplace", epsilon=1.0)
NORMAL = made(name="gaussian", epsilon=0.5, delta=1e-4)
KNOWN: list[tuple[Callable[[], float], float]] = [
    (lambda: evidence.worst_case(WARNER, 0.16, 0.32, 5e-5), 3880),
    (lambda: evidence.fixed_size(WARNER, 0.16, 0.32, 5e-5), 3404),
    (lambda: evidence.typical(WARNER, 0.16, 0.32, 5e-5, 0.5), 235),
    (lambda: evidence.typical(WARNER, 0.16, 0.32, 5e-5, 0.01), 262),
    (lambda: evidence.typical(WARNER, 0.16, 0.32, 5e-5, 0.24), 3783),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).middle, 0.23898885325873137),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).rate, 0.00291059422157796),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).above.log_value(125.0, 250), 11.167084918108518),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).above.log_value(80.0, 250), -2.851437085685193),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).below.log_value(40.0, 250), 28.260156455969643),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).below.log_value(70.0, 250), 8.898083140992698),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).above.slack(1e5, 3e5), 2.5076612477688614e-08),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).below.slack(1e5, 3e5), 1.944672364959773e-08),
    (lambda: len(evidence.gather(WARNER, 0.16, 0.32).above.weights), 8),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).below.weights[-1], 0.1875),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).above.slopes[-1], 1.6504853793718257),
    (lambda: evidence.gather(WARNER, 0.16, 0.32).below.offsets[-1], -0.22599583875271995),
    (lambda: estimate(WARNER, 130.0, 400, 0.95).value, 0.12130815259573544),
    (lambda: estimate(WARNER, 130.0, 400, 0.95).low, 0.0),
    (lambda: estimate(WARNER, 130.0, 400, 0.95).high, 0.3064988689959173),
    (lambda: estimate(WARNER, 130.0, 400, 0.95, 9).low, 0.0),
    (lambda: estimate(WARNER, 250.0, 400, 0.8).high, 0.9280501618446466),
    (lambda: estimate(WARNER, 40000.0, 100000, 0.99).low, 0.268209635980763),
    (lambda: estimate(WARNER, 40000.0, 100000, 0.99).high, 0.29906077256190805),
    (lambda: evidence.worst_case(LAPLACE, 0.16, 0.32, 5e-5), 7385),
    (lambda: evidence.fixed_size(LAPLACE, 0.16, 0.32, 5e-5), 6478),
    (lambda: evidence.typical(LAPLACE, 0.16, 0.32, 5e-5, 0.5), 447),
    (lambda: evidence.typical(LAPLACE, 0.16, 0.32, 5e-5, 0.01), 510),
    (lambda: evidence.typical(LAPLACE, 0.16, 0.32, 5e-5, 0.24), 7384),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).middle, 0.24),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).rate, 0.0015290443814997717),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).above.log_value(125.0, 250), 5.388769378192263),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).above.log_value(80.0, 250), 0.7941175413435323),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).below.log_value(40.0, 250), 1.186072210584592),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).below.log_value(70.0, 250), -0.6590277532303175),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).above.slack(1e5, 3e5), 5.600542512148512e-09),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).below.slack(1e5, 3e5), 4.580263186290684e-09),
    (lambda: len(evidence.gather(LAPLACE, 0.16, 0.32).above.weights), 8),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).below.weights[-1], 0.1875),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).above.slopes[-1], 0.3533838098782465),
    (lambda: evidence.gather(LAPLACE, 0.16, 0.32).below.offsets[-1], -0.02421516700058308),
    (lambda: estimate(LAPLACE, 130.0, 400, 0.95).value, 0.325),
    (lambda: estimate(LAPLACE, 130.0, 400, 0.95).low, 0.03579834408283206),
    (lambda: estimate(LAPLACE, 130.0, 400, 0.95).high, 0.614201655916986),
    (lambda: estimate(LAPLACE, 130.0, 400, 0.95, 9).low, 0.0),
    (lambda: estimate(LAPLACE, 250.0, 400, 0.8).high, 0.884570142751727),
    (lambda: estimate(LAPLACE, 40000.0, 100000, 0.99).low, 0.3787307415397663),
    (lambda: estimate(LAPLACE, 40000.0, 100000, 0.99).high, 0.42126925846041574),
    (lambda: evidence.worst_case(NORMAL, 0.16, 0.32, 5e-5), 280404),
    (lambda: evidence.fixed_size(NORMAL, 0.16, 0.32, 5e-5), 245973),
    (lambda: evidence.typical(NORMAL, 0.16, 0.32, 5e-5, 0.5), 16748),
    (lambda: evidence.typical(NORMAL, 0.16, 0.32, 5e-5, 0.01), 19170),
    (lambda: evidence.typical(NORMAL, 0.16, 0.32, 5e-5, 0.24), 280403),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).middle, 0.24),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).rate, 4.026276465631321e-05),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).above.log_value(125.0, 250), 0.08510092107078798),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).above.log_value(80.0, 250), -0.07544908372226229),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).below.log_value(40.0, 250), 0.02835170420754691),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).below.log_value(70.0, 250), -0.03633558494289789),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).above.slack(1e5, 3e5), 4.30540961923292e-09),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).below.slack(1e5, 3e5), 4.272724505340903e-09),
    (lambda: len(evidence.gather(NORMAL, 0.16, 0.32).above.weights), 8),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).below.weights[-1], 0.1875),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).above.slopes[-1], 0.010568975681712398),
    (lambda: evidence.gather(NORMAL, 0.16, 0.32).below.offsets[-1], -0.0006442042345010114),
    (lambda: estimate(NORMAL, 130.0, 400, 0.95).value, 0.325),
    (lambda: estimate(NORMAL, 130.0, 400, 0.95).low, 0.0),
    (lambda: estimate(NORMAL, 130.0, 400, 0.95).high, 1.0),
    (lambda: estimate(NORMAL, 130.0, 400, 0.95, 9).low, 0.0),
    (lambda: estimate(NORMAL, 250.0, 400, 0.8).high, 1.0),
    (lambda: estimate(NORMAL, 40000.0, 100000, 0.99).low, 0.26887347939336903),
    (lambda: estimate(NORMAL, 40000.0, 100000, 0.99).high, 0.5311265206068131),
    (lambda: evidence.best_rate(LAPLACE, 0.1), 0.04771185028661568),
    (lambda: evidence.best_rate(NORMAL, 0.1), 0.0012582113844809804),
    (lambda: evidence.kl(0.3, 0.4), 0.02160085414354654),
    (lambda: evidence.needed(0.05), 2.995732273553991),
    (lambda: estimate(WARNER, 0.0, 30, 0.95).low, 0.0),
    (lambda: estimate(WARNER, 0.0, 30, 0.95).high, 0.0),
    (lambda: estimate(WARNER, 30.0, 30, 0.95).low, 1.0),
]


@for_each(("number", "known"), KNOWN)
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


def test_the_fixed_test_asks_for_all_at_once() -> None:
    test = FixedTest(WARNER, 0.16, 0.32, 5e-5, size=40)
    assert test.next_batch(7) == 40
    test.update(total=20.0, count=39)
    assert test.verdict is None
    assert test.next_batch(7) == 1
