"""The run folders of a directory: the state of each, and its transcript and history before verification.

Only a run folder's public files are opened (:mod:`referee.view.pages`). A folder is found by its name in the listing of
the directory, never by a path from a request.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Path as InPath
from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from common.core import canonical
from common.core.errors import AuditFailed, BadData, BadMessage, NotFound, TandemError
from common.core.folder import names, present
from common.core.plain import clock, plain
from common.crypto.identity import Signed
from common.local.mechanisms.mechanism import Warner
from common.local.queries.query import AlikeQuery, parse_query
from common.log.receipts import StoredCheckpoint
from common.log.transcript import MOST_ENTRIES, AnyEntry, SignedEntry, StoredEntry
from common.net.app import Service
from common.net.messages import Configuration
from common.net.pages import Rules
from common.scenario.scenario import ResolvedScenario, parse_resolved
from deploy.catalogue import explained
from local_agent.policy import names_in
from referee.audit.audit import audit
from referee.audit.history import check_history, kept_in
from referee.audit.replay import ReplayPosition
from referee.runfolder import read_file
from referee.runs.verdict import Tone
from referee.view.audited import UNSIGNED, audit_lines, history_lines
from referee.view.listing import in_words
from referee.view.pages import view_of
from referee.view.wording import PROMISED, SIMULATED, RunView, promise
from tandem.ui.pages import fields_of, page

T = TypeVar("T")
MAX_KEPT = 500  # most cached results of folders' files; the oldest is dropped and made again when needed
PUBLIC = ("claim.json", "scenario.yaml", "result.json", "transcript.jsonl")
"""A folder with one of these is a run folder, or was prepared to become one."""


@dataclass(frozen=True)
class ListedRun:
    """A run folder in the list.

    Attributes:
        text: The run's verdict; for a folder that cannot be shown, what happened and what to do.
        began: When the folder was made, in this machine's time.
        has_page: Whether it has a page.
        answer, than: Whether its model is better, and than what; empty if there is no comparison.
    """

    name: str
    scenario: str
    status: str
    text: str
    tone: Tone
    began: str
    has_page: bool = True
    answer: str = ""
    than: str = ""


class RunFolders:
    """A directory of run folders, or one run folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._cache: dict[tuple[str, str], tuple[tuple[float, ...], object]] = {}

    def listed(self) -> list[ListedRun]:
        rows = [(_creation_time(folder), name, folder) for name, folder in self._folders().items()]
        return [self._line(name, folder) for _, name, folder in sorted(rows, key=lambda item: item[:2], reverse=True)]

    def folder(self, name: str) -> Path:
        """Return a run folder; ``NotFound`` if there is none of this name."""
        path = self._folders().get(name)
        if path is None:
            raise NotFound(f"there is no run folder {name!r} in {self.root}")
        return path

    def view(self, name: str) -> RunView:
        """Return the view of a finished run; raises as :func:`referee.view.pages.view_of` does."""
        folder = self.folder(name)
        return self.cached("view", folder, lambda: view_of(folder))

    def cached(self, what: str, folder: Path, make: Callable[[], T], *, alone: bool = False) -> T:
        """Return what ``make`` computes from a folder's files, from the cache unless they have changed.

        If the result is large (``alone``), no other result of its kind stays in the cache.
        """
        stamp = tuple(part for name in PUBLIC for part in _stamp(folder / name))
        with self._lock:
            cached = self._cache.get((what, folder.name))
            if cached is not None and cached[0] == stamp:
                return cached[1]  # type: ignore[return-value]  # the result of ``make`` under this name
            for key in [key for key in self._cache if key[0] == what and (alone or key[1] == folder.name)]:
                del self._cache[key]
            while len(self._cache) >= MAX_KEPT:
                del self._cache[next(iter(self._cache))]
        value = make()
        with self._lock:
            self._cache[what, folder.name] = (stamp, value)
        return value

    def _folders(self) -> dict[str, Path]:
        if is_run(self.root):
            return {self.root.absolute().name: self.root}
        try:
            return {name: self.root / name for name in names(self.root) if is_run(self.root / name)}
        except NotFound:
            return {}

    def _line(self, name: str, folder: Path) -> ListedRun:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(_creation_time(folder)))
        try:
            view = self.cached("view", folder, lambda: view_of(folder))
            ended = "ended" if view.status in ("done", "exhausted") else view.status
            verdict = view.verdict
            return ListedRun(
                name, view.name, ended, verdict.text, verdict.tone, began, True, verdict.answer or "", view.than
            )
        except NotFound as error:
            return ListedRun(name, "", "not ended", error.detail, "open", began, has_page=False)
        except TandemError as error:
            has_page = isinstance(error, AuditFailed)
            return ListedRun(name, "", "cannot be shown", error.detail, "bad", began, has_page)


def is_run(path: Path) -> bool:
    """Return whether a directory is a run folder, or was prepared to become one."""
    return path.is_dir() and any(present(path, name) for name in PUBLIC)


def _creation_time(folder: Path) -> float:
    return next((stamp[0] for name in PUBLIC if (stamp := _stamp(folder / name))[0]), 0.0)


def _stamp(path: Path) -> tuple[float, float]:
    try:
        status = path.lstat()
    except OSError:
        return 0.0, 0.0
    return status.st_mtime, float(status.st_size)


ON_A_PAGE = 100  # entries in a page of the list
LINES_ON_A_PAGE = 500  # lines of one entry in a page
MAX_WIDTH = 1000  # most characters of a line that are shown


class Transcript:
    """The lines of a transcript's file, without their newlines; a truncated last line counts as a line."""

    def __init__(self, raw: bytes) -> None:
        self.lines = [line for line in raw.split(b"\n") if line]

    def entry(self, index: int) -> SignedEntry | None:
        """Return an entry; None if its line is no valid entry. ``NotFound`` if there is no such line."""
        if not 0 <= index < len(self.lines):
            raise NotFound(f"the transcript has {len(self.lines)} entries, from 0; there is no entry {index}")
        try:
            return SignedEntry.parse(canonical.decode(self.lines[index]))
        except BadMessage:
            return None

    def entries(self) -> list[StoredEntry]:
        """Return all entries, each with the bytes of its line; ``BadData`` if there is none, or a line is no entry."""
        entries = []
        for index, line in enumerate(self.lines or (b"",)):
            entry = self.entry(index) if self.lines else None
            if entry is None or index == MOST_ENTRIES:
                raise BadData(f"line {index + 1} of the transcript is no entry: it was cut off or changed")
            entries.append(StoredEntry(entry, line))
        return entries

    def listed(self, first: int, most: int = ON_A_PAGE) -> list[dict[str, Any]]:
        """Return at most ``most`` entries of the list, from ``first`` on.

        The ``signers`` of each entry have signed it or a part of it: the party and the beginning of its key.
        """
        names, rows = self._names(), list[dict[str, Any]]()
        referee_key = next((key for key, name in names.items() if name == "referee"), "")
        for index in range(first, min(first + most, len(self.lines))):
            entry, position = self.entry(index), {"index": index, "size": len(self.lines[index])}
            if entry is None:
                words = "the line is no entry: it was cut off or changed"
                rows.append({**position, "kind": "cannot be read", "summary": words, "signers": (), "hash": ""})
                continue
            keys = (f"{names.get(key, 'unknown')} {key[:8]}" for key in _keys(entry.body))
            signers = tuple(dict.fromkeys((f"referee {referee_key[:8]}", *keys)))
            summary = {"kind": entry.kind, "summary": in_words(entry), "signers": signers, "hash": entry.hash}
            rows.append({**position, **summary})
        return rows

    def pretty(self, index: int) -> list[str]:
        self.entry(index)
        line = self.lines[index]
        try:
            text = json.dumps(canonical.decode(line), indent=2, ensure_ascii=False).split("\n")
        except BadMessage:
            text = [line.decode("utf-8", "backslashreplace")]
        return [row if len(row) <= MAX_WIDTH else f"{row[:MAX_WIDTH]}... ({len(row):,} characters)" for row in text]

    def _names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for entry in map(self.entry, range(min(2, len(self.lines)))):
            if entry is not None and entry.kind == "terms":
                names |= dict.fromkeys(_keys(entry.body), "curator")
            elif entry is not None and entry.kind == "configuration":
                names[str(entry.body.get("referee", ""))] = "referee"
        return names


def pages_of(count: int, size: int = ON_A_PAGE) -> int:
    """Return the number of pages for so many lines."""
    return max(1, -(-count // size))


def _keys(body: Any) -> Iterator[str]:
    for value in body.values() if isinstance(body, dict) else ():
        if isinstance(value, dict) and isinstance(value.get("key"), str) and "signature" in value:
            yield value["key"]


Name = Annotated[str, InPath(max_length=255)]
Page = Annotated[int, Query(ge=1, le=1 << 31)]
FILE = "transcript.jsonl"
MESSAGES_SHOWN, MESSAGE_LINES = 2, 120
"""Most messages of a step that are shown, and most lines of each; all of them are in the transcript."""
NEAR = 20  # steps before and after a step whose titles are listed
PHASES = {
    **dict.fromkeys(("configuration", "terms"), "Rules and terms"),
    **dict.fromkeys(("question", "answers"), "The agents are asked"),
    "operation": "The curator works",
    "result": "The end",
}
"""The heading under which a step is listed, by the kind of its entry."""


def near_steps(steps: Sequence[RunStep], at: int) -> list[tuple[str, list[tuple[int, RunStep]]]]:
    """Return the steps near a given one, numbered from 1, grouped by heading."""
    first = max(0, at - 1 - NEAR)
    near = enumerate(steps[first : at + NEAR], first + 1)
    return [(phase, list(group)) for phase, group in groupby(near, lambda item: PHASES[item[1].kind])]


def _transcript(folders: RunFolders, name: str) -> Transcript:
    folder = folders.folder(name)
    return folders.cached(FILE, folder, lambda: Transcript(read_file(folder, FILE)), alone=True)


def add_transcripts(app: Service, folders: RunFolders, rules: Rules) -> None:
    """Add the pages of a run folder's transcript to the service."""
    one_audit = threading.Lock()  # an audit takes a whole core: a second one waits

    @app.get("/run/{name}/transcript")
    def entries(name: Name, at: Page = 1) -> Response:
        transcript = _transcript(folders, name)
        count = len(transcript.lines)
        values = {"rows": transcript.listed((at - 1) * ON_A_PAGE), "at": at, "pages": pages_of(count), "count": count}
        values["token"] = rules.form_token
        return HTMLResponse(page("transcript.html", here="runs", part="transcript", name=name, **values))

    @app.get("/run/{name}/parties")
    def parties(name: Name, at: Page = 1) -> Response:
        transcript, folder = _transcript(folders, name), folders.folder(name)
        summary = folders.cached("parties", folder, lambda: story(transcript.entries()), alone=True)
        if at > len(summary.steps):
            raise NotFound(f"this run has {len(summary.steps)} steps, from 1; there is no step {at}")
        step = summary.steps[at - 1]
        messages = [(index, transcript.pretty(index)) for index in step.entries[:MESSAGES_SHOWN]]
        values = {"step": step, "at": at, "count": len(summary.steps), "notice": summary.notice, "messages": messages}
        values["groups"] = near_steps(summary.steps, at)
        return HTMLResponse(page("parties.html", here="runs", part="parties", name=name, most=MESSAGE_LINES, **values))

    @app.get("/run/{name}/transcript.jsonl")
    def raw(name: Name) -> Response:
        return Response(read_file(folders.folder(name), FILE), media_type="text/plain; charset=utf-8")

    @app.get("/run/{name}/transcript/{index}")
    def entry(name: Name, index: Annotated[int, InPath(ge=0, lt=1 << 31)], at: Page = 1) -> Response:
        transcript = _transcript(folders, name)
        text = transcript.pretty(index)
        (row,) = transcript.listed(index, 1)
        values = {
            "row": row,
            "list_page": index // ON_A_PAGE + 1,
            "lines": text[(at - 1) * LINES_ON_A_PAGE : at * LINES_ON_A_PAGE],
            "at": at,
            "pages": pages_of(len(text), LINES_ON_A_PAGE),
            "count": len(transcript.lines),
        }
        return HTMLResponse(page("entry.html", here="runs", part="transcript", name=name, **values))

    def audit_page(name: str) -> Response:
        folder = folders.folder(name)
        with one_audit:
            try:
                lines, failure = list(audit_lines(audit(folder))), ""
            except AuditFailed as error:
                lines, failure = [], error.detail
        values = {"found": lines, "failure": plain(failure), "unsigned": UNSIGNED, "folder": folder}
        return HTMLResponse(page("audited.html", here="runs", part="transcript", name=name, **values))

    @app.post("/run/{name}/audit")
    async def verify(request: Request, name: Name) -> Response:
        await fields_of(request, rules)
        return await run_in_threadpool(audit_page, name)


def checkpoint_row(checkpoint: StoredCheckpoint) -> dict[str, Any]:
    """Verify a checkpoint's signatures and return it as the page shows it, with its witnesses and their times."""
    content, witnessed = checkpoint.verified(), checkpoint.seen()
    witnesses = [(key[:16], clock(word.time)) for key, word in witnessed.items()]
    return {"entries": content.entries, "hash": content.hash, "time": clock(content.time), "witnesses": witnesses}


def history_checked(folder: Path, entries: Sequence[AnyEntry], receipt: Signed | None = None) -> list[str]:
    """Verify that checkpoints, witnesses, and an optional receipt are of this transcript; return what is known."""
    with ReplayPosition("the run's history").named_in_failures():
        configuration = Configuration.parse(entries[0].body.get("configuration"))
        receipts = () if receipt is None else (receipt,)
        return list(history_lines(check_history(folder, entries, configuration, receipts, ())))


def receipt_of(text: str) -> Signed:
    """Return the receipt in a text (an agent's file, or the referee's message itself), or raise ``BadMessage``."""
    try:
        tree = canonical.decode(text.encode("utf-8"))
        return Signed.parse(tree.get("receipt", tree))
    except (UnicodeEncodeError, AttributeError, BadMessage):
        raise BadMessage("this is no receipt: give the content of a file of an agent's directory receipts") from None


def add_histories(app: Service, folders: RunFolders, rules: Rules) -> None:
    """Add the pages of a run folder's history to the service."""

    def history_page(name: str, at: int, receipt: Signed | None = None, problem: str = "") -> Response:
        transcript, folder = _transcript(folders, name), folders.folder(name)
        rows, sentences = [], []
        try:
            checkpoints = kept_in(folder)
            rows = [checkpoint_row(checkpoint) for checkpoint in checkpoints[(at - 1) * ON_A_PAGE : at * ON_A_PAGE]]
            sentences = history_checked(folder, transcript.entries(), receipt)
            count = len(checkpoints)
        except TandemError as error:
            count, problem = len(rows), problem or error.detail
        values = {"rows": rows, "at": at, "pages": pages_of(count), "count": count}
        values |= {"sentences": sentences, "problem": plain(problem), "token": rules.form_token, "receipt": receipt}
        return HTMLResponse(page("history.html", here="runs", part="history", name=name, **values))

    @app.get("/run/{name}/history")
    def history(name: Name, at: Page = 1) -> Response:
        return history_page(name, at)

    def compared_page(name: str, text: str) -> Response:
        try:
            return history_page(name, 1, receipt_of(text))
        except BadMessage as error:
            return history_page(name, 1, problem=error.detail)

    @app.post("/run/{name}/receipt")
    async def compare(request: Request, name: Name) -> Response:
        fields = await fields_of(request, rules)
        return await run_in_threadpool(compared_page, name, fields.get("receipt", ""))


@dataclass(frozen=True)
class RunStep:
    """One step of a run: sender and receiver, its entries, and the page's description of it."""

    kind: str
    title: str
    way: str
    entries: tuple[int, ...]
    says: dict[str, Any]


@dataclass(frozen=True)
class RunSteps:
    """All steps of a run, and what a reader must know before trusting a guarantee in them (empty if nothing)."""

    steps: tuple[RunStep, ...]
    notice: str


def story(entries: Sequence[AnyEntry]) -> RunSteps:
    """Return what each party sees of a run; ``BadData`` if an honest referee would not write these entries."""
    try:
        scenario = parse_resolved(Configuration.parse(entries[0].body["configuration"]).scenario)
        notice = f"People are {SIMULATED}." if scenario.people == "simulated" else ""
        return RunSteps(tuple(_steps(entries, scenario)), notice)
    except (TandemError, LookupError, TypeError, ValueError, AttributeError) as error:
        sentence = error.detail if isinstance(error, TandemError) else repr(error)
        raise BadData(f"the transcript is not one that an honest referee writes ({sentence}); verify it") from None


def _steps(entries: Sequence[AnyEntry], scenario: ResolvedScenario) -> Iterator[RunStep]:
    query, promised = "", ""
    for asking, group in groupby(entries, lambda entry: entry.kind in ("question", "answers")):
        if not asking:
            for entry in group:
                if entry.kind == "terms":
                    promised = promise(PROMISED["curator"], entry.body["terms"]["message"]["guarantee"]).plain
                if entry.kind != "beacon":
                    yield _STEPS[entry.kind](entry, promised)
            continue
        batches: dict[str, list[AnyEntry]] = {}
        for entry in group:
            if entry.kind == "question":
                query = canonical.encode(entry.body["query"]).decode()
            batches.setdefault(query, []).append(entry)
        for batch in batches.values():
            yield _question([entry for entry in batch if entry.kind == "question"], scenario)
            if answers := [entry for entry in batch if entry.kind == "answers"]:
                yield _answers(answers, scenario)


def _configuration(entry: AnyEntry, promised: str) -> RunStep:
    way = "from the referee to the curator and, with each question, to the agents"
    agents = int(entry.body["participants"]["agents"])
    return RunStep(entry.kind, "The rules of the run", way, (entry.index,), {"agents": agents})


def _terms(entry: AnyEntry, promised: str) -> RunStep:
    message = entry.body["terms"]["message"]
    formula = promise(PROMISED["curator"], message["guarantee"]).formula
    says = {"people": int(message["n"]), "formula": formula, "promise": promised}
    return RunStep(entry.kind, "The curator's terms", "from the curator to the referee", (entry.index,), says)


def _operation(entry: AnyEntry, promised: str) -> RunStep:
    request, release = (entry.body[name]["message"] for name in ("request", "release"))
    kind, cost = str(request["operation"]["kind"]), release["result"]["event"]["kind"]
    released = [
        f"a {name} of kind {value['kind']}" if isinstance(value, dict) and "kind" in value else name
        for name, value in release["result"].items()
        if name != "event"
    ]
    says = {"asked": explained("operations").get(kind, kind), "cost": cost, "result": ", ".join(released)}
    says["promise"] = promised
    way = "from the referee to the curator, and back"
    return RunStep(entry.kind, f"The curator's work: {kind}", way, (entry.index,), says)


LONGEST_QUESTION = 900  # most characters shown: a model may have very many rules


def _question(entries: Sequence[AnyEntry], scenario: ResolvedScenario) -> RunStep:
    asked = sum(int(stop) - int(start) for entry in entries for _, start, stop in entry.body["parts"])
    query = parse_query(entries[0].body["query"])
    words = plain(query.asks(names_in(scenario.wire()), 0))
    if len(words) > LONGEST_QUESTION:
        words = f"{words[:LONGEST_QUESTION]} ... (the message below has all of it)"
    formula = explained("queries").get(query.kind, query.kind)
    says = {"asked": asked, "batches": len(entries), "words": words, "formula": formula}
    says["alike"] = isinstance(query, AlikeQuery)
    numbers = tuple(entry.index for entry in entries)
    return RunStep("question", f"A question to {asked:,} agents", "from the referee to the agents", numbers, says)


def _answers(entries: Sequence[AnyEntry], scenario: ResolvedScenario) -> RunStep:
    asked, answered = (sum(int(entry.body[name]) for entry in entries) for name in ("asked", "answered"))
    mechanism, guarantee = scenario.agents.mechanism, scenario.agents.guarantee
    says = {
        "answered": answered,
        "missing": asked - answered,
        "truth": mechanism.truth if isinstance(mechanism, Warner) else None,
        "mechanism": mechanism.name,
        "epsilon": guarantee.epsilon,
        "promise": promise(PROMISED["agent"], guarantee.wire()).plain,
    }
    numbers = tuple(entry.index for entry in entries)
    return RunStep("answers", f"The answers of {answered:,} agents", "from the agents to the referee", numbers, says)


def _result(entry: AnyEntry, promised: str) -> RunStep:
    result = entry.body["result"]
    title, says = f"The result: {plain(str(result['status']))}", {"reason": plain(str(result["reason"]))}
    return RunStep(entry.kind, title, "from the referee to everybody", (entry.index,), says)


_STEPS = {"configuration": _configuration, "terms": _terms, "operation": _operation, "result": _result}
