"""Pages about a running referee: its runs, one run as it goes on, and cancelling it.

A page asks again every second or two for the part of it that changes. The answer carries a tag, so that what has not
changed is not sent again; the page replaces what has changed, and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from common.core.values import RUN
from common.net.app import Service
from common.net.page.guard import Rules
from common.net.page.pages import tagged
from tandem.ui.forms import fields_of
from tandem.ui.pages import page
from tandem.ui.views.watching import RefereeWatch, Watched

RunName = Annotated[str, Path(pattern=RUN)]
ROUNDS_SHOWN = 12
"""Newest rounds in the table of a run that goes on; its picture has all of them."""


def standing(referee: RefereeWatch) -> dict[str, Any]:
    """Return what the list of a referee's runs shows."""
    runs, away = referee.runs()
    return {"referee": referee.url, "runs": runs, "away": away}


def add_live(app: Service, referee: RefereeWatch, rules: Rules) -> None:
    """Give the page's service what it shows of a running referee."""

    def shown(run: str) -> dict[str, Any]:
        watched = referee.look(run)
        return {
            "run": watched,
            "view": watched.view(),
            "tests": watched.tests,
            "left": watched.time_left(referee.now()),
            "said": _said(watched),
            "referee": referee.url,
            "most": ROUNDS_SHOWN,
            "token": rules.form_token,
        }

    @app.get("/referee-runs")
    def runs(request: Request) -> Response:
        return tagged(request, page("live_runs.html", **standing(referee)))

    @app.get("/referee/{run}")
    def one(run: RunName) -> Response:
        return HTMLResponse(page("live.html", here="runs", **shown(run)))

    @app.get("/referee/{run}/part")
    def part(request: Request, run: RunName) -> Response:
        return tagged(request, page("live_part.html", **shown(run)))

    @app.post("/referee/{run}/cancel")
    async def cancel(request: Request, run: RunName) -> Response:
        await fields_of(request, rules)
        await run_in_threadpool(referee.cancel, run)
        return RedirectResponse(f"/referee/{run}", 303)


def _said(run: Watched) -> str:
    """Say in one sentence what a screen reader is to announce when it changes."""
    if run.away:
        return "The referee does not answer."
    view = run.view()
    return f"{run.status}. {view.verdict.title}." if view is not None else f"{run.status}."
