"""The local page over HTTP, and its server, with a connection to a referee where one is named."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from common.core.errors import BadInput
from common.net.app import Service
from common.net.pages import Rules, check_loopback, page_app, serve_page
from deploy.remote import operating
from tandem.ui.folders import RunFolders, add_histories, add_transcripts
from tandem.ui.lists import add_lists
from tandem.ui.live import RefereeWatch, add_live, standing
from tandem.ui.own import OwnRuns
from tandem.ui.pages import pages
from tandem.ui.planning import Planner, add_plans
from tandem.ui.starting import add_own


def ui_app(
    folders: RunFolders, rules: Rules, referee: RefereeWatch | None = None, own: OwnRuns | None = None
) -> Service:
    """Return the page's service: run folders, new runs (``own``), and those of a running referee if there is one."""
    app = page_app("Tandem", pages(), rules)

    new = own or OwnRuns(folders.root)
    add_lists(app, folders, new, lambda: {} if referee is None else standing(referee))
    add_plans(app, Planner())
    add_transcripts(app, folders, rules)
    add_histories(app, folders, rules)
    add_own(app, new, folders, rules)
    if referee is not None:
        add_live(app, referee, rules)
    return app


TIMEOUT = 5.0  # seconds that a page waits for the referee


def serve_ui(runs: Path, referee: str, token: str, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; prints the address to open.

    BadInput if the address is not this machine's alone, or is taken, or a referee is named without a token.
    """
    check_loopback(host, port)
    if referee and not token:
        raise BadInput("--referee needs the operator's token: set TANDEM_OPERATOR_TOKEN in the environment")
    with ExitStack() as open_until_the_end:
        watch = None
        if referee:
            there = open_until_the_end.enter_context(operating(referee, token, patience=0.0, timeout=TIMEOUT))
            watch = RefereeWatch(there)

        own = OwnRuns(runs)
        open_until_the_end.callback(own.close)

        def made(rules: Rules) -> Service:
            return ui_app(RunFolders(runs), rules, watch, own)

        serve_page(made, "tandem ui", host, port)
