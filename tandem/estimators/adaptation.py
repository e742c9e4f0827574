"""Private domain adaptation: a few private people, a public sample of another domain, tested by agents."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import polars

from common.core.errors import BadFit
from common.learners.adaptation import MAX_SCORES
from tandem.estimators.base import HybridEstimator, Sides
from tandem.estimators.shared.clipping import PublicClippingWarning, clipped_shares, public_pairs, warning_text
from tandem.estimators.shared.frames import labelled
from tandem.estimators.shared.running import PUBLIC, SOURCE, TARGET

CHOICE = {"law": {"name": "negative-binomial", "eta": 1.0, "gamma": 0.25, "most": 16}, "validation": 0.2}
"""How a grid is searched where nothing else is said: four runs on the average, sixteen carried out."""

MAX_RADIUS = 64.0
"""Lambda of half-spaces if none is given: logistic regressions without privacy are no longer on any set of
docs/adaptation-tables.md, so that the adapters search what those search.
"""


class Adapter(HybridEstimator):
    """What both adapters share; not an estimator itself."""

    _shortens = False
    _learner: ClassVar[str]
    _loss: ClassVar[str]
    _further: ClassVar[Mapping[str, Any]] = {}
    """Further settings, where they are not given."""
    _output: ClassVar[str]
    """Which iterate is released, where the settings do not say: all cost the same, and this one is best in practice."""

    alpha: float
    private: str
    radius: float | None
    iterations: int
    settings: Mapping[str, Any] | None
    grid: Mapping[str, Any] | None
    choice: Mapping[str, Any] | None

    public_clipped_: dict[str, float]
    """Share of the public sample's values that are beyond their bounds, by column, where there are any."""

    def _adapt(self, X: Any, y: Any, public: Any, population: Any) -> None:
        """Read everybody, run, and keep what was released."""
        if public is None:
            raise BadFit(f"{type(self).__name__} adapts from a public sample of another domain: give public=(X, y)")
        if population is None and self.private == "source":
            raise BadFit("private: source has nobody of the target to test on: give population=(X, y)")
        seed = self._seed()
        self._open = labelled(public, y, "public")[0]
        people = self._people(X, y)
        del self._open
        others = self._others(public, y, "public")
        self._settle(others)
        self._warn(others)
        asked = None if population is None else self._others(population, y, "population")
        sides = self._sides(people, asked, seed, X, y, population)
        self._carry_out(self._tree(sides), sides, seed, others)

    def _public_bounds(self, columns: list[str]) -> Any:
        """Return the bounds as they are declared, or as the public sample has them."""
        if not self._by_public:
            return self.bounds
        return public_pairs(self._open, columns)

    @property
    def _by_public(self) -> bool:
        return isinstance(self.bounds, str) and self.bounds == "public"

    def _settle(self, others: polars.DataFrame) -> None:
        """Settle what else the public sample decides."""

    def _response_cost(self, others: polars.DataFrame) -> float:
        """Return what clipping costs the public responses, in shares of their variance."""
        return 0.0

    def _warn(self, others: polars.DataFrame) -> None:
        """Say what of the public sample the bounds cut off: those of the private people cannot be told."""
        self.public_clipped_ = clipped_shares(others, self._described(PUBLIC))
        text = warning_text(self.public_clipped_, self._response_cost(others))
        if text:
            warnings.warn(text, PublicClippingWarning, stacklevel=4)

    def _tree(self, sides: Sides) -> dict[str, Any]:
        """Return the scenario of a fit: the curator learns once, every agent tests once."""
        epsilon, delta = self._number("epsilon"), self._number("delta")
        return {
            "name": "domain-adapter",
            "title": "A model adapted from a public sample to a private one, tested on the population",
            "protocol": "learn-and-test",
            "alpha": 0.1,
            "people": "real" if self.random_state is None else "simulated",
            "source": {"table": self._described(SOURCE).wire()},
            "target": {"table": self._described(TARGET).wire()},
            "public": {"table": self._described(PUBLIC).wire()},
            "curator": {
                "n": len(sides.curator),
                "epsilon": epsilon,
                "delta": delta,
                "kappa": None,
                "lifetime": self._lifetime(),
                "learner": self._learning(),
            },
            "agents": {
                "count": len(sides.population),
                "mechanism": {"name": "warner", "epsilon": self._number("agent_epsilon")},
                "loss": self._loss,
            },
        }

    def _columns(self) -> dict[str, int]:
        """Return which columns the learner looks at."""
        return {"features": self._schema.dimension}

    def _learning(self) -> dict[str, Any]:
        """Return the learner's settings: of one run, or of a private choice among several."""
        norm = self._norm()
        one = {
            "name": self._learner,
            **self._columns(),
            "alpha": self._number("alpha"),
            "private": self.private,
            "radius": self._radius(norm),
            "norm": norm,
            "iterations": self._whole("iterations"),
            "output": self._output,
            "start": "public",
            "whitening": "public" if self._by_public else "none",
            **self._further,
            **(self.settings or {}),
        }
        if self.grid is None:
            return {"mu": "plan", **one}
        judges = "public" if self.private == "source" else "held-out"
        grid = {name: list(values) for name, values in self.grid.items()}
        several = {"name": "chosen", "learner": one, "grid": grid, "loss": self._loss, "judges": judges}
        return {"mu": "plan", **several, **CHOICE, **(self.choice or {})}

    def _norm(self) -> float:
        """Return r: 1 for whitened features, of which three quarters of the public ones are within it."""
        if self.norm is not None:
            return self._number("norm")
        return 1.0 if self._by_public else 0.5 * math.sqrt(self._schema.dimension)

    def _radius(self, norm: float) -> float:
        """Return Lambda: as given, or so large that it keeps no ordinary half-space out."""
        if self.radius is not None:
            return self._number("radius")
        return min(MAX_RADIUS, MAX_SCORES / math.hypot(norm, 1.0))

    def _assumptions(self) -> tuple[str, ...]:
        return (*super()._assumptions(), "every record of the public sample")
