"""Starts a page's server on a loopback address, with a fresh key."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from common.core.errors import BadInput
from common.service.addresses import bare, written
from common.service.page.guard import Rules
from common.service.terminal import say
from common.service.web.app import Service, listen, server
from common.service.web.connections import Limits, raise_descriptors

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_loopback(host: str, port: int) -> None:
    """Refuse an address that is not one of this machine alone.

    Raises
    ------
    BadInput
        Saying how to reach the page from another machine.
    """
    if bare(host) not in LOOPBACK:
        raise BadInput(
            f"the page is for this machine alone: --host must be 127.0.0.1 or ::1, found {host!r}; from another "
            f"machine take a tunnel, for example ssh -L {port}:127.0.0.1:{port}"
        )


def serve_page(make: Callable[[Rules], Service], command: str, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; prints the address to open.

    Parameters
    ----------
    make
        Returns the page's service.
    command
        The command that serves it, which a refusal names.
    host, port
        Address of this machine; port 0 takes any free one.

    Raises
    ------
    BadInput
        If the address is not one of this machine alone, or the port is taken.
    """
    check_loopback(host, port)
    with listen("127.0.0.1" if host == "localhost" else host, port) as listener:
        place, taken = listener.getsockname()[:2]
        rules = Rules(secrets.token_urlsafe(24), taken, command)
        app = make(rules)
        say(f"open http://{written(place, taken)}/?key={rules.key}")
        server(app, Limits(raise_descriptors())).run(sockets=[listener])
