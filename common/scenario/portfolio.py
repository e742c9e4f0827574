"""How a portfolio spends: what the curator counts, who repairs, who judges."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from common.core.values import Value
from common.local.records import Groups


class Portfolio(Value):
    """Settings of the protocol ``portfolio``; those who do not know better leave all of them out.

    Attributes
    ----------
    margins
        Share of the curator's epsilon that pays for shares of its people by score, group and label.
    raking
        Whether the sample is given the population's share of labels before the curator learns from it. It repairs
        shifts of label shares and may harm where the shift is another one: then no model of the plain sample competes.
    repair
        Share of the agents who tell what to repair: their label alone, then score, group and label. The others judge
        the candidates. At 0 nothing is repaired and all judge, so that the model and the constants are told apart by
        as many as there are.
    labels
        Share of those agents who tell their label alone.
    alone
        Share of those agents from whose answers alone a further candidate is learned (:mod:`referee.protocols.local`,
        local averages); the more features there are, the more agents that takes.
    bins
        Into how many bins scores are divided, at most; fewer where few agents tell.
    groups
        Features that divide people into public groups, each with an intercept of its own.
    judging
        What judges of the last two candidates tell: ``losses``, or ``pairs``, where only one of the two errs. A rare
        event varies less, so pairs compare sharper; they leave the interval of the answer's own loss as wide as it was
        with more than two left. ``plan``: pairs where the agents' epsilon makes them much sharper
        (:func:`common.planning.portfolio.compares`).
    """

    margins: float = Field(default=0.1, gt=0, lt=1)
    raking: bool = False
    repair: float = Field(default=0.4, ge=0, lt=1)
    labels: float = Field(default=0.4, gt=0, lt=1)
    alone: float = Field(default=0.0, ge=0, lt=0.5)
    bins: Annotated[int, Field(ge=2, le=64)] = 8
    groups: Groups = ()
    judging: Literal["plan", "losses", "pairs"] = "plan"

    @model_validator(mode="after")
    def _some_repair(self) -> Self:
        if self.labels + self.alone >= 1.0:
            raise ValueError("labels and alone leave nobody to recalibrate a model: their sum must be below 1")
        return self

    @property
    def recalibrates(self) -> bool:
        """Whether models are repaired, for which the curator counts its people and some agents do not judge."""
        return self.repair > 0.0

    def counts(self, rounds: int) -> int:
        """Return how often the curator counts its people: once by label, and for each model's repair."""
        return int(self.recalibrates or self.raking) + rounds * int(self.recalibrates)
