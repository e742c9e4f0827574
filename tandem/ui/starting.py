"""The pages of a run on the user's own two tables: files, columns and budgets, forecast, the run, its model."""

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Path as InPath
from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse

from common.core.errors import BadInput, TandemError, Unauthorized
from common.models.export import export
from common.net.app import Service
from common.net.edge import LARGE
from common.net.pages import Rules, tagged
from common.net.tokens import same
from referee.view.asking import looks_like
from referee.view.models import open_model
from referee.view.own_tables import WARNING
from referee.view.pages import report as report_of
from tandem.ui.folders import Name, RunFolders
from tandem.ui.own import (
    DRAFT,
    NAMES,
    SCENARIO,
    SUFFIXES,
    FieldProblem,
    Fields,
    OwnRun,
    OwnRuns,
    columns_from,
    forecast_from,
    in_the_forms_words,
    new_draft,
    wrong,
)
from tandem.ui.pages import fields_of, page

Draft = Annotated[str, InPath(pattern=f"^{DRAFT}$")]
STEPS = (("files", "Two files"), ("columns", "Columns and budgets"), ("forecast", "Forecast"), ("run", "Run"))
MOST_FIELDS = 20_000
NOTES_SHOWN = 12
COLUMNS_SHOWN = 24  # columns of a table that are shown expanded; the others are in groups of this size
_ON_FILES = ("source", "target", "separator", "decimal", "thousands", "encoding", "missing_texts")
_ON_COLUMNS = (
    *("label", "predict", "positive", "negative", "above", "response_low", "response_high", "id"),
    *("rest", "rest_low", "rest_high"),
    *("worse", "times", "epsilon", "delta", "agent_epsilon", "lifetime", "name"),
)
_OF_A_COLUMN = ("kind:", "low:", "high:", "values:", "empty:")


def _shown(step: str, fields: Fields, rules: Rules, **more: Any) -> str:
    here = {"files": _ON_FILES, "columns": _ON_COLUMNS, "forecast": ("spend",)}[step]
    own = _OF_A_COLUMN if step == "columns" else ()
    kept = [(key, value) for key, value in fields.items() if key not in here and not key.startswith(own or "\n")]
    values: dict[str, Any] = {"fields": fields, "kept": kept, "names": NAMES, "steps": STEPS, "step": step}
    values |= {"token": rules.form_token, "problem": None, **more}
    return page(f"own_{step}.html", here="own", **values)


def _with_draft(fields: Fields) -> dict[str, str]:
    known = {key: text for key, text in fields.items() if key in (*_ON_FILES, *_ON_COLUMNS, "draft", "spend")}
    known |= {key: text for key, text in fields.items() if key.startswith(_OF_A_COLUMN)}
    return known if re.fullmatch(DRAFT, known.get("draft", "")) else {**known, "draft": new_draft()}


def add_own(app: Service, own: OwnRuns, folders: RunFolders, rules: Rules) -> None:
    """Add the pages from two files to a run, and the downloads of a run, to the service."""
    app.edge.limits["/own"] = LARGE

    def files(fields: Fields, problem: FieldProblem | None = None) -> str:
        most = LARGE >> 20
        return _shown("files", fields, rules, problem=problem, suffixes=SUFFIXES, most=most, busy=own.under_way)

    def columns(fields: Fields, problem: FieldProblem | None = None) -> str:
        try:
            names = columns_from(fields)
        except TandemError as error:
            return files(fields, in_the_forms_words(error))
        used = [name for name in names if fields.get(f"kind:{name}")]
        more: dict[str, Any] = {"columns": names, "used": used, "most": COLUMNS_SHOWN, "warning": WARNING}
        more["looks_like"] = looks_like
        return _shown("columns", fields, rules, problem=problem, **more)

    def forecast(fields: Fields, problem: FieldProblem | None = None) -> str:
        try:
            found = forecast_from(fields)
        except FieldProblem as error:
            return columns(fields, error)
        return _shown("forecast", fields, rules, problem=problem, found=found)

    def started(fields: Fields) -> str | OwnRun:
        try:
            found = forecast_from(fields)
        except FieldProblem as error:
            return columns(fields, error)
        if found.refused:
            return forecast(fields)
        if not fields.get("spend"):
            what = "set the tick below: a run spends these people's budgets, and nothing gives them back"
            return forecast(fields, wrong("spend", what))
        try:
            return own.start(fields["draft"], found)
        except BadInput as error:
            return forecast(fields, wrong("", error.detail))

    @app.get("/own")
    def begin() -> Response:
        return HTMLResponse(files(_with_draft({})))

    shown: dict[str, Callable[[Fields], str]] = {"files": files, "columns": columns, "forecast": forecast}

    @app.post("/own/{step}")
    async def step(request: Request, step: Literal["files", "columns", "forecast", "run"]) -> Response:
        fields = _with_draft(await fields_of(request, rules, MOST_FIELDS))
        found = await run_in_threadpool(started if step == "run" else shown[step], fields)
        if isinstance(found, OwnRun):
            return RedirectResponse(f"/own/run/{found.name}", 303)
        return HTMLResponse(found)

    _add_files(app, own, rules)
    _add_live(app, own, rules)
    _add_model(app, folders)


def _add_files(app: Service, own: OwnRuns, rules: Rules) -> None:
    @app.post("/own/file/{draft}/{side}")
    async def keep(
        request: Request, draft: Draft, side: Literal["source", "target"], name: Annotated[str, Query(max_length=300)]
    ) -> Response:
        if not same(request.headers.get("tandem-form", ""), rules.form_token):
            raise Unauthorized("the file does not come from one of this server's pages: load the page again")
        content = await request.body()
        try:
            path = await run_in_threadpool(own.keep, draft, side, name, content)
        except (TandemError, OSError) as error:
            words = error.detail if isinstance(error, TandemError) else str(error.strerror)
            return PlainTextResponse(words, 422)
        return PlainTextResponse(str(path))


def _add_live(app: Service, own: OwnRuns, rules: Rules) -> None:
    def values(name: str) -> dict[str, Any]:
        run = own.get(name)
        shown: dict[str, Any] = {"run": run, "seconds": int(run.seconds if run.ended else time.monotonic() - run.began)}
        shown |= {"notes": run.notes[-NOTES_SHOWN:], "steps": STEPS, "step": "run", "token": rules.form_token}
        return shown | {"folder": own.root / name, "scenario": own.root / name / SCENARIO}

    @app.get("/own/run/{name}")
    def live(name: Name) -> Response:
        return HTMLResponse(page("own_run.html", here="own", **values(name)))

    @app.get("/own/run/{name}/part")
    def part(request: Request, name: Name) -> Response:
        return tagged(request, page("own_run_part.html", **values(name)))

    @app.post("/own/run/{name}/{what}")
    async def change(request: Request, name: Name, what: Literal["stop", "on"]) -> Response:
        await fields_of(request, rules)
        await run_in_threadpool(own.stop if what == "stop" else own.go_on, name)
        return RedirectResponse(f"/own/run/{name}", 303)


_KINDS = {"json": "application/json", "onnx": "application/octet-stream"}


def _add_model(app: Service, folders: RunFolders) -> None:
    @app.get("/run/{name}/model.{kind}")
    def model(name: Name, kind: Literal["json", "onnx"]) -> Response:
        found = open_model(folders.folder(name))
        with tempfile.TemporaryDirectory(prefix="tandem-model-") as place:
            content = export(found, Path(place) / f"model.{kind}").read_bytes()
        return _download(content, f"model.{kind}", _KINDS[kind])

    @app.get("/run/{name}/report.html")
    def report(name: Name) -> Response:
        view = folders.view(name)
        return _download(report_of([view]).encode("utf-8", "backslashreplace"), "report.html", "text/html")


def _download(content: bytes, name: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
