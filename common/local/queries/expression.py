"""A general statistical query: a sum of products of features and the label, as data."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Floats, Indices
from common.core.values import Value
from common.local.naming import LISTED, Names
from common.local.queries.query import QUERIES, AlikeQuery
from common.local.records import Records

Factor = Annotated[float, Field(ge=-1e6, le=1e6)]


class Product(Value):
    """``weight`` times the product of some features, and of the label (-1 or +1) where ``label`` says so.

    A feature that is named twice is squared.
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
        shown = [] if abs(self.weight) == 1.0 else [f"{abs(self.weight):g}"]
        return f"{'-' if self.weight < 0.0 else '+'} {' x '.join(shown + factors)}"


@QUERIES.register("expression")
class ExpressionQuery(AlikeQuery):
    """``offset`` and the sum of the terms, clipped to [0, 1]: a statistical query as data, no code.

    Every function of five features in {0, 1} and the label is one: a sum of their 64 products.
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
            parts = ", and ".join([names.among(self._columns)] + [names.of_label] * self._reads_label)
            return f"a number from 0 to 1, a sum of {len(self.terms)} products of {parts}"
        offset = [f"{self.offset:g}"] * (self.offset != 0.0)
        formula = " ".join([*offset, *(term.asks(names) for term in self.terms)]).removeprefix("+ ")
        return f"a number from 0 to 1: {formula}; less counts as 0, and more as 1"

    @property
    def _columns(self) -> list[int]:
        return sorted({feature for term in self.terms for feature in term.features})

    @property
    def _reads_label(self) -> bool:
        return any(term.label for term in self.terms)

    @property
    def min_features(self) -> int:
        return max(self._columns, default=-1) + 1

    @property
    def columns(self) -> Indices | None:
        return np.array(self._columns, dtype=np.int64) if self._columns else None

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        place = {feature: column for column, feature in enumerate(self._columns)}
        values: AnyArray = np.full(len(records), self.offset)
        with np.errstate(over="ignore", invalid="ignore"):  # of huge features: infinite, or nothing
            for term in self.terms:
                product = np.full(len(records), term.weight)
                for feature in term.features:
                    product *= records.features[:, place[feature]]
                values += product * records.labels if term.label else product
        return np.asarray(np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0), dtype=np.float64)
