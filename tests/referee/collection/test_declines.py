"""Who must not answer says so: nobody waits for them, other questions reach them, and the result says why."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core import canonical
from common.core.errors import BadMessage, ConfigurationMismatch, Forged, PatternViolation, PolicyRefused, TandemError
from common.crypto.identity import Identity, Signed
from common.local.packing import pack_answers
from common.local.queries.features import CoordinateQuery, ItemQuery
from common.local.queries.query import AskAgents
from common.net import messages
from common.net.messages import PackedReport, Report
from local_agent.cli import app, read_record
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee import store
from referee.collection.judging import Claim, PendingQuestion, judge, payload, read
from referee.collection.order import Batch, assign
from referee.collection.roster import Roster
from referee.tables import Participant, StoredReport
from tests.support import ONE_QUESTION, TOKEN, Bench, audited, seal, served, small, tiny
from tests.tiers import for_each


def only_items(bench: Bench) -> None:
    """Let the hosted people accept another kind of question than they are asked."""
    bench.population._policy = PersonalPolicy(bench.referee.identity.public, 5.0, queries=frozenset({"item"}))


def decline_of(bench: Bench, who: Identity) -> messages.Decline:
    asked = messages.Assignment.parse(bench.poll(who).message)
    said = {"run": asked.run, "digest": asked.digest, "question": asked.question, "reason": "policy"}
    return messages.Decline.parse({**said, "assignment": asked.fingerprint()})


def test_nobody_waits_for_those_who_decline_and_the_result_counts_them(tmp_path):
    with Bench(tmp_path / "state", tiny(*ONE_QUESTION)) as bench:
        other = Identity.create()
        bench.enrol(other, 200)
        shares = []

        def attack() -> None:
            said = seal(other, decline_of(bench, other))
            shares.append(len(messages.unpack_indices(bench.poll(other).message["people"])))
            for _ in range(2):  # a lost reply: the same again changes nothing
                bench.referee.decline(said)
            assert bench.poll(other) is None

        before = bench.clock()
        result = bench.during(attack)
        assert bench.clock() == before  # no deadline passed
        assert audited(bench).status == result["status"]
    (share,) = shares
    assert share > 0
    assert result["agents"]["answered"] == 600 - share
    assert result["lost"] == {"silent": 0, "declined": {"policy": share}}


def test_a_host_that_must_refuse_says_why_and_stays_open_to_other_questions(tmp_path):
    with Bench(tmp_path, tiny(*ONE_QUESTION)) as bench:
        only_items(bench)

        def ask() -> None:
            with pytest.raises(PolicyRefused, match="not accepted"):
                bench.host.step()
            assert bench.host.declined
            assert not bench.host.step()  # it is not asked again

        result = bench.during(ask)
        assert audited(bench).status == "refused"
    assert result["status"] == "refused"
    assert "all 600 agents that were asked decline to answer" in result["reason"]
    assert "policy 600" in result["reason"]
    assert result["lost"] == {"silent": 0, "declined": {"policy": 600}}


@pytest.mark.slow
def test_a_question_that_all_who_were_asked_decline_leaves_the_run_to_the_others(tmp_path):
    with Bench(tmp_path / "bench", small("portfolio")) as bench:
        willing = bench.population._policy

        def nobody() -> None:
            only_items(bench)
            with pytest.raises(PolicyRefused, match="not accepted"):
                bench.host.step()
            bench.population._policy = willing

        result = bench.during(nobody)
        assert audited(bench).status == result["status"]
    agents, lost = result["agents"], result["lost"]
    assert result["status"] in ("done", "exhausted")
    assert 0 < lost["declined"]["policy"] < agents["asked"]
    assert agents["answered"] == agents["asked"] - lost["declined"]["policy"]


def test_what_declines_something_else_is_refused_and_nobody_declines_for_others(tmp_path):
    with Bench(tmp_path, tiny(*ONE_QUESTION)) as bench:
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

        assert bench.during(attack)["agents"]["answered"] == 600


def test_who_declined_may_still_report(tmp_path):
    with Bench(tmp_path / "state", tiny(*ONE_QUESTION)) as bench:
        other = Identity.create()
        bench.enrol(other, 1000)

        def change_of_mind() -> None:
            who = bench.population.identity
            asked = bench.poll(who)
            bench.referee.decline(seal(who, decline_of(bench, who)))
            bench.referee.report_packed(*bench.population.answer(asked, bench.referee.configuration("run")))
            bench.referee.decline(seal(other, decline_of(bench, other)))

        result = bench.during(change_of_mind)
        agents = result["agents"]
        assert audited(bench).answers == agents["answered"] > 0
    # Who answered after all has not declined: nobody is counted as both, and the audit's sum holds.
    assert result["lost"] == {"silent": 0, "declined": {"policy": agents["asked"] - agents["answered"]}}


@for_each("run", ["../../etc/passwd", "a/b", "", "x" * 65, "a\n", None])
def test_a_runs_name_is_checked_before_it_enters_an_address_and_another_keys_word_is_not_used(bench, run):
    for signer, problem in ((bench.referee.identity, BadMessage), (Identity.create(), Forged)):
        port = SimpleNamespace(poll=lambda signed, signer=signer: signer.sign("assignment", {"run": run}))
        with pytest.raises(problem):
            Host(bench.population, port, bench.referee.identity.public).step()


def test_a_misfit_individual_stops_with_one_line_and_the_referee_learns_why(tmp_path):
    """A record of two features, where the question needs eight: the command ends, and the run does not wait."""
    record, me = tmp_path / "me.json", tmp_path / "me"
    record.write_text('{"features": [0.1, 0.2], "label": 1}')
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION), individuals=1) as bench, served(bench.app()) as address:
        key = bench.referee.identity.public
        # The same person enrols first, in the time before the run begins.
        agent = Agent(read_record(record)[0], PersonalPolicy(key, 100.0), me)
        Host(agent, bench.referee, key).enrol(TOKEN)
        agent.close()
        options = ["--referee", address, "--referee-key", key, "--state", str(me), "--max-delay", "0"]

        def misfit() -> None:
            given = [*options, "--epsilon", "100", "--token", TOKEN, "--yes"]
            ended = CliRunner().invoke(app, ["answer", str(record), *given])
            assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
            assert "needs 8 features, the record has 2" in ended.stderr

        assert bench.during(misfit)["lost"]["declined"] == {"policy": 1}


HOST, ALONE, STRANGER = Identity.create(), Identity.create(), Identity.create()
DIGEST = "a" * 64
PEOPLE = 9


def question(number: int = 3) -> PendingQuestion:
    """A question to nine agents of a hosted population and one individual."""
    owners = Roster([Participant(HOST.public, 0, 20), Participant(ALONE.public, 20, 1)])
    batch = Batch(np.array([20, *range(5, 5 + PEOPLE)]), owners)
    return PendingQuestion("run", DIGEST, number, CoordinateQuery(first=0), "bit", lambda: batch)


ASKED = question()
BODY = pack_answers(np.ones(PEOPLE, dtype=np.bool_), np.arange(PEOPLE) % 2, "bit")


def packed(signer: Identity = HOST, body: bytes = BODY, **changes: Any) -> Signed:
    wire = {"report_id": "1" * 32, "run": "run", "digest": DIGEST, "question": 3, "people": PEOPLE}
    digests = {"assignment": ASKED.fingerprint(HOST.public), "body_sha256": hashlib.sha256(body).hexdigest()}
    return signer.sign(PackedReport.KIND, {**wire, **digests, **changes})


def single(signer: Identity = ALONE, **changes: Any) -> Signed:
    wire = {"report_id": "2" * 32, "run": "run", "digest": DIGEST, "question": 3, "answer": 1.0}
    return signer.sign(Report.KIND, {**wire, "assignment": ASKED.fingerprint(ALONE.public), **changes})


def claim_of(signed: Signed, body: bytes | None = None) -> Claim:
    return read(signed, canonical.encode(signed.message), body)


def refused(claim: Claim, why: str, **options: Any) -> None:
    with pytest.raises(TandemError, match=why):
        judge(claim, ASKED, **options)


def test_a_good_report_is_accepted_as_it_came_also_again_and_too_late():
    signed, claim = packed(), claim_of(packed(), BODY)
    known = judge(claim, ASKED)
    assert known == StoredReport(1, False, bytes([0x11] * 16), PEOPLE, bytes.fromhex(signed.signature), BODY)
    assert payload(known, ASKED) == claim.payload
    for still_open in (True, False):
        assert judge(claim, ASKED, known, still_open=still_open) is known
    claim = claim_of(single())
    accepted = judge(claim, ASKED)
    assert (accepted.slot, accepted.individual, accepted.answered, accepted.message) == (0, True, 1, b"")
    assert payload(accepted, ASKED) == claim.payload
    signed = single(answer="1")  # what is not written as it would be is kept as it came
    accepted = judge(claim_of(signed), ASKED)
    assert accepted.message == payload(accepted, ASKED) == canonical.encode(signed.message)
    assert b'"answer":"1",' in accepted.message


def test_of_several_faults_the_first_is_the_reason():
    changes: dict[str, Any] = {}
    for change, why in (
        ({"assignment": "b" * 64}, "another assignment"),
        ({"people": PEOPLE - 1}, "asked 9 agents of this participant, found 8"),
        ({"question": 4}, "this is question 3 of run 'run', not 4"),
        ({"digest": "b" * 64}, "names configuration bbbb"),
    ):
        changes.update(change)
        refused(claim_of(packed(**changes), BODY), why)


def test_another_answer_comes_before_too_late_and_that_before_who_was_asked():
    known = judge(claim_of(packed(), BODY), ASKED)
    refused(claim_of(packed(report_id="3" * 32), BODY), "has already answered", earlier=known, still_open=False)
    refused(claim_of(packed(STRANGER), BODY), "is closed", still_open=False)
    refused(claim_of(packed(STRANGER, people=1, assignment="b" * 64), BODY), "was not asked")
    refused(claim_of(single(HOST)), "asked 9 agents of this participant, found 1")
    refused(claim_of(packed(ALONE), BODY), "asked 1 agents of this participant, found 9")
    refused(claim_of(single(STRANGER)), "was not asked")


def test_the_body_is_the_one_that_was_signed_and_packed_as_answers_are():
    for signed, body, why in (
        (packed(), BODY + b"\0", "does not match"),
        *((packed(body=body), body, None) for body in (b"", BODY[:-1], BODY + b"\0", b"\xff" * 4)),
        (single(), BODY, None),
        (packed(), None, None),
    ):
        with pytest.raises(BadMessage, match=why):
            judge(claim_of(signed, body), ASKED)
    for answer, kind, most in ((0.5, "bit", 1), (2, "bit", 1), (64, 64, 63), (0.5, 64, 63), (-1, 8, 7)):
        with pytest.raises(BadMessage, match=f"one of 0 to {most} under this run's mechanism"):
            judge(claim_of(single(answer=answer)), replace(ASKED, kind=kind))


def test_an_assignments_digest_is_that_of_the_assignment_which_is_sent():
    for key in (HOST.public, ALONE.public):
        asked = assign(ASKED.batch, key, "run", DIGEST, 3, ASKED.query)
        assert ASKED.assignment(key) == canonical.encode(asked.wire())
        assert ASKED.fingerprint(key) == asked.fingerprint()


def test_whom_a_question_goes_to_is_worked_out_once_and_only_if_that_is_needed():
    formed: list[int] = []
    batch = ASKED.batch
    lazy = replace(ASKED, form=lambda: formed.append(1) or batch)
    with pytest.raises(PatternViolation):
        judge(claim_of(packed(), BODY), lazy, still_open=False)
    assert formed == []
    for claim in (claim_of(packed(), BODY), claim_of(single())):
        judge(claim, lazy)
    assert formed == [1]


def test_a_question_that_the_mechanism_cannot_answer_is_never_opened(bench):
    run, _ = bench.open()
    with pytest.raises(PolicyRefused, match="item"):
        bench.referee.collection.ask(
            run, 1, AskAgents(ItemQuery(bits=6, prefixes=(2, 6), public=1), 400), 5.0, pytest.fail
        )
    assert bench.referee.store.questions(run) == []


def test_a_question_is_read_a_few_times_however_many_there_are(tmp_path, monkeypatch):
    reads: list[Any] = []
    real = store._question
    monkeypatch.setattr(store, "_question", lambda row: reads.append(row) or real(row))
    with Bench(tmp_path, tiny("curator.rounds=8", "agents.count=4000", "alpha=0.001")) as bench:
        bench.run()
        read = len(reads)
        asked = len(bench.referee.store.questions("run"))
    assert asked >= 5
    assert 0 < read <= 3 * asked  # once to take answers, once at the end for the orders in use, once for the run folder


def test_a_key_of_their_own_making_has_no_closed_question_read_again(tmp_path, monkeypatch):
    """Else anybody could have questions read, with all reports on them, one after the other, while nobody reports."""
    with Bench(tmp_path, tiny("curator.rounds=8", "agents.count=4000", "alpha=0.001")) as bench:
        bench.run()
        reads: list[Any] = []
        real = store._question
        monkeypatch.setattr(store, "_question", lambda row: reads.append(row) or real(row))
        said = {"run": "run", "digest": "0" * 64, "question": 1, "reason": "policy", "assignment": "0" * 64}
        for who, problem, read in (
            (Identity.create(), PatternViolation, 0),
            (bench.population.identity, ConfigurationMismatch, 1),
        ):
            with pytest.raises(problem):
                bench.referee.decline(who.sign("decline", said))
            assert len(reads) == read
