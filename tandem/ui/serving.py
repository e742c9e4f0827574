"""Starts the page's server, with a connection to the referee where one is named."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from common.core.errors import BadInput
from common.net.app import Service
from common.net.page.guard import Rules
from common.net.page.pages import check_loopback, serve_page
from deploy.remote import operating
from tandem.ui.app import ui_app
from tandem.ui.views.folders import RunFolders
from tandem.ui.views.watching import RefereeWatch

TIMEOUT = 5.0
"""Seconds that a page waits for the referee."""


def serve_ui(runs: Path, referee: str, token: str, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; prints the address to open.

    Raises
    ------
    BadInput
        If the address is not one of this machine alone, the port is taken, or a referee is named without a token.
    """
    check_loopback(host, port)
    if referee and not token:
        raise BadInput("--referee needs the operator's token: set TANDEM_OPERATOR_TOKEN in the environment")
    with ExitStack() as open_until_the_end:
        watch = None
        if referee:
            there = open_until_the_end.enter_context(operating(referee, token, patience=0.0, timeout=TIMEOUT))
            watch = RefereeWatch(there)

        def made(rules: Rules) -> Service:
            return ui_app(RunFolders(runs), rules, watch)

        serve_page(made, "tandem ui", host, port)
