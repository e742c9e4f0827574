"""Probabilities and costs on real shifts: the quality of the portfolio's odds on people of T who were not asked.

    python -m benchmarks.real.probabilities [--shift NAME]... [--splits 10] [--data DIR] [--output FILE]

The cost ratio of a miss to a false alarm is that of negatives to positives in T, so that both constant predictions cost
the same. For each shift of ``benchmarks.real`` and five with rare labels (two are of data that DIR need not have: they
are skipped if it has not), at epsilon = 1 on both sides: the cost of a hundred people, and the mean log loss of the
probabilities beside that of T's share of +1, which is the best constant probability. It takes some minutes. FILE gets
the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import polars

from benchmarks.figures.store import origin
from benchmarks.real.datasets import SHELF
from benchmarks.real.methods import METHODS, Split, logistic
from benchmarks.real.running import facts, split
from benchmarks.real.shifts import OPTIONAL_SHIFTS, SHIFTS, Both, Shift, by_name, load, rows, table
from common.data.loading import encode
from common.local.hypotheses.composed import above
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.rules import Constant
from common.local.losses import Costs
from common.local.records import Records
from common.scenario.loading import altered
from common.scenario.plan import resolve
from deploy.simulation import conduct

RESULT = Path(__file__).parent.parent / "results" / "probabilities.md"
EPSILON = 1.0


@dataclass(frozen=True)
class Rare:
    """A shift with another, rare label: ``positive`` returns which rows of a table have it."""

    name: str
    words: str
    of: str
    positive: Callable[[polars.DataFrame], polars.Series]


RARE = (
    Rare("flights-two-hours", "flights-winter: two hours late", "flights-winter", lambda rows: rows["arr_delay"] > 120),
    Rare("flights-an-hour", "flights-lga: an hour late", "flights-lga", lambda rows: rows["arr_delay"] > 60),
    Rare("wind-strong", "wind-seasons: above 25 knots", "wind-seasons", lambda rows: rows["MAL"] > 25),
)


class Worth(NamedTuple):
    """The result of one split: mean costs of a person, and the log losses of the portfolio and of T's share of +1."""

    constant: float
    source: float
    portfolio: float
    target: float
    log_loss: float
    base: float


def people_of(which: Shift | Rare, data: Path) -> tuple[Shift, Both]:
    """Return the shift, and the records of both sides with its labels."""
    if isinstance(which, Shift):
        return which, load(which, data)
    shift = by_name(which.of)
    frame, source = rows(shift, data), table(shift)
    sides = []
    for side in (shift.source, shift.target):
        kept = frame.filter(polars.Series(side(frame)))
        labels = np.where(which.positive(kept).to_numpy(), np.int8(1), np.int8(-1))
        sides.append(Records(encode(kept, source), labels).check())
    return shift, Both(*sides)


def has_data(which: Shift | Rare, data: Path) -> bool:
    """Return whether a shift can be measured: False if its files are optional and missing."""
    return which not in OPTIONAL_SHIFTS or (isinstance(which, Shift) and (data / which.data).is_dir())


def costs_of(share: float) -> Costs:
    """Return costs, in tenths, with which both constants cost the same if this share of people has +1."""
    odds = (1.0 - share) / share
    return Costs(miss=max(1.0, round(odds, 1)), false_alarm=max(1.0, round(1.0 / odds, 1)))


def measured(shift: Shift, people: Both, costs: Costs, splits: int) -> Iterator[Worth]:
    """Yield the result of each split."""
    known = facts(shift, people, None)
    scenario = METHODS["portfolio"].scenario(shift, known.n, known.agents, EPSILON)
    assert scenario is not None
    plan = resolve(altered(scenario, [f"agents.costs={json.dumps(costs.wire())}"]))
    for seed in range(splits):
        one = split(shift, people, seed)
        outcome = conduct(plan, seed, lambda round_, hypothesis: None, records=(one.volunteers, one.agents))
        assert outcome.calibrated is not None, shift.name
        labels = one.judges.labels > 0
        odds = np.where(labels, 1.0, -1.0) * outcome.calibrated.margins(one.judges.features)
        share = float(labels.mean())
        yield Worth(
            constant=min(_cost(Constant(label=label), one, costs) for label in (-1, 1)),
            source=_cost(above(logistic(one.volunteers), costs.odds), one, costs),
            portfolio=_cost(outcome.hypothesis, one, costs),
            target=_cost(above(logistic(one.agents), costs.odds), one, costs),
            log_loss=float(np.logaddexp(0.0, -odds).mean()),
            base=-share * np.log(share) - (1.0 - share) * np.log(1.0 - share),
        )


def _cost(answer: Hypothesis, people: Split, costs: Costs) -> float:
    """Return the mean cost on the people who evaluate answers."""
    wrong, positive = answer.mistakes(people.judges), people.judges.labels > 0
    return float((wrong * np.where(positive, costs.miss, costs.false_alarm)).mean())


def line(which: Shift | Rare, share: float, costs: Costs, found: list[Worth]) -> str:
    """Return a row of the table: costs of a hundred people, and log losses."""
    mean = Worth(*map(fmean, zip(*found, strict=True)))
    worse = sum(one.log_loss > one.base for one in found)
    ratio = f"{costs.miss:g} to {costs.false_alarm:g}"
    cells = [f"{100.0 * value:.1f}" for value in mean[:4]] + [f"{value:.3f}" for value in mean[4:]]
    name = f"`{which.name}`" if which in SHIFTS else which.words
    return f"| {name} | {100.0 * share:.1f} | {ratio} | {' | '.join(cells)} | {worse} of {len(found)} |"


HEAD = """# Probabilities and costs on real shifts

Mean of {splits} splits, epsilon = 1 on both sides: what a hundred people of T cost who answered nothing, and the log
loss of the probabilities. `python -m benchmarks.real.probabilities` writes this page.

Measured by Tandem {version}, commit `{commit:.12}`, {machine}.

| shift | +1 in T, % | miss to false alarm | constant | S in the clear | portfolio | T in the clear | log loss \
| of T's share | worse splits |
|---|---:|---|---:|---:|---:|---:|---:|---:|---:|"""


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the table."""
    parser = argparse.ArgumentParser(description="Probabilities and costs on real shifts.")
    every: tuple[Shift | Rare, ...] = (*SHIFTS, *RARE, *OPTIONAL_SHIFTS)
    shifts = {shift.name: shift for shift in every}
    parser.add_argument("--shift", action="append", choices=list(shifts))
    parser.add_argument("--splits", type=int, default=10, help="splits of each shift (10)")
    parser.add_argument("--data", type=Path, default=SHELF, help="where data sets lie")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE", help="of the table")
    chosen = parser.parse_args(arguments)
    lines = [HEAD.format(splits=chosen.splits, **origin())]
    print(lines[0])
    absent = [] if chosen.shift else [name for name in shifts if not has_data(shifts[name], chosen.data)]
    for name in absent:
        print(f"{name}: skipped, its files are not in {chosen.data}", file=sys.stderr)
    for name in chosen.shift or [name for name in shifts if name not in absent]:
        shift, people = people_of(shifts[name], chosen.data)
        share = float(np.mean(people.target.labels > 0))
        costs = costs_of(share)
        lines.append(line(shifts[name], share, costs, list(measured(shift, people, costs, chosen.splits))))
        print(lines[-1], flush=True)
    chosen.output.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
