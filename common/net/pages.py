"""A web server for this machine alone: the common parts of its pages, and the checks on each request."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Path as PathParameter
from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.core.errors import BadInput, NotFound, TandemError
from common.core.terminal import say
from common.net.app import Service, answer_errors
from common.net.connection import Limits
from common.net.rendering import SHARED, page_environment
from common.net.server import Server, listen, raise_descriptors
from common.net.tls import bare_host, host_port
from common.net.tokens import same

KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_SHARED = ("face.css", "ui.css", "ui.js")


class Pages:
    """The pages of one server, from a package with a folder ``templates``, and perhaps ``static`` files.

    ``nav`` lists the links to its pages (key, address, text); ``around`` makes the shared templates and filters.
    """

    def __init__(
        self,
        package: str,
        nav: tuple[tuple[str, str, str], ...],
        *,
        static: tuple[str, ...] = (),
        around: Callable[[], Environment] = page_environment,
    ) -> None:
        self._package, self._nav, self._base = package, nav, around
        places = {**dict.fromkeys(_SHARED, SHARED), **dict.fromkeys(static, package)}
        self.static = {name: (resources.files(owner) / "static" / name).read_bytes() for name, owner in places.items()}

    @cached_property
    def environment(self) -> Environment:
        base = self._base()
        loaders = [PackageLoader(package) for package in (self._package, SHARED)]
        environment = base.overlay(loader=ChoiceLoader([*loaders, *([base.loader] if base.loader else [])]))
        environment.globals = {**base.globals, "asset": self._asset, "nav": self._nav}
        return environment

    def __call__(self, template: str, /, **values: Any) -> str:
        return self.environment.get_template(template).render(**values)

    @cache  # noqa: B019 - one for each server of a process
    def _asset(self, name: str) -> str:
        return f"/static/{name}?v={hashlib.sha256(self.static[name]).hexdigest()[:12]}"


Name = Annotated[str, PathParameter(max_length=255)]


def page_app(title: str, pages: Pages, rules: Rules) -> Service:
    """Return a service with error pages and static files, and no other page yet."""
    app = Service(title=title, openapi_url=None, docs_url=None, redoc_url=None)
    app.edge.app = Guard(app.edge.app, rules)  # the outermost app, so that the answer to a fault has its headers, too

    def refused(error: TandemError) -> Response:
        return HTMLResponse(pages("problem.html", here="", title=error.title, detail=error.detail), error.status)

    def missing(error: HTTPException) -> Response:
        page = pages("problem.html", here="", title=str(error.detail), detail="there is no such page here")
        return HTMLResponse(page, error.status_code, error.headers)

    answer_errors(app, refused, missing)

    @app.get("/static/{name}")
    def static_file(name: Name) -> Response:
        if name not in pages.static:
            raise NotFound(f"there is no file {name!r} here")
        headers = {"Cache-Control": "private, max-age=86400, immutable"}
        return Response(pages.static[name], media_type=KINDS[name.rpartition(".")[2]], headers=headers)

    return app


def tagged(request: Request, text: str) -> Response:
    """Answer with a part of a page and an ETag, so that an unchanged part is not sent again."""
    tag = f'"{hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return HTMLResponse(text, headers={"ETag": tag})


LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_loopback(host: str, port: int) -> None:
    """Raise BadInput for an address that is not loopback, stating how to connect from another machine."""
    if bare_host(host) not in LOOPBACK:
        raise BadInput(
            f"the page is for this machine alone: --host must be 127.0.0.1 or ::1, found {host!r}; from another "
            f"machine take a tunnel, for example ssh -L {port}:127.0.0.1:{port}"
        )


def serve_page(make: Callable[[Rules], Service], command: str, host: str, port: int) -> None:
    """Print the address to open, and serve until SIGINT or SIGTERM. A refusal names the ``command`` that serves."""
    check_loopback(host, port)
    with listen("127.0.0.1" if host == "localhost" else host, port) as listener:
        address, bound_port = listener.getsockname()[:2]
        rules = Rules(secrets.token_urlsafe(24), bound_port, command)
        app = make(rules)
        say(f"open http://{host_port(address, bound_port)}/?key={rules.key}")
        Server(app, Limits(raise_descriptors())).run(listener)


HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser would send "Origin: null" with this server's forms
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers of every answer."""
NO_KEY = (
    "This page needs the key of its server.\n\nOpen the address that `{command}` printed when it was started: it ends "
    "in ?key=... If the server was started again, it has printed a new one.\n"
)
WRONG_HOST = "This server answers for {allowed} only, and was asked as another one.\n"
CROSS_SITE = "A form of another site was refused: nothing was done.\n"
_SAFE = ("GET", "HEAD")


@dataclass(frozen=True)
class Rules:
    """What a request must match: the secret ``key`` of this process, and the port that the server listens on."""

    key: str
    port: int
    command: str = "tandem ui"

    @property
    def hosts(self) -> tuple[str, ...]:
        ends = (f":{self.port}", *([""] if self.port == 80 else []))  # browsers leave out the default port
        return tuple(name + end for name in ("127.0.0.1", "localhost", "[::1]") for end in ends)

    @property
    def cookie(self) -> str:
        """The cookie's name, different for each port: cookies ignore ports, so servers would overwrite each other's."""
        return f"{self.command.replace(' ', '-')}-{self.port}"

    @property
    def form_token(self) -> str:
        """The token in each form of this server's pages; it reveals nothing about the key."""
        return hmac.digest(self.key.encode(), b"form", hashlib.sha256).hex()

    def knows(self, key: str) -> bool:
        return same(key, self.key)


class Guard:
    """An ASGI app that wraps the pages' app: refuses requests that no page of it sends, and adds :data:`HEADERS`.

    Four kinds of attack could reach a page on a loopback port, and each is refused:

    * a page elsewhere whose name was made to resolve to 127.0.0.1 (DNS rebinding): the ``Host`` header must name this
      server;
    * another user of the same machine: every request needs the key, which is in the printed address and afterwards in a
      cookie that scripts cannot read;
    * a page elsewhere that posts a form here (cross-site request forgery): the cookie is ``SameSite=Strict``,
      ``Origin`` must be this server, and each form carries a token;
    * untrusted text inside a page: a strict Content-Security-Policy lets only what this server serves run, load or
      connect.
    """

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (self._early_response(scope) or self._app)(scope, receive, guarded)

    def _early_response(self, scope: Scope) -> Response | None:
        """Return the answer to send instead of the page; None if the request may pass."""
        request = Request(scope)
        host = request.headers.get("host", "")
        if host not in self._rules.hosts:
            return PlainTextResponse(WRONG_HOST.format(allowed=", ".join(self._rules.hosts)), 421)
        if scope["method"] in _SAFE and self._rules.knows(request.query_params.get("key", "")):
            query = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "key"])
            place = "/" + scope["path"].lstrip("/\\")  # never //elsewhere
            response = RedirectResponse(place + (f"?{query}" if query else ""), 303)
            response.set_cookie(self._rules.cookie, self._rules.key, httponly=True, samesite="strict", path="/")
            return response
        if not self._rules.knows(request.cookies.get(self._rules.cookie, "")):
            return PlainTextResponse(NO_KEY.format(command=self._rules.command), 403)
        if scope["method"] not in _SAFE and request.headers.get("origin") != f"http://{host}":
            return PlainTextResponse(CROSS_SITE, 403)
        return None
