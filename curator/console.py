"""The owner's console: a local, entirely private page about a curator's state directory, which it only reads."""

import json
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from common.core.errors import BadData, BadInput, BadMessage, TandemError
from common.core.folder import read_own
from common.core.plain import plain
from common.log.ledger import CLOSED, LEDGER, stored_lines, verified
from common.net.app import Service
from common.net.pages import Pages, Rules, check_loopback, page_app, serve_page, tagged
from common.privacy.budget import Budget, open_budget
from common.privacy.events import Composed, Event, NoEvent, parse_event
from common.privacy.rounding import stated
from curator.ledger import CHARGE, OPEN, RESULT
from curator.state import OWNERS, TIMES, VERSION, operation_times

COMMAND = "curator console"


def console_app(state: Path, rules: Rules) -> Service:
    """Return the console's service."""
    pages = Pages(__name__.rpartition(".")[0], (("console", "/", "Console"),))
    app = page_app("Tandem curator's console", pages, rules)
    lock = threading.Lock()
    cache: dict[str, Any] = {"stamp": None}  # the last reading, repeated only if a file has changed

    def values() -> dict[str, Any]:
        stamp = [_stamp(state / name) for name in (LEDGER, OWNERS, TIMES)]
        with lock:
            if cache["stamp"] != stamp:
                try:
                    cache.update(stamp=stamp, view=page_values(read_state(state)), problem="")
                except TandemError as error:
                    cache.update(stamp=None, view=None, problem=plain(error.detail))
            return {**cache, "state": str(state), "width": WIDTH, "height": HEIGHT}

    @app.get("/")
    def page() -> Response:
        return HTMLResponse(pages("console.html", here="console", **values()))

    @app.get("/part")
    def part(request: Request) -> Response:
        return tagged(request, pages("console_part.html", **values()))

    return app


def serve_console(state: Path, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM, on a loopback address only (else BadInput), and print the address to open."""
    check_loopback(host, port)
    page_values(read_state(state))
    serve_page(lambda rules: console_app(state, rules), COMMAND, host, port)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size


WIDTH, HEIGHT = 640, 200  # size of the histogram, in its own units


@dataclass(frozen=True)
class ListedCharge:
    """One charge."""

    operation: str
    kind: str
    event: Event
    when: float | None
    amount: float | None
    total: float | None
    released: bool


@dataclass(frozen=True)
class ConsoleData:
    """The data that the console shows."""

    entries: int
    run: str
    closed: str
    charges: tuple[ListedCharge, ...]
    budget: Budget | None
    owner: Mapping[str, Any]
    missing: str


def read_state(state: Path) -> ConsoleData:
    """Read a state directory.

    Raises:
        BadInput: If it is no curator's state directory, or its ledger is still empty.
        BrokenLedger: If the ledger cannot be read, or an entry does not follow from the one before it.
        BadData: If the owner's file is invalid.
    """
    entries = _entries(state)
    owner, missing = _read_owners_file(state)
    try:
        budget = None
        if owner and owner["epsilon"] is not None:
            budget = _cached_budget(float(owner["epsilon"]), float(owner["delta"]), json.dumps(owner["planned"]))
        charges = tuple(_charges(entries, budget, operation_times(state)))
        run = next((str(body["run"]) for kind, body in entries if kind == OPEN), "")
        closed = next((str(body["why"]) for kind, body in entries if kind == CLOSED), "")
        return ConsoleData(len(entries), run, closed, charges, budget, owner, missing)
    except (KeyError, TypeError, ValueError, AttributeError, BadMessage) as error:
        raise BadData(f"{state} cannot be shown ({error!r}): it was edited, or written by another version") from None


def _entries(state: Path) -> list[tuple[str, dict[str, Any]]]:
    file = state / LEDGER
    if not state.is_dir():
        raise BadInput(f"there is no directory {state}: give the one that the curator was started with (--state)")
    lines = stored_lines(file)
    if not file.is_file():
        raise BadInput(
            f"{state} is not a curator's state directory, or its curator has not started yet: it has no {LEDGER}"
        )
    entries = [(entry.kind, entry.body) for entry, _ in verified(lines, file)]
    if not entries:
        raise BadInput(f"{file} has no entries yet: its curator is starting, or was stopped while it did")
    return entries


def _read_owners_file(state: Path) -> tuple[dict[str, Any], str]:
    file = state / OWNERS
    try:
        content = json.loads(read_own(file))
    except FileNotFoundError:
        why = "the curator that worked here is of an earlier version; start it once with this one"
        return {}, f"there is no {OWNERS}: {why}"
    except (OSError, ValueError, RecursionError):
        return {}, f"{OWNERS} cannot be read: it was cut off or edited; the curator writes it anew when it is started"
    if not isinstance(content, dict) or content.get("version") != VERSION:
        return {}, f"{OWNERS} is of another version: look with the version that the curator has"
    return content, ""


@lru_cache(maxsize=4)
def _cached_budget(epsilon: float, delta: float, planned: str) -> Budget:
    return open_budget(epsilon, delta, [parse_event(wire) for wire, count in json.loads(planned) for _ in range(count)])


def _charges(
    entries: list[tuple[str, dict[str, Any]]], budget: Budget | None, times: Mapping[str, float]
) -> list[ListedCharge]:
    finished = {str(body["operation_id"]) for kind, body in entries if kind == RESULT}
    charges, total = [], 0.0
    for kind, body in entries:
        if kind != CHARGE:
            continue
        event, number = parse_event(body["event"]), str(body["request"]["message"]["operation_id"])
        free = isinstance(event, NoEvent)
        amount = 0.0 if free else None if budget is None else budget.amount(event)
        total += math.nan if amount is None else amount
        operation = str(body["operation"]["kind"])
        summed = None if math.isnan(total) else total
        charges.append(ListedCharge(number, operation, event, times.get(number), amount, summed, number in finished))
    return charges


def page_values(data: ConsoleData) -> dict[str, Any]:
    """Return the values that the page shows, by their names in the templates.

    Raises:
        BadData: If the owner's file is invalid.
    """
    try:
        owner, budget = data.owner, data.budget
        private = bool(owner) and owner["epsilon"] is not None
        weights, reading = owner.get("weights"), owner.get("read")
        total = 0.0 if not data.charges else data.charges[-1].total
        return {
            "title": str(owner.get("scenario", "a curator")),
            "run": data.run,
            "entries": data.entries,
            "closed": data.closed,
            "missing": data.missing,
            "guarantee": f"epsilon = {stated(owner['epsilon'])}, delta = {stated(owner['delta'])}" if private else "",
            "lines": list(map(_line, data.charges)),
            "spent": 0.0 if total is None else total,
            "cap": None if budget is None or total is None else budget.cap,
            "unit": "" if budget is None else budget.unit,
            "no_budget": data.missing or "this curator runs without privacy: nothing is counted",
            "facts": () if weights is None else _facts(weights, int(owner["people"])),
            "bars": () if weights is None else _bars(weights["bins"]),
            "read": None if reading is None else int(reading["rows"]),
            "clipped": () if reading is None else _clipped(reading, owner["bounds"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise BadData(f"the owner's file cannot be shown ({error!r}): edited, or of another version") from None


def _line(charge: ListedCharge) -> dict[str, str]:
    return {
        "number": charge.operation,
        "when": "not kept" if charge.when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(charge.when)),
        "asks": charge.kind,
        "event": _event_text(charge.event),
        "amount": "not known" if charge.amount is None else f"{charge.amount:.6g}",
        "total": "not known" if charge.total is None else f"{charge.total:.6g}",
        "state": "released" if charge.released else "charged, not finished",
    }


def _event_text(event: Event) -> str:
    if isinstance(event, NoEvent):
        return "nothing of the sample"
    if isinstance(event, Composed):
        return " and ".join(map(_event_text, event.parts))
    fields = {name: value for name, value in event.wire().items() if name != "kind"}
    numbers = [f"{name} {value:.6g}" for name, value in fields.items() if isinstance(value, int | float)]
    return ", ".join([event.kind, *numbers])


def _facts(weights: Mapping[str, Any], people: int) -> list[tuple[str, str]]:
    cap = weights["cap"]
    facts = [
        ("reweighs", f"{int(weights['updates']):,}, with eta = {weights['eta']:g}"),
        ("mean loss of a record over them", f"{weights['mean_score']:.4f}"),
        ("heaviest record", f"{weights['largest']:.4g} times the mean weight"),
        ("density", f"{weights['density']:.4f}: the weight would lie on {weights['density'] * people:,.0f} records"),
    ]
    if cap is not None:
        words = f"{cap:.4g} times the mean weight (kappa = {weights['kappa']:g})"
        facts += [("cap", words), ("records at the cap", f"{int(weights['at_cap']):,} of {people:,}")]
    return facts


def _bars(bins: list[list[float]]) -> list[dict[str, Any]]:
    total = sum(count for _, _, count, _ in bins)
    tallest = max(max(count / total, share) for _, _, count, share in bins)
    step = WIDTH / len(bins)
    return [
        {
            "scores": f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}",
            "people": int(count),
            "people_share": f"{count / total:.2%}",
            "weight_share": f"{share:.2%}",
            "x": round(index * step, 2),
            "width": round(step / 2, 2),
            "people_height": round(HEIGHT * count / total / tallest, 2),
            "weight_height": round(HEIGHT * share / tallest, 2),
        }
        for index, (low, high, count, share) in enumerate(bins)
    ]


def _clipped(reading: Mapping[str, Any], bounds: Mapping[str, Any]) -> list[tuple[str, str, int, int, int]]:
    kinds = [reading[kind] for kind in ("clipped", "unlisted", "missing")]
    columns = dict.fromkeys([*bounds, *(column for counts in kinds for column in counts)])
    rows = []
    for column in columns:
        words = f"{bounds[column][0]:g} to {bounds[column][1]:g}" if column in bounds else "listed values"
        clipped, unlisted, missing = (int(counts.get(column, 0)) for counts in kinds)
        rows.append((column, words, clipped, unlisted, missing))
    return rows
