"""A referee or a curator put back from a copy in the middle of a run: nobody answers twice, nothing is spent twice."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from common.core.durable import claimed
from common.core.errors import AuditFailed, BrokenLedger
from common.scenario.resolved import ResolvedScenario
from curator.state import copies as of_curator
from curator.state.ledger import listed
from referee.audit.audit import audit
from referee.audit.history import receipts_at
from referee.state import store as of_referee
from referee.state.runfolder import unpack_reports
from tests.deploy.faults.town import Placed, scenario, town
from tests.support import Halted, leave_folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """An empty directory for the parties' states."""
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def chosen(tmp_path: Path) -> ResolvedScenario:
    """The scenario of 60 real people, and one individual beside them."""
    return scenario(tmp_path / "data")


def put_back(copy: Path, state: Path) -> None:
    """Put a copy of a referee in the place of its state directory."""
    shutil.rmtree(state / "referee")
    shutil.copytree(copy, state / "referee")


def halted(state: Path, chosen: ResolvedScenario, copy: Path, *, witnessed: bool) -> None:
    """Copy a referee once a question is open; then all answer, and the referee is lost."""
    with town(state, chosen, witnessed=witnessed) as parties:
        parties.halts = True
        parties.meanwhile.append(lambda: of_referee.backup(state / "referee", copy))
        with suppress(Halted):
            parties.run()
        assert parties.stored() == 61
    put_back(copy, state)


def test_agents_give_a_referee_that_was_put_back_the_same_answers_and_no_others(state, chosen, tmp_path):
    halted(state, chosen, tmp_path / "copy", witnessed=False)
    before = receipts_at([state / "agent" / "receipts", state / "host" / "receipts"])
    with town(state, chosen, witnessed=False) as parties:
        assert parties.stored() == 0
        finished = parties.run()
    assert finished.result["status"] == "exhausted"
    assert finished.result["agents"] == {"enrolled": 61, "asked": 61, "answered": 61, "rejected": 0}
    signed = {report.signature.hex() for _, raw in finished.reports for report in unpack_reports(raw)}
    assert signed == {receipt.message["report"] for receipt in before}
    folder = leave_folder(tmp_path / "run", chosen, 0, finished)
    audit(folder, receipts=before)  # each receipt of before is for a report that is counted now


def test_a_receipt_shows_what_a_referee_that_was_put_back_has_forgotten(state, chosen, tmp_path):
    """The individual has answered and stopped: nobody sends that answer again."""
    halted(state, chosen, tmp_path / "copy", witnessed=False)
    with town(state, chosen, witnessed=False) as parties:
        parties.hosts.pop()
        finished = parties.run()
    assert finished.result["agents"]["answered"] == 60
    folder = leave_folder(tmp_path / "run", chosen, 0, finished)
    audit(folder)
    with pytest.raises(AuditFailed, match="is left out"):
        audit(folder, receipts=receipts_at([state / "agent" / "receipts"]))


def test_a_referee_put_back_behind_what_a_witness_has_seen_ends_the_run_and_says_so(state, chosen, tmp_path):
    with town(state, chosen) as parties:
        parties.halts = True
        parties.meanwhile.append(lambda: of_referee.backup(state / "referee", tmp_path / "copy"))
        with suppress(Halted):
            parties.run()
    with town(state, chosen) as parties:
        assert parties.run().result["status"] == "exhausted"
    put_back(tmp_path / "copy", state)
    charged = [entry for entry in listed(state / "curator") if entry["kind"] == "charge"]
    with town(state, chosen) as parties:
        result = parties.run().result
        assert [host.people_asked for host in parties.hosts] == [60, 1]
    assert result["status"] == "refused"
    assert "the witness has seen" in result["reason"]
    assert [entry for entry in listed(state / "curator") if entry["kind"] == "charge"] == charged


def stopped(state: Path, chosen: ResolvedScenario, old: Path, new: Path) -> None:
    """Copy a curator before it has learned and after, and lose it in the middle of a run."""
    with town(state, chosen) as parties:
        of_curator.backup(state / "curator", old)
        parties.halts = True
        with suppress(Halted):
            parties.run()
        of_curator.backup(state / "curator", new)
    (state / "curator" / "ledger.sqlite").unlink()
    assert claimed(state / "curator")


def test_only_the_newest_copy_of_a_curator_takes_a_run_on(state, chosen, tmp_path):
    stopped(state, chosen, tmp_path / "old", tmp_path / "new")
    witnesses = [Placed(state / "heads")]
    with pytest.raises(BrokenLedger, match="was put back or cut off"):
        of_curator.restore(tmp_path / "old", state / "curator", witnesses)
    of_curator.restore(tmp_path / "new", state / "curator", witnesses)
    with town(state, chosen) as parties:
        assert parties.run().result["status"] == "exhausted"
    charged = [entry["operation"] for entry in listed(state / "curator") if entry["kind"] == "charge"]
    assert len(charged) == len(set(charged))


def test_an_older_copy_that_is_closed_releases_nothing_more_and_the_run_says_so(state, chosen, tmp_path):
    stopped(state, chosen, tmp_path / "old", tmp_path / "new")
    of_curator.restore(tmp_path / "old", state / "curator", [Placed(state / "heads")], close=True)
    before = [entry for entry in listed(state / "curator") if entry["kind"] == "charge"]
    assert before == []
    with town(state, chosen) as parties:
        result = parties.run().result
    assert result["status"] in ("refused", "exhausted")
    assert result["reason"]
    assert [entry for entry in listed(state / "curator") if entry["kind"] == "charge"] == []
