"""What ``referee check`` shows about a table, only to the person who holds it: what a run would use of it."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Literal

from common.core.errors import BadData, BadScenario
from common.data.examining import Examined, TableFinding, examine
from common.data.population import locate
from common.lifetime.recognition import Digester, recognised
from common.scenario.scenario import ResolvedScenario, Scenario

Side = Literal["S", "T"]
SIDES: tuple[Side, ...] = ("S", "T")

PRIVATE = (
    "PRIVATE: this was computed from people's records, without any noise. It is for their keeper alone, and was "
    "written nowhere else: do not put it into a scenario, a ticket or a chat."
)
_HEADINGS = {
    "stops": "A run stops at these:",
    "mistake": "A run goes on with these, and probably not as it was meant:",
    "note": "The public rules say what these become (docs/scenarios.md, Tables):",
}


def sides_of(scenario: Scenario, requested: Side | None) -> tuple[Side, ...]:
    """Return the sides whose tables are to be checked: the requested one, else all that have a table here."""
    why: dict[Side, str] = {}
    for side in SIDES:
        people = scenario.source if side == "S" else scenario.target
        if people.table is not None and people.table.contributed:
            why[side] = f"side {side} of {scenario.name} contributes: each record is checked before it is sent"
        elif people.table is None or scenario.data is None:
            why[side] = f"side {side} of {scenario.name} has simulated people: there is no table to check"
    sides = tuple(side for side in ((requested,) if requested else SIDES) if side not in why)
    if not sides:
        raise BadScenario(why[requested or "S"])
    return sides


def examined(chosen: ResolvedScenario, side: Side) -> Examined:
    """Return the findings in the table of a side, which must have one."""
    people, size = (chosen.source, chosen.curator.n) if side == "S" else (chosen.target, chosen.agents.count)
    if people.table is None or chosen.data is None:
        raise AssertionError("the sides with a table are asked for before")
    return examine(locate(chosen.data), people.table, size)


def document(chosen: ResolvedScenario, tables: Mapping[Side, Examined], sound: bool) -> dict[str, Any]:
    """Return the findings as JSON: of one side, or of S with T under its letter; and whether a run could begin."""
    first, *rest = [_document(side, summary) for side, summary in tables.items()]
    comparison = {"compared": list(compared(chosen, tables))} if rest else {}
    return {"private": PRIVATE, **first, "sound": sound, **{other["side"]: other for other in rest}, **comparison}


def _document(side: Side, summary: Examined) -> dict[str, Any]:
    return {
        "side": side,
        "sound": summary.sound,
        "rows": summary.rows,
        "kept": summary.kept,
        "labels": {"positive": summary.positive, "negative": summary.negative},
        "findings": [asdict(finding) for finding in summary.findings],
    }


def lines(chosen: ResolvedScenario, tables: Mapping[Side, Examined], sound: bool) -> Iterator[str]:
    """Yield the findings, line by line; at the end, whether a run could begin."""
    yield PRIVATE
    for side, summary in tables.items():
        table = (chosen.source if side == "S" else chosen.target).table
        yield from _of_a_side(side, ", ".join(table.files if table is not None else ()), summary)
    comparison = list(compared(chosen, tables))
    if comparison:
        yield "S beside T:"
        yield from (f"  {line}" for line in comparison)
    yield "Nothing stands in the way of a run." if sound else "Fix this before a run."


def compared(chosen: ResolvedScenario, tables: Mapping[Side, Examined]) -> Iterator[str]:
    """Yield the findings that need both tables, if both were examined."""
    if len(tables) < len(SIDES):
        return
    source, target = tables["S"], tables["T"]
    if source.kept > target.kept:
        yield f"S has {source.kept:,} rows, T {target.kept:,}: S are the few who trust the curator; are they swapped?"
    count = on_both_sides(chosen)
    if count:
        yield (
            f"rows of S that T has, too: {count:,}; the ledger takes them for the same people, who spend both sides' "
            "epsilon and are charged for both"
        )

    def columns(side: Examined, kind: str) -> dict[str, int]:
        return {
            finding.column: finding.count
            for finding in side.findings
            if finding.kind == kind and finding.column is not None
        }

    flat = columns(target, "constant")
    for column in columns(source, "constant"):
        if column not in flat:
            yield f"column {column!r} is the same in all rows of S alone: leave it out if that is publicly known"
    for kind, words in (("unlisted", "values that are not listed"), ("missing", "missing values")):
        here = columns(source, kind)
        for column, count in columns(target, kind).items():
            if column not in here:
                yield f"column {column!r} has {words} in T alone ({count:,}): no model of S knows them"


def on_both_sides(chosen: ResolvedScenario) -> int:
    """Return how many rows of S's files the ledger of people recognises among T's: it charges them on both sides.

    0 if both sides read one file (each row is on one side only), if people are simulated (they are not charged), or if
    people cannot be distinguished.
    """
    source, target = chosen.source.table, chosen.target.table
    if source is None or target is None or chosen.data is None or chosen.shares_a_file or chosen.people == "simulated":
        return 0
    folder, digester = locate(chosen.data), Digester(secrets.token_bytes(32))
    with suppress(BadData):
        return int(recognised(digester.people_of(target, folder), digester.people_of(source, folder)).sum())
    return 0


def _of_a_side(side: Side, files: str, summary: Examined) -> Iterator[str]:
    for finding in summary.findings:
        if finding.kind == "clipped" and 2 * finding.count >= summary.kept:
            clipped = f"{finding.count:,} of {summary.kept:,} rows of column {finding.column!r} of {side}"
            yield f"WARNING: the bounds clip {clipped}: people differ in little there; look for a wrong unit"
    labels = f"{summary.positive:,} positive, {summary.negative:,} negative"
    yield f"{side} ({files}): {summary.rows:,} rows, {summary.kept:,} kept, {labels}"
    for severity, heading in _HEADINGS.items():
        here = [finding for finding in summary.findings if finding.severity == severity]
        if here:
            yield heading
            for finding in here:
                yield f"  {_place(finding)}: {finding.what}"
                yield f"    -> {finding.remedy}"


def _place(finding: TableFinding) -> str:
    where = [finding.file] if finding.file else []
    where += [f"column {finding.column!r}"] if finding.column else []
    if finding.lines:
        named = ", ".join(str(line) for line in finding.lines)
        more = ", ..." if finding.count > len(finding.lines) else ""
        where.append(f"{finding.count:,} row{'s' if finding.count != 1 else ''} (line {named}{more})")
    return ", ".join(where) or "the table"
