"""Templates and static files of pages, with autoescaping: the frame that all share, and those of each page."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path as PathParameter
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from jinja2 import BaseLoader, ChoiceLoader, Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException

from common.core.errors import BadInput, BadMessage, NotFound, TandemError
from common.core.plain import command, plain
from common.core.terminal import say
from common.net.addresses import bare, written
from common.net.app import Service
from common.net.connection import Limits
from common.net.edge import fault
from common.net.page.guard import Guard, Rules
from common.net.server import Server, listen, raise_descriptors

KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_FILES = resources.files(__name__.rpartition(".")[0])
_SHARED = ("face.css", "ui.css", "ui.js")


def style() -> str:
    """Return the style sheet that all pages share."""
    return (_FILES / "static" / "face.css").read_text("utf-8")


def page_environment(loader: BaseLoader) -> Environment:
    """Return templates with autoescaping on for all of them, and every text in visible characters of one line.

    ``command(word, ...)`` in a template is a command as a shell reads it back (:func:`common.core.plain.command`).
    """
    made = Environment(
        loader=loader, autoescape=True, finalize=_shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals["command"] = _command
    # Jinja's own raises an error for what is no UTF-8, as a folder's name or a peer's text may be.
    made.filters["urlencode"] = lambda text: quote(text, errors="replace")
    made.filters["count"] = lambda value: f"{value:,}"
    return made


class Pages:
    """The pages of one server.

    Args:
        files: The package of its own: a folder ``templates``, and perhaps one of ``static`` files.
        static: Names of its own static files.
        nav: What leads to its pages: key, address, words.
        around: Templates and filters that it shares with others; by default those of :func:`page_environment`.
    """

    def __init__(
        self,
        files: Traversable,
        nav: tuple[tuple[str, str, str], ...],
        *,
        static: tuple[str, ...] = (),
        around: Callable[[], Environment] = lambda: page_environment(FunctionLoader(lambda name: None)),
    ) -> None:
        self._files = files
        self._nav = nav
        self._around = around
        shared = {name: (_FILES / "static" / name).read_bytes() for name in _SHARED}
        self.static = {**shared, **{name: (files / "static" / name).read_bytes() for name in static}}
        self._made: Environment | None = None

    @property
    def environment(self) -> Environment:
        """The templates: its own, the shared frame, and those around them."""
        if self._made is None:
            outer = self._around()
            loaders = [FunctionLoader(_reader(place)) for place in (self._files, _FILES)]
            self._made = outer.overlay(loader=ChoiceLoader([*loaders, *([outer.loader] if outer.loader else [])]))
            self._made.globals = {**outer.globals, "asset": self._asset, "nav": self._nav}
        return self._made

    def __call__(self, template: str, /, **values: Any) -> str:
        """Return a page, or a part of one."""
        return self.environment.get_template(template).render(**values)

    @cache  # noqa: B019 - one for each server of a process
    def _asset(self, name: str) -> str:
        return f"/static/{name}?v={hashlib.sha256(self.static[name]).hexdigest()[:12]}"


def _reader(files: Traversable) -> Callable[[str], str | None]:
    def read(name: str) -> str | None:
        found = files / "templates" / name
        return found.read_text("utf-8") if found.is_file() else None

    return read


def _command(*words: str | Path) -> Markup:
    return Markup(escape(command(*words)))  # noqa: S704 - escaped in this line


def _shown(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


Name = Annotated[str, PathParameter(max_length=255)]


def page_app(title: str, pages: Pages, rules: Rules) -> Service:
    """Return a service that has no page yet."""
    app = Service(title=title, openapi_url=None, docs_url=None, redoc_url=None)
    app.edge.app = Guard(app.edge.app, rules)  # outside of everything, so that a fault's answer has its headers, too
    _failures(app, pages)

    @app.get("/static/{name}")
    def static_file(name: Name) -> Response:
        if name not in pages.static:
            raise NotFound(f"there is no file {name!r} here")
        kept = {"Cache-Control": "private, max-age=86400, immutable"}
        return Response(pages.static[name], media_type=KINDS[name.rpartition(".")[2]], headers=kept)

    return app


def _failures(app: Service, pages: Pages) -> None:
    """Show every error as a page that says what happened."""

    def shown(error: TandemError) -> Response:
        return HTMLResponse(pages("problem.html", here="", title=error.title, detail=error.detail), error.status)

    @app.exception_handler(TandemError)
    async def refused(request: Request, error: TandemError) -> Response:
        return shown(error)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return shown(BadMessage(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        page = pages("problem.html", here="", title=str(error.detail), detail="there is no such page here")
        return HTMLResponse(page, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return shown(fault(request.method, request.url.path, error))


def tagged(request: Request, text: str) -> Response:
    """Answer with a part of a page, under a tag: what has not changed is not sent again."""
    tag = f'"{hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return HTMLResponse(text, headers={"ETag": tag})


LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_loopback(host: str, port: int) -> None:
    """Refuse an address that is not one of this machine alone.

    Raises:
        BadInput: Saying how to reach the page from another machine.
    """
    if bare(host) not in LOOPBACK:
        raise BadInput(
            f"the page is for this machine alone: --host must be 127.0.0.1 or ::1, found {host!r}; from another "
            f"machine take a tunnel, for example ssh -L {port}:127.0.0.1:{port}"
        )


def serve_page(make: Callable[[Rules], Service], command: str, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; prints the address to open.

    Args:
        make: Returns the page's service.
        command: The command that serves it, which a refusal names.
        host, port: Address of this machine; port 0 takes any free one.

    Raises:
        BadInput: If the address is not one of this machine alone, or the port is taken.
    """
    check_loopback(host, port)
    with listen("127.0.0.1" if host == "localhost" else host, port) as listener:
        place, taken = listener.getsockname()[:2]
        rules = Rules(secrets.token_urlsafe(24), taken, command)
        app = make(rules)
        say(f"open http://{written(place, taken)}/?key={rules.key}")
        Server(app, Limits(raise_descriptors())).run(listener)
