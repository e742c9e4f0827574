"""Records of people: features and labels, which never appear in a repr, log or error; public groups of records."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray, Indices, Labels
from common.core.errors import BadData

_BLOCK = 1 << 16  # records checked at a time: a sample may be larger than memory


@dataclass(frozen=True, repr=False, eq=False)
class Records:
    """The records of n people: row i of ``features`` and ``labels[i]`` belong to the same person.

    Attributes:
        features: Shape (n, d), C-contiguous, float32 (finite, scaled and clipped by public bounds) or uint8 (0/1).
        labels: Shape (n,), int8, each -1 or +1.
    """

    features: AnyArray
    labels: Labels

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.labels.shape != (len(self.features),):
            raise BadData(f"features {self.features.shape} and labels {self.labels.shape} do not belong together")
        if self.features.dtype not in (np.dtype(np.float32), np.dtype(np.uint8)):
            raise BadData(f"features must be float32 or uint8, got {self.features.dtype}")

    def __repr__(self) -> str:
        return f"Records(n={len(self)}, d={self.dimension})"

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def dimension(self) -> int:
        return int(self.features.shape[1])

    def fingerprint(self) -> str:
        """Return SHA-256 of features and labels."""
        features = np.ascontiguousarray(self.features)
        return hashlib.sha256(features.tobytes() + self.labels.tobytes()).hexdigest()

    def take(self, rows: AnyArray, columns: Indices | None = None) -> Records:
        """Return a copy of the given rows, in the given order, with the given features only (None: all)."""
        features = self.features[rows] if columns is None else self.features[rows[:, None], columns]
        return Records(np.ascontiguousarray(features), np.ascontiguousarray(self.labels[rows]))

    def only(self, columns: Indices | None) -> Records:
        """Return a copy with the given features only, in the given order; with None, the records themselves."""
        return self if columns is None else Records(np.ascontiguousarray(self.features[:, columns]), self.labels)

    @staticmethod
    def joined(parts: list[Records], most: int | None = None) -> Records:
        """Concatenate one or more parts, and keep the first ``most`` records (None: all); several parts are copied."""
        first = parts[0].features if len(parts) == 1 else np.concatenate([part.features for part in parts])
        return Records(first[:most], np.concatenate([part.labels for part in parts])[:most])

    def check(self) -> Records:
        """Validate that features are finite (float32) or 0 or 1 (uint8), and labels -1 or +1; return the records.

        Otherwise BadData states how many rows are affected, never their values.
        """
        single = self.features.dtype == np.float32
        invalid = odd = 0
        for start in range(0, len(self), _BLOCK):
            features, labels = self.features[start : start + _BLOCK], self.labels[start : start + _BLOCK]
            fine = np.isfinite(features).all(axis=1) if single else features.max(axis=1, initial=0) <= 1
            invalid += int(np.count_nonzero(~fine))
            odd += int(np.count_nonzero(np.abs(labels) != 1))
        if invalid and single:
            raise BadData(f"{invalid} of {len(self)} records hold NaN or an infinity; every feature must be finite")
        if invalid:
            raise BadData(f"{invalid} of {len(self)} records hold a feature above 1; uint8 features must be 0 or 1")
        if odd:
            raise BadData(f"{odd} of {len(self)} records have a label outside the declared set {{-1, +1}}")
        return self


MAX_GROUPS = 31

Groups = Annotated[tuple[Annotated[int, Field(ge=0, lt=1 << 16)], ...], Field(max_length=MAX_GROUPS)]
"""Feature numbers that define groups: a record is in the first group g whose feature ``groups[g]`` is above 1/2. Other
records form a last group; if no feature is given, all records are in one group."""


def number_of(groups: tuple[int, ...]) -> int:
    """Return the number of groups, including the last one."""
    return len(groups) + 1 if groups else 1


def group_of(features: AnyArray, groups: tuple[int, ...]) -> Indices:
    """Return each row's group, shape (n,), int64."""
    if not groups:
        return np.zeros(len(features), dtype=np.int64)
    membership = features[:, list(groups)] > 0.5
    return np.where(membership.any(axis=1), membership.argmax(axis=1), len(groups)).astype(np.int64)


def column_labels(records: Records, column: int) -> Labels:
    """Return +1 where a feature is above 1/2, else -1, shape (n,), int8."""
    return np.where(records.features[:, column] > 0.5, np.int8(1), np.int8(-1))
