"""One run, from a scenario to its run folder, for the command ``referee run`` and its equivalent in Python."""

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
_NAME = 55  # characters of a scenario's name in a run's name, which adds eight random ones and has at most 64
TABLES = "tables"
"""In the private state of a run folder: tables that were chosen for the run before it began (:mod:`tandem.ui.own`)."""
Watching = Callable[[ResolvedScenario, int | None, Path], AbstractContextManager[OnProgress]]
"""Opens the progress callback of a run, given its scenario, its seed and its folder."""


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
    """Run a scenario to its result, and write a run folder that can be audited; return the result document.

    BadScenario, BadInput or BudgetExceeded if the scenario or the folder is refused, before anything starts.

    Args:
        asked: The scenario as written: numbers may be ``plan``.
        deployment: ``embedded``, ``processes``, or a referee's URL, which needs the operator ``token``.
        seed: The seed of everything simulated; None draws one if people are simulated.
        output: Run folder; an unfinished run in it is resumed. None makes one below ``runs``.
        charging: The ledger in which the people of both sides are charged for the run, unless the parties are
            elsewhere, at a referee's URL.
        agree: Called once before a run begins; if it raises, nothing was claimed or charged.
    """
    if not is_address(deployment):
        data_folder(asked)  # a missing directory is reported before planning, which takes seconds
    chosen = acceptable(asked)
    folder = output or Path("runs") / f"{chosen.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if folder.exists() and not (folder / "claim.json").exists() and _holds_more(folder):
        raise BadInput(f"{folder} is not empty and no run folder: choose another --output")
    if begun(folder) and not is_address(deployment) and not (folder / "state" / "referee").exists():
        raise BadInput(f"the run in {folder} has ended, and its parties' state is not there: choose another --output")
    with _opened(deployment, folder / "state", token, charging) as deployed:
        deployed.check(chosen)  # before the folder is claimed: a refused scenario can be corrected and run in it
        if not (folder / "claim.json").exists():
            if not is_address(deployment):
                check_people(chosen)  # refused tables and people must not leave a folder that could be resumed
                check_lifetimes(chosen, charging)
            if agree is not None:
                agree(chosen)
        facts = _claimed(folder, chosen, seed)
        began = time.monotonic()
        with _shielded(watching(chosen, facts["seed"], folder)) as on_progress:
            finished = deployed.run(chosen, facts["seed"], facts["run"], on_progress)
            _check_history(folder, finished.transcript)
            # The answer is stored before the comparison: an interrupt now loses the comparison only.
            finished.write(folder, chosen, truth=None, run=str(folder))
            result = complete(finished.result, asked, facts["seed"], folder, on_progress, charging)
            result["all_runs"] = finished.all_runs
    result["seconds"]["total"] = round(time.monotonic() - began, 3)
    result["verdict"] = _verdict(chosen, result)
    write_result(folder, result)
    _write_report(folder, chosen, result)
    return result


def _check_history(folder: Path, transcript: str) -> None:
    """Refuse to overwrite a run that has ended with another history: parties may have been restored from a backup."""
    if begun(folder) and (folder / "transcript.jsonl").read_bytes() != transcript.encode():
        raise RolledBack(
            f"the run in {folder} has ended, and its parties show another history of it now: they were put back, or "
            "are others. Nothing was written there: choose another --output"
        )


def _holds_more(folder: Path) -> bool:
    """Return whether a folder holds more than the tables that were chosen for its run (:data:`TABLES`)."""
    paths, state = (*folder.iterdir(), *(folder / "state").glob("*")), Path("state")
    return bool({path.relative_to(folder) for path in paths} - {state, state / TABLES, state / "lock"})


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
    """Show progress until that fails: the first error is logged in one line, and the run continues without display."""
    callbacks: list[OnProgress] = []

    def failed(error: Exception) -> None:
        callbacks.clear()
        log.warning("progress is not shown any more (%s: %s); the run goes on", type(error).__name__, error)

    def on_progress(text: str, numbers: dict[str, float]) -> None:
        for show in list(callbacks):
            try:
                show(text, numbers)
            except Exception as error:  # noqa: BLE001 - people's budgets are charged for this run
                failed(error)

    try:
        callbacks.append(watching.__enter__())
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
    """Return the folder of the people's ledger (None: this user's own), and its runs with their total cost."""
    people_ledger = PeopleLedger(ledger, witnesses)
    return str(people_ledger.folder), people_ledger.table() if people_ledger.folder.exists() else []


def _claimed(folder: Path, chosen: ResolvedScenario, seed: int | None) -> dict[str, Any]:
    """Bind the run folder to this scenario and seed; the first time, draw the run's name and a missing seed."""
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
