"""Reads run folders for those who show them: finished ones, and why another folder is none.

Nothing but a run folder's public files is opened: never ``state/``, which holds the parties' keys and private state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.core.errors import BadData, BadMessage, BadScenario, NotFound
from common.core.folder import present
from common.core.plain import command
from common.scenario.resolved import ResolvedScenario, parse_resolved
from referee.audit.audit import audit
from referee.state.runfolder import read_result, read_scenario
from referee.view.face.building import run_view
from referee.view.face.values import RunView


@dataclass(frozen=True)
class FinishedRun:
    """The public files of a run that has ended."""

    scenario: ResolvedScenario
    result: dict[str, Any]


def read_run(folder: Path) -> FinishedRun:
    """Return a finished run's scenario and result.

    Raises
    ------
    NotFound
        If the folder is none of a run, or the run has not ended.
    BadData
        If a file of it is damaged, or was written by another version.
    """
    if not folder.is_dir():
        raise NotFound(f"there is no run folder {folder}")
    if not present(folder, "result.json") and present(folder, "claim.json"):
        raise NotFound(
            f"the run in {folder} has not ended: result.json is not written yet; the same `referee run` with "
            f"`{command('--output', folder)}` goes on with it"
        )
    tree, document = read_scenario(folder), read_result(folder)
    try:
        chosen = parse_resolved(tree)
    except (BadScenario, BadMessage) as error:
        raise BadData(
            f"{folder}/scenario.yaml does not fit this version of Tandem: {error.detail}; was it written by a newer "
            "version, or changed?"
        ) from None
    return FinishedRun(chosen, document)


def view_of(folder: Path) -> RunView:
    """Return what is shown of a finished run folder.

    A folder of an earlier version, whose result holds no rounds, is audited: the audit works the rounds out again from
    the transcript's answers.

    Raises
    ------
    NotFound, BadData
        As :func:`read_run`; ``BadData`` also if the result is not the scenario's.
    AuditFailed
        If the rounds have to be worked out and the transcript does not verify.
    """
    run = read_run(folder)
    rounds = run.result["rounds"] if "rounds" in run.result else audit(folder).rounds
    return run_view(run.scenario, run.result, _checked(rounds, folder))


def _checked(rounds: Any, folder: Path) -> Sequence[Mapping[str, float]]:
    if not isinstance(rounds, list | tuple) or not all(isinstance(numbers, dict) for numbers in rounds):
        raise BadData(f"{folder}/result.json: rounds must be a list of mappings")
    return rounds
