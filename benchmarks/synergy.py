"""How often the protocols of "The power of synergy" are right, and each side alone at the same sizes.

    python -m benchmarks.synergy [--only NAME] [--repetitions 100] [--workers 2] [--json] [--table]
    python -m benchmarks.synergy --cost         # seconds by the number of agents, and of the curator's people
    python -m benchmarks.synergy --theorem      # Theorem 6.2: what its reduction keeps of the hybrid's advantage

Every shipped scenario with a problem is run as shipped, whole and with each side left out, with another seed every
time; a run's outcome is that of ``referee run`` with this seed. Results are appended to
``benchmarks/results/synergy.jsonl`` as soon as they are there, and the same command goes on where it was; ``--table``
measures nothing. Intervals are Clopper and Pearson's, 95%. The promise is 1 - beta, for the whole protocol. Exit
status 1 if a whole protocol is right significantly less often than that, or a side alone as often.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from benchmarks.figures.store import ORIGIN, origin
from common.numerics.randomness import subseed
from common.protocols.base import demands_of
from common.scenario import loading
from common.scenario.plan import resolve
from deploy.simulation import conduct

RESULTS = Path(__file__).parent / "results" / "synergy.jsonl"
NAMES = tuple(name for name in loading.shipped() if loading.load(name).problem is not None)
SIDES = {name: ("whole", *demands_of(loading.load(name).protocol).alone) for name in NAMES}
FEW = 100_000
"""With more agents than this, agents alone run only a twentieth as often: few runs are enough to see them fail."""


def run(name: str, side: str, repetition: int) -> dict[str, Any]:
    """Run a scenario once; return its outcome."""
    asked = loading.load(name, [] if side == "whole" else [f"alone={side}"])
    chosen, people = resolve(asked), asked.target.distribution
    if asked.problem is None or people is None:
        raise ValueError(f"{name} is not about a problem of simulated people")
    seed = subseed(repetition, f"synergy {name} {side}") % (1 << 31)
    began = time.perf_counter()
    outcome = conduct(chosen, seed, lambda number, hypothesis: None)
    took = time.perf_counter() - began
    truth = asked.problem.judge(outcome.answer.wire(), asked.alpha, people)
    return {
        "name": name,
        "side": side,
        "repetition": repetition,
        "seed": seed,
        "correct": bool(truth["correct"]),
        "status": outcome.status,
        "n": chosen.curator.n,
        "agents": chosen.agents.count,
        "seconds": round(took, 2),
        "promised": 1.0 - asked.beta,
    }


def stored() -> list[dict[str, Any]]:
    """Return the earlier measurements, without an unfinished last line."""
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def measure(names: list[str], repetitions: int, workers: int) -> None:
    """Run the missing repetitions, in order."""
    done = {(row["name"], row["side"], row["repetition"]) for row in stored()}
    many = {name for name in names if resolve(loading.load(name)).agents.count > FEW}
    wanted = [
        (name, side, repetition)
        for repetition in range(repetitions)
        for name in names
        for side in SIDES[name]
        if (side != "agents" or name not in many or 20 * repetition < repetitions)
        and (name, side, repetition) not in done
    ]
    with ProcessPoolExecutor(workers) as pool:
        pending = [pool.submit(run, *what) for what in wanted]
        for number, found in enumerate(as_completed(pending), start=1):
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**found.result(), ORIGIN: origin()}) + "\n")
            print(f"\r{number} of {len(pending)} runs", end="", file=sys.stderr, flush=True)


def summary(names: list[str]) -> list[dict[str, Any]]:
    """Return one row per scenario and side: runs, how many were right, with the interval."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in stored():
        groups[row["name"], row["side"]].append(row)
    found = []
    for name in names:
        for side in SIDES[name]:
            rows = groups[name, side]
            if not rows:
                continue
            right = sum(row["correct"] for row in rows)
            interval = binomtest(right, len(rows)).proportion_ci(0.95)
            promised = rows[0]["promised"]
            low, high = float(interval.low), float(interval.high)
            found.append(
                {
                    "name": name, "side": side, "n": rows[0]["n"], "agents": rows[0]["agents"], "runs": len(rows),
                    "right": right, "low": low, "high": high, "promised": promised,
                    "seconds": round(sum(row["seconds"] for row in rows) / len(rows), 2),
                    "meets": high >= promised if side == "whole" else right / len(rows) < promised,
                }
            )  # fmt: skip
    return found


def seconds(name: str, *sets: str) -> float:
    """Return the minimum time of two runs of a scenario."""
    chosen = resolve(loading.load(name, list(sets)))

    def once() -> float:
        began = time.perf_counter()
        conduct(chosen, 1, lambda number, hypothesis: None)
        return time.perf_counter() - began

    return min(once(), once())


def cost(names: list[str]) -> list[dict[str, Any]]:
    """Measure a quarter, a half and all of the agents; and the curator alone with one, two and four times n."""
    found = []
    for name in names:
        plan = resolve(loading.load(name))
        n, agents = plan.curator.n, plan.agents.count
        by_agents = {agents // part: seconds(name, f"agents.count={agents // part}") for part in (4, 2, 1)}
        by_people = {n * part: seconds(name, "alone=curator", f"curator.n={n * part}") for part in (1, 2, 4)}
        found.append({"name": name, "seconds_by_agents": by_agents, "seconds_by_people": by_people})
    return found


def theorem(repetitions: int) -> list[dict[str, Any]]:
    """Measure how often hypothesis testing is right under both laws: both sides, one alone, one by the reduction."""
    found = []
    ways = {"both sides": [], "curator": ["alone=curator"], "agents": ["alone=agents"]}
    ways |= {f"{side}, by the reduction": [f"alone={side}", "problem.reduction=true"] for side in ("curator", "agents")}
    for way, sets in ways.items():
        right = []
        for rate in (0.45, 0.55):
            people = [f"{side}.distribution.rates=[{rate}]" for side in ("source", "target")]
            asked = loading.load("hypothesis-testing", [*sets, *people])
            chosen, distribution = resolve(asked), asked.target.distribution
            if asked.problem is None or distribution is None:
                raise ValueError("hypothesis-testing is about a problem of simulated people")
            outcomes = (
                conduct(
                    chosen, subseed(repetition, f"theorem {way} {rate}") % (1 << 31), lambda number, hypothesis: None
                )
                for repetition in range(repetitions)
            )
            judged = [asked.problem.judge(outcome.answer.wire(), asked.alpha, distribution) for outcome in outcomes]
            right.append(sum(truth["correct"] for truth in judged) / repetitions)
        found.append({"way": way, "right_under_D0": right[0], "right_under_D1": right[1], "runs": repetitions})
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NAMES, help="one scenario")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", action="store_true", help="measure nothing, print what is there")
    parser.add_argument("--cost", action="store_true", help="measure seconds by sizes")
    parser.add_argument("--theorem", action="store_true", help="measure the reduction of Theorem 6.2")
    given = parser.parse_args()
    names = [given.only] if given.only else list(NAMES)
    if given.cost or given.theorem:
        print(json.dumps(cost(names) if given.cost else theorem(given.repetitions), indent=2))
        return
    if not given.table:
        measure(names, given.repetitions, given.workers)
    rows = summary(names)
    if given.json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            rate = f"{row['right']}/{row['runs']} ({row['low']:.3f} to {row['high']:.3f})"
            people = f"n {row['n']:>6,}, agents {row['agents']:>9,}"
            print(f"{row['name']:<24} {row['side']:<8} {people}  {rate:<26} {row['seconds']:>6} s")
    sys.exit(0 if all(row["meets"] for row in rows) else 1)


if __name__ == "__main__":
    main()
