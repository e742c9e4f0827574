"""Numbers outside their ranges, and questions that cannot be answered, are refused before anybody is asked."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from common.core.errors import BadInput
from common.local.mechanisms.frequency import HadamardResponse, KaryResponse
from common.local.mechanisms.mechanism import Laplace, Warner
from common.local.queries.features import CodeQuery, ItemQuery
from common.local.queries.query import Answers
from common.statistics import cdf, evidence, formulas, frequency, heavy_hitters, robustness
from common.statistics.intervals import Matches, bounds, difference, estimate
from common.statistics.quantiles import find_quantile
from common.statistics.race import Race
from tests.tiers import for_each

WARNER, TIMID, LAPLACE = Warner(epsilon=1.0), Warner(epsilon=0.1), Laplace(epsilon=1.0)
ORACLE, KRR = HadamardResponse(epsilon=1.0), KaryResponse(epsilon=1.0)
NONE = Answers(0, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))
BYTE, LONG = ItemQuery(bits=8, prefixes=cdf.ladder(8)), ItemQuery(bits=64, prefixes=(20, 35, 50, 64))

CASES: list[tuple[str, Callable[..., object], list[tuple[object, ...]]]] = [
    ("a confidence|needs count|number of ones", estimate, [
        (WARNER, 1, -1, 0.9), (WARNER, 1, 2, 0.9, 0), (WARNER, 1, 2, 0.0), (WARNER, 1, 2, 1.0), (WARNER, 3, 2, 0.9),
        (WARNER, -1, 2, 0.9),
    ]),
    ("a difference needs|a confidence", difference, [
        (KRR, [1, 2], 0.9), (KRR, [1, -1, 2], 0.9), (KRR, [1] * 3, 1.0), (KRR, [1] * 3, math.nan),
        (KRR, [1] * 3, 0.9, 0),
    ]),
    ("a matched difference", bounds, [
        (WARNER, Matches(-1, 2, 0), 0.1), (WARNER, Matches(1, 1, 1), 0.0), (WARNER, Matches(1, 1, 1), 1.0),
    ]),
    ("of those who were asked", robustness.silence_bound, [([(10, 11)], 0.95), ([(10, -1)], 0.95)]),
    ("adversarial answers need", robustness.RobustTest, [
        (WARNER, 0.1, 0.3, 0.05, -0.1), (WARNER, 0.1, 0.3, 0.05, 0.5), (LAPLACE, 0.1, 0.3, 0.05, 0.1),
    ]),
    ("needs a candidate", Race, [(WARNER, 0, 0.9)]),
    ("cannot be distinguished", evidence.gather, [(TIMID, 0.3, 0.3 + 1e-15)]),  # in doubles, no number lies between
    ("cannot be distinguished", evidence.SequentialTest, [(Warner(epsilon=1e-6), 0.3, 0.3001, 0.05)]),
    ("at least 1 answer", evidence.FixedTest, [(WARNER, 0.1, 0.3, 0.05, 0)]),
    *(
        ("a test needs|failure probability", kind, [
            (WARNER, 0.0, 0.3, 0.1), (WARNER, 0.3, 0.3, 0.1), (WARNER, 0.4, 0.3, 0.1), (WARNER, 0.3, 1.0, 0.1),
            (WARNER, 0.3, 1.2, 0.1), (WARNER, 0.1, 0.3, 0.0), (WARNER, 0.1, 0.3, 1.0),
        ])
        for kind in (evidence.SequentialTest, evidence.FixedTest)
    ),
    ("at least 0", evidence.SequentialTest(WARNER, 0.1, 0.3, 0.05).update, [(0, -1)]),
    ("gap .* must be positive", formulas.rounds, [(1.0, formulas.gap(0.05, 2.0, 1.7, True))]),
    ("truncation needs", formulas.truncation, [(0.0, 2, 2), (0.1, 1, 2), (0.1, 2, 0.5), (0.1, 2, math.inf)]),
    ("moment needs", formulas.gaussian_moment, [(2.0, 0.0, 1.0, 1)]),
    ("more blocks", formulas.rows_of, [(0.46 * formulas.escapes(20, 1.0, 1.0), 0.2119415576, 0.05, 1)]),
    ("records a block|failure probability", formulas.spanning_rows, [
        (np.full(4, 1e-9), 0.1), (np.array([1e-300]), 0.1), (np.array([0.5]), 0.0), (np.array([0.5]), 1.0),
    ]),
    ("a confidence|among|supported", frequency.estimate_shares, [
        (ORACLE, 8, np.array([1]), 2, 1.0, 1), (ORACLE, 8, np.array([1, 1]), 2, 0.9, 1),
        (ORACLE, 8, np.array([3]), 2, 0.9, 1), (ORACLE, 8, np.array([-1]), 2, 0.9, 1),
    ]),
    ("estimated at once", frequency.signed_shares, [([(CodeQuery(first=0, bits=25, public=1), NONE)], WARNER)]),
    ("there must be 1 to", cdf.estimate_cdf, [(BYTE, ORACLE, NONE, 0)]),
    ("and 8 bits", cdf.estimate_cdf, [
        (ItemQuery(bits=8, prefixes=other), ORACLE, NONE, 3) for other in ((2, 4, 6, 8), (1, 2, 3), ())
    ]),
    ("failure probability", cdf.error, [(BYTE, ORACLE, 1000, 1.0, 3)]),
    ("fewer than the 8 groups", cdf.error, [(BYTE, ORACLE, 3, 0.1, 3)]),
    ("an error must be|3 cuts alone|allow a larger one", cdf.agents_needed, [
        (BYTE, ORACLE, 0.5, 0.1), (BYTE, ORACLE, 0.1, 0.1, 3), (BYTE, ORACLE, 1e-6, 0.1),
    ]),
    ("bits|tolerance|failure", lambda *asked: next(find_quantile(*asked)), [
        (WARNER, 0, 0.5, 0.1, 0.1), (WARNER, 65, 0.5, 0.1, 0.1), (WARNER, 8, 0.1, 0.1, 0.1),
        (WARNER, 8, 0.95, 0.05, 0.1), (WARNER, 8, 0.5, 0.0, 0.1), (WARNER, 8, 0.5, 0.1, 1.0),
    ]),
    *(
        ("failure|nothing is listed|kept", called, [(0.0, 0.0, 4), (1.0, 0.0, 4), (0.1, 1.0, 4), (0.1, 0.0, 0)])
        for called in (
            lambda *asked: heavy_hitters.find(ItemQuery(bits=8), ORACLE, NONE, *asked),
            lambda *asked: heavy_hitters.guarantee(ItemQuery(bits=8), ORACLE, 1000, *asked),
        )
    ),
    ("more lengths", heavy_hitters.guarantee, [
        (ItemQuery(bits=64, prefixes=lengths), ORACLE, 1000, 0.1) for lengths in ((25, 64), (20, 44, 64))
    ]),
    ("ask more", heavy_hitters.guarantee, [(LONG, ORACLE, 100, 0.1)]),
    ("share to be found", heavy_hitters.agents_needed, [(ItemQuery(bits=8), ORACLE, 0.1, 0.1, 0.1)]),
]  # fmt: skip


@for_each(("says", "call", "asked"), [(says, call, asked) for says, call, several in CASES for asked in several])
def test_it_is_refused(says: str, call: Callable[..., object], asked: tuple[object, ...]) -> None:
    with pytest.raises(BadInput, match=says):
        call(*asked)


@for_each("share", [-0.1, 1.1, math.nan])
def test_shares_of_liars_outside_are_refused(share: float) -> None:
    with pytest.raises(BadInput, match="share of adversarial answers"):
        robustness.robust_estimate(WARNER, 30, 100, 0.95, share=share)
