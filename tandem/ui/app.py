"""The local page over HTTP: each handler asks one thing, and hands it to one template."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from fastapi.responses import HTMLResponse

from common.net.app import Service
from common.net.page.guard import Rules
from common.net.page.pages import page_app
from tandem.ui.exploring import add_transcripts
from tandem.ui.histories import add_histories
from tandem.ui.live import add_live, standing
from tandem.ui.pages import page, pages
from tandem.ui.plan_pages import add_plans
from tandem.ui.views.folders import RunFolders
from tandem.ui.views.planning import Planner
from tandem.ui.views.watching import RefereeWatch

Name = Annotated[str, Path(max_length=255)]


def ui_app(folders: RunFolders, rules: Rules, referee: RefereeWatch | None = None) -> Service:
    """Return the page's service.

    Parameters
    ----------
    folders
        The run folders that it shows.
    rules
        Who may ask.
    referee
        A running referee, whose runs are shown as well.
    """
    app = page_app("Tandem", pages(), rules)

    @app.get("/")
    def runs() -> Response:
        values = {} if referee is None else standing(referee)
        return HTMLResponse(page("runs.html", here="runs", folders=folders.listed(), root=str(folders.root), **values))

    @app.get("/run/{name}")
    def run(name: Name) -> Response:
        return HTMLResponse(page("run.html", here="runs", part="result", name=name, view=folders.view(name)))

    add_plans(app, Planner())
    add_transcripts(app, folders, rules)
    add_histories(app, folders, rules)
    if referee is not None:
        add_live(app, referee, rules)
    return app
