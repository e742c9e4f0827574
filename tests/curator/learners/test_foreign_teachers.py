"""Teachers that are none of scikit-learn's: classes of the curator's own operator, and small networks in PyTorch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.scenario import loading
from curator.learners import foreign
from curator.learners.scikit import Trainable
from curator.learners.teachers import LabelClasses, chunk_of, votes
from curator.startup import check_room, open_curator
from deploy.checking import checked, refusal
from tests.support import Bench, audited
from tests.tiers import for_each

CLASSES = """
import numpy as np

class NearestMean:
    def __init__(self, scale=1.0, random_state=0):
        self.scale, self.seed = scale, random_state

    def fit(self, features, classes):
        self.known = np.unique(classes)
        self.means = np.stack([self.scale * features[classes == one].mean(axis=0) for one in self.known])

    def predict(self, points):
        return self.known[((points[:, None] - self.means) ** 2).sum(axis=2).argmin(axis=1)]

class Meddler(NearestMean):
    def predict(self, points):
        points[:] = -points
        return super().predict(-points)

class Odd(NearestMean):
    def predict(self, points):
        if self.means.sum() > 0:
            return super().predict(points)[:, None, None] * np.ones((1, 2, 2))
        raise SystemError(str(self.means))

class Speechless:
    pass

class Dear(NearestMean):
    def __init__(self):
        raise RuntimeError("too dear")
"""
SETS = ("curator.n=3000", "curator.learner.queries=30", "curator.learner.chunks=300", "agents.count=40",
        "agents.batch=40", "agents.deadline=5", "baselines=[]", "curator.epsilon=20", "curator.learner.stream=5",
        "curator.learner.aggregation.cutoff=5")  # fmt: skip
OWN = "curator.learner.teacher={classifier: 'own:nearest', parameters: {scale: 1.0}}"
HERE = find_spec("torch") is not None
with_torch = pytest.mark.skipif(not HERE, reason="PyTorch is not installed: pip install 'tandem-hybrid[torch]'")


def network(**parameters: float) -> str:
    return f"curator.learner.teacher={{classifier: TorchNetwork, parameters: {parameters}}}"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(foreign, "_CLASSES", {})
    place = tmp_path / "classes.py"
    place.write_text(CLASSES)
    return place


def scenario(*changes: str) -> Any:
    return checked(loading.load("model-agnostic-stream", [*SETS, *changes]))


@pytest.mark.parametrize(
    "teacher", [OWN, pytest.param(network(hidden=8, epochs=40), marks=[with_torch, pytest.mark.slow])]
)
def test_they_teach_through_all_parties(teacher: str, file: Path, tmp_path: Path) -> None:
    foreign.name_classifier(f"nearest={file}:NearestMean")
    with Bench(tmp_path / "parties", scenario(teacher)) as bench:
        result = bench.run()
        audited(bench)
    assert result["reason"].startswith("30 of 30 public points were labelled")


def test_only_the_curator_needs_them_and_without_one_there_is_nothing_to_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curator.learners.foreign.find_spec", lambda name: None)
    for teacher, says in (
        (OWN, r"give curator serve --classifier nearest=FILE\.py:CLASS"),
        (network(), r"TorchNetwork needs PyTorch: pip install 'tandem-hybrid\[torch\]'"),
    ):
        chosen = scenario(teacher)
        assert refusal(chosen) is None  # as a referee on another machine sees it
        with pytest.raises(BadScenario, match=says):
            open_curator(chosen, tmp_path / teacher, 1, None)
        assert not (tmp_path / teacher / "ledger.jsonl").exists()


@for_each(
    ("named", "says"),
    [
        ("nearest", "is NAME=FILE.py:CLASS"), ("nearest=:NearestMean", "is no Python file"),
        ("nearest=FILE", "is NAME=FILE.py:CLASS"), ("nearest=FILE:Absent", "has no class Absent"),
        ("nearest=FILE:Speechless", "with fit"), ("nearest=FILE:np", "has no class np"),
        ("nearest=BROKEN:NearestMean", "cannot be loaded: ZeroDivisionError"),
        ("my net=FILE:NearestMean", "is NAME=FILE.py:CLASS"),
    ],
)  # fmt: skip
def test_what_names_no_class_is_refused(named: str, says: str, file: Path) -> None:
    broken = file.with_name("broken.py")
    broken.write_text("1 / 0")
    with pytest.raises(BadInput, match=says):
        foreign.name_classifier(named.replace("FILE:", f"{file}:").replace("BROKEN", str(broken)))


@for_each(
    ("change", "says"),
    [
        ("curator.learner.student={classifier: 'KIND'}", "a student leaves as data"),
        ("curator.learner.teacher={classifier: BaggingClassifier, parameters: {estimator: {classifier: 'KIND'}}}",
         "cannot stand inside another classifier"),
        ("curator.learner={name: scikit, draws: 10, classifier: 'KIND'}", "teachers only"),
        ("curator.learner.teacher={classifier: 'own:a/b.py:C'}", "a class of one's own is own:NAME"),
        (network(hidden=0), "hidden"),
        (network(layers=2), "layers"),
    ],
)  # fmt: skip
def test_a_scenario_names_no_file_and_they_are_teachers_alone(change: str, says: str) -> None:
    for kind in ("own:nearest", "TorchNetwork"):
        with pytest.raises(BadScenario, match=says):
            loading.load("model-agnostic-stream", [change.replace("KIND", kind)])


def cast(name: str, changed: bool = False) -> Any:
    draw = np.random.default_rng(1)
    features = draw.uniform(0.5, 1.0, (60, 2)).astype(np.float32)
    labels = np.where(draw.random(60) < 0.5, -1, 1).astype(np.int8)
    points = draw.uniform(0.5, 1.0, (8, 2)).astype(np.float32)
    return voted(Trainable(classifier=f"own:{name}"), features, labels, 6, points, 1, changed)


def voted(
    teacher: Trainable, features: Any, labels: Any, chunks: int, points: Any, seed: int, changed: bool
) -> np.ndarray:
    """Return the votes of teachers on chunks of these people, of whom number 3 may be another one."""
    if changed:
        features[3], labels[3] = -100.0, -labels[3]
    records = Records(features, labels)
    chunk, classes = chunk_of(records, chunks, "slot"), LabelClasses().of(records)
    return votes(teacher, features, chunk, chunks, points, RandomSource.seeded(seed), classes)


@for_each("kind", ["NearestMean", "Meddler", "Odd"])
def test_a_record_changes_one_teachers_votes_whatever_the_class_does(kind: str, file: Path) -> None:
    """Also where it writes into the points, returns another shape, or fails for some records only."""
    foreign.name_classifier(f"tried={file}:{kind}")
    differs = (cast("tried") != cast("tried", changed=True)).any(axis=1)
    assert not np.delete(differs, 3).any()
    if kind == "Meddler":
        alike = cast("tried")
        foreign.name_classifier(f"tried={file}:NearestMean")
        assert (cast("tried") == alike).all()


def test_a_class_that_cannot_be_made_or_fails_its_trial_is_refused_before_any_record_is_seen(file: Path) -> None:
    foreign.name_classifier(f"dear={file}:Dear")
    with pytest.raises(BadScenario, match="too dear"):
        scenario("curator.learner.teacher={classifier: 'own:dear'}")
    foreign.name_classifier(f"nearest={file}:NearestMean")
    with pytest.raises(BadScenario, match="unexpected keyword argument 'depth'"):
        scenario(OWN.replace("scale", "depth"))


def networks_cast(seed: int, changed: bool = False) -> np.ndarray:
    draw = np.random.default_rng(1)
    features = draw.normal(size=(240, 2)).astype(np.float32)
    labels = np.where(features.prod(axis=1) > 0, 1, -1).astype(np.int8)  # no half-space tells these apart
    points = draw.normal(size=(200, 2)).astype(np.float32)
    teacher = Trainable(classifier="TorchNetwork", parameters={"hidden": 24, "epochs": 200})
    return voted(teacher, features, labels, 2, points, seed, changed)


@with_torch
def test_a_network_is_a_function_of_its_chunk_and_its_seed() -> None:
    import torch

    before, first = torch.random.get_rng_state(), networks_cast(1)
    torch.rand(3)
    torch.set_num_threads(2)
    assert (first == networks_cast(1)).all()
    assert torch.get_num_threads() == 2
    assert (first != networks_cast(2)).any()
    differs = (first != networks_cast(1, changed=True)).any(axis=1)
    assert not differs[0]
    torch.random.set_rng_state(before)


@with_torch
def test_a_network_learns_what_no_half_space_can() -> None:
    points = np.random.default_rng(1)
    points.normal(size=(240, 2))
    wanted = points.normal(size=(200, 2)).astype(np.float32).prod(axis=1) > 0
    assert (networks_cast(1) == wanted).mean() > 0.9


def test_networks_that_are_too_large_for_the_memory_or_to_be_tried_are_refused_before_anything_is_trained(
    tmp_path: Path,
) -> None:
    many = ("curator.n=1500000", "curator.learner.chunks=1000000", "curator.epsilon=90")
    with pytest.raises(BadScenario, match=r"with 13\d\.\d GiB for the learner's work on it"):  # other teachers: 15.8
        check_room(scenario(*many, network(hidden=4096)), tmp_path)
    wide = ("source.distribution.d=9000", "target.distribution.d=9000", "public.distribution.d=9000",
            "curator.learner.classes.first=9000")  # fmt: skip
    refused = refusal(scenario(*wide, network(hidden=4096)))
    assert "36,880,387 weights are more than the 16,777,216 of a teacher" in str(refused)


def test_a_random_state_that_is_null_is_the_seed(file: Path) -> None:
    foreign.name_classifier(f"nearest={file}:NearestMean")
    assert [foreign.make("nearest", {"random_state": state}, 7).seed for state in (None, 3)] == [7, 3]
