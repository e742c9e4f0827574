"""Public functions of one record: losses of a hypothesis, cells of its score, and the values used to reweigh."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from common.core.arrays import AnyArray, Floats, Indices
from common.core.values import Value
from common.local.hypotheses.hypothesis import GREATEST, Hypothesis, PlainHypothesis
from common.local.records import Groups, Records, group_of, number_of
from common.numerics.elementary import log, softplus

Loss = Literal["zero-one", "hinge", "perceptron", "logistic", "squared"]
"""The losses, with l the label and m the hypothesis's margin.

``zero-one``: 1 for a mistake, else 0. The others are convex: ``hinge``: ``max(0, 1 - l m(x))``. ``perceptron``:
``max(0, -l m(x))``, which is the hinge loss of Kohen & Sheffet, Appendix D, with its sign corrected. ``logistic``:
``ln(1 + e^(-l m(x)))``. ``squared``: ``(v(x) - r)^2`` for the value v(x) that the hypothesis predicts and the response
r, both in [0, 1].
"""

Bound = Annotated[float, Field(ge=2.0**-20, le=1e6)]
"""B, public: queries and reweighs use a convex loss L as min(L, B)/B in [0, 1] (docs/corrections.md, K1).

Kohen & Sheffet's Algorithm 4 has B = LD: a loss that starts at 0 and has slope L is at most LD on a class of
diameter D.
"""
UNIT = 1.0

Cost = Annotated[float, Field(ge=1e-6, le=1e6)]


class Costs(Value):
    """What mistakes cost, in any unit.

    The cost of a mistake is divided by the larger of the two: the weighted loss L = 1[h errs] c(label)/max c lies in
    [0, 1]. An agent rounds L at random to a bit that is 1 with probability L, so the mean of the bit is E L =
    (P(miss) miss + P(false alarm) false_alarm)/max c, the mean cost per person in units of the larger cost. Every
    interval, test and plan about the mean of a value in [0, 1] holds for it; multiply by max c for units of cost.

    Attributes:
        miss: Cost of predicting -1 for a person with label +1.
        false_alarm: Cost of predicting +1 for a person with label -1.
    """

    miss: Cost
    false_alarm: Cost

    @field_validator("miss", "false_alarm", mode="before")
    @classmethod
    def _a_number(cls, cost: Any) -> Any:
        if isinstance(cost, bool | np.bool_):
            raise ValueError("must be a number")
        return cost

    @property
    def heaviest(self) -> float:
        """The larger of the two costs: weighted losses are divided by it, so that they lie in [0, 1]."""
        return max(self.miss, self.false_alarm)

    @property
    def text(self) -> str:
        """Both costs, in words."""
        return f"a miss costs {self.miss:g}, a false alarm {self.false_alarm:g}"

    @property
    def weights(self) -> tuple[float, float]:
        """The weighted losses of a miss and of a false alarm: their costs divided by the larger one."""
        return self.miss / self.heaviest, self.false_alarm / self.heaviest

    @property
    def odds(self) -> float:
        """The log odds of +1 above which +1 is the cheaper prediction: ln(false_alarm/miss).

        With p the probability of +1, predicting +1 costs (1 - p) false_alarm and predicting -1 costs p miss on average.
        So +1 costs less if p/(1 - p) > false_alarm/miss, and no rule that sees only p costs less (Elkan 2001). Later
        questions contain this number, so it is computed with a logarithm that is the same on every machine.
        """
        return float(log(np.asarray(self.false_alarm / self.miss)))


PARTS = 1024
ROUNDING = 1.0 / PARTS  # regret that a round of reweighing can lose by rounding losses to whole parts


def grain(loss: Loss) -> int:
    """Return the number of parts that the unit of a loss is divided into: 1 if all losses are 0 or 1, else 1024."""
    return 1 if loss == "zero-one" else PARTS


def evaluate(
    loss: Loss, hypothesis: Hypothesis, records: Records, bound: float = UNIT, costs: Costs | None = None
) -> Floats:
    """Return min(L, B)/B of each record's loss, shape (n,), float64 in [0, 1]; the zero-one loss does not use B.

    With ``costs``, a mistake counts as its cost divided by the larger cost. A margin that is NaN has loss 0.
    """
    if loss == "zero-one":
        mistakes = hypothesis.mistakes(records).astype(np.float64)
        if costs is None:
            return mistakes
        return np.asarray(mistakes * np.where(hypothesis.labels(records) > 0, *costs.weights))
    if loss == "squared":
        losses = np.square(hypothesis.values(records.features) - hypothesis.responses(records))
        return losses if bound == UNIT else np.minimum(losses / bound, 1.0)
    with np.errstate(all="ignore"):
        margins: AnyArray = hypothesis.labels(records) * hypothesis.margins(records.features).astype(np.float64)
        losses = softplus(-margins) if loss == "logistic" else 1.0 - margins if loss == "hinge" else -margins
        return np.clip(np.nan_to_num(losses / bound, nan=0.0), 0.0, 1.0)


@dataclass(frozen=True)
class HypothesisLoss:
    """The loss of a hypothesis, divided by its bound and rounded to whole parts.

    Real losses are rounded to the nearest multiple of 2^-10, record by record and by a public rule. This costs no
    privacy, since a rounded loss is again a loss in [0, 1]. It costs at most 2^-10 of regret per round against any
    fixed distribution on the records (:data:`ROUNDING`): <mu - mu*, e> <= 2 max |e| for errors |e| <= 2^-11.
    """

    hypothesis: Hypothesis
    loss: Loss = "zero-one"
    bound: float = UNIT

    @property
    def grain(self) -> int:
        return grain(self.loss)

    def count(self, records: Records) -> AnyArray:
        """Return each record's loss in whole parts, shape (n,), 0..grain: uint8 for mistakes, uint16 for others."""
        if self.loss == "zero-one":
            return self.hypothesis.mistakes(records)
        losses = evaluate(self.loss, self.hypothesis, records, self.bound)
        return np.asarray(np.rint(losses * self.grain), dtype=np.uint16)


@dataclass(frozen=True)
class PairLoss:
    """(1 + [h errs] - [g errs])/2 for a hypothesis h and a rival g: 1 if only h errs, 0 if only g does, else 1/2."""

    hypothesis: Hypothesis
    rival: Hypothesis

    @property
    def grain(self) -> int:
        return PARTS

    def count(self, records: Records) -> AnyArray:
        errors, rival_errors = (each.mistakes(records).astype(np.int16) for each in (self.hypothesis, self.rival))
        return np.asarray((1 + errors - rival_errors) * (PARTS // 2), dtype=np.uint16)


MAX_CUTS = 255
MAX_ITEMS = 1 << 12

Cut = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


class ScoreCells(Value):
    """A public partition of records by bins of a released model's score within each group.

    The number of a cell is ``group * bins + bin``. An *item* is a cell with a label; its number is
    ``2 * cell + (label > 0)``. Thresholds, intercepts and calibrations of the model depend on the items' shares only.

    Attributes:
        cuts: Ascending, at most 255: bin b has the scores that are above exactly b of them. NaN scores are in bin 0.
        groups: See :data:`common.local.records.Groups`.
    """

    hypothesis: PlainHypothesis
    cuts: tuple[Cut, ...] = Field(min_length=1, max_length=MAX_CUTS)
    groups: Groups = ()

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        if any(low >= high for low, high in zip(self.cuts, self.cuts[1:], strict=False)):
            raise ValueError("cuts must ascend, no two alike")
        if len(set(self.groups)) != len(self.groups):
            raise ValueError("the same feature makes two groups")
        if self.items > MAX_ITEMS:
            raise ValueError(f"{self.items} items are more than {MAX_ITEMS}: fewer cuts or groups")
        return self

    @property
    def bins(self) -> int:
        return len(self.cuts) + 1

    @property
    def count(self) -> int:
        return self.bins * number_of(self.groups)

    @property
    def items(self) -> int:
        """Number of cells with a label."""
        return 2 * self.count

    @property
    def min_features(self) -> int:
        return max([self.hypothesis.min_features, *(group + 1 for group in self.groups)])

    def of(self, records: Records) -> Indices:
        with np.errstate(all="ignore"):
            scores = np.nan_to_num(self.hypothesis.scores(records.features), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        bins = np.searchsorted(np.array(self.cuts), scores, side="left").astype(np.int64)
        return bins + self.bins * group_of(records.features, self.groups)

    def items_of(self, records: Records) -> Indices:
        return 2 * self.of(records) + (self.hypothesis.labels(records) > 0)


Weighing = HypothesisLoss | PairLoss
"""A public function of one record into [0, 1], on a public grid; a reweigh multiplies by ``exp(-eta (1 - value))``.

So log-weights are functions of the record and of public messages, and after t reweighs two of them differ by at most
``eta t``. The sampling bound needs nothing else (:meth:`curator.sample.reweighing.Reweighing.sampling_bound`).
"""
