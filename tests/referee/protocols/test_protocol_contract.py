"""What every registered protocol must keep: deterministic, replayable, within its pattern, and it always ends.

Made on its own example, so a new one is tested by being registered.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario, PeerMisbehaved
from common.data.population import open_records
from common.local.mechanisms.mechanism import Mechanism
from common.local.queries.query import QUERIES, Answers, AskAgents, Query
from common.numerics.randomness import RandomSource, subseed
from common.operations.operation import Learn, LearnParities, Operation, Result
from common.protocols.base import AskCurator, Progress, demands_of, pattern_of
from common.protocols.patterns import Party, Pattern
from common.scenario.scenario import ResolvedScenario, Scenario
from curator.engine import Engine
from curator.operations import HANDLERS
from curator.sample.base import LocalSample
from deploy.simulation import local_curator
from local_agent.answers import randomize
from referee.protocols.base import PROTOCOLS, Ablation, Outcome, Protocol, Script, Step, protocol_of
from referee.protocols.driver import drive
from tests.contracts import entries
from tests.support import Bench, audited, small, tiny
from tests.tiers import for_each

PUBLIC = 1234567
"""Public randomness of every run here."""


class World:
    """Both sides as a protocol sees them: plausible releases, agents whose answers are ones at a rate, or one a round.

    ``releases`` are what the curator releases for operations of some kinds. For protocols from elsewhere, and for
    operations of which no plausible release is written here, the scenario's own curator does the work, on its sample.
    """

    def __init__(
        self,
        chosen: Scenario,
        rate: float | list[float],
        agents: int | None = None,
        releases: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.chosen = chosen
        self.rates = rate if isinstance(rate, list) else [rate]
        self.round = 1
        self.releases = releases
        self.left = int(chosen.agents.count) if agents is None else agents
        self.source = RandomSource.seeded(7)
        self.log: list[tuple[int, Any, Any]] = []
        self.curator: Engine | None = None

    def released(self, operation: Operation[Any]) -> dict[str, Any]:
        if operation.kind in self.releases:
            return self.releases[operation.kind]
        if self.chosen.protocol not in PROTOCOLS.shipped():
            return self.carried_out(operation)
        if isinstance(operation, Learn) and self.chosen.problem is not None:
            return {"hypothesis": {"kind": "parity", "features": [0]}}
        if isinstance(operation, Learn) and self.chosen.curator.settings.class_columns[1]:
            scored = [{"kind": "linear", "weights": [*[0.0] * c, 1.0], "threshold": 0.5} for c in range(3)]
            law = {"shares": [0.5, 0.3, 0.2], "means": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "root": np.eye(3).tolist()}
            return {"hypothesis": {"kind": "argmax", "first": 5, "hypotheses": scored}, "scores": law}
        if isinstance(operation, Learn) and self.chosen.curator.settings.surrogate_loss == "squared":
            return {"hypothesis": {"kind": "regressor", "weights": 7 * [0.1], "intercept": 0.0, "response": 7}}
        if isinstance(operation, Learn):
            return {"hypothesis": {"kind": "linear", "weights": [float(len(self.log)), *[1.0] * 7], "threshold": 0.0}}
        if isinstance(operation, LearnParities):
            return {"parities": operation.parts * [operation.blocks * [[0]]]}
        plausible: dict[str, Any] = {
            "reweigh": {},
            "select": {"feature": 1},
            "count": {"count": self.chosen.curator.n // 3},
            "head": {"items": [5, 3], "counts": [60, -2], "people": 100},
            "label": {"labels": [1, -1, None, 1], "hypothesis": {"kind": "constant", "label": 1}, "protects": "labels"},
        }
        return plausible[operation.kind] if operation.kind in plausible else self.carried_out(operation)

    def carried_out(self, operation: Operation[Any]) -> dict[str, Any]:
        if self.curator is None:
            n = int(self.chosen.curator.n)
            everybody = open_records(self.chosen.source, None, subseed(1, "source"), n)
            sample = LocalSample.from_records(everybody.records(np.arange(n)))
            self.curator = local_curator(self.chosen, sample, 1)
        result: Result = self.curator.perform(str(len(self.log)), operation)
        return result.wire()

    def answered(self, query: Query, asked: int) -> Answers:
        slots = np.arange(asked)
        rate = self.rates[min(self.round, len(self.rates)) - 1]
        values = np.full(asked, rate)
        if query.domain is not None:
            values = (rate * (query.domain - 1) * np.ones(asked)).astype(np.uint64)
        return Answers(asked, randomize(query, values, self.chosen.agents.mechanism, slots, self.source), slots)

    def operations(self) -> list[Any]:
        """Return what the curator was asked for."""
        return [step.operation for _, step, _ in self.log if isinstance(step, AskCurator)]

    def questions(self) -> list[Any]:
        return [step for _, step, _ in self.log if isinstance(step, AskAgents)]

    def __call__(self, number: int, step: AskCurator | AskAgents) -> Any:
        reply: Any
        if isinstance(step, AskCurator):
            self.round = getattr(step.operation, "round", self.round)
            reply = {**self.released(step.operation), "event": {}}
        else:
            asked = min(step.count, self.left)
            self.left -= asked
            reply = self.answered(step.query, asked)
        self.log.append((number, step, reply))
        return reply


def play(
    name: str, chosen: Scenario, exchange: Any, on_progress: Callable[[Progress], None] = lambda note: None
) -> Outcome:
    protocol = protocol_named(name, chosen.alone)
    return drive(protocol.script(chosen, PUBLIC), protocol.pattern, exchange, on_progress)


def played(scenario: ResolvedScenario, reply: Callable[[Step], Any]) -> Outcome:
    """Drive a scenario's script alone, with what replies to each of its steps."""
    return replied(protocol_of(scenario).script(scenario, PUBLIC), reply)


def replied(script: Script, reply: Callable[[Step], Any]) -> Outcome:
    step = next(script)
    while True:
        try:
            step = script.send(reply(step))
        except StopIteration as end:
            return end.value


def parties(pattern: Pattern) -> list[Party]:
    sides: tuple[Party, ...] = ("agents", "curator")
    return [side for side in sides if pattern.kinds(side)]


def protocol_named(name: str, alone: str | None) -> Protocol:
    return PROTOCOLS[name]() if alone is None else Ablation(name, alone)


HELD = [name for name, _ in entries(PROTOCOLS)]
NAMES = [name for name in HELD if PROTOCOLS[name].problem is None]
"""Protocols that look for a hypothesis with a small loss."""
ABOUT = [name for name in HELD if PROTOCOLS[name].problem is not None]
"""Protocols about a problem."""
ALONE = [(name, side) for name in ABOUT for side in demands_of(name).alone]
RUNS = [*((name, None) for name in HELD), *ALONE]
RATES = [0.0, 0.1, 0.24, 0.5, 1.0]
ENDS_EARLY = ("discrepancy", "hand-over", "parity-and-threshold", "subsample-test-reweigh")
"""Those that test or search until something is clear; others ask every agent that the scenario has."""


@for_each("name", HELD)
def test_its_examples_are_scenarios_of_it_and_its_pattern_is_the_one_that_a_curator_reads(name):
    """What a curator that agreed to it takes is what the referee's protocol may ask it for: one declaration."""
    protocol = PROTOCOLS[name]
    for example in protocol.example():
        assert (example.protocol, example.problem and example.problem.name) == (name, protocol.problem)
    assert protocol.pattern is pattern_of(name)
    assert pattern_of(name).kinds("curator") <= set(HANDLERS)
    assert pattern_of(name).kinds("agents") <= set(QUERIES)
    assert name not in ABOUT or len([first for first in pattern_of(name).expected() if "at once" not in first]) <= 1


@for_each(("side", "other"), [("curator", "agents"), ("agents", "curator")])
def test_a_protocol_about_a_problem_that_asks_both_sides_has_what_remains_of_it_for_either(side, other):
    for name in ABOUT:
        if len({"curator", "agents"} & set(parties(PROTOCOLS[name].pattern))) < 2:
            with pytest.raises(BadInput, match=f"nothing remains of protocol '{name}' for {side} alone"):
                small(name, alone=side)
            continue
        found = protocol_of(small(name, alone=side))
        assert type(found) is Ablation
        assert found.problem == PROTOCOLS[name].problem
        assert found.pattern is pattern_of(name, side)
        assert found.pattern.kinds(side)
        assert not found.pattern.kinds(other)


@for_each("rate", RATES)
@for_each(("name", "alone"), RUNS)
def test_it_ends_with_an_outcome_within_its_pattern(name, alone, rate):
    chosen = small(name, alone=alone)
    notes: list[Progress] = []
    outcome = play(name, chosen, World(chosen, rate), notes.append)
    assert outcome.status in ("done", "exhausted")
    assert outcome.iterations >= 1
    assert outcome.reason
    if outcome.estimate is not None:
        assert outcome.estimate.low <= outcome.estimate.value <= outcome.estimate.high
    assert (outcome.estimate is not None and notes) or name in ABOUT
    assert type(outcome.answer).parse(json.loads(json.dumps(outcome.answer.wire()))) == outcome.answer


@for_each(("name", "alone"), RUNS)
def test_the_same_answers_lead_to_the_same_questions_and_resume_is_replay(name, alone):
    chosen = small(name, alone=alone)
    expected = play(name, chosen, whole := World(chosen, 0.3))
    rest = iter(whole.log)

    def exchange(number: int, step: Any) -> Any:
        stored_number, stored_step, reply = next(rest)
        assert (stored_number, stored_step) == (number, step)
        return reply

    assert play(name, chosen, exchange) == expected
    assert next(rest, None) is None


@for_each("agents", [0, 1, 399, 401, 1000])
@for_each(("name", "alone"), RUNS)
def test_when_agents_run_out_it_gives_its_best(name, alone, agents):
    chosen = small(name, alone=alone)
    outcome = play(name, chosen, World(chosen, 0.24, min(agents, int(chosen.agents.count) // 6)))
    assert outcome.status == "exhausted" or name in ABOUT
    assert outcome.answer is not None


@for_each(("name", "alone"), RUNS)
def test_no_more_agents_are_asked_than_there_are(name, alone):
    chosen = small(name, alone=alone)
    play(name, chosen, world := World(chosen, 0.24))
    questions = [(step.count, reply.asked) for _, step, reply in world.log if isinstance(step, AskAgents)]
    asked = sum(asked for _, asked in questions)
    assert asked <= chosen.agents.count
    assert asked == chosen.agents.count or alone == "curator" or name in ENDS_EARLY or name not in PROTOCOLS.shipped()
    assert all(count > 0 for count, _ in questions)
    # About a problem it asks for no more than there are, also where each question is fixed before it is answered.
    assert name not in ABOUT or all(asked == count for count, asked in questions)


@for_each("name", [name for name in NAMES if isinstance(small(name).agents.mechanism, Mechanism)])
def test_without_any_privacy_it_is_the_same_protocol(name):
    chosen = small(name, "agents.mechanism={name: none}", "curator.kappa=null")
    assert isinstance(play(name, chosen, World(chosen, 0.3)), Outcome)


@for_each("name", NAMES)
def test_agnostic_mode_ends_too_and_rounds_of_one_are_enough(name):
    agnostic = small(name, "mode=agnostic")
    assert play(name, agnostic, World(agnostic, 0.3)).status in ("done", "exhausted")
    chosen = small(name, "curator.rounds=1")
    assert play(name, chosen, World(chosen, 0.9)).iterations == 1 or name != "subsample-test-reweigh"


# Protocols about a problem -------------------------------------------------------------------------------------------


@for_each("name", ABOUT)
def test_both_sides_are_asked_and_a_side_that_is_left_out_never_is(name):
    for alone in (None, *(side for about, side in ALONE if about == name)):
        sides = parties(PROTOCOLS[name].pattern) if alone is None else [alone]
        chosen = small(name, alone=alone)
        play(name, chosen, world := World(chosen, 0.3))
        assert {"curator" if isinstance(step, AskCurator) else "agents" for _, step, _ in world.log} == {*sides}
    other = small(next(another for another in ABOUT if another != name))
    world = World(other, 0.3)
    with pytest.raises(BadScenario, match=r"needs its problem|agents\.mechanism"):
        play(name, other, world)
    assert world.log == []


PARITY = {"kind": "parity", "features": [0]}
NONSENSE: dict[str, list[Any]] = {
    "learn": [
        {},
        *({"hypothesis": wrong} for wrong in (None, {"kind": "code"})),
        *({"hypothesis": {**PARITY, "features": wrong}} for wrong in ([3, 1], [4000])),
        {"hypothesis": {"kind": "linear", "weights": [1.0], "threshold": 0.0}},
    ],
    "parities": [
        {},
        *({"parities": wrong} for wrong in ([], [[[0]]], [[[0], [0], [0]]] * 100)),
        *({"parities": [[[0], wrong]] * 100} for wrong in ([1, 0], [0, 0], [-1], [9], ["x"], 3)),
    ],
    "select": [{}, *({"feature": wrong} for wrong in (None, "1", 1.5, True, -1, 1 << 40, [1]))],
    "count": [{}, *({"count": wrong} for wrong in (None, "1", 0.5, True, [1]))],
    "head": [
        {},
        {"items": [1], "counts": [1]},
        *({"items": [1], "counts": [1], "people": wrong} for wrong in (0, "9")),
        *({"items": [1], "counts": wrong, "people": 9} for wrong in ([1, 2], [0.5], [1 << 70])),
        *({"items": [wrong], "counts": [1], "people": 9} for wrong in (-1, 1 << 60, 0.5)),
        {"items": [1, 1], "counts": [1, 2], "people": 9},
        {"items": list(range(600)), "counts": [1] * 600, "people": 9},
    ],
}
ASKED_OF_CURATORS = [
    (name, alone, kind)
    for name, alone in RUNS
    if name in ABOUT and alone != "agents"
    for kind in NONSENSE
    if f"curator:{kind}" in str(protocol_named(name, alone).pattern)
]


@for_each(("name", "alone", "kind"), ASKED_OF_CURATORS)
def test_nonsense_that_a_curator_releases_is_its_fault(name, alone, kind):
    chosen = small(name, alone=alone)
    for nonsense in NONSENSE[kind]:
        with pytest.raises(PeerMisbehaved, match="the curator"):
            play(name, chosen, World(chosen, 0.3, releases={kind: nonsense}))


@for_each("name", [name for name in ABOUT if "curator:learn" in str(PROTOCOLS[name]().pattern)])
def test_a_curator_none_of_whose_blocks_answers_exhausts_the_run(name):
    silent = {"learn": {"hypothesis": {"kind": "constant", "label": -1}}}
    outcome = play(name, small(name), World(small(name), 0.3, releases=silent))
    assert outcome.status == "exhausted"
    assert "no block" in outcome.reason


STR = "subsample-test-reweigh"


def test_it_halts_at_the_first_hypothesis_that_is_good():
    chosen = tiny()
    outcome = play(STR, chosen, world := World(chosen, 0.0))
    assert (outcome.status, outcome.iterations) == ("done", 1)
    assert outcome.estimate.high < chosen.accuracy.halt_below * chosen.alpha
    assert [type(step).__name__ for _, step, _ in world.log] == ["AskCurator", "AskAgents"]


def test_it_reweighs_by_every_hypothesis_that_is_bad_and_never_after_the_last():
    chosen = tiny()
    outcome = play(STR, chosen, world := World(chosen, 1.0))
    assert (outcome.status, outcome.iterations) == ("exhausted", 3)
    operations = world.operations()
    assert [operation.kind for operation in operations] == ["learn", "reweigh", "learn", "reweigh", "learn"]
    released = [reply["hypothesis"] for _, step, reply in world.log if "hypothesis" in getattr(reply, "keys", dict)()]
    assert [operation.hypothesis.wire() for operation in operations[1::2]] == released[:2]


def test_out_of_rounds_it_gives_the_best_by_upper_limit():
    chosen = tiny("mode=agnostic")
    outcome = play(STR, chosen, world := World(chosen, [0.9, 0.3, 0.6]))
    assert (outcome.status, outcome.iterations) == ("exhausted", 3)
    assert outcome.answer == world.questions()[1].query.hypothesis
    assert outcome.estimate.low <= 0.3 <= outcome.estimate.high


@pytest.mark.parametrize("private", [False, True])
def test_agnostic_and_non_private_runs_are_audited_like_any_other(tmp_path, private):
    open_ = ["agents.mechanism={name: none}", "curator.kappa=null", "curator.epsilon=null", "curator.delta=null"]
    overrides = ["mode=agnostic"] if private else [*open_, "curator.learner.noise=0"]
    with Bench(tmp_path, tiny(*overrides)) as bench:
        result = bench.run()
        assert audited(bench).status == result["status"]
    assert result["privacy"]["curator"]["epsilon"] == (60.0 if private else None)
    assert result["privacy"]["agent"]["epsilon"] == (2.0 if private else None)


def test_what_nobody_declared_is_refused():
    with pytest.raises(BadInput, match=r"'gossip' declares no pattern.*tandem\.demands"):
        pattern_of("gossip")
    with pytest.raises(BadInput, match="nothing remains of protocol 'hand-over' for agents alone"):
        pattern_of("hand-over", "agents")
