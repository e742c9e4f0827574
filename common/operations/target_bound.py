"""Bound on a released model's loss on the target from the two samples alone: Theorem B.1 of Bassily et al. (2024)."""

import math
from statistics import NormalDist
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from common.core.values import Value

CONFIDENCE = 0.95
_ROUNDING = 1.0 + 2.0**-40  # more than the rounding error of a sum of a few doubles


class TargetBound(Value):
    """An upper bound on a loss on the target, as a sum of five terms, in the units that agents measure.

    It is about people whose features are within the learner's public ``norm``: longer ones count as scaled down to it.
    It assumes only that each sample was drawn independently from its domain.

    Attributes:
        loss: ``squared``, of a response in [0, 1], or ``zero-one``, which is bounded by a loss that is never smaller.
        value: The sum. A value of 1 or above is trivial, as no loss here is greater.
        confidence: Over the draws of both samples and the curator's noise together.
        empirical: Mean loss of both samples, weighted by alpha and 1 - alpha; the private one as released, with noise.
        discrepancy: alpha times the discrepancy of the samples as released.
        noise: Margin for the noise of the two releases, which may have made these terms too small.
        sampling: Margin for the weighted mean loss below its expectation, for all models of the ball at once.
        estimation: alpha times the margin for the samples' discrepancy below that of the domains.
    """

    loss: Literal["squared", "zero-one"]
    value: float = Field(ge=0)
    confidence: float = Field(gt=0, lt=1)
    empirical: float = Field(ge=0)
    discrepancy: float = Field(ge=0)
    noise: float = Field(ge=0)
    sampling: float = Field(ge=0)
    estimation: float = Field(ge=0)

    @model_validator(mode="after")
    def _check_sum(self) -> Self:
        terms = self.terms
        if not sum(terms) <= self.value <= sum(terms) * (1.0 + 1e-9):
            raise ValueError(f"value = {self.value} is not the sum of its terms {terms}")
        return self

    @property
    def terms(self) -> tuple[float, ...]:
        return self.empirical, self.discrepancy, self.noise, self.sampling, self.estimation

    def in_words(self) -> str:
        """Return a sentence with the bound, its terms and its assumptions."""
        note = "" if self.value < 1.0 else ", which says nothing, as no loss is greater than 1"
        what = "share of mistakes" if self.loss == "zero-one" else "squared loss"
        percent = math.floor(self.confidence * 1e4 + 1e-9) / 100
        return (
            f"the {what} on T is at most {math.ceil(self.value * 1e4) / 1e4:.4f}{note} (losses of both samples "
            f"{self.empirical:.4f}, their discrepancy {self.discrepancy:.4f}, noise {self.noise:.4f}, finite samples "
            f"{self.sampling:.4f} and {self.estimation:.4f}), with {percent:g}% confidence, if both samples were drawn "
            "independently from their domains and all features are within the norm"
        )


class Released(NamedTuple):
    """A number that may be too small by noise of this standard deviation, and by ``slack`` in addition."""

    value: float
    deviation: float
    slack: float

    def margin(self, chance: float) -> float:
        """Return the most by which it is too small, except with probability ``chance``."""
        return -NormalDist().inv_cdf(chance) * self.deviation + self.slack if self.deviation else self.slack


class LossClass(NamedTuple):
    """Public numbers of a class of losses: c, their weighted complexity over ||q||, and B, their width."""

    complexity: float
    width: float


def target_bound(
    loss: Literal["squared", "zero-one"],
    scale: float,
    alpha: float,
    sizes: tuple[int, int],
    losses: tuple[Released, Released],
    discrepancy: Released,
    loss_class: LossClass,
) -> TargetBound:
    """Return the right side of Theorem B.1 at q = p, with all terms estimated from released numbers.

    *Theorem.* Let m people of the source and n of the target (``sizes``) be drawn independently, let losses of one
    model differ by at most B, and R_p <= c ||p||, p = (alpha/m, (1 - alpha)/n), alpha fixed beforehand. Then with
    probability 1 - eta, eta = 1 - :data:`CONFIDENCE`, over the samples and the noise, the loss on the target of *any*
    released model of the class is at most

        alpha L_S + (1 - alpha) L_T + alpha d + noise + ||p|| (2 c + B sqrt(ln(8/eta)/2))
            + alpha (2 c (1/sqrt m + 1/sqrt n) + B sqrt((1/m + 1/n) ln(4/eta)/2)).

    *Proof.* Use Theorem B.1 with q = p, at eta/4: the terms with ||q - p||_1 vanish, and sqrt(ln log2 2) = 0. Its dis
    is that of the domains, one-sided (which suffices in (10)). For all models at once

        (L(T) - L(S)) - (L_T - L_S) <= 2 c/sqrt n + 2 c/sqrt m + B sqrt((1/m + 1/n) ln(4/eta)/2)

    with probability 1 - eta/4: a record moves the supremum by B/m or B/n (McDiarmid), and its mean is at most the two
    symmetrized ones. So dis is at most the samples' discrepancy, one-sided or not, plus that. As noise is Gaussian,
    each released number is too small by more than its margin at eta/4 with probability at most eta/4. The union bound
    completes the proof; as both inequalities hold for all models, the released one may depend on the samples.

    ``scale`` is the size of a unit of the class' loss in units of ``loss``.
    """
    eta = 1.0 - CONFIDENCE
    (m, n), (c, width) = sizes, loss_class
    shares, length = (alpha, 1.0 - alpha), math.hypot(alpha / math.sqrt(m), (1.0 - alpha) / math.sqrt(n))
    empirical = sum(share * estimate.value for share, estimate in zip(shares, losses, strict=True))
    noise = sum(share * estimate.margin(eta / 4.0) for share, estimate in zip(shares, losses, strict=True))
    noise += alpha * discrepancy.margin(eta / 4.0)
    sampling = length * (2.0 * c + width * math.sqrt(math.log(8.0 / eta) / 2.0))
    spread = math.sqrt((1.0 / m + 1.0 / n) * math.log(4.0 / eta) / 2.0)
    estimation = alpha * (2.0 * c * (m**-0.5 + n**-0.5) + width * spread)
    terms = [_ROUNDING * scale * term for term in (empirical, alpha * discrepancy.value, noise, sampling, estimation)]
    return TargetBound(
        loss=loss,
        value=sum(terms) * _ROUNDING,
        confidence=CONFIDENCE,
        empirical=terms[0],
        discrepancy=terms[1],
        noise=terms[2],
        sampling=terms[3],
        estimation=terms[4],
    )
