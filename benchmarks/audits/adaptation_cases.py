"""Private adaptation under audit: both algorithms, and the discrepancy that they begin with.

One person with x = 1 gives another answer, the others never change. At w = 0 both residuals are nearly as
large as they can be (the radius is small), so the worst case is nearly there, and released is w alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.learners.adaptation import MatchingFields, Private
from common.numerics.randomness import RandomSource
from common.privacy.auditing import Subject
from common.privacy.theorems.gaussian_dp import StepNoise, epsilon_of, step_noise
from curator.learners import adaptation, matching, networks, noisy_descent
from curator.learners.adaptation import ConvexSettings, NonconvexSettings, solve
from curator.learners.discrepancy import private_discrepancy, sensitivity
from curator.learners.domains import Domains, DomainSide
from curator.learners.matching import private_shares, selection_epsilon
from curator.learners.networks import NetworkSettings
from curator.learners.noisy_descent import DescentResult, Rows, descend
from deploy.auditing import Case, Safeguard, without

AUDITED = {
    "access Adaptation": (
        *("CnvxAdap", "CnvxAdap, private source", "NCnvxAdap", "NCnvxAdap, a network", "the discrepancy"),
        *("Theorem B.1's bound", "CnvxAdap, few labels"),
    ),
    "access MatchedSource": ("private discrepancy minimization",),
}
"""The cases here of each way to use people, and of each operation."""

DELTA = 1e-2
MU = 1.0
SMALL = 0.01
"""Radius, in which predictions hardly differ from 0."""


def person(feature: float, response: float, private: Private = "target", others: int = 1) -> Domains:
    """Return one person with a feature and a response, and others who have no feature."""
    features, responses = np.zeros((1 + others, 1)), np.ones(1 + others)
    features[0], responses[0] = feature, response
    own, other = DomainSide(features, responses), DomainSide(np.zeros((1, 1)), np.ones(1))
    return Domains(own, other, "source") if private == "source" else Domains(other, own)


def fitted(settings: Any, safeguard: Safeguard | None = None, other: Any = None) -> Subject:
    """One fit a run; or with something else in the place of a safeguard."""

    def shipped(given: Domains, runs: int, source: RandomSource) -> AnyArray:
        return np.array([solve(given, settings, MU, source.derive(run)).weights[0] for run in range(runs)])

    return without(safeguard, other, shipped) if safeguard else shipped


def one_step(mu: float, iterations: int, share: float, *, joint: bool) -> StepNoise:
    """Calibrate as if there were one iteration: what composition adds is forgotten."""
    return step_noise(mu, 1, share, joint=joint)


def algorithm_cases() -> list[Case]:
    """Both algorithms, over several iterations; either side private."""
    common = {"alpha": 0.5, "radius": SMALL, "kappa_2": 0.0, "iterations": 9, "output": "last", "scales_share": 0.1}
    squared, logistic = ConvexSettings(**common), NonconvexSettings(**common)

    def case(name: str, settings: Any, private: Private) -> Case:
        inputs = person(1.0, 1.0, private), person(1.0, -1.0, private)
        alone = fitted(settings, (noisy_descent, "step_noise"), one_step)
        return Case(
            name,
            epsilon_of(MU, DELTA),
            inputs,
            fitted(settings),
            1600,
            delta=DELTA,
            twins={} if private == "source" else {"no composition": alone},
            least=0.1,
        )

    return [
        case("CnvxAdap", squared, "target"),
        case("CnvxAdap, private source", squared, "source"),
        case("NCnvxAdap", logistic, "target"),
    ]


def clipping_case() -> Case:
    """A person far outside the public bounds."""
    settings = ConvexSettings(alpha=0.5, radius=SMALL, kappa_2=0.0, iterations=1, output="last", scales_share=0.1)

    def as_it_is(side: DomainSide, norm: float) -> DomainSide:
        return side

    return Case(
        "CnvxAdap, a person out of bounds",
        epsilon_of(MU, DELTA),
        (person(5.0, 1.0, others=600), person(-5.0, 1.0, others=600)),
        fitted(settings),
        400,
        delta=DELTA,
        twins={"no clipping": fitted(settings, (DomainSide, "bounded"), as_it_is)},
    )


def public_clip_case() -> Case:
    """A person whose residual is ten times the clip that the public side says: once of either sign."""
    common = {"alpha": 0.5, "radius": SMALL, "kappa_2": 0.0, "iterations": 4, "output": "last", "scales_share": 0.1}
    settings = ConvexSettings(**common, residual_clip="public")
    public = DomainSide(np.zeros((1, 1)), np.full(1, 0.1))
    inputs = [Domains(public, person(1.0, response).target) for response in (1.0, -1.0)]

    def unclipped(settings: ConvexSettings, *rest: Any) -> DescentResult:
        return descend(settings.model_copy(update={"residual_clip": None}), *rest)

    return Case(
        "CnvxAdap, residuals clipped by the public side",
        epsilon_of(MU, DELTA),
        (inputs[0], inputs[1]),
        fitted(settings),
        800,
        delta=DELTA,
        twins={"noise of the clip, residuals without": fitted(settings, (adaptation, "descend"), unclipped)},
        least=0.1,
    )


def network_case() -> Case:
    """A person of either class, whose gradient is seven times the clip; released is the last layer's constant."""
    common = {"alpha": 0.5, "radius": 1.0, "iterations": 4, "output": "last", "scales_share": 0.1, "start": "zero"}
    settings = NetworkSettings(**common, hidden=1, gradient_clip=0.1, step=1e-3)
    inputs = [person(1.0, code / 64.0) for code in (0, 1)]

    def shipped(given: Domains, runs: int, source: RandomSource) -> AnyArray:
        found = [solve(given, settings, MU, source.derive(run)).weights for run in range(runs)]
        return np.array([weights[4] - weights[2] for weights in found])

    move = networks.move_network_rows

    def unclipped(side: Rows, weights: Floats, shape: networks.Shape, clip: float, *rest: Any) -> None:
        move(side, weights, shape, 1e3 * clip, *rest)

    return Case(
        "NCnvxAdap, a network",
        epsilon_of(MU, DELTA),
        (inputs[0], inputs[1]),
        shipped,
        800,
        delta=DELTA,
        twins={"gradients as long as they are": without((networks, "move_network_rows"), unclipped, shipped)},
        least=0.1,
    )


def discrepancy_case() -> Case:
    """One of a thousand people decides where DCA ends."""

    def shipped(given: Domains, runs: int, source: RandomSource) -> AnyArray:
        return np.array([private_discrepancy(given, 1.0, 1.0, MU, source.derive(run)) for run in range(runs)])

    def dca(given: Domains, runs: int, source: RandomSource) -> AnyArray:
        return by_dca(given) + sensitivity(given, 1.0, 1.0) / MU * source.normals(runs)

    def exact(given: Domains, runs: int, source: RandomSource) -> AnyArray:
        return np.full(runs, private_discrepancy(given, 1.0, 1.0, None, source))

    return Case(
        "the discrepancy",
        epsilon_of(MU, DELTA),
        (divided(1000, 499), divided(1000, 500)),
        shipped,
        400,
        delta=DELTA,
        twins={"DCA": dca, "no noise": exact},
    )


def bound_case() -> Case:
    """One of two people, whose loss is nearly the greatest or nearly none; released is their mean loss."""
    common = {"alpha": 0.1, "radius": SMALL, "kappa_2": 0.0, "iterations": 1, "output": "last", "bound_share": 0.95}
    settings = ConvexSettings(**common, discrepancy_share=0.02)

    def shipped(given: Domains, runs: int, source: RandomSource) -> AnyArray:
        found = (solve(given, settings, MU, source.derive(run)).bound for run in range(runs))
        return np.array([bound.empirical for bound in found if bound])

    def whole(settings: Any, mu: float) -> float:
        return 4.0 * mu

    return Case(
        "Theorem B.1's bound",
        epsilon_of(MU, DELTA),
        (person(1.0, 1.0), person(1.0, 0.0)),
        shipped,
        1600,
        delta=DELTA,
        twins={"more than its share of mu": without((adaptation, "bound_mu"), whole, shipped)},
        least=0.1,
    )


def few_labels_case() -> Case:
    """The one person of a hundred whose label is read, with either answer."""
    common = {"alpha": 0.5, "radius": SMALL, "kappa_2": 0.0, "iterations": 1, "output": "last", "scales_share": 0.1}
    settings = ConvexSettings(**common, labelled=1)
    noise = ConvexSettings.noise

    def of_all(chosen: ConvexSettings, domains: Domains, mu: float) -> tuple[float, float]:
        own = domains.target
        everybody = DomainSide(np.repeat(own.features, 100, axis=0), np.repeat(own.responses, 100))
        return noise(chosen, Domains(domains.source, everybody), mu)

    return Case(
        "CnvxAdap, few labels",
        epsilon_of(MU, DELTA),
        (person(1.0, 1.0, others=99), person(1.0, -1.0, others=99)),
        fitted(settings),
        800,
        delta=DELTA,
        twins={"noise as if all had labels": fitted(settings, (ConvexSettings, "noise"), of_all)},
        least=0.1,
    )


def matching_case() -> Case:
    """The one person of the target has either of two features; which of two source rows is taken tells the answer."""
    settings = MatchingFields(norm=1.0, radius=1.0, iterations=1, smoothing=1.0, kept=0)
    source = DomainSide(np.eye(2), np.array([1.0, -1.0]))
    inputs = [Domains(source, DomainSide(row[None], np.zeros(1))) for row in np.eye(2)]

    def shares(given: Domains, runs: int, random: RandomSource) -> AnyArray:
        rows = given.source.features, given.target.features
        found = [private_shares(*rows, settings, MU, random.derive(run)) for run in range(runs)]
        return np.array([share[0] for share in found])

    def twentyfold(mu: float, iterations: int) -> float:
        return 20.0 * selection_epsilon(mu, iterations)

    return Case(
        "private discrepancy minimization",
        epsilon_of(MU, DELTA),
        (inputs[0], inputs[1]),
        shares,
        1600,
        delta=DELTA,
        twins={"a twentieth of the sensitivity": without((matching, "selection_epsilon"), twentyfold, shares)},
        least=0.1,
    )


def divided(n: int, ones: int) -> Domains:
    """Return one feature: a target of x = 1 with responses 1 for some and 0 for others, and a source of zeros."""
    source = DomainSide(np.zeros((1, 1)), np.zeros(1))
    return Domains(source, DomainSide(np.ones((n, 1)), np.repeat([1.0, 0.0], [ones, n - ones])))


def by_dca(given: Domains, start: float = 0.4995) -> float:
    """Return one sign of the discrepancy on [-1, 1] as DCA finds it, in one dimension: at a local maximum."""
    features, responses = given.target.features[:, 0], given.target.responses
    a, b, c = (float(product.mean()) for product in (features**2, features * responses, responses**2))
    w = start
    for _ in range(100):
        w = 1.0 if a * w - b >= 0 else -1.0
    return a * w * w - 2 * b * w + c


def cases() -> list[Case]:
    """Return every case of adaptation."""
    return [
        *algorithm_cases(),
        clipping_case(),
        public_clip_case(),
        network_case(),
        discrepancy_case(),
        bound_case(),
        few_labels_case(),
        matching_case(),
    ]
