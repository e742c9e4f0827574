"""The fuzzer: what it must find, what it counts, and that a small campaign of everything finds nothing."""

import json

import pytest

from benchmarks.fuzz.__main__ import campaign, table
from benchmarks.fuzz.campaign import Counts, decode
from benchmarks.fuzz.decoders import Decoder
from benchmarks.fuzz.mutation import MAX_BYTES, Mutator
from common.core.errors import BadMessage

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
    first, again = ([Mutator(5, [TREE]).written(TREE) for _ in range(1)] for _ in range(2))
    assert first == again
    one, other = Mutator(1, [TREE]), Mutator(1, [TREE])
    inputs = [one.written(TREE) for _ in range(500)]
    assert inputs == [other.written(TREE) for _ in range(500)]
    assert len(set(inputs)) > 400
    assert max(map(len, inputs)) <= MAX_BYTES
    assert json.dumps(TREE) == before


@pytest.mark.parametrize("count", [3000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_no_input_breaks_a_decoder_or_a_service(count):
    document = campaign(count, seed=7)
    assert document["findings"] == []
    assert {"binary request", "encapsulated request", "key configurations", "service relay"} <= set(document["rows"])
    assert document["inputs"] >= 0.99 * count
    assert all(row["inputs"] > 0 for row in document["rows"].values())
    assert f"{document['inputs']:,} inputs" in table(document)
