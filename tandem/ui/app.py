"""The local page over HTTP: each handler asks one thing, and hands it to one template."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from common.core.errors import BadMessage, NotFound, TandemError, Unauthorized
from common.service.app import Service, same
from common.service.edge import fault
from tandem.ui.folders import RunFolders
from tandem.ui.guard import Guard, Rules
from tandem.ui.pages import KINDS, page, static

Name = Annotated[str, Path(max_length=255)]
MAX_FORM = 1 << 16
"""Bytes of a form, at most: the edge holds bodies to it."""


def ui_app(folders: RunFolders, rules: Rules) -> Service:
    """Return the page's service.

    Parameters
    ----------
    folders
        The run folders that it shows.
    rules
        Who may ask.
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
        return HTMLResponse(page("runs.html", here="runs", folders=folders.listed(), root=str(folders.root)))

    @app.get("/run/{name}")
    def run(name: Name) -> Response:
        return HTMLResponse(page("run.html", here="runs", part="result", name=name, view=folders.view(name)))

    return app


async def form(request: Request, rules: Rules) -> dict[str, str]:
    """Return the fields of a form of our own pages.

    Raises
    ------
    Unauthorized
        If it does not carry the token that our forms carry.
    BadMessage
        If it is no form.
    """
    try:
        found = parse_qs((await request.body()).decode(), strict_parsing=True, max_num_fields=100)
    except ValueError:
        raise BadMessage("this is not a form") from None
    fields = {name: values[-1] for name, values in found.items()}
    if not same(fields.pop("token", "").encode("utf-8", "backslashreplace").decode(), rules.form_token):
        raise Unauthorized("the form is not one of this server's pages, or the server was started again: load the page")
    return fields


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
