"""Starts the page's server on a loopback address, with a fresh key."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from pathlib import Path

from common.core.errors import BadInput
from common.service.app import listen, server
from common.service.connections import Limits, raise_descriptors
from deploy.remote import operating
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tandem.ui.guard import Rules
from tandem.ui.watching import RefereeWatch

TIMEOUT = 5.0
"""Seconds that a page waits for the referee."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve_ui(runs: Path, referee: str, token: str, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; prints the address to open.

    Raises
    ------
    BadInput
        If the address is not one of this machine alone, the port is taken, or a referee is named without a token.
    """
    if host not in LOOPBACK:
        raise BadInput(
            f"the page is for this machine alone: --host must be 127.0.0.1 or ::1, found {host!r}; from another "
            f"machine take a tunnel, for example ssh -L {port}:127.0.0.1:{port}"
        )
    if referee and not token:
        raise BadInput("--referee needs the operator's token: set TANDEM_OPERATOR_TOKEN in the environment")
    with ExitStack() as open_until_the_end:
        listener = open_until_the_end.enter_context(listen("127.0.0.1" if host == "localhost" else host, port))
        place, taken = listener.getsockname()[:2]
        rules = Rules(secrets.token_urlsafe(24), taken)
        watch = None
        if referee:
            there = open_until_the_end.enter_context(operating(referee, token, patience=0.0, timeout=TIMEOUT))
            watch = RefereeWatch(there)
        app = ui_app(RunFolders(runs), rules, watch)
        shown = f"[{place}]" if ":" in place else place
        print(f"open http://{shown}:{taken}/?key={rules.key}", flush=True)  # noqa: T201 - what the user came for
        server(app, Limits(raise_descriptors())).run(sockets=[listener])
