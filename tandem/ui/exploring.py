"""Pages about the transcript of a run folder: what each party sees, its entries, one entry, and its audit."""

from __future__ import annotations

import threading
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from common.core.errors import AuditFailed, NotFound
from common.core.plain import plain
from common.net.app import Service
from common.net.page.guard import Rules
from referee.audit.audit import audit
from referee.state.runfolder import read_file
from referee.view.show import UNSIGNED, audit_lines
from tandem.ui.forms import fields_of
from tandem.ui.pages import page
from tandem.ui.views.folders import RunFolders
from tandem.ui.views.parties import Step, story
from tandem.ui.views.transcripts import LINES_ON_A_PAGE, ON_A_PAGE, Transcript, pages_of

Name = Annotated[str, Path(max_length=255)]
Page = Annotated[int, Query(ge=1, le=1 << 31)]
FILE = "transcript.jsonl"
MESSAGES_SHOWN, MESSAGE_LINES = 2, 120
"""Messages of a step that are shown, and lines of each; all of them are in the transcript."""
NEAR = 10
"""Steps before and after a step whose titles are listed."""


def add_transcripts(app: Service, folders: RunFolders, rules: Rules) -> None:
    """Give the page's service what it shows of a run folder's transcript."""
    one_audit = threading.Lock()  # an audit takes a whole core: a second one waits

    def transcript(name: str) -> Transcript:
        folder = folders.folder(name)
        return folders.kept(FILE, folder, lambda: Transcript.of(read_file(folder, FILE)), alone=True)

    @app.get("/run/{name}/transcript")
    def entries(name: Name, at: Page = 1) -> Response:
        found = transcript(name)
        rows = found.listed(at)
        shown = {"rows": rows, "at": at, "pages": found.pages, "count": len(found.lines), "token": rules.form_token}
        return HTMLResponse(page("transcript.html", here="runs", part="transcript", name=name, **shown))

    @app.get("/run/{name}/parties")
    def parties(name: Name, at: Page = 1) -> Response:
        found, folder = transcript(name), folders.folder(name)
        told = folders.kept("parties", folder, lambda: story(found.entries()), alone=True)
        if at > len(told.steps):
            raise NotFound(f"this run has {len(told.steps)} steps, from 1; there is no step {at}")
        step = told.steps[at - 1]
        messages = [(index, found.pretty(index)) for index in step.entries[:MESSAGES_SHOWN]]
        shown = {"step": step, "at": at, "count": len(told.steps), "notice": told.notice, "messages": messages}
        shown["titles"] = _near(told.steps, at)
        return HTMLResponse(page("parties.html", here="runs", part="parties", name=name, most=MESSAGE_LINES, **shown))

    @app.get("/run/{name}/transcript.jsonl")
    def raw(name: Name) -> Response:
        return Response(read_file(folders.folder(name), FILE), media_type="text/plain; charset=utf-8")

    @app.get("/run/{name}/transcript/{index}")
    def entry(name: Name, index: Annotated[int, Path(ge=0, lt=1 << 31)], at: Page = 1) -> Response:
        found = transcript(name)
        text = found.pretty(index)
        shown = {
            "row": found.line(index),
            "list_page": index // ON_A_PAGE + 1,
            "lines": text[(at - 1) * LINES_ON_A_PAGE : at * LINES_ON_A_PAGE],
            "at": at,
            "pages": pages_of(text),
            "count": len(found.lines),
        }
        return HTMLResponse(page("entry.html", here="runs", part="transcript", name=name, **shown))

    def audited(name: str) -> Response:
        folder = folders.folder(name)
        with one_audit:
            try:
                found, failure = list(audit_lines(audit(folder))), ""
            except AuditFailed as error:
                found, failure = [], error.detail
        shown = {"found": found, "failure": plain(failure), "unsigned": UNSIGNED, "folder": folder}
        return HTMLResponse(page("audited.html", here="runs", part="transcript", name=name, **shown))

    @app.post("/run/{name}/audit")
    async def verify(request: Request, name: Name) -> Response:
        await fields_of(request, rules)
        return await run_in_threadpool(audited, name)


def _near(told: tuple[Step, ...], at: int) -> list[tuple[int, str]]:
    """Return the numbers and titles of the steps near one."""
    first = max(0, at - 1 - NEAR)
    return [(number, step.title) for number, step in enumerate(told[first : at + NEAR], start=first + 1)]
