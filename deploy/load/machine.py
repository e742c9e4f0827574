"""What this machine can do by itself, measured in the same minute: what a load test's figures are shares of."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from nacl import bindings

from common.core.machine import processors
from deploy.load.loopback import requests_per_second
from referee.collection.signatures import compiled, verified

GROUP = 256
"""Signatures of a group, and rows of a commit."""


def limits(folder: Path, seconds: float = 0.5) -> dict[str, Any]:
    """Measure this machine for so many seconds a figure.

    Parameters
    ----------
    folder
        On the disk that a referee would use.

    Returns
    -------
    ``verify_per_second`` (Ed25519, one core), ``commits_per_second`` (one row each, on disk when it returns),
    ``rows_per_second`` (in commits of 256), ``requests_per_second`` (over loopback, to a server that does nothing),
    ``cores``, ``load_average`` (of the minute before).
    """
    return {
        "cores": processors(),
        "load_average": round(os.getloadavg()[0], 2),
        "verify_per_second": round(_verifications(seconds)),
        "commits_per_second": round(_commits(folder, 1, seconds)),
        "rows_per_second": round(_commits(folder, GROUP, seconds)),
        "requests_per_second": round(requests_per_second(seconds)),
    }


def _verifications(seconds: float) -> float:
    public, secret = bindings.crypto_sign_keypair()
    said = [os.urandom(400) for _ in range(GROUP)]
    signed = [bindings.crypto_sign(what, secret)[:64] for what in said]
    compiled()
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        if not verified([public] * GROUP, said, signed).all():
            raise AssertionError("a signature of our own does not verify")
        done += GROUP
    return done / (time.perf_counter() - began)


def _commits(folder: Path, rows: int, seconds: float) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        database = sqlite3.connect(Path(place) / "limits.sqlite")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, row BLOB)")
        row, done, began = os.urandom(120), 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            with database:
                database.executemany("INSERT INTO t (row) VALUES (?)", [(row,)] * rows)
            done += rows
        took = time.perf_counter() - began
        database.close()
    return done / took
