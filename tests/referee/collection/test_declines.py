"""Who must not answer says so: nobody waits for them, other questions reach them, and the result says why."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core import canonical
from common.core.errors import BadMessage, ConfigurationMismatch, Forged, PatternViolation, PolicyRefused
from common.crypto.identity import Identity, Signed
from common.local.packing import pack_answers
from common.local.queries.features import CoordinateQuery
from common.net import messages
from common.net.messages import PackedReport, Report
from local_agent.cli import app, read_record
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.audit.audit import audit
from referee.collection import judging as asked_module
from referee.collection.batches import Batch
from referee.collection.batches import assign as real_assign
from referee.collection.judging import Asked, Claim, Refusal, judge, payload, read
from referee.collection.roster import Roster
from referee.service.app import referee_app
from referee.service.runner import Runner
from referee.tables import Participant, StoredReport
from tests.support import TOKEN, Bench, leave_folder, seal, served, small, tiny
from tests.tiers import for_each

CHOSEN = ("agents.count=600", "agents.batch=600", "curator.rounds=1")


def only_items(bench: Bench) -> None:
    """Let the hosted people accept another kind of question than they are asked."""
    bench.population._policy = PersonalPolicy(bench.referee.identity.public, 5.0, queries=frozenset({"item"}))


def polled(bench: Bench, who: Identity) -> Signed | None:
    return bench.referee.poll(seal(who, messages.Poll(participant=who.public)))


def decline_of(bench: Bench, who: Identity, **changed: object) -> messages.Decline:
    asked = polled(bench, who)
    assert asked is not None
    message = messages.Assignment.parse(asked.message)
    said = {"run": message.run, "digest": message.digest, "question": message.question, "reason": "policy"}
    return messages.Decline.parse({**said, "assignment": message.fingerprint(), **changed})


def test_nobody_waits_for_those_who_decline_and_the_result_counts_them(tmp_path):
    with Bench(tmp_path / "state", tiny(*CHOSEN)) as bench:
        other = Identity.create()
        bench.referee.enrol(seal(other, messages.Enrolment(agents=200)), TOKEN)
        shares = []

        def attack() -> None:
            said = seal(other, decline_of(bench, other))
            shares.append(len(messages.unpack_indices(polled(bench, other).message["people"])))
            for _ in range(2):  # a lost reply: the same again changes nothing
                bench.referee.decline(said)
            assert polled(bench, other) is None

        bench.meanwhile(attack)
        before = bench.clock()
        result = bench.run()
        assert bench.clock() == before  # no deadline passed
        finished = bench.finished()
    (share,) = shares
    assert share > 0
    assert result["agents"]["answered"] == 600 - share
    assert result["lost"] == {"silent": 0, "declined": {"policy": share}}
    assert audit(leave_folder(tmp_path / "run", tiny(*CHOSEN), 1, finished)).status == result["status"]


def test_a_host_that_must_refuse_says_why_and_stays_open_to_other_questions(tmp_path):
    with Bench(tmp_path, tiny(*CHOSEN)) as bench:
        only_items(bench)
        refused = []

        def ask() -> None:
            with pytest.raises(PolicyRefused, match="not accepted"):
                bench.host.step()
            refused.append(bench.host.declined)
            assert not bench.host.step()  # it is not asked again

        bench.meanwhile(ask)
        result = bench.run()
    assert refused == [True]
    assert result["status"] == "refused"
    assert "all 600 agents that were asked decline to answer" in result["reason"]
    assert "policy 600" in result["reason"]
    assert result["lost"] == {"silent": 0, "declined": {"policy": 600}}


@pytest.mark.slow
def test_a_question_that_all_who_were_asked_decline_leaves_the_run_to_the_others(tmp_path):
    chosen = small("portfolio")
    with Bench(tmp_path / "bench", chosen) as bench:
        willing = bench.population._policy

        def nobody() -> None:
            only_items(bench)
            with pytest.raises(PolicyRefused, match="not accepted"):
                bench.host.step()
            bench.population._policy = willing

        bench.meanwhile(nobody)
        result = bench.run()
        finished = bench.finished()
    agents, lost = result["agents"], result["lost"]
    assert result["status"] in ("done", "exhausted")
    assert 0 < lost["declined"]["policy"] < agents["asked"]
    assert agents["answered"] == agents["asked"] - lost["declined"]["policy"]
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).status == result["status"]


def test_what_declines_something_else_is_refused_and_nobody_declines_for_others(tmp_path):
    with Bench(tmp_path, tiny(*CHOSEN)) as bench:
        who, stranger = bench.population.identity, Identity.create()

        def attack() -> None:
            said = decline_of(bench, who)
            for changed, problem in (
                ({"assignment": "0" * 64}, ConfigurationMismatch),
                ({"digest": "0" * 64}, ConfigurationMismatch),
                ({"reason": "because my income is 5"}, BadMessage),
                ({"reason": "\x1b]0;x"}, BadMessage),
            ):
                with pytest.raises(problem):
                    bench.referee.decline(who.sign("decline", {**said.wire(), **changed}))
            with pytest.raises(PatternViolation):
                bench.referee.decline(seal(stranger, said))
            with pytest.raises(Forged):
                bench.referee.decline(seal(stranger, said).model_copy(update={"key": who.public}))

        bench.meanwhile(attack)
        assert bench.run()["agents"]["answered"] == 600


def test_who_declined_may_still_report(tmp_path):
    with Bench(tmp_path, tiny(*CHOSEN)) as bench:
        other = Identity.create()
        bench.referee.enrol(seal(other, messages.Enrolment(agents=1000)), TOKEN)

        def change_of_mind() -> None:
            who = bench.population.identity
            asked = polled(bench, who)
            bench.referee.decline(seal(who, decline_of(bench, who)))
            bench.referee.report_packed(*bench.population.answer(asked, bench.referee.configuration("run")))
            bench.referee.decline(seal(other, decline_of(bench, other)))

        bench.meanwhile(change_of_mind)
        result = bench.run()
        finished = bench.finished()
    agents, lost = result["agents"], result["lost"]
    assert agents["answered"] > 0
    # Who answered after all has not declined: nobody is counted as both, and the audit's sum holds.
    assert lost == {"silent": 0, "declined": {"policy": agents["asked"] - agents["answered"]}}
    assert audit(leave_folder(tmp_path / "run", tiny(*CHOSEN), 1, finished)).answers == agents["answered"]


class Port:
    """A referee that asks this, and is asked for nothing else."""

    def __init__(self, asked: Signed) -> None:
        self.poll = lambda signed: asked


@for_each("run", ["../../etc/passwd", "a/b", "", "x" * 65, "a\n", None])
def test_a_runs_name_is_checked_before_it_enters_an_address_and_another_keys_word_is_not_used(bench, run):
    wrong = bench.referee.identity.sign("assignment", {"run": run})
    with pytest.raises(BadMessage):
        Host(bench.population, Port(wrong), bench.referee.identity.public).step()
    forged = Identity.create().sign("assignment", {"run": "run"})
    with pytest.raises(Forged):
        Host(bench.population, Port(forged), bench.referee.identity.public).step()


def test_a_misfit_individual_stops_with_one_line_and_the_referee_learns_why(tmp_path):
    """A record of two features, where the question needs eight: the command ends, and the run does not wait."""
    record = tmp_path / "me.json"
    record.write_text('{"features": [0.1, 0.2], "label": 1}')
    chosen = tiny(*CHOSEN)
    said = []
    with Bench(tmp_path / "bench", chosen, individuals=1) as bench:
        state = ["--state", str(tmp_path / "me"), "--max-delay", "0", "--epsilon", "100", "--token", TOKEN, "--yes"]
        with served(referee_app(bench.referee, Runner(bench.referee))) as address:
            # The same person enrols first, in the time before the run begins.
            agent = Agent(read_record(record), PersonalPolicy(bench.referee.identity.public, 100.0), tmp_path / "me")
            Host(agent, bench.referee, bench.referee.identity.public).enrol(TOKEN)
            agent.close()

            def misfit() -> None:
                known = ["--referee", address, "--referee-key", bench.referee.identity.public]
                ended = CliRunner().invoke(app, ["answer", str(record), *known, *state])
                said.append((ended.exit_code, ended.stderr))

            bench.meanwhile(misfit)
            result = bench.run()
    ((code, stderr),) = said
    assert code == 1
    assert stderr.count("\n") == 1
    assert "needs 8 features, the record has 2" in stderr
    assert result["lost"]["declined"] == {"policy": 1}


HOST, ALONE, STRANGER = Identity.create(), Identity.create(), Identity.create()
DIGEST = "a" * 64
PEOPLE = 9


def question(number: int = 3) -> Asked:
    """A question to nine agents of a hosted population and one individual."""
    owners = Roster([Participant(HOST.public, 0, 20), Participant(ALONE.public, 20, 1)])
    batch = Batch(np.array([20, *range(5, 5 + PEOPLE)]), owners)
    return Asked("run", DIGEST, number, CoordinateQuery(first=0), "bit", lambda: batch)


ASKED = question()
BODY = pack_answers(np.ones(PEOPLE, dtype=np.bool_), np.arange(PEOPLE) % 2, "bit")


def packed(signer: Identity = HOST, body: bytes = BODY, **changes: Any) -> Signed:
    wire = {"report_id": "1" * 32, "run": "run", "digest": DIGEST, "question": 3, "people": PEOPLE}
    digests = {"assignment": ASKED.fingerprint(HOST.public), "body_sha256": hashlib.sha256(body).hexdigest()}
    return signer.sign(PackedReport.KIND, {**wire, **digests, **changes})


def single(signer: Identity = ALONE, **changes: Any) -> Signed:
    wire = {"report_id": "2" * 32, "run": "run", "digest": DIGEST, "question": 3, "answer": 1.0}
    return signer.sign(Report.KIND, {**wire, "assignment": ASKED.fingerprint(ALONE.public), **changes})


def read_individual(signed: Signed) -> Claim:
    return read(signed, canonical.encode(signed.message), None)


def read_packed(signed: Signed, body: bytes) -> Claim:
    return read(signed, canonical.encode(signed.message), body)


def reason(claim: Claim, **known: Any) -> str:
    with pytest.raises(Refusal) as refused:
        judge(claim, ASKED, **known)
    assert str(refused.value) == refused.value.problem.detail
    return refused.value.reason


def test_a_good_report_is_accepted_as_it_came_also_again_and_too_late():
    signed = packed()
    signature = bytes.fromhex(signed.signature)
    expected = StoredReport(1, False, bytes([0x11] * 16), PEOPLE, signature, BODY)
    assert judge(read_packed(signed, BODY), ASKED) == expected
    accepted = judge(read_individual(single()), ASKED)
    assert (accepted.slot, accepted.individual, accepted.answered, accepted.message) == (0, True, 1, b"")
    for claim in (read_packed(packed(), BODY), read_individual(single())):
        assert payload(judge(claim, ASKED), ASKED) == claim.payload
    signed = single(answer="1")
    accepted = judge(read_individual(signed), ASKED)
    assert accepted.message == payload(accepted, ASKED) == canonical.encode(signed.message)
    assert b'"answer":"1",' in accepted.message
    claim = read_packed(packed(), BODY)
    known = judge(claim, ASKED)
    assert judge(claim, ASKED, known) is known
    assert judge(claim, ASKED, known, still_open=False) is known


FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("another configuration", {"digest": "b" * 64}),
    ("another question", {"question": 4}),
    ("another number of agents", {"people": PEOPLE - 1}),
    ("another assignment", {"assignment": "b" * 64}),
]


@for_each("first", range(len(FAULTS)))
def test_of_several_faults_the_first_is_the_reason(first):
    changes: dict[str, Any] = {}
    for _, change in FAULTS[first:]:
        changes.update(change)
    assert reason(read_packed(packed(**changes), BODY)) == FAULTS[first][0]


def test_another_answer_comes_before_too_late_and_that_before_who_was_asked():
    known = judge(read_packed(packed(), BODY), ASKED)
    other = read_packed(packed(report_id="3" * 32), BODY)
    assert reason(other, known=known, still_open=False) == "already answered"
    assert reason(read_packed(packed(STRANGER), BODY), still_open=False) == "closed"
    assert reason(read_packed(packed(STRANGER, people=1, assignment="b" * 64), BODY)) == "not asked"
    assert reason(read_individual(single(HOST))) == "another number of agents"
    assert reason(read_packed(packed(ALONE), BODY)) == "another number of agents"
    assert reason(read_individual(single(STRANGER))) == "not asked"


def test_the_body_is_the_one_that_was_signed_and_packed_as_answers_are():
    with pytest.raises(Refusal, match="does not match") as refused:
        read_packed(packed(), BODY + b"\0")
    assert refused.value.reason == "another body"
    for body in (b"", BODY[:-1], BODY + b"\0", b"\xff" * 4):
        with pytest.raises(BadMessage):
            judge(read_packed(packed(body=body), body), ASKED)
    with pytest.raises(BadMessage, match="one of 0 to 1"):
        judge(read_individual(single(answer=0.5)), ASKED)
    with pytest.raises(BadMessage):
        read_packed(single(), BODY)
    with pytest.raises(BadMessage):
        read_individual(packed())


def test_an_assignments_digest_is_computed_once_for_each_of_so_many_participants(monkeypatch):
    calls: list[str] = []
    real = asked_module.assign  # type: ignore[attr-defined]
    monkeypatch.setattr(asked_module, "assign", lambda batch, key, *rest: calls.append(key) or real(batch, key, *rest))
    monkeypatch.setattr(asked_module, "MAX_REMEMBERED", 1)
    fresh = question()
    for key in (HOST.public, HOST.public, ALONE.public, ALONE.public):
        assert fresh.fingerprint(key) == ASKED.fingerprint(key)
    assert calls == [HOST.public]
    assert hashlib.sha256(fresh.assignment(HOST.public)).hexdigest() == fresh.fingerprint(HOST.public)
    asked = real_assign(ASKED.batch, ALONE.public, "run", DIGEST, 3, ASKED.query)
    assert ASKED.assignment(ALONE.public) == canonical.encode(asked.wire())
    assert ASKED.fingerprint(ALONE.public) == asked.fingerprint()


def test_whom_a_question_goes_to_is_worked_out_once_and_only_if_that_is_needed():
    formed: list[int] = []
    batch = ASKED.batch
    lazy = replace(ASKED, form=lambda: formed.append(1) or batch)
    with pytest.raises(Refusal):
        judge(read_packed(packed(), BODY), lazy, still_open=False)
    assert formed == []
    judge(read_packed(packed(), BODY), lazy)
    judge(read_individual(single()), lazy)
    assert formed == [1]
