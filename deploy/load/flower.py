"""One answer of each of many clients by Flower, to be read beside a load test (``benchmarks.load_curve --flower``).

Flower (Beutel et al. 2020, "Flower: A friendly federated learning research framework") needs
``pip install 'flwr[simulation]'``.
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation


def flower(clients: int) -> dict[str, Any]:
    """Ask clients of Flower's simulation for one answer each, in one round; return how long that took.

    Each client answers a coin toss with randomized response, and the server adds up: what a question of Tandem is,
    without signatures, keys, durable storage and audit.
    """

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
