"""What every registered protocol must keep: deterministic, replayable, within its pattern, and it always ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.errors import PatternViolation, PeerMisbehaved
from common.operations import Learn
from common.randomness import RandomSource
from common.scenario import Scenario
from referee.driver import drive
from referee.protocols.base import PROTOCOLS, Answers, AskAgents, AskCurator, Note, Outcome, learned
from tests.support import Bench, tiny


class World:
    """Both sides as a protocol sees them: released hypotheses, agents whose answers are ones at some rate."""

    def __init__(self, chosen: Scenario, rate: float, agents: int | None = None) -> None:
        self.rate = rate
        self.left = int(chosen.agents.count) if agents is None else agents
        self.mechanism = chosen.agents.mechanism
        self.source = RandomSource.seeded(7)
        self.log: list[tuple[int, Any, Any]] = []

    def __call__(self, number: int, step: AskCurator | AskAgents) -> Any:
        reply: Any
        if isinstance(step, AskCurator):
            reply = {"event": {}}
            if isinstance(step.operation, Learn):
                weights = [float(len(self.log)), *[1.0] * 7]
                reply["hypothesis"] = {"kind": "linear", "weights": weights, "threshold": 0.0}
        else:
            asked = min(step.count, self.left)
            self.left -= asked
            values = self.mechanism.randomize(np.full(asked, self.rate), self.source)
            reply = Answers(asked, values, np.arange(asked))
        self.log.append((number, step, reply))
        return reply


def play(name: str, chosen: Scenario, exchange: Any, notes: list[Note] | None = None) -> Outcome:
    protocol = PROTOCOLS[name]()
    return drive(protocol.script(chosen), protocol.pattern, exchange, (notes if notes is not None else []).append)


NAMES = PROTOCOLS.names()
RATES = [0.0, 0.1, 0.24, 0.5, 1.0]


def scenario_of(name: str, *overrides: str) -> Scenario:
    return tiny(f"protocol={name}", *overrides)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", NAMES)
def test_it_ends_with_an_outcome_within_its_pattern(name, rate):
    chosen = scenario_of(name)
    notes: list[Note] = []
    outcome = play(name, chosen, World(chosen, rate), notes)
    assert isinstance(outcome, Outcome)
    assert outcome.status in ("done", "exhausted")
    assert outcome.iterations >= 1
    assert outcome.reason
    assert outcome.estimate.low <= outcome.estimate.value <= outcome.estimate.high
    assert notes
    outcome.answer.wire()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_answers_lead_to_the_same_questions_and_outcome(name):
    chosen = scenario_of(name)
    first, second = World(chosen, 0.3), World(chosen, 0.3)
    assert play(name, chosen, first) == play(name, chosen, second)
    assert [(n, step) for n, step, _ in first.log] == [(n, step) for n, step, _ in second.log]


@pytest.mark.parametrize("name", NAMES)
def test_resume_is_replay(name):
    """Cut off after any exchange and fed the stored replies, a fresh generator goes on to the same end."""
    chosen = scenario_of(name)
    whole = World(chosen, 0.3)
    expected = play(name, chosen, whole)
    for cut in range(0, len(whole.log) + 1, max(1, len(whole.log) // 4)):
        rest = iter(whole.log)

        def exchange(number: int, step: Any, rest: Any = rest) -> Any:
            stored_number, stored_step, reply = next(rest)
            assert (stored_number, stored_step) == (number, step)
            return reply

        assert play(name, chosen, exchange) == expected
        assert cut <= len(whole.log)


@pytest.mark.parametrize("agents", [0, 1, 399, 401, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_when_agents_run_out_it_is_exhausted_and_gives_its_best(name, agents):
    chosen = scenario_of(name)
    outcome = play(name, chosen, World(chosen, 0.24, agents))
    assert outcome.status == "exhausted"
    assert outcome.answer is not None


@pytest.mark.parametrize("name", NAMES)
def test_no_more_agents_are_asked_than_there_are(name):
    chosen = scenario_of(name)
    world = World(chosen, 0.24)
    play(name, chosen, world)
    assert sum(reply.asked for _, step, reply in world.log if isinstance(step, AskAgents)) <= chosen.agents.count
    assert all(step.count > 0 for _, step, _ in world.log if isinstance(step, AskAgents))


@pytest.mark.parametrize("name", NAMES)
def test_agnostic_mode_ends_too(name):
    chosen = scenario_of(name, "mode=agnostic")
    outcome = play(name, chosen, World(chosen, 0.3))
    assert outcome.status in ("done", "exhausted")


@pytest.mark.parametrize("name", NAMES)
def test_without_any_privacy_it_is_the_same_protocol(name):
    chosen = scenario_of(name, "agents.mechanism={name: none}", "curator.kappa=null")
    assert isinstance(play(name, chosen, World(chosen, 0.3)), Outcome)


@pytest.mark.parametrize("name", NAMES)
def test_rounds_of_one_are_enough_to_end(name):
    chosen = scenario_of(name, "curator.rounds=1")
    assert play(name, chosen, World(chosen, 0.9)).iterations == 1 or name != "subsample-test-reweigh"


# Subsample-Test-Reweigh itself ---------------------------------------------------------------------------------------

STR = "subsample-test-reweigh"


def test_it_halts_at_the_first_hypothesis_that_is_good():
    chosen = tiny()
    outcome = play(STR, chosen, world := World(chosen, 0.0))
    assert (outcome.status, outcome.iterations) == ("done", 1)
    assert outcome.estimate.high < chosen.accuracy.halt_below * chosen.alpha
    assert [type(step).__name__ for _, step, _ in world.log] == ["AskCurator", "AskAgents"]


def test_it_reweighs_by_every_hypothesis_that_is_bad_and_never_after_the_last():
    chosen = tiny()
    world = World(chosen, 1.0)
    outcome = play(STR, chosen, world)
    kinds = [step.operation.kind for _, step, _ in world.log if isinstance(step, AskCurator)]
    assert kinds == ["learn", "reweigh", "learn", "reweigh", "learn"]
    assert (outcome.status, outcome.iterations) == ("exhausted", 3)
    released = [reply["hypothesis"] for _, step, reply in world.log if "hypothesis" in getattr(reply, "keys", dict)()]
    reweighed = [
        step.operation.hypothesis.wire()
        for _, step, _ in world.log
        if isinstance(step, AskCurator) and step.operation.kind == "reweigh"
    ]
    assert reweighed == released[:2]


def test_out_of_rounds_it_gives_the_best_by_upper_limit():
    chosen = tiny("mode=agnostic")
    world = World(chosen, 0.9)
    seen: list[Any] = []

    def improving(number: int, step: Any) -> Any:
        world.rate = [0.9, 0.3, 0.6][len(seen)] if isinstance(step, AskAgents) else world.rate
        if isinstance(step, AskAgents):
            seen.append(step.query.hypothesis)
        return world(number, step)

    outcome = play(STR, chosen, improving)
    assert (outcome.status, outcome.iterations) == ("exhausted", 3)
    assert outcome.answer == seen[1]
    assert outcome.estimate.low <= 0.3 <= outcome.estimate.high


def test_a_release_without_a_hypothesis_is_the_curators_fault():
    for release in ({}, {"hypothesis": None}, {"hypothesis": {"kind": "code"}}, {"hypothesis": {"kind": "linear"}}):
        with pytest.raises(PeerMisbehaved, match="no acceptable hypothesis"):
            learned(release)
    with pytest.raises(PeerMisbehaved):
        play(STR, tiny(), lambda number, step: {})


def test_a_curator_that_releases_rubbish_fails_the_run_and_not_the_referee(tmp_path):
    class Rubbish:
        def __init__(self, curator: Any) -> None:
            self.curator = curator

        def open_run(self, signed: Any) -> Any:
            return self.curator.open_run(signed)

        def perform(self, signed: Any) -> Any:
            from common import messages
            from common.identity import Identity

            release = messages.Release.parse(self.curator.perform(signed).message)
            broken = release.model_copy(update={"result": {"event": release.result["event"]}})
            identity: Identity = self.curator._vault.identity
            return identity.sign(broken.KIND, broken.wire())

    with Bench(tmp_path, curator=Rubbish) as bench:
        result = bench.run()
    assert (result["status"], result["answer"]) == ("failed", None)
    assert "no acceptable hypothesis" in result["reason"]


def test_its_pattern_forbids_what_the_paper_forbids():
    protocol = PROTOCOLS[STR]()
    with pytest.raises(PatternViolation):
        protocol.pattern.after("curator", "reweigh")
    assert protocol.title == "Subsample-Test-Reweigh"


@pytest.mark.parametrize("private", [False, True])
def test_agnostic_and_non_private_runs_are_audited_like_any_other(tmp_path, private):
    from referee.audit import audit
    from tests.support import leave_folder

    open_ = ["agents.mechanism={name: none}", "curator.kappa=null", "curator.epsilon=null", "curator.delta=null"]
    overrides = ["mode=agnostic"] if private else [*open_, "curator.learner.noise=0"]
    with Bench(tmp_path / "state", tiny(*overrides)) as bench:
        result = bench.run()
        found = audit(leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished()))
    assert found.status == result["status"]
    assert result["privacy"]["curator"]["epsilon"] == (60.0 if private else None)
    assert result["privacy"]["agent"]["epsilon"] == (2.0 if private else None)
