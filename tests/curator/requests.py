"""What tests send to a curator, and what they find in its ledger."""

from __future__ import annotations

import json
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from common.crypto.identity import Signed
from common.local.records import Records
from common.net import messages
from curator.curator import Curator
from curator.sample.base import LocalSample
from curator.startup import open_curator
from tests.support import Bench, tiny

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
    return LocalSample.of(Records(features, np.ones(n, dtype=np.int8)))


def edited(statement: str, file: str = "ledger.sqlite") -> Callable[[Path], None]:
    """Return what changes a database in a folder."""

    def edit(folder: Path) -> None:
        with closing(sqlite3.connect(folder / file)) as connection, connection:
            connection.executescript(statement)
            assert connection.total_changes or not statement.startswith(("UPDATE", "DELETE"))

    return edit


def no_space(*arguments: Any) -> None:
    raise OSError(28, "no space left on device")


def ledger(bench: Bench) -> list[tuple[Any, ...]]:
    """Return (number, request, event, result) of every charge, as they are on disk."""
    with closing(sqlite3.connect(bench.folder / "curator" / "ledger.sqlite")) as connection:
        rows = connection.execute("SELECT kind, body FROM entries ORDER BY position").fetchall()
    entries = [(kind, json.loads(body)) for kind, body in rows]
    results = {body["operation_id"]: json.dumps(body["result"]) for kind, body in entries if kind == "result"}
    charges = [body for kind, body in entries if kind == "charge"]
    numbers = [body["request"]["message"]["operation_id"] for body in charges]
    return [
        (number, json.dumps(body["request"]), json.dumps(body["event"]), results.get(number))
        for number, body in zip(numbers, charges, strict=True)
    ]


def request(bench: Bench, operation_id: str, operation: Any, **changes: Any) -> Signed:
    digest = messages.Configuration.parse(bench.referee.configuration("run").message).fingerprint()
    seen = bench.head().wire()
    wire = {"run": "run", "digest": digest, "operation_id": operation_id, "operation": operation, "seen": seen}
    wire.update(changes)
    return bench.referee.identity.sign("perform", wire)


@contextmanager
def full_disk(most: int = 8 << 10) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes: the operating system refuses as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
