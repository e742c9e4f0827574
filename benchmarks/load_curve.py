"""How the cost of a request grows with the number of agents: load tests of several sizes, one after the other.

    python -m benchmarks.load_curve [--sizes 1000 3000 10000] [--picture FILE.svg] [--flower] [--json]
    python -m benchmarks.load_curve --from FILE.jsonl --picture FILE.svg

Each size is a deployment of its own on this machine (``referee load-test --individuals N --json``), so that no size
affects another. The expectation is that processor time per request does not grow; the rate depends more on the machine.
The picture needs the extra ``figures``. ``--flower`` also asks as many clients of Flower's simulation for one answer
each, in one round, and needs ``pip install 'flwr[simulation]'``. With ``--from`` nothing is measured: it draws the
documents that the load test has printed with ``--json``, one per line: those of individuals only, a curve for each kind
of database.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from deploy.load.testing import Options, load_test

PHASES = ("enrol", "poll", "report", "audit")
FLOWER = "the comparison with Flower needs it: pip install 'flwr[simulation]'"
PICTURE = "a picture needs matplotlib: pip install 'tandem-hybrid[figures]'"


def curve(sizes: list[int]) -> list[dict[str, Any]]:
    """Return the document of a load test of each size."""
    found = []
    for size in sizes:
        print(f"{size:,} individuals", file=sys.stderr)
        found.append(load_test(Options(individuals=size), lambda phase, done, count: None))
    return found


def kept(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file that are about individuals only, on a closed schedule, by size."""
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    alone = [d for d in found if not d["options"]["hosted"] and d["options"]["schedule"] == "closed" and not d["idle"]]
    return sorted(alone, key=lambda document: int(document["options"]["individuals"]))


def picture(found: list[dict[str, Any]], path: Path) -> None:
    """Draw the referee's processor time per request, p99 and rate of each phase over the number of agents."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = (
        ("cpu_us_referee", "referee, us of processor a request"),
        ("p99_ms", "p99, ms"),
        ("per_second", "a second"),
    )
    stores = (
        [(found, "SQLite", "-")]
        if not any(_elsewhere(document) for document in found)
        else [
            ([document for document in found if not _elsewhere(document)], "SQLite", "-"),
            ([document for document in found if _elsewhere(document)], "PostgreSQL", "--"),
        ]
    )
    figure, axes = plt.subplots(1, len(panels), figsize=(12, 3.6), constrained_layout=True)
    for axis, (key, label) in zip(axes, panels, strict=True):
        for number, name in enumerate(PHASES[:-1]):
            for documents, store, line in stores:
                sizes = [document["options"]["individuals"] for document in documents]
                values = [document["phases"][name][key] for document in documents]
                said = name if len(stores) == 1 else f"{name}, {store}"
                axis.plot(sizes, values, marker="o", linestyle=line, color=f"C{number}", label=said)
        axis.set(xscale="log", xlabel="individuals", ylabel=label)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(frameon=False)
    busiest = max(document["machine"]["load_average"] for document in found)
    figure.suptitle(f"{found[0]['machine']['cores']} cores, load average before at most {busiest:g}", fontsize=9)
    figure.savefig(path)
    plt.close(figure)


def _elsewhere(document: dict[str, Any]) -> bool:
    """Return whether the data were stored in a database server."""
    return bool(document["options"].get("database"))


def flower(clients: int) -> dict[str, Any]:
    """Ask clients of Flower's simulation for one answer each, in one round; return how long that took.

    Each client answers a coin toss with randomized response, and the server adds up the answers: like a question of
    Tandem, without signatures, keys, durable storage and audit. Flower (Beutel et al. 2020, "Flower: A friendly
    federated learning research framework") needs ``pip install 'flwr[simulation]'``.
    """
    import random

    from flwr.client import ClientApp, NumPyClient
    from flwr.common import Context, ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    class Answering(NumPyClient):  # type: ignore[misc]
        def fit(self, parameters: Any, config: Any) -> Any:
            return [np.array([float(random.random() < 0.7)])], 1, {}

    counted: list[int] = []

    class Counting(FedAvg):  # type: ignore[misc]
        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
            counted.append(len(results))
            return super().aggregate_fit(server_round, results, failures)

    def server(context: Context) -> ServerAppComponents:
        strategy = Counting(
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=clients,
            min_available_clients=clients,
            initial_parameters=ndarrays_to_parameters([np.array([0.0])]),
        )
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=1))

    began = time.perf_counter()
    run_simulation(
        ServerApp(server_fn=server),
        ClientApp(client_fn=lambda context: Answering().to_client()),
        num_supernodes=clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    took = time.perf_counter() - began
    return {
        "clients": clients,
        "answered": sum(counted),
        "seconds": round(took, 2),
        "per_second": round(clients / took, 1),
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 3000, 10000])
    parser.add_argument("--from", dest="stored", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--flower", action="store_true")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.flower and find_spec("flwr") is None:
        parser.error(FLOWER)
    if chosen.picture is not None and find_spec("matplotlib") is None:
        parser.error(PICTURE)
    if chosen.stored is not None and chosen.flower:
        parser.error("--flower measures, and --from does not: leave one of them out")
    found = curve(chosen.sizes) if chosen.stored is None else kept(chosen.stored)
    if chosen.picture is not None:
        picture(found, chosen.picture)
    beside = None
    if chosen.flower:
        beside = [flower(size) for size in chosen.sizes]
    if chosen.json:
        print(json.dumps({"load_tests": found, "flower": beside}))
        return
    print("individuals | phase  | a second | p99 ms | referee us | commits")
    for document in found:
        size = document["options"]["individuals"]
        for name in PHASES[:-1]:
            row = document["phases"][name]
            numbers = f"{row['per_second']:>8,.0f} | {row['p99_ms']:>6,.0f} | {row['cpu_us_referee']:>10,.0f}"
            print(f"{size:>11,} | {name:6} | {numbers} | {row['commits']:>7,}")
    for row in beside or []:
        rate, answered = f"{row['per_second']:>8,.0f}", f"{row['answered']:,} answered in {row['seconds']:g} s"
        print(f"{row['clients']:>11,} | Flower | {rate} | {answered}")


if __name__ == "__main__":
    main()
