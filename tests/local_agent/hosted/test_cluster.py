"""People hosted over Ray workers give the answers of one process, also when a worker dies; real people never do so."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from common.core.errors import BadInput
from common.local import masks
from local_agent.hosted.population import open_population
from tests.local_agent.test_policy import REFEREE
from tests.support import Bench, tiny

CHOSEN = ("agents.count=600", "agents.batch=600", "curator.rounds=1")


def test_records_of_real_people_stay_in_their_process(tmp_path):
    chosen = tiny("agents.mechanism.epsilon=1").model_copy(update={"people": "real"})
    with pytest.raises(BadInput, match="their records stay in this process"):
        open_population(chosen, tmp_path, None, REFEREE.public, 10, workers=2)


@pytest.mark.slow
def test_answers_over_workers_are_those_of_one_process_also_when_a_worker_dies(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    from local_agent.hosted import answers
    from local_agent.hosted.answers import over_workers

    monkeypatch.setattr(answers, "BLOCK", 64)
    monkeypatch.setattr(answers, "MASS_BLOCK", 8)
    try:
        values = over_workers(2)
        ended = []
        for spread in (False, True):
            with Bench(tmp_path / str(spread), tiny(*CHOSEN)) as bench:
                if spread:
                    bench.population._values = values
                ended.append((bench.run()["estimate"], bench.finished().reports))
        assert ended[0][0] == ended[1][0]
        query, population = next(iter(asked_of(tmp_path)))
        mask = np.packbits(np.arange(600) % 3 > 0)
        slots = [found.tolist() for _, found in answers.evaluated(query, population, answers.blocks(mask, 5))]
        there = values(query, population, answers.blocks(mask, 5))
        first = next(there)[1].tolist()
        os.kill(ray.get(ray.remote(lambda: os.getpid()).remote()), signal.SIGKILL)
        assert [first, *(found.tolist() for _, found in there)] == slots
        assert sum(map(len, slots)) == masks.ones(mask)
    finally:
        ray.shutdown()


def asked_of(folder):
    from common.local.queries.loss import LossQuery

    people = open_population(tiny(*CHOSEN), folder / "people", 1, REFEREE.public, 600)
    try:
        yield LossQuery(hypothesis=halfspace(people._population.dimension)), people._population
    finally:
        people.close()


def halfspace(features):
    from common.local.hypotheses.linear import Linear

    return Linear(weights=tuple([1.0] * features), threshold=0.0)
