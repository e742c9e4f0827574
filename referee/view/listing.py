"""The output of ``referee list``, ``runs`` and ``logs``; imports nothing that only runs need, to start fast."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.padding import Padding

from common.core.plain import command, plain
from common.core.terminal import console, styled
from common.log.transcript import SignedEntry
from scenarios import Heading

_OUT = console()


def overview(shipped: Sequence[str], registered: Mapping[str, Sequence[str]]) -> None:
    """Print what is available: a line for each kind, with its names and their number."""
    for noun, names in {"scenarios": shipped, **registered}.items():
        _OUT.print(f"{noun}: {', '.join(names)} ({len(names)})", soft_wrap=True)
    _OUT.print("More of one kind: referee list scenarios, referee list learners, ...")
    _OUT.print("Next: referee plan NAME (what it needs), referee run NAME (do it)")


def scenarios(shipped: Sequence[Heading]) -> None:
    """Print all scenarios, each with what it demonstrates."""
    for scenario in shipped:
        _OUT.print(styled((scenario.name, "bold"), (f"  {scenario.title}", "")), soft_wrap=True)
        for paragraph in scenario.description.strip().split("\n\n"):
            text = styled((" ".join(paragraph.split()), "dim"))
            _OUT.print(Padding(text, (0, 0, 1, 2)))


def entries(explained: Mapping[str, str]) -> None:
    """Print the names of one kind, each with a sentence that explains it."""
    for name, sentence in explained.items():
        _OUT.print(styled((name, "bold"), (f"  {sentence}", "")), soft_wrap=True)


def runs_table(runs: Sequence[dict[str, Any]]) -> str:
    """Return a table of runs: name, scenario, status, and what it waits for or, once it has ended, its verdict."""
    if not runs:
        return "there is no run here"
    rows = [("run", "scenario", "status", "waits for, or has shown")]
    for run in runs:
        ended = "ended" if run["status"] in ("done", "exhausted") else run["status"]
        rows.append((run["run"], run["scenario"], ended, run["waits_for"] or run["verdict"]))
    cells = [tuple(plain(text) for text in row) for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(rows[0]))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return "\n".join((*lines, *filter(None, map(_what_to_do, runs))))


_WAITING = (
    (re.compile("agents: .* wanted"), "start more agents (local-agent host, local-agent answer)"),
    (
        re.compile("agents: .* on question"),
        "start agents again that have stopped; who is silent is left out in the end",
    ),
    (re.compile("agents that runs"), "it begins once those runs have ended"),
    (re.compile("the curator"), "start its curator again, with the same --state (curator serve)"),
)
"""What a run may wait for, and what to do about it."""


def _what_to_do(run: Mapping[str, Any]) -> str:
    remedy = next((remedy for waits, remedy in _WAITING if waits.match(run["waits_for"])), "")
    return f"{plain(run['run'])}: {remedy}; or end it: {command('referee', 'cancel', run['run'])}" if remedy else ""


def logged(entries: Sequence[SignedEntry], notes: Sequence[str]) -> Iterator[str]:
    """Yield a line for each entry of a transcript, and for each progress note of the run."""
    for entry in entries:
        yield plain(f"{entry.index:>5}  {entry.kind:<13}  {in_words(entry)}".rstrip())
    for note in notes:
        yield plain(f"       progress       {note}")


def in_words(entry: SignedEntry) -> str:
    """Return in a few words what an entry of a transcript holds; the entry may come from an untrusted party."""
    try:
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
    except (ValueError, TypeError, AttributeError):
        return "cannot be read"
