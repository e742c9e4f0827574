"""Too few answers are never plain done, whatever the protocol; the audit says the same."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.answers import Answers, AskAgents
from common.net.messages import MAX_AGENTS, MAX_LISTED
from deploy import simulation
from deploy.simulation import SimulatedAgents, conduct
from referee.audit.audit import audit
from referee.protocols.base import protocol_of
from referee.protocols.driver import needed
from tests.support import Bench, leave_folder, small, tiny
from tests.tiers import for_each

ONCE = ["learn-and-test", "hypothesis-testing", "select-then-estimate"]


def heard(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Let only a share of those who are asked answer."""
    real = SimulatedAgents.answer

    def fewer(self, query, count):
        found = real(self, query, count)
        kept = int(share * len(found.values))
        return Answers(found.asked, found.values[:kept], found.slots[:kept])

    monkeypatch.setattr(simulation.SimulatedAgents, "answer", fewer)


@for_each("protocol", ONCE)
def test_half_of_what_the_guarantee_takes_is_not_done(protocol, monkeypatch):
    chosen = small(protocol)
    everybody = conduct(chosen, 1, lambda *a: None)
    assert everybody.status == "done"
    heard(monkeypatch, share := 0.5 * needed(chosen) / chosen.agents.count)
    few = conduct(chosen, 1, lambda *a: None)
    assert few.status == "exhausted"
    assert f"{int(share * chosen.agents.count):,} of {chosen.agents.count:,} agents answered" in few.reason
    assert f"{needed(chosen):,}" in few.reason


def test_a_search_that_ends_early_is_done_with_the_answers_that_it_asked_for(monkeypatch):
    """It asks for fewer than were planned; half of these are too few all the same."""
    chosen, asked = small("parity-and-threshold"), []
    real = SimulatedAgents.answer

    def counting(self, query, count):
        asked.append(count)
        return real(self, query, count)

    monkeypatch.setattr(simulation.SimulatedAgents, "answer", counting)
    assert conduct(chosen, 1, lambda *a: None).status == "done"
    assert sum(asked) < needed(chosen)
    heard(monkeypatch, 0.5)
    few = conduct(chosen, 1, lambda *a: None)
    assert few.status == "exhausted"
    assert "agents answered, and the guarantee takes" in few.reason


def test_the_least_is_what_is_refused_beforehand():
    chosen = small("hypothesis-testing")
    least = needed(chosen)
    assert 0 < least <= chosen.agents.count
    section = chosen.agents.model_copy(update={"dropout": 0.5})
    assert needed(chosen.model_copy(update={"agents": section})) == least


@for_each("protocol", ["learn-and-test", "subsample-test-reweigh", "portfolio"])
def test_answers_that_no_honest_agents_give_are_not_done_and_tell_nothing(protocol, monkeypatch):
    """Of all answers those that say 1 are left out: what remains would be a loss of 0, for certain."""
    chosen = small(protocol)
    real = SimulatedAgents.answer

    def zeros(self, query, count):
        found = real(self, query, count)
        kept = found.values == 0
        return Answers(found.asked, found.values[kept], found.slots[kept])

    assert "answers were left out" not in conduct(chosen, 1, lambda *a: None).reason
    monkeypatch.setattr(simulation.SimulatedAgents, "answer", zeros)
    outcome = conduct(chosen, 1, lambda *a: None)
    assert outcome.status == "exhausted"
    assert "0 of " in outcome.reason
    assert "answers were left out because of what they say, or many agents lie" in outcome.reason
    if outcome.estimate is not None:
        assert (outcome.estimate.low, outcome.estimate.high) == (0.0, 1.0)
    assert all((judged.estimate.low, judged.estimate.high) == (0.0, 1.0) for judged in outcome.judged)
    assert outcome.gap in (None, 1.0)


def test_a_sequential_test_decides_on_what_it_has_heard():
    assert needed(tiny()) == 0


def test_silent_people_of_a_real_run_are_said_and_audited(tmp_path):
    chosen = tiny("protocol=learn-and-test", "agents.count=700", "agents.dropout=0.0", "agents.deadline=5")
    with Bench(tmp_path / "state", chosen) as bench:
        bench.population._dropout = 0.7
        result = bench.run()
        finished = bench.finished()
    assert result["status"] == "exhausted"
    assert result["agents"]["asked"] == 700
    assert result["lost"]["silent"] == 700 - result["agents"]["answered"] > 400
    assert "enrol more agents" in result["reason"]
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).status == "exhausted"


@for_each(
    ("protocol", "most"),
    [
        ("learn-and-test", MAX_AGENTS),
        ("hypothesis-testing", MAX_AGENTS),
        ("select-then-estimate", MAX_AGENTS),
        ("local-averages", MAX_LISTED),
        ("local-gradient-descent", MAX_AGENTS),
    ],
)
def test_no_question_is_cut_off_in_silence(protocol, most):
    """More than one question reaches are refused with both numbers, before anybody is asked anything."""
    chosen = small(protocol)
    section = chosen.agents.model_copy(update={"count": 30 * most})
    script = protocol_of(chosen).script(chosen.model_copy(update={"agents": section}), 7)
    with pytest.raises(BadScenario, match=rf"one question .*reaches {most:,} agents, .* were to answer it"):
        next(script)


def test_a_question_that_asks_everybody_the_same_reaches_more_than_can_be_listed():
    chosen = tiny("agents.mechanism.epsilon=0.001")
    section = chosen.agents.model_copy(update={"count": 10**8, "batch": 10_000_000})
    script = protocol_of(chosen).script(chosen.model_copy(update={"agents": section}), 7)
    step = next(script)
    while not isinstance(step, AskAgents):
        step = script.send(learned_of(step))
    assert step.count == 10_000_000 > MAX_LISTED


def learned_of(step):
    from common.local.hypotheses.linear import Linear
    from common.operations.learning import Learned

    if not hasattr(step, "operation"):
        return None
    return Learned(hypothesis=Linear(weights=tuple(np.zeros(8).tolist()), threshold=0.0))
