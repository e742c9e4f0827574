"""A curator may die at every point: what it releases after is what it would have released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import (
    BadInput,
    Conflict,
)
from common.log.ledger import Journal
from curator.sample.shard import Shard
from curator.service.startup import open_curator
from curator.state import directory
from curator.state.directory import Checkpoints
from curator.state.ledger import Ledger
from tests.curator.service.requests import LEARN, SCRIPT, ledger, reweigh
from tests.support import Bench, tiny
from tests.tiers import thinned


@pytest.fixture(autouse=True)
def _weights_are_stored_after_every_reweigh():
    every, directory.EVERY = directory.EVERY, 1
    yield
    directory.EVERY = every


class Crash(BaseException):
    """Power is gone: nothing of Tandem's may catch this and go on as if nothing had been."""


def perform_all(bench: Bench) -> list[dict[str, Any]]:
    return [bench.perform(number, operation).result for number, operation in enumerate(SCRIPT)]


def play(folder: Path, crash: tuple[type, str, int, bool] | None, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Perform the script; with ``crash``, die once at a call of a method, before or after it, and start again."""
    with Bench(folder) as bench:
        bench.open()
        if crash is not None:
            owner, method, when, after = crash
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
            with pytest.raises(Crash):
                perform_all(bench)
            monkeypatch.undo()
    with Bench(folder) as bench:
        releases = perform_all(bench)
        rows = [(row[0], row[2], row[3]) for row in ledger(bench)]
    return releases, rows


CRASHES = [
    (Ledger, "charge", 1, False),
    (Ledger, "charge", 1, True),
    (Ledger, "charge", 3, True),
    (Ledger, "finish", 1, False),
    (Ledger, "finish", 1, True),
    (Ledger, "finish", 2, False),
    (Ledger, "finish", 4, False),
    (Journal, "publish", 2, False),
    (Journal, "publish", 2, True),
    (Journal, "publish", 3, False),
    (Journal, "publish", 3, True),
    (Checkpoints, "offer", 1, False),
    (Checkpoints, "offer", 1, True),
    (Checkpoints, "offer", 2, False),
    (Checkpoints, "offer", 2, True),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """What the script leads to where nobody dies."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return play(tmp_path_factory.mktemp("crashes") / "undisturbed", None, monkeypatch)


@pytest.mark.parametrize("crash", CRASHES, ids=lambda c: f"{c[1]}-{c[2]}-{'after' if c[3] else 'before'}")
def test_after_a_crash_the_releases_are_what_they_would_have_been(tmp_path, monkeypatch, undisturbed, crash):
    disturbed = play(tmp_path / "disturbed", crash, monkeypatch)
    assert disturbed == undisturbed
    assert len(disturbed[1]) == len(SCRIPT)


@pytest.mark.parametrize(
    "damage", thinned(["one byte", "cut off", "emptied", "deleted", "renamed", "from before", "of another"], 2)
)
def test_weights_that_are_not_beyond_doubt_are_computed_again(tmp_path, undisturbed, caplog, damage):
    folder = tmp_path / "disturbed"
    with Bench(folder) as bench:
        bench.open()
        for number, operation in enumerate(SCRIPT[:2]):
            bench.perform(number, operation)
        bench.curator._directory.checkpoints.settle()
        (old,) = [path.read_bytes() for path in (folder / "curator").glob("weights-*")]
        for number, operation in enumerate(SCRIPT[2:4], 2):
            bench.perform(number, operation)
    (stored,) = (folder / "curator").glob("weights-*")
    whole = stored.read_bytes()
    assert stored.name == "weights-2"
    if damage == "deleted":
        stored.unlink()
    elif damage == "renamed":
        stored.rename(stored.with_name("weights-1"))
    elif damage == "of another":
        with Bench(tmp_path / "another", seed=2) as bench:
            bench.open()
            for number, operation in enumerate(SCRIPT[:4]):
                bench.perform(number, operation)
        stored.write_bytes((tmp_path / "another" / "curator" / "weights-2").read_bytes())
    else:
        flipped = whole[:700] + bytes([whole[700] ^ 1]) + whole[701:]
        stored.write_bytes({"cut off": whole[:-40], "emptied": b"", "one byte": flipped, "from before": old}[damage])
    caplog.clear()
    with Bench(folder) as bench:
        assert [bench.perform(n, operation).result for n, operation in enumerate(SCRIPT)] == undisturbed[0]
    assert ("computed again from the ledger" in caplog.text) == (damage != "deleted")


def test_stored_weights_spare_the_reweighs_before_them(tmp_path, monkeypatch, undisturbed):
    with Bench(tmp_path / "state") as bench:
        bench.open()
        for number, operation in enumerate(SCRIPT[:4]):
            bench.perform(number, operation)
    monkeypatch.setattr(Shard, "reweigh", lambda *given: pytest.fail("reweighed again"))
    with Bench(tmp_path / "state") as bench:
        assert bench.perform(4, SCRIPT[4]).result == undisturbed[0][4]


def test_weights_are_stored_only_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "EVERY", 2)
    with Bench(tmp_path, tiny("curator.rounds=5")) as bench:
        bench.open()
        seen = []
        for number in range(5):
            bench.perform(number, reweigh())
            bench.curator._directory.checkpoints.settle()
            seen.append([path.name for path in (tmp_path / "curator").glob("weights-*")])
    assert seen == [[], ["weights-2"], ["weights-2"], ["weights-4"], ["weights-4"]]


def test_a_full_disk_stops_no_run(tmp_path, monkeypatch, caplog):
    def full(*given):
        raise OSError(28, "no space left on device")

    with Bench(tmp_path) as bench:
        bench.open()
        monkeypatch.setattr(directory.os, "fsync", full)  # type: ignore[attr-defined]
        bench.curator._directory.checkpoints.offer(1, 0.0, "lineage", lambda: iter([np.zeros(1200, dtype=np.uint8)]))
        bench.curator._directory.checkpoints.settle()
        monkeypatch.undo()
    assert "could not be stored, and were not: [Errno 28]" in caplog.text
    assert not list((tmp_path / "curator").glob("weights-*"))


def test_what_failed_in_memory_leaves_no_trace(bench, monkeypatch, tmp_path):
    """An operation that fails after it changed the weights is undone in memory, and repeated the same."""
    bench.open()
    bench.perform(0, LEARN)

    def full(*arguments: Any) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(Ledger, "finish", full)
    with pytest.raises(OSError, match="no space left"):
        bench.perform(1, reweigh())
    monkeypatch.undo()
    with pytest.raises(Conflict, match="operation 1 has not finished"):
        bench.perform(2, LEARN)
    bench.perform(1, reweigh())
    release = bench.perform(2, {"kind": "learn", "round": 2}).result
    with Bench(tmp_path / "undisturbed") as other:
        other.open()
        for number, operation in enumerate(SCRIPT[:2]):
            other.perform(number, operation)
        assert other.perform(2, {"kind": "learn", "round": 2}).result == release


def test_one_state_directory_is_one_curators(bench):
    with pytest.raises(BadInput, match="in use by another process"):
        open_curator(bench.chosen, bench.folder / "curator", 1, None)
