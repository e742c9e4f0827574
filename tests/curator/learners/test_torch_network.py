"""A small network in PyTorch as a teacher: an optional extra, of the curator alone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.scenario import loading
from curator.learners.scikit import Trainable
from curator.learners.teachers import chunk_of, votes
from curator.startup import check_room, open_curator
from deploy.checking import checked, refusal
from tests.support import Bench, audited
from tests.tiers import for_each

SMALL = ("curator.n=3000", "curator.learner.queries=30", "curator.learner.chunks=300", "agents.count=40",
         "agents.batch=40", "agents.deadline=5", "baselines=[]", "curator.learner.stream=5", "curator.epsilon=20",
         "curator.learner.aggregation.cutoff=5")  # fmt: skip
HERE = find_spec("torch") is not None
with_torch = pytest.mark.skipif(not HERE, reason="PyTorch is not installed: pip install 'tandem-hybrid[torch]'")


def network(**parameters: float) -> str:
    return f"curator.learner.teacher={{classifier: TorchNetwork, parameters: {parameters}}}"


def cast(seed: int, changed: bool = False) -> np.ndarray:
    draw = np.random.default_rng(1)
    features = draw.normal(size=(240, 2)).astype(np.float32)
    labels = np.where(features.prod(axis=1) > 0, 1, -1).astype(np.int8)  # no half-space tells these apart
    if changed:
        features[3], labels[3] = -100.0, -labels[3]
    records, points = Records(features, labels), draw.normal(size=(200, 2)).astype(np.float32)
    teacher = Trainable(classifier="TorchNetwork", parameters={"hidden": 24, "epochs": 200})
    return votes(teacher, records, chunk_of(records, 2, "slot"), 2, points, RandomSource.seeded(seed))


@with_torch
def test_it_is_a_function_of_its_chunk_and_its_seed():
    import torch

    before, first = torch.random.get_rng_state(), cast(1)
    torch.rand(3)
    torch.set_num_threads(2)
    assert (first == cast(1)).all()
    assert torch.get_num_threads() == 2
    assert (first != cast(2)).any()
    differs = (first != cast(1, changed=True)).any(axis=1)
    assert not differs[0]
    torch.random.set_rng_state(before)


@with_torch
def test_it_learns_what_no_half_space_can():
    points = np.random.default_rng(1)
    points.normal(size=(240, 2))
    wanted = points.normal(size=(200, 2)).astype(np.float32).prod(axis=1) > 0
    assert (cast(1) == wanted).mean() > 0.9


@pytest.mark.slow
@with_torch
def test_networks_teach_through_all_parties(tmp_path: Path):
    chosen = checked(loading.load("model-agnostic-stream", [*SMALL, network(hidden=8, epochs=40)]))
    with Bench(tmp_path / "parties", chosen) as bench:
        result = bench.run()
        audited(bench)
    assert result["reason"].startswith("30 of 30 public points were labelled")


@pytest.mark.skipif(HERE, reason="PyTorch is installed")
def test_without_pytorch_the_curator_refuses_before_there_is_anything_to_charge(tmp_path: Path):
    chosen = checked(loading.load("model-agnostic-stream", [*SMALL, network()]))
    assert refusal(chosen) is None  # as a referee on another machine sees it
    with pytest.raises(BadScenario, match=r"TorchNetwork needs PyTorch: pip install 'tandem-hybrid\[torch\]'"):
        open_curator(chosen, tmp_path / "curator", 1, None)
    assert not (tmp_path / "curator" / "ledger.sqlite").exists()


def test_networks_that_do_not_fit_the_memory_are_refused_before_anything_is_trained(tmp_path: Path):
    many = ("curator.n=1500000", "curator.learner.chunks=1000000", "curator.epsilon=90")
    chosen = checked(loading.load("model-agnostic-stream", [*SMALL, *many, network(hidden=4096)]))
    with pytest.raises(BadScenario, match=r"with 13\d\.\d GiB for the learner's work on it"):  # other teachers: 15.8
        check_room(chosen, tmp_path)


@for_each(
    ("change", "says"),
    [
        (network(hidden=0), "hidden"),
        (network(layers=2), "layers"),
        ("curator.learner.student={classifier: TorchNetwork}", "a student leaves as data"),
        ("curator.learner.teacher={classifier: BaggingClassifier, parameters: {estimator: {classifier: TorchNetwork}}}",
         "cannot stand inside another classifier"),
        ("curator.learner={name: scikit, draws: 10, classifier: TorchNetwork}", "teachers only"),
    ],
)  # fmt: skip
def test_what_is_no_such_network_is_refused(change: str, says: str):
    with pytest.raises(BadScenario, match=says):
        loading.load("model-agnostic-stream", [*SMALL, change])


def test_a_network_with_too_many_weights_is_refused_before_it_is_tried():
    wide = ("source.distribution.d=9000", "target.distribution.d=9000", "public.distribution.d=9000",
            "curator.learner.classes.first=9000")  # fmt: skip
    refused = refusal(checked(loading.load("model-agnostic-stream", [*SMALL, *wide, network(hidden=4096)])))
    assert "36,880,387 weights are more than the 16,777,216 of a teacher" in str(refused)
