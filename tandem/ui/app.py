"""The local page over HTTP: each handler asks one thing, and hands it to one template."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from common.core.errors import BadMessage, NotFound, TandemError
from common.service.app import Service
from common.service.edge import fault
from tandem.ui.exploring import add_transcripts
from tandem.ui.folders import RunFolders
from tandem.ui.guard import Guard, Rules
from tandem.ui.histories import add_histories
from tandem.ui.live import add_live, standing
from tandem.ui.pages import KINDS, page, static
from tandem.ui.plan_pages import add_plans
from tandem.ui.planning import Planner
from tandem.ui.watching import RefereeWatch

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
    app = Service(title="Tandem", openapi_url=None, docs_url=None, redoc_url=None)
    app.edge.app = Guard(app.edge.app, rules)  # outside of everything, so that a fault's answer has its headers, too
    _failures(app)

    @app.get("/static/{name}")
    def static_file(name: Name) -> Response:
        if name not in static():
            raise NotFound(f"there is no file {name!r} here")
        kept = {"Cache-Control": "private, max-age=86400, immutable"}
        return Response(static()[name], media_type=KINDS[name.rpartition(".")[2]], headers=kept)

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


def _failures(app: Service) -> None:
    """Show every error as a page that says what happened."""

    def shown(error: TandemError) -> Response:
        return HTMLResponse(page("problem.html", here="", title=error.title, detail=error.detail), error.status)

    @app.exception_handler(TandemError)
    async def refused(request: Request, error: TandemError) -> Response:
        return shown(error)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return shown(BadMessage(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        said = page("problem.html", here="", title=str(error.detail), detail="there is no such page here")
        return HTMLResponse(said, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return shown(fault(request.method, request.url.path, error))
