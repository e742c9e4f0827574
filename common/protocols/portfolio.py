"""Portfolio: private models and their repairs, judged by the population; what its plan knows of judges and gaps."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from common.core.values import Value
from common.local.mechanisms.mechanism import BitMechanism
from common.local.records import Groups
from common.protocols.base import DEMANDS, Demands
from common.protocols.patterns import agents, curator, many, maybe, sequence


class Portfolio(Value):
    """Settings of the protocol ``portfolio``; those who do not know better leave all of them out.

    Attributes:
        margins: Share of the curator's epsilon that pays for shares of its people by score, group and label.
        raking: Whether the sample is given the population's share of labels before the curator learns from it. It
            repairs shifts of label shares and may harm where the shift is another one: then no model of the plain
            sample competes.
        repair: Share of the agents who tell what to repair: their label alone, then score, group and label. The others
            judge the candidates. At 0 nothing is repaired and all judge, so that the model and the constants are told
            apart by as many as there are.
        labels: Share of those agents who tell their label alone.
        alone: Share of those agents from whose answers alone a further candidate is learned (protocol local-averages);
            the more features there are, the more agents that takes.
        bins: Into how many bins scores are divided, at most; fewer where few agents tell.
        groups: Features that divide people into public groups, each with an intercept of its own.
        judging: What judges of the last two candidates tell: ``losses``, or ``pairs``, where only one of the two errs.
            A rare event varies less, so pairs compare sharper; they leave the interval of the answer's own loss as wide
            as it was with more than two left. ``plan``: pairs where the agents' epsilon makes them much sharper
            (:func:`common.protocols.portfolio.compares`).
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
            raise ValueError("labels and alone leave no agents to recalibrate a model: their sum must be below 1")
        return self

    @property
    def recalibrates(self) -> bool:
        """Whether models are repaired, for which the curator counts its people and some agents do not judge."""
        return self.repair > 0.0

    def counts(self, rounds: int) -> int:
        """Return how often the curator counts its people: once by label, and for each model's repair."""
        return int(self.recalibrates or self.raking) + rounds * int(self.recalibrates)


_REPAIRED = sequence(curator("learn"), maybe(curator("margins")), many(agents("score")))

DEMANDS.register("portfolio")(
    Demands(
        sequence(
            agents("loss"),
            maybe(agents("moment")),
            maybe(sequence(curator("margins"), maybe(curator("rake")))),
            _REPAIRED,
            many(sequence(curator("rake"), _REPAIRED)),
            many(agents("loss")),
            many(agents("sole-error")),
        ),
        reweighs=False,
        portfolio=True,
        claims=False,
        transfers=True,
        further={"margins": 1},
        answers="bit",
    )
)


SOURCE = "docs/portfolio.md"
LEARNT = 1
"""Models: a second one, of the sample raked by what agents say of the first one's scores, halves each one's budget."""
DENSITY = 0.5  # no record weighs more than twice the average, so a model of raked people needs twice the noise at most
STEP = math.log(64.0)  # raking can make a record weigh 64 times another
LABELS = 8  # where nothing is repaired, one of so many agents tells a label instead of judging


def candidates(rounds: int, portfolio: Portfolio) -> int:
    """Return how many candidates there are: constants, the agents' own, each model and, if so, its repair."""
    return 2 + int(portfolio.alone > 0.0) + rounds * (1 + int(portfolio.recalibrates))


def judges(agents: int, portfolio: Portfolio) -> int:
    """Return how many of the agents judge all candidates; the others repair, or tell their label."""
    left = agents - math.floor(portfolio.repair * agents)
    return left if portfolio.recalibrates else left - left // LABELS


def label_reporters(agents: int, portfolio: Portfolio) -> int:
    """Return how many of the agents tell their label alone, which judges the constants."""
    others = agents - judges(agents, portfolio)
    return math.floor(portfolio.labels * others) if portfolio.recalibrates else others


def compares(mechanism: BitMechanism, portfolio: Portfolio) -> bool:
    """Return whether the last two candidates are compared by where only one of them errs.

    A randomized bit about an event of chance v varies by r (1 - r), r = (1 - p) + (2p - 1) v: by 1/4 at most, for a
    loss of 1/2, and by p (1 - p) for an event that hardly ever happens. ``plan``: where the second is at most half of
    the first, so that an interval may be narrower by a factor of sqrt(2): from epsilon = 1.77 on.
    """
    if portfolio.judging != "plan":
        return portfolio.judging == "pairs"
    return mechanism.truth * (1.0 - mechanism.truth) <= 0.5 * 0.25


def labels_for_each_judge(portfolio: Portfolio) -> float:
    """Return how many agents say their label, and so judge the constants, for each one who judges."""
    if not portfolio.recalibrates:
        return 1.0 / (LABELS - 1)
    return portfolio.labels * portfolio.repair / (1.0 - portfolio.repair)
