"""What tests of the audit share: folders read and audited, transcripts changed and signed anew as a referee can."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from common.core import canonical
from common.core.errors import AuditFailed
from common.crypto.identity import Identity, Signed
from common.log.receipts import StoredCheckpoint, signed_checkpoint
from common.log.transcript import SignedEntry, append
from referee.audit.audit import audit
from referee.cli import app

Bodies = list[tuple[str, dict[str, Any]]]


def identity_of(folder: Path) -> Identity:
    return Identity.load_or_create(folder / "state" / "referee" / "identity.key")


def entries_of(run: Path) -> list[SignedEntry]:
    return [SignedEntry.model_validate_json(line) for line in (run / "transcript.jsonl").read_text().splitlines()]


def curator_of(run: Path) -> str:
    """Return the key that signed the terms of a run."""
    return Signed.parse(next(entry for entry in entries_of(run) if entry.kind == "terms").body["terms"]).key


def keys(folder: Path, run: Path) -> tuple[object, ...]:
    """Return the options that give an audit both keys of a run of a bench."""
    return "--referee-key", identity_of(folder).public, "--curator-key", curator_of(run)


def said(*arguments: object) -> tuple[int, str]:
    """Return the exit status of ``referee audit``, and the words that it printed."""
    done = CliRunner().invoke(app, ["audit", *map(str, arguments)])
    return done.exit_code, " ".join(done.output.split())


def says(status: int, words: tuple[str, ...], *arguments: object) -> str:
    """Check how ``referee audit`` ends, and that it prints all these words; return all that it prints."""
    code, output = said(*arguments)
    for each in words:
        assert (code, each in output) == (status, True), (each, output)
    return output


def write_checkpoint(run: Path, signer: Identity, entries: list[SignedEntry], now: int = 0) -> None:
    """Put one checkpoint of a transcript, signed by whoever has the referee's key, in the place of all there are."""
    configuration = entries[0].body.get("configuration") if entries else None
    if not isinstance(configuration, dict):
        return
    said = signed_checkpoint(signer, str(configuration.get("run")), canonical.digest(configuration), entries, now)
    (run / "checkpoints.jsonl").write_bytes(canonical.encode(StoredCheckpoint(checkpoint=said).wire()) + b"\n")


def resign(folder: Path, run: Path, lie: Callable[[Bodies], Bodies]) -> None:
    """Change the transcript as only the referee of a :class:`~tests.support.Bench` can, whose folder this is."""
    resign_as(identity_of(folder), run, lie)


def resign_as(signer: Identity, run: Path, lie: Callable[[Bodies], Bodies]) -> None:
    """Change the transcript as whoever has the referee's key can: every hash and signature is right again."""
    path = run / "transcript.jsonl"
    entries = [SignedEntry.parse(canonical.decode(line.encode())) for line in path.read_text("utf-8").split("\n")[:-1]]
    last: SignedEntry | None = None
    written: list[SignedEntry] = []
    for kind, body in lie([(entry.kind, entry.body) for entry in entries]):
        last = append(last, kind, body, signer)
        written.append(last)
    path.write_text("".join(entry.line() + "\n" for entry in written))
    write_checkpoint(run, signer, written)
    result = json.loads((run / "result.json").read_bytes())
    if last is not None and "result" in last.body:
        result.update(last.body["result"])
    (run / "result.json").write_text(json.dumps(result))


def lie(*changes: Any) -> Callable[[Bodies], Bodies]:
    """Return a change of a transcript.

    Each change is an entry (its index, or its kind and which one of that kind: "question 1"), the way to a place in its
    body, and what is put there; ... takes away what is there, or without a way the entry.
    """

    def changed(bodies: Bodies) -> Bodies:
        for entry, *way, value in changes:
            kind, _, nth = str(entry).partition(" ")
            of_kind = [number for number, (found, _) in enumerate(bodies) if found == kind]
            at = entry if isinstance(entry, int) else of_kind[int(nth or 0)]
            place, last = (bodies[at][1], way[-1]) if way else (bodies, at)
            for step in way[:-1]:
                place = place[step]
            if value is ...:
                del place[last]
            else:
                place[last] = value
        return bodies

    return changed


def cut_short(bodies: Bodies, entries: int, status: str = "failed") -> Bodies:
    """Return the first entries alone, and a result without an answer, as a run that ended there would have it."""
    left, (_, last) = bodies[:entries], bodies[-1]
    asked = sum(int(b) - int(a) for kind, body in left if kind == "question" for _, a, b in body["parts"])
    nothing: dict[str, Any] = {"answer": None, "estimate": None, "rounds": [], "iterations": 0}
    agents = {**last["result"]["agents"], "asked": asked, "answered": 0}
    lost = {"silent": asked, "declined": {}}
    result = {**last["result"], **nothing, "status": status, "reason": "power cut", "agents": agents, "lost": lost}
    return [*left, ("result", {**last, "result": result, "order": last["order"] if asked else {}})]


def caught_of(lies: Mapping[str, tuple[str, Callable[[Bodies], Bodies]]], run: Path, folder: Path) -> None:
    """Check that an audit finds each of these lies, for its reason, that the referee of the folder signs anew."""
    kept = (run / "transcript.jsonl").read_bytes()
    for name, (why, change) in lies.items():
        (run / "transcript.jsonl").write_bytes(kept)
        resign(folder, run, change)
        with pytest.raises(AuditFailed) as failed:
            audit(run)
        assert re.search(why, str(failed.value)), name
