"""The objectives (6) and (7) of the paper, plainly: a reference for the fast code, and what measurements need.

Weights are q_i = p_i/v_i with p_i the reference weight (alpha/m or (1 - alpha)/n) and v_i = p_i u_i >= 1 the *scale*,
u_i = 1/q_i being the paper's variable. A gradient in u_i is p_i times the one in v_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from common.core.arrays import Floats
from curator.learners.domains import Domains, Loss


@dataclass(frozen=True)
class Objective:
    """F of problem (6) (``convex``) or J of problem (7), for given records and a given discrepancy.

    ::

        sum_i (l_i(w) + d [i in source]) q_i  +  kappa_1 r(q)  +  kappa_2 ||q||_2  +  kappa_inf max_i q_i

    with r = sum_i p_i v_i - 1 in F, which is convex, and r = 1 - sum_i q_i in J; the maximum may be replaced by
    ln(sum_i exp(mu q_i))/mu, mu = ``sharpness``.

    Attributes:
        domains: Within public bounds.
        alpha, discrepancy: alpha in (0, 1), d.
        kappa_1, kappa_2, kappa_inf: At least 0.
        loss: ``squared`` or ``logistic``.
        convex: Whether r is the convex bound.
        sharpness: Infinite for the maximum itself.
    """

    domains: Domains
    alpha: float
    discrepancy: float
    kappa_1: float
    kappa_2: float
    kappa_inf: float
    loss: Loss = "squared"
    convex: bool = True
    sharpness: float = np.inf

    @property
    def references(self) -> Floats:
        """p, shape (m + n,): the source first."""
        source, target = self.domains.shares(self.alpha)
        return np.repeat([source, target], [len(self.domains.source), len(self.domains.target)])

    def losses(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return l_i + d [i in source] and the slopes dl_i/d(w.x_i), shape (m + n,) each."""
        sides = (self.domains.source, self.domains.target)
        scores = np.concatenate([side.features @ weights for side in sides])
        responses = np.concatenate([side.responses for side in sides])
        if self.loss == "squared":
            losses, slopes = (scores - responses) ** 2, 2.0 * (scores - responses)
        else:
            losses = np.logaddexp(0.0, -responses * scores)
            slopes = -responses / (1.0 + np.exp(responses * scores))
        losses[: len(self.domains.source)] += self.discrepancy
        return losses, slopes

    def value(self, weights: Floats, scales: Floats) -> float:
        """Return the objective at w, shape (d,), and v, shape (m + n,)."""
        p = self.references
        q = p / scales
        pull = float(p @ scales) - 1.0 if self.convex else 1.0 - float(q.sum())
        soft = np.isfinite(self.sharpness)
        greatest = float(logsumexp(self.sharpness * q)) / self.sharpness if soft else float(q.max())
        fit = float(q @ self.losses(weights)[0])
        return fit + self.kappa_1 * pull + self.kappa_2 * float(np.linalg.norm(q)) + self.kappa_inf * greatest

    def gradients(self, weights: Floats, scales: Floats) -> tuple[Floats, Floats]:
        """Return a (sub)gradient in w, shape (d,), and in v, shape (m + n,).

        Where several weights are the greatest, each gets an equal part of the subgradient.
        """
        p = self.references
        q = p / scales
        losses, slopes = self.losses(weights)
        features = np.concatenate([self.domains.source.features, self.domains.target.features])
        force = losses + self.kappa_2 * q / np.linalg.norm(q) + self.kappa_inf * greatest_parts(q, self.sharpness)
        pull = self.kappa_1 if self.convex else self.kappa_1 / scales**2
        return features.T @ (q * slopes), p * (pull - force / scales**2)


def greatest_parts(q: Floats, sharpness: float) -> Floats:
    """Return the (sub)gradient of the greatest weight: parts of the weights, which sum to 1."""
    if np.isinf(sharpness):
        greatest = q == q.max()
        return np.asarray(greatest / np.count_nonzero(greatest), dtype=np.float64)
    parts = np.exp(sharpness * (q - q.max()))
    return np.asarray(parts / parts.sum(), dtype=np.float64)
