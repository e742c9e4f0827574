"""What does a hand-over save? The second task of ``hand-over`` after the first one, and from uniform weights.

    python -m benchmarks.hand_over [--runs 20] [--people 3000000] [--json]

Every run draws a sample, learns both tasks with hand-over, and learns the second task alone on the same sample with the
same settings. Printed: learner calls and agents that the second task took both ways, its true loss on the target, and
what the promise of both tasks costs the curator's people with one run and with two. The budget is the scenario's in
both. Fewer people than the scenario plans make the runs shorter; what decides the rounds is who they are.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from common.learners.base import Calls
from common.privacy.budget import cost, smallest_n
from common.protocols.base import Progress
from common.scenario.loading import load
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario
from deploy.baselines import evaluation_source, loss
from deploy.simulation import conduct

SECOND = "tasks=[{features: 8, label: 8}]"


def second_task(scenario: ResolvedScenario, seed: int) -> dict[str, float]:
    """Run a scenario; return calls, agents and true loss of its last task, and all calls."""
    asked: list[float] = []

    def on_progress(note: Progress) -> None:
        if "asked" in note.numbers:
            asked.append(note.numbers["asked"])

    outcome = conduct(scenario, seed, lambda round, hypothesis: None, on_progress=on_progress)
    last = outcome.tasks[-1]
    return {
        "done": float(outcome.status == "done"),
        "calls": float(last.iterations),
        "agents": sum(asked[-last.iterations :]),
        "loss": loss(last.hypothesis, evaluation_source(scenario, seed)),
        "all_calls": float(outcome.iterations),
    }


def promise(handed: ResolvedScenario, alone: ResolvedScenario) -> dict[str, dict[str, float]]:
    """Return the most learner calls in all, their epsilon at the scenario's n, and the least n that fits the budget."""
    one = promised(handed, handed.curator.rounds, 1)
    return {"hand-over": one, "two runs": promised(handed, alone.curator.rounds, 2)}


def promised(scenario: ResolvedScenario, rounds: int, runs: int) -> dict[str, float]:
    """Return the privacy cost of ``runs`` runs of ``rounds`` rounds on the same people, by the scenario's settings."""
    policy = scenario.curator
    n, kappa, eta = policy.n, policy.kappa or 1.0, policy.eta
    epsilon, delta = float(policy.epsilon or 0.0), float(policy.delta or 0.0)

    def events(people: int) -> list[Any]:
        return runs * list(Calls(people, kappa, eta, rounds).events(policy.settings) or [])

    return {
        "calls": float(runs * rounds),
        "epsilon": cost(events(n), delta),
        "least_n": float(smallest_n(epsilon, delta, kappa, events)),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--people", type=int, default=3_000_000, help="the curator's, in each run")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    planned = promise(resolve(load("hand-over")), resolve(load("hand-over", [SECOND])))
    handed = resolve(load("hand-over", [f"curator.n={given.people}"]))
    same = [f"curator.rounds={handed.curator.rounds}", f"agents.count={handed.agents.count}"]
    alone = resolve(load("hand-over", [f"curator.n={given.people}", SECOND, *same]))
    rows: list[dict[str, Any]] = [
        {"seed": seed, "hand-over": second_task(handed, seed), "uniform": second_task(alone, seed)}
        for seed in range(1, given.runs + 1)
    ]
    if given.json:
        print(json.dumps({"people": given.people, "promise": planned, "runs": rows}))
        return
    print(f"second task, {given.runs} runs with {given.people:,} people of the curator: mean (least to most)")
    for name, digits in (("calls", 1), ("agents", 0), ("loss", 4), ("all_calls", 1), ("done", 2)):
        cells = []
        for way in ("hand-over", "uniform"):
            values = [row[way][name] for row in rows]
            low, high = min(values), max(values)
            cells.append(f"{way} {statistics.mean(values):,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})")
        print(f"{name:>10}  " + "   ".join(cells))
    print("promised for both tasks:")
    for name, numbers in planned.items():
        print(
            f"{name:>10}  at most {numbers['calls']:.0f} calls, epsilon {numbers['epsilon']:.4f} at the planned n, "
            f"within the budget from n = {numbers['least_n']:,.0f}"
        )


if __name__ == "__main__":
    main()
