"""A referee that cheats and signs its own lies is found by the audit."""

import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import AuditFailed, BadScenario
from common.local.hypotheses.hypothesis import Linear
from common.local.queries.query import LossQuery
from common.local.records import Records
from common.log.merkle import merkle_root
from common.operations.operation import release_of
from common.privacy import guarantee
from common.privacy.events import NoEvent
from common.scenario.scenario import ResolvedScenario
from common.statistics.intervals import Estimate
from local_agent.answers import answer_together
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.audit.audit import Audit, audit
from referee.collection.batches import assign
from referee.collection.enrolment import Registrar
from referee.collection.roster import participants_root
from referee.protocols.base import protocol_of
from referee.protocols.driver import check_beginning
from referee.runfolder import pack_reports, unpack_reports
from referee.view.wording import ends_in_words
from tests.referee.audit.signing import Bodies, curator_of, entries_of, lie, resign, said
from tests.support import TOKEN, Bench, leave_folder, small, tiny


def test_resigning_alone_changes_nothing(undisturbed, run):
    before = audit(run)
    resign(undisturbed[0], run, lambda bodies: bodies)
    assert audit(run) == before
    assert isinstance(before, Audit)


def swap_result(**changes: Any) -> Callable[[Bodies], Bodies]:
    return lie(*(("result", "result", name, value) for name, value in changes.items()))


NOTHING = {"iterations": 0, "answer": None, "estimate": None}
ESTIMATE = {"value": 0.01, "low": 0.0, "high": 0.02, "confidence": 0.95}
LIES: dict[str, tuple[str, Callable[[Bodies], Bodies]]] = {
    "skips agents in the order": ("committed order", lie(("question", "parts", [[0, 1, 401]]))),
    "asks agents twice": ("committed order", lie(("question 1", "parts", [[0, 0, 400]]))),
    "asks too few": ("were to be asked", lie(("question", "parts", [[0, 0, 399]]))),
    "asks too many": ("were to be asked", lie(("question", "parts", [[0, 0, 401]]))),
    "asks beyond the end": ("committed order", lie(("question", "parts", [[0, 0, 6001]]))),
    "asks nobody": ("were to be asked", lie(("question", "parts", []))),
    "asks in an order never announced": ("not what an honest", lie(("question", "parts", [[9, 0, 400]]))),
    "asks another question": ("not the one that the protocol", lie(("question", "query", "kind", "x"))),
    "numbers a question wrongly": ("not the one that the protocol", lie(("question", "question", 3))),
    "counts more answers": ("do not match", lie(("answers", "answered", 401))),
    "counts fewer agents": ("do not match", lie(("answers", "asked", 399))),
    "changes the root": ("do not match", lie(("answers", "root", "0" * 64))),
    "leaves out a batch": ("is a 'question'", lie(("question", ...))),
    "leaves out the answers": ("is a 'answers'", lie(("answers 1", ...))),
    "leaves out an operation": ("the request is not the one", lie(("operation 1", ...))),
    "leaves out the terms": ("does not belong here", lie(("terms", ...))),
    "adds a message": ("does not belong here", lambda bodies: [*bodies[:-1], ("note", {}), bodies[-1]]),
    "goes on after the end": ("had ended before", lambda bodies: [*bodies[:-1], bodies[2], bodies[-1]]),
    "changes the estimate": ("estimate", swap_result(estimate=ESTIMATE)),
    "changes the answer": ("answer", swap_result(answer={"kind": "constant", "label": 1})),
    "says done": ("status", swap_result(status="done")),
    "hides the result": ("hides it", swap_result(status="failed", reason="sorry", **NOTHING)),
    "answers although it failed": ("hides it", swap_result(status="failed")),
    "changes the iterations": ("iterations", swap_result(iterations=2)),
    "invents a round": ("rounds", swap_result(rounds=[{"round": 1.0, "rounds": 1.0, "asked": 1.0, **ESTIMATE}])),
    "hides a round": ("rounds", lie(("result", "result", "rounds", -1, ...))),
    "claims better privacy": (
        "privacy",
        swap_result(privacy={"curator": {"epsilon": 0.1, "delta": 0.0}, "agent": {"epsilon": 2.0, "delta": 0.0}}),
    ),
    "claims more agents": (
        "agents",
        swap_result(agents={"enrolled": 6000, "asked": 9999, "answered": 9999, "rejected": 0}),
    ),
    "adds to the result": ("extra", swap_result(extra=1)),
    "publishes another order": ("not the one committed to", lie(("result", "order", "0", "another seed"))),
    "publishes no order": ("whose seed was not published", lie(("result", "order", {}))),
    "signs another list of participants": (
        "not the one that was signed",
        lie(("configuration", "participants", "root", "0" * 64)),
    ),
    "counts more participants": (
        "not the one that was signed",
        lie(("configuration", "participants", "count", 2)),
    ),
    "changes the request": ("does not verify", lie(("operation", "request", "message", "operation_id", "9"))),
    "changes the release": ("does not verify", lie(("operation", "release", "message", "result", {}))),
    "changes the terms": ("does not verify", lie(("terms", "terms", "message", "epsilon", 0.1))),
    "changes the scenario": (
        "another configuration",
        lie(("configuration", "configuration", "scenario", "alpha", 0.2)),
    ),
    "names another referee": ("another referee", lie(("configuration", "configuration", "referee", "0" * 64))),
}


@pytest.mark.parametrize("name", sorted(LIES))
def test_a_referee_that_lies_is_caught(undisturbed, run, name):
    why, lie = LIES[name]
    resign(undisturbed[0], run, lie)
    with pytest.raises(AuditFailed, match=why):
        audit(run)


LISTS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "names another participant": ("did not sign this answer", lambda raw: bytes(32) + raw[32:]),
    "lists a participant twice": ("listed twice", lambda raw: raw * 2),
    "ends in the middle of one": ("ends in the middle", lambda raw: raw + raw[:39]),
    "gives a participant no agents": ("no participant has 0 agents", lambda raw: raw + bytes(40)),
    "orders agents that are not there": ("not enrolled", lambda raw: raw[:32] + (5999).to_bytes(8, "little")),
}


@pytest.mark.parametrize("name", sorted(LISTS))
def test_a_referee_that_lies_about_who_is_enrolled_is_caught(undisturbed, run, name):
    why, change = LISTS[name]
    raw = change((run / "participants").read_bytes())
    (run / "participants").write_bytes(raw)
    with pytest.raises(AuditFailed):
        audit(run)
    agents = sum(int.from_bytes(raw[at + 32 : at + 40], "little") for at in range(0, len(raw), 40))
    listed = {"count": len(raw) // 40, "agents": agents, "root": participants_root(raw)}
    resign(undisturbed[0], run, lie(("configuration", "participants", listed)))
    with pytest.raises(AuditFailed, match=why):
        audit(run)


def test_nobody_has_two_places_at_which_a_run_could_ask_and_a_referee_that_gives_them_is_caught(tmp_path, monkeypatch):
    chosen = tiny("agents.count=60", "agents.batch=60", "curator.rounds=1", "agents.deadline=600")
    with Bench(tmp_path / "bench", chosen, individuals=2) as bench:
        person = Records(np.zeros((1, 8), dtype=np.float32), np.ones(1, dtype=np.int8))
        policy = PersonalPolicy(bench.referee.identity.public, 4.0)
        with closing(Agent(person, policy, tmp_path / "me")) as agent:

            def enrol(*, again: bool) -> int:
                return int(bench.referee.enrol(agent.enrolment(again=again), TOKEN).message["first"])

            assert [enrol(again=again) for again in (False, False, True, True)] == [58] * 4
            monkeypatch.setattr(Registrar, "_used_place", lambda self, key, wish: self.roster.position(key))
            assert enrol(again=True) == 59
            bench.run()
        with pytest.raises(AuditFailed, match="listed several times is asked twice"):
            audit(leave_folder(tmp_path / "run", chosen, bench.seed, bench.finished()))


def test_overlapping_orders_are_caught(undisturbed, run):
    """Two orders over the same agents would let one be asked twice."""

    (order,) = entries_of(run)[0].body["configuration"]["order"]
    twice = [order, {**order, "first": 3000, "agents": 3000}]
    resign(undisturbed[0], run, lie((0, "configuration", "order", twice)))
    with pytest.raises(AuditFailed, match="in two orders"):
        audit(run)


def test_dropping_a_report_needs_every_later_lie_too(tmp_path):
    """Two participants; one report is dropped from the file: its question's counts and root do not match any more."""
    with Bench(tmp_path / "state", individuals=3000) as bench:
        from local_agent.host import Host
        from local_agent.hosted.population import open_population
        from tests.support import TOKEN

        key = bench.referee.identity.public
        second = open_population(bench.chosen, tmp_path / "second", 1, key, 3000)
        host = Host(second, bench.referee, key)
        host.enrol(TOKEN)

        def both(seconds: float) -> None:
            if not any([bench.host.step(), host.step()]):
                bench.clock.wait(seconds)

        bench.referee._wait = both
        bench.run()
        run = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
        second.close()
    assert audit(run).reports == 6
    path = run / "reports" / "1.reports"
    stored = list(unpack_reports(path.read_bytes()))
    path.write_bytes(pack_reports(stored[:1]))
    with pytest.raises(AuditFailed, match="do not match"):
        audit(run)
    path.write_bytes(pack_reports(stored[:1] * 2))
    with pytest.raises(AuditFailed, match="reports twice"):
        audit(run)

    leaf = hashlib.sha256(stored[0].signature + stored[0].body).digest()
    again = lie(("answers", "answered", stored[0].answered), ("answers", "root", merkle_root([leaf])))
    path.write_bytes(pack_reports(stored[:1]))
    resign(tmp_path, run, again)  # it counts again, and signs: then the result is not what the answers lead to
    with pytest.raises(AuditFailed):
        audit(run)


def test_runs_that_did_not_end_by_themselves_are_verified_too(tmp_path):
    """Refused by the agents in the middle: everything up to there is replayed, and there is no answer to believe."""
    answered = iter([True])
    with Bench(tmp_path / "state", tiny()) as bench:

        def answer_once(seconds: float) -> None:
            if not (next(answered, False) and bench.host.step()):
                bench.clock.wait(seconds)

        bench.referee._wait = answer_once
        result = bench.run()
        assert (result["status"], result["answer"]) == ("failed", None)
        run = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    found = audit(run)
    assert (found.status, found.answers) == ("failed", 400)
    kept = (run / "transcript.jsonl").read_bytes()
    for changes, why in [
        ({"estimate": ESTIMATE}, "estimate"),
        ({"answer": {"kind": "constant", "label": 1}}, "answer"),
        ({"iterations": 1}, "iterations"),
        ({"rounds": 2 * result["rounds"]}, "rounds"),
        ({"status": "done"}, "is a '"),
        ({"agents": {**result["agents"], "asked": 400}}, "agents were asked"),
    ]:
        (run / "transcript.jsonl").write_bytes(kept)
        resign(tmp_path, run, swap_result(**changes))
        with pytest.raises(AuditFailed, match=why):
            audit(run)


def test_a_run_that_no_curator_agreed_to_costs_nothing(tmp_path):
    class Refuses:
        def open_run(self, signed: Any) -> Any:
            from common.core.errors import PeerUnavailable

            raise PeerUnavailable("nobody answers")

        open_share = perform = acknowledge = open_run

    with Bench(tmp_path / "state", curator=lambda curator: Refuses()) as bench:
        assert bench.run()["status"] == "failed"
        run = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    found = audit(run)
    assert (found.status, found.promises["curator"], found.operations) == ("failed", guarantee.NOTHING, 0)


def test_a_referee_that_asks_something_else_than_it_writes_down_is_caught(tmp_path, monkeypatch):
    # Everybody is honest but the referee: it asks about an easy hypothesis, and publishes the answers for another.
    easy = LossQuery(hypothesis=Linear(weights=(0.0,) * 8, threshold=-1.0))

    with Bench(tmp_path / "bench") as bench, monkeypatch.context() as lying:
        lying.setattr(
            "referee.collection.judging.assign",
            lambda batch, key, run, digest, number, query: assign(batch, key, run, digest, number, easy),
        )
        bench.run()
        folder = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    with pytest.raises(AuditFailed, match="asked something else than the transcript says"):
        audit(folder)


def test_a_referee_with_a_curator_of_its_own_is_caught_by_who_knows_the_curator(run):
    key = curator_of(run)
    assert audit(run, curator_key=key) == audit(run)
    with pytest.raises(AuditFailed, match="another curator"):
        audit(run, curator_key="0" * 64)


def test_a_release_that_is_declared_to_cost_nothing_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr("curator.curator.release_of", lambda result, event: release_of(result, NoEvent()))
    with Bench(tmp_path / "bench") as bench:
        bench.run()
        folder = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    with pytest.raises(AuditFailed, match="declares to cost nothing"):
        audit(folder)


def test_terms_that_are_not_the_scenarios_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("curator.curator.of_curator", lambda *stated: guarantee.of_curator((61.0, 0.5), "records"))
    with Bench(tmp_path / "bench") as bench:
        result = bench.run()
    assert (result["status"], result["answer"]) == ("failed", None)
    assert "not those of the scenario" in result["reason"]


CHOSEN = ("protocol=learn-and-test", "agents.count=6000", "curator.rounds=1", "agents.mechanism.epsilon=3")
SHARE = 0.1


def answered(folder: Path, monkeypatch: pytest.MonkeyPatch, chosen: ResolvedScenario, say: int | None) -> Path:
    """Leave a run in which every tenth slot's agent says 0, or 1, whatever it is asked; nobody lies for None."""

    def lie(*what: Any) -> Any:
        found = answer_together(*what)
        if say is not None:
            found[what[4] % round(1 / SHARE) == 0] = say
        return found

    with monkeypatch.context() as lying, Bench(folder / "state", chosen) as bench:
        lying.setattr("local_agent.hosted.population.answer_together", lie)
        bench.run()
        return leave_folder(folder / "run", chosen, 1, bench.finished())


def interval(run: Path) -> Estimate:
    return Estimate.parse(json.loads((run / "result.json").read_text())["estimate"])


@pytest.mark.slow
@pytest.mark.parametrize("say", [0, 1])
def test_a_tenth_who_all_say_the_same_move_the_interval_and_a_robust_run_bears_them(tmp_path, monkeypatch, say):
    plain, bearing = tiny(*CHOSEN), tiny(*CHOSEN, f"agents.liars={SHARE}")
    honest = interval(answered(tmp_path / "honest", monkeypatch, plain, None))
    run = answered(tmp_path / "plain", monkeypatch, plain, say)
    moved = interval(run)
    assert moved.low > honest.value if say else moved.high < honest.value
    found = audit(run).liars
    assert list(found) == [0.01, 0.05, 0.1]
    assert found[SHARE].low <= honest.value <= found[SHARE].high
    assert found[0.01].low >= found[0.05].low >= found[0.1].low
    robust = answered(tmp_path / "bearing", monkeypatch, bearing, say)
    assert interval(robust).low <= honest.low
    assert interval(robust).high >= honest.high
    assert audit(robust).liars == {SHARE: interval(robust)}


def test_what_liars_could_have_moved_is_printed(tmp_path, monkeypatch):
    run = answered(tmp_path, monkeypatch, tiny(*CHOSEN), None)
    found = audit(run).liars[0.05]
    code, output = said(run)
    assert code == 0
    assert "loss interval if so large a share of the answers counted are lies (95%): 1%: [" in output
    assert f"5%: {ends_in_words(found.low, found.high)}" in output


@pytest.mark.slow
def test_liars_have_a_run_halt_on_a_bad_hypothesis_unless_it_bears_them(tmp_path, monkeypatch):
    """Subsample-Test-Reweigh: the first hypothesis errs on 40% and the level is 37%; a tenth of the agents say 0."""
    levels = ("agents.count=20000", "agents.mechanism.epsilon=3", "alpha=0.1", "accuracy.reweigh_above=3.55",
              "accuracy.halt_below=3.7")  # fmt: skip
    ends = {}
    for name, chosen, say in (
        ("honest", tiny(*levels), None),
        ("misled", tiny(*levels), 0),
        ("bearing", tiny(*levels, f"agents.liars={SHARE}"), 0),
    ):
        found = audit(answered(tmp_path / name, monkeypatch, chosen, say))
        ends[name] = (found.status, found.rounds[0])
    assert [status for status, _ in ends.values()] == ["exhausted", "done", "exhausted"]
    assert ends["misled"][1]["high"] < ends["honest"][1]["value"]
    assert ends["bearing"][1]["low"] < ends["honest"][1]["value"] < ends["bearing"][1]["high"]


def test_what_bears_no_liars_is_refused_before_the_curator_is_asked():
    with pytest.raises(BadScenario, match="only a sequential test bears liars"):
        check_beginning(tiny("agents.liars=0.01", "agents.test=fixed"))
    with pytest.raises(BadScenario, match=r"agents.liars: portfolio has no intervals"):
        protocol_of(small("portfolio", "agents.liars=0.01"))
