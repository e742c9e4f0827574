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
    field_problem,
    forecast_from,
    in_form_terms,
    new_draft,
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


def _step_page(step: str, fields: Fields, rules: Rules, **more: Any) -> str:
    own_fields = {"files": _ON_FILES, "columns": _ON_COLUMNS, "forecast": ("spend",)}[step]
    prefixes = _OF_A_COLUMN if step == "columns" else ()
    hidden = [
        (key, value) for key, value in fields.items() if key not in own_fields and not key.startswith(prefixes or "\n")
    ]
    values: dict[str, Any] = {"fields": fields, "kept": hidden, "names": NAMES, "steps": STEPS, "step": step}
    values |= {"token": rules.form_token, "problem": None, **more}
    return page(f"own_{step}.html", here="own", **values)


def _with_draft(fields: Fields) -> dict[str, str]:
    draft = {key: text for key, text in fields.items() if key in (*_ON_FILES, *_ON_COLUMNS, "draft", "spend")}
    draft |= {key: text for key, text in fields.items() if key.startswith(_OF_A_COLUMN)}
    return draft if re.fullmatch(DRAFT, draft.get("draft", "")) else {**draft, "draft": new_draft()}


def add_own(app: Service, own_runs: OwnRuns, folders: RunFolders, rules: Rules) -> None:
    """Add the pages from two files to a run, and the downloads of a run, to the service."""
    app.edge.limits["/own"] = LARGE

    def files(fields: Fields, problem: FieldProblem | None = None) -> str:
        most = LARGE >> 20
        return _step_page(
            "files", fields, rules, problem=problem, suffixes=SUFFIXES, most=most, busy=own_runs.under_way
        )

    def columns(fields: Fields, problem: FieldProblem | None = None) -> str:
        try:
            names = columns_from(fields)
        except TandemError as error:
            return files(fields, in_form_terms(error))
        used = [name for name in names if fields.get(f"kind:{name}")]
        more: dict[str, Any] = {"columns": names, "used": used, "most": COLUMNS_SHOWN, "warning": WARNING}
        more["looks_like"] = looks_like
        return _step_page("columns", fields, rules, problem=problem, **more)

    def forecast(fields: Fields, problem: FieldProblem | None = None) -> str:
        try:
            prediction = forecast_from(fields)
        except FieldProblem as error:
            return columns(fields, error)
        return _step_page("forecast", fields, rules, problem=problem, found=prediction)

    def start_run(fields: Fields) -> str | OwnRun:
        try:
            prediction = forecast_from(fields)
        except FieldProblem as error:
            return columns(fields, error)
        if prediction.refused:
            return forecast(fields)
        if not fields.get("spend"):
            what = "set the tick below: a run spends these people's budgets, and nothing gives them back"
            return forecast(fields, field_problem("spend", what))
        try:
            return own_runs.start(fields["draft"], prediction)
        except BadInput as error:
            return forecast(fields, field_problem("", error.detail))

    @app.get("/own")
    def begin() -> Response:
        return HTMLResponse(files(_with_draft({})))

    pages: dict[str, Callable[[Fields], str]] = {"files": files, "columns": columns, "forecast": forecast}

    @app.post("/own/{step}")
    async def step(request: Request, step: Literal["files", "columns", "forecast", "run"]) -> Response:
        fields = _with_draft(await fields_of(request, rules, MOST_FIELDS))
        outcome = await run_in_threadpool(start_run if step == "run" else pages[step], fields)
        if isinstance(outcome, OwnRun):
            return RedirectResponse(f"/own/run/{outcome.name}", 303)
        return HTMLResponse(outcome)

    _add_files(app, own_runs, rules)
    _add_live(app, own_runs, rules)
    _add_model(app, folders)


def _add_files(app: Service, own_runs: OwnRuns, rules: Rules) -> None:
    @app.post("/own/file/{draft}/{side}")
    async def keep(
        request: Request, draft: Draft, side: Literal["source", "target"], name: Annotated[str, Query(max_length=300)]
    ) -> Response:
        if not same(request.headers.get("tandem-form", ""), rules.form_token):
            raise Unauthorized("the file does not come from one of this server's pages: load the page again")
        content = await request.body()
        try:
            path = await run_in_threadpool(own_runs.keep, draft, side, name, content)
        except (TandemError, OSError) as error:
            words = error.detail if isinstance(error, TandemError) else str(error.strerror)
            return PlainTextResponse(words, 422)
        return PlainTextResponse(str(path))


def _add_live(app: Service, own_runs: OwnRuns, rules: Rules) -> None:
    def values(name: str) -> dict[str, Any]:
        run = own_runs.get(name)
        state: dict[str, Any] = {"run": run, "seconds": int(run.seconds if run.ended else time.monotonic() - run.began)}
        state |= {"notes": run.notes[-NOTES_SHOWN:], "steps": STEPS, "step": "run", "token": rules.form_token}
        return state | {"folder": own_runs.root / name, "scenario": own_runs.root / name / SCENARIO}

    @app.get("/own/run/{name}")
    def live(name: Name) -> Response:
        return HTMLResponse(page("own_run.html", here="own", **values(name)))

    @app.get("/own/run/{name}/part")
    def part(request: Request, name: Name) -> Response:
        return tagged(request, page("own_run_part.html", **values(name)))

    @app.post("/own/run/{name}/{what}")
    async def change(request: Request, name: Name, what: Literal["stop", "on"]) -> Response:
        await fields_of(request, rules)
        await run_in_threadpool(own_runs.stop if what == "stop" else own_runs.go_on, name)
        return RedirectResponse(f"/own/run/{name}", 303)


_KINDS = {"json": "application/json", "onnx": "application/octet-stream"}


def _add_model(app: Service, folders: RunFolders) -> None:
    @app.get("/run/{name}/model.{kind}")
    def model(name: Name, kind: Literal["json", "onnx"]) -> Response:
        released = open_model(folders.folder(name))
        with tempfile.TemporaryDirectory(prefix="tandem-model-") as place:
            content = export(released, Path(place) / f"model.{kind}").read_bytes()
        return _download(content, f"model.{kind}", _KINDS[kind])

    @app.get("/run/{name}/report.html")
    def report(name: Name) -> Response:
        view = folders.view(name)
        return _download(report_of([view]).encode("utf-8", "backslashreplace"), "report.html", "text/html")


def _download(content: bytes, name: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
