"""Each file that a run leaves, damaged: a party says so in one line and does not start, or makes it again.

Which files there are is read from the disk, so that a new one is tried as soon as a party writes it.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DatabaseError

from benchmarks.faults import services
from benchmarks.faults.machines import clock_libraries
from benchmarks.faults.once import once
from benchmarks.faults.person import STRIKES, person
from common.core.durable import claimed
from common.core.errors import AuditFailed, BrokenLedger, TandemError
from common.lifetime.charging import Charging
from common.log.ledger import LEDGER
from common.scenario.scenario import ResolvedScenario
from curator import ledger as of_curator
from curator.ledger import entry_summaries
from curator.startup import open_curator
from deploy.deployment import RunOutput
from referee import store as of_referee
from referee.audit.audit import audit
from referee.audit.history import receipts_at
from referee.runfolder import unpack_reports
from tests.common.data.test_people import CSV
from tests.deploy.faults.town import Placed, Town, scenario
from tests.support import Halted, leave_folder


def flipped(at: float) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        place = min(int(at * len(content)), len(content) - 1)
        return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]

    return change


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit": flipped(0.9),
    "cut in half": lambda content: content[: len(content) // 2],
}
MORE = {"empty": lambda content: b"", **{f"a bit at {n}/16": flipped((n + 0.5) / 16) for n in range(16)}}
"""Further ones, for ``TANDEM_DAMAGES=all``: minutes."""


def halt(parties: Town) -> None:
    """Go on until somebody has answered."""
    parties.halts = True
    with suppress(Halted):
        parties.run()


def charges(state: Path) -> list[dict[str, Any]]:
    return [entry for entry in entry_summaries(state / "curator") if entry["kind"] == "charge"]


@pytest.fixture(scope="module")
def halted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ResolvedScenario, RunOutput]:
    """The parties' state in the middle of a run, as a crash leaves it, and the run as it ends undisturbed."""
    folder = tmp_path_factory.mktemp("halted")
    chosen = scenario(folder / "data")
    (folder / "live").mkdir()
    with Town(folder / "live", chosen) as parties:
        halt(parties)
        shutil.copytree(folder / "live", folder / "state")
    shutil.copytree(folder / "state", folder / "undisturbed")
    with Town(folder / "undisturbed", chosen) as parties:
        parties.run()
        finished = parties.finished()
    return folder / "state", chosen, finished


def outcome(folder: Path, chosen: ResolvedScenario, expected: RunOutput) -> str:
    """Go on from a state directory; return what came of it, and fail where anything is believed that is not so."""
    try:
        with Town(folder, chosen) as parties:
            asked = [host.people_asked for host in parties.hosts]
            assert asked == [60, 1], f"some may answer again: {asked} have"
            parties.run()
            finished = parties.finished()
        audit(leave_folder(folder / "run", chosen, 0, finished))
    except (TandemError, OSError, DatabaseError) as error:  # what a command says in one line
        detail = error.detail if isinstance(error, TandemError) else str(getattr(error, "orig", error))
        assert detail
        assert "\n" not in detail
        return f"refused: {detail}"
    if finished.result["status"] != expected.result["status"]:
        return f"ended {finished.result['status']}: {finished.result['reason']}"
    assert finished.result["agents"] == expected.result["agents"]
    assert finished.reports == expected.reports
    return "went on"


def files(state: Path) -> list[str]:
    found = (path for path in sorted(state.rglob("*")) if path.is_file() and path.stat().st_size)
    return [str(path.relative_to(state)) for path in found]


def damaged(state: Path, name: str, change: Callable[[bytes], bytes], into: Path) -> Path:
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(state, into)
    (into / name).write_bytes(change((into / name).read_bytes()))
    return into


@pytest.mark.slow
def test_no_damaged_file_is_believed(halted, tmp_path):
    state, chosen, expected = halted
    damages, wrong = DAMAGES | MORE if os.environ.get("TANDEM_DAMAGES") == "all" else DAMAGES, []
    for name in files(state):
        for damage, change in damages.items():
            folder = damaged(state, name, change, tmp_path / "state")
            try:
                came = outcome(folder, chosen, expected)
            except Exception as error:  # noqa: BLE001 - a traceback is what must not be
                wrong.append(f"{name}, {damage}: {error!r}")
            else:
                print(f"{name}, {damage}: {came}")  # noqa: T201 - evidence
    assert "\n".join(wrong) == ""


def test_people_whose_rows_were_damaged_have_no_new_budget(halted, tmp_path):
    """The rows say who was charged: a person who is forgotten would be charged as if for the first run."""
    state = halted[0]
    name = next(name for name in files(state) if name.startswith("people/rows/"))
    folder = damaged(state, name, DAMAGES["a bit"], tmp_path / "state")
    again = scenario(tmp_path / "data")
    for table in ("people.csv", "others.csv"):  # the same people, in another file
        (tmp_path / "data" / table).write_text(CSV.replace("\n", "\r\n"))
    with pytest.raises(BrokenLedger, match="was damaged, which says who was charged"):
        open_curator(again, folder / "another", None, None, charging=Charging(folder / "people")).close()


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


def restored_halted(state: Path, chosen: ResolvedScenario, copy: Path, *, witnessed: bool) -> None:
    """Copy a referee once a question is open; then all answer, and the referee is lost."""
    with Town(state, chosen, witnessed=witnessed) as parties:
        parties.meanwhile(lambda: of_referee.backup(state / "referee", copy))
        halt(parties)
        assert parties.stored() == 61
    put_back(copy, state)


def test_agents_give_a_referee_that_was_put_back_the_same_answers_and_no_others(state, chosen, tmp_path):
    restored_halted(state, chosen, tmp_path / "copy", witnessed=False)
    before = receipts_at([state / "agent" / "receipts", state / "agents" / "receipts"])
    with Town(state, chosen, witnessed=False) as parties:
        assert parties.stored() == 0
        parties.run()
        finished = parties.finished()
    assert finished.result["status"] == "exhausted"
    assert finished.result["agents"] == {"enrolled": 61, "asked": 61, "answered": 61, "rejected": 0}
    signed = {report.signature.hex() for _, raw in finished.reports for report in unpack_reports(raw)}
    assert signed == {receipt.message["report"] for receipt in before}
    folder = leave_folder(tmp_path / "run", chosen, 0, finished)
    audit(folder, receipts=before)  # each receipt of before is for a report that is counted now


def test_a_receipt_shows_what_a_referee_that_was_put_back_has_forgotten(state, chosen, tmp_path):
    """The individual has answered and stopped: nobody sends that answer again."""
    restored_halted(state, chosen, tmp_path / "copy", witnessed=False)
    with Town(state, chosen, witnessed=False) as parties:
        parties.hosts.pop()
        parties.run()
        finished = parties.finished()
    assert finished.result["agents"]["answered"] == 60
    folder = leave_folder(tmp_path / "run", chosen, 0, finished)
    audit(folder)
    with pytest.raises(AuditFailed, match="is left out"):
        audit(folder, receipts=receipts_at([state / "agent" / "receipts"]))


def test_a_referee_put_back_behind_what_a_witness_has_seen_ends_the_run_and_says_so(state, chosen, tmp_path):
    with Town(state, chosen) as parties:
        parties.meanwhile(lambda: of_referee.backup(state / "referee", tmp_path / "copy"))
        halt(parties)
    with Town(state, chosen) as parties:
        assert parties.run()["status"] == "exhausted"
    put_back(tmp_path / "copy", state)
    charged = charges(state)
    with Town(state, chosen) as parties:
        result = parties.run()
        assert [host.people_asked for host in parties.hosts] == [60, 1]
    assert result["status"] == "refused"
    assert "the witness has seen" in result["reason"]
    assert charges(state) == charged


def stopped(state: Path, chosen: ResolvedScenario, old: Path, new: Path) -> None:
    """Copy a curator before it has learned and after, and lose it in the middle of a run."""
    with Town(state, chosen) as parties:
        of_curator.backup(state / "curator", old)
        halt(parties)
        of_curator.backup(state / "curator", new)
    (state / "curator" / LEDGER).unlink()
    assert claimed(state / "curator")


def test_only_the_newest_copy_of_a_curator_takes_a_run_on(state, chosen, tmp_path):
    stopped(state, chosen, tmp_path / "old", tmp_path / "new")
    witnesses = [Placed(state / "heads")]
    with pytest.raises(BrokenLedger, match="was put back or cut off"):
        of_curator.restore(tmp_path / "old", state / "curator", witnesses)
    of_curator.restore(tmp_path / "new", state / "curator", witnesses)
    with Town(state, chosen) as parties:
        assert parties.run()["status"] == "exhausted"
    charged = [entry["operation"] for entry in charges(state)]
    assert len(charged) == len(set(charged))


def test_an_older_copy_that_is_closed_releases_nothing_more_and_the_run_says_so(state, chosen, tmp_path):
    stopped(state, chosen, tmp_path / "old", tmp_path / "new")
    of_curator.restore(tmp_path / "old", state / "curator", [Placed(state / "heads")], close=True)
    assert charges(state) == []
    with Town(state, chosen) as parties:
        result = parties.run()
    assert result["status"] in ("refused", "exhausted")
    assert result["reason"]
    assert charges(state) == []


FEW = (("full", "curator"), ("read-only", "host"), ("clock -1d", "referee"))
"""Of all that ``python -m benchmarks.faults`` tries."""
SOME = ("full", "read-only", "descriptors", "clock -1d", "killed")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder for parties whose disks and clocks are changed under them."""
    if os.geteuid() != 0:
        pytest.skip("disks are mounted by root alone")
    if clock_libraries(tmp_path) is None:
        pytest.skip("there is no libfaketime or no C compiler here (Debian: apt-get install faketime gcc)")
    return tmp_path / "parties"


@pytest.mark.slow
def test_a_run_waits_for_the_machine_and_ends_as_it_would_have(machine):
    found = once(machine, FEW, rounds=8, seconds=1.5)
    assert found.wrong == []
    assert found.status in ("done", "exhausted")
    assert found.counted == found.answered > 0
    struck = [(fault["kind"], fault["party"]) for fault in found.faults]
    assert struck == list(FEW)[: len(struck)] != []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "struck"),
    [pytest.param(*strike, marks=[] if strike == ("full", "person") else pytest.mark.thorough) for strike in STRIKES],
)
def test_one_persons_agent_goes_on_once_the_fault_is_gone_and_answers_once(machine, kind, struck):
    found = person(machine, kind, struck)
    assert (found.wrong, found.status in ("done", "exhausted")) == ([], True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(of, marks=pytest.mark.thorough if of == "collector" else ()) for of in services.SERVICES]
)
def test_whoever_comes_to_a_service_under_faults_gets_one_thing_once_they_are_gone(machine, name):
    found = services.visit(machine, name, SOME)
    assert (found.wrong, found.answered, found.counted) == ([], len(SOME), len(SOME))
