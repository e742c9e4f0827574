"""The curve of load tests over their sizes: its picture, its refusals, and (slow) what is measured."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import load_curve
from benchmarks.histories.__main__ import RUNS, count_hostile, hostile
from benchmarks.hostile import exchanges, runs
from benchmarks.hostile.answers import KINDS
from benchmarks.hostile.recorded import recorded
from common.net import client, transport
from common.net.client import Client
from local_agent import host


def document(size: int) -> dict[str, Any]:
    row = {"per_second": 1000.0, "p99_ms": 50.0, "cpu_us_referee": 300.0 + size / 100, "commits": 20}
    return {
        "phases": dict.fromkeys(load_curve.PHASES, row),
        "options": {"individuals": size},
        "machine": {"cores": 2, "load_average": 0.5},
    }


def test_the_picture_shows_every_phase(tmp_path):
    load_curve.picture([document(1000), document(10_000)], tmp_path / "curve.svg")
    drawn = (tmp_path / "curve.svg").read_text()
    assert "<svg" in drawn
    assert drawn.count('<g id="line2d') > 6


@pytest.mark.slow
def test_what_is_measured_is_drawn(tmp_path):
    picture = tmp_path / "curve.svg"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load_curve", "--sizes", "60", "--picture", str(picture), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)["load_tests"]
    assert [test["counted"] for test in found] == [60]
    assert all(test["phases"]["report"]["commits"] > 0 for test in found)
    assert picture.stat().st_size > 1000


WITHIN = 3000
"""Seeds among which each twin must be found."""
_real = transport.send


def _without(**limits: Any) -> Callable[..., Any]:
    return lambda *given, **named: _real(*given, **{**named, **limits})


TWINS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = {
    "reads answers of any length": (
        "referee and witness",
        lambda patch: patch.setattr(client, "send", _without(most=1 << 62)),
        "bytes are read of a peer",
    ),
    "waits for ever": (
        "agent and issuer",
        lambda patch: patch.setattr(client, "send", _without(seconds=1e12)),
        "a step takes",
    ),
    "believes that a peer is at work": (
        "operator and referee",
        lambda patch: patch.setattr(Client, "works", 1e5),
        "a step takes",
    ),
    "verifies no witness": (
        "referee and witness",
        lambda patch: patch.setattr(client, "verify", lambda *given: None),
        "Forged",
    ),
    "verifies no receipt": (
        "agent and referee",
        lambda patch: patch.setattr(host, "check_receipt", lambda *given: None),
        "Forged",
    ),
    "parses whatever comes": (
        "operator and referee",
        lambda patch: patch.setattr(client, "json_of", lambda response: response.json()),
        "JSONDecodeError",
    ),
}
"""By what is wrong: the seat at which it shows, the twin, and what does not hold."""


@pytest.mark.slow
def test_what_must_hold_holds_with_a_hostile_player():
    document = count_hostile(1, 600, float("inf"))
    assert document["broken"] == []
    assert document["histories"] == 600
    assert len(document["played"]) == len(exchanges.SEATS) + len(runs.SEATS)
    assert all(len(ends) > 1 for seat, ends in document["ends"].items() if seat in exchanges.SEATS)
    assert len(KINDS) > 25


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS)
def test_a_party_that_believes_too_much_is_found(monkeypatch: pytest.MonkeyPatch, twin: str):
    seat, wrong, broken = TWINS[twin]
    recorded()
    wrong(monkeypatch)
    names = sorted(exchanges.SEATS)
    seeds = range(names.index(seat), WITHIN, len(names))
    assert any(broken in what for seed in seeds for what in exchanges.play(seed).broken)


@pytest.mark.slow
def test_a_seed_repeats_a_history():
    for seed in (*range(1, 20), RUNS):
        once, again = hostile(seed), hostile(seed)
        assert (once.ends, once.log) == (again.ends, again.log)


@pytest.mark.slow
def test_runs_end_with_each_hostile_player():
    ends = Counter(end for seed in range(9) for end in runs.play(seed).ends)
    assert ends["exhausted"] > 0
    assert "no end" not in ends
