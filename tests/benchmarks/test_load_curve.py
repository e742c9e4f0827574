"""The curve of load tests over their sizes: its picture, its refusals, and (slow) what is measured."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.fuzz.__main__ import campaign, table
from benchmarks.fuzz.campaign import Counts, decode
from benchmarks.fuzz.decoders import Decoder
from benchmarks.fuzz.mutation import MAX_BYTES, Mutator
from benchmarks.histories.__main__ import RUNS, count_hostile, hostile
from benchmarks.hostile import exchanges, runs
from benchmarks.hostile.answers import KINDS
from benchmarks.hostile.recorded import recorded
from common.core.errors import BadMessage
from common.net import client, transport
from common.net.client import Client
from local_agent import host


@pytest.mark.thorough
def test_what_is_measured_is_drawn(tmp_path):
    picture = tmp_path / "curve.svg"
    command = [sys.executable, "-m", "benchmarks.load_curve", "--sizes", "60", "--picture", str(picture), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)["load_tests"]
    assert [test["counted"] for test in found] == [60]
    assert all(test["phases"]["report"]["commits"] > 0 for test in found)
    assert picture.read_text().count('<g id="line2d') > 6


WITHIN = 3000
"""Seeds among which each twin must be found."""
_real = transport.send


def _without(**limits: Any) -> Callable[..., Any]:
    return lambda *given, **named: _real(*given, **{**named, **limits})


OPERATOR, WITNESS = "operator and referee", "referee and witness"
TWINS: dict[str, tuple[str, tuple[object, str, object], str]] = {
    "reads answers of any length": (WITNESS, (client, "send", _without(most=1 << 62)), "bytes are read of a peer"),
    "waits for ever": ("agent and issuer", (client, "send", _without(seconds=1e12)), "a step takes"),
    "believes that a peer is at work": (OPERATOR, (Client, "works", 1e5), "a step takes"),
    "verifies no witness": (WITNESS, (client, "verify", lambda *given: None), "Forged"),
    "verifies no receipt": ("agent and referee", (host, "check_receipt", lambda *given: None), "Forged"),
    "parses whatever comes": (OPERATOR, (client, "json_of", lambda response: response.json()), "JSONDecodeError"),
}
"""By what is wrong: the seat at which it shows, the twin, and what does not hold."""


def test_what_must_hold_holds_with_a_hostile_player():
    document = count_hostile(1, 600, float("inf"))
    assert document["broken"] == []
    assert document["histories"] == 600
    assert len(document["played"]) == len(exchanges.SEATS) + len(runs.SEATS)
    assert all(len(ends) > 1 for seat, ends in document["ends"].items() if seat in exchanges.SEATS)
    assert len(KINDS) > 25


@pytest.mark.parametrize("twin", TWINS)
def test_a_party_that_believes_too_much_is_found(monkeypatch: pytest.MonkeyPatch, twin: str):
    seat, wrong, broken = TWINS[twin]
    recorded()
    monkeypatch.setattr(*wrong)
    names = sorted(exchanges.SEATS)
    seeds = range(names.index(seat), WITHIN, len(names))
    assert any(broken in what for seed in seeds for what in exchanges.play(seed).broken)


def test_a_seed_repeats_a_history():
    for seed in (*range(1, 20), RUNS):
        once, again = hostile(seed), hostile(seed)
        assert (once.ends, once.log) == (again.ends, again.log)


def test_runs_end_with_each_hostile_player():
    ends = Counter(end for seed in range(9) for end in runs.play(seed).ends)
    assert ends["exhausted"] > 0
    assert "no end" not in ends


TREE = {"kind": "a", "numbers": [1, 2.5, {"deep": None}], "text": "abc"}


def broken(raw: bytes) -> None:
    """Break on half of all inputs, as a decoder with a bug does."""
    if len(raw) % 2:
        raise KeyError("a bug")


def greedy(raw: bytes) -> None:
    bytearray(80 << 20)


@pytest.mark.parametrize(("read", "said"), [(broken, "KeyError"), (greedy, "took 83,")])
def test_a_decoder_with_a_bug_is_found(read, said):
    finding = decode(Decoder("x", read, (BadMessage,)), b"odd", Counts(), weigh=True)
    assert finding is not None
    assert said in finding.what
    assert bytes.fromhex(finding.input) == b"odd"


def test_what_is_read_or_refused_as_declared_is_no_finding():
    def refuse(raw: bytes) -> None:
        raise BadMessage("no")

    counts = Counts()
    assert decode(Decoder("x", refuse, (BadMessage,)), b"", counts, weigh=False) is None
    assert decode(Decoder("x", len, (BadMessage,)), b"", counts, weigh=False) is None
    assert (counts.inputs, counts.read, counts.refused["BadMessage"]) == (2, 1, 1)


def test_a_seed_repeats_all_inputs_and_valid_ones_stay_as_they_are():
    before = json.dumps(TREE)
    one, other = Mutator(1, [TREE]), Mutator(1, [TREE])
    inputs = [one.written(TREE) for _ in range(500)]
    assert inputs == [other.written(TREE) for _ in range(500)]
    assert len(set(inputs)) > 400
    assert max(map(len, inputs)) <= MAX_BYTES
    assert json.dumps(TREE) == before


@pytest.mark.parametrize("count", [20_000, pytest.param(50_000, marks=pytest.mark.thorough)])
def test_no_input_breaks_a_decoder_or_a_service(count):
    document = campaign(count, seed=7)
    assert document["findings"] == []
    assert {"binary request", "encapsulated request", "key configurations", "service relay"} <= set(document["rows"])
    assert document["inputs"] >= 0.99 * count
    assert all(row["inputs"] > 0 for row in document["rows"].values())
    assert f"{document['inputs']:,} inputs" in table(document)
