"""The page on which a run is planned: a form, and the part of the page that answers it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

import scenarios
from common.core.errors import BadScenario
from common.core.plain import plain
from common.net.app import Service
from tandem.ui.pages import page
from tandem.ui.views.planning import Planned, Planner, Wanted, form

PATIENCE = 1.5
"""Seconds that the page waits for its plan before it is shown without."""


def add_plans(app: Service, planner: Planner) -> None:
    """Give the page's service the page of plans."""

    def shown(request: Request, patience: float) -> dict[str, Any]:
        wanted = Wanted.of(request.query_params)
        query = urlencode({"scenario": wanted.scenario, **dict(wanted.numbers)})
        return {"wanted": wanted, "plan": planner.look(wanted, patience), "query": query}

    @app.get("/plan")
    def plan(request: Request) -> Response:
        found = shown(request, PATIENCE)
        chosen = scenarios.heading(found["wanted"].scenario)
        more = {"names": scenarios.names(), "title": chosen.title, "fields": form(found["wanted"])}
        return HTMLResponse(page("plan.html", here="plan", **found, **more))

    @app.get("/plan/part")
    def part(request: Request) -> Response:
        try:
            found = shown(request, PATIENCE)
        except BadScenario as error:  # of what somebody is typing: the form stays, and is told
            found = {"wanted": None, "plan": Planned("bad", "This cannot be planned", (plain(error.detail),))}
        return HTMLResponse(page("plan_part.html", **found))
