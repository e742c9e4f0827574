"""A learner that chooses the hyperparameters of another learner privately: settings, event, plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from common.core.errors import BadScenario
from common.core.values import PLAN, FromPlan
from common.learners.base import SETTINGS, LearnerSettings, OpenSettings, PlanRequest, PlanTask, parse_settings
from common.local.losses import Loss
from common.privacy.events import Event, Gaussian, PrivateSelection
from common.privacy.theorems.selection import StoppingDistribution, mu_for_selection
from common.statistics.formulas import PlannedValue, fixed, follow

MAX_CANDIDATES = 256
SOURCE = "Papernot & Steinke 2022; docs/hyperparameters.md"

Mu = Annotated[float, Field(gt=0, le=1e6)]


class OpenChosen(OpenSettings):
    """Settings of a private choice (:class:`curator.learners.chosen.ChosenLearner`).

    Attributes:
        learner: Settings of the learner that is run, without ``mu``. It must learn from the sample itself and declare
            Gaussian releases of at most ``mu`` in total.
        grid: Values to try for each setting of that learner; every combination is a candidate.
        law: The law of K.
        mu: Privacy parameter of one run: given to the learner as its ``mu``, and spent on its score.
        validation: Share of the places for validation, in (0, 1).
        judges: ``held-out``: validation on part of the places. ``public``: on part of the public sample, if that is of
            the people for whom the hypothesis is (reverse adaptation); the whole private sample is then for training.
            Scores on public records are post-processing and need no noise.
        loss: The loss of the score, which is the one that agents test.
        cut: Upper bound of losses, in scores only. The noise of a score is cut/mu, so a public bound on the losses that
            matter reduces it by that factor (for squared residuals of a tenth: .01). Mistakes are not cut.
    """

    reweighs: ClassVar[bool] = False
    name: Literal["chosen"] = "chosen"
    learner: dict[str, Any]
    grid: dict[str, tuple[Any, ...]] = Field(min_length=1)
    law: StoppingDistribution
    mu: Mu | FromPlan
    validation: float = Field(default=0.2, gt=0, lt=1)
    judges: Literal["held-out", "public"] = "held-out"
    loss: Loss = "zero-one"
    cut: float = Field(default=1.0, gt=0, le=1)

    @model_validator(mode="after")
    def _grid_fits(self) -> Self:
        size = math.prod(map(len, self.grid.values()))
        if not 1 <= size <= MAX_CANDIDATES:
            raise ValueError(f"the grid must have 1 to {MAX_CANDIDATES} combinations, found {size}")
        fixed = sorted({"name", "mu"} & set(self.grid)) + sorted({"mu"} & set(self.learner))
        if fixed:
            raise ValueError(f"{fixed[0]} is the same for all candidates and given outside of the grid and the learner")
        if "bound_share" in (*self.grid, *self.learner):
            raise ValueError("bound_share: Theorem B.1 is about one run; of a choice only the model is released")
        return self

    @property
    def surrogate_loss(self) -> str | None:
        losses = {parse_settings(self.candidate(point)).surrogate_loss for point in combinations(self.grid)}
        return losses.pop() if len(losses) == 1 else None

    def candidate(self, point: dict[str, Any]) -> dict[str, Any]:
        return {**self.learner, **point, "mu": self.mu}

    def planned_rounds(self, request: PlanRequest) -> PlannedValue:
        return follow(request.given_rounds, lambda: 1, "one choice", SOURCE)

    def complete(self, task: PlanTask, n: int | None) -> ChosenSettings:
        """Fill in the ``mu`` of a run such that one choice costs the curator's whole budget."""
        if self.mu != PLAN:
            return self.settled(ChosenSettings, mu=self.mu)
        epsilon, delta = task.delta_budget("mu of the learner chosen")
        if task.rounds != 1:
            raise BadScenario(f"planning mu of the learner chosen is for one round, found {task.rounds}: give mu")
        return self.settled(ChosenSettings, mu=mu_for_selection(epsilon, delta, self.law))


@SETTINGS.register("chosen")
class ChosenSettings(OpenChosen, LearnerSettings):
    """Settled settings of a private choice."""

    mu: Mu

    @model_validator(mode="after")
    def _candidates_fit(self) -> Self:
        for point in combinations(self.grid):
            try:
                candidate = parse_settings(self.candidate(point))
            except BadScenario as error:
                raise ValueError(f"the candidate {point}: {error.detail}") from None
            if not isinstance(candidate, LearnerSettings):
                raise ValueError(f"the candidate {point}: mu is all that may be left at plan, of the choice itself")
            event = candidate.event(1.0)
            if not isinstance(event, Gaussian):
                raise ValueError(
                    f"{candidate.name} declares {event.kind} events, and only learners with Gaussian releases from the "
                    f"sample itself can be chosen from: take cnvx-adap or ncnvx-adap"
                )
            if event.count * Fraction(event.mu) ** 2 > Fraction(self.mu) ** 2:
                run = f"a run of {candidate.name} is {event.count} times {event.mu}-GDP"
                raise ValueError(f"{run}, more than mu = {self.mu}")
            if candidate.by_choice:
                raise ValueError(
                    f"{candidate.name} gives hypotheses that not everybody accepts: it cannot be chosen from"
                )
        return self

    @property
    def candidates(self) -> list[dict[str, Any]]:
        return [self.candidate(point) for point in combinations(self.grid)]

    def event(self, tv_bound: float) -> Event:
        return PrivateSelection(mu=self.mu, law=self.law)

    def planned_people(self, task: PlanTask) -> PlannedValue:
        return task.any_people(SOURCE)

    def planned_values(self, task: PlanTask, settings: OpenSettings) -> dict[str, PlannedValue]:
        return {
            "mu": self.chosen_value(settings, "mu", "largest mu whose choice is (eps, delta)-DP", SOURCE),
            "runs": fixed(self.law.expected, "E[K]: runs that are chosen from, on the average", SOURCE),
            "most runs": fixed(self.law.most, "law.most: runs that are carried out", SOURCE),
        }


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of a grid's values; the last key varies fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
