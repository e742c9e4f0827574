"""Every protocol about a problem, from end to end in one process, with either side left out, and audited."""

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.queries.query import Answers, AskAgents
from common.net.messages import OrderCommitment
from common.numerics.randomness import RandomSource
from common.operations.operation import BlockParities
from common.protocols.base import AskCurator
from common.protocols.parities import shape
from common.scenario.scenario import Scenario
from deploy.baselines import complete
from deploy.deployment import Embedded
from deploy.simulation import conduct
from referee.audit.audit import audit
from referee.collection.order import commitment, public_randomness, simulated
from referee.protocols.base import PROTOCOLS
from referee.protocols.driver import begun, drive
from referee.view import show
from tests.referee.protocols.test_protocol_contract import played
from tests.support import ABOUT, ALONE, Bench, Halted, leave_folder, quiet, small
from tests.tiers import for_each, thinned

RUNS = [*((name, None) for name in ABOUT), *ALONE]


def run(chosen: Scenario, folder: Any) -> dict[str, Any]:
    finished = Embedded(folder / "state").run(chosen, 1, "run", quiet)
    left = leave_folder(folder / "run", chosen, 1, finished)
    found = audit(left)
    assert found.status == finished.result["status"]
    return complete(finished.result, chosen, 1, left, quiet)


@for_each(("name", "alone"), thinned(RUNS, 10, several=True))
def test_a_run_is_audited_and_costs_what_it_says(tmp_path, name, alone):
    chosen = small(name, alone=alone)
    result = run(chosen, tmp_path)
    assert result["status"] == "done"
    assert result["answer"]["kind"]
    assert isinstance(result["truth"]["correct"], bool)
    # With these seeds the hybrid is right; that it is with probability 1 - beta is measured by the benchmark.
    assert result["truth"]["correct"] or alone is not None
    assert result["privacy"]["curator"]["epsilon"] == pytest.approx(chosen.curator.epsilon)
    assert result["privacy"]["agent"]["epsilon"] == chosen.agents.mechanism.epsilon  # type: ignore[attr-defined]
    assert result["agents"]["asked"] <= chosen.agents.count
    assert (result["agents"]["asked"] == 0) == (alone == "curator")
    if alone is None:  # public randomness follows from the seed, whatever the deployment is
        assert conduct(chosen, 1, lambda number, hypothesis: None).answer.wire() == result["answer"]


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(ABOUT, 2))
def test_a_referee_that_dies_while_agents_are_asked_goes_on_as_if_it_had_not(tmp_path, name):
    """Also between two messages of one step: nothing is released, charged or answered twice."""
    chosen = small(name)

    def die() -> None:
        raise Halted

    with Bench(tmp_path / "undisturbed", chosen) as bench:
        expected = bench.run()
    with Bench(tmp_path / "cut", chosen) as bench:
        bench.meanwhile(die)
        with pytest.raises(Halted):
            bench.run()
    with Bench(tmp_path / "cut", chosen) as bench:
        found = bench.run()
        asked = PROTOCOLS[name].pattern.kinds("curator")
        assert len(list(bench.curator._ledger)) == (1 if asked else 0), "a run that asks the curator is charged once"
        left = leave_folder(tmp_path / "run", chosen, 1, bench.finished())
    assert {**found, "seconds": 0} == {**expected, "seconds": 0}
    assert audit(left).answers == found["agents"]["answered"] == expected["agents"]["answered"]


def test_public_randomness_changes_with_the_scenario_and_with_the_order_that_is_committed_to():
    chosen = small("blender").wire()
    promised = OrderCommitment(first=0, agents=9, used=0, sha256=commitment(simulated(1)))
    others = [
        public_randomness(chosen, [promised]),
        public_randomness({**chosen, "title": "another"}, [promised]),
        public_randomness(chosen, [promised.model_copy(update={"sha256": commitment(simulated(2))})]),
    ]
    assert len(set(others)) == 3
    assert all(0 <= public < 1 << 60 for public in others)


def test_parity_and_threshold_without_interaction(tmp_path):
    chosen = small("parity-and-threshold", "problem.interactive=false", "agents.mechanism={name: hadamard, epsilon: 2}")
    result = run(chosen, tmp_path)
    assert result["truth"]["correct"] is True
    assert result["agents"]["asked"] == chosen.agents.count


@for_each("lost", [None, 1, 2])
def test_a_run_is_not_done_if_hardly_anybody_answered_one_of_its_questions(lost):
    """Of many more agents than the guarantee takes, those of a small question count for little in the sum."""
    form = ("parity-and-threshold", "problem.interactive=false", "agents.mechanism={name: hadamard, epsilon: 2}")
    chosen = small(*form, f"agents.count={2 * small(*form).agents.count}")
    protocol, source = PROTOCOLS["parity-and-threshold"](), RandomSource.seeded(3)

    def reply(number: int, step: Any) -> Any:
        if isinstance(step, AskCurator):
            return {"hypothesis": {"kind": "parity", "features": [0]}}
        count = step.count // 50 if number == lost else step.count
        return Answers(step.count, source.bernoullis(0.5, count), np.arange(count))

    ended = drive(begun(protocol, chosen, 0), protocol.pattern, reply, lambda note: None)
    assert (ended.status == "done") == (lost is None)
    assert ("the guarantee takes" in ended.reason) == (lost is not None)
    assert ("answered question 2, and" in ended.reason) == (lost == 2)


ROUNDS = (
    "problem.interactive=true", "problem.blocks=2", "alpha=0.45", "agents.mechanism={name: warner, epsilon: 5}",
)  # fmt: skip


def test_parity_xor_threshold_with_interaction_tries_the_parities_of_both_halves_and_keeps_the_better(tmp_path):
    chosen = small("parity-xor-threshold", *ROUNDS)
    result = run(chosen, tmp_path)
    assert result["truth"]["correct"] is True
    assert result["estimate"]["low"] <= result["truth"]["error"] <= result["estimate"]["high"]
    agents, mechanism = RandomSource.seeded(5), chosen.agents.bit_mechanism
    population = chosen.target.distribution.draw(1, np.arange(chosen.agents.count))
    parts, _ = shape(chosen.problem, chosen.curator.share, chosen.beta / 2.0)
    counts: list[int] = []

    def reply(step: Any) -> Any:
        if isinstance(step, AskCurator):
            # The half with the threshold has found the parity {0}, the other one is right.
            return BlockParities.parse({"parities": parts * [[[0, 4], [1, 2, 4]]]})
        if not isinstance(step, AskAgents):
            return None
        slots = np.arange(step.count)
        asked = population.take(sum(counts) + slots)
        counts.append(step.count)
        bits = mechanism.randomize(step.query.evaluate(asked.only(step.query.columns), slots), agents)
        return Answers(step.count, bits, slots)

    outcome: Any = played(chosen, reply)
    assert outcome.answer.pieces == ((1, 2), (1, 2, 4))
    assert outcome.reason.endswith("2")
    assert sum(counts) <= chosen.agents.count
    assert run(small("parity-xor-threshold", *ROUNDS, alone="agents"), tmp_path / "alone")["answer"]["pieces"]
    with pytest.raises(BadScenario, match="in two blocks, found blocks = 4"):
        small("parity-xor-threshold", "problem.interactive=true")


def test_the_answer_to_a_problem_is_shown_also_where_nobody_knows_the_truth(tmp_path, capsys):
    chosen = small("statistical-query")
    result = run(chosen, tmp_path)
    show.result(chosen, {**result, "truth": None})
    assert "query-answers" in capsys.readouterr().out


@for_each("lost", [None, 0, 1])
def test_statistical_queries_are_done_only_if_no_interval_is_wider_than_was_asked_for(lost):
    """Of twice the agents that the guarantee takes many may be silent, but not all who were asked one query."""
    least = small("statistical-query")
    chosen = small("statistical-query", f"agents.count={2 * least.agents.count}")
    outcomes = []

    def reply(number: int, step: Any) -> Any:
        outcomes.append(number)
        count = step.count // 3 if number == lost else step.count
        return Answers(step.count, (np.arange(count) % 2).astype(np.uint8), np.arange(count))

    protocol = PROTOCOLS["statistical-query"]()
    script = begun(protocol, chosen, 0)
    ended = drive(script, protocol.pattern, reply, lambda note: None)
    found: Any = ended.answer
    narrow = all(max(each.high - each.value, each.value - each.low) <= chosen.alpha for each in found.answers)
    assert len(outcomes) == 2
    assert (ended.status == "done") == (lost is None)
    assert narrow or lost is not None
    assert ("wider than 0.15 to either side" in ended.reason) == (lost is not None)


@pytest.mark.parametrize("alone", ["curator", "agents"])
def test_the_reduction_of_theorem_6_2_is_a_run_like_any_other(tmp_path, alone):
    result = run(small("hypothesis-testing", "problem.reduction=true", alone=alone), tmp_path)
    assert result["answer"]["world"] in (0, 1)
