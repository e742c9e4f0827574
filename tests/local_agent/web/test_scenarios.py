"""The JavaScript agent in whole runs: shipped scenarios with individuals in Node alone, over real HTTP, audited."""

import json
import math
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.data.population import open_records
from common.numerics.randomness import subseed
from common.privacy.guarantee import repeated
from common.scenario.loading import load
from common.scenario.scenario import ResolvedScenario, data_folder
from curator.startup import open_curator
from deploy.checking import checked
from deploy.deployment import Embedded
from referee.audit.audit import audit
from tests.deploy.test_scenarios_of_individuals import SMALL, check_alike
from tests.support import SHELF, TOKEN, leave_folder, operated

USUAL = {
    *("blender", "discrepancy", "local-gradient", "portfolio", "portfolio-classes", "portfolio-regression"),
    *("select-then-estimate", "statistical-query"),
}
"""Each asks a kind of query that no other of these does; all others are thorough."""

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js here")


class NodeCrowd:
    """All people of a scenario as agents in one process of Node, which ends when all have answered or may go."""

    def __init__(self, address: str, token: str, rules: Sequence[dict[str, Any]], records: list[Any]) -> None:
        self._document = {"address": address, "token": token, "rules": rules, "records": records}
        self.found: dict[str, Any] = {}

    def start(self) -> None:
        self._process = subprocess.Popen(
            ["node", "--no-warnings", str(Path(__file__).with_name("crowd.mjs"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._document))
        self._process.stdin.close()
        assert self._process.stdout.readline() == "enrolled\n"

    def close(self) -> None:
        self._process.terminate()
        assert self._process.stdout is not None
        with self._process.stdout as output:
            text = output.read()
        assert self._process.wait() == 0
        self.found = json.loads(text)


def people_of(chosen: ResolvedScenario, seed: int) -> list[dict[str, Any]]:
    """Return the record of each person of a scenario's population, as a host would have it."""
    people = open_records(chosen.target, data_folder(chosen), subseed(seed, "target"), chosen.agents.count)
    records = [people.records(np.array([number]), None) for number in range(chosen.agents.count)]
    return [
        {"features": each.features[0].tolist(), "bytes": each.features.dtype == np.uint8, "label": int(each.labels[0])}
        for each in records
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in USUAL else pytest.mark.thorough) for name in SMALL]
)
def test_individuals_in_node_alone_give_the_answer_that_a_host_gives(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_DATA", str(SHELF))
    chosen = checked(load(name, [*SMALL[name], "agents.deadline=600"]))
    try:
        data_folder(chosen)
    except BadScenario as error:
        pytest.skip(error.detail)
    epsilon, delta = repeated(chosen.agents.cost, 1)
    with (
        closing(open_curator(chosen, tmp_path / "curator", 1, None)) as curator,
        operated(tmp_path / "referee", curator) as (referee, address, remote),
    ):
        rules = {"referee": referee.identity.public, "epsilon": epsilon if math.isfinite(epsilon) else None}
        crowd = NodeCrowd(address, TOKEN, [{**rules, "delta": delta}], people_of(chosen, 1))
        with closing(crowd):
            crowd.start()
            finished = remote.run(chosen, 1, "run", lambda text, numbers: None)
    agents = finished.result["agents"]
    assert crowd.found["problems"] == []
    assert agents["answered"] == agents["asked"] == crowd.found["answered"] == crowd.found["included"] > 0
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).answers == crowd.found["answered"]
    hosted = Embedded(tmp_path / "hosted").run(chosen, 1, "run", lambda text, numbers: None)
    check_alike(name, finished.result, hosted.result)
