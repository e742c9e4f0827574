"""Protocols where many agents are silent, or only some answers arrive: what is then said, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.hypotheses.hypothesis import Linear
from common.local.queries.query import Answers
from common.net.messages import MAX_AGENTS, MAX_LISTED
from common.operations.operation import Learned
from common.protocols.base import AskCurator
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario
from deploy import simulation
from deploy.simulation import SimulatedAgents
from referee.protocols.base import protocol_of
from referee.protocols.driver import needed
from referee.runs.results import result_document
from referee.runs.verdict import verdict
from tests.referee.protocols.test_portfolio import conducted, portfolio_small
from tests.support import Bench, audited, small, tiny
from tests.tiers import for_each

ONCE = ["learn-and-test", "hypothesis-testing", "select-then-estimate"]
PORTFOLIOS = ["portfolio", "portfolio-regression"]


def answering(monkeypatch: pytest.MonkeyPatch, keeps: Callable[[np.ndarray], Any]) -> list[int]:
    """Let only those answer who are kept, given all answers; return how many each question asks."""
    real, asked = SimulatedAgents.answer, []

    def fewer(self, number, step):
        asked.append(step.count)
        found = real(self, number, step)
        kept = keeps(found.values)
        return Answers(found.asked, found.values[kept], found.slots[kept])

    monkeypatch.setattr(simulation.SimulatedAgents, "answer", fewer)
    return asked


def share_answers(monkeypatch: pytest.MonkeyPatch, share: float) -> list[int]:
    return answering(monkeypatch, lambda values: slice(int(share * len(values))))


@for_each("protocol", ONCE)
def test_half_of_what_the_guarantee_takes_is_not_done(protocol, monkeypatch):
    chosen = small(protocol)
    least, count = needed(chosen), chosen.agents.count
    assert conducted(chosen).status == "done"
    share_answers(monkeypatch, share := 0.5 * least / count)
    few = conducted(chosen)
    assert few.status == "exhausted"
    assert f"{int(share * count):,} of {count:,} agents answered" in few.reason
    assert f"{least:,}" in few.reason


@for_each("protocol", ["learn-and-test", *PORTFOLIOS])
def test_an_accuracy_that_no_number_of_agents_gives_throws_no_answers_away(protocol):
    """No run has so many agents as an alpha of 1e-9 takes: it ends with what its own agents show."""
    few = conducted(small(protocol, "alpha=1.0e-9"))
    assert few.status in ("done", "exhausted")
    assert needed(small(protocol, "alpha=1.0e-9")) == small(protocol).agents.count


def test_a_search_that_ends_early_is_done_with_the_answers_that_it_asked_for(monkeypatch):
    """It asks for fewer than were planned; half of these are too few all the same."""
    chosen, asked = small("parity-and-threshold"), share_answers(monkeypatch, 1.0)
    assert conducted(chosen).status == "done"
    assert sum(asked) < needed(chosen)
    share_answers(monkeypatch, 0.5)
    few = conducted(chosen)
    assert few.status == "exhausted"
    assert "agents answered, and the guarantee takes" in few.reason


def test_the_least_is_what_is_refused_beforehand():
    chosen = small("hypothesis-testing")
    least = needed(chosen)
    assert 0 < least <= chosen.agents.count
    section = chosen.agents.model_copy(update={"dropout": 0.5})
    assert needed(chosen.model_copy(update={"agents": section})) == least
    assert needed(tiny()) == 0  # a sequential test decides on what it has heard


@for_each("protocol", ["learn-and-test", "subsample-test-reweigh", *PORTFOLIOS, "portfolio-classes", "discrepancy"])
def test_answers_that_no_honest_agents_give_are_not_done_and_tell_nothing(protocol, monkeypatch):
    """Of all answers those that say 1 are left out: what remains would be a loss of 0, for certain."""
    chosen = small(protocol)
    if protocol == "portfolio":  # so many that some are surveyed about the probabilities
        chosen = resolve(portfolio_small())
    assert "answers were left out" not in conducted(chosen).reason
    answering(monkeypatch, lambda values: values == 0)
    outcome = conducted(chosen)
    assert outcome.status == "exhausted"
    assert "0 of " in outcome.reason
    assert "answers were left out because of what they say, or many agents lie" in outcome.reason
    estimates = [outcome.estimate, *(judged.estimate for judged in outcome.judged)]
    assert {(estimate.low, estimate.high) for estimate in estimates if estimate} <= {(0.0, 1.0)}
    assert outcome.gap in (None, 1.0)
    assert (outcome.calibrated, outcome.quality) == (None, None)
    assert all((pair.low, pair.high) == (-1.0, 1.0) for pair in outcome.pairs)
    if found := outcome.comparison:
        assert (found.low, found.high) == (-1.0, 1.0)
        assert (found.likely, found.probable, found.agents) == ((-1.0, 1.0), (-1.0, 1.0), None)
    if protocol in PORTFOLIOS:
        agents = dict.fromkeys(("asked", "answered", "enrolled"), 9)
        told = {"status": outcome.status, "reason": outcome.reason, "agents": agents, "lost": {}, "enrolment": {}}
        written = result_document(chosen, outcome, rounds=[], terms=None, seconds={}, **told)
        assert verdict(chosen, written).answer == "cannot be told"


def test_silent_people_of_a_real_run_are_said_and_audited(tmp_path):
    chosen = tiny("protocol=learn-and-test", "agents.count=700", "agents.dropout=0.0", "agents.deadline=5")
    with Bench(tmp_path, chosen) as bench:
        bench.population._dropout = 0.7
        result = bench.run()
        assert result["status"] == audited(bench).status == "exhausted"
    assert result["agents"]["asked"] == 700
    assert result["lost"]["silent"] == 700 - result["agents"]["answered"] > 400
    assert "enrol more agents" in result["reason"]


def script_of(chosen: ResolvedScenario, **agents: int) -> Any:
    """Return the script of a scenario with other numbers of agents than it may have."""
    section = chosen.agents.model_copy(update=agents)
    return protocol_of(chosen).script(chosen.model_copy(update={"agents": section}), 7)


@for_each(
    ("protocol", "most"),
    [
        *((name, MAX_LISTED) for name in ("local-averages", "blender")),
        *((name, MAX_AGENTS) for name in (*ONCE, "local-gradient-descent")),
    ],
)
def test_no_question_is_cut_off_in_silence(protocol, most):
    """More than one question reaches are refused with both numbers, before anybody is asked anything."""
    with pytest.raises(BadScenario, match=rf"one question .*reaches {most:,} agents, .* were to answer it"):
        next(script_of(small(protocol), count=30 * most))


def test_a_question_that_asks_everybody_the_same_reaches_more_than_can_be_listed():
    chosen = tiny("agents.mechanism.epsilon=0.001")
    script = script_of(chosen, count=10**8, batch=10_000_000)
    assert isinstance(next(script), AskCurator)
    script.send(Learned(hypothesis=Linear(weights=(0.0,) * 8, threshold=0.0)))  # says that it tests
    step = script.send(None)
    assert step.count == 10_000_000 > MAX_LISTED
