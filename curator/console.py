"""The owner's console: a local page about a curator's state directory, private throughout, which only reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from common.core.errors import BadData, TandemError
from common.core.plain import plain
from common.log.ledger import LEDGER
from common.net.app import Service
from common.net.pages import Pages, Rules, check_loopback, page_app, serve_page, tagged
from common.privacy.events import Event, NoEvent
from curator.owner import OWNERS, Charged, Seen, look

COMMAND = "curator console"


def console_app(state: Path, rules: Rules) -> Service:
    """Return the console's service.

    Args:
        state: The curator's state directory, which is only read.
        rules: Who may ask.
    """
    pages = Pages(resources.files(__name__.rpartition(".")[0]), (("console", "/", "Console"),))
    app = page_app("Tandem curator's console", pages, rules)
    known = _Known(state)

    @app.get("/")
    def whole() -> Response:
        return HTMLResponse(pages("console.html", here="console", **known.shown()))

    @app.get("/part")
    def part(request: Request) -> Response:
        return tagged(request, pages("console_part.html", **known.shown()))

    return app


def serve_console(state: Path, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; prints the address to open.

    Raises:
        BadInput, BrokenLedger, BadData: If the directory is no curator's, or cannot be read; if the address is not one
            of this machine alone.
    """
    check_loopback(host, port)
    console(look(state))
    serve_page(lambda rules: console_app(state, rules), COMMAND, host, port)


class _Known:
    """What was read last, which is read again only where a file has changed."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._stamp: tuple[object, ...] | None = None
        self._shown: dict[str, Any] = {}

    def shown(self) -> dict[str, Any]:
        """Return what the templates show: the console, or what is wrong with the directory."""
        with self._lock:
            stamp = tuple(map(_stamp, (self._state / LEDGER, self._state / OWNERS)))
            if stamp != self._stamp:
                try:
                    view, problem, self._stamp = console(look(self._state)), "", stamp
                except TandemError as error:
                    view, problem, self._stamp = None, plain(error.detail), None
                self._shown = {"view": view, "problem": problem, "width": WIDTH, "height": HEIGHT}
            return {**self._shown, "state": str(self._state)}


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


WIDTH, HEIGHT = 640, 200
"""Of the histogram, in its own units."""


@dataclass(frozen=True)
class Line:
    """A charge in the table."""

    number: str
    when: str
    asks: str
    event: str
    amount: str
    total: str
    state: str


@dataclass(frozen=True)
class Bar:
    """A bar of the histogram: its records' mean losses, their number, and their shares of people and of weight.

    ``x``, ``width`` and the heights ``people_height`` and ``weight_height`` are in the drawing's units.
    """

    scores: str
    people: int
    people_share: str
    weight_share: str
    x: float
    width: float
    people_height: float
    weight_height: float


@dataclass(frozen=True)
class Console:
    """The page.

    Attributes:
        spent, cap, unit: Of the budget, and in what; ``cap`` is None where nothing can be said, and ``no_budget`` says
            why.
        facts: About the weights: name and value.
        clipped: By column: its public bounds, and how many rows were beyond them, unlisted, missing.
        read: How many rows were read; None where people are of no table.
    """

    title: str
    run: str
    entries: int
    closed: str
    missing: str
    guarantee: str
    lines: tuple[Line, ...]
    spent: float
    cap: float | None
    unit: str
    no_budget: str
    facts: tuple[tuple[str, str], ...]
    bars: tuple[Bar, ...]
    read: int | None
    clipped: tuple[tuple[str, str, int, int, int], ...]


def console(seen: Seen) -> Console:
    """Return what is shown of a state directory.

    Raises:
        BadData: If the owner's file does not hold what it must.
    """
    try:
        return _console(seen)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise BadData(f"the owner's file cannot be shown ({error!r}): edited, or of another version") from None


def _console(seen: Seen) -> Console:
    about, budget = seen.about, seen.budget
    private = bool(about) and about["epsilon"] is not None
    weights, read = about.get("weights"), about.get("read")
    total = 0.0 if not seen.charges else seen.charges[-1].total
    return Console(
        title=str(about.get("scenario", "a curator")),
        run=seen.run,
        entries=seen.entries,
        closed=seen.closed,
        missing=seen.missing,
        guarantee=f"epsilon = {about['epsilon']:g}, delta = {about['delta']:g}" if private else "",
        lines=tuple(map(_line, seen.charges)),
        spent=0.0 if total is None else total,
        cap=None if budget is None or total is None else budget.cap,
        unit="" if budget is None else budget.unit,
        no_budget="" if budget is not None else seen.missing or "this curator runs without privacy: nothing is counted",
        facts=() if weights is None else tuple(_facts(weights, int(about["people"]))),
        bars=() if weights is None else _bars(weights["bins"]),
        read=None if read is None else int(read["rows"]),
        clipped=() if read is None else tuple(_clipped(read, about["bounds"])),
    )


def _line(charge: Charged) -> Line:
    return Line(
        number=charge.operation,
        when="not kept" if charge.when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(charge.when)),
        asks=charge.asks,
        event=event_in_words(charge.event),
        amount="not known" if charge.amount is None else f"{charge.amount:.6g}",
        total="not known" if charge.total is None else f"{charge.total:.6g}",
        state="released" if charge.done else "charged, not finished",
    )


def event_in_words(event: Event) -> str:
    """Return an event with its numbers."""
    if isinstance(event, NoEvent):
        return "nothing of the sample"
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


def _bars(bins: list[list[float]]) -> tuple[Bar, ...]:
    everybody = sum(count for _, _, count, _ in bins)
    tallest = max(max(count / everybody, share) for _, _, count, share in bins)
    step = WIDTH / len(bins)
    return tuple(
        Bar(
            scores=f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}",
            people=int(count),
            people_share=f"{count / everybody:.2%}",
            weight_share=f"{share:.2%}",
            x=round(place * step, 2),
            width=round(step / 2, 2),
            people_height=round(HEIGHT * count / everybody / tallest, 2),
            weight_height=round(HEIGHT * share / tallest, 2),
        )
        for place, (low, high, count, share) in enumerate(bins)
    )


def _clipped(read: Mapping[str, Any], bounds: Mapping[str, Any]) -> list[tuple[str, str, int, int, int]]:
    kinds = [read[kind] for kind in ("clipped", "unlisted", "missing")]
    columns = dict.fromkeys([*bounds, *(column for counts in kinds for column in counts)])
    found = []
    for column in columns:
        words = f"{bounds[column][0]:g} to {bounds[column][1]:g}" if column in bounds else "listed values"
        clipped, unlisted, missing = (int(counts.get(column, 0)) for counts in kinds)
        found.append((column, words, clipped, unlisted, missing))
    return found
