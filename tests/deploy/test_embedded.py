"""One process: deterministic, resumable, and it says so when nobody can come any more."""

import json
import shutil
import socket
import struct
import sys
from contextlib import closing, nullcontext

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from common.core.errors import BadInput, BadScenario, NotFound, RolledBack
from common.data.population import TableRecordSource, open_records
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.queries.query import AskAgents, LossQuery
from common.local.records import Records
from common.net.server import listen
from common.scenario import loading
from common.scenario.loading import load
from common.scenario.scenario import settled
from deploy import baselines
from deploy.baselines import Attempts, Judgement, can_judge, complete, judge, loss, run_baselines
from deploy.deployment import Embedded
from deploy.processes import free_port
from deploy.remote import Remote
from deploy.running import carry_out
from deploy.simulation import SimulatedAgents, conduct
from referee.protocols.base import small_ball
from tests.support import TINY, TOKEN, Bench, quiet, served, tiny
from tests.tiers import for_each


def test_the_same_seed_is_the_same_run_and_another_seed_another(tmp_path, undisturbed):
    first = Embedded(tmp_path / "a").run(tiny(), 1, "other-name", quiet)
    for name in ("status", "iterations", "answer", "estimate", "agents", "privacy"):
        assert first.result[name] == undisturbed[1].result[name]
    assert Embedded(tmp_path / "b").run(tiny(), 2, "run", quiet).result["answer"] != first.result["answer"]


def test_too_few_people_end_the_run_at_once(tmp_path):
    """A host that has fewer people than wanted: nobody will ever come, so the run fails instead of waiting."""
    Embedded(tmp_path).run(tiny("agents.count=1300"), 1, "run", quiet)
    second = Embedded(tmp_path).run(tiny("agents.count=1300"), 1, "second", quiet)
    assert second.result["status"] == "failed"
    assert "fewer people" in second.result["reason"]
    assert second.transcript == ""


def test_no_deadline_passes_while_everybody_is_at_work(tmp_path):
    """Nobody's answer is on its way: a machine of any speed gives the same run."""
    agents = Embedded(tmp_path).run(tiny("agents.deadline=1e-9"), 1, "run", quiet).result["agents"]
    assert agents["answered"] == agents["asked"] == 1200


def test_nothing_stays_open_when_a_party_cannot_be_opened(tmp_path):
    Embedded(tmp_path).run(tiny(), 1, "run", quiet)
    with pytest.raises(BadInput, match="another seed"):
        Embedded(tmp_path).run(tiny(), 2, "run", quiet)
    with Bench(tmp_path / "other"):
        pass
    Embedded(tmp_path).run(tiny(), 1, "run", quiet)


def test_an_operator_token_that_no_header_carries_is_refused_and_not_shown():
    for token in ("secr\u00e9t", "secret\n"):
        with pytest.raises(BadInput, match="the operator token holds a line's end or a character"):
            Remote("http://127.0.0.1:9", token, patience=0.0).runs()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone keeps a port for who is bound to it")
def test_a_free_port_is_given_to_nobody_else_before_its_service_listens():
    for port in {free_port() for _ in range(5)}:
        with socket.socket() as other:
            try:  # for this socket the system chooses from this port alone: IP_LOCAL_PORT_RANGE, here by its number
                other.setsockopt(socket.IPPROTO_IP, 51, struct.pack("I", port | port << 16))
            except OSError:
                pytest.skip("a range of ports for one socket needs Linux 6.3")
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", 0))
        with listen("127.0.0.1", port) as listener:
            assert listener.getsockname()[1] == port


PLANE = LossQuery(hypothesis=Linear(weights=(1.0,) * 8, threshold=0.0))


def test_the_same_seed_is_the_run_of_a_deployment(undisturbed):
    told = []
    outcome = conduct(tiny(), 1, lambda round_, hypothesis: told.append((round_, hypothesis)))
    assert [round_ for round_, _ in told] == [1, 2, 3]
    result = undisturbed[1].result
    assert (outcome.status, outcome.iterations) == (result["status"], result["iterations"]) == ("exhausted", 3)
    assert outcome.answer.wire() == result["answer"]
    assert outcome.estimate.wire() == result["estimate"]
    entries = [json.loads(line) for line in undisturbed[1].transcript.splitlines()]
    released = [entry["body"]["release"]["message"]["result"] for entry in entries if "release" in entry["body"]]
    assert [h.wire() for _, h in told] == [r["hypothesis"] for r in released if "hypothesis" in r]


def test_the_sample_is_kept_as_the_scenario_says():
    fixed = conduct(tiny("curator.storage.numbers=fixed"), 1, quiet)
    mapped = conduct(tiny("curator.storage.numbers=fixed", "curator.storage.place=disk"), 1, quiet)
    assert fixed == mapped
    assert fixed != conduct(tiny(), 1, quiet)


def test_everybody_is_asked_once_until_nobody_is_left():
    simulated_agents = SimulatedAgents(tiny("agents.count=5000"), 1)
    first, second, third, none = (simulated_agents.answer(n, AskAgents(PLANE, 2000)) for n in range(4))
    assert [answers.asked for answers in (first, second, third, none)] == [2000, 2000, 1000, 0]
    assert list(first.slots[:3]) == [0, 1, 2]
    assert len(none.values) == 0
    assert not np.array_equal(first.values, second.values)


def test_what_no_simulation_does_is_refused():
    with pytest.raises(BadScenario, match="dropout"):
        SimulatedAgents(tiny("agents.dropout=0.25"), 1)
    with pytest.raises(BadScenario, match="real"):
        conduct(tiny().model_copy(update={"people": "real"}), 1, quiet)


RESULT = {"answer": {"kind": "linear", "weights": [0.0] * 8, "threshold": 1.0}, "iterations": 1}


def test_an_operator_without_the_table_gets_no_truth_and_no_baselines(tmp_path, monkeypatch):
    monkeypatch.delenv("TANDEM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    asked = loading.load("adult")
    assert not can_judge(asked)
    assert complete(RESULT, asked, None, tmp_path, quiet)["truth"] is None


def test_simulated_people_are_judged_without_baselines_if_none_are_named(tmp_path):
    truth = complete(RESULT, tiny("baselines=[]"), 1, tmp_path, quiet)["truth"]
    # The constant -1: right about those inside; 60% of T lie outside. 2^21 people: five standard errors are 0.0017.
    assert truth == {
        "loss_on_target": pytest.approx(0.6, abs=0.0017),
        "loss_on_negative": 0.0,
        "loss_on_positive": 1.0,
        "people": 1 << 21,
    }


def test_a_hypothesis_is_judged_on_each_label():
    chosen = loading.load("halfspace")
    population = open_records(chosen.target, None, 3, 40_000)
    lost = {label: judge(Constant(label=label), population) for label in (1, -1)}
    # The constant +1 has half the loss that Appendix C halts at, and is wrong about everybody in the rare class.
    assert (lost[1].on_negative, lost[1].on_positive) == (1.0, 0.0)
    assert (lost[-1].on_negative, lost[-1].on_positive) == (0.0, 1.0)
    assert lost[1].loss == pytest.approx(0.01, abs=0.003) == 1.0 - lost[-1].loss
    everybody = TableRecordSource(Records(np.zeros((3, 1), dtype=np.float32), np.ones(3, dtype=np.int8)))
    assert judge(Constant(label=1), everybody) == Judgement(0.0, None, 0.0)


def test_a_wrong_label_is_a_squared_error_of_one_and_half_of_them_are_a_half():
    labels = np.array([1, -1, 1, -1], dtype=np.int8)
    four = TableRecordSource(Records(np.zeros((4, 1), dtype=np.float32), labels))
    assert loss(Constant(label=1), four, "squared") == loss(Constant(label=1), four) == 0.5
    between = Linear(weights=(1.0,), threshold=-0.5)  # it predicts the value 0.75 for everybody
    assert loss(between, four, "squared") == (2 * 0.25**2 + 2 * 0.75**2) / 4
    assert loss(between, four) == 0.5


@pytest.mark.slow
@for_each(("name", "loss"), [("agents-once", 0.1), ("agents-only", 0.31)])
def test_agents_alone_get_as_many_agents_as_the_hybrid_run_asked(name, loss, tmp_path):
    rates = "[{features: [17], source: 0.95, target: 0.6}]"
    few = [f"{side}.distribution.{what}" for side in ("source", "target") for what in ("d=20", f"rates={rates}")]
    chosen = load("sparse", [f"baselines=[{name}]", "agents.mechanism={name: none}", *few])
    found = run_baselines(chosen, {"agents": {"asked": 60_000}}, 1, tmp_path, Attempts(quiet), quiet)
    assert list(found) == [name]
    assert "60,000 agents (no privacy)" in found[name]["note"]
    # The constant answer misses 30%, and thirty steps of descent do not come far from it.
    assert found[name]["loss_on_target"] < loss


@pytest.mark.slow
def test_a_run_that_asked_nobody_has_its_baselines_all_the_same(tmp_path):
    chosen = tiny("baselines=[agents-once]")
    found = run_baselines(chosen, {"agents": {"asked": 0}}, 1, tmp_path, Attempts(quiet), quiet)
    assert 0.3 < found["agents-once"]["loss_on_target"] < 0.7


def test_the_optimum_is_that_of_the_hypotheses_in_question(tmp_path):
    # No half-space is better than a coin for a parity of many features.
    chosen = load("parity", ["baselines=[optimum]"])
    found = run_baselines(chosen, {}, 1, tmp_path, Attempts(quiet), quiet)
    assert found["optimum"]["loss_on_target"] == 0.0


def test_a_baseline_without_an_answer_is_left_out_and_told_of(tmp_path):
    told: list[str] = []
    attempts = Attempts(lambda text, numbers: told.append(text))
    chosen = load(
        "ball-nonprivate", ["baselines=[agents-once]", "source.distribution.norm=null", "target.distribution.norm=null"]
    )
    found = run_baselines(chosen, {"agents": {"asked": 1000}}, 1, tmp_path, attempts, quiet)
    assert found == {}
    assert attempts.left_out["agents-once"].startswith("local averages need records of bounded norm")
    assert not any(tmp_path.iterdir())  # what a baseline worked with is gone
    assert "agents-once is left out: local averages need records of bounded norm" in told[-1]


def test_the_optimum_is_what_scikit_learn_fits():
    draws = np.random.default_rng(3)
    features = draws.normal(size=(4000, 3)).astype(np.float32)
    chances = 1.0 / (1.0 + np.exp(-(features @ np.array([2.0, -1.0, 0.0]) + 0.5)))
    records = Records(features, np.where(draws.random(4000) < chances, 1, -1).astype(np.int8))
    theirs = LogisticRegression(C=1e4).fit(features, records.labels)
    ours = baselines.half_space(records)
    assert np.allclose(ours.weights, theirs.coef_[0], atol=0.01)
    assert ours.threshold == pytest.approx(-theirs.intercept_[0], abs=0.01)
    # Each is predicted by a fit that has not seen it, so the loss is no better than that of a fit that has seen all.
    seen = float(ours.mistakes(records).mean())
    assert seen - 0.002 <= baselines.cross_validated(records) <= seen + 0.01


def test_a_fit_is_judged_on_those_it_has_not_seen():
    features = np.eye(60, dtype=np.float32)  # whoever is seen is known by heart, and says nothing of others
    labels = np.where(np.random.default_rng(1).random(60) < 0.5, 1, -1).astype(np.int8)
    records = Records(features, labels)
    assert float(baselines.half_space(records).mistakes(records).mean()) == 0.0
    assert baselines.cross_validated(records) > 0.3


@pytest.mark.slow
def test_each_task_is_judged_by_its_own_label(tmp_path):
    asked = settled(load("hand-over", [*TINY, "accuracy.halt_below=5.9", "accuracy.reweigh_above=5.5"]))
    finished = Embedded(tmp_path).run(asked, 1, "run", quiet)
    result = complete(finished.result, asked, 1, tmp_path, quiet)
    assert len(result["tasks"]) == len(result["truth"]["tasks"]) == 2
    assert result["truth"]["loss_on_target"] == result["truth"]["tasks"][-1]
    assert all(0.0 <= value < 0.5 for value in result["truth"]["tasks"])


def test_another_history_takes_no_ended_runs_place(tmp_path):
    """Parties that are gone, or were put back to before a run, would carry it out anew over what it has left."""

    def carried(name):
        chosen, folder = small_ball("baselines=[]"), tmp_path / name
        carry_out(chosen, "embedded", seed=1, output=folder, token="", watching=lambda *_: nullcontext(quiet))

    carried("run")
    written = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    shutil.rmtree(tmp_path / "run" / "state")
    with pytest.raises(BadInput, match=r"has ended, and its parties' state is not there: choose another --output"):
        carried("run")
    carried("other")
    (tmp_path / "other" / "state").rename(tmp_path / "run" / "state")  # the budget there is another run's
    with pytest.raises(RolledBack, match="Nothing was written there: choose another --output"):
        carried("run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == written


def test_a_referee_that_was_put_back_to_before_a_run_that_has_ended_does_not_begin_it_again(tmp_path):
    with Bench(tmp_path) as bench, served(bench.app()) as address:
        bench.referee.registrar.allow("operator", TOKEN)
        with closing(Remote(address, TOKEN, ended=True)) as remote, pytest.raises(NotFound, match="no run 'ended'"):
            remote.run(bench.chosen, 1, "ended", quiet)
        assert bench.referee.store.runs() == []
