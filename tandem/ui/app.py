"""The local page over HTTP: the list of run folders, the page of a run, the comparison of several, and the server."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query, Response
from fastapi.responses import HTMLResponse

from common.core.errors import BadInput, TandemError
from common.net.app import Service
from common.net.pages import Rules, check_loopback, page_app, serve_page
from deploy.remote import operating
from tandem.ui.folders import ListedRun, Name, RunFolders, add_histories, add_transcripts
from tandem.ui.live import RefereeWatch, add_live, referee_values
from tandem.ui.own import OwnRuns
from tandem.ui.pages import page, pages
from tandem.ui.planning import Planner, add_plans
from tandem.ui.starting import add_own

ANSWERS = ("yes", "probably", "cannot be told", "no")
MOST_COMPARED = 6
Text = Annotated[str, Query(max_length=200)]


def matching(runs: Sequence[ListedRun], words: str, answer: str) -> list[ListedRun]:
    """Return the runs with all words in name, scenario or text, and with this answer (any if empty)."""
    terms = words.casefold().split()
    return [
        run
        for run in runs
        if all(word in f"{run.name} {run.scenario} {run.text} {run.status}".casefold() for word in terms)
        and (not answer or (run.answer or "none") == answer)
    ]


def add_lists(app: Service, folders: RunFolders, own_runs: OwnRuns, referee_runs: Callable[[], dict[str, Any]]) -> None:
    """Add the list of runs, each run's page, and comparisons; ``referee_runs`` returns those of a referee."""

    def list_page(words: str, answer: str, problem: str = "") -> Response:
        lines = folders.listed()
        hits = matching(lines, words, answer)
        values = {"folders": hits, "count": len(lines), "root": str(folders.root), "words": words, "answer": answer}
        values |= {
            "answers": ANSWERS,
            "problem": problem,
            "under_way": own_runs.under_way,
            "begun": own_runs.begun,
            **referee_runs(),
        }
        return HTMLResponse(page("runs.html", here="runs", **values))

    @app.get("/")
    def runs(words: Text = "", answer: Text = "") -> Response:
        return list_page(words, answer)

    @app.get("/compare")
    def compare(run: Annotated[list[str], Query(max_length=255)] = []) -> Response:  # noqa: B006 - read by FastAPI
        names = list(dict.fromkeys(run))
        if not 2 <= len(names) <= MOST_COMPARED:
            return list_page("", "", f"tick two runs to compare, or up to {MOST_COMPARED}; {len(names)} are ticked")
        try:
            views = [folders.view(name) for name in names]
        except TandemError as error:
            return list_page("", "", error.detail)
        return HTMLResponse(page("compare.html", here="runs", names=names, views=views))

    @app.get("/run/{name}")
    def one(name: Name) -> Response:
        return HTMLResponse(page("run.html", here="runs", part="result", name=name, view=folders.view(name)))


def ui_app(
    folders: RunFolders, rules: Rules, referee: RefereeWatch | None = None, own_runs: OwnRuns | None = None
) -> Service:
    """Return the page's service: run folders, new runs (``own_runs``), and the runs of a referee if there is one."""
    app = page_app("Tandem", pages(), rules)
    new = own_runs or OwnRuns(folders.root)
    add_lists(app, folders, new, lambda: {} if referee is None else referee_values(referee))
    add_plans(app, Planner())
    add_transcripts(app, folders, rules)
    add_histories(app, folders, rules)
    add_own(app, new, folders, rules)
    if referee is not None:
        add_live(app, referee, rules)
    return app


TIMEOUT = 5.0  # seconds that a page waits for the referee


def serve_ui(runs: Path, referee: str, token: str, host: str, port: int) -> None:
    """Print the address to open, and serve until SIGINT or SIGTERM.

    BadInput if the address is not loopback, or is in use, or a referee is named without a token.
    """
    check_loopback(host, port)
    if referee and not token:
        raise BadInput("--referee needs the operator's token: set TANDEM_OPERATOR_TOKEN in the environment")
    with ExitStack() as open_until_the_end:
        watch = None
        if referee:
            client = open_until_the_end.enter_context(operating(referee, token, patience=0.0, timeout=TIMEOUT))
            watch = RefereeWatch(client)

        own_runs = OwnRuns(runs)
        own_runs.remove_left_behind()
        open_until_the_end.callback(own_runs.close)

        def create(rules: Rules) -> Service:
            return ui_app(RunFolders(runs), rules, watch, own_runs)

        serve_page(create, "tandem ui", host, port)
