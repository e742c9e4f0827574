"""What the referee takes from agents and what it refuses: every attack on an open question changes nothing."""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import (
    AlreadyAnswered,
    BadMessage,
    ConfigurationMismatch,
    Forged,
    NotFound,
    PatternViolation,
    TandemError,
    Unauthorized,
)
from common.crypto.identity import Identity, Signed, covered
from common.local.packing import pack_answers
from common.net import messages
from referee.collection import judging, roster
from referee.collection.collection import PATIENCE
from referee.collection.enrolment import Caps
from referee.collection.judging import verified, verified_payload
from tests.support import TOKEN, Bench, seal, tiny
from tests.tiers import for_each

pytestmark = pytest.mark.usefixtures("each_store")


class Attacker:
    """Holds an open question in its hands, and reports what it likes."""

    def __init__(self, bench: Bench, identity: Identity | None = None) -> None:
        self.bench = bench
        self.identity = identity or bench.population.identity

    def assignment(self) -> messages.Assignment:
        poll = messages.Poll(participant=self.identity.public)
        found = self.bench.referee.poll(seal(self.identity, poll))
        assert found is not None
        return messages.Assignment.parse(found.message)

    def packed(self, body: bytes | None = None, **changes: Any) -> tuple[Signed, bytes]:
        asked = self.assignment()
        people = len(messages.unpack_indices(asked.people))
        if body is None:
            body = pack_answers(np.ones(people, dtype=np.bool_), np.zeros(people, dtype=np.uint8), "bit")
        wire = {
            "report_id": secrets.token_hex(16),
            "run": asked.run,
            "digest": asked.digest,
            "question": asked.question,
            "people": people,
            "assignment": asked.fingerprint(),
            "body_sha256": hashlib.sha256(body).hexdigest(),
            **changes,
        }
        return self.identity.sign("packed-report", wire), body

    def report(self, signer: Identity | None = None, **changes: Any) -> Signed:
        """Return an individual's report on the question, which the host is asked."""
        digest = self.assignment().digest
        wire = {
            "report_id": "2" * 32,
            "run": "run",
            "digest": digest,
            "question": 1,
            "assignment": "0" * 64,
            "answer": 1,
        }
        return seal(signer or self.identity, messages.Report(**{**wire, **changes}))


def during(bench: Bench, attack: Callable[[], None]) -> dict[str, Any]:
    """Run to the end, with the attack at the first question; the attack must have happened."""
    happened: list[bool] = []

    def hook() -> None:
        attack()
        happened.append(True)

    bench.meanwhile(hook)
    result = bench.run()
    assert happened
    return result


BAD_PACKED: dict[str, tuple[type[TandemError], dict[str, Any] | Callable[[int], bytes]]] = {
    "another run": (NotFound, {"run": "other"}),
    "a question not asked": (NotFound, {"question": 77}),
    "another digest": (ConfigurationMismatch, {"digest": "0" * 64}),
    "fewer people": (BadMessage, {"people": 1}),
    "more people": (BadMessage, {"people": 401}),
    "too many people": (BadMessage, {"people": 1 << 23}),
    "another assignment": (ConfigurationMismatch, {"assignment": "0" * 64}),
    "a body that was not signed": (BadMessage, {"body_sha256": "0" * 64}),
    "an unknown field": (BadMessage, {"epsilon": 100}),
    "a negative question": (BadMessage, {"question": -1}),
    "a huge question": (BadMessage, {"question": 10**17}),
    "a short id": (BadMessage, {"report_id": "00"}),
    "an upper-case id": (BadMessage, {"report_id": "A" * 32}),
    "an empty body": (BadMessage, lambda people: b""),
    "a body that is too long": (BadMessage, lambda people: bytes(2 * ((people + 7) // 8) + 1)),
    "a body of reals": (BadMessage, lambda people: bytes((people + 7) // 8 + 8 * people)),
    "answers of the silent": (BadMessage, lambda people: bytes((people + 7) // 8) + b"\xff" * ((people + 7) // 8)),
}


@pytest.mark.parametrize("name", sorted(BAD_PACKED))
def test_a_bad_report_is_refused_counted_and_changes_nothing(bench, undisturbed, name):
    error, what = BAD_PACKED[name]

    def attack() -> None:
        attacker = Attacker(bench)
        people = len(messages.unpack_indices(attacker.assignment().people))
        report = attacker.packed(what(people)) if callable(what) else attacker.packed(**what)
        with pytest.raises(error):
            bench.referee.report_packed(*report)
        assert sum(bench.referee.collection.rejected.values()) == 1

    result = during(bench, attack)
    assert result["answer"] == undisturbed[1].result["answer"]
    assert result["agents"] == {**undisturbed[1].result["agents"], "rejected": 1}


def test_padding_bits_must_be_zero_and_packed_reals_finite(tmp_path):
    def refused(bench: Bench, body: bytes, why: str) -> None:
        with pytest.raises(BadMessage, match=why):
            bench.referee.report_packed(*Attacker(bench).packed(body))

    with Bench(tmp_path / "bits", tiny("agents.batch=397")) as bench:
        mask = 397 // 8 + 1
        for body in (b"\xff" * mask + bytes(mask), bytes(2 * mask - 1) + b"\x01"):
            bench.meanwhile(partial(refused, bench, body, "padding"))
        bench.run()
        assert not bench.hooks
    with Bench(tmp_path / "reals", tiny("agents.mechanism.name=laplace")) as bench:
        for poison in (float("nan"), float("inf"), float("-inf")):
            body = b"\xff" * 50 + struct.pack("<400d", *([0.5] * 399), poison)
            bench.meanwhile(partial(refused, bench, body, "finite"))
        assert bench.run()["status"] in ("done", "exhausted")
        assert not bench.hooks


def test_a_replayed_report_is_accepted_again_and_counts_once(bench, undisturbed):
    def attack() -> None:
        assignment = bench.referee.poll(
            seal(bench.population.identity, messages.Poll(participant=bench.population.identity.public))
        )
        report = bench.population.answer(assignment, bench.referee.configuration("run"))
        for _ in range(3):
            bench.referee.report_packed(*report)

    result = during(bench, attack)
    assert result["agents"] == undisturbed[1].result["agents"]
    assert result["answer"] == undisturbed[1].result["answer"]


def test_a_fresh_id_does_not_make_a_second_answer(bench):
    def attack() -> None:
        attacker = Attacker(bench)
        first, second = attacker.packed(), attacker.packed()
        bench.referee.report_packed(*first)
        with pytest.raises(AlreadyAnswered):
            bench.referee.report_packed(*second)
        with pytest.raises(AlreadyAnswered):  # the same answers under another id are not the same report
            bench.referee.report_packed(
                attacker.identity.sign("packed-report", {**first[0].message, "report_id": "0" * 32}), first[1]
            )

    assert during(bench, attack)["agents"]["rejected"] == 2


def test_somebody_who_was_not_asked_is_refused(bench):
    stranger = Identity.create()

    def attack() -> None:
        report = Attacker(bench).report(stranger)
        with pytest.raises(PatternViolation, match="was not asked"):
            bench.referee.report(report)
        bench.referee.enrol(seal(stranger, messages.Enrolment(agents=1)), TOKEN)
        with pytest.raises(PatternViolation, match="was not asked"):
            bench.referee.report(report)

    during(bench, attack)


def test_an_individual_report_is_a_bit_where_answers_are_bits_and_cannot_stand_for_many(bench):
    def attack() -> None:
        for answer in (0.5, 2.0, -1.0, 1e300):
            with pytest.raises(BadMessage, match="one of 0 to 1 under"):
                bench.referee.report(Attacker(bench).report(answer=answer))
        with pytest.raises(BadMessage, match="asked 400 agents"):
            bench.referee.report(Attacker(bench).report())

    during(bench, attack)


def tampered(signed: Signed, **changes: Any) -> Signed:
    return Signed.parse({**signed.wire(), **changes})


def test_forged_envelopes_of_every_kind_are_refused(bench):
    mallory = Identity.create()

    def attack() -> None:
        attacker = Attacker(bench)
        header, body = attacker.packed()
        poll = seal(attacker.identity, messages.Poll(participant=attacker.identity.public))
        individual = attacker.report()
        enrolment = seal(mallory, messages.Enrolment(agents=1))
        takers: list[tuple[Signed, Callable[[Signed], Any]]] = [
            (header, lambda signed: bench.referee.report_packed(signed, body)),
            (individual, bench.referee.report),
            (poll, bench.referee.poll),
            (enrolment, lambda signed: bench.referee.enrol(signed, TOKEN)),
        ]
        for signed, take in takers:
            flipped = f"{int(signed.signature[0], 16) ^ 1:x}" + signed.signature[1:]
            forgeries = [
                tampered(signed, signature=flipped),
                tampered(signed, key=Identity.create().public),
                tampered(signed, kind="something-else"),
                tampered(signed, message={**signed.message, "extra": 1}),
                mallory.sign("something-else", signed.message),
                tampered(mallory.sign("something-else", signed.message), kind=signed.kind),
            ]
            for forgery in forgeries:
                with pytest.raises(Forged):
                    take(forgery)

    during(bench, attack)


def test_nobody_polls_for_somebody_else_or_answers_a_run_that_never_was(bench):
    mallory = Identity.create()
    with pytest.raises(Forged):
        bench.referee.poll(seal(mallory, messages.Poll(participant=bench.population.identity.public)))
    with pytest.raises(NotFound, match="not enrolled"):
        bench.referee.poll(seal(mallory, messages.Poll(participant=mallory.public)))
    report = messages.Report(
        report_id="4" * 32, assignment="0" * 64, run="no-run", digest="0" * 64, question=0, answer=1
    )
    with pytest.raises(NotFound):
        bench.referee.report(seal(bench.population.identity, report))
    bench.referee.create("later", bench.chosen.wire(), 1)
    with pytest.raises(NotFound, match="has not begun"):
        bench.referee.report(seal(bench.population.identity, report.model_copy(update={"run": "later"})))


def test_a_poll_that_nobody_signed_makes_the_store_read_nothing(bench, monkeypatch):
    """A key that is not enrolled may be another process's, and is looked for once in a group: if it has signed."""
    read: list[int] = []
    monkeypatch.setattr(bench.referee.registrar, "refresh", lambda: read.append(1))
    strangers = [Identity.create() for _ in range(3)]
    signed = [seal(one, messages.Poll(participant=one.public)) for one in strangers]
    forged = [one.model_copy(update={"signature": "0" * 128}) for one in signed]
    assert [type(answer) for answer in bench.referee.collection.poll(forged)] == [Forged] * 3
    assert read == []
    assert [type(answer) for answer in bench.referee.collection.poll(signed)] == [NotFound] * 3
    assert read == [1]


def test_every_agent_is_handed_one_question_in_its_life(bench):
    """Over a run of several questions no agent number occurs twice, and after answering there is no question."""
    asked: list[int] = []

    def look() -> None:
        assignment = Attacker(bench).assignment()
        asked.extend(messages.unpack_indices(assignment.people).tolist())
        bench.host.step()
        poll = messages.Poll(participant=bench.population.identity.public)
        assert bench.referee.poll(seal(bench.population.identity, poll)) is None

    for _ in range(3):
        bench.meanwhile(look)
    result = bench.run()
    assert len(asked) == len(set(asked)) == result["agents"]["asked"] > 400


def test_enrolment_needs_the_token_and_is_idempotent(bench):
    somebody = Identity.create()
    request = seal(somebody, messages.Enrolment(agents=3))
    for token in ("", "wrong", TOKEN + " ", TOKEN.upper()):
        with pytest.raises(Unauthorized):
            bench.referee.enrol(request, token)
    assert bench.referee.registrar.roster.find(somebody.public) is None
    first = bench.referee.enrol(request, TOKEN)
    assert bench.referee.enrol(request, TOKEN) == first
    with pytest.raises(TandemError, match="enrolled with 3 agents, not 4"):
        bench.referee.enrol(seal(somebody, messages.Enrolment(agents=4)), TOKEN)
    bench.referee.registrar.caps = Caps(people=1 << 32)
    with pytest.raises(TandemError, match="numbers at most 4294967296"):
        bench.referee.enrol(seal(Identity.create(), messages.Enrolment(agents=1 << 32)), TOKEN)
    with pytest.raises(BadMessage):
        bench.referee.enrol(Identity.create().sign("enrolment", {"agents": (1 << 32) + 1}), TOKEN)


def test_tokens_are_kept_as_hashes_only_and_an_old_one_ends(tmp_path):
    with Bench(tmp_path) as bench:
        bench.referee.allow("operator", "an-operator-token")
        bench.referee.allow("operator", "its-successor")
        with pytest.raises(Unauthorized):
            bench.referee.authorize("operator", "an-operator-token")
        with pytest.raises(Unauthorized):
            bench.referee.authorize("enrolment", "its-successor")
        bench.referee.authorize("operator", "its-successor")
    for path in Path(tmp_path).rglob("*"):
        if path.is_file():
            raw = path.read_bytes()
            assert TOKEN.encode() not in raw
            assert b"its-successor" not in raw
            assert b"an-operator-token" not in raw


def test_a_silent_population_makes_the_run_fail_in_time(tmp_path):
    with Bench(tmp_path, tiny("agents.deadline=3")) as bench:
        bench.referee._wait = bench.clock.wait
        result = bench.run()
    assert bench.clock.now == 3 * PATIENCE
    assert (result["status"], result["answer"]) == ("failed", None)
    assert "no agent answered question 1 within 30 s" in result["reason"]


def test_a_question_waits_until_everybody_has_asked_who_was_told_to_come_later(tmp_path, monkeypatch):
    monkeypatch.setattr(roster, "HELD", 2)
    monkeypatch.setattr(roster, "POLLS", 0.1)
    with Bench(tmp_path, tiny("agents.deadline=3")) as bench:
        for _ in range(2):
            who = Identity.create()
            bench.referee.enrol(seal(who, messages.Enrolment(agents=1)), TOKEN)
        bench.referee._wait = bench.clock.wait
        result = bench.run()
    assert roster.longest_pause(3) == 30.0
    assert bench.clock.now == (3 + 30) * PATIENCE
    assert result["status"] == "failed"


def test_waiting_ends_with_the_deadline_when_only_some_report(tmp_path):
    with Bench(tmp_path, tiny(), individuals=3000) as bench:
        silent = Identity.create()
        bench.referee.enrol(seal(silent, messages.Enrolment(agents=3000)), TOKEN)
        result = bench.run()
        assert result["status"] == "exhausted"
        assert 0 < result["agents"]["answered"] < result["agents"]["asked"]
        digest = messages.Configuration.parse(bench.referee.configuration("run").message).fingerprint()
        late = messages.Report(report_id="5" * 32, assignment="0" * 64, run="run", digest=digest, question=1, answer=1)
        with pytest.raises(PatternViolation, match="is closed"):
            bench.referee.report(seal(silent, late))


def test_a_report_that_arrives_twice_at_the_same_moment_is_one_report(bench):
    """Both copies see no stored report; the database decides, and the second is the first one repeated."""

    def attack() -> None:
        header, body = Attacker(bench).packed()
        bench.referee.report_packed(header, body)
        store = bench.referee.store
        look, looks = store.report, iter([None])

        def blind_once(*key: Any) -> Any:
            return next(looks, look(*key))

        store.report = blind_once
        try:
            bench.referee.report_packed(header, body)
        finally:
            store.report = look

    assert during(bench, attack)["agents"]["rejected"] == 0


PEOPLE = [Identity.create() for _ in range(5)]


def group(size: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    people = [PEOPLE[i % len(PEOPLE)] for i in range(size)]
    said = [b"%d" % i * (i % 4) for i in range(size)]
    signed = [bytes.fromhex(p.sign_bytes("x", what)) for p, what in zip(people, said, strict=True)]
    return [bytes.fromhex(p.public) for p in people], [covered("x", what) for what in said], signed


@for_each("size", [0, 1, 5, 100])
def test_each_of_a_group_is_judged_by_itself(size, monkeypatch):
    keys, said, signed = group(size)
    assert verified(keys, said, signed).all()
    for wrong in range(0, size, 9):
        for forged in (
            ([*keys[:wrong], bytes.fromhex(Identity.create().public), *keys[wrong + 1 :]], said, signed),
            (keys, [*said[:wrong], said[wrong] + b"x", *said[wrong + 1 :]], signed),
            (keys, said, [*signed[:wrong], bytes(64), *signed[wrong + 1 :]]),
        ):
            assert np.flatnonzero(~verified(*forged)).tolist() == [wrong]
    monkeypatch.setattr(judging, "MANY", 3)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1, 2, 3, 4, 5, 6})
    for size in (6, 7, 20, 23):
        keys, said, signed = group(size)
        for wrong in range(size):
            broken = [*signed[:wrong], bytes(64), *signed[wrong + 1 :]]
            assert np.flatnonzero(~verified(keys, said, broken)).tolist() == [wrong]


def test_of_a_group_of_messages_each_is_read_or_told_why_not():
    good, other = PEOPLE[0].sign("poll", {"participant": "a"}), PEOPLE[1].sign("report", {})
    forged = good.model_copy(update={"signature": other.signature})
    assert verified_payload(good, "poll") == b'{"participant":"a"}'
    for wrong in (other, forged):
        with pytest.raises(Forged):
            verified_payload(wrong, "poll")
    for key in (bytes(32), b"\1" + bytes(31), b"\xff" * 32):
        assert not verified([key], [covered("x", b"anything")], [key + bytes(32)]).any()
    keys, said, signed = group(1)
    assert not verified([keys[0][:-1]], said, signed).any()
    assert not verified(keys, said, [signed[0][:-1]]).any()
    assert not verified(keys, said, [signed[0] + b"x"]).any()
