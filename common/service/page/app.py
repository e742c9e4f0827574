"""A page's service: behind its guard, with its static files, and with every error as a page that says what happened."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from common.core.errors import BadMessage, NotFound, TandemError
from common.service.page.guard import Guard, Rules
from common.service.page.html import KINDS, Pages
from common.service.web.app import Service
from common.service.web.edge import fault

Name = Annotated[str, Path(max_length=255)]


def page_app(title: str, pages: Pages, rules: Rules) -> Service:
    """Return a service that has no page yet."""
    app = Service(title=title, openapi_url=None, docs_url=None, redoc_url=None)
    app.edge.app = Guard(app.edge.app, rules)  # outside of everything, so that a fault's answer has its headers, too
    _failures(app, pages)

    @app.get("/static/{name}")
    def static_file(name: Name) -> Response:
        if name not in pages.static:
            raise NotFound(f"there is no file {name!r} here")
        kept = {"Cache-Control": "private, max-age=86400, immutable"}
        return Response(pages.static[name], media_type=KINDS[name.rpartition(".")[2]], headers=kept)

    return app


def _failures(app: Service, pages: Pages) -> None:
    """Show every error as a page that says what happened."""

    def shown(error: TandemError) -> Response:
        return HTMLResponse(pages("problem.html", here="", title=error.title, detail=error.detail), error.status)

    @app.exception_handler(TandemError)
    async def refused(request: Request, error: TandemError) -> Response:
        return shown(error)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return shown(BadMessage(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        said = pages("problem.html", here="", title=str(error.detail), detail="there is no such page here")
        return HTMLResponse(said, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return shown(fault(request.method, request.url.path, error))


def tagged(request: Request, text: str) -> Response:
    """Answer with a part of a page, under a tag: what has not changed is not sent again."""
    tag = f'"{hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return HTMLResponse(text, headers={"ETag": tag})
