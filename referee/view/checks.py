"""What ``referee check`` shows of a table, to its owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from common.people.tables.input.examining import Examined, Finding

PRIVATE = (
    "PRIVATE: this was computed from people's records, without any noise. It is for their keeper alone, and was "
    "written nowhere else: do not put it into a scenario, a ticket or a chat."
)
_HEADINGS = {
    "stops": "A run stops at these:",
    "mistake": "A run goes on with these, and probably not as it was meant:",
    "note": "The public rules say what these become (docs/scenarios.md, Tables):",
}


def document(side: str, found: Examined) -> dict[str, Any]:
    """Return what was found as JSON."""
    return {
        "private": PRIVATE,
        "side": side,
        "sound": found.sound,
        "rows": found.rows,
        "kept": found.kept,
        "labels": {"positive": found.positive, "negative": found.negative},
        "findings": [asdict(finding) for finding in found.findings],
    }


def lines(side: str, files: str, found: Examined) -> Iterator[str]:
    """Yield what was found, line by line."""
    yield PRIVATE
    labels = f"{found.positive:,} positive, {found.negative:,} negative"
    yield f"{side} ({files}): {found.rows:,} rows, {found.kept:,} kept, {labels}"
    for severity, heading in _HEADINGS.items():
        here = [finding for finding in found.findings if finding.severity == severity]
        if here:
            yield heading
            for finding in here:
                yield f"  {_place(finding)}: {finding.what}"
                yield f"    -> {finding.remedy}"
    yield "Nothing stands in the way of a run." if found.sound else "Mend this before a run."


def _place(finding: Finding) -> str:
    where = [finding.file] if finding.file else []
    where += [f"column {finding.column!r}"] if finding.column else []
    if finding.lines:
        named = ", ".join(str(line) for line in finding.lines)
        more = ", ..." if finding.count > len(finding.lines) else ""
        where.append(f"{finding.count:,} row{'s' if finding.count != 1 else ''} (line {named}{more})")
    return ", ".join(where) or "the table"
