"""Metrics in Prometheus' text format 0.0.4: counted where things happen, written when somebody asks.

A writer of our own, of a hundred lines, in the place of a library: an agent's host stays as light as it is, and no
metric exists that is not stated here with its labels.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Upper bounds of the buckets of durations."""
ITEMS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""Upper bounds of the buckets of counts."""

Labels = Mapping[str, str]


class Sample(NamedTuple):
    """One number: what the name ends with (of a histogram), its labels, its value."""

    value: float
    labels: Labels = MappingProxyType({})
    suffix: str = ""


class Family(NamedTuple):
    """All numbers of one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[Sample]


class Histogram:
    """How often which values came, by one label.

    Parameters
    ----------
    bounds
        Upper bounds of the buckets, increasing.
    label
        The label's name.
    """

    def __init__(self, bounds: Sequence[float], label: str) -> None:
        self._bounds = (*bounds, math.inf)
        self._label = label
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, value: float, label: str) -> None:
        """Count a value."""
        with self._lock:
            counts = self._counts.setdefault(label, [0] * len(self._bounds))
            counts[bisect_left(self._bounds, value)] += 1
            self._sums[label] = self._sums.get(label, 0.0) + value

    def samples(self) -> list[Sample]:
        """Return the numbers: each bucket holds those of the smaller ones too."""
        found: list[Sample] = []
        with self._lock:
            for label, counts in sorted(self._counts.items()):
                up_to = 0
                for bound, count in zip(self._bounds, counts, strict=True):
                    up_to += count
                    found.append(Sample(up_to, {self._label: label, "le": _number(bound)}, "_bucket"))
                found.append(Sample(self._sums[label], {self._label: label}, "_sum"))
                found.append(Sample(up_to, {self._label: label}, "_count"))
        return found


def gauge(name: str, text: str, value: float | None) -> Family:
    """Return the family of one number; of none, if it is not known."""
    return Family(name, "gauge", text, [] if value is None else [Sample(value)])


def by_label(kind: Literal["counter", "gauge"], name: str, text: str, label: str, found: Mapping[str, float]) -> Family:
    """Return the family of a number for each value of one label."""
    return Family(name, kind, text, [Sample(value, {label: key}) for key, value in sorted(found.items())])


def write(families: Iterable[Family]) -> str:
    """Return metrics as text."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {_escaped(family.help)}", f"# TYPE {family.name} {family.kind}"]
        for sample in family.samples:
            labels = ",".join(f'{name}="{_quoted(value)}"' for name, value in sample.labels.items())
            lines.append(f"{family.name}{sample.suffix}{'{' + labels + '}' if labels else ''} {_number(sample.value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1 << 53 else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
