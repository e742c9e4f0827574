"""Private domain adaptation: a few private people, a public sample of another domain, tested by agents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from common.core.errors import BadFit
from tandem.estimators.base import HybridEstimator, Sides
from tandem.estimators.running import PUBLIC, SOURCE, TARGET

CHOICE = {"law": {"name": "negative-binomial", "eta": 1.0, "gamma": 0.25, "most": 16}, "validation": 0.2}
"""How a grid is searched where nothing else is said: four runs on the average, sixteen carried out."""


class Adapter(HybridEstimator):
    """What both adapters share; not an estimator itself."""

    _shortens = False
    _learner: ClassVar[str]
    _loss: ClassVar[str]
    _output: ClassVar[str]
    """Which iterate is released, where the settings do not say: all cost the same, and this one is best in practice."""

    alpha: float
    private: str
    radius: float
    iterations: int
    settings: Mapping[str, Any] | None
    grid: Mapping[str, Any] | None
    choice: Mapping[str, Any] | None

    def _adapt(self, X: Any, y: Any, public: Any, population: Any) -> None:
        """Read everybody, run, and keep what was released."""
        if public is None:
            raise BadFit(f"{type(self).__name__} adapts from a public sample of another domain: give public=(X, y)")
        if population is None and self.private == "source":
            raise BadFit("private: source has nobody of the target to test on: give population=(X, y)")
        seed = self._seed()
        sides = self._sides(self._people(X, y), None if population is None else self._others(population, y), seed)
        self._carry_out(self._tree(sides), sides, seed, self._others(public, y))

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
        one = {
            "name": self._learner,
            **self._columns(),
            "alpha": self._number("alpha"),
            "private": self.private,
            "radius": self._number("radius"),
            "norm": 0.5 * math.sqrt(self._schema.dimension) if self.norm is None else self._number("norm"),
            "iterations": self._whole("iterations"),
            "output": self._output,
            **(self.settings or {}),
        }
        if self.grid is None:
            return {"mu": "plan", **one}
        judges = "public" if self.private == "source" else "held-out"
        grid = {name: list(values) for name, values in self.grid.items()}
        several = {"name": "chosen", "learner": one, "grid": grid, "loss": self._loss, "judges": judges}
        return {"mu": "plan", **several, **CHOICE, **(self.choice or {})}

    def _assumptions(self) -> tuple[str, ...]:
        return (*super()._assumptions(), "every record of the public sample")
