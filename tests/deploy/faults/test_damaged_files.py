"""Each file that a run leaves, damaged: a party says so in one line and does not start, or makes it again.

Which files there are is read from the disk, so that a new one is tried as soon as a party writes it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy.exc import DatabaseError

from common.core.errors import BrokenLedger, TandemError
from common.lifetime.charging import Charging
from common.scenario.resolved import ResolvedScenario
from curator.service.startup import open_curator
from deploy.deployment import Finished
from referee.audit.audit import audit
from tests.common.data.test_people import CSV
from tests.deploy.faults.town import scenario, town
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


@pytest.fixture(scope="module")
def halted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ResolvedScenario, Finished]:
    """The parties' state in the middle of a run, as a crash leaves it, and the run as it ends undisturbed."""
    folder = tmp_path_factory.mktemp("halted")
    chosen = scenario(folder / "data")
    (folder / "live").mkdir()
    with town(folder / "live", chosen) as parties:
        parties.halts = True
        with suppress(Halted):
            parties.run()
        shutil.copytree(folder / "live", folder / "state")
    shutil.copytree(folder / "state", folder / "undisturbed")
    with town(folder / "undisturbed", chosen) as parties:
        finished = parties.run()
    return folder / "state", chosen, finished


def outcome(folder: Path, chosen: ResolvedScenario, expected: Finished) -> str:
    """Go on from a state directory; return what came of it, and fail where anything is believed that is not so."""
    try:
        with town(folder, chosen) as parties:
            asked = [host.people_asked for host in parties.hosts]
            assert asked == [60, 1], f"some may answer again: {asked} have"
            finished = parties.run()
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
