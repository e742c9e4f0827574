"""Metrics in Prometheus' text format 0.0.4, by prometheus-client: counted where events happen, written on request.

The global registry of the process is not used, so only metrics that a service states, with their labels, exist.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal, NamedTuple

import prometheus_client
from prometheus_client.core import Metric

from common.core.errors import NotReady

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # of buckets
ITEMS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)  # upper bounds of the buckets of counts

Labels = Mapping[str, str]


class MetricSample(NamedTuple):
    """One number; ``suffix`` is what its name ends with in a histogram."""

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
    """Counts of values in buckets, by one label; ``bounds`` are the increasing upper bounds of the buckets."""

    def __init__(self, bounds: Sequence[float], label: str) -> None:
        self._counts = prometheus_client.Histogram("h", "counts", [label], registry=None, buckets=bounds)

    def observe(self, value: float, label: str) -> None:
        self._counts.labels(label).observe(value)

    def samples(self) -> list[MetricSample]:
        """Return the samples; buckets are cumulative."""
        samples = [sample for metric in self._counts.collect() for sample in metric.samples]
        series = [MetricSample(raw.value, raw.labels, raw.name[1:]) for raw in samples if raw.name != "h_created"]
        return sorted(series, key=lambda sample: [text for name, text in sample.labels.items() if name != "le"])


def gauge(name: str, text: str, value: float | None) -> Family:
    """Return the family of one number; an empty one if the number is not known."""
    return Family(name, "gauge", text, [] if value is None else [MetricSample(value)])


def by_label(kind: Literal["counter", "gauge"], name: str, text: str, label: str, items: Mapping[str, float]) -> Family:
    """Return the family of a number for each value of one label."""
    return Family(name, kind, text, [MetricSample(value, {label: key}) for key, value in sorted(items.items())])


def write(families: Iterable[Family]) -> str:
    """Return metrics as text."""
    metrics = []
    for family in families:
        metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
        for sample in family.samples:
            metric.add_sample(family.name + sample.suffix, dict(sample.labels), sample.value)
        metrics.append(metric)
    registry: Any = SimpleNamespace(collect=lambda: metrics)
    return prometheus_client.generate_latest(registry).decode()


Check = Callable[[], str | None]
"""Returns what is wrong, in a public message; None if nothing is. An exception counts as wrong and is not shown."""

FRESH = 1.0  # seconds for which a result is reused
CHECK_PATIENCE = 3.0  # seconds after which checks that have not ended count as failed for other requests
MIN_FREE = 64 << 20  # bytes that a state directory's disk must have left
PROBE = 64 << 10  # bytes written to test whether a directory is writable


class Readiness:
    """The checks of one service by name, in the order in which they are reported."""

    def __init__(self, checks: Mapping[str, Check], clock: Callable[[], float] = time.monotonic) -> None:
        self._checks = dict(checks)
        self._clock = clock
        self._lock = threading.Lock()
        self._problems: dict[str, str] = {}
        self._ended = self._began = -float("inf")

    def known(self) -> dict[str, str] | None:
        """Return the problems by check if recent results are known; None if :meth:`check` must be called."""
        now = self._clock()
        if now - self._ended < FRESH:
            return self._problems
        if not self._lock.locked():
            return None
        if now - self._began > CHECK_PATIENCE:
            return {"checks": f"have not ended for {CHECK_PATIENCE:g} seconds"}
        return self._problems if self._ended > -float("inf") else None

    def check(self) -> dict[str, str]:
        """Make all checks, unless they were made just before; return the problems by check."""
        with self._lock:
            if self._clock() - self._ended >= FRESH:
                self._began = self._clock()
                results = {name: _run_check(check) for name, check in self._checks.items()}
                self._problems = {name: problem for name, problem in results.items() if problem is not None}
                self._ended = self._clock()
            return self._problems


def require(problems: Mapping[str, str]) -> None:
    """Raise NotReady, naming each check that failed, if any did."""
    if problems:
        detail = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        raise NotReady(f"{detail}; the service's log says more", not_ready=", ".join(problems))


def _run_check(check: Check) -> str | None:
    try:
        return check()
    except Exception:  # noqa: BLE001 - whatever it is, the service is not ready, and the text may name paths or hosts
        return "cannot be used"


def disk(folder: Path) -> str | None:
    """Return why nothing can be stored in a state directory; None if it can.

    A test file is written, because a disk that is read-only, full or over its quota fails only on a write.
    """
    probe = folder / ".ready"
    try:
        if free_bytes(folder) < MIN_FREE:
            return f"less than {MIN_FREE >> 20} MiB are free"
        with probe.open("wb", buffering=0) as file:
            if file.write(bytes(PROBE)) < PROBE:
                return "is full"
    except OSError:
        return "cannot be written"
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return None


def free_bytes(folder: Path) -> int:
    """Return how many bytes this process may still write to the disk of a folder."""
    return shutil.disk_usage(folder).free
