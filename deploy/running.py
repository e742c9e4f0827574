"""One run, from a scenario to its run folder: what the command ``referee run`` does, and its twin in Python."""

from __future__ import annotations

import logging
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.core.durable import SPEAKS, claim
from common.core.errors import BadInput, BadScenario, RolledBack
from common.core.plain import command
from common.core.version import PROTOCOL
from common.lifetime.charging import USERS_OWN
from common.lifetime.charging import Charging as Charging
from common.lifetime.ledger import PeopleLedger
from common.net.tls import is_address
from common.scenario.scenario import ResolvedScenario, Scenario, data_folder
from deploy.baselines import complete
from deploy.checking import acceptable, check_lifetimes, check_people
from deploy.deployment import Embedded, OnProgress
from referee.runfolder import begun, write_result
from referee.runs.verdict import verdict
from referee.view.pages import write_report
from referee.view.wording import run_view

if TYPE_CHECKING:
    from deploy.processes import Processes
    from deploy.remote import Remote

log = logging.getLogger("tandem")
_NAME = 55  # characters of a scenario's name in a run's, which has eight more of chance, and 64 at most
TABLES = "tables"
"""In the private state of a run folder: tables that were chosen for the run before it began (:mod:`tandem.ui.own`)."""
Watching = Callable[[ResolvedScenario, int | None, Path], AbstractContextManager[OnProgress]]
"""Opens what is called with the progress of a run: given its scenario, its seed and its folder."""


def carry_out(
    asked: Scenario,
    deployment: str,
    *,
    seed: int | None,
    output: Path | None,
    token: str,
    watching: Watching,
    charging: Charging = USERS_OWN,
    agree: Callable[[ResolvedScenario], None] | None = None,
) -> dict[str, Any]:
    """Run a scenario to its result, and leave a run folder that can be audited; return the result document.

    BadScenario, BadInput or BudgetExceeded if the scenario or the folder is refused, before anything starts.

    Args:
        asked: As it was written: numbers may be at ``plan``.
        deployment: ``embedded``, ``processes``, or a referee's URL, which needs the operator ``token``.
        seed: Of everything simulated; None draws one where people are simulated.
        output: Run folder; an unfinished one is taken up where it was. None makes one below ``runs``.
        charging: Where the run is charged to the people of both sides, unless a referee's URL says that the parties are
            elsewhere.
        agree: Called before a run begins, once; what it raises is raised, and nothing was claimed or charged.
    """
    if not is_address(deployment):
        data_folder(asked)  # a missing directory is reported before what takes seconds: to plan
    chosen = acceptable(asked)
    folder = output or Path("runs") / f"{chosen.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if folder.exists() and not (folder / "claim.json").exists() and _holds_more(folder):
        raise BadInput(f"{folder} is not empty and no run folder: choose another --output")
    if begun(folder) and not is_address(deployment) and not (folder / "state" / "referee").exists():
        raise BadInput(f"the run in {folder} has ended, and its parties' state is not there: choose another --output")
    with _opened(deployment, folder / "state", token, charging) as deployed:
        deployed.check(chosen)  # what it refuses has claimed nothing, and may be corrected and run in the same folder
        if not (folder / "claim.json").exists():
            if not is_address(deployment):
                check_people(chosen)  # tables and people that are refused leave no folder that could be taken up
                check_lifetimes(chosen, charging)
            if agree is not None:
                agree(chosen)
        facts = _claimed(folder, chosen, seed)
        began = time.monotonic()
        with _shielded(watching(chosen, facts["seed"], folder)) as on_progress:
            finished = deployed.run(chosen, facts["seed"], facts["run"], on_progress)
            _check_history(folder, finished.transcript)
            # The answer is kept before anything is compared with it: an interrupt now costs the comparison only.
            finished.write(folder, chosen, truth=None, run=str(folder))
            result = complete(finished.result, asked, facts["seed"], folder, on_progress, charging)
            result["all_runs"] = finished.all_runs
    result["seconds"]["total"] = round(time.monotonic() - began, 3)
    result["verdict"] = _verdict(chosen, result)
    write_result(folder, result)
    _write_report(folder, chosen, result)
    return result


def _check_history(folder: Path, transcript: str) -> None:
    """Refuse to write another history of a run over the one that has ended: parties may have been put back."""
    if begun(folder) and (folder / "transcript.jsonl").read_bytes() != transcript.encode():
        raise RolledBack(
            f"the run in {folder} has ended, and its parties show another history of it now: they were put back, or "
            "are others. Nothing was written there: choose another --output"
        )


def _holds_more(folder: Path) -> bool:
    """Tell whether a folder holds more than the tables that were chosen for its run (:data:`TABLES`)."""
    found, state = (*folder.iterdir(), *(folder / "state").glob("*")), Path("state")
    return bool({path.relative_to(folder) for path in found} - {state, state / TABLES, state / "lock"})


def _verdict(chosen: ResolvedScenario, result: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return verdict(chosen, result).document()
    except Exception as error:  # noqa: BLE001 - another party wrote the result, and it is stored all the same
        log.warning("the result has no verdict (%s: %s)", type(error).__name__, error)
        return None


def _write_report(folder: Path, chosen: ResolvedScenario, result: dict[str, Any]) -> None:
    try:
        write_report(folder / "report.html", [run_view(chosen, result, result["rounds"])])
    except Exception as error:  # noqa: BLE001
        again = command("referee", "report", folder)
        log.warning("report.html is not written (%s: %s); the result is stored: %s", type(error).__name__, error, again)


@contextmanager
def _shielded(watching: AbstractContextManager[OnProgress]) -> Iterator[OnProgress]:
    """Show progress as long as that works: its first error is one line in the log, and the run goes on unwatched."""
    shown: list[OnProgress] = []

    def failed(error: Exception) -> None:
        shown.clear()
        log.warning("progress is not shown any more (%s: %s); the run goes on", type(error).__name__, error)

    def on_progress(text: str, numbers: dict[str, float]) -> None:
        for show in list(shown):
            try:
                show(text, numbers)
            except Exception as error:  # noqa: BLE001 - people's budgets are charged for this run
                failed(error)

    try:
        shown.append(watching.__enter__())
    except Exception as error:  # noqa: BLE001 - as above
        failed(error)
        yield on_progress
        return
    try:
        yield on_progress
    finally:
        try:
            watching.__exit__(*sys.exc_info())
        except Exception as error:  # noqa: BLE001 - as above
            failed(error)


def spent_by_people(ledger: Path | None, witnesses: tuple[str, ...] = ()) -> tuple[str, list[dict[str, Any]]]:
    """Return the place of the people's ledger (None: this user's own), and its runs with what they cost together."""
    found = PeopleLedger(ledger, witnesses)
    return str(found.folder), found.table() if found.folder.exists() else []


def _claimed(folder: Path, chosen: ResolvedScenario, seed: int | None) -> dict[str, Any]:
    """Bind the run folder to this scenario and seed; draw what is not given, the first time."""
    facts: dict[str, Any] = {SPEAKS: PROTOCOL, "scenario": chosen.fingerprint(), "seed": seed}
    if not (folder / "claim.json").exists():
        facts["run"] = f"{chosen.name[:_NAME]}-{secrets.token_hex(4)}"
        if seed is None and chosen.people == "simulated":
            facts["seed"] = secrets.randbelow(1 << 31)
    return claim(folder, facts)


@contextmanager
def _opened(name: str, state: Path, token: str, charging: Charging) -> Iterator[Embedded | Processes | Remote]:
    if name == "embedded":
        yield Embedded(state, charging)
    elif name == "processes":
        from deploy.processes import Processes

        yield Processes(state, charging=charging)
    elif is_address(name):
        from deploy.remote import Remote

        if not token:
            raise BadInput("a URL needs the operator token: set TANDEM_OPERATOR_TOKEN or give --token")
        with closing(Remote(name, token, ended=begun(state.parent))) as remote:
            yield remote
    else:
        raise BadScenario(f"--deployment must be embedded, processes or a URL, found {name!r}")
