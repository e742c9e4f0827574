"""The protocol of model-agnostic private learning: what it asks, whom it believes, and whole runs of it."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario, PeerMisbehaved
from common.data.population import open_public, open_records
from common.local.hypotheses.composed import Argmax, column_classes
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.operations.operation import LabelPoints
from common.protocols.patterns import curator
from common.scenario.loading import load
from common.scenario.scenario import Scenario, data_folder
from deploy.baselines import evaluation_source, loss
from deploy.checking import checked
from deploy.deployment import Embedded
from deploy.simulation import conduct
from referee.audit.audit import audit
from referee.protocols.asking import ask
from referee.protocols.base import PROTOCOLS
from referee.protocols.driver import drive
from referee.protocols.learn_and_test import student
from tests.support import Bench, leave_folder, tiny
from tests.tiers import for_each

NAME = "model-agnostic"
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 3}}
LEARNER: dict[str, Any] = {
    "name": NAME,
    "chunks": 40,
    "queries": 60,
    "teacher": TREE,
    "student": TREE,
    "aggregation": {"name": "gnmax", "noise": 5.0},
}
SPARSE = {"name": "sparse-vector", "epsilon": 50.0, "delta": 1e-5, "cutoff": 8}
CONSTANT = {"kind": "constant", "label": 1}


def scenario(*overrides: str, **learner: Any) -> Scenario:
    people = tiny().source.distribution
    assert people is not None
    public = {"distribution": people.wire(), "count": 60, "labelled": False}
    return checked(
        tiny(
            f"protocol={NAME}",
            f"public={json.dumps(public)}",
            f"curator.learner={json.dumps({**LEARNER, **learner})}",
            "curator.rounds=1",
            "curator.kappa=null",
            *overrides,
        )
    )


@for_each(
    "learner",
    [
        {},
        {"aggregation": SPARSE},
        {"student": {"classifier": "GaussianNB"}},
        {"protects": "labels", "chunks": 30},
        {"by": "content"},
    ],
    ids=["gnmax", "sparse vector", "graph", "labels only", "by content"],
)
def test_a_run_is_done_audited_and_the_same_in_a_laboratory(tmp_path, learner):
    chosen = scenario(**learner)
    with Bench(tmp_path / "state", chosen) as bench:
        result = bench.run()
        found = audit(leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished()))
    assert result["status"] == found.status == "done"
    assert result["estimate"]["low"] <= result["estimate"]["value"] < 0.5
    assert ("labels only" in result["reason"]) == ("protects" in learner)
    assert conduct(chosen, 1, lambda round, hypothesis: None).answer.wire() == result["answer"]


GOOD = {"labels": [1, None], "hypothesis": CONSTANT, "protects": "labels"}


def model(release: dict[str, Any], known: Any = (-1, 1)) -> Any:
    """Ask for the labels of two points, and return the student's model."""

    def script():
        return student((yield from ask(LabelPoints(count=2, transfer=True))), known)

    return drive(script(), curator("label"), lambda number, step: release, lambda note: None)


@for_each(
    "wrong",
    [
        *({"labels": labels} for labels in (None, [1], [1, 2], [1, True], [1, 0.5], [1, "1"])),
        {"protects": "nothing"},
        {"hypothesis": None},
        {"hypothesis": {"kind": "linear"}},
        {"surprise": 1},
    ],
    ids=str,
)
def test_labels_that_are_none_are_the_curators_fault(wrong):
    assert model(GOOD).wire() == CONSTANT
    with pytest.raises(PeerMisbehaved, match="the curator released"):
        model({**GOOD, **wrong})
    for missing in GOOD:
        with pytest.raises(PeerMisbehaved, match="the curator released"):
            model({name: value for name, value in GOOD.items() if name != missing})


def test_with_several_classes_labels_are_their_numbers():
    release = {**GOOD, "labels": [0, 2]}
    assert model(release, range(3)).wire() == CONSTANT
    for known in ((-1, 1), range(2)):
        with pytest.raises(PeerMisbehaved, match="the curator released labels other than"):
            model(release, known)


def test_another_learner_is_refused_before_anybody_is_asked():
    with pytest.raises(BadScenario, match="needs the learner of that name"):
        next(PROTOCOLS[NAME]().script(tiny(f"protocol={NAME}"), 7))


CLASSES_NAME = "model-agnostic-classes"
SHELF = Path(os.environ.get("TANDEM_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
needs_gas = pytest.mark.skipif(
    not (SHELF / "gas_drift" / "batch1.csv.xz").is_file(), reason="the gas drift files are not here (TANDEM_DATA)"
)


def small() -> Scenario:
    overrides = ["curator.n=3000", "curator.epsilon=20", "curator.learner.queries=100", "public.count=100"]
    return checked(load(CLASSES_NAME, [*overrides, "agents.count=3000"]))


def real() -> Scenario:
    return load(CLASSES_NAME, [f"data={SHELF}"])


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
