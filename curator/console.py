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
    known: dict[str, Any] = {"stamp": None}  # the last reading, repeated only if a file has changed

    def shown() -> dict[str, Any]:
        stamp = [_stamp(state / name) for name in (LEDGER, OWNERS, TIMES)]
        with lock:
            if known["stamp"] != stamp:
                try:
                    known.update(stamp=stamp, view=console(look(state)), problem="")
                except TandemError as error:
                    known.update(stamp=None, view=None, problem=plain(error.detail))
            return {**known, "state": str(state), "width": WIDTH, "height": HEIGHT}

    @app.get("/")
    def whole() -> Response:
        return HTMLResponse(pages("console.html", here="console", **shown()))

    @app.get("/part")
    def part(request: Request) -> Response:
        return tagged(request, pages("console_part.html", **shown()))

    return app


def serve_console(state: Path, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM, on a loopback address only (else BadInput), and print the address to open."""
    check_loopback(host, port)
    console(look(state))
    serve_page(lambda rules: console_app(state, rules), COMMAND, host, port)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


WIDTH, HEIGHT = 640, 200  # size of the histogram, in its own units


@dataclass(frozen=True)
class Charged:
    """One charge."""

    operation: str
    asks: str
    event: Event
    when: float | None
    amount: float | None
    total: float | None
    done: bool


@dataclass(frozen=True)
class Seen:
    """The data that the console shows."""

    entries: int
    run: str
    closed: str
    charges: tuple[Charged, ...]
    budget: Budget | None
    about: Mapping[str, Any]
    missing: str


def look(state: Path) -> Seen:
    """Read a state directory.

    Raises:
        BadInput: If it is no curator's state directory, or its ledger is still empty.
        BrokenLedger: If the ledger cannot be read, or an entry does not follow from the one before it.
        BadData: If the owner's file is invalid.
    """
    entries = _entries(state)
    about, missing = _about(state)
    try:
        budget = None
        if about and about["epsilon"] is not None:
            budget = _opened(float(about["epsilon"]), float(about["delta"]), json.dumps(about["planned"]))
        charges = tuple(_charges(entries, budget, operation_times(state)))
        run = next((str(body["run"]) for kind, body in entries if kind == OPEN), "")
        closed = next((str(body["why"]) for kind, body in entries if kind == CLOSED), "")
        return Seen(len(entries), run, closed, charges, budget, about, missing)
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
    found = [(entry.kind, entry.body) for entry, _ in verified(lines, file)]
    if not found:
        raise BadInput(f"{file} has no entries yet: its curator is starting, or was stopped while it did")
    return found


def _about(state: Path) -> tuple[dict[str, Any], str]:
    file = state / OWNERS
    try:
        written = json.loads(file.read_bytes())
    except FileNotFoundError:
        why = "the curator that worked here is of an earlier version; start it once with this one"
        return {}, f"there is no {OWNERS}: {why}"
    except (OSError, ValueError, RecursionError):
        return {}, f"{OWNERS} cannot be read: it was cut off or edited; the curator writes it anew when it is started"
    if not isinstance(written, dict) or written.get("version") != VERSION:
        return {}, f"{OWNERS} is of another version: look with the version that the curator has"
    return written, ""


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


def console(seen: Seen) -> dict[str, Any]:
    """Return the values that the page shows, by their names in the templates.

    Raises:
        BadData: If the owner's file is invalid.
    """
    try:
        about, budget = seen.about, seen.budget
        private = bool(about) and about["epsilon"] is not None
        weights, read = about.get("weights"), about.get("read")
        total = 0.0 if not seen.charges else seen.charges[-1].total
        return {
            "title": str(about.get("scenario", "a curator")),
            "run": seen.run,
            "entries": seen.entries,
            "closed": seen.closed,
            "missing": seen.missing,
            "guarantee": f"epsilon = {stated(about['epsilon'])}, delta = {stated(about['delta'])}" if private else "",
            "lines": list(map(_line, seen.charges)),
            "spent": 0.0 if total is None else total,
            "cap": None if budget is None or total is None else budget.cap,
            "unit": "" if budget is None else budget.unit,
            "no_budget": seen.missing or "this curator runs without privacy: nothing is counted",
            "facts": () if weights is None else _facts(weights, int(about["people"])),
            "bars": () if weights is None else _bars(weights["bins"]),
            "read": None if read is None else int(read["rows"]),
            "clipped": () if read is None else _clipped(read, about["bounds"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise BadData(f"the owner's file cannot be shown ({error!r}): edited, or of another version") from None


def _line(charge: Charged) -> dict[str, str]:
    return {
        "number": charge.operation,
        "when": "not kept" if charge.when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(charge.when)),
        "asks": charge.asks,
        "event": _event_in_words(charge.event),
        "amount": "not known" if charge.amount is None else f"{charge.amount:.6g}",
        "total": "not known" if charge.total is None else f"{charge.total:.6g}",
        "state": "released" if charge.done else "charged, not finished",
    }


def _event_in_words(event: Event) -> str:
    if isinstance(event, NoEvent):
        return "nothing of the sample"
    if isinstance(event, Composed):
        return " and ".join(map(_event_in_words, event.parts))
    given = {name: value for name, value in event.wire().items() if name != "kind"}
    numbers = [f"{name} {value:.6g}" for name, value in given.items() if isinstance(value, int | float)]
    return ", ".join([event.kind, *numbers])


def _facts(weights: Mapping[str, Any], people: int) -> list[tuple[str, str]]:
    cap = weights["cap"]
    found = [
        ("reweighs", f"{int(weights['updates']):,}, with eta = {weights['eta']:g}"),
        ("mean loss of a record over them", f"{weights['mean_score']:.4f}"),
        ("heaviest record", f"{weights['largest']:.4g} times the mean weight"),
        ("density", f"{weights['density']:.4f}: the weight would lie on {weights['density'] * people:,.0f} records"),
    ]
    if cap is not None:
        words = f"{cap:.4g} times the mean weight (kappa = {weights['kappa']:g})"
        found += [("cap", words), ("records at the cap", f"{int(weights['at_cap']):,} of {people:,}")]
    return found


def _bars(bins: list[list[float]]) -> list[dict[str, Any]]:
    everybody = sum(count for _, _, count, _ in bins)
    tallest = max(max(count / everybody, share) for _, _, count, share in bins)
    step = WIDTH / len(bins)
    return [
        {
            "scores": f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}",
            "people": int(count),
            "people_share": f"{count / everybody:.2%}",
            "weight_share": f"{share:.2%}",
            "x": round(place * step, 2),
            "width": round(step / 2, 2),
            "people_height": round(HEIGHT * count / everybody / tallest, 2),
            "weight_height": round(HEIGHT * share / tallest, 2),
        }
        for place, (low, high, count, share) in enumerate(bins)
    ]


def _clipped(read: Mapping[str, Any], bounds: Mapping[str, Any]) -> list[tuple[str, str, int, int, int]]:
    kinds = [read[kind] for kind in ("clipped", "unlisted", "missing")]
    columns = dict.fromkeys([*bounds, *(column for counts in kinds for column in counts)])
    found = []
    for column in columns:
        words = f"{bounds[column][0]:g} to {bounds[column][1]:g}" if column in bounds else "listed values"
        clipped, unlisted, missing = (int(counts.get(column, 0)) for counts in kinds)
        found.append((column, words, clipped, unlisted, missing))
    return found
