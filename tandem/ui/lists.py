"""The list of run folders with its filter, the page of one run, and several runs beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Query, Response
from fastapi.responses import HTMLResponse

from common.core.errors import TandemError
from common.net.app import Service
from tandem.ui.folders import ListedRun, Name, RunFolders
from tandem.ui.own import OwnRuns
from tandem.ui.pages import page

ANSWERS = ("yes", "probably", "cannot be told", "no")
MOST_COMPARED = 6
Text = Annotated[str, Query(max_length=200)]


def matching(runs: Sequence[ListedRun], words: str, answer: str) -> list[ListedRun]:
    """Return the runs in whose name, scenario or sentence all words occur, and that have this answer (any if empty)."""
    wanted = words.casefold().split()
    return [
        run
        for run in runs
        if all(word in f"{run.name} {run.scenario} {run.text} {run.status}".casefold() for word in wanted)
        and (not answer or (run.answer or "none") == answer)
    ]


def add_lists(app: Service, folders: RunFolders, own: OwnRuns, standing: Callable[[], dict[str, Any]]) -> None:
    """Give the page's service the list of runs, each run's page, and comparisons; ``standing`` is a referee's."""

    def listed(words: str, answer: str, problem: str = "") -> Response:
        found = folders.listed()
        shown = matching(found, words, answer)
        values = {"folders": shown, "count": len(found), "root": str(folders.root), "words": words, "answer": answer}
        values |= {"answers": ANSWERS, "problem": problem, "under_way": own.under_way, **standing()}
        return HTMLResponse(page("runs.html", here="runs", **values))

    @app.get("/")
    def runs(words: Text = "", answer: Text = "") -> Response:
        return listed(words, answer)

    @app.get("/compare")
    def compare(run: Annotated[list[str], Query(max_length=255)] = []) -> Response:  # noqa: B006 - read by FastAPI
        names = list(dict.fromkeys(run))
        if not 2 <= len(names) <= MOST_COMPARED:
            return listed("", "", f"tick two runs to compare, or up to {MOST_COMPARED}; {len(names)} are ticked")
        try:
            views = [folders.view(name) for name in names]
        except TandemError as error:
            return listed("", "", error.detail)
        return HTMLResponse(page("compare.html", here="runs", names=names, views=views))

    @app.get("/run/{name}")
    def one(name: Name) -> Response:
        return HTMLResponse(page("run.html", here="runs", part="result", name=name, view=folders.view(name)))
