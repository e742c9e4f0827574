"""Real processes whose disks, clocks and descriptors fail in the middle of a run: it waits, and ends all the same."""

from __future__ import annotations

import os

import pytest

from benchmarks.faults import services
from benchmarks.faults.machines import clock_libraries
from benchmarks.faults.once import once
from benchmarks.faults.person import STRIKES, person

FEW = (
    ("full", "curator"),
    ("read-only", "host"),
    ("clock -1d", "referee"),
)
"""Of all that ``python -m benchmarks.faults`` tries."""
PERSONS = (("full", "person"), ("read-only", "person"), ("clock -1d", "person"), ("killed", "relay"))
SOME = ("full", "read-only", "descriptors", "clock -1d", "killed", "killed")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="disks are mounted by root alone")
def test_a_run_waits_for_the_machine_and_ends_as_it_would_have(tmp_path):
    if clock_libraries(tmp_path) is None:
        pytest.skip("there is no libfaketime or no C compiler here (Debian: apt-get install faketime gcc)")
    found = once(tmp_path / "parties", FEW, rounds=8, seconds=1.5)
    assert found.wrong == []
    assert found.status in ("done", "exhausted")
    assert found.counted == found.answered > 0
    struck = [(fault["kind"], fault["party"]) for fault in found.faults]
    assert struck == list(FEW)[: len(struck)] != []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "struck"),
    [pytest.param(*strike, marks=[] if strike in PERSONS else pytest.mark.thorough) for strike in STRIKES],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="disks are mounted by root alone")
def test_one_persons_agent_goes_on_once_the_fault_is_gone_and_answers_once(tmp_path, kind, struck):
    if clock_libraries(tmp_path) is None:
        pytest.skip("there is no libfaketime or no C compiler here (Debian: apt-get install faketime gcc)")
    found = person(tmp_path / "parties", kind, struck)
    assert found.wrong == []
    assert found.status in ("done", "exhausted")


@pytest.mark.slow
@pytest.mark.parametrize("name", services.SERVICES)
@pytest.mark.skipif(os.geteuid() != 0, reason="disks are mounted by root alone")
def test_whoever_comes_to_a_service_under_faults_gets_one_thing_once_they_are_gone(tmp_path, name):
    if clock_libraries(tmp_path) is None:
        pytest.skip("there is no libfaketime or no C compiler here (Debian: apt-get install faketime gcc)")
    found = services.visit(tmp_path / "parties", name, SOME)
    assert found.wrong == []
    assert found.answered == found.counted == len(SOME)
