"""The history of a run folder: when its transcript went how far, who has seen that, and whether a receipt is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Path as InPath
from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from common.core import canonical
from common.core.errors import BadMessage, TandemError
from common.core.plain import plain
from common.crypto.identity import Signed
from common.log.receipts import StoredCheckpoint
from common.log.transcript import AnyEntry
from common.net.app import Service
from common.net.messages import Configuration
from common.net.pages import Rules
from referee.audit.history import check_history, kept_in
from referee.audit.reports import Place
from referee.runfolder import read_file
from referee.view.witnesses import clock, history_lines
from tandem.ui.folders import RunFolders
from tandem.ui.pages import fields_of, page
from tandem.ui.transcripts import ON_A_PAGE, Transcript

Name = Annotated[str, InPath(max_length=255)]
Page = Annotated[int, Query(ge=1, le=1 << 31)]
FILE = "transcript.jsonl"


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint as the page shows it: what it covers, when it was made, and which witnesses keep it since when."""

    entries: int
    hash: str
    time: str
    witnesses: tuple[tuple[str, str], ...]


def row(kept: StoredCheckpoint) -> CheckpointRow:
    """Return a checkpoint as the page shows it; its signatures are verified.

    Raises:
        Forged, BadMessage: If one is not good.
    """
    sentences = kept.verified()
    seen = tuple((key[:16], clock(word.time)) for key, word in kept.seen().items())
    return CheckpointRow(sentences.entries, sentences.hash, clock(sentences.time), seen)


def checked(folder: Path, entries: Sequence[AnyEntry], receipt: Signed | None = None) -> list[str]:
    """Check that checkpoints, witnesses, and a receipt if there is one, speak of this transcript; say what is known.

    Raises:
        AuditFailed, BadMessage, Forged: If one speaks of another.
    """
    with Place("the run's history").named_in_failures():
        configuration = Configuration.parse(entries[0].body.get("configuration"))
        given = () if receipt is None else (receipt,)
        return list(history_lines(check_history(folder, entries, configuration, given, ())))


def receipt_of(text: str) -> Signed:
    """Return the receipt in a text: an agent's file, or the referee's message itself.

    Raises:
        BadMessage: If it is none.
    """
    try:
        tree = canonical.decode(text.encode("utf-8"))
        return Signed.parse(tree.get("receipt", tree))
    except (UnicodeEncodeError, AttributeError, BadMessage):
        raise BadMessage("this is no receipt: give the content of a file of an agent's directory receipts") from None


def add_histories(app: Service, folders: RunFolders, rules: Rules) -> None:
    """Give the page's service what it shows of a run folder's history."""

    def shown(name: str, at: int, receipt: Signed | None = None, problem: str = "") -> Response:
        folder = folders.folder(name)
        transcript = folders.kept(FILE, folder, lambda: Transcript.of(read_file(folder, FILE)), alone=True)
        rows, sentences = [], []
        try:
            kept = kept_in(folder)
            rows = [row(each) for each in kept[(at - 1) * ON_A_PAGE : at * ON_A_PAGE]]
            sentences = checked(folder, transcript.entries(), receipt)
            count = len(kept)
        except TandemError as error:
            count, problem = len(rows), problem or error.detail
        values = {"rows": rows, "at": at, "pages": max(1, -(-count // ON_A_PAGE)), "count": count}
        values |= {"sentences": sentences, "problem": plain(problem), "token": rules.form_token, "receipt": receipt}
        return HTMLResponse(page("history.html", here="runs", part="history", name=name, **values))

    @app.get("/run/{name}/history")
    def history(name: Name, at: Page = 1) -> Response:
        return shown(name, at)

    def compared(name: str, text: str) -> Response:
        try:
            return shown(name, 1, receipt_of(text))
        except BadMessage as error:
            return shown(name, 1, problem=error.detail)

    @app.post("/run/{name}/receipt")
    async def compare(request: Request, name: Name) -> Response:
        fields = await fields_of(request, rules)
        return await run_in_threadpool(compared, name, fields.get("receipt", ""))
