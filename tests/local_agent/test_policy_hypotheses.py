"""Which hypotheses an agent evaluates is its own choice: what it has not chosen is not even parsed."""

import math

import pytest

from common.core.errors import BadMessage, PolicyRefused
from local_agent.hosted.population import open_population
from local_agent.policy import ALL_HYPOTHESES, Policy
from tests.common.local.hypotheses.onnx_models import linear, wire
from tests.local_agent.test_policy import LOSS, POLICY, REFEREE, assignment, configuration
from tests.support import seal, tiny

GRAPH = {"kind": "loss", "hypothesis": wire(linear([1.0] * 8))}
WILLING = Policy(REFEREE.public, 2.0, hypotheses=ALL_HYPOTHESES)


def check(policy, query):
    agreed = configuration()
    return policy.check(assignment(agreed, query=query), seal(REFEREE, agreed), 8)


def test_by_default_graphs_are_refused_unparsed(monkeypatch):
    def never(*_):
        raise AssertionError("parsed")

    monkeypatch.setattr("common.local.hypotheses.onnx.read_graph", never)
    for hypothesis in (GRAPH["hypothesis"], {"kind": "onnx", "model": "****"}):
        constant = {"kind": "constant", "label": 1}
        for query in (
            {"kind": "loss", "hypothesis": hypothesis},
            {"kind": "compare", "first": hypothesis, "second": constant},
            {"kind": "compare", "first": constant, "second": hypothesis},
        ):
            refused = "kind 'onnx' is not accepted; accepted: argmax, conjunction, constant"
            with pytest.raises(PolicyRefused, match="hypothesis " + refused):
                check(POLICY, query)


def test_who_accepts_graphs_gets_them_checked_in_full():
    assert check(WILLING, GRAPH).query.wire() == {**GRAPH, "loss": "zero-one"}
    with pytest.raises(BadMessage, match="base64"):
        check(WILLING, {"kind": "loss", "hypothesis": {"kind": "onnx", "model": "****"}})
    with pytest.raises(PolicyRefused, match="needs 9 features"):
        check(WILLING, {"kind": "loss", "hypothesis": wire(linear([1.0] * 9))})


def test_a_policy_can_be_narrower_than_the_default():
    with pytest.raises(PolicyRefused, match="accepted: trees"):
        check(Policy(REFEREE.public, 2.0, hypotheses=frozenset({"trees"})), LOSS)


@pytest.mark.parametrize("people", ["simulated", "real"])
def test_only_simulated_people_accept_everything(people, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(
        "local_agent.hosted.population.Policy", lambda *arguments: given.append(arguments) or Policy(*arguments)
    )
    chosen = tiny()
    if people == "real":
        chosen = chosen.model_copy(update={"people": "real"})
    open_population(chosen, tmp_path, 1, REFEREE.public, 10).close()
    assert ("onnx" in Policy(*given[0]).hypotheses) == (people == "simulated")
    assert math.isfinite(given[0][1])
