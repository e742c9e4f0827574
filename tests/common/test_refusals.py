"""Numbers outside their ranges, and questions that cannot be answered, are refused before anybody is asked."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from common.core.errors import BadInput
from common.local.mechanisms.frequency import HadamardResponse
from common.local.mechanisms.mechanism import Laplace, Warner
from common.local.queries.features import CodeQuery, ItemQuery
from common.local.queries.query import Answers
from common.numerics.randomness import RandomSource
from common.privacy.budget import cost, open_budget, sampling_schedule
from common.privacy.theorems import composition, gaussian_dp, randomized_response, votes
from common.privacy.theorems.selection import epsilon_of_selection, geometric, mu_for_selection
from common.statistics import cdf, evidence, formulas, frequency, heavy_hitters, robustness, spanning
from common.statistics.cdf import find_quantile
from common.statistics.finalists import BinomialCount
from common.statistics.intervals import estimate
from curator.mechanisms.selection import choose
from tests.tiers import for_each

WARNER, TIMID, LAPLACE = Warner(epsilon=1.0), Warner(epsilon=0.1), Laplace(epsilon=1.0)
ORACLE = HadamardResponse(epsilon=1.0)
NONE = Answers(0, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))
BYTE = ItemQuery(bits=8, prefixes=cdf.ladder(8))

CASES: list[tuple[str, Callable[..., object], list[tuple[object, ...]]]] = [
    ("a confidence|needs count|number of ones", estimate, [
        (WARNER, 1, -1, 0.9), (WARNER, 1, 2, 0.9, 0), (WARNER, 1, 2, 0.0), (WARNER, 1, 2, 1.0), (WARNER, 3, 2, 0.9),
        (WARNER, -1, 2, 0.9),
    ]),
    ("the number of ones", BinomialCount, [(3, 2), (-1, 2)]),
    ("of those who were asked", robustness.silence_bound, [([(10, 11)], 0.95), ([(10, -1)], 0.95)]),
    ("adversarial answers need", robustness.RobustTest, [
        (WARNER, 0.1, 0.3, 0.05, -0.1), (WARNER, 0.1, 0.3, 0.05, 0.5), (LAPLACE, 0.1, 0.3, 0.05, 0.1),
    ]),
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
    ("more blocks", spanning.rows_of, [(0.46 * spanning.escapes(20, 1.0, 1.0), 0.2119415576, 0.05, 1)]),
    ("records a block|failure probability", spanning.spanning_rows, [
        (np.full(4, 1e-9), 0.1), (np.array([1e-300]), 0.1), (np.array([0.5, 0.0]), 0.1),
        (np.array([0.5]), 0.0), (np.array([0.5]), 1.0),
    ]),
    ("estimated at once", frequency.signed_shares, [([(CodeQuery(first=0, bits=25, public=1), NONE)], WARNER)]),
    ("there must be 1 to", cdf.estimate_cdf, [(BYTE, ORACLE, NONE, 0)]),
    ("and 8 bits", cdf.estimate_cdf, [
        (ItemQuery(bits=8, prefixes=other), ORACLE, NONE, 3) for other in ((2, 4, 6, 8), (1, 2, 3), ())
    ]),
    ("an error must be|3 cuts alone|allow a larger one|failure probability", cdf.agents_needed, [
        (BYTE, ORACLE, 0.5, 0.1), (BYTE, ORACLE, 0.1, 0.1, 3), (BYTE, ORACLE, 1e-6, 0.1), (BYTE, ORACLE, 0.1, 1.0),
    ]),
    ("bits|tolerance|failure", lambda *asked: next(find_quantile(*asked)), [
        (WARNER, 0, 0.5, 0.1, 0.1), (WARNER, 65, 0.5, 0.1, 0.1), (WARNER, 8, 0.1, 0.1, 0.1),
        (WARNER, 8, 0.95, 0.05, 0.1), (WARNER, 8, 0.5, 0.0, 0.1), (WARNER, 8, 0.5, 0.1, 1.0),
    ]),
    ("failure|kept", lambda *asked: heavy_hitters.find(ItemQuery(bits=8), ORACLE, NONE, *asked), [
        (0.0, 4), (1.0, 4), (0.1, 0),
    ]),
    ("more lengths", heavy_hitters.find, [
        (ItemQuery(bits=64, prefixes=lengths), ORACLE, NONE, 0.1) for lengths in ((25, 64), (20, 44, 64))
    ]),
    ("neither; found|0 <= delta < 1", open_budget, [
        (epsilon, delta, []) for epsilon, delta in (
            (None, 0.1), (1.0, None), (0.0, 0.1), (math.nan, 0.1), (math.inf, 0.1), (1.0, 1.0), (1.0, -0.1))
    ]),
    ("delta must be in", cost, [([], 1.0)]),
    ("kappa must be|must be at least 0", sampling_schedule, [
        *((1000, kappa, 0.1, 5) for kappa in (0.0, 0.01, 1.5, math.nan)), (1000, 0.1, -1.0, 5), (1000, 0.1, 0.1, 0),
    ]),
    ("at least 1|epsilon > 0|delta < 1|lower the cutoff", votes.calibrated, [
        (0, 1, 1.0, 0.1), (1, 0, 1.0, 0.1), (1, 1, 0.0, 0.1), (1, 1, math.inf, 0.1), (1, 1, 1.0, 0.0),
        (10_000, 10_000, 0.1, 1e-9),
    ]),
    ("do not keep", votes.printed, [(1000, 1000, 100.0, 0.01, 0.05)]),
    ("queries >= 1|can be drawn", votes.stability_share, [(0, 1.0, 0.1), (100_000, 1.0, 1e-6)]),
    ("at least 0|different", votes.leak, [(-1, 0.1, 0.2), (1, 0.1, 0.1)]),
    ("releases can be composed", composition.composed_delta, [(0, 0.1, 0.0, 1.0), (10**9, 0.1, 0.0, 1.0)]),
    ("epsilon must|2 symbols", randomized_response.k_ary_response_probability, [
        (0.0, 2), (math.inf, 2), (0.0, 3), (math.nan, 3), (701.0, 3), (1.0, 1),
    ]),
    ("sensitivity", randomized_response.analytic_gaussian_sigma, [(1.0, 0.1, -1.0)]),
    ("epsilon must|mu must", gaussian_dp.delta_of, [(1.0, -1.0), (math.nan, 1.0)]),
    ("epsilon must|delta must", gaussian_dp.mu_allowed, [(1.0, 0.0), (1.0, 1.0), (0.0, 0.1)]),
    ("delta must|mu must", gaussian_dp.epsilon_of, [(1.0, 0.0), (0.0, 0.1)]),
    ("delta must", gaussian_dp.paper_mu, [(1.0, 0.0)]),
    ("epsilon must|delta must", mu_for_selection, [
        (epsilon, delta, geometric(5.0)) for epsilon, delta in ((0.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0))
    ]),
    ("at least one value", choose, [(min, min, {"a": []}, geometric(2.0), RandomSource.seeded(1))]),
    ("delta must", epsilon_of_selection, [(1.0, geometric(5.0), 0.0), (1.0, geometric(5.0), 1.0)]),
    *(
        ("share of adversarial answers", partial(robustness.robust_estimate, WARNER, 30, 100, 0.95, share=share), [()])
        for share in (-0.1, 1.1, math.nan)
    ),
]  # fmt: skip


@for_each(("says", "call", "asked"), [(says, call, asked) for says, call, several in CASES for asked in several])
def test_it_is_refused(says: str, call: Callable[..., object], asked: tuple[object, ...]) -> None:
    with pytest.raises(BadInput, match=says):
        call(*asked)
