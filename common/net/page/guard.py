"""Who may ask the local page for something: a browser of this machine that was given the key, and only by its own page.

Four things could reach a page on a loopback port that are none of its user's intentions, and each is refused:

* a page elsewhere whose name was made to resolve to 127.0.0.1 (DNS rebinding): the ``Host`` header must name this
  server;
* another user of the same machine: every request needs the key, which the printed address holds and which then lives
  in a cookie that scripts cannot read;
* a page elsewhere that posts a form here (cross-site request forgery): the cookie is ``SameSite=Strict``, ``Origin``
  must be this server, and each form carries a token;
* text of a stranger inside a page: a strict Content-Security-Policy lets nothing run, load or connect but what this
  server serves.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.net.app import same

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any referrer a browser would send "Origin: null" with our own forms
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Of every answer."""
NO_KEY = (
    "This page needs the key of its server.\n\nOpen the address that `{command}` printed when it was started: it ends "
    "in ?key=... If the server was started again, it has printed a new one.\n"
)
WRONG_HOST = "This server answers for {allowed} only, and was asked as another one.\n"
CROSS_SITE = "A form of another site was refused: nothing was done.\n"
_SAFE = ("GET", "HEAD")


@dataclass(frozen=True)
class Rules:
    """What a request must show.

    Attributes:
        key: The secret of this process.
        port: Port that the server listens on.
        command: The command that serves the page.
    """

    key: str
    port: int
    command: str = "tandem ui"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that this server answers to."""
        return tuple(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    @property
    def cookie(self) -> str:
        """The cookie's name; cookies know no ports, so that two servers would overwrite each other's."""
        return f"{self.command.replace(' ', '-')}-{self.port}"

    @property
    def form_token(self) -> str:
        """What a form of our own pages carries; it tells nothing about the key."""
        return hmac.digest(self.key.encode(), b"form", hashlib.sha256).hex()

    def knows(self, key: str) -> bool:
        """Tell whether somebody has the key."""
        return same(key.encode("utf-8", "backslashreplace").decode(), self.key)


class Guard:
    """An ASGI app before the page's own: refuses what no page of ours would send, and adds :data:`HEADERS`."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
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

        await (self._instead(scope) or self._app)(scope, receive, guarded)

    def _instead(self, scope: Scope) -> Response | None:
        """Return what is answered instead of the page; None where the request may pass."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if host not in self._rules.hosts:
            return PlainTextResponse(WRONG_HOST.format(allowed=", ".join(self._rules.hosts)), 421)
        asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] in _SAFE and self._rules.knows(asked.pop("key", [""])[-1]):
            return self._remembered(scope["path"], urlencode(asked, doseq=True))
        if not self._rules.knows(_cookie(headers.get("cookie", ""), self._rules.cookie)):
            return PlainTextResponse(NO_KEY.format(command=self._rules.command), 403)
        if scope["method"] not in _SAFE and headers.get("origin") != f"http://{host}":
            return PlainTextResponse(CROSS_SITE, 403)
        return None

    def _remembered(self, path: str, query: str) -> Response:
        place = "/" + path.lstrip("/\\")  # never //elsewhere
        response = RedirectResponse(place + (f"?{query}" if query else ""), 303)
        response.set_cookie(self._rules.cookie, self._rules.key, httponly=True, samesite="strict", path="/")
        return response


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value
