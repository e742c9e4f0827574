"""Numbers of privacy to their last places: how far each is rounded, beside that it is rounded to the private side.

That these numbers are right, and on the private side, is shown elsewhere: by theorems, by more digits, by exact privacy
loss distributions. Those tests leave room for a few parts in a million. Here a slack that is halved shows, or one that
is added twice. Whoever changes a bound changes its numbers here, knowingly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from common.privacy import calibration
from common.privacy.rounding import UNIT, down, up
from common.privacy.theorems import composition, klnrs, stopping, votes
from common.privacy.theorems import domain_adaptation as adaptation
from common.privacy.theorems import gaussian_dp as gdp
from common.privacy.theorems import randomized_response as local
from common.privacy.theorems import renyi as rdp
from common.privacy.theorems import selection as selection
from tests.tiers import for_each

GEOMETRIC = stopping.geometric(10.0)
OTHER = stopping.NegativeBinomial(eta=-0.5, gamma=0.01, most=60)
LOGARITHMIC = stopping.NegativeBinomial(eta=0.0, gamma=0.05, most=40)
POISSON = stopping.Poisson(rate=4.0, most=14)
CALIBRATED = votes.calibrated(5, 200, 2.0, 1e-4)
PRINTED = votes.printed(5, 200, 2.0, 1e-4, 0.05)

PLACES = 5.0 * UNIT
"""What libraries of other machines may differ by; the least slack that is given on top of the default is 16 units."""
COMPUTED: list[tuple[Callable[[], float], float]] = [
    (lambda: gdp.delta_of(1.0, 2.0), 0.02092363582111541),
    (lambda: gdp.delta_of(0.05, 0.3), 9.080339966459015e-12),
    (lambda: gdp.delta_of(3.0, 1.0), 0.7876007413604006),
    (lambda: gdp.delta_of(9.0, 5.0), 0.9999281624157229),
    (lambda: composition.subsampled(10, 1e-3, 1.0, 1e-6)[0], 0.017168072711331122),
    (lambda: composition.subsampled(10, 1e-3, 1.0, 1e-6)[1], 1.0077678048948706e-08),
    (lambda: composition.subsampled(1, 0.25, 2.0, 0.01)[1], 0.002500000000000063),
    (lambda: composition.subsampled(200, 0.9, 0.5, 0.0)[0], 91.97161024991969),
    (lambda: composition.composed_delta(7, 0.5, 0.0, 1.0), 0.26270914813525637),
    (lambda: composition.composed_delta(7, 0.5, 1e-3, 1.0), 0.26785472676981154),
    (lambda: composition.composed_delta(30, 0.1, 1e-8, 0.2), 0.14241392699128766),
    (lambda: rdp.closed_form(2, 0.01, 0.5), 2.8402138324226127e-05),
    (lambda: rdp.closed_form(9, 0.01, 0.5), 0.00017359885304295638),
    (lambda: rdp.closed_form(40, 1e-3, 0.9), 9.1328957954371),
    (lambda: rdp.profile(9, 0.01, 0.5), 0.00017612264856749611),
    (lambda: rdp.profile(3, 0.2, 2.0), 3.5894436934367913),
    (lambda: rdp.step_rdp(9, 0.01, 2.5), 22.948240943522784),
    (lambda: rdp.step_rdp(64, 1e-3, 0.5), 0.9838135096801764),
    (lambda: rdp.pure_rdp(5, 0.7), 0.5996621429862905),
    (lambda: rdp.pure_rdp(2, 3.0), 2.951536050616025),
    (lambda: rdp.epsilon_at(8, 0.25, 1e-6), 1.7930498954161174),
    (lambda: rdp.rho_allowed(8, 3.0, 1e-6), 1.4569501045838797),
    (lambda: selection.selection_rdp(4, 0.5, GEOMETRIC), 3.168458126848331),
    (lambda: selection.selection_rdp(4, 0.5, OTHER), 1.76910941353776),
    (lambda: selection.selection_rdp(4, 0.5, POISSON), 1.3669713222992945),
    (lambda: selection.pure_epsilon_of_selection(0.5, OTHER), 0.7448471061927251),
    (lambda: selection.pure_epsilon_of_selection(0.5, POISSON), 1.479674649614842),
    (lambda: GEOMETRIC.whole_mean, 10.000000000000144),
    (lambda: GEOMETRIC.expected, 9.39989459459278),
    (lambda: GEOMETRIC.log_covered, -0.014891208682756348),
    (lambda: OTHER.whole_mean, 5.50000000000008),
    (lambda: OTHER.expected, 4.053980566684118),
    (lambda: OTHER.log_covered, -0.013939454297045269),
    (lambda: LOGARITHMIC.whole_mean, 6.342355813211436),
    (lambda: LOGARITHMIC.log_covered, -0.014778187770325038),
    (lambda: POISSON.whole_mean, 4.074629441455111),
    (lambda: POISSON.expected, 4.074401156461731),
    (lambda: POISSON.log_covered, -2.0303807113861014e-05),
    (lambda: votes.leak(9, 0.4, 0.15), 0.13750966770129353),
    (lambda: votes.leak(0, 1.5, 0.15), 0.4649245281655747),
    (lambda: CALIBRATED.level, 95),
    (lambda: CALIBRATED.margin(1e-3), 154),
    (lambda: PRINTED[0].of_threshold, 0.05024304178222795),
    (lambda: PRINTED[0].of_query, 0.025121520891113976),
    (lambda: PRINTED[0].level, 606),
    (lambda: PRINTED[1], 16752),
    (lambda: votes.stability_level(0.3, 1e-5), 36),
    (lambda: votes.stability_margin(1e-3, 0.3, 1e-5), 58),
    (lambda: klnrs.rates("tight", 1.0).kept, 0.46211715726000924),
    (lambda: klnrs.rates("tight", 1.0).answers, 0.7880584423829136),
    (lambda: klnrs.rates("paper", 1.0).kept, 0.25),
    (lambda: klnrs.rates("paper", 1.0).answers, 0.5),
    (lambda: local.randomized_response_epsilon(0.75), 1.0986122886681107),
    (lambda: local.randomized_response_probability(0.5), 0.6224593312018544),
    (lambda: local.randomized_response_probability(1e-9), 0.5000000002499999),
    (lambda: local.k_ary_response_probability(1.0, 5), 0.40460967519168933),
    (lambda: local.laplace_scale(0.3, 2.0), 6.666666666666674),
    (lambda: local.laplace_epsilon(0.3, 2.0), 6.666666666666674),
    (lambda: adaptation.joint_step(1.0, 0.4), 1.000000000000001),
    (lambda: adaptation.joint_step(1.0, 1.0), 1.2861516952966463),
    (lambda: adaptation.step_noise(0.7, 500, 0.6, joint=True).gradient, 42.532480071324215),
    (lambda: adaptation.step_noise(0.7, 500, 0.6, joint=True).scales, 34.727624556613),
    (lambda: adaptation.step_noise(0.7, 500, 0.2, joint=True).scales, 38.3725220964473),
    (lambda: adaptation.step_noise(0.7, 500, 0.6, joint=False).gradient, 50.50762722761098),
    (lambda: adaptation.step_noise(0.7, 500, 0.6, joint=False).scales, 41.23930494211665),
    (lambda: adaptation.scales_share(2.0, 5.0), 0.64813706601056),
    (lambda: adaptation.paper_mu(2.0, 1e-4), 0.4404612684738861),
    (lambda: votes.answer_mu(30.0, 2), 0.09428090415820645),
    (lambda: votes.flips(0.6, 100, 20.0), 0.23975006109347677),
    (lambda: votes.flips(0.6, 100, 20.0, 5), 0.2905923413805107),
    (lambda: calibration.sampling_schedule(1000, 0.1, 0.5, 8)[0], 0.0010000000000000568),
    (lambda: calibration.sampling_schedule(1000, 0.1, 0.5, 8)[3], 0.004466139361735957),
    (lambda: calibration.sampling_schedule(1000, 0.1, 0.5, 8)[7], 0.01000000000000001),
]
FOUND: list[tuple[Callable[[], float], float]] = [
    (lambda: gdp.mu_allowed(1.0, 1e-6), 0.23670438066318988),
    (lambda: gdp.epsilon_of(1.0, 1e-6), 4.88655411746231),
    (lambda: gdp.epsilon_of(6.0, 1e-3), 35.73769291952158),
    (lambda: composition.composed_epsilon(20, 0.2, 1e-8, 1e-6), 3.8659582763066327),
    (lambda: composition.composed_epsilon(1, 0.7, 1e-8, 1e-6), 0.6999985183795616),
    (lambda: selection.epsilon_of_selection(0.3, GEOMETRIC, 1e-6), 1.888255381779445),
    (lambda: selection.epsilon_of_selection(0.3, OTHER, 1e-6), 1.5956685311136183),
    (lambda: selection.epsilon_of_selection(0.3, POISSON, 1e-6), 1.7644167165835871),
    (lambda: selection.mu_for_selection(1.0, 1e-6, GEOMETRIC), 0.16429059033901572),
    (lambda: CALIBRATED.of_threshold, 0.14819630542424894),
    (lambda: CALIBRATED.of_query, 0.12596685961061135),
    (lambda: CALIBRATED.epoch, 0.40013002464547204),
    (lambda: CALIBRATED.failure(2.0), 9.892440538035091e-05),
    (lambda: votes.stability_share(50, 3.0, 1e-4)[0], 0.1138728040095868),
    (lambda: votes.stability_share(50, 3.0, 1e-4)[1], 9.99999999999999e-07),
    (lambda: local.analytic_gaussian_sigma(1.0, 1e-6, 2.0), 8.449357778662463),
    (lambda: votes.answers_sigma(1000, 1.0, 1e-6), 188.93338359305943),
    (lambda: votes.answers_sigma(3, 100.0, 0.5), 0.17234688579091145),
]


@for_each(("number", "known"), COMPUTED)
def test_what_is_computed_is_rounded_so_far_and_no_farther(number: Callable[[], float], known: float) -> None:
    assert number() == pytest.approx(known, rel=PLACES, abs=0.0)


@for_each(("number", "known"), FOUND)
def test_what_is_searched_for_is_found_where_it_was(number: Callable[[], float], known: float) -> None:
    assert number() == pytest.approx(known, rel=4e-13, abs=0.0)


@for_each("value", [1.0, -1.5, 3e-300, -1e300])
def test_rounding_moves_a_number_by_as_many_units_as_it_is_told_and_one_place(value: float) -> None:
    assert up(value) == math.nextafter(value + abs(value) * 4.0 * UNIT, math.inf)
    assert down(value) == math.nextafter(value - abs(value) * 4.0 * UNIT, -math.inf)
    assert up(value, 100.0) == -down(-value, 100.0) >= value + 100.0 * UNIT * abs(value)
    assert up(0.0) == 5e-324
    assert UNIT == 2.0**-52
