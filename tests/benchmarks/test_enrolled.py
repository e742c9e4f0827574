"""What requests cost beside many who are enrolled: the database made beforehand, and (slow) what is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing

import pytest

from benchmarks.enrolled import AT_ONCE, enrol_before
from referee.collection.ordering.roster import Roster
from referee.state.store import Store


def test_everybody_is_listed_with_a_number_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.enrolled.AT_ONCE", 4)
    assert AT_ONCE > 4
    enrol_before(tmp_path / "referee", 10)
    with closing(Store(f"sqlite:///{tmp_path}/referee/referee.sqlite")) as store:
        roster = Roster(store.participants())
    assert (len(roster), roster.agents, roster.hosts) == (10, 10, 0)


@pytest.mark.slow
def test_requests_beside_many_who_are_enrolled_are_answered_and_measured():
    command = [sys.executable, "-m", "benchmarks.enrolled", "--sizes", "5000", "--individuals", "200", "--json"]
    [found] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["enrolled"] == 5000
    assert all(found[name]["requests"] == 200 and not found[name]["rejected"] for name in ("enrol", "poll", "report"))
    assert found["first_question_seconds"] > 0.0
