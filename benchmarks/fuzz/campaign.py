"""One campaign: inputs for every decoder in turn, each timed and bounded; what must not happen is kept.

A finding is an input that ends in anything but a value or one of the decoder's own errors, that takes longer than
:data:`SECONDS`, or more memory than :data:`BYTES`.
"""

from __future__ import annotations

import logging
import signal
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.fuzz.decoders import Decoder
from benchmarks.fuzz.mutation import Mutator

SECONDS = 2.0
"""Of the processor that one input may take, of at most 64 KiB: what other work does on the machine does not count."""
BYTES = 64 << 20
"""That one input may take in memory, beside what is there."""
HANGS = 20
"""Seconds after which an input is given up."""
WEIGHED = 200
"""Of so many inputs of a decoder one is watched for the memory that it takes, which slows it down."""


@dataclass
class Finding:
    """What must not happen: where, of which input, and what it was."""

    where: str
    what: str
    input: str


@dataclass
class Counts:
    """What became of a decoder's inputs."""

    inputs: int = 0
    read: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slowest_ms: float = 0.0
    most_bytes: int = 0
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "inputs": self.inputs,
            "read": self.read,
            "refused": dict(self.refused),
            "slowest_ms": round(self.slowest_ms, 1),
            "most_bytes": self.most_bytes,
            "seconds": round(self.seconds, 1),
        }


class TooLong(BaseException):
    """An input was given up; no handler of an ordinary error takes this for one."""


@contextmanager
def bounded() -> Iterator[None]:
    """Give up what takes too long by far."""

    def stop(number: int, frame: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANGS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def decode(decoder: Decoder, raw: bytes, counts: Counts, *, weigh: bool) -> Finding | None:
    """Have one input read; return what must not have happened."""
    problem: str | None = None
    if weigh:
        tracemalloc.start()
    began = time.process_time()
    try:
        with bounded():
            decoder.read(raw)
        counts.read += 1
    except decoder.allowed as error:
        counts.refused[type(error).__name__] += 1
    except TooLong:
        problem = f"was given up after {HANGS} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        problem = "".join(traceback.format_exception(error)[-3:]).strip()
    took = time.process_time() - began
    if weigh:
        counts.most_bytes = max(counts.most_bytes, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        if counts.most_bytes > BYTES:
            problem = problem or f"took {counts.most_bytes:,} bytes"
    counts.inputs += 1
    counts.seconds += took
    counts.slowest_ms = max(counts.slowest_ms, took * 1e3)
    if took > SECONDS and not weigh:
        problem = problem or f"took {took:.1f} s"
    return None if problem is None else Finding(decoder.name, problem, raw[:2000].hex())


def words(decoders: Sequence[Decoder]) -> list[Any]:
    """Return parts of all valid inputs, to be put into others."""
    return [value for decoder in decoders for tree in decoder.trees[:3] for value in _parts(tree)][:3000]


def _parts(tree: Any) -> Iterator[Any]:
    yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree[:10] if isinstance(tree, list) else ():
        yield from _parts(inner)


def split(count: int, shares: Sequence[float]) -> list[int]:
    """Return how many of so many inputs each one gets, in proportion to its share: together all, and at least one each.

    What each got by rounding alone was together one more or less than was asked for.
    """
    given: list[int] = []
    whole, before = sum(shares), 0.0
    for share in shares:
        before += share
        given.append(max(1, round(count * before / whole) - sum(given)))
    return given


def fuzz_decoders(
    decoders: Sequence[Decoder], count: int, seed: int, seconds: float = float("inf")
) -> tuple[dict[str, Counts], list[Finding]]:
    """Try exactly so many changed inputs on all decoders together, in proportion to their shares, at least one on each.

    Args:
        seconds: After which it ends, if that comes first.

    Returns:
        What became of them by decoder, and the findings.
    """
    vocabulary = words(decoders)
    counted = split(count, [decoder.share for decoder in decoders])
    found: dict[str, Counts] = {}
    findings: list[Finding] = []
    until = time.monotonic() + seconds
    for decoder, wanted in zip(decoders, counted, strict=True):
        counts = found[decoder.name] = Counts()
        mutator = Mutator(f"{seed} {decoder.name}", vocabulary)
        for number in range(wanted):
            if time.monotonic() > until:
                break
            raw = _input(decoder, mutator)
            finding = decode(decoder, raw, counts, weigh=number % WEIGHED == 0)
            if finding is not None:
                findings.append(finding)
    return found, findings


def _input(decoder: Decoder, mutator: Mutator) -> bytes:
    if decoder.trees and (not decoder.raws or mutator.random.random() < 0.7):
        return mutator.written(mutator.random.choice(decoder.trees))
    return mutator.raw(mutator.random.choice(decoder.raws))


@contextmanager
def silent() -> Iterator[None]:
    """Log nothing in the block: a bug is counted here, and not logged a thousand times."""
    log = logging.getLogger("tandem")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
