"""Starts the page's server on a loopback address, with a fresh key."""

from __future__ import annotations

import secrets
from pathlib import Path

from common.core.errors import BadInput
from common.service.app import listen, serve
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tandem.ui.guard import Rules

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
    with listen("127.0.0.1" if host == "localhost" else host, port) as listener:
        place, taken = listener.getsockname()[:2]
        rules = Rules(secrets.token_urlsafe(24), taken)
        app = ui_app(RunFolders(runs), rules)
        shown = f"[{place}]" if ":" in place else place
        print(f"open http://{shown}:{taken}/?key={rules.key}", flush=True)  # noqa: T201 - what the user came for
        serve(app, listener, "ui")
