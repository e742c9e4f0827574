"""The interface of queries; queries about losses of hypotheses; a question to agents, and the answers of a batch."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from common.core.arrays import AnyArray, Floats, Indices, Words
from common.core.registry import RegisteredValue, TypeRegistry
from common.core.values import Word
from common.local.hypotheses.hypothesis import PLANE, AnyHypothesis
from common.local.hypotheses.rules import Constant
from common.local.losses import PARTS, UNIT, Bound, Costs, Loss, PairLoss, evaluate
from common.local.naming import Names
from common.local.records import Records


class Query(RegisteredValue):
    """A map from one record (and the agent's public slot number) to a value in [0, 1], as a frozen value."""

    kind: str

    @property
    def domain(self) -> int | None:
        """Number of items, for a query that gives an item; None for one that gives a value in [0, 1]."""
        return None

    def asks(self, names: Names, slot: int) -> str:
        """Return the question to the person at a slot, in plain words, as a clause."""
        kind = "a number from 0 to 1" if self.domain is None else f"one of {self.domain:,} values"
        return f"{kind}, computed from {'your record' if self.columns is None else names.among(self.columns.tolist())}"

    @property
    @abstractmethod
    def min_features(self) -> int:
        """Smallest number of features that a record must have."""

    @property
    def columns(self) -> Indices | None:
        """The features that it reads, if these are few of very many; None: the first :attr:`min_features`."""
        return None

    def parts(self, slots: Indices) -> Indices:
        """Return the part of the query that each slot is asked, shape (n,): equal numbers for equal questions.

        An agent's noise is derived from the part, so that asking it at another slot gives no second sample of the same
        answer. By default every slot is asked a question of its own.
        """
        return slots

    @property
    def alike(self) -> bool:
        """Whether every slot is asked the same; only such a question may go to more agents than can be listed."""
        return False

    @abstractmethod
    def evaluate(self, records: Records, slots: Indices) -> Floats | Words:
        """Evaluate the query on each of n records, whose features are only :attr:`columns` if that is not None.

        Args:
            slots: Shape (n,): each agent's public position in its batch; the question may depend on it.

        Returns:
            Shape (n,): float64, or uint64 items. Agents clamp them and treat NaN as 0, so a query need not be trusted.
        """


class AlikeQuery(Query):
    """A query that asks every slot the same."""

    @property
    def alike(self) -> bool:
        return True

    def parts(self, slots: Indices) -> Indices:
        return 0 * slots


class HypothesisQuery(AlikeQuery):
    """A query about a hypothesis, which asks every slot the same."""

    hypothesis: AnyHypothesis

    @property
    def min_features(self) -> int:
        return self.hypothesis.min_features


class FrequencyQuery(Query):
    """A map from one record to an item of a public domain.

    Attributes:
        public: Public randomness of the question: together with the slot, it determines each agent's public word,
            which some frequency oracles need (:mod:`common.local.mechanisms.frequency`). Any value is safe.
    """

    public: Word = Field(default=0, ge=0, lt=1 << 63)

    @property
    @abstractmethod
    def domain(self) -> int:
        """Number of items, from 2 to 2^64."""

    @abstractmethod
    def evaluate(self, records: Records, slots: Indices) -> Words: ...


class BitsQuery(Query):
    """A query about an item: the integer whose bits are some features. A feature above 0 is the bit 1.

    Attributes:
        first: The feature that is the most significant bit.
        bits: Number of bits of the item, 1 to 64.
    """

    first: int = Field(default=0, ge=0, le=1 << 20)
    bits: int = Field(ge=1, le=64)

    @property
    def min_features(self) -> int:
        return self.first + self.bits

    @property
    def columns(self) -> Indices:
        return np.arange(self.first, self.first + self.bits)

    def conditions(self, names: Names, length: int | None = None) -> str:
        """Return, in words, the conditions that the item's first ``length`` bits (all by default) stand for."""
        return names.conditions(range(self.first, self.first + (self.bits if length is None else length)))


QUERIES: TypeRegistry[Query] = TypeRegistry("query", __name__, "kind")
parse_query = QUERIES.parse
AnyQuery = Annotated[SerializeAsAny[Query], BeforeValidator(QUERIES.accept)]
"""A field of a value that holds any registered query."""


@dataclass(frozen=True)
class AskAgents:
    """The request to ask ``count`` agents a query; the reply is :class:`Answers`.

    The agents are new ones or, if each agent may answer several times (agents.answers), those of the first question of
    the same ``group``. ``again`` is the number of that first question; the protocol's driver fills it in.
    """

    query: Query
    count: int
    group: int | None = None
    again: int | None = None


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one batch.

    Attributes:
        asked: Number of agents asked (fewer than wanted if the pool is empty).
        values, slots: The randomized answers that arrived in time, uint8 bits or float64; their positions, ascending.
    """

    asked: int
    values: AnyArray
    slots: Indices


class MassAnswers(Answers):
    """The answers of very many agents: their positions are computed from a mask (:mod:`common.local.packing`)."""

    def __init__(self, asked: int, values: AnyArray, mask: NDArray[np.uint8]) -> None:
        for name, value in (("asked", asked), ("values", values), ("mask", mask)):
            object.__setattr__(self, name, value)

    mask: NDArray[np.uint8]

    @property
    def slots(self) -> Indices:
        """Their positions in the batch, eight bytes for each, computed at each access."""
        return np.flatnonzero(np.unpackbits(self.mask))


@QUERIES.register("loss")
class LossQuery(HypothesisQuery):
    """L(h(x), l), in [0, 1], one of :data:`common.local.losses.Loss`: the test of Kohen & Sheffet's algorithms.

    A convex loss is divided by its public ``bound``; a larger loss counts as the bound.
    """

    kind: Literal["loss"] = "loss"
    loss: Loss = "zero-one"
    bound: Bound = Field(default=UNIT, strict=True, exclude_if=lambda bound: bound == UNIT)
    costs: Costs | None = Field(default=None, exclude_if=lambda costs: costs is None)
    examples: ClassVar = (
        {"hypothesis": PLANE},
        {"hypothesis": PLANE, "costs": {"miss": 24.0, "false_alarm": 1.0}},
        {"hypothesis": PLANE, "loss": "hinge"},
        {"hypothesis": PLANE, "loss": "logistic", "bound": 4.0},
    )

    @model_validator(mode="after")
    def _of_mistakes(self) -> Self:
        if self.costs is not None and self.loss != "zero-one":
            raise ValueError(f"costs are of mistakes, found {self.loss} loss: leave them out")
        return self

    def asks(self, names: Names, slot: int) -> str:
        if self.costs is not None:
            weights = zip(self.costs.weights, (1, -1), strict=True)
            sides = " or ".join(f"{weight:g} if {names.labelled(label)}" for weight, label in weights)
            return f"whether {self.hypothesis.rule(names)} is wrong about you: then the value is {sides}, else 0"
        if isinstance(self.hypothesis, Constant) and self.loss != "logistic" and self.bound <= UNIT:
            return f"whether {names.labelled(-self.hypothesis.label)}: the value is 1 if so, else 0"
        rule = self.hypothesis.rule(names)
        if self.loss == "zero-one":
            return f"whether {rule} is wrong about you: the value is 1 if so, else 0"
        clipping = "" if self.bound == UNIT else f", of which {self.bound:g} and more count as 1"
        return f"how far {rule} is from right about you: a number from 0 to 1 ({self.loss} loss{clipping})"

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return evaluate(self.loss, self.hypothesis, records, self.bound, self.costs)


@QUERIES.register("pair")
class PairQuery(HypothesisQuery):
    """Which of two hypotheses errs: (1 + [h errs] - [g errs])/2. Its mean m gives L(T, h) - L(T, g) = 2 m - 1."""

    kind: Literal["pair"] = "pair"
    rival: AnyHypothesis
    examples: ClassVar = ({"hypothesis": PLANE, "rival": {"kind": "constant", "label": 1}},)

    def asks(self, names: Names, slot: int) -> str:
        first, second = self.hypothesis.rule(names), self.rival.rule(names)
        return (
            f"which of two rules is wrong about you: the value is 1 if only the first is, 0 if only the second is, "
            f"else 1/2. The first is {first}; the second is {second}"
        )

    @property
    def min_features(self) -> int:
        return max(super().min_features, self.rival.min_features)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return np.asarray(PairLoss(self.hypothesis, self.rival).count(records) / PARTS)
