"""Which portfolio fits which sizes: what stands behind the thresholds of ``common/scenario/fitting.py``.

    python -m benchmarks.fitting [--splits 8] [--data DIR] [--json]

Two real shifts, 4,000 volunteers, epsilon 1 on both sides, more and more agents: the curator's model as it is, judged
with the constants, and with its recalibration besides. Then simulated people: one model, or two at half the budget
each. Printed are mean 0/1 losses on T over splits or seeds, and beside each row what `referee plan` would take. Four
minutes of one core; the first part needs the data sets (--data, else TANDEM_DATA, else ../shared/data) and is left out
without them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.real.methods import METHODS, Method, Served
from benchmarks.real.running import facts, split
from benchmarks.real.shifts import Shift, by_name, load
from common.core.errors import TandemError
from common.scenario import loading
from common.scenario.fitting import Advice, advice_of
from common.scenario.plan import resolve
from deploy.baselines import evaluation_source, loss
from deploy.simulation import conduct

PEOPLE = 4_000
SHIFTS = {"adult-women": (300, 617, 1_500, 3_000, 6_000), "flights-autumn": (300, 1_500, 6_000, 20_000)}
WAYS: dict[str, Method] = {
    "the model alone": METHODS["curator-alone"],
    "judged": Served("the model and the constants", "portfolio", {"portfolio": {"repair": 0}}),
    "judged and repaired": METHODS["portfolio"],
}
BALL = ("target.distribution.inside=.8", "curator.epsilon=1", "agents.mechanism.epsilon=1", "alpha=.01")
SIMULATED = ((20_000, 200_000), (300_000, 200_000), (300_000, 1_000_000))
"""People of the curator, agents."""

Row = dict[str, Any]


def fits(advice: Advice | None) -> str:
    """Say what a plan would take."""
    if advice is None:
        return ""
    if advice.protocol != "portfolio":
        return advice.protocol
    return f"{advice.rounds} model{'s' * (advice.rounds > 1)}, {'with' if advice.repair else 'without'} repair"


def on_shift(shift: Shift, agents: int, splits: int, data: Path) -> Row:
    """Return the mean loss of each way on a shift's people, with so many agents."""
    people, few = load(shift, data), replace(shift, people=PEOPLE)
    known = facts(few, people, agents)
    row: Row = {"people": shift.name, "n": known.n, "agents": known.agents}
    for name, way in WAYS.items():
        asked = way.scenario(few, known.n, known.agents, 1.0)
        assert asked is not None
        plan, losses = resolve(asked), []
        for seed in range(splits):
            drawn = split(few, people, seed, agents)
            losses.append(float(way.answer(drawn, plan).hypothesis.mistakes(drawn.judges).mean()))
        row[name] = statistics.mean(losses)
        row["fits"] = fits(advice_of(asked)) or row.get("fits", "")
    return row


def simulated(n: int, agents: int, seeds: int) -> Row:
    """Return the mean loss with one model, and with two."""
    row: Row = {"people": "portfolio, inside=.8", "n": n, "agents": agents}
    for rounds in (1, 2):
        asked = loading.load(
            "portfolio", [*BALL, f"curator.n={n}", f"agents.count={agents}", f"curator.rounds={rounds}"]
        )
        plan = resolve(asked)
        losses = [
            loss(conduct(plan, seed, lambda round_, hypothesis: None).hypothesis, evaluation_source(asked, seed))
            for seed in range(seeds)
        ]
        row["two models" if rounds == 2 else "one model"] = statistics.mean(losses)
        row["fits"] = fits(advice_of(asked))
    return row


def rows(splits: int, data: Path) -> Iterator[Row]:
    """Yield all rows as soon as each is there."""
    if data.is_dir():
        for name, counts in SHIFTS.items():
            for agents in counts:
                yield on_shift(by_name(name), agents, splits, data)
    for n, agents in SIMULATED:
        yield simulated(n, agents, splits)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=8, help="of each row, or seeds")
    shelf = Path(os.environ.get("TANDEM_DATA", "../shared/data"))
    parser.add_argument("--data", type=Path, default=shelf, help="where data sets lie")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = []
    for row in rows(given.splits, given.data):
        found.append(row)
        if not given.json:
            losses = ", ".join(f"{name} {value:.4f}" for name, value in row.items() if isinstance(value, float))
            sizes = f"{row['people']}, {row['n']:,} people, {row['agents']:,} agents"
            print(f"{sizes}: {losses}; fits: {row['fits']}", flush=True)
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except TandemError as error:
        sys.exit(error.detail)
