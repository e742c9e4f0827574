"""A curator parses a graph only if its own learner gives graphs."""

import pytest

from common.core.errors import BadMessage, PolicyRefused
from tests.common.local.hypotheses.onnx_models import linear, wire
from tests.support import Bench, tiny

GRAPH = {"kind": "reweigh", "hypothesis": wire(linear([1.0] * 8))}
BAYES = (
    "curator.learner={name: scikit, classifier: GaussianNB, draws: 200}",
    "curator.epsilon=null",
    "curator.delta=null",
)


def test_a_curator_with_another_learner_refuses_graphs_unparsed(bench, monkeypatch):
    def never(*_):
        raise AssertionError("parsed")

    monkeypatch.setattr("common.local.hypotheses.onnx.read_graph", never)
    bench.open()
    for hypothesis in (GRAPH["hypothesis"], {"kind": "onnx", "model": "****"}):
        with pytest.raises(PolicyRefused, match="gives no hypothesis of kind 'onnx', so it takes none"):
            bench.perform(0, {"kind": "reweigh", "hypothesis": hypothesis})


def test_a_curator_that_gives_graphs_takes_them(tmp_path):
    with Bench(tmp_path, tiny(*BAYES)) as bench:
        bench.open()
        assert bench.perform(0, {"kind": "learn", "round": 1}).result["hypothesis"]["kind"] == "onnx"
        assert bench.perform(1, GRAPH).result["event"]["kind"]
        with pytest.raises(BadMessage, match="base64"):
            bench.perform(2, {"kind": "reweigh", "hypothesis": {"kind": "onnx", "model": "****"}})


def test_a_whole_run_with_graphs(tmp_path):
    with Bench(tmp_path, tiny(*BAYES)) as bench:
        result = bench.run()
    assert result["answer"]["kind"] == "onnx"
