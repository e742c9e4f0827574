"""Run folders that somebody hands over, for the fuzzer: changed at random, read by all that reads one.

:func:`read_folder` has every reader of a run folder read one in this process, as ``referee audit``, ``report``,
``model`` and the page do. :class:`Folders` makes changed folders of a valid one: bytes, trees, kinds of files, and
transcripts that are signed anew, as their referee can. :func:`fuzz_folders` tries so many of them, and counts as
:mod:`benchmarks.fuzz.campaign` does.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from benchmarks.fuzz.campaign import SECONDS, Counts, Finding, TooLong, bounded
from benchmarks.fuzz.corpus import FINISHED, Corpus
from benchmarks.fuzz.mutation import Mutator
from common.core import canonical
from common.core.errors import TandemError
from common.crypto.identity import Identity
from common.log.transcript import SignedEntry, append
from referee.audit.audit import audit
from referee.audit.history import kept_in
from referee.runfolder import pack_reports, read_file, write_run
from referee.service.referee import public
from referee.view import models
from referee.view.audited import audit_document, audit_lines
from referee.view.pages import view_of, write_report
from tandem.ui.folders import RunFolders, Transcript, checkpoint_row, history_checked, story

OUTSIDE = "outside"
"""Beside the folder: what its links lead to."""


def read_folder(folder: Path) -> dict[str, str]:
    """Have every reader read a run folder; return how each ended: ``read``, or the name of an error of Tandem's.

    Raises:
        Exception: Whatever else a reader raises, which is a finding.
    """
    return {name: _ended(reader, folder) for name, reader in READERS.items()}


def _ended(reader: Callable[[Path], object], folder: Path) -> str:
    try:
        reader(folder)
    except TandemError as error:
        if "\n" in error.detail.strip():
            raise AssertionError(f"a refusal of several lines: {error.detail!r}") from None
        return type(error).__name__
    return "read"


def _audit(folder: Path) -> None:
    found = audit(folder)
    json.dumps(audit_document(found))
    list(audit_lines(found))


def _report(folder: Path) -> None:
    write_report(folder.parent / "report.html", [view_of(folder)])


def _listed(folder: Path) -> None:
    RunFolders(folder.parent).listed()
    RunFolders(folder).view(folder.absolute().name)


def _transcript(folder: Path) -> None:
    found = Transcript(read_file(folder, "transcript.jsonl"))
    found.listed(0)
    for index in range(min(3, len(found.lines))):
        found.pretty(index)


def _history(folder: Path) -> None:
    kept = kept_in(folder)
    [checkpoint_row(each) for each in kept]
    history_checked(folder, Transcript(read_file(folder, "transcript.jsonl")).entries())


READERS: dict[str, Callable[[Path], object]] = {
    "audit": _audit,
    "report": _report,
    "model": lambda folder: models.model_text(models.open_model(folder)),
    "page": _listed,
    "page of a transcript": _transcript,
    "page of a history": _history,
    "page of the parties": lambda folder: story(Transcript(read_file(folder, "transcript.jsonl")).entries()),
}
"""All that reads a run folder."""


class Folders:
    """Changed copies of one run folder, the same ones for the same seed.

    Args:
        run: A valid run folder.
        referee: Its referee's key, with which transcripts are signed anew.
        seed: Of all choices.
        place: A folder for the copies.

    Attributes:
        random: Draws all choices.
    """

    def __init__(self, run: Path, referee: Identity, seed: int | str, place: Path) -> None:
        self._run, self._referee, self._place = run, referee, place
        self.random = Mutator(f"{seed} folders").random
        self._mutator = Mutator(f"{seed} files")
        self._names = sorted(
            str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and "state" not in path.parts
        )

    def changed(self) -> Iterator[Path]:
        """Yield changed folders without end; each is gone when the next one comes."""
        while True:
            folder = self._place / "run"
            shutil.rmtree(self._place, ignore_errors=True)
            shutil.copytree(self._run, folder, ignore=shutil.ignore_patterns("state", "report.html"))
            (self._place / OUTSIDE).write_bytes(b"{}")
            for _ in range(self.random.choice((1, 1, 1, 2, 3))):
                self._change(folder)
            yield folder

    def _change(self, folder: Path) -> None:
        name = self.random.choice(self._names)
        path = folder / name
        if self.random.random() < 0.3:
            self._sign_anew(folder)
        elif self.random.random() < 0.2:
            self._replace(path)
        elif not _own(path):
            return
        elif path.suffix in (".json", ".yaml") and self.random.random() < 0.7:
            path.write_bytes(self._written(path))
        else:
            path.write_bytes(self._mutator.raw(path.read_bytes()))

    def _written(self, path: Path) -> bytes:
        try:
            tree = yaml.safe_load(path.read_bytes()) if path.suffix == ".yaml" else json.loads(path.read_bytes())
        except (ValueError, yaml.YAMLError, RecursionError):
            return self._mutator.raw(path.read_bytes())
        return self._mutator.written(tree)

    def _replace(self, path: Path) -> None:
        """Put something else in the place of a file."""
        with suppress(OSError):
            path.unlink()
        with suppress(OSError):
            match self.random.randrange(7):
                case 0:
                    path.symlink_to("/dev/zero")
                case 1:
                    path.symlink_to(self._place / OUTSIDE)
                case 2:
                    os.mkfifo(path)
                case 3:
                    path.mkdir()
                case 4:
                    path.touch()
                    os.truncate(path, 1 << 40)
                case 5:
                    with socket.socket(socket.AF_UNIX) as one:
                        one.bind(str(path))
                case _:
                    pass

    def _sign_anew(self, folder: Path) -> None:
        """Change an entry of the transcript, and sign it and all that follow, as a referee that lies does."""
        path = folder / "transcript.jsonl"
        if not _own(path):
            return
        try:
            entries = [SignedEntry.parse(canonical.decode(line)) for line in path.read_bytes().split(b"\n") if line]
        except TandemError:
            return
        at = self.random.randrange(len(entries)) if entries else 0
        last: SignedEntry | None = None
        lines = []
        for number, entry in enumerate(entries):
            body = self._mutator.tree(entry.body) if number == at else entry.body
            try:
                last = append(last, entry.kind, body if isinstance(body, dict) else {"": body}, self._referee)
                lines.append(last.line())
            except (TandemError, ValueError):  # what has no canonical form cannot be signed
                return
        path.write_text("".join(line + "\n" for line in lines))
        with suppress(OSError):
            (folder / "checkpoints.jsonl").unlink()


def run_folder(corpus: Corpus, folder: Path) -> Path:
    """Write the folder of the corpus's run."""
    referee = corpus.referee
    store = referee.store
    reports = [(each.question, pack_reports(store.reports(each))) for each in store.questions(FINISHED)]
    document = {**(store.run(FINISHED).result or {}), "truth": None, "peak_memory_bytes": 0, "run": str(folder)}
    left = corpus.transcript.decode(), referee.participants(FINISHED), reports, tuple(referee.kept(FINISHED))
    write_run(folder, public(corpus.chosen), document, *left)
    return folder


def _own(path: Path) -> bool:
    """Tell whether a file is still one of the valid folder, whose bytes may be changed."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24


def fuzz_folders(
    folders: Folders, count: int, seconds: float = float("inf"), *, each: int = len(READERS)
) -> tuple[dict[str, Counts], list[Finding]]:
    """Try so many changed folders; return what became of them by reader, and the findings.

    Args:
        seconds: After which it ends, if that comes first.
        each: How many readers, drawn at random, read each folder.
    """
    found = {name: Counts() for name in READERS}
    findings: list[Finding] = []
    until = time.monotonic() + seconds
    for number, folder in enumerate(folders.changed()):
        if number == count or time.monotonic() > until:
            break
        for name, reader in folders.random.sample(list(READERS.items()), each):
            counts, problem, began = found[name], "", time.process_time()
            try:
                with bounded():
                    ended = _ended(reader, folder)
                counts.read += ended == "read"
                counts.refused.update([ended] * (ended != "read"))
            except TooLong:
                problem = "was given up"
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                problem = "".join(traceback.format_exception(error)[-3:]).strip()
            took = time.process_time() - began
            counts.inputs += 1
            counts.seconds += took
            counts.slowest_ms = max(counts.slowest_ms, took * 1e3)
            if took > SECONDS:
                problem = problem or f"took {took:.1f} s"
            if problem:
                findings.append(Finding(f"folder {number}, {name}", problem, ""))
    return found, findings
