"""What the curator keeps for its owner's eyes: its plan, when it released what, what was clipped, how its weights lie.

All of it is private, as the records are: no bound on anybody's privacy covers who reads it. It stands in the state
directory, readable by its owner alone, and is never sent. Nothing depends on it: a file that is lost or old changes no
answer, and one that cannot be written is a warning.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common.core.errors import BadData, BadInput, BadMessage, BrokenLedger
from common.log.ledger import CLOSED, LEDGER, REMEDY, verified_rows
from common.privacy.accountants import grouped
from common.privacy.budget import Budget, open_budget
from common.privacy.events import Event, NoEvent, parse_event
from common.scenario.resolved import ResolvedScenario
from curator.ledger import CHARGE, OPEN, RESULT
from curator.sample.reweighing import Reweighing
from curator.sample.sampling import Density

if TYPE_CHECKING:
    from common.data.examining import Notes

log = logging.getLogger("tandem")
OWNERS = "owner.json"
VERSION = 1
BINS = 40
"""Bars of the weights' histogram, at most."""


class OwnersFile:
    """The file in a state directory; written anew after each operation.

    Args:
        folder: The state directory, which this process holds.
        scenario: Resolved.
        planned: The events that the budget was opened for.
        read: What the public rules did to the table's rows; None where people are of no table.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        folder: Path,
        scenario: ResolvedScenario,
        planned: Sequence[Event],
        read: Notes | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        section = scenario.curator
        self._path = folder / OWNERS
        self._clock = clock
        self._updates = -1
        table = scenario.source.table
        self._document: dict[str, Any] = {
            "version": VERSION,
            "scenario": scenario.name,
            "people": section.n,
            "simulated": scenario.people == "simulated",
            "epsilon": section.epsilon,
            "delta": section.delta,
            "rounds": section.rounds,
            "planned": [[event.wire(), count] for event, count in grouped(planned)],
            "times": _times(self._path),
            "read": None if read is None or table is None else {"rows": read.rows, **read.document()},
            "bounds": {} if table is None else table_bounds(scenario),
            "weights": None,
        }

    def keep(self, reweighing: Reweighing, operation: str | None = None) -> None:
        """Write how things stand, after an operation if one is named."""
        if operation is not None:
            self._document["times"][operation] = round(self._clock(), 1)
        if reweighing.updates != self._updates:
            self._updates = reweighing.updates
            self._document["weights"] = weights_of(reweighing)
        part = self._path.with_name(OWNERS + ".part")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(json.dumps(self._document))  # at once: dump() writes piece by piece
            os.replace(part, self._path)  # whole or not at all; it need not survive a power cut
        except OSError as error:
            log.warning("what the owner's console shows could not be written: %s", error)


def weights_of(reweighing: Reweighing) -> dict[str, Any]:
    """Return how the weights lie: of everybody together, and by their scores.

    A record's score is the sum of its losses over all reweighs, its weight mu in units of 1/n. ``bins`` holds, for each
    bar from the lowest score, its lowest and highest score as a mean loss in [0, 1], how many records have such a
    score, and their share of all the weight.
    """
    density, n = reweighing.density(), reweighing.n
    levels, people = density.histogram.levels, density.histogram.people
    relative = density.relative(levels)
    share = people * relative / float(np.sum(people * relative))
    most = max(1.0, reweighing.updates * reweighing.eta / density.eta)
    kappa = reweighing.kappa
    return {
        "updates": reweighing.updates,
        "kappa": kappa,
        "eta": reweighing.eta,
        "mean_score": float(np.average(levels, weights=people)) / most,
        "cap": None if kappa is None else 1.0 / kappa,
        "largest": float(np.max(share / people)) * n,
        "at_cap": 0 if kappa is None else int(np.sum(people[levels >= density.cut])),
        "density": _dense(density) / n,
        "bins": [
            [*(levels[here[[0, -1]]] / most).tolist(), int(people[here].sum()), float(share[here].sum())]
            for here in _bars(levels)
        ],
    }


def _dense(density: Density) -> float:
    return density.acceptance * len(density)


def _bars(levels: Any) -> list[Any]:
    low, high = int(levels[0]), int(levels[-1])
    width = max(1, -(-(high - low + 1) // BINS))
    bar = (levels - low) // width
    return [np.flatnonzero(bar == number) for number in np.unique(bar)]


def table_bounds(scenario: ResolvedScenario) -> dict[str, list[float]]:
    """Return the public bounds of a table's numbers, by column: the narrowest where a column has several."""
    found: dict[str, list[float]] = {}
    for feature in () if scenario.source.table is None else scenario.source.table.features:
        if feature.kind == "number":
            low, high = found.get(feature.column, [feature.low, feature.high])
            found[feature.column] = [max(low, feature.low), min(high, feature.high)]
    return found


def _times(path: Path) -> dict[str, float]:
    try:
        written = json.loads(path.read_bytes())["times"]
        return {str(number): float(when) for number, when in written.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


PATIENCE = 2.0
"""Seconds to wait for a curator that is just writing an entry."""


@dataclass(frozen=True)
class Charged:
    """One charge.

    Attributes:
        when: When its operation ended, seconds since 1970; None where nobody kept it.
        amount, total: What it took of the cap, and all so far, in the budget's unit; None where there is no budget to
            say it.
        done: Whether its result is in the ledger.
    """

    operation: str
    asks: str
    event: Event
    when: float | None
    amount: float | None
    total: float | None
    done: bool


@dataclass(frozen=True)
class Seen:
    """All that the console shows.

    Attributes:
        entries: How many the ledger has; each follows from the one before it.
        run: The run that holds the budget; empty before one does.
        closed: Why nothing more is charged; empty if it may be.
        budget: The budget, as the curator opened it; None without privacy, or where its owner's file is missing.
        about: The owner's file (:mod:`curator.owner`); empty where there is none, or none of this version.
        missing: Why ``about`` is empty.
    """

    entries: int
    run: str
    closed: str
    charges: tuple[Charged, ...]
    budget: Budget | None
    about: Mapping[str, Any]
    missing: str = ""


def look(state: Path) -> Seen:
    """Read a state directory.

    Raises:
        BadInput: If it is no curator's state directory, or nothing is in its ledger yet.
        BrokenLedger: If the ledger cannot be read, or an entry does not follow from the one before it.
        BadData: If the owner's file does not hold what it must.
    """
    entries = _entries(state)
    about, missing = _about(state)
    try:
        budget = _budget(about)
        return Seen(
            entries=len(entries),
            run=next((str(body["run"]) for kind, body in entries if kind == OPEN), ""),
            closed=next((str(body["why"]) for kind, body in entries if kind == CLOSED), ""),
            charges=tuple(_charges(entries, budget, about.get("times", {}))),
            budget=budget,
            about=about,
            missing=missing,
        )
    except (KeyError, TypeError, ValueError, AttributeError, BadMessage) as error:
        raise BadData(f"{state} cannot be shown ({error!r}): it was edited, or written by another version") from None


def _entries(state: Path) -> list[tuple[str, dict[str, Any]]]:
    file = state / LEDGER
    if not state.is_dir():
        raise BadInput(f"there is no directory {state}: give the one that the curator was started with (--state)")
    if not file.is_file():
        raise BadInput(
            f"{state} is not a curator's state directory, or its curator has not started yet: it has no {LEDGER}"
        )
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=PATIENCE)
        try:
            rows = connection.execute("SELECT position, kind, body, hash FROM entries ORDER BY position").fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        if "no such table" in str(error):
            raise BadInput(f"{file} has no entries yet: its curator is starting, or was stopped while it did") from None
        if "locked" in str(error):
            raise BadInput(f"{file} is being written for more than {PATIENCE:g} seconds: look again") from None
        raise BrokenLedger(f"{file} cannot be read ({error}): it is no ledger, or was cut off. {REMEDY}") from None
    found = [(entry.kind, entry.body) for entry, _ in verified_rows(rows, file)]
    if not found:
        raise BadInput(f"{file} has no entries yet: its curator is starting, or was stopped while it did")
    return found


def _about(state: Path) -> tuple[dict[str, Any], str]:
    file = state / OWNERS
    try:
        written = json.loads(file.read_bytes())
    except FileNotFoundError:
        return (
            {},
            f"there is no {OWNERS}: the curator that worked here is of an earlier version; start it once with this one",
        )
    except (OSError, ValueError):
        return {}, f"{OWNERS} cannot be read: it was cut off or edited; the curator writes it anew when it is started"
    if not isinstance(written, dict) or written.get("version") != VERSION:
        return {}, f"{OWNERS} is of another version: look with the version that the curator has"
    return written, ""


def _budget(about: Mapping[str, Any]) -> Budget | None:
    if not about or about["epsilon"] is None:
        return None
    return _opened(float(about["epsilon"]), float(about["delta"]), json.dumps(about["planned"]))


@lru_cache(maxsize=4)
def _opened(epsilon: float, delta: float, planned: str) -> Budget:
    return open_budget(epsilon, delta, [parse_event(wire) for wire, count in json.loads(planned) for _ in range(count)])


def _charges(
    entries: list[tuple[str, dict[str, Any]]], budget: Budget | None, times: Mapping[str, float]
) -> list[Charged]:
    done = {str(body["operation_id"]) for kind, body in entries if kind == RESULT}
    found, total = [], 0.0
    for kind, body in entries:
        if kind != CHARGE:
            continue
        event, number = parse_event(body["event"]), str(body["request"]["message"]["operation_id"])
        free = isinstance(event, NoEvent)
        amount = 0.0 if free else None if budget is None else budget.amount(event)
        total += math.nan if amount is None else amount
        asks = str(body["operation"]["kind"])
        summed = None if math.isnan(total) else total
        found.append(Charged(number, asks, event, times.get(number), amount, summed, number in done))
    return found
