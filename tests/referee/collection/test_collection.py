"""What the referee takes from agents and what it refuses: every attack on an open question changes nothing."""

from __future__ import annotations

import hashlib
import secrets
import struct
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from common.core import errors
from common.crypto.identity import Identity, Signed, covered
from common.local.packing import pack_answers
from common.local.records import Records
from common.log.receipts import Receipt
from common.net import messages
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.collection import judging, roster
from referee.collection.collection import PATIENCE
from referee.collection.enrolment import Caps
from referee.collection.judging import verified, verified_payload
from tests.support import ONE_QUESTION, TOKEN, Bench, asking, seal, tiny
from tests.tiers import for_each

each_store = pytest.mark.usefixtures("each_store")
"""What depends on how a store keeps it; other tests here show what is refused before that."""


class Attacker:
    """Holds an open question of the hosted people in its hands, and reports what it likes."""

    def __init__(self, bench: Bench) -> None:
        self.identity = bench.population.identity
        self.asked = messages.Assignment.parse(bench.poll(self.identity).message)
        self.people = len(messages.unpack_indices(self.asked.people))

    def packed(self, body: bytes | None = None, **changes: Any) -> tuple[Signed, bytes]:
        if body is None:
            body = pack_answers(np.ones(self.people, dtype=np.bool_), np.zeros(self.people, dtype=np.uint8), "bit")
        wire = {
            "report_id": secrets.token_hex(16),
            "run": self.asked.run,
            "digest": self.asked.digest,
            "question": self.asked.question,
            "people": self.people,
            "assignment": self.asked.fingerprint(),
            "body_sha256": hashlib.sha256(body).hexdigest(),
            **changes,
        }
        return self.identity.sign("packed-report", wire), body

    def report(self, signer: Identity | None = None, answer: float = 1) -> Signed:
        """Return an individual's report on the question, which the host is asked."""
        return report(signer or self.identity, self.asked.run, self.asked.digest, answer)


def report(signer: Identity, run: str, digest: str = "0" * 64, answer: float = 1) -> Signed:
    message = messages.Report(
        report_id="2" * 32, run=run, digest=digest, question=1, assignment="0" * 64, answer=answer
    )
    return seal(signer, message)


BAD_PACKED: dict[str, tuple[type[errors.TandemError], dict[str, Any] | Callable[[int], bytes]]] = {
    "another run": (errors.NotFound, {"run": "other"}),
    "a question not asked": (errors.NotFound, {"question": 77}),
    "too many people": (errors.BadMessage, {"people": 1 << 23}),
    "an unknown field": (errors.BadMessage, {"epsilon": 100}),
    "a negative question": (errors.BadMessage, {"question": -1}),
    "a huge question": (errors.BadMessage, {"question": 10**17}),
    "a short id": (errors.BadMessage, {"report_id": "00"}),
    "an upper-case id": (errors.BadMessage, {"report_id": "A" * 32}),
    "an empty body": (errors.BadMessage, lambda people: b""),
    "a body that is too long": (errors.BadMessage, lambda people: bytes(2 * ((people + 7) // 8) + 1)),
    "a body of reals": (errors.BadMessage, lambda people: bytes((people + 7) // 8 + 8 * people)),
    "answers of the silent": (
        errors.BadMessage,
        lambda people: bytes((people + 7) // 8) + b"\xff" * ((people + 7) // 8),
    ),
}


@each_store
def test_bad_reports_are_refused_counted_and_change_nothing(bench, undisturbed):
    def attack() -> None:
        attacker = Attacker(bench)
        for number, (name, (error, what)) in enumerate(BAD_PACKED.items(), start=1):
            report = attacker.packed(what(attacker.people)) if callable(what) else attacker.packed(**what)
            with pytest.raises(error):
                bench.referee.report_packed(*report)
            assert bench.referee.collection.rejected.total() == number, name

    result = bench.during(attack)
    assert result["answer"] == undisturbed[1].result["answer"]
    assert result["agents"] == {**undisturbed[1].result["agents"], "rejected": len(BAD_PACKED)}


def test_padding_bits_must_be_zero_and_packed_reals_finite(tmp_path):
    def refused(bench: Bench, body: bytes, why: str) -> None:
        with pytest.raises(errors.BadMessage, match=why):
            bench.referee.report_packed(*Attacker(bench).packed(body))

    mask = 397 // 8 + 1
    bits = [b"\xff" * mask + bytes(mask), bytes(2 * mask - 1) + b"\x01"]
    reals = [b"\xff" * 50 + struct.pack("<400d", *([0.5] * 399), float(poison)) for poison in ("nan", "inf", "-inf")]
    for override, bodies, why in (
        ("agents.batch=397", bits, "padding"),
        ("agents.mechanism.name=laplace", reals, "finite"),
    ):
        with Bench(tmp_path / why, tiny(override)) as bench:
            for body in bodies:
                bench.meanwhile(partial(refused, bench, body, why))
            assert bench.run()["status"] in ("done", "exhausted")
            assert not bench.hooks


@each_store
def test_a_replayed_report_counts_once_and_a_fresh_id_makes_no_second_answer(bench, undisturbed):
    def attack() -> None:
        honest = bench.population.answer(bench.poll(bench.population.identity), bench.referee.configuration("run"))
        attacker = Attacker(bench)
        other = attacker.packed()
        for _ in range(3):
            bench.referee.report_packed(*honest)
        # The same answers under another id are not the same report either.
        renamed = attacker.identity.sign("packed-report", {**honest[0].message, "report_id": "0" * 32})
        for second in (other, (renamed, honest[1])):
            with pytest.raises(errors.AlreadyAnswered):
                bench.referee.report_packed(*second)

    result = bench.during(attack)
    assert result["agents"] == {**undisturbed[1].result["agents"], "rejected": 2}
    assert result["answer"] == undisturbed[1].result["answer"]


def test_forged_envelopes_of_every_kind_are_refused(bench):
    mallory = Identity.create()

    def attack() -> None:
        attacker = Attacker(bench)
        header, body = attacker.packed()
        takers: list[tuple[Signed, Callable[[Signed], Any]]] = [
            (header, lambda signed: bench.referee.report_packed(signed, body)),
            (attacker.report(), bench.referee.report),
            (seal(attacker.identity, messages.Poll(participant=attacker.identity.public)), bench.referee.poll),
            (seal(mallory, messages.Enrolment(agents=1)), lambda signed: bench.referee.enrol(signed, TOKEN)),
        ]
        for signed, take in takers:
            other = mallory.sign("something-else", signed.message)
            for forgery in (
                {"signature": f"{int(signed.signature[0], 16) ^ 1:x}" + signed.signature[1:]},
                {"key": Identity.create().public},
                {"kind": "something-else"},
                {"message": {**signed.message, "extra": 1}},
                other.wire(),
                {**other.wire(), "kind": signed.kind},
            ):
                with pytest.raises(errors.Forged):
                    take(Signed.parse({**signed.wire(), **forgery}))

    bench.during(attack)


def test_nobody_polls_for_somebody_else_or_answers_a_run_that_never_was(bench):
    mallory, host = Identity.create(), bench.population.identity
    with pytest.raises(errors.Forged):
        bench.referee.poll(seal(mallory, messages.Poll(participant=host.public)))
    with pytest.raises(errors.NotFound, match="not enrolled"):
        bench.poll(mallory)
    with pytest.raises(errors.NotFound):
        bench.referee.report(report(host, "no-run"))
    bench.referee.create("later", bench.chosen.wire(), 1)
    with pytest.raises(errors.NotFound, match="has not begun"):
        bench.referee.report(report(host, "later"))


def test_a_poll_that_nobody_signed_makes_the_store_read_nothing(bench, monkeypatch):
    """A key that is not enrolled may be another process's, and is looked for once in a group: if it has signed."""
    read: list[int] = []
    monkeypatch.setattr(bench.referee.registrar, "refresh", lambda: read.append(1))
    strangers = [Identity.create() for _ in range(3)]
    signed = [seal(one, messages.Poll(participant=one.public)) for one in strangers]
    forged = [one.model_copy(update={"signature": "0" * 128}) for one in signed]
    assert [type(answer) for answer in bench.referee.collection.poll(forged)] == [errors.Forged] * 3
    assert read == []
    assert [type(answer) for answer in bench.referee.collection.poll(signed)] == [errors.NotFound] * 3
    assert read == [1]


@each_store
def test_enrolment_needs_the_token_and_is_idempotent(bench):
    somebody = Identity.create()
    request = seal(somebody, messages.Enrolment(agents=3))
    for token in ("", "wrong", TOKEN + " ", TOKEN.upper()):
        with pytest.raises(errors.Unauthorized):
            bench.referee.enrol(request, token)
    assert bench.referee.registrar.roster.find(somebody.public) is None
    assert bench.enrol(somebody, 3) == bench.enrol(somebody, 3)
    with pytest.raises(errors.TandemError, match="enrolled with 3 agents, not 4"):
        bench.enrol(somebody, 4)
    bench.referee.registrar.caps = Caps(people=1 << 32)
    with pytest.raises(errors.TandemError, match="numbers at most 4294967296"):
        bench.enrol(Identity.create(), 1 << 32)
    with pytest.raises(errors.BadMessage):
        bench.referee.enrol(Identity.create().sign("enrolment", {"agents": (1 << 32) + 1}), TOKEN)


@each_store
def test_tokens_are_kept_as_hashes_only_and_an_old_one_ends(tmp_path):
    with Bench(tmp_path) as bench:
        for token in ("an-operator-token", "its-successor"):
            bench.referee.registrar.allow("operator", token)
        for purpose, token in (("operator", "an-operator-token"), ("enrolment", "its-successor")):
            with pytest.raises(errors.Unauthorized):
                bench.referee.registrar.authorize(purpose, token)
        bench.referee.registrar.authorize("operator", "its-successor")
    for path in filter(Path.is_file, Path(tmp_path).rglob("*")):
        assert not any(token in path.read_bytes() for token in (TOKEN.encode(), b"its-successor", b"an-operator-token"))


@for_each(("strangers", "seconds"), [(0, 3), (2, 3 + 30)], ids=str)
def test_a_silent_population_makes_the_run_fail_in_time(tmp_path, strangers, seconds, monkeypatch):
    """In time for those, too, who were told to come later because so many are enrolled."""
    monkeypatch.setattr(roster, "HELD", 2)
    monkeypatch.setattr(roster, "POLLS", 0.1)
    with Bench(tmp_path, tiny("agents.deadline=3")) as bench:
        for _ in range(strangers):
            bench.enrol(Identity.create())
        bench.referee._wait = bench.clock.wait
        result = bench.run()
    assert roster.longest_pause(3) == 30.0
    assert bench.clock.now == seconds * PATIENCE
    assert (result["status"], result["answer"]) == ("failed", None)
    assert f"no agent answered question 1 within {seconds * PATIENCE:g} s" in result["reason"]


@each_store
def test_waiting_ends_with_the_deadline_when_only_some_report(tmp_path):
    with Bench(tmp_path, tiny(), individuals=3000) as bench:
        silent = Identity.create()
        bench.enrol(silent, 3000)
        result = bench.run()
        assert result["status"] == "exhausted"
        assert 0 < result["agents"]["answered"] < result["agents"]["asked"]
        digest = messages.Configuration.parse(bench.referee.configuration("run").message).fingerprint()
        with pytest.raises(errors.PatternViolation, match="is closed"):
            bench.referee.report(report(silent, "run", digest))


PEOPLE = [Identity.create() for _ in range(5)]


def group(size: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    people = [PEOPLE[i % len(PEOPLE)] for i in range(size)]
    said = [b"%d" % i * (i % 4) for i in range(size)]
    signed = [bytes.fromhex(p.sign_bytes("x", what)) for p, what in zip(people, said, strict=True)]
    return [bytes.fromhex(p.public) for p in people], [covered("x", what) for what in said], signed


def test_each_of_a_group_is_judged_by_itself(monkeypatch):
    """Also where several threads share a group."""
    for many, sizes in ((judging.MANY, (0, 1, 5, 100)), (3, (6, 7, 20, 23))):
        monkeypatch.setattr(judging, "MANY", many)
        monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(7)))
        for size in sizes:
            whole = group(size)
            assert verified(*whole).all()
            for wrong in range(0, size, 1 if size < 30 else 9):
                for part, other in enumerate((bytes.fromhex(Identity.create().public), b"x", bytes(64))):
                    forged = [list(values) for values in whole]
                    forged[part][wrong] = other
                    assert np.flatnonzero(~verified(*forged)).tolist() == [wrong]


def test_of_a_group_of_messages_each_is_read_or_told_why_not():
    good, other = PEOPLE[0].sign("poll", {"participant": "a"}), PEOPLE[1].sign("report", {})
    assert verified_payload(good, "poll") == b'{"participant":"a"}'
    for wrong in (other, good.model_copy(update={"signature": other.signature})):
        with pytest.raises(errors.Forged):
            verified_payload(wrong, "poll")
    for key in (bytes(32), b"\1" + bytes(31), b"\xff" * 32):
        assert not verified([key], [covered("x", b"anything")], [key + bytes(32)]).any()
    (key,), said, (signed,) = group(1)
    for parts in ((key[:-1], signed), (key, signed[:-1]), (key, signed + b"x")):
        assert not verified([parts[0]], said, [parts[1]]).any()


@each_store
def test_good_reports_are_taken_and_bad_ones_listed_with_their_reason(tmp_path):
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION), individuals=2) as bench:
        referee, key = bench.referee, bench.referee.identity.public
        record = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
        agents = [Agent(record, PersonalPolicy(key, 2.0), tmp_path / f"agent-{n}") for n in range(2)]
        for agent in agents:
            Host(agent, referee, key).enrol(TOKEN)
        sent: list[Signed] = []
        outcomes: list[dict[str, Any]] = []

        def hand_in() -> None:
            sent.extend(agent.answer(bench.poll(agent.identity), referee.configuration("run")) for agent in agents)
            again = agents[0].identity.sign("report", {**sent[0].message, "report_id": secrets.token_hex(16)})
            forged = sent[1].model_copy(update={"signature": "00" * 64})
            batch = [report.wire() for report in (sent[0], again, forged, sent[1], sent[0])]
            batch += ["no report", {**sent[1].wire(), "key": 0}]
            with asking(bench.app()) as client:
                outcomes.append(client.post("/v1/report-batches", json=batch).json())

        result = bench.during(hand_in)
        for agent in agents:
            agent.close()
    receipts = [Receipt.parse(Signed.parse(wire).message) for wire in outcomes[0].pop("receipts")]
    assert [receipt.report for receipt in receipts] == [sent[0].signature, sent[1].signature, sent[0].signature]
    reasons = {1: "already-answered", 2: "forged", 5: "bad-message", 6: "bad-message"}
    rejected = [{"position": position, "reason": reason} for position, reason in reasons.items()]
    assert outcomes == [{"accepted": 3, "rejected": rejected}]
    assert result["agents"] == {"enrolled": 600, "asked": 600, "answered": 600, "rejected": 4}


def failing(real: Callable[..., Any], stored: bool) -> Callable[..., Any]:
    """Return what does its work or leaves it, and then fails; the second time it does its work."""
    calls: list[int] = []

    def work(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > 1 or stored:
            real(*arguments)
        if len(calls) == 1:
            raise OperationalError("INSERT", {}, OSError("disk full"))

    return work


@each_store
@pytest.mark.parametrize("stored", [True, False])
def test_a_report_is_not_acknowledged_and_said_again_it_counts_once(bench, undisturbed, stored, monkeypatch):
    def attack() -> None:
        store = bench.referee.store
        monkeypatch.setattr(store, "add_reports", failing(store.add_reports, stored))
        with pytest.raises(errors.CannotWrite):
            bench.host.step()
        bench.host.step()

    result = bench.during(attack)
    assert result["answer"] == undisturbed[1].result["answer"]
    assert result["agents"] == undisturbed[1].result["agents"]


@each_store
@for_each("stored", [True, False])
def test_an_enrolment_is_not_confirmed_and_said_again_has_one_number(tmp_path, stored, monkeypatch):
    with Bench(tmp_path) as bench:
        store, roster = bench.referee.store, bench.referee.registrar.roster
        somebody, another = (seal(Identity.create(), messages.Enrolment(agents=3)) for _ in range(2))
        before = roster.agents
        monkeypatch.setattr(store, "add_participants", failing(store.add_participants, stored))
        with pytest.raises(errors.CannotWrite):
            bench.referee.enrol(somebody, TOKEN)
        numbers = [bench.referee.enrol(request, TOKEN).message["first"] for request in (another, somebody, another)]
        assert sorted(numbers[:2]) == [before, before + 3]
        assert numbers[2] == numbers[0]
        assert list(store.participants()) == list(roster)


class Slept(Exception):
    """Somebody would have slept now."""


@pytest.fixture
def questions(bench):
    """The open questions of a bench, at which whoever would sleep says so instead."""

    class Sleepless(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            raise Slept(timeout)

    found = bench.referee.collection.questions
    found._arrived = Sleepless()
    return found


@each_store
def test_a_question_that_everybody_has_answered_is_counted_at_once(bench, questions):
    """Neither before nor behind the last report; then the next news is waited for."""

    def answered() -> None:
        assert bench.host.step()
        questions.wait(60.0)
        assert questions.open == [("run", 1)]
        with pytest.raises(Slept):
            questions.wait(60.0)

    bench.during(answered)


def test_what_came_before_the_wait_is_not_slept_through(questions):
    """With nobody's question complete a moment is left for further reports, and no second."""
    questions.announce()
    with pytest.raises(Slept) as moment:
        questions.wait(60.0)
    assert moment.value.args[0] <= 0.01
