"""The scenario of several classes: whole runs, audited, on small samples of its simulated and of its real people."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from common.data.population import open_public, open_records
from common.local.hypotheses.argmax import Argmax, column_classes
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.scenario.loading import load
from common.scenario.scenario import Scenario, data_folder
from deploy.checking import checked
from deploy.embedded import Embedded
from deploy.truth import evaluation_source, loss
from referee.audit.audit import audit
from tests.support import Bench, leave_folder

NAME = "model-agnostic-classes"
SHELF = Path(os.environ.get("TANDEM_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
needs_gas = pytest.mark.skipif(
    not (SHELF / "gas_drift" / "batch1.csv.xz").is_file(), reason="the gas drift files are not here (TANDEM_DATA)"
)


def small() -> Scenario:
    overrides = ["curator.n=3000", "curator.epsilon=20", "curator.learner.queries=100", "public.count=100"]
    return checked(load(NAME, [*overrides, "agents.count=3000"]))


def real() -> Scenario:
    return load(NAME, [f"data={SHELF}"])


def test_a_run_is_done_and_audited_and_its_answer_is_a_class(tmp_path):
    chosen = small()
    with Bench(tmp_path / "state", chosen) as bench:
        result = bench.run()
        found = audit(leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished()))
    assert result["status"] == found.status == "done"
    answer = parse_hypothesis(result["answer"])
    assert isinstance(answer, Argmax)
    people = open_records(chosen.target, None, 5, 20_000)
    true = loss(answer, people)
    assert true < 0.2  # 5/6 by chance
    assert result["estimate"]["low"] - 0.01 < true < result["estimate"]["high"] + 0.01
    features = people.records(np.arange(20_000)).features
    assert true == np.mean(answer.classes(features) != column_classes(features, 4, 6))


@needs_gas
@pytest.mark.slow
def test_everybody_of_the_gases_has_one_class_and_public_people_are_others():
    chosen = real()
    folder = data_folder(chosen)
    public = open_public(chosen.public, folder, 1)
    curators, population = (open_records(people, folder, 1, None) for people in (chosen.source, chosen.target))
    # Batches 2, 3, 4, 5, 8 and 9, and 300 of batches 1 and 6.
    assert (len(curators) + len(population), len(public)) == (3952, 300)
    assert len(curators) >= chosen.curator.n
    assert len(population) >= chosen.agents.count
    parts = [
        public.features,
        *(population.records(np.arange(len(population))).features for population in (curators, population)),
    ]
    for features in parts:
        assert features.shape[1] == 38
        assert (features.min(), features.max()) == (0.0, 1.0)
        assert (features[:, 32:].sum(axis=1) == 1).all()
    shares = np.bincount(np.concatenate([column_classes(part, 32, 6) for part in parts[1:]])) / 3952
    assert shares.max() == pytest.approx(0.28, abs=0.005)  # the constant answer misses 72%
    everybody = [set(map(bytes, part)) for part in parts]
    assert not everybody[0] & (everybody[1] | everybody[2])


@pytest.mark.slow
@needs_gas
def test_a_run_on_the_gases_learns_them(tmp_path):
    chosen = checked(real())
    result = Embedded(tmp_path).run(chosen, None, "run", lambda text, numbers: None).result
    assert result["status"] == "done"
    assert loss(parse_hypothesis(result["answer"]), evaluation_source(chosen, 1)) < 0.45  # the constant answer: 0.72
