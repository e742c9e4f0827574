"""What the public rules do to rows that differ from what a table's description expects: counted, so that it is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from common.core.arrays import AnyArray
from common.people.tables.input.files import Piece
from common.people.tables.input.loading import numbers_of
from common.people.tables.schema import Schema
from common.people.tables.source import Number, TableSource


@dataclass
class Notes:
    """Counts over all rows that were read.

    Attributes
    ----------
    rows
        How many there were.
    clipped, unlisted, missing
        By column: numbers beyond their bounds, texts that are none of the listed values, fields without a value.
    """

    rows: int = 0
    clipped: Counter[str] = field(default_factory=Counter)
    unlisted: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)

    def add(self, piece: Piece, schema: Schema | TableSource, columns: Collection[str]) -> None:
        """Count the rows of a piece, in these columns."""
        self.rows += len(piece.frame)
        beyond: dict[str, AnyArray] = {}
        listed: dict[str, list[str]] = {}
        for feature in schema.features:
            if feature.column not in columns:
                continue
            if isinstance(feature, Number):
                numbers = numbers_of(piece, feature.column, schema.layout)
                outside = (numbers < feature.low) | (numbers > feature.high)
                beyond[feature.column] = outside | beyond.get(feature.column, False)
            else:
                listed.setdefault(feature.column, []).extend(
                    text for means in feature.texts(schema.layout) for text in means
                )
        for column, outside in beyond.items():
            self.clipped[column] += int(np.count_nonzero(outside))
        for column in columns:
            texts = piece.frame[column]
            absent = texts.is_in(schema.layout.missing_texts)
            if column in listed:
                absent &= ~texts.is_in(listed[column])
                self.unlisted[column] += int((~absent & ~texts.is_in(listed[column])).sum())
            self.missing[column] += int(absent.sum())

    def sentences(self, schema: Schema) -> list[str]:
        """Return one line for each column of which there is something to say."""
        lines = []
        for column in dict.fromkeys(schema.columns):
            bounds = [f for f in schema.features if isinstance(f, Number) and f.column == column]
            if self.clipped[column]:
                low, high = max(f.low for f in bounds), min(f.high for f in bounds)
                lines.append(
                    f"{column}: {self._share(self.clipped[column])} beyond {low:g} .. {high:g}, clipped to these bounds"
                )
            if self.unlisted[column]:
                lines.append(
                    f"{column}: {self._share(self.unlisted[column])} none of the listed values, counted as none"
                )
            if self.missing[column]:
                fills = [f.fill if f.fill is not None else f.low for f in bounds]
                what = f"counted as {fills[0]:g}" if fills else "counted as none of the listed values"
                lines.append(f"{column}: {self._share(self.missing[column])} without a value, {what}")
        return lines

    def mostly_clipped(self, share: float = 0.5) -> list[str]:
        """Return the columns of which at least this share is beyond the bounds."""
        return [column for column, count in self.clipped.items() if self.rows and count >= share * self.rows]

    def document(self) -> dict[str, dict[str, int]]:
        """Return the counts that are not 0, as JSON."""
        kinds = {"clipped": self.clipped, "unlisted": self.unlisted, "missing": self.missing}
        return {kind: {column: n for column, n in counts.items() if n} for kind, counts in kinds.items()}

    def _share(self, count: int) -> str:
        return f"{count:,} of {self.rows:,} row{'s' if self.rows != 1 else ''}"
