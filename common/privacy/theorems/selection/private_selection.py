"""A private choice: the best of a secret random number of private runs, and what that costs.

The base mechanism runs K times, each time with settings drawn from a public law, and each run releases its output
together with a score; the output of the best score is released, and nothing else. K follows a law of
:mod:`common.privacy.theorems.selection.stopping` and is never told. Everything here is about a base that is mu-GDP,
score included.

What the proofs have in common. Let F, F' be the base's distribution functions in the order of the scores (ties go by
independent coins, or by who came first, which is the same law) and f the generating function of K. The choice has the
density f'(F) with respect to the base's law, f' increasing up to f'(1) = E[K]. Beside it, 1 - F and 1 - F' are the
probabilities of one and the same event, "better", on neighbouring samples: with G = 1 - F and G' = 1 - F', a mu-GDP
base has G' <= Phi(Phi^-1(G) + mu).

Conditioned on K <= most, the law's generating function g has g' <= f'/P(K <= most), and ln g' has at each point a
slope no larger than that of ln f' (E[K - 1] under the tilted law, which falls when large K are cut off). So whatever
bounds f'(q)/f'(q') for q >= q' bounds g'(q)/g'(q').
"""

from __future__ import annotations

import math

from common.numerics.bisection import between, crossing
from common.privacy.rounding import MAX_EPSILON, down, up
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.ranges import check_delta, check_epsilon
from common.privacy.theorems.renyi import ORDERS, epsilon_at
from common.privacy.theorems.selection.selection_profile import delta_of_selection
from common.privacy.theorems.selection.stopping import NegativeBinomial, Poisson

AnyLaw = NegativeBinomial | Poisson


def selection_rdp(order: int, mu: float, law: AnyLaw) -> float:
    """Bound the Renyi divergence of a choice among mu-GDP runs.

    ::

        rho' = k mu^2/2 + excess + ln(E[K]/P(K <= most))/(k - 1)                     k = order
        excess = (1 + eta) ((k^ - 1) mu^2/2 + ln(1/gamma)/k^),   k^ = max(1, sqrt(2 ln(1/gamma))/mu)
        excess = rate delta_G(ln(1 + 1/(k - 1)); mu)                                 for Poisson's law

    Papernot and Steinke (2022), Theorem 2 with its best second order k^, and Theorem 6; E[K] is that of the law
    without the condition.

    Proof of the first: by joint convexity the choice multiplies the base's moment e^{(k-1) rho} by at most the
    largest f'(q)^k f'(q')^{1-k} (their Lemma 7), q = F and q' = F' at a point. With a = gamma + (1 - gamma) G and a'
    likewise, this is E[K] gamma^{1+eta} (a'^{k-1} a^{-k})^{1+eta}, where a' <= (a e^{rho^})^{1 - 1/k^} by the base's
    divergence at k^, and a >= gamma. Of the second: it is E[K] e^{rate (k-1) (G' - G k/(k-1))}. The condition costs
    the factor 1/P(K <= most) where q >= q'; where q < q' the moment is multiplied by E[K] at most.

    Parameters
    ----------
    order
        At least 2.
    mu
        Of one run, score included; positive.

    Returns
    -------
    rho' in nats, rounded up.
    """
    base = order * mu * mu / 2.0
    price = (math.log(law.whole_mean) - law.log_covered) / (order - 1.0)
    if isinstance(law, Poisson):
        excess = law.rate * delta_of(mu, down(math.log1p(1.0 / (order - 1.0))))
    else:
        other = max(1.0, math.sqrt(2.0 * law.log_stop) / mu)
        excess = (1.0 + law.eta) * ((other - 1.0) * mu * mu / 2.0 + law.log_stop / other)
    return up(base + excess + price, 64.0)


def epsilon_of_selection(mu: float, law: AnyLaw, delta: float) -> float:
    """Return an epsilon at which a choice among mu-GDP runs is (epsilon, delta)-DP, rounded up.

    By the exact profile (:func:`common.privacy.theorems.selection.selection_profile.delta_of_selection`), or by what
    :func:`selection_rdp` converts to, should the rounding of the first have cost more than that.

    Raises
    ------
    BadInput
        If mu is not positive or delta is not in (0, 1).
    """
    check_delta(delta)
    renyi = min(_renyi(order, mu, law, delta) for order in ORDERS)
    if delta_of_selection(mu, law, 0.0) <= delta:
        return 0.0
    top = min(renyi, MAX_EPSILON)
    if delta_of_selection(mu, law, top) > delta:
        return renyi
    return between(top, 0.0, lambda epsilon: delta_of_selection(mu, law, epsilon) <= delta, 1e-9)


def order_of_selection(mu: float, law: AnyLaw, delta: float) -> int | None:
    """Return the Renyi order behind :func:`epsilon_of_selection`; None where the exact profile shows as much."""
    order = min(ORDERS, key=lambda k: _renyi(k, mu, law, delta))
    top = min(_renyi(order, mu, law, delta), MAX_EPSILON)
    return order if delta_of_selection(mu, law, top) > delta else None


def _renyi(order: int, mu: float, law: AnyLaw, delta: float) -> float:
    return epsilon_at(order, selection_rdp(order, mu, law), delta)


def pure_epsilon_of_selection(epsilon: float, law: AnyLaw) -> float:
    """Return the epsilon' of a choice among pure epsilon-DP runs, rounded up.

    ::

        epsilon' = epsilon + (1 + eta) ln((gamma + e^eps)/(1 + gamma e^eps)),    at most (2 + eta) epsilon
        epsilon' = epsilon + rate tanh(epsilon/2)                                for Poisson's law

    As :func:`epsilon_of_selection`, with G' <= min(e^eps G, 1 - e^{-eps} (1 - G)): both growths are largest where
    these meet, at G = 1/(1 + e^eps). The bound 3 epsilon of Liu and Talwar (2019), Theorem 1.3, is eta = 1 with gamma
    towards 0.
    """
    if isinstance(law, Poisson):
        return up(epsilon + law.rate * math.tanh(epsilon / 2.0), 16.0)
    shrunk = math.exp(-epsilon)
    return up(epsilon + (1.0 + law.eta) * math.log((law.gamma * shrunk + 1.0) / (shrunk + law.gamma)), 32.0)


def mu_for_selection(epsilon: float, delta: float, law: AnyLaw) -> float:
    """Return a mu of a run whose choice is (epsilon, delta)-DP, within 2e-6 of the largest; never more than that.

    What is returned is left so far below the end of the search that :func:`epsilon_of_selection`, itself a search,
    finds it within epsilon again.

    Raises
    ------
    BadInput
        If epsilon is not a positive finite number or delta is not in (0, 1).
    """
    check_epsilon(epsilon)
    check_delta(delta)

    def excess(mu: float) -> float:
        found = math.log(max(delta_of_selection(mu, law, epsilon), 1e-300) / delta)
        if found > 0.0 and min(_renyi(order, mu, law, delta) for order in ORDERS) <= epsilon:
            return -1.0  # so small a mu, or so large a one, that the profile's grid says too little
        return found

    bad = 1.0
    while excess(bad) <= 0.0:
        bad *= 2.0
    while excess(0.5 * bad) > 0.0:
        bad *= 0.5
    return crossing(0.5 * bad, bad, excess, 1e-6) * (1.0 - 1e-7)
