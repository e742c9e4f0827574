"""Both algorithms of adaptation as one central mechanism on the private side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Gaussian, NonPrivate
from common.vocabulary.learners.adaptation import Private
from curator.learners.adaptation.convex import ConvexSettings, fit_convex
from curator.learners.adaptation.domains import Domains, Side
from curator.learners.adaptation.nonconvex import NonconvexSettings, fit_nonconvex
from curator.mechanisms.base import Mechanism, central


@central
@dataclass(frozen=True)
class Adaptation(Mechanism[Side, Floats]):
    """CnvxAdap or NCnvxAdap between a public side and the private one; releases w, and is mu-GDP for the private side.

    Values are a :class:`Side` a block. The algorithms bring all rows within their public bounds before they use them,
    whatever they are given, and calibrate their noise from mu (:mod:`curator.learners.adaptation.convex`,
    :mod:`curator.learners.adaptation.nonconvex`).

    Attributes
    ----------
    settings
        Of the algorithm, whose type says which one it is.
    public
        The public side.
    private
        Which side is the private one.
    mu
        Of everything; None for no privacy at all.
    """

    settings: ConvexSettings | NonconvexSettings
    public: Side
    private: Private
    mu: float | None

    @property
    def price(self) -> Event:
        """mu-GDP."""
        return NonPrivate() if self.mu is None else Gaussian(mu=self.mu)

    def apply(self, values: Iterator[Side], source: RandomSource) -> Floats:
        """Return w, shape (d,)."""
        sides = list(values)
        own = Side(
            np.concatenate([side.features for side in sides]), np.concatenate([side.responses for side in sides])
        )
        source_side, target = (own, self.public) if self.private == "source" else (self.public, own)
        domains = Domains(source_side, target, self.private)
        if type(self.settings) is ConvexSettings:
            return fit_convex(domains, self.settings, self.mu, source)
        if type(self.settings) is NonconvexSettings:
            return fit_nonconvex(domains, self.settings, self.mu, source)
        raise TypeError(f"no algorithm has settings of type {type(self.settings).__name__}")
