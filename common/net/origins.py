"""Pages of other origins that may read a service's answers (CORS, https://fetch.spec.whatwg.org).

A browser sends the page's origin with a request, and a preflight before most. Starlette's middleware answers both, for
the allowed origins and resources. All other requests bypass it, including those without an origin, which no page of
another origin can make.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware

from common.core.errors import BadInput
from common.core.version import HEADER
from common.net.edge import App, Receive, Scope, Send
from common.net.tls import host_port, is_loopback, read_address

MAX_AGE = 86_400  # seconds for which a browser may cache the answer to a preflight; browsers have limits, too
SENT = ("Authorization", "Content-Type", HEADER)  # headers that a page may send
READ = ("Retry-After", HEADER)  # headers that a page may read, beside those that every page may read
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PORTS = {"http": 80, "https": 443}


class AllowedOrigins:
    """An ASGI app that wraps another one, for the pages of some origins.

    Args:
        app: The app that answers the requests.
        origins: As :func:`check_origin` returns them.
        resources: Matches ``METHOD PATH`` of the requests that these pages may make.
    """

    def __init__(self, app: App, origins: Sequence[str], resources: re.Pattern[bytes]) -> None:
        self.origins = frozenset(origin.encode() for origin in origins)
        self._app = app
        self._resources = resources
        self._shared = CORSMiddleware(
            app,
            origins,
            allow_methods=("GET", "POST", "PUT"),
            allow_headers=SENT,
            expose_headers=READ,
            allow_private_network=True,  # the service may be in the user's own network; it allows origins explicitly
            max_age=MAX_AGE,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._shared if self._allows(scope) else self._app)(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return False
        headers = dict(scope["headers"])
        if headers.get(b"origin") not in self.origins:
            return False
        method = scope["method"].encode()
        if method == b"OPTIONS":
            method = headers.get(b"access-control-request-method", b"")
        return self._resources.fullmatch(method + b" " + scope["path"].encode()) is not None


def as_browsers_write(address: str) -> str:
    """Return the origin of an address as browsers write it: in ASCII, without the default port; or BadInput."""
    parts = read_address(address)
    host = parts.hostname or ""
    try:
        name = host if ":" in host else host.encode("idna").decode()
        port = parts.port if parts.port is not None else _PORTS[parts.scheme]
    except ValueError:
        raise BadInput(f"{address!r} is no origin: its port is a number from 1 to 65535") from None
    place = host_port(name, port).removesuffix(f":{_PORTS[parts.scheme]}")
    return f"{parts.scheme}://{place}"


def check_origin(origin: str) -> str:
    """Return an origin if it is written as browsers send it and its pages can sign; else BadInput with a remedy."""
    parts = read_address(origin)
    host = parts.hostname or ""
    if parts.scheme == "http" and not (host == "localhost" or is_loopback(host)):
        raise BadInput(
            f"{origin!r} is no secure origin: a browser lets pages sign on https:// or on this machine "
            "(http://localhost) alone. Serve the page with TLS"
        )
    canonical = as_browsers_write(origin)
    name = urlsplit(canonical).hostname or ""
    if not (":" in name or _NAME.fullmatch(name)):
        raise BadInput(f"{origin!r} is no single origin: name each one by itself, as https://people.example")
    if origin != canonical:
        raise BadInput(f"{origin!r} is not how a browser writes an origin: write {canonical!r}, without a path")
    return origin


def origin_of(page: str) -> str:
    """Return the origin of a page's address; BadInput if it is no valid address, or its pages cannot sign."""
    parts = read_address(page)
    return check_origin(f"{parts.scheme}://{parts.netloc}")
