"""Portfolio: a private model that agents teach and the population judges; roles of agents, and what its plan needs."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from pydantic import Field, model_validator

from common.core.values import Value
from common.operations.operation import MAX_DIRECTIONS
from common.protocols.base import DEMANDS, LEARN, LOSS, Demands
from common.protocols.patterns import agents, curator, many, maybe, sequence, some


class Portfolio(Value):
    """Settings of the protocol ``portfolio``; those who do not know better leave all of them out.

    Attributes:
        margins: Share of the curator's budget, of mu^2, that pays for the shares of its people by score and label.
        teach: Share of the agents who teach the model: some report their label, the others how far its probabilities
            are from their labels. The rest judges. At 0 none teach, and all judge the model as it is and a constant.
        labels: Share of those agents who report only their label.
        survey: Share of all agents, taken from those who would teach, who report afterwards their bin of the taught
            score and their label: these give a calibration curve, the AUC and rates at the costs' threshold. Fewer than
            20,000 agents are not surveyed: their answers would show next to nothing.
    """

    margins: float = Field(default=0.1, gt=0, lt=1)
    teach: float = Field(default=0.75, ge=0, lt=1)
    labels: float = Field(default=0.05, gt=0, lt=1)
    survey: float = Field(default=0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _some_teach(self) -> Self:
        if self.teach and self.survey >= self.teach:
            raise ValueError(
                f"survey = {self.survey:g} leaves no agents to teach: it is a part of teach = {self.teach:g}"
            )
        return self


_judging_demands = partial(Demands, reweighs=False, portfolio=True, claims=False, transfers=True, answers="bit")
_TAUGHT = sequence(LOSS, LEARN, maybe(curator("margins")), many(agents("residual")), many(agents("score")), many(LOSS))
DEMANDS.register("portfolio")(_judging_demands(_TAUGHT))
_RESIDUALS = agents("response-residual")
_OF_RESPONSES = sequence(_RESIDUALS, LEARN, many(_RESIDUALS), many(LOSS))
DEMANDS.register("portfolio-regression")(_judging_demands(_OF_RESPONSES, counts=False, bounded=True))
_OF_CLASSES = sequence(some(LOSS), LEARN, many(LOSS), many(agents("class-residual")), many(LOSS))
DEMANDS.register("portfolio-classes")(_judging_demands(_OF_CLASSES, counts=False))


SOURCE = "docs/portfolio.md"
TEACHINGS = 3  # rounds in which agents teach
FIRST = 0.6  # share of a round's teachers who are asked for the residual itself, the others for its slope
FEW = 5_000  # with fewer agents, only the intercept is taught
SURVEYED = 20_000  # with fewer agents, a tenth of them would show hardly anything about an AUC
MANY = 300_000  # from here on agents teach further directions, too
_A_DIRECTION = 12_000  # k directions cost noise that grows with k^2/N: k^2 = N/12,000
_TELL = 10
"""One in so many teachers reports a class instead, and one whether the model errs: this determines the rival."""
_LABELS = 8  # without teaching, one in so many agents reports a label instead of judging


@dataclass(frozen=True)
class Roles:
    """How many agents have which role.

    Attributes:
        labels: Agents who report only their label.
        teachers: Agents who teach in each of :data:`TEACHINGS` rounds.
        judges: Agents who judge, half of them the answer and half its rival.
        both: Whether slope and intercept are taught, or the intercept alone.
        directions: How many further directions are taught, if the curator's release has so many.
        surveyed: Agents who report bin and label of the taught score.
        testers: Agents who report whether the curator's model errs, before it is taught; for several classes only.
    """

    labels: int
    teachers: int
    judges: int
    both: bool
    directions: int = 0
    surveyed: int = 0
    testers: int = 0

    @classmethod
    def of(cls, count: int, settings: Portfolio) -> Self:
        if settings.teach == 0.0:
            return cls(count // _LABELS, 0, count - count // _LABELS, False)
        surveyed = math.floor(settings.survey * count) if count >= SURVEYED else 0
        teaching = math.floor(settings.teach * count) - surveyed
        teachers = max(0, teaching - max(1, math.floor(settings.labels * teaching))) // TEACHINGS
        directions = min(MAX_DIRECTIONS, math.isqrt(count // _A_DIRECTION)) if count >= MANY else 0
        judges = count - teaching - surveyed
        return cls(teaching - TEACHINGS * teachers, teachers, judges, count >= FEW, directions, surveyed)

    @property
    def unsurveyed(self) -> Self:
        """The same roles without a survey: the agents who would be surveyed judge."""
        return replace(self, judges=self.judges + self.surveyed, surveyed=0)

    @property
    def of_classes(self) -> Self:
        """The same for several classes: no survey, and some teachers report a class, or the model's errors, instead."""
        tenth = self.teachers // _TELL
        labels, teachers = self.labels + TEACHINGS * tenth, self.teachers - 2 * tenth
        return type(self)(labels, teachers, self.unsurveyed.judges, self.both, testers=TEACHINGS * tenth)

    def of_constants(self, classes: int = 0) -> tuple[int, int]:
        """Return how many judge the answer, and how many report on each constant, of labels or of so many classes."""
        return self.judges - self.judges // 2, self.labels // max(classes, 1)


def enrolled(judges: int, settings: Portfolio, *, surveys: bool) -> int:
    """Return the least number of agents of whom so many judge; without surveys, the surveyed ones judge, too."""
    share = 1.0 / _LABELS if settings.teach == 0.0 else settings.teach
    agents = math.ceil(judges / (1.0 - share))
    if surveys or settings.teach == 0.0 or agents < SURVEYED:
        return agents
    return max(SURVEYED, math.ceil(judges / (1.0 - share + settings.survey)))
