"""Queries about features: one feature, the item whose bits they are, a bit of its code, a sum of their products."""

from abc import abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Floats, Indices, Words
from common.core.values import Value, Word
from common.local.hypotheses.hypothesis import PLANE, Linear
from common.local.hypotheses.rules import FeatureSet
from common.local.losses import ScoreCells
from common.local.mechanisms.frequency import inner_products, public_words
from common.local.naming import LISTED, Names
from common.local.queries.query import QUERIES, AlikeQuery, Answers, BitsQuery, FrequencyQuery, Query
from common.local.records import Records
from common.numerics.elementary import logistic, ordered_sum
from common.numerics.loops import pack


@QUERIES.register("coordinate")
class CoordinateQuery(Query):
    """Whether a feature is above 0; with several features slot s says feature ``first + s mod count``.

    With ``more`` features it is whether any of these and of the first is.
    """

    kind: Literal["coordinate"] = "coordinate"
    first: int = Field(ge=0, lt=1 << 20)
    count: int = Field(default=1, ge=1, le=1 << 20)
    more: FeatureSet = Field(default=(), max_length=64, exclude_if=lambda more: not more)
    examples: ClassVar = ({"first": 1, "count": 2}, {"first": 0}, {"first": 0, "more": [2, 3]})

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if self.more and self.count > 1:
            raise ValueError("either several features are asked about in turn (count), or together (more)")
        return self

    def asks(self, names: Names, slot: int) -> str:
        condition = " or ".join(names.true(feature) for feature in (self.first + slot % self.count, *self.more))
        return f"whether {condition}: the value is 1 if so, else 0"

    @property
    def min_features(self) -> int:
        return max(self.first + self.count, *(feature + 1 for feature in self.more), 0)

    @property
    def columns(self) -> Indices:
        return np.array([*range(self.first, self.first + self.count), *self.more])

    @property
    def alike(self) -> bool:
        return self.count == 1

    def parts(self, slots: Indices) -> Indices:
        return slots % self.count

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        if self.more:
            return np.asarray((records.features > 0).any(axis=1), dtype=np.float64)
        return np.asarray(records.features[np.arange(len(records)), self.parts(slots)] > 0, dtype=np.float64)


@QUERIES.register("moment")
class MomentQuery(Query):
    """Moment ``slot mod (2 d + 2)`` of the record (x, l), mapped to [0, 1].

    Moments 0..d-1 are the coordinates x_j, moments d..2d-1 are l x_j, moment 2d is l, moment 2d+1 is |x|^2. A moment m
    with bound M becomes (clip(m, -M, M) + M) / (2 M), so that an unbiased estimate v of the mean answer gives
    (2 v - 1) M for the mean moment. |x|^2, which is never negative, becomes min(|x|^2 / norm^2, 1). The question does
    not depend on any answer, so all agents can be asked at once.

    Attributes:
        dimension: d, the number of features that are read.
        bound, norm: Public bounds on |x_j| and on |x|; larger values are clipped.
    """

    kind: Literal["moment"] = "moment"
    dimension: int = Field(ge=1, le=1 << 16)
    bound: float = Field(gt=0)
    norm: float = Field(gt=0)
    examples: ClassVar = ({"dimension": 3, "bound": 1.0, "norm": 2.0},)

    @property
    def moments(self) -> int:
        """Number of different moments, 2 d + 2."""
        return 2 * self.dimension + 2

    def asks(self, names: Names, slot: int) -> str:
        d, moment = self.dimension, slot % self.moments
        if moment < d:
            return f"{names.among([moment])}, as a number from 0 to 1"
        if moment < 2 * d:
            return f"the product of {names.among([moment - d])} and {names.of_label}, as a number from 0 to 1"
        if moment == 2 * d:
            return f"whether {names.labelled(1)}: the value is 1 if so, else 0"
        return f"the sum of the squares of {names.among(range(d))}, as a number from 0 to 1"

    @property
    def min_features(self) -> int:
        return self.dimension

    def parts(self, slots: Indices) -> Indices:
        return slots % self.moments

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        d = self.dimension
        moment = self.parts(slots)
        labels = records.labels.astype(np.float64)
        feature = records.features[np.arange(len(records)), moment % d].astype(np.float64)
        sign = np.where(moment < d, 1.0, labels)
        values = (np.clip(sign * feature / self.bound, -1.0, 1.0) + 1.0) / 2.0
        values = np.where(moment == 2 * d, (labels + 1.0) / 2.0, values)
        squared = np.flatnonzero(moment == 2 * d + 1)
        lengths = ordered_sum(np.square(records.features[squared, :d], dtype=np.float64))
        values[squared] = np.minimum(lengths / (self.norm * self.norm), 1.0)
        return np.asarray(values, dtype=np.float64)


@QUERIES.register("gradient")
class GradientQuery(Query):
    """Coordinate ``slot mod (d + 1)`` of the gradient of ln(1 + e^{-l (<w, x> - b)}), mapped to [0, 1].

    The gradient is ``-l s (x, -1)`` with s = 1/(1 + e^{l (<w, x> - b)}): coordinates 0..d-1 belong to w,
    coordinate d to b. A coordinate g becomes (clip(g, -B, B) + B) / (2B), so that an unbiased estimate v of
    the mean answer gives (2v - 1) B for the mean coordinate. As slots do not depend on records, asking each
    agent about one of the d + 1 coordinates is a random-coordinate descent that costs each agent one answer.

    Attributes:
        hypothesis: w and b.
        bound: B > 0, a public bound on a coordinate: max(1, the largest absolute feature) clips nothing.
    """

    kind: Literal["gradient"] = "gradient"
    hypothesis: Linear
    bound: float = Field(gt=0)
    examples: ClassVar = ({"hypothesis": PLANE, "bound": 1.0},)

    def asks(self, names: Names, slot: int) -> str:
        d = self.hypothesis.min_features
        place = slot % (d + 1)
        parameter = "its threshold" if place == d else f"its weight of {names.among([place])}"
        return (
            f"how {self.hypothesis.rule(names)} should change {parameter} to fit you better: a number from 0 to 1, "
            f"computed from all of these"
        )

    @property
    def min_features(self) -> int:
        return self.hypothesis.min_features

    def parts(self, slots: Indices) -> Indices:
        return slots % (self.hypothesis.min_features + 1)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        labels = records.labels.astype(np.float64)
        slope = -labels * logistic(-labels * self.hypothesis.margins(records.features))
        d = self.hypothesis.min_features
        coordinate = self.parts(slots)
        feature = records.features[np.arange(len(records)), np.minimum(coordinate, d - 1)].astype(np.float64)
        gradient = slope * np.where(coordinate == d, -1.0, feature)
        return np.asarray((np.clip(gradient / self.bound, -1.0, 1.0) + 1.0) / 2.0, dtype=np.float64)


@QUERIES.register("item")
class ItemQuery(FrequencyQuery, BitsQuery):
    """A person's item, or a prefix of it: the question of frequency estimation.

    With several ``prefixes``, slot s answers with the item's first ``prefixes[s mod their number]`` bits, so that one
    question has a group of agents for each length. The question does not depend on any answer.

    Attributes:
        prefixes: Lengths, each from 1 to ``bits``; by default only the length of the whole item.
    """

    kind: Literal["item"] = "item"
    prefixes: tuple[int, ...] = Field(default=(), max_length=64)
    examples: ClassVar = ({"bits": 5, "prefixes": [2, 5]}, {"first": 2, "bits": 3})

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for length in self.prefixes:
            if not 1 <= length <= self.bits:
                raise ValueError(f"a prefix of {length} bits is none of an item of {self.bits}")
        return self

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.prefixes or (self.bits,)

    def asks(self, names: Names, slot: int) -> str:
        length = self.lengths[slot % len(self.lengths)]
        return (
            f"which of these are true of you, as one of {1 << length:,} combinations: {self.conditions(names, length)}"
        )

    @property
    def domain(self) -> int:
        return 1 << max(self.lengths)

    def evaluate(self, records: Records, slots: Indices) -> Words:
        items = pack(records.features)
        shift = self.bits - np.array(self.lengths, dtype=np.uint64)[slots % len(self.lengths)]
        return np.asarray(items >> shift, dtype=np.uint64)


@QUERIES.register("listed")
class ListedQuery(FrequencyQuery, BitsQuery):
    """The place of a person's item in a list of 1 to 4096 different ones, or the list's length if it is not there."""

    kind: Literal["listed"] = "listed"
    items: tuple[Annotated[Word, Field(ge=0, lt=1 << 64)], ...] = Field(min_length=1, max_length=1 << 12)
    examples: ClassVar = ({"first": 1, "bits": 3, "items": [6, 0, 3]},)

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if len(set(self.items)) != len(self.items):
            raise ValueError("the same item is listed twice")
        return self

    def asks(self, names: Names, slot: int) -> str:
        listed = f"which of {len(self.items):,} listed combinations is yours, or none of them"
        return f"{listed}, of: {self.conditions(names)}"

    @property
    def domain(self) -> int:
        return len(self.items) + 1

    @cached_property
    def _sorted(self) -> tuple[Words, Indices]:
        items = np.array(self.items, dtype=np.uint64)
        order = np.argsort(items)
        return items[order], order

    def evaluate(self, records: Records, slots: Indices) -> Words:
        items, order = self._sorted
        packed = pack(records.features)
        places = np.minimum(np.searchsorted(items, packed), len(items) - 1)
        indices = np.where(items[places] == packed, order[places], len(items))
        return indices.astype(np.uint64)


@QUERIES.register("threshold")
class ThresholdQuery(AlikeQuery, BitsQuery):
    """Whether a person's item is below a threshold: the question of a search for a quantile.

    Attributes:
        below: From 1 to 2^bits - 1: for any other threshold, the answer would be known beforehand.
    """

    kind: Literal["threshold"] = "threshold"
    below: Word = Field(ge=1, lt=1 << 64)
    examples: ClassVar = ({"first": 1, "bits": 4, "below": 6},)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.below >> self.bits:
            raise ValueError(f"a threshold of {self.below} is above every item of {self.bits} bits")
        return self

    def asks(self, names: Names, slot: int) -> str:
        return (
            f"whether a binary number of {self.bits} digits is below {self.below:,}: its digits are 1 where these are "
            f"true of you, else 0: {self.conditions(names)}. The value is 1 if so, else 0"
        )

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return np.asarray(pack(records.features) < np.uint64(self.below), dtype=np.float64)


class CodedQuery(Query):
    """A query for one bit of the Hadamard code of an item; which bit is public.

    Attributes:
        public: Public randomness: together with the slot, it determines each agent's row. Any value is safe.
    """

    public: Word = Field(ge=0, lt=1 << 63)

    @property
    @abstractmethod
    def code_bits(self) -> int:
        """Number of bits of an item's number."""

    def rows(self, slots: Indices) -> Indices:
        """Return each slot's row, below 2^code_bits."""
        return (public_words(self.public, slots) & np.uint64((1 << self.code_bits) - 1)).astype(np.int64)

    def _bits(self, items: Words, slots: Indices) -> Words:
        return inner_products(items, self.rows(slots).astype(np.uint64))


Questions = list[tuple[CodedQuery, Answers]]  # coded queries, each with its answers


@QUERIES.register("code")
class CodeQuery(CodedQuery):
    """One parity of a person's item, with a sign: <r, v> + s over F_2, and 1/2 for a person without an item.

    v is the item, r a public random row for the slot, s the sign's bit. With randomized response this is Hadamard
    response (:mod:`common.local.mechanisms.frequency`) about items with a sign. The mean of (-1)^{answer + <r, v>} over
    the agents is the share that holds v with sign +, minus the share with sign -: one answer serves both signs, whereas
    in an oracle for pairs (v, s) every other answer is about v alone.

    Attributes:
        first: The feature that is the item's most significant bit.
        bits: Number of bits of the item, 1 to 63.
        sign: The feature that is s; ``label``: s is 1 if the label is +1; None: s is 0.
        present: The feature that is 1 if there is an item; None: every record has one.
    """

    kind: Literal["code"] = "code"
    first: int = Field(ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=63)
    sign: Annotated[int, Field(ge=0, lt=1 << 20)] | Literal["label"] | None = None
    present: int | None = Field(default=None, ge=0, lt=1 << 20)
    examples: ClassVar = (
        {"public": 11, "first": 1, "bits": 5, "sign": 7, "present": 0},
        {"public": 3, "first": 0, "bits": 3, "sign": "label"},
    )

    def asks(self, names: Names, slot: int) -> str:
        row = int(self.rows(np.array([slot], dtype=np.int64))[0])
        features = [self.first + i for i in range(self.bits) if row >> (self.bits - 1 - i) & 1]
        features += [self.sign] if isinstance(self.sign, int) else []
        label = [names.labelled(1)] if self.sign == "label" else []
        sentence = "nothing about you, the value is 0 for everybody"
        if features or label:
            conditions = names.conditions(features, *label)
            sentence = f"whether an odd number of these are true of you: {conditions}. The value is 1 if so, else 0"
        return sentence if self.present is None else f"{sentence}, but 1/2 unless {names.true(self.present)}"

    @property
    def min_features(self) -> int:
        return max([self.first + self.bits, *(column + 1 for column in self._extra_columns)])

    @property
    def columns(self) -> Indices:
        return np.array([*range(self.first, self.first + self.bits), *self._extra_columns], dtype=np.int64)

    @property
    def _extra_columns(self) -> list[int]:
        sign = [self.sign] if isinstance(self.sign, int) else []
        return sign + ([] if self.present is None else [self.present])

    @property
    def code_bits(self) -> int:
        return self.bits

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        features = records.features
        values = self._bits(pack(features[:, : self.bits]), slots)
        further = iter(range(self.bits, features.shape[1]))
        if self.sign == "label":
            values ^= records.labels > 0
        elif self.sign is not None:
            values ^= features[:, next(further)] > 0
        if self.present is None:
            return values.astype(np.float64)
        return np.where(features[:, next(further)] > 0, values.astype(np.float64), 0.5)


@QUERIES.register("score")
class ScoreQuery(CodedQuery):
    """One parity of a person's score and label: <r, v> over F_2.

    v is the number of the item (:class:`~common.local.losses.ScoreCells`), r the slot's public row. With randomized
    response this is Hadamard response: one bit per agent estimates the shares of all items at once, each with a
    variance of at most 1/(n (2p-1)^2), whatever their number is.
    """

    kind: Literal["score"] = "score"
    cells: ScoreCells
    examples: ClassVar = (
        {"public": 5, "cells": {"hypothesis": PLANE, "cuts": [-1.0, 0.0, 0.5]}},
        {"public": 7, "cells": {"hypothesis": PLANE, "cuts": [0.0], "groups": [1, 4]}},
    )

    @property
    def code_bits(self) -> int:
        return (self.cells.items - 1).bit_length()

    def asks(self, names: Names, slot: int) -> str:
        cells = self.cells
        model = cells.hypothesis
        parts = [f"in which of {cells.bins} ranges your score by {model.rule(names)} is"]
        if cells.groups:
            parts.append(f"which of these is true first ({names.conditions(cells.groups)})")
        return f"one digit, 0 or 1, computed from the following: {', '.join(parts)}, and {model.target(names)}"

    @property
    def min_features(self) -> int:
        return self.cells.min_features

    def parts(self, slots: Indices) -> Indices:
        return self.rows(slots)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return self._bits(self.cells.items_of(records).astype(np.uint64), slots).astype(np.float64)


Factor = Annotated[float, Field(ge=-1e6, le=1e6)]


class Product(Value):
    """``weight`` times the product of some features and, if ``label`` is true, the label (-1 or +1).

    A feature that is listed twice is squared.
    """

    weight: Factor = 1.0
    features: tuple[Annotated[int, Field(ge=0, lt=1 << 20)], ...] = Field(default=(), max_length=8)
    label: bool = False

    @model_validator(mode="after")
    def _no_constant(self) -> Self:
        if not self.features and not self.label:
            raise ValueError("a term has a feature or the label: a constant is the offset")
        return self

    def asks(self, names: Names) -> str:
        factors = [names.factor(feature) for feature in self.features]
        if self.label:
            factors.append(f"(+1 if {names.labelled(1)}, else -1)")
        prefix = [] if abs(self.weight) == 1.0 else [f"{abs(self.weight):g}"]
        return f"{'-' if self.weight < 0.0 else '+'} {' x '.join(prefix + factors)}"


@QUERIES.register("expression")
class ExpressionQuery(AlikeQuery):
    """``offset`` and the sum of the terms, clipped to [0, 1]: a statistical query as data, no code.

    It can express every function of five features in {0, 1} and the label, as a sum of their 64 products.
    """

    kind: Literal["expression"] = "expression"
    offset: Factor = 0.0
    terms: tuple[Product, ...] = Field(min_length=1, max_length=64)
    examples: ClassVar = (
        {"terms": [{"features": [0, 2]}]},
        {"offset": 0.5, "terms": [{"weight": -0.5, "features": [1, 1], "label": True}]},
        {"offset": 0.5, "terms": [{"weight": 0.5, "label": True}]},
        {"terms": [{"weight": 0.25, "features": [j, 4]} for j in range(4)]},
    )

    def asks(self, names: Names, slot: int) -> str:
        if sum(len(term.features) + term.label for term in self.terms) > LISTED:
            reads_label = any(term.label for term in self.terms)
            parts = ", and ".join([names.among(self._columns)] + [names.of_label] * reads_label)
            return f"a number from 0 to 1, a sum of {len(self.terms)} products of {parts}"
        offset = [f"{self.offset:g}"] * (self.offset != 0.0)
        formula = " ".join([*offset, *(term.asks(names) for term in self.terms)]).removeprefix("+ ")
        return f"a number from 0 to 1: {formula}; less counts as 0, and more as 1"

    @property
    def _columns(self) -> list[int]:
        return sorted({feature for term in self.terms for feature in term.features})

    @property
    def min_features(self) -> int:
        return max(self._columns, default=-1) + 1

    @property
    def columns(self) -> Indices | None:
        return np.array(self._columns, dtype=np.int64) if self._columns else None

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        place = {feature: column for column, feature in enumerate(self._columns)}
        values: AnyArray = np.full(len(records), self.offset)
        with np.errstate(over="ignore", invalid="ignore"):  # huge features give an infinity or NaN
            for term in self.terms:
                product = np.full(len(records), term.weight)
                for feature in term.features:
                    product *= records.features[:, place[feature]]
                values += product * records.labels if term.label else product
        return np.asarray(np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0), dtype=np.float64)
