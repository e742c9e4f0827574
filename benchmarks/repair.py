"""How often is the selection bias of ``adult-biased`` repaired? Fresh selections, fresh noise, every run counted.

    python -m benchmarks.repair [--runs 10] [--data DIRECTORY] [--json]

Each run draws new volunteers (another selection seed) and new noise from the operating system. Printed for each: the
true loss on the population of the hybrid answer, of the curator alone with the same budget, of the agents alone, and of
the best half-space without privacy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from common.scenario import loading
from common.scenario.plan import resolve
from deploy.baselines import complete
from deploy.deployment import Embedded


def one(number: int, data: list[str]) -> dict[str, float]:
    """Run the scenario once on the selection with a number; return the true losses."""
    chosen = [f"{side}.table.selection.seed={number}" for side in ("source", "target")]
    asked = loading.load("adult-biased", [*data, *chosen])
    with tempfile.TemporaryDirectory() as folder:
        run = Embedded(Path(folder)).run(resolve(asked), None, f"repair-{number}", lambda text, numbers: None)
        result: dict[str, Any] = complete(run.result, asked, None, Path(folder), lambda text, numbers: None)
    truth = result["truth"]
    others = {name: found["loss_on_target"] for name, found in truth["baselines"].items()}
    return {"selection": float(number), "hybrid": truth["loss_on_target"], **others}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--data", help="directory of the Adult files (default: adult, here or below TANDEM_DATA)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    data = [f"data={given.data}"] if given.data else []
    rows = [one(number, data) for number in range(1, given.runs + 1)]
    if given.json:
        print(json.dumps(rows))
        return
    names = list(rows[0])[1:]
    print("selection  " + "  ".join(f"{name:>12}" for name in names))
    for row in rows:
        print(f"{row['selection']:9.0f}  " + "  ".join(f"{row[name]:12.4f}" for name in names))
    for label, fold in (("mean", statistics.mean), ("deviation", statistics.stdev)):
        print(f"{label:>9}  " + "  ".join(f"{fold([row[name] for row in rows]):12.4f}" for name in names))
    better = sum(row["hybrid"] < row["curator-only"] for row in rows)
    print(f"the hybrid answer is better than the curator alone in {better} of {len(rows)} runs")


if __name__ == "__main__":
    main()
