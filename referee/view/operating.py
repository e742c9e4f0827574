"""What an operator reads of a referee's runs: plain lines, in which nothing of a peer's text is a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from common.core.plain import plain
from common.log.transcript import Entry


def runs_table(runs: Sequence[dict[str, Any]]) -> str:
    """Return a table of runs: name, scenario, how it stands, what it waits for."""
    if not runs:
        return "there is no run here"
    names = ("run", "scenario", "status", "waits_for")
    rows = [("run", "scenario", "status", "waits for"), *(tuple(plain(run[name]) for name in names) for run in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def ended(run: str, result: dict[str, Any]) -> str:
    """Say how a run has ended."""
    return plain(f"run {run} {result.get('status')}: {result.get('reason')}")


def logged(entries: Sequence[Entry], notes: Sequence[str]) -> Iterator[str]:
    """Return a line for each entry of a transcript, and for each thing that the run has said of its progress."""
    for entry in entries:
        yield plain(f"{entry.index:>5}  {entry.kind:<13}  {in_words(entry)}".rstrip())
    for note in notes:
        yield plain(f"       progress       {note}")


def in_words(entry: Entry) -> str:
    """Say in a few words what an entry of a transcript holds, whoever wrote it."""
    try:
        return _said(entry)
    except (ValueError, TypeError, AttributeError):
        return "cannot be read"


def _said(entry: Entry) -> str:
    body = entry.body
    if entry.kind == "configuration":
        who = body.get("participants", {})
        return f"{who.get('agents')} agents of {who.get('count')} participants are enrolled"
    if entry.kind == "terms":
        terms = body.get("terms", {}).get("message", {})
        return f"the curator of {terms.get('n')} people agrees"
    if entry.kind == "beacon":
        return f"{len(body.get('words', {}).get('witnessed', []))} witnesses take part in the order of agents"
    if entry.kind == "operation":
        message = body.get("request", {}).get("message", {})
        return f"{message.get('operation_id')}: {message.get('operation', {}).get('kind')}"
    if entry.kind == "question":
        asked = sum(int(stop) - int(start) for _, start, stop in body.get("parts", []))
        return f"{body.get('question')}: {body.get('query', {}).get('kind')}, {asked:,} agents are asked"
    if entry.kind == "answers":
        return f"{body.get('question')}: {body.get('answered'):,} of {body.get('asked'):,} agents answered"
    if entry.kind == "result":
        result = body.get("result", {})
        return f"{result.get('status')}: {result.get('reason')}"
    return ""
