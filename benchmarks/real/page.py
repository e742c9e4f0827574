"""Write the page of results; every number is computed from the rows, so a new run can update it."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures.store import ORIGIN
from benchmarks.real.methods import METHODS, SERVICES
from benchmarks.real.pictures import draw
from benchmarks.real.provenance import DEMANDED
from benchmarks.real.running import Row
from benchmarks.real.shifts import SHIFTS, Shift
from benchmarks.real.verdicts import CLOSED, DISTANCE, Relation, Verdict, verdict

LARGE, FEW = 0.05, 5_000
"""Least difference of label shares that counts as different, and most agents that count as few."""

Cells = dict[str, Row]
"""Rows of one shift and one epsilon, by method."""


def write(rows: list[Row], page: Path, pictures: Path) -> None:
    """Write the page and its pictures."""
    shown = largest(rows)
    for shift in _shifts(shown):
        draw([row for row in shown if row["shift"] == shift.name], pictures / f"{shift.name}.svg")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text(rows, Path(os.path.relpath(pictures, page.parent)).as_posix()))


def largest(rows: list[Row]) -> list[Row]:
    """Return the rows with the most agents of each shift, and of these, those with the most requested splits."""
    most = {row["shift"]: max(r["agents"] for r in rows if r["shift"] == row["shift"]) for row in rows}
    found: dict[tuple[str, str, float], Row] = {}
    for row in rows:
        if row["agents"] == most[row["shift"]]:
            place = (row["shift"], row["method"], row["epsilon"])
            if place not in found or row["asked"] >= found[place]["asked"]:
                found[place] = row
    return list(found.values())


def text(rows: list[Row], pictures: str) -> str:
    """Return the page; ``pictures`` is the folder of its pictures, relative to the page."""
    shown = largest(rows)
    splits = sorted({row["asked"] for row in shown})
    parts = [
        _OPENING.format(
            splits=" or ".join(map(str, splits)) or "no",
            methods="\n".join(f"| `{name}` | {method.words} |" for name, method in METHODS.items()),
            shifts=_people(shown),
            distance=_points(DISTANCE),
            closed=f"{CLOSED:.0%}",
        ),
        _measured(shown),
        _expect(shown),
        *(_demands(shown, method) for method in SERVICES),
        _table(shown, DEMANDED),
        _scales(rows),
        "## Shift by shift\n",
        *(_shift(shown, shift, pictures) for shift in _shifts(shown)),
    ]
    return "\n".join(part for part in parts if part)


_OPENING = """# Real shifts: what to expect for data like yours

Volunteers differ from the population. This page shows what each way to an answer was worth where records are real: the
loss on the population, from {splits} splits of each data set. The first of these commands measures what is missing in
`benchmarks/results/real.jsonl` (half an hour on two cores; `--again` measures all anew); the second writes this page,
only from rows that the present code reproduces (some minutes):

    python -m benchmarks.real
    python -m benchmarks.real --page benchmarks/results/real.md --pictures docs/pictures/real

## What is compared

Every split draws anew who the volunteers are, and divides T's people: a third are judges, who only tell how good an
answer is, and the others are the agents. n and N below are how many volunteers and agents the data have. Both sides
have the same epsilon; the curator's delta is 1e-6, and each agent gives one bit. Intervals are Student's at 95%
over splits; splits share people, so an interval is about the draw of the split and of the noise, and says nothing
about people of another year.

{shifts}

| method | what it is |
|---|---|
{methods}

* `constant` knows which label is more frequent among the judges, which no private answer knows for sure.
* One model is learned by `full-batch` gradients ([learners](../../docs/learners.md)); where the sample is reweighed
  (`str`) it is `sgd`, in four rounds. The theorem plans 122 rounds for alpha = .2, which share one budget, and nearly
  always err more (`python -m benchmarks.real.theorem`, ten minutes). Its assumptions hold on none of these shifts.
* `private-optimum` is what the same learner and budget could do, were the volunteers people of T. Where T has fewer
  agents than there are volunteers they are drawn *with replacement*, which the tables mark with *.
* `balance` and `balance-propensity` see records in the clear, but no agent's label (`benchmarks/real/balance.py`).
  `optimum` sees all agents' records with their labels.
* The people are public data, so nobody's budget is spent.
"""


def _measured(rows: list[Row]) -> str:
    """Return which code and machines measured the rows, as far as the rows state it."""
    found = sorted({tuple(row[ORIGIN].values()) for row in rows if ORIGIN in row})
    lines = [f"* Tandem {version}, commit `{of[:12]}`{of[40:]}, {machine}." for version, of, machine in found]
    return "\n".join(["Measured by\n", *lines, ""]) if lines else ""


def _people(rows: list[Row]) -> str:
    lines = ["| shift | n | N | share of +1 in S | in T |", "|---|---:|---:|---:|---:|"]
    for shift in _shifts(rows):
        row = next(row for row in rows if row["shift"] == shift.name)
        shares = f"{_points(row['share_source'])} | {_points(row['share_target'])}"
        lines.append(f"| `{shift.name}`: {shift.words} | {row['n']:,} | {row['agents']:,} | {shares} |")
    return "\n".join(lines)


def _expect(rows: list[Row]) -> str:
    found = _verdicts(rows, SERVICES[0])
    if not found:
        return ""
    by_shift = {row["shift"]: row for row in rows}

    def moved(one: Verdict) -> bool:
        row = by_shift[one.shift]
        return bool(abs(row["share_source"] - row["share_target"]) >= LARGE)

    def few(one: Verdict) -> bool:
        return bool(by_shift[one.shift]["agents"] <= FEW)

    lines = [
        "## What to expect\n",
        f"All of this is about `{SERVICES[0]}` at epsilon = {DEMANDED:g} on both sides, in points of the loss, "
        "beside the best of curator alone, agents alone and the constant. Find the line that is like your data.\n",
        _group(found, f"label shares of S and T differ by {_points(LARGE)} points or more", moved),
        _group(found, f"label shares differ by less than {_points(LARGE)} points", lambda one: not moved(one)),
        _group(found, f"N is {FEW:,} at most", few),
        _group(found, f"N is above {FEW:,}", lambda one: not few(one)),
    ]
    lines += ["\nWhich candidate won, over all shifts and splits: " + _chosen(rows) + ".\n"]
    lines += [
        "A stated gap bounds by how much the answer's loss exceeds that of its rival, with probability 1 - beta. With "
        "few agents it is wide, and the answer may still be good. `referee plan` states it beforehand.\n"
    ]
    return "\n".join(line for line in lines if line)


def _group(found: list[Verdict], words: str, belongs: Callable[[Verdict], bool]) -> str:
    group = [one for one in found if belongs(one)]
    if not group:
        return ""
    gained = [one.gained for one in group]
    gaps = statistics.mean(one.gap for one in group)
    named = ", ".join(f"`{one.shift}`" for one in group)
    return (
        f"* **{words}** ({named}): {_signed(statistics.mean(gained))} points gained on average, "
        f"{_signed(min(gained))} at worst, {_signed(max(gained))} at best; the stated gap is {_points(gaps)} on "
        "average."
    )


def _chosen(rows: list[Row]) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        if row["method"] == SERVICES[0] and row["epsilon"] == DEMANDED:
            for name, count in row.get("chosen", {}).items():
                counts[name] = counts.get(name, 0) + count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count} times" for name, count in ordered)


_RELATIONS: dict[Relation, str] = {"better": "better", "open": "not told apart", "worse": "worse"}


def _demands(rows: list[Row], method: str) -> str:
    found = _verdicts(rows, method)
    if not found:
        return ""
    far = [one for one in found if one.closed is not None]
    near = sum(one.closed is not None and one.closed >= CLOSED for one in far)
    wide = sum(one.gap > one.best_loss for one in found)
    within = sum(-one.gained <= one.gap for one in found)
    counts = {relation: sum(one.relation == relation for one in found) for relation in _RELATIONS}
    lines = [
        f"## `{method}` beside two demands, epsilon = {DEMANDED:g}\n",
        f"*Not worse than one side alone, or the constant.* Of {len(found)} shifts it is better in {counts['better']}, "
        f"worse in {counts['worse']}, and these splits do not tell in {counts['open']}. An answer is better where the "
        "95% interval of what it gained, split by split, is above 0, and worse where it is below 0. The mean loss "
        "exceeds that of the best without it by "
        f"no more than the mean stated gap in {within} of {len(found)}. In {wide} the stated gap is wider than the "
        "loss of the best without it: there the agents are too few to guarantee anything, and the run says so.\n",
        f"*At least {CLOSED:.0%} of the way from the private source model to the private optimum, in half of the "
        f"shifts where that way is longer than {_points(DISTANCE)} points.* It is longer in {len(far)}, and in {near} "
        "of these so much is closed.\n",
        "| shift | best without it | loss | its loss | gained, and 95% | stated gap | verdict | way | closed |",
        "|---|---|---:|---:|---:|---:|---|---:|---:|",
    ]
    for one in found:
        between = "" if one.low is None or one.high is None else f" ({_signed(one.low)} to {_signed(one.high)})"
        way = "" if one.distance is None else _signed(one.distance)
        closed = "" if one.closed is None else f"{one.closed:.0%}"
        lines.append(
            f"| `{one.shift}` | `{one.best}` | {_points(one.best_loss)} | {_points(one.loss)} "
            f"| {_signed(one.gained)}{between} | {_points(one.gap)} | {_RELATIONS[one.relation]} | {way} | {closed} |"
        )
    return "\n".join([*lines, ""])


def _table(rows: list[Row], epsilon: float) -> str:
    lines = [
        f"## Loss on T in percent, epsilon = {epsilon:g}\n",
        "| shift | " + " | ".join(f"`{name}`" for name in METHODS) + " |",
        "|---" * (1 + len(METHODS)) + "|",
    ]
    for shift in _shifts(rows):
        cells = _cells(rows, shift, epsilon)
        if cells:
            lines.append(f"| `{shift.name}` | " + " | ".join(_cell(cells.get(name)) for name in METHODS) + " |")
    return "\n".join([*lines, ""])


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if not row["splits"]:
        return "refused"
    again = "*" if row["method"] == "private-optimum" and row["agents"] < row["n"] else ""
    between = "" if row["low"] is None else f" ({_points(row['low'])} to {_points(row['high'])})"
    return f"{_points(row['mean'])}{again}{between}"


def _scales(rows: list[Row]) -> str:
    """Return the table over N, if some rows have fewer agents than the data."""
    all_agents = {(row["shift"], row["agents"]) for row in rows}
    several = [shift for shift in _shifts(rows) if sum(name == shift.name for name, _ in all_agents) > 1]
    if not several:
        return ""
    lines = [
        f"## Fewer agents, epsilon = {DEMANDED:g}\n",
        "| shift | N | " + " | ".join(f"`{name}`" for name in SERVICES) + " | stated gap of the first |",
        "|---|---:|" + "---|" * (len(SERVICES) + 1),
    ]
    for shift in several:
        for agents in sorted(count for name, count in all_agents if name == shift.name):
            cells = _cells([row for row in rows if row["agents"] == agents], shift, DEMANDED)
            gap = cells[SERVICES[0]].get("gap") if SERVICES[0] in cells else None
            losses = " | ".join(_cell(cells.get(name)) for name in SERVICES)
            lines.append(f"| `{shift.name}` | {agents:,} | {losses} | {'' if gap is None else _points(gap)} |")
    return "\n".join([*lines, ""])


def _shift(rows: list[Row], shift: Shift, pictures: str) -> str:
    lines = [f"![{shift.words}: loss on T over epsilon]({pictures}/{shift.name}.svg)\n"]
    refused = sorted(
        {(row["method"], row["refused"]) for row in rows if row["shift"] == shift.name and "refused" in row}
    )
    lines += [f"* `{name}` is refused: {why}" for name, why in refused]
    return "\n".join([*lines, ""])


def _verdicts(rows: list[Row], method: str) -> list[Verdict]:
    found = (verdict(_cells(rows, shift, DEMANDED), method) for shift in _shifts(rows))
    return [one for one in found if one is not None]


def _cells(rows: list[Row], shift: Shift, epsilon: float) -> Cells:
    return {row["method"]: row for row in rows if (row["shift"], row["epsilon"]) == (shift.name, epsilon)}


def _shifts(rows: list[Row]) -> list[Shift]:
    names = {row["shift"] for row in rows}
    return [shift for shift in SHIFTS if shift.name in names]


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}"
