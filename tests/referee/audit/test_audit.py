"""The audit: any changed byte is found."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core import canonical
from common.core.errors import AuditFailed, BadScenario, NotFound
from common.crypto.identity import Identity
from common.local.hypotheses.hypothesis import Linear
from common.local.queries.query import LossQuery
from common.local.records import Records
from common.log.merkle import merkle_root
from common.log.transcript import SignedEntry
from common.operations.operation import release_of
from common.privacy import guarantee
from common.privacy.events import NoEvent
from common.scenario.scenario import ResolvedScenario
from common.statistics.intervals import Estimate
from deploy.deployment import Embedded
from local_agent.answers import answer_together
from local_agent.host import Host
from local_agent.hosted.population import open_population
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.audit.audit import audit
from referee.collection.enrolment import Registrar
from referee.collection.order import assign
from referee.collection.roster import participants_root
from referee.protocols.base import protocol_of
from referee.protocols.driver import check_beginning
from referee.runfolder import pack_reports, unpack_reports
from referee.runs.ordering import REFEREE
from referee.view.audited import audit_lines
from tests.referee.audit.signing import Bodies, caught_of, curator_of, identity_of, lie, resign
from tests.support import TOKEN, Bench, leave_folder, small, tiny
from tests.tiers import for_each


def test_an_honest_run_is_verified(undisturbed):
    folder, finished = undisturbed
    found, agents = audit(folder / "run"), finished.result["agents"]
    assert (found.answers, found.reports, found.operations) == (agents["answered"], agents["answered"] // 400, 5)
    assert found.status == finished.result["status"] == "exhausted"
    assert found.choosers == (REFEREE,)  # of a public seed
    assert found.promises["curator"] == guarantee.of_curator((60.0, 1e-4), "records")
    promised = {who: one for who, one in finished.result["privacy"].items() if who != "all_runs"}
    assert {who: promise.wire() for who, promise in found.promises.items()} == promised
    assert found.certificate.epsilon <= 60.0
    assert any(entry.count for entry in found.certificate.events)
    assert found == audit(folder / "run", identity_of(folder).public)
    with pytest.raises(AuditFailed, match="line 1"):
        audit(folder / "run", Identity.create().public)


# Changed bytes ------------------------------------------------------------------------------------------------------


@settings(max_examples=150, derandomize=True)
@given(st.data())
def test_any_changed_byte_of_the_transcript_is_caught(undisturbed, tmp_path_factory, data):
    folder = undisturbed[0] / "run"
    raw = (folder / "transcript.jsonl").read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[at]))
    changed = tmp_path_factory.mktemp("changed")
    for name in ("result.json", "scenario.yaml", "participants"):
        shutil.copy(folder / name, changed)
    shutil.copytree(folder / "reports", changed / "reports")
    (changed / "transcript.jsonl").write_bytes(raw[:at] + bytes([other]) + raw[at + 1 :])
    with pytest.raises(AuditFailed) as caught:
        audit(changed)
    assert "transcript" in caught.value.detail


def test_a_changed_byte_in_every_part_of_every_line_is_caught_and_located(run):
    path = run / "transcript.jsonl"
    lines = path.read_text("utf-8").split("\n")[:-1]
    for number, line in enumerate(lines):
        parts = ('"body":', '"hash":"', '"index":', '"kind":"', '"previous":"', '"signature":"')
        for at in (0, len(line) // 2, len(line) - 1, *(line.rindex(part) + len(part) for part in parts)):
            changed = line[:at] + ("1" if line[at] != "1" else "2") + line[at + 1 :]
            path.write_text("\n".join([*lines[:number], changed, *lines[number + 1 :], ""]))
            with pytest.raises(AuditFailed, match=f"transcript line {number + 1}( |:|$)"):
                audit(run)


def test_lines_that_are_missing_moved_otherwise_ended_or_no_text_are_caught(run):
    path = run / "transcript.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    signature = SignedEntry.parse(canonical.decode(lines[0])).signature.encode()
    m = len(lines) // 2
    ends = ("\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", " ", "\n\n")
    for changed, why in (
        *(([lines[0][:-1], end.encode(), *lines[1:]], "transcript line") for end in ends),
        ([lines[0].replace(signature, signature.upper()), *lines[1:]], "line 1"),
        *((left, None) for left in (lines[1:], lines[:-1], [], [*lines[:m], *lines[m + 1 :]])),
        ([*lines[:-1], lines[-1][:40]], None),
        *(([*lines[:m], *left], None) for left in ([lines[m + 1], lines[m], *lines[m + 2 :]], [lines[m], *lines[m:]])),
        ([b"\xff\xfe" * 100], "line 1 has no end"),
        ([b"\xff\xfe\n"], "line 1 cannot be read: .* 'utf-8'"),
    ):
        path.write_bytes(b"".join(changed))
        with pytest.raises(AuditFailed, match=why):
            audit(run)


def test_unusual_characters_do_not_break_an_honest_transcript(tmp_path):
    title = "Odd: \x85 \u2028 \u2029 \U0001f600 \x7f"
    with Bench(tmp_path / "state", tiny().model_copy(update={"title": title})) as bench:
        bench.run()
        assert audit(bench.leave()).status == "exhausted"


def test_a_number_whose_text_is_another_integer_than_its_double_breaks_no_honest_transcript(tmp_path):
    """RFC 8785 writes the double 43555649771757032 as 43555649771757030: what agents learn by hardly any answers."""
    chosen = small("local-averages", "agents.mechanism={name: warner, epsilon: 0.001}")
    found = Embedded(tmp_path / "state").run(chosen, 2, "run", lambda text, numbers: None)
    assert abs(found.result["answer"]["threshold"]) > canonical.EXACT
    assert audit(leave_folder(tmp_path / "left", chosen, 2, found)).status == "exhausted"


def test_changed_bytes_of_every_reports_file_are_caught(run):
    for path in sorted((run / "reports").iterdir()):
        raw = path.read_bytes()
        size = len(raw) - len(next(unpack_reports(raw)).body)
        places = (0, 7, 8, 15, 16, 17, 32, 33, 96, 97, size - 1, size, len(raw) - 1)
        changed = [raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] for at in places]
        for other in (*changed, b"", raw[:-1], raw + b"\0", raw + raw, raw[:10]):
            path.write_bytes(other)
            with pytest.raises(AuditFailed):
                audit(run)
        path.unlink()
        with pytest.raises(AuditFailed, match=path.name):
            audit(run)
        path.write_bytes(raw)
    audit(run)


def test_changed_files_of_the_result_and_the_scenario_are_caught_by_name(run, tmp_path):
    result, scenario = ((run / name).read_text() for name in ("result.json", "scenario.yaml"))
    document = json.loads(result)
    free = {"epsilon": 0.1, "delta": 0.0}
    for name, value in {
        "status": "done",
        "reason": "because",
        "iterations": 1,
        "answer": None,
        "scenario": "adult",
        "estimate": {"value": 0.0, "low": 0.0, "high": 0.0, "confidence": 1.0},
        "agents": {"enrolled": 6000, "asked": 1200, "answered": 1199, "rejected": 0},
        "privacy": {"curator": free, "agent": free},
    }.items():
        for changed in ({**document, name: value}, {key: kept for key, kept in document.items() if key != name}):
            (run / "result.json").write_text(json.dumps(changed))
            with pytest.raises(AuditFailed, match=f"result.json: {name} differs"):
                audit(run)
    (run / "result.json").write_text("{")
    with pytest.raises(AuditFailed, match=r"result\.json"):
        audit(run)
    (run / "result.json").write_text(result)
    for text, why in (
        *((text, "") for text in ("a: [", "- 1", "{}", "\x00")),
        (scenario.replace("alpha: 0.08", "alpha: 0.07"), " differs"),
        (f"alpha: 0.01\n{scenario}", " .* is given twice"),  # of which the last one is true
    ):
        (run / "scenario.yaml").write_text(text)
        with pytest.raises(AuditFailed, match=rf"scenario\.yaml{why}"):
            audit(run)
    with pytest.raises(NotFound, match="is not a run folder"):
        audit(tmp_path)


def swap_result(**changes: Any) -> Callable[[Bodies], Bodies]:
    return lie(*(("result", "result", name, value) for name, value in changes.items()))


def two_orders(bodies: Bodies) -> list[dict[str, Any]]:
    """Return two orders over the same agents, which would let one be asked twice."""
    (order,) = bodies[0][1]["configuration"]["order"]
    return [order, {**order, "first": 3000, "agents": 3000}]


NOTHING = {"iterations": 0, "answer": None, "estimate": None}
FREE = {"epsilon": 0.1, "delta": 0.0}
LISTED, ORDER = ("configuration", "participants"), ("configuration", "configuration", "order")
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
    "claims better privacy": ("privacy", swap_result(privacy=dict.fromkeys(("curator", "agent"), FREE))),
    "claims more agents": ("agents", swap_result(agents=dict.fromkeys(("enrolled", "asked", "answered"), 9999))),
    "adds to the result": ("extra", swap_result(extra=1)),
    "publishes another order": ("not the one committed to", lie(("result", "order", "0", "another seed"))),
    "publishes no order": ("whose seed was not published", lie(("result", "order", {}))),
    "asks in two orders that overlap": ("in two orders", lambda bodies: lie((*ORDER, two_orders(bodies)))(bodies)),
    "signs another list of participants": ("not the one that was signed", lie((*LISTED, "root", "0" * 64))),
    "counts more participants": ("not the one that was signed", lie((*LISTED, "count", 2))),
    "changes the request": ("does not verify", lie(("operation", "request", "message", "operation_id", "9"))),
    "changes the release": ("does not verify", lie(("operation", "release", "message", "result", {}))),
    "changes the terms": ("does not verify", lie(("terms", "terms", "message", "epsilon", 0.1))),
    "changes the scenario": ("another configuration", lie((*ORDER[:-1], "scenario", "alpha", 0.2))),
    "names another referee": ("another referee", lie((*ORDER[:-1], "referee", "0" * 64))),
}


SEVERAL: dict[str, tuple[str, Callable[[Bodies], Bodies]]] = {
    "asks others instead of the same": ("not those of question 0", lie(("question 5", "parts", [[0, 1080, 2160]]))),
    "takes fresh ones and says so": ("other agents than the protocol", lie(("question 5", "again", ...))),
    "says that these were asked before": ("other agents than the protocol", lie(("question", "again", 0))),
    "counts who answered twice as two": ("agents", lie(("result", "result", "agents", "people", 7200))),
    "does not say how many people": ("agents", lie(("result", "result", "agents", "people", ...))),
}


def test_a_referee_that_asks_agents_again_is_held_to_who_they_are(tmp_path):
    people = {"d": 2, "close": 1}
    sides = [f"{side}.distribution.{name}={value}" for side in ("source", "target") for name, value in people.items()]
    chosen = small("local-gradient-descent", "agents.count=6000", "agents.answers=3", *sides)
    finished = Embedded(tmp_path / "state").run(chosen, 1, "run", lambda text, numbers: None)
    (tmp_path / "left").mkdir()
    found = audit(leave_folder(tmp_path / "left", chosen, 1, finished))
    asked = finished.result["agents"]
    assert (found.answers, asked["people"], asked["enrolled"]) == (asked["asked"], 6000, 6000)
    assert asked["asked"] == 13 * 1080 + 600  # five groups by turns, and the test
    promised = found.promises["agent"]
    assert (promised.epsilon, promised.covers) == (3 * chosen.agents.mechanism.guarantee[0], "answers")
    assert "no agent more often than the scenario allows" in " ".join(audit_lines(found))
    caught_of(SEVERAL, tmp_path / "left", tmp_path)


def test_last_bits_of_a_statistic_may_differ_and_those_of_the_answer_may_not(undisturbed, run):
    """Those of a quantile depend on the processor whose library computed it; a hypothesis is everywhere the same."""
    result = json.loads((run / "result.json").read_bytes())
    estimate, weights = result["estimate"], result["answer"]["weights"]
    kept = (run / "transcript.jsonl").read_bytes()

    def publish(factor: float, **changes: Any) -> None:
        (run / "transcript.jsonl").write_bytes(kept)
        changed = {"estimate": {**estimate, "high": estimate["high"] * factor}, **changes}
        resign(undisturbed[0], run, swap_result(**changed))

    publish(1.0 + 2.0**-50)
    audit(run)
    publish(1.0 + 1e-6)
    with pytest.raises(AuditFailed, match="the result's estimate is not what"):
        audit(run)
    publish(1.0, answer={**result["answer"], "weights": [weights[0] * (1.0 + 2.0**-50), *weights[1:]]})
    with pytest.raises(AuditFailed, match="the result's answer is not what"):
        audit(run)


def test_a_referee_that_lies_is_caught(undisturbed, run):
    before = audit(run)
    resign(undisturbed[0], run, lambda bodies: bodies)
    assert audit(run) == before  # to sign alone changes nothing
    caught_of(LIES, run, undisturbed[0])


LISTS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "names another participant": ("did not sign this answer", lambda raw: bytes(32) + raw[32:]),
    "lists a participant twice": ("listed twice", lambda raw: raw * 2),
    "ends in the middle of one": ("ends in the middle", lambda raw: raw + raw[:39]),
    "gives a participant no agents": ("no participant has 0 agents", lambda raw: raw + bytes(40)),
    "orders agents that are not there": ("not enrolled", lambda raw: raw[:32] + (5999).to_bytes(8, "little")),
}


def test_a_referee_that_lies_about_who_is_enrolled_is_caught(undisturbed, run):
    kept = (run / "participants").read_bytes()
    for name, (why, change) in LISTS.items():
        raw = change(kept)
        (run / "participants").write_bytes(raw)
        with pytest.raises(AuditFailed):
            audit(run)
        agents = sum(int.from_bytes(raw[at + 32 : at + 40], "little") for at in range(0, len(raw), 40))
        listed = {"count": len(raw) // 40, "agents": agents, "root": participants_root(raw)}
        resign(undisturbed[0], run, lie((*LISTED, listed)))
        with pytest.raises(AuditFailed) as failed:
            audit(run)
        assert re.search(why, str(failed.value)), name


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
            audit(bench.leave())


def test_dropping_a_report_needs_every_later_lie_too(tmp_path):
    """Two hosts; one report is dropped from the file: its question's counts and root do not match any more."""
    with Bench(tmp_path / "state", individuals=3000) as bench:
        key = bench.referee.identity.public
        with closing(open_population(bench.chosen, tmp_path / "second", 1, key, 3000)) as second:
            host = Host(second, bench.referee, key)
            host.enrol(TOKEN)
            bench.hooks = [host.step, bench.host.step] * 50
            bench.run()
        run = bench.leave()
    assert audit(run).reports == 6
    path = run / "reports" / "1.reports"
    stored = list(unpack_reports(path.read_bytes()))
    for reports, why in ((stored[:1] * 2, "reports twice"), (stored[:1], "do not match")):
        path.write_bytes(pack_reports(reports))
        with pytest.raises(AuditFailed, match=why):
            audit(run)
    leaf = hashlib.sha256(stored[0].signature + stored[0].body).digest()
    again = lie(("answers", "answered", stored[0].answered), ("answers", "root", merkle_root([leaf])))
    resign(tmp_path, run, again)  # it counts again, and signs: then the result is not what the answers lead to
    with pytest.raises(AuditFailed):
        audit(run)


def test_runs_that_did_not_end_by_themselves_are_verified_too(tmp_path):
    """Refused by the agents in the middle: everything up to there is replayed, and there is no answer to believe."""
    with Bench(tmp_path / "state", tiny()) as bench:
        step = bench.host.step
        bench.hooks = [step]
        setattr(bench.host, "step", lambda: False)  # noqa: B010 - nobody answers the second question
        result = bench.run()
        assert (result["status"], result["answer"]) == ("failed", None)
        run = bench.leave()
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


# Everybody is honest but the referee: it asks about an easy hypothesis, and publishes the answers for another; or but
# the curator, which declares that a release has cost nothing.
EASY = LossQuery(hypothesis=Linear(weights=(0.0,) * 8, threshold=-1.0))


@for_each(
    ("place", "lie", "why"),
    [
        ("referee.collection.judging.assign", lambda *a: assign(*[*a[:-1], EASY]), "asked something else than"),
        ("curator.curator.release_of", lambda result, _: release_of(result, NoEvent()), "declares to cost nothing"),
    ],
)
def test_a_party_that_does_something_else_than_is_written_down_is_caught(tmp_path, monkeypatch, place, lie, why):
    monkeypatch.setattr(place, lie)
    with Bench(tmp_path / "bench") as bench:
        bench.run()
        folder = bench.leave()
    monkeypatch.undo()
    with pytest.raises(AuditFailed, match=why):
        audit(folder)


def test_a_referee_with_a_curator_of_its_own_is_caught_by_who_knows_the_curator(run):
    key = curator_of(run)
    assert audit(run, curator_key=key) == audit(run)
    with pytest.raises(AuditFailed, match="another curator"):
        audit(run, curator_key="0" * 64)


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
        return bench.leave()


def interval(run: Path) -> Estimate:
    return Estimate.parse(json.loads((run / "result.json").read_text())["estimate"])


@pytest.mark.slow
@pytest.mark.parametrize("say", [0, 1])
def test_a_tenth_who_all_say_the_same_move_the_interval_and_a_robust_run_bears_them(tmp_path, monkeypatch, say):
    honest = interval(answered(tmp_path / "honest", monkeypatch, tiny(*CHOSEN), None))
    run = answered(tmp_path / "plain", monkeypatch, tiny(*CHOSEN), say)
    moved, found = interval(run), audit(run).liars
    assert moved.low > honest.value if say else moved.high < honest.value
    assert list(found) == [0.01, 0.05, 0.1]
    assert found[SHARE].low <= honest.value <= found[SHARE].high
    assert found[0.01].low >= found[0.05].low >= found[0.1].low
    robust = answered(tmp_path / "bearing", monkeypatch, tiny(*CHOSEN, f"agents.liars={SHARE}"), say)
    assert interval(robust).low <= honest.low < honest.high <= interval(robust).high
    assert audit(robust).liars == {SHARE: interval(robust)}


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
    for mechanism in ("{name: laplace, epsilon: 2.0}", "{name: warner-levels, epsilons: [0.5, 2.0]}"):
        for protocol in ("subsample-test-reweigh", "learn-and-test", "local-averages"):
            with pytest.raises(BadScenario, match=r"a liar moves answers of (laplace|warner-levels) as"):
                small(protocol, "agents.liars=0.1", f"agents.mechanism={mechanism}")
    with pytest.raises(BadScenario, match=r"agents.liars: portfolio has no intervals"):
        protocol_of(small("portfolio", "agents.liars=0.01"))
