"""Samples on which every round's losses are what a test wants them to be."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.arrays import AnyArray, Words
from common.crypto.identity import Signed
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.hypotheses.rules import Conjunction
from common.local.losses import HypothesisLoss
from common.local.records import Records
from common.log.ledger import LEDGER
from common.net import messages
from common.numerics.randomness import RandomSource
from curator.curator import Curator
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from curator.sample.rows import SingleRows
from curator.startup import open_curator
from tests.support import Bench, tiny


def losses_of(table: AnyArray) -> Records:
    """Return records whose loss under the hypothesis of round t is ``table[t]``: bits, or multiples of 2^-10."""
    rows = np.ascontiguousarray(1 - table.T)
    features = rows if table.dtype == np.uint8 else rows.astype(np.float32)
    return Records(features, np.ones(len(features), dtype=np.int8))


def hypothesis(t: int, rounds: int, *, real: bool) -> Hypothesis:
    """Return the hypothesis of round t: feature t is the margin, or the prediction."""
    if real:
        return Linear(weights=tuple(float(t == j) for j in range(rounds)), threshold=0.0)
    return Conjunction(features=(t,))


def split(
    records: Records, *cuts: int, rows: Callable[[Records], Any] = SingleRows, threads: int | None = None
) -> LocalSample:
    """Return the records in shards that begin at 0 and at the cuts."""
    ends = [0, *cuts, len(records)]
    return LocalSample([rows(records.take(np.arange(a, b))) for a, b in pairwise(ends)], threads)


def reweighed(table: AnyArray, kappa: float | None, eta: float) -> tuple[Reweighing, LocalSample]:
    """Return the weights after as many rounds as the table has rows, and the sample."""
    sample = LocalSample.from_records(losses_of(table))
    weights = Reweighing(len(sample), kappa, eta)
    real = table.dtype != np.uint8
    for t in range(len(table)):
        weights.update(sample, HypothesisLoss(hypothesis(t, len(table), real=real), "hinge" if real else "zero-one"))
    return weights, sample


def cumulative_losses(sample: LocalSample) -> AnyArray:
    return np.concatenate(list(sample.cumulative_losses()))


def law(weights: Reweighing, sample: LocalSample) -> AnyArray:
    """Return mu up to a factor, by record: 1 where it is largest."""
    return weights.density().relative(cumulative_losses(sample).astype(np.int64))


class Counted(RandomSource):
    """A source that counts the words of all that are derived from it."""

    def __init__(self, key: bytes, drawn: list[int]) -> None:
        super().__init__(key, simulated=True)
        self.drawn = drawn

    def words(self, count: int) -> Words:
        self.drawn.append(count)
        return super().words(count)

    def derive(self, *labels: str | int) -> RandomSource:
        return Counted(super().derive(*labels)._key, self.drawn)


@contextmanager
def begun(*place: Any, **named: Any) -> Iterator[Bench]:
    """Give a bench whose run has begun, as far as the curator is concerned."""
    with Bench(*place, **named) as bench:
        bench.open()
        yield bench


LEARN: dict[str, Any] = {"kind": "learn", "round": 1}


def reweigh(dimension: int = 8) -> dict[str, Any]:
    hypothesis = {"kind": "linear", "weights": [1.0] * dimension, "threshold": 0.0}
    return {"kind": "reweigh", "hypothesis": hypothesis}


SCRIPT = [LEARN, reweigh(), {"kind": "learn", "round": 2}, reweigh(), {"kind": "learn", "round": 3}]


def perform_all(bench: Bench, end: int = len(SCRIPT), begin: int = 0) -> list[dict[str, Any]]:
    """Have the script's operations performed, from one number to another; return their releases."""
    return [bench.perform(number, SCRIPT[number]).result for number in range(begin, end)]


def reopened(folder: Path, **named: Any) -> Curator:
    return open_curator(tiny(), folder, 1, None, **named)


def sample(n: int = 1200, odd: float = 0.0) -> LocalSample:
    """Return people who are all alike, but for one feature of one of them."""
    features = np.zeros((n, 8), dtype=np.float32)
    features[7, 3] = odd
    return LocalSample.from_records(Records(features, np.ones(n, dtype=np.int8)))


def edited(change: Callable[[list[bytes]], Any]) -> Callable[[Path], None]:
    """Return what changes the lines of the ledger in a folder."""

    def edit(folder: Path) -> None:
        before = (folder / LEDGER).read_bytes()
        lines = before.splitlines(keepends=True)
        change(lines)
        (folder / LEDGER).write_bytes(b"".join(lines))
        assert b"".join(lines) != before

    return edit


def cut_off(folder: Path) -> None:
    """Leave what a crash in the middle of an append leaves behind a ledger."""
    with (folder / LEDGER).open("ab") as file:
        file.write(b'{"body":{"operation":{"kind":"learn"')


class Crash(BaseException):
    """Power is gone: nothing of Tandem's may catch this and go on as if nothing had been."""


def crash_at(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, when: int, after: bool) -> None:
    """Have a call of a method, before or after it is carried out, be the end of the process."""
    real, calls = getattr(owner, method), []

    def dying(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == when and not after:
            raise Crash
        result = real(*arguments, **named)
        if len(calls) == when:
            raise Crash
        return result

    monkeypatch.setattr(owner, method, dying)


def no_space(*arguments: Any) -> None:
    raise OSError(28, "no space left on device")


def ledger(bench: Bench) -> list[tuple[Any, ...]]:
    """Return (number, request, event, result) of every charge, as they are on disk."""
    lines = (bench.folder / "curator" / LEDGER).read_text().splitlines()
    entries = [(entry["kind"], entry["body"]) for entry in map(json.loads, lines)]
    results = {body["operation_id"]: json.dumps(body["result"]) for kind, body in entries if kind == "result"}
    charges = [body for kind, body in entries if kind == "charge"]
    numbers = [body["request"]["message"]["operation_id"] for body in charges]
    return [
        (number, json.dumps(body["request"]), json.dumps(body["event"]), results.get(number))
        for number, body in zip(numbers, charges, strict=True)
    ]


def request(bench: Bench, operation_id: str, operation: Any, /, **changes: Any) -> Signed:
    digest = messages.Configuration.parse(bench.referee.configuration("run").message).fingerprint()
    seen = bench.head().wire()
    wire = {"run": "run", "digest": digest, "operation_id": operation_id, "operation": operation, "seen": seen}
    wire.update(changes)
    return bench.referee.identity.sign("perform", wire)


@contextmanager
def full_disk(most: int = 1 << 10) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes: the operating system refuses as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
