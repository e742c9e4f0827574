"""A state directory as its owner looks at it: read only, beside a curator that runs, and without holding anything."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from common.core.errors import BadData, BadInput, BadMessage, BrokenLedger
from common.log.chain import REMEDY
from common.log.journal import CLOSED, LEDGER
from common.privacy.budget import Budget, open_budget
from common.privacy.events import Event, NoEvent, parse_event
from common.wire.primitives.chain import START, link, linked
from curator.state.ledger import CHARGE, OPEN, RESULT
from curator.state.owner import OWNERS, VERSION

PATIENCE = 2.0
"""Seconds to wait for a curator that is just writing an entry."""


@dataclass(frozen=True)
class Charged:
    """One charge.

    Attributes
    ----------
    when
        When its operation ended, seconds since 1970; None where nobody kept it.
    amount, total
        What it took of the cap, and all so far, in the budget's unit; None where there is no budget to say it.
    done
        Whether its result is in the ledger.
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

    Attributes
    ----------
    entries
        How many the ledger has; each follows from the one before it.
    run
        The run that holds the budget; empty before one does.
    closed
        Why nothing more is charged; empty if it may be.
    budget
        The budget, as the curator opened it; None without privacy, or where its owner's file is missing.
    about
        The owner's file (:mod:`curator.state.owner`); empty where there is none, or none of this version.
    missing
        Why ``about`` is empty.
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

    Raises
    ------
    BadInput
        If it is no curator's state directory, or nothing is in its ledger yet.
    BrokenLedger
        If the ledger cannot be read, or an entry does not follow from the one before it.
    BadData
        If the owner's file does not hold what it must.
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
    found: list[tuple[str, dict[str, Any]]] = []
    before = START
    for position, kind, body, hashed in rows:
        try:
            content = json.loads(body)
            before = linked(before, link(len(found), kind, content))
            sound = position == len(found) and hashed == before
        except (ValueError, TypeError):
            sound = False
        if not sound:
            raise BrokenLedger(
                f"entry {len(found)} of {file} does not follow the one before it: it was edited. {REMEDY}"
            )
        found.append((kind, content))
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
    """Open the budget as the curator did, once: it takes an accountant."""
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
