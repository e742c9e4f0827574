"""The judge of reports: what it accepts, and for which reason, the first of several, it refuses."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from common.core import canonical
from common.core.errors import BadMessage
from common.crypto.identity import Identity, Signed
from common.local.packing import pack_answers
from common.local.queries.coordinate import CoordinateQuery
from common.net.messages import PackedReport, Report
from referee.collection import judging as asked_module
from referee.collection.batches import Batch
from referee.collection.batches import assign as real_assign
from referee.collection.judging import Asked, Claim, Refusal, judge, payload, read
from referee.collection.roster import Roster
from referee.state.values import Participant, StoredReport
from tests.tiers import for_each

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
    wire = {
        "report_id": "1" * 32,
        "run": "run",
        "digest": DIGEST,
        "question": 3,
        "people": PEOPLE,
        "assignment": ASKED.fingerprint(HOST.public),
        "body_sha256": hashlib.sha256(body).hexdigest(),
        **changes,
    }
    return signer.sign(PackedReport.KIND, wire)


def single(signer: Identity = ALONE, **changes: Any) -> Signed:
    wire = {
        "report_id": "2" * 32,
        "run": "run",
        "digest": DIGEST,
        "question": 3,
        "assignment": ASKED.fingerprint(ALONE.public),
        "answer": 1.0,
        **changes,
    }
    return signer.sign(Report.KIND, wire)


def read_individual(signed: Signed) -> Claim:
    return read(signed, canonical.encode(signed.message), None)


def read_packed(signed: Signed, body: bytes) -> Claim:
    return read(signed, canonical.encode(signed.message), body)


def reason(claim: Claim, **known: Any) -> str:
    with pytest.raises(Refusal) as refused:
        judge(claim, ASKED, **known)
    assert str(refused.value) == refused.value.problem.detail
    return refused.value.reason


def test_a_good_report_is_accepted_as_it_came():
    signed = packed()
    signature = bytes.fromhex(signed.signature)
    expected = StoredReport(1, False, bytes([0x11] * 16), PEOPLE, signature, BODY)
    assert judge(read_packed(signed, BODY), ASKED) == expected
    accepted = judge(read_individual(single()), ASKED)
    assert (accepted.slot, accepted.individual, accepted.answered, accepted.message) == (0, True, 1, b"")


@pytest.mark.parametrize("claim", [read_packed(packed(), BODY), read_individual(single())])
def test_what_was_signed_is_rebuilt_from_the_question(claim):
    assert payload(judge(claim, ASKED), ASKED) == claim.payload


def test_what_was_signed_is_kept_where_it_is_written_in_another_way():
    signed = single(answer=1)
    accepted = judge(read_individual(signed), ASKED)
    assert accepted.message == payload(accepted, ASKED) == canonical.encode(signed.message)
    assert b'"answer":1,' in accepted.message


def test_a_repeated_report_is_the_one_that_is_known_even_when_it_is_too_late():
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


def test_nobody_speaks_for_the_agents_of_somebody_else():
    assert reason(read_individual(single(HOST))) == "another number of agents"
    assert reason(read_packed(packed(ALONE), BODY)) == "another number of agents"
    assert reason(read_individual(single(STRANGER))) == "not asked"


def test_the_body_is_the_one_that_was_signed():
    with pytest.raises(Refusal, match="does not match") as refused:
        read_packed(packed(), BODY + b"\0")
    assert refused.value.reason == "another body"


@for_each("body", [b"", BODY[:-1], BODY + b"\0", b"\xff" * 4])
def test_answers_that_are_packed_wrongly_are_no_answers(body):
    with pytest.raises(BadMessage):
        judge(read_packed(packed(body=body), body), ASKED)
    with pytest.raises(BadMessage, match="one of 0 to 1"):
        judge(read_individual(single(answer=0.5)), ASKED)


def test_what_is_no_report_is_none():
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


def test_an_individual_is_asked_what_a_host_of_one_would_be():
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
