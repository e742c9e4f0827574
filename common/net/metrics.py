"""Metrics in Prometheus' text format 0.0.4, by prometheus-client: counted where things happen, written on request.

No registry of the whole process is used: no metric exists that is not stated by a service, with its labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import prometheus_client
from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Upper bounds of the buckets of durations."""
ITEMS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""Upper bounds of the buckets of counts."""

Labels = Mapping[str, str]


class MetricSample(NamedTuple):
    """One number: its value, its labels, what the name ends with (of a histogram)."""

    value: float
    labels: Labels = MappingProxyType({})
    suffix: str = ""


class Family(NamedTuple):
    """All numbers of one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[MetricSample]


class Histogram:
    """How often which values came, by one label.

    Args:
        bounds: Upper bounds of the buckets, increasing.
        label: The label's name.
    """

    def __init__(self, bounds: Sequence[float], label: str) -> None:
        self._counts = prometheus_client.Histogram("h", "counts", [label], registry=None, buckets=bounds)

    def observe(self, value: float, label: str) -> None:
        """Count a value."""
        self._counts.labels(label).observe(value)

    def samples(self) -> list[MetricSample]:
        """Return the numbers: each bucket holds those of the smaller ones too."""
        found = [sample for metric in self._counts.collect() for sample in metric.samples]
        kept = [MetricSample(one.value, one.labels, one.name[1:]) for one in found if one.name != "h_created"]
        return sorted(kept, key=lambda sample: [text for name, text in sample.labels.items() if name != "le"])


def gauge(name: str, text: str, value: float | None) -> Family:
    """Return the family of one number; of none, if it is not known."""
    return Family(name, "gauge", text, [] if value is None else [MetricSample(value)])


def by_label(kind: Literal["counter", "gauge"], name: str, text: str, label: str, found: Mapping[str, float]) -> Family:
    """Return the family of a number for each value of one label."""
    return Family(name, kind, text, [MetricSample(value, {label: key}) for key, value in sorted(found.items())])


class _Stated(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            for sample in family.samples:
                metric.add_sample(family.name + sample.suffix, dict(sample.labels), sample.value)
            yield metric


def write(families: Iterable[Family]) -> str:
    """Return metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Stated(list(families)))
    return prometheus_client.generate_latest(registry).decode()
