"""The console over HTTP: one page, and the part of it that changes."""

from __future__ import annotations

import threading
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from common.core.errors import TandemError
from common.core.plain import plain
from common.log.ledger import LEDGER
from common.net.app import Service
from common.net.page.guard import Rules
from common.net.page.pages import Pages, check_loopback, page_app, serve_page, tagged
from curator.console.view import HEIGHT, WIDTH, console
from curator.state.owner import OWNERS, look

COMMAND = "curator console"


def console_app(state: Path, rules: Rules) -> Service:
    """Return the console's service.

    Parameters
    ----------
    state
        The curator's state directory, which is only read.
    rules
        Who may ask.
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

    Raises
    ------
    BadInput, BrokenLedger, BadData
        If the directory is no curator's, or cannot be read; if the address is not one of this machine alone.
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
