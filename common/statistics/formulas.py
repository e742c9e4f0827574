"""The formulas behind a plan, as pure functions: Kohen & Sheffet's (``paper_...``) and the tighter ones.

Notation: alpha, beta accuracy and failure probability; X = chi^2(T||S) + 1; T rounds; kappa the density of mu; K the
relative entropy (nats) of the good distribution from the uniform one; losses in [0, 1]; natural logarithms.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from common.core.errors import BadInput, BudgetExceeded
from common.core.values import PLAN, Value
from common.numerics.bisection import between, least

PAPER_NOISE = math.sqrt(20.0)  # sigma / L of Algorithm 4 for large kappa n, and of Appendix D


def paper_rounds(alpha: float, chi_squared: float) -> int:
    """Return T = 128 log_2(8 X/alpha) / alpha^2, rounded up (Algorithm 2)."""
    return math.ceil(128.0 * math.log2(8.0 * chi_squared / alpha) / alpha**2)


def paper_answers(alpha: float, beta: float, rounds: int, epsilon: float, delta: float) -> int:
    """Return N0 = 4 ln(2/delta) ln(8T/beta) / (eps^2 alpha^2), rounded up (Algorithm 2)."""
    return math.ceil(4.0 * math.log(2.0 / delta) * math.log(8.0 * rounds / beta) / (epsilon * alpha) ** 2)


def paper_answers_valid(beta: float, rounds: int, epsilon: float, delta: float) -> bool:
    """Tell whether N0 is large enough: (eps^2/2) ln(2T/beta) <= 4 ln(2/delta) ln 4 (docs/corrections.md, K7)."""
    return 0.5 * epsilon**2 * math.log(2.0 * rounds / beta) <= 4.0 * math.log(2.0 / delta) * math.log(4.0)


def paper_sample(alpha: float, beta: float, chi_squared: float, dimension: float) -> int:
    """Return Lemma 3.2's n, the larger of its two bounds; ``dimension`` d is the pseudo-dimension, or log_2 |H|.

    150 X ln(4/beta) / alpha^2, 800 X ln(1/alpha) (d ln(400 d/alpha^3) + ln(8/beta)) / alpha^2
    """
    least = 150.0 * chi_squared * math.log(4.0 / beta) / alpha**2
    uniform = dimension * math.log(400.0 * dimension / alpha**3) + math.log(8.0 / beta)
    return math.ceil(max(least, 800.0 * chi_squared * math.log(1.0 / alpha) * uniform / alpha**2))


def paper_n_sgd(steps: int, rounds: int, kappa: float, epsilon: float) -> int:
    """Return n = sqrt(Y ln Y), Y = 52 R T/(8 kappa^2 eps) (Algorithm 4; docs/corrections.md, K12), rounded up."""
    y = 52.0 * steps * rounds / (8.0 * kappa**2 * epsilon)
    return math.ceil(math.sqrt(y * math.log(y)))


def paper_n_release(draws: int, rounds: int, kappa: float, epsilon: float, delta: float) -> int:
    """Return n = m sqrt(288 T ln(2/delta)) / (eps kappa), rounded up (Theorem 4.2; learner epsilon 1)."""
    _positive(delta)
    return math.ceil(draws * math.sqrt(288.0 * rounds * math.log(2.0 / delta)) / (epsilon * kappa))


def paper_noise(epsilon: float, delta: float, support: float) -> float:
    """Return sigma/L of Algorithm 4: sigma^2 = L^2 max(20, (16 ln(1/delta)/eps + 8)/ln(kappa n))."""
    _positive(delta)
    return math.sqrt(max(20.0, (16.0 * math.log(1.0 / delta) / epsilon + 8.0) / math.log(support)))


def paper_steps(
    alpha: float, beta: float, clip: float, noise: float, diameter: float, dimension: int, convexity: float = 0.0
) -> int:
    """Return R = max(9 D^2 (L^2 + sigma^2 d), 8 D^2 L^2 ln(2/beta)) / alpha^2 (Algorithm 3), rounded up.

    Its second line where the loss is lambda-strongly convex, lambda = ``convexity`` > 0: max(4 A ln A, 8 D^2 L^2
    ln(2/beta)/alpha^2) with A = (L^2 + sigma^2 d)/(lambda alpha). The second n of Theorem A.4 is :func:`paper_n_sgd` of
    that.
    """
    force = clip**2 * (1.0 + noise**2 * dimension)
    moves = 9.0 * diameter**2 * force / alpha**2
    if convexity > 0.0:
        share = force / (convexity * alpha)
        moves = 4.0 * share * math.log(max(share, 1.0))
    return max(1, math.ceil(max(moves, 8.0 * (diameter * clip) ** 2 * math.log(2.0 / beta) / alpha**2)))


def _positive(delta: float) -> None:
    if not delta > 0.0:
        raise BadInput("the paper's formula needs a positive delta, found 0: take bounds: tight")


def slack(alpha: float, truncated: bool) -> float:
    """Return by how much the good distribution u can understate a loss: err_T(h) <= err_u(h) + slack.

    5 alpha/8 with truncation at tau <= X/alpha (Lemma 3.2): alpha/4 for what is cut off (:func:`truncation`); alpha/4
    for uniform convergence; alpha/8 for the normalizer U <= (1 + alpha/8) n. 3 alpha/8 where nothing is cut off.
    """
    return (5.0 if truncated else 3.0) * alpha / 8.0


class Dense(NamedTuple):
    """What is known of the good distribution: its density, whether weights are cut off, and the moment of w behind it.

    The order of the moment is 2 for X, infinite for D_inf.
    """

    kappa: float
    truncated: bool
    order: float


def density(
    alpha: float, chi_squared: float, supremum: float | None, moments: Mapping[float, float] | None = None
) -> Dense:
    """Return the density of the good distribution, by the rule that asks for the fewest people.

        (1 - 3 alpha/8) alpha/X     always: weights w = dT/dS cut off at tau = X/alpha
        (1 - 3 alpha/8)/tau_p       where M_p >= E_S[w^p] is known: cut off at tau_p (:func:`truncation`)
        (1 - alpha/8)/D_inf         if D_inf = sup w <= X/alpha is known: nothing is cut off

    u_i = min(w_i, tau)/U with U = sum_j min(w_j, tau). By Bernstein's inequality, n >= 150 X ln(6/beta)/alpha^2 gives
    |U/n - E| <= alpha/8 with probability 1 - beta/3, and E is in [1 - alpha/4, 1] (1 if nothing is cut). So u_i <=
    1/(kappa n). Only tau <= X/alpha is used of tau, and the smallest tau is. As n grows with 1/(g kappa), g being the
    :func:`gap`, the last rule is taken unless another's kappa is 5/3 of its.

    Args:
        moments: M_p by order p > 2, if any are known.
    """
    level, order = chi_squared / alpha, 2.0
    for p, moment in (moments or {}).items():
        level, order = min((level, order), (truncation(alpha, p, moment), p))
    cut = Dense((1.0 - 3.0 * alpha / 8.0) / level, True, order)
    if supremum is None or supremum > chi_squared / alpha:
        return cut
    uncut = Dense((1.0 - alpha / 8.0) / supremum, False, math.inf)
    return uncut if 5.0 * uncut.kappa >= 3.0 * cut.kappa else cut


def entropy(
    alpha: float, chi_squared: float, supremum: float | None, moments: Mapping[float, float] | None = None
) -> float:
    """Return K >= KL(u || uniform), in nats.

        K = ln(1.12 X/(1 - 3 alpha/8)^2),     without truncation  min(ln(1.12 X/(1 - alpha/8)^2), ln(1/kappa))

    KL(u || uniform) = sum_i u_i ln(n u_i) <= ln(n sum_i u_i^2) by Jensen, n sum_i u_i^2 = (mean of w_i^2)/(U/n)^2, and
    the mean of the cut weights' squares is at most 1.12 X with probability 1 - beta/6 (Bernstein: they are at most
    tau^2, their second moment at most tau^2 X, tau <= X/alpha). Also n u_i <= 1/kappa.
    """
    kappa, truncated, _ = density(alpha, chi_squared, supremum, moments)
    normalizer = 1.0 - (3.0 if truncated else 1.0) * alpha / 8.0
    return min(math.log(1.12 * chi_squared / normalizer**2), -math.log(kappa))


def gap(alpha: float, learner: float, reweigh_above: float, truncated: bool) -> float:
    """Return g = reweigh_above alpha - slack - learner alpha: what each reweigh gains on average."""
    return (reweigh_above - learner) * alpha - slack(alpha, truncated)


def pair_gap(alpha: float, learner: float, reweigh_above: float, truncated: bool) -> float:
    """Return what each reweigh by a pair of hypotheses gains on average (``docs/discrepancy.md``).

    Half of a difference of losses counts. The good distribution u may understate the one loss by :func:`slack`, and
    overstate the other: where its normalizer is at least (1 - c alpha) n, c = 1/8, or 3/8 with truncation, err_u(g) <=
    (err_T(g) + alpha/4)/(1 - c alpha) <= err_T(g) + alpha/4 + (5/4) c alpha/(1 - c), which is 3 alpha/7, or alpha.
    """
    excess = alpha if truncated else 3.0 * alpha / 7.0
    return ((reweigh_above - learner) * alpha - slack(alpha, truncated) - excess) / 2.0


def largest_loss_on_target(source: float, x: float, supremum: float = math.inf) -> float:
    """Bound the mistakes on T of a model that errs on the share ``source`` of S: min(D a, a + sqrt((X - 1) a (1 - a))).

    Args:
        source: a, in [0, 1].
        x: chi^2(T||S) + 1, at least 1.
        supremum: D_inf = sup dT/dS; infinite if it is not known.
    """
    by_spread = source + math.sqrt((x - 1.0) * source * (1.0 - source))
    return min(1.0, by_spread, supremum * source if source else 0.0)


def loss_on_source(target: float, x: float, supremum: float = math.inf) -> float:
    """Return the largest share a of S, rounded down, with :func:`largest_loss_on_target` at most ``target``.

    a + sqrt((X - 1) a (1 - a)) = t has the smaller root of X a^2 - (2 t + X - 1) a + t^2 = 0: at least t^2/X, the
    paper's, since E_T[f]^2 <= X E_S[f]; t/D_inf where that is larger.
    """
    half = target + 0.5 * (x - 1.0)
    root = target * target / (half + math.sqrt(max(0.0, half * half - x * target * target)))
    return max(root, target / supremum) * (1.0 - 1e-12)


def rounds(entropy: float, gap: float) -> int:
    """Return T = floor(K/(2 g^2)) + 1 learner calls, with the best step eta = 4 g (docs/corrections.md, K6).

    A round that reweighs has E_mu[1 - loss] >= 1 - learner alpha, and E_u[1 - loss] <= 1 - (reweigh_above alpha -
    slack). Lazy projected multiplicative weights have regret at most K/eta + eta T/8 against u, so after T reweighs T g
    <= K/(4g) + g T/2, that is T <= K/(2 g^2): the next call halts. For the factors of Theorem 4.3, g = 3 alpha/8, T =
    floor(32 K/(9 alpha^2)) + 1 and eta = 3 alpha/2.
    """
    if not gap > 0.0:
        raise BadInput(
            f"the gap reweigh_above * alpha - slack - learner * alpha must be positive, found {gap:g}: raise "
            "accuracy.reweigh_above or lower accuracy.learner"
        )
    return math.floor(entropy / (2.0 * gap**2)) + 1


def sample_weights(alpha: float, beta: float, chi_squared: float) -> int:
    """Return n = 150 X ln(6/beta)/alpha^2, rounded up: the weights concentrate (Lemma 3.2, first half)."""
    return math.ceil(150.0 * chi_squared * math.log(6.0 / beta) / alpha**2)


def sample_finite(alpha: float, beta: float, chi_squared: float, hypotheses: int) -> int:
    """Return n = 32 X ln(2|H|/beta)/alpha^2, rounded up: no h in H is understated by more than alpha/4.

    The lower tail of a mean of non-negative variables with second moment <= X, exp(-n (alpha/4)^2/(2 X)), and a union
    over H.
    """
    return math.ceil(32.0 * chi_squared * (math.log(2.0 / beta) + math.log(hypotheses)) / alpha**2)


def sample_uniform(alpha: float, beta: float, chi_squared: float, dimension: int) -> int:
    """Return the least n >= p with n >= (4/alpha'^2)(p ln(2 e n/p) + ln(8/beta)), rounded up.

    p is the pseudo-dimension of the loss class, and alpha' sqrt(X (2 + ln(1/alpha'))) = alpha/4: Cortes, Mansour and
    Mohri (2010), Theorem 8, as used in Lemma 3.2. The right side is concave in n: iterating from above ends at its
    largest fixed point.
    """
    small = between(0.0, 1.0, lambda a: a * math.sqrt(chi_squared * (2.0 - math.log(a))) <= alpha / 4.0, 0.0)

    def needed(n: float) -> float:
        return 4.0 / small**2 * (dimension * math.log(2.0 * math.e * n / dimension) + math.log(8.0 / beta))

    n = max(1e3, 10.0 * dimension)
    while needed(n) > n:
        n *= 2.0
    for _ in range(200):
        n = max(needed(n), float(dimension))
    return math.ceil(n * (1.0 + 1e-9))


def consistent_sample(alpha: float, beta: float, dimension: int) -> int:
    """Return max((4/alpha) log_2(2/beta), (8 V/alpha) log_2(13/alpha)), rounded up: realizable PAC learning.

    With so many draws, every hypothesis of a class of VC dimension V that errs on none of them has loss at most alpha,
    with probability 1 - beta (Blumer, Ehrenfeucht, Haussler and Warmuth 1989, Theorem 2.1).
    """
    return math.ceil(max(4.0 * math.log2(2.0 / beta), 8.0 * dimension * math.log2(13.0 / alpha)) / alpha)


def agnostic_sample(alpha: float, beta: float, dimension: int) -> int:
    """Return the least n >= V with n >= (32/alpha^2)(V ln(2 e n/V) + ln(4/beta)): agnostic PAC learning.

    With so many draws, no loss in the class is misestimated by more than alpha/2, with probability 1 - beta: the
    hypothesis that errs least on them has at most alpha more loss than the best. Vapnik and Chervonenkis (1971): 4
    S(2n) e^{-n e^2/8} for e = alpha/2, and Sauer's S(2n) <= (2 e n/V)^V.
    """

    def enough(n: int) -> bool:
        return n >= 32.0 / alpha**2 * (dimension * math.log(2.0 * math.e * n / dimension) + math.log(4.0 / beta))

    try:
        return least(enough, max(dimension, 1), 1 << 62)
    except LookupError:
        raise BadInput(f"agnostic learning to alpha = {alpha:g} takes more than 2^62 draws") from None


def steps(alpha: float, beta: float, rounds: int, clip: float, noise: float, diameter: float, dimension: int) -> int:
    """Return R = max(9 D^2 (L^2 + sigma^2 d), 32 D^2 L^2 ln(2T/beta)) / alpha^2, rounded up (docs/corrections.md, K4).

    Online-to-batch for the averaged iterate: loss <= best + 3 D sqrt(L^2 + sigma^2 d)/(2 sqrt R) + L D sqrt(8
    ln(2T/beta)/R), each half of alpha, in all T calls with probability 1 - beta; as in Theorem A.1, in expectation of
    the noise. L = ``clip``, sigma = ``noise`` L.
    """
    moves = 9.0 * diameter**2 * clip**2 * (1.0 + noise**2 * dimension)
    return math.ceil(max(moves, 32.0 * (diameter * clip) ** 2 * math.log(2.0 * rounds / beta)) / alpha**2)


def strong_excess(
    count: float, chance: float, clip: float, noise: float, diameter: float, dimension: int, convexity: float
) -> float:
    """Return by how much the mean of R = ``count`` iterates exceeds the least of a lambda-strongly convex objective.

    The objective is F(h) = E loss(h) + lambda/2 |h - start|^2 on the ball of radius D/2 around the start, the gradient
    of a loss at most L = ``clip`` long, sigma = ``noise`` L, steps 1/(lambda r). With probability 1 - 3 ``chance``, x =
    ln(1/chance), z = pi^2/6 >= sum 1/r^2, and L' = L + lambda D/2:

        ((L'^2 + sigma^2 d)(1 + ln R) + sigma^2 (2 sqrt(z d x) + 2x) + 2 L' sigma sqrt(2 z x))/(2 lambda R)
            + L D sqrt((8 + 2 (sigma/L)^2) x/R)

    Hazan (2016), Theorem 3.3: the sum over r of <g_r + v_r, h_r - h*> - lambda/2 |h_r - h*|^2 is at most that of
    |g_r + v_r|^2/(2 lambda r), for gradients g_r of F at a draw and noise v_r. The latter sum has a mean, a weighted
    sum of chi-squares (Laurent & Massart 2000, Lemma 1) and one of normals. What is left between F's own gradient and
    g_r + v_r is a martingale: its increments are at most 2LD, and normal ones of deviation sigma D at most. Theorem A.1
    takes the noise in expectation.
    """
    x, z = -math.log(chance), math.pi**2 / 6.0
    sigma, slope = noise * clip, clip + convexity * diameter / 2.0
    moves = (slope**2 + sigma**2 * dimension) * (1.0 + math.log(count))
    moves += sigma**2 * (2.0 * math.sqrt(z * dimension * x) + 2.0 * x) + 2.0 * slope * sigma * math.sqrt(2.0 * z * x)
    return moves / (2.0 * convexity * count) + clip * diameter * math.sqrt((8.0 + 2.0 * noise**2) * x / count)


def steps_strong(
    alpha: float, beta: float, rounds: int, clip: float, noise: float, diameter: float, dimension: int, convexity: float
) -> int:
    """Return the least R with :func:`strong_excess` at most alpha - lambda D^2/8, for chance = beta/(3T).

    F is at most lambda D^2/8 above the loss on the ball, and never below it: so the loss is at most the least one plus
    alpha, in all T calls with probability 1 - beta.
    """
    margin = alpha - convexity * diameter**2 / 8.0
    if not margin > 0.0:
        raise BadInput(
            f"regularization * diameter^2/8 must be below the learner's accuracy {alpha:g}, found "
            f"{convexity * diameter**2 / 8.0:g}: lower regularization or diameter"
        )

    def enough(count: int) -> bool:
        return strong_excess(count, beta / (3.0 * rounds), clip, noise, diameter, dimension, convexity) <= margin

    return least(enough, 2, share=1e-12)


def draws(alpha: float, beta: float, rounds: int, epsilon: float, hypotheses: int) -> int:
    """Return m = max(4/eps, 8) ln(2T|H|/beta)/alpha, rounded up: draws for the exponential mechanism, realizable case.

    Among m draws it makes at most 2 ln(2T|H|/beta)/eps mistakes more than the best hypothesis (none), that is alpha
    m/2; and a hypothesis with loss above alpha on mu makes fewer than alpha m/2 mistakes with probability at most
    e^(-alpha m/8) <= beta/(2T|H|). Both in all T calls with probability 1 - beta.
    """
    bits = math.log(2.0 * rounds) + math.log(hypotheses) - math.log(beta)
    return math.ceil(max(4.0 / epsilon, 8.0) * bits / alpha)


def enrolled(answers: int, dropout: float) -> int:
    """Return how many agents to enrol for ``answers`` answers, except with probability 10^-6 (Chernoff)."""
    if dropout == 0.0:
        return answers
    margin = 2.0 * math.log(1e6)
    root = (math.sqrt(margin) + math.sqrt(margin + 4.0 * answers)) / 2.0
    return math.ceil(root**2 / (1.0 - dropout))


def truncation(alpha: float, order: float, moment: float) -> float:
    """Return tau such that cutting the weights off there loses at most alpha/4 of T's mass.

        tau = ((p-1)^(p-1) / p^p * 4 M_p / alpha)^(1/(p-1)),     M_p >= E_S[w^p]

    For every w >= 0, (w - tau)_+ <= c_p w^p / tau^(p-1) with c_p = (p-1)^(p-1) / p^p: the ratio (w - tau)/w^p is
    largest at w = tau p/(p-1), where both sides are equal. So E_S[(w - tau)_+] <= c_p M_p / tau^(p-1) = alpha/4, and no
    bound by M_p alone can be better: a variable on {0, tau p/(p-1)} attains it. p = 2 gives docs/corrections.md's tau =
    X/alpha.

    Args:
        order: p > 1, not necessarily whole.
        moment: M_p >= 1 (by Jensen's inequality it cannot be less).
    """
    if not 0.0 < alpha < 1.0 or not order > 1.0 or not 1.0 <= moment < math.inf:
        raise BadInput(
            f"a truncation needs 0 < alpha < 1, an order above 1 and a finite moment of at least 1, found {alpha:g}, "
            f"{order:g} and {moment:g}"
        )
    log_constant = (order - 1.0) * math.log(order - 1.0) - order * math.log(order)
    return math.exp((log_constant + math.log(4.0 * moment / alpha)) / (order - 1.0))


def gaussian_moment(order: float, sigma_source: float, sigma_target: float, coordinates: int) -> float:
    """Return E_S[w^p] for two centred Gaussians that differ in the spread of some coordinates.

        (r^(p/2) / sqrt(p r - (p-1)))^k,   r = (sigma_S/sigma_T)^2,   infinite where p r <= p - 1

    In one coordinate w = sqrt(r) e^{-x^2 (r-1)/(2 sigma_S^2)}, and E e^{-a x^2/(2 sigma_S^2)} = 1/sqrt(1 + a) for x ~
    N(0, sigma_S^2), with a = p (r-1). Order 2 is the paper's chi^2 + 1.

    Args:
        order: p > 0.
        coordinates: k >= 1, how many differ.
    """
    if not (order > 0.0 and sigma_source > 0.0 and sigma_target > 0.0 and coordinates >= 1):
        raise BadInput(
            f"a moment needs positive order and deviations and k >= 1, found {order:g}, {sigma_source:g}, "
            f"{sigma_target:g} and {coordinates}"
        )
    ratio = (sigma_source / sigma_target) ** 2
    spread = 1.0 + order * (ratio - 1.0)
    if spread <= 0.0:
        return math.inf
    log_moment = coordinates * 0.5 * (order * math.log(ratio) - math.log(spread))
    return math.exp(log_moment) if log_moment < 709.0 else math.inf


PAPER = "Kohen & Sheffet, "
CORRECTIONS = "docs/corrections.md, "


class PlannedValue(Value):
    """One number of a plan.

    Attributes:
        value: What the run uses: the scenario's own number, or the rule's.
        rule: What the formula asks for; None where it does not apply.
        formula, source: The formula in ASCII, and where it is proven.
    """

    value: float
    rule: float | None
    formula: str
    source: str


def follow(setting: Any, rule: Callable[[], float], formula: str, source: str) -> PlannedValue:
    """Return the rule's number where the scenario leaves it at ``plan``, else the given one beside the rule's."""
    if setting == PLAN:
        return fixed(rule(), formula, source)
    try:
        return PlannedValue(value=setting, rule=rule(), formula=f"given; {formula}", source=source)
    except (BadInput, BudgetExceeded):
        return PlannedValue(value=setting, rule=None, formula=f"given; {formula} does not apply", source=source)


def fixed(value: float, formula: str, source: str) -> PlannedValue:
    """Return a number that a scenario cannot give: it always follows from the formula."""
    return PlannedValue(value=value, rule=value, formula=formula, source=source)
