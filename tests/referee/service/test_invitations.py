"""Invitation codes: one key enrols with each, whoever races, crashes or restores; links and a sheet to hand out."""

from __future__ import annotations

import json
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from common.core.errors import CannotWrite, Conflict, InvitationUsed, NotVouched, Refused, Unauthorized
from common.crypto.identity import Identity, Signed
from common.net import messages
from deploy.load.client import LightAgent
from deploy.processes import PartyProcess
from issuer.issuer import Keys
from local_agent.client import RefereeClient
from referee.cli import app
from referee.collection.enrolment import Caps, Registrar, create_invitations
from referee.service.referee import Referee
from referee.store import backup
from tests.referee.service.test_referee_app import NO_CURATOR
from tests.support import TOKEN, Bench, audited, seal, served, tiny
from tests.tiers import for_each, thinned
from tests.vouched import answer, enrolment

each_store = pytest.mark.usefixtures("each_store")
USED = "another key has enrolled with this invitation code"


def enrol(bench: Bench, who: Identity, code: str, **message: object) -> Signed:
    return bench.referee.enrol(enrolment(who, **message), code)


def individuals(bench: Bench) -> int:
    return bench.referee.registrar.enrolled()["individuals"]


@each_store
def test_a_code_is_good_for_the_first_key_that_enrols_with_it(tmp_path):
    with Bench(tmp_path) as bench:
        first, second = create_invitations(bench.referee.store, 2)
        one, other = Identity.create(), Identity.create()
        enrolled = enrol(bench, one, first)
        # The same key again gets what it has, however the code is written, and with another code uses that not up.
        for again in (first, first.lower().replace("-", " "), first.replace("-", ""), second):
            assert enrol(bench, one, again) == enrolled
        with pytest.raises(InvitationUsed, match=USED):
            enrol(bench, other, first)
        assert bench.referee.store.count_invitations() == (2, 1)
        assert enrol(bench, other, second).message["first"] == enrolled.message["first"] + 1
        with pytest.raises(InvitationUsed):
            enrol(bench, one, second)
        assert (individuals(bench), bench.referee.store.count_invitations()) == (2, (2, 2))


@each_store
def test_of_two_keys_in_one_group_and_of_two_processes_one_gets_in(tmp_path, monkeypatch):
    with Bench(tmp_path) as bench:
        store = bench.referee.store
        together, apart = create_invitations(store, 2)
        keys = [Identity.create() for _ in range(4)]
        asked = [(seal(who, messages.Enrolment(agents=1)), together) for who in (*keys, keys[0])]
        outcomes = bench.referee.registrar.enrol(asked)
        assert [type(found) for found in outcomes] == [bytes, *[InvitationUsed] * 3, bytes]
        # Two processes find the code free before either has used it: the second one looks again in its transaction.
        registrars = [Registrar(store, bench.referee.identity) for _ in range(2)]
        before = [registrar._codes_among([apart]) for registrar in registrars]
        free = store.invitations(before[0])
        assert list(free.values()) == [""]
        with monkeypatch.context() as reading:
            reading.setattr(store, "invitations", lambda hashes: free)
            found = [
                registrar.enrol([(seal(who, messages.Enrolment(agents=1)), apart)])[0]
                for registrar, who in zip(registrars, keys[1:3], strict=True)
            ]
        assert [type(each) for each in found] == [bytes, InvitationUsed]
        assert store.count_invitations() == (2, 2)
        assert [store.invitations(before[0])[before[0][0]]] == [keys[1].public]


def test_many_keys_that_race_over_http_with_one_code(bench):
    (code,) = create_invitations(bench.referee.store, 1)
    requests = [seal(Identity.create(), messages.Enrolment(agents=1)).raw() for _ in range(16)]
    with served(bench.app()) as address:

        def post(content: bytes) -> httpx.Response:
            headers = {"Authorization": f"Bearer {code}"}
            return httpx.post(f"{address}/v1/enrolments", content=content, headers=headers, trust_env=False, timeout=60)

        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(post, requests))
        statuses = [reply.status_code for reply in found]
        assert sorted(statuses) == [200, *[409] * 15]
        winner = statuses.index(200)
        assert post(requests[winner]).content == found[winner].content
    assert individuals(bench) == 1


def test_over_http_a_refusal_says_what_to_do_and_nothing_shows_a_code(bench, caplog):
    caplog.set_level(logging.DEBUG, "tandem")
    (code,) = create_invitations(bench.referee.store, 1)
    none = "AAAAAA-AAAAAA-AAAAAA-AAAAAA"
    one, other = Identity.create(), Identity.create()
    with served(bench.app()) as address, closing(RefereeClient(address)) as client:
        client.enrol(enrolment(one), code)
        with pytest.raises(InvitationUsed, match=USED) as used:
            client.enrol(enrolment(other), code)
        needed = "a valid enrolment token"
        for wrong, why in ((none, "no such invitation code"), (code[:-1], needed), ("x", needed)):
            with pytest.raises(Unauthorized, match=why):
                client.enrol(enrolment(other), wrong)
        with pytest.raises(Unauthorized, match="for one person, the host brings 7"):
            client.enrol(enrolment(other, agents=7), code)
        batches, given = f"{address}/v1/report-batches", {"Authorization": f"Bearer {code}"}
        assert httpx.post(batches, content=b"[]", headers=given, trust_env=False, timeout=60).status_code == 401
        assert client.poll(seal(one, messages.Poll(participant=one.public))) is None
    assert used.value.status == 409
    assert "state" in used.value.detail
    assert code not in used.value.detail
    assert [line for line in caplog.messages if code in line or none in line] == []
    content = b"".join(path.read_bytes() for path in bench.folder.rglob("*") if path.is_file())
    assert code.encode() not in content
    assert code.replace("-", "").encode() not in content


@each_store
def test_a_crash_between_the_enrolment_and_its_answer_leaves_the_code_with_its_key(tmp_path, monkeypatch):
    class Crash(BaseException):
        pass

    one, other = Identity.create(), Identity.create()
    with Bench(tmp_path) as bench:
        (code,) = create_invitations(bench.referee.store, 1)

        def crashes(*arguments: object) -> bytes:
            raise Crash

        with monkeypatch.context() as failing:
            failing.setattr(Registrar, "_confirmation", crashes)
            with pytest.raises(Crash):
                enrol(bench, one, code)
    with Bench(tmp_path) as bench:
        with pytest.raises(InvitationUsed):
            enrol(bench, other, code)
        assert enrol(bench, one, code).message["participant"] == one.public
        assert individuals(bench) == 1


def test_what_is_not_stored_or_does_not_fit_uses_no_code(bench, monkeypatch, tmp_path):
    referee, one, other = bench.referee, Identity.create(), Identity.create()
    (code,) = create_invitations(referee.store, 1)

    def away(*arguments: object) -> None:
        raise OperationalError("", {}, Exception())

    for name in ("_insert_all", "invitations"):
        with monkeypatch.context() as failing:
            failing.setattr(referee.store, name, away)
            with pytest.raises(CannotWrite):
                enrol(bench, one, code)
    referee.registrar.caps = Caps(individuals=0)
    with pytest.raises(Refused, match="at most 0 individuals"):
        enrol(bench, one, code)
    referee.registrar.caps = Caps()
    referee.registrar.issuers = (Keys(tmp_path / "issuer").public,)  # a code does not stand for an issuer's word
    with pytest.raises(NotVouched):
        enrol(bench, one, code)
    referee.registrar.issuers = ()
    assert referee.store.count_invitations() == (1, 0)
    assert enrol(bench, other, code)


def test_a_token_for_all_that_looks_like_a_code_admits_as_before(bench):
    token = "ABCDEF-ABCDEF-ABCDEF-ABCDEF"
    bench.referee.registrar.allow("enrolment", token)
    enrol(bench, Identity.create(), token)
    enrol(bench, Identity.create(), token, agents=7)
    assert individuals(bench) == 1


def test_a_copy_knows_who_has_used_which_code(tmp_path):
    state, copy = tmp_path / "referee", tmp_path / "copy"
    one, other = Identity.create(), Identity.create()
    with closing(Referee(state, NO_CURATOR)) as live:
        used, free, later = create_invitations(live.store, 3)
        first = live.enrol(enrolment(one), used)
        backup(state, copy)
        live.enrol(enrolment(other), later)
    with closing(Referee(copy, NO_CURATOR)) as again:
        with pytest.raises(InvitationUsed):
            again.enrol(enrolment(other), used)
        assert again.enrol(enrolment(one), used) == first
        # What the copy does not know has not happened to it: neither the enrolment nor that its code was used.
        assert again.enrol(enrolment(other), later).message["first"] == 1
        again.enrol(enrolment(Identity.create()), free)


TWENTY = tiny("agents.count=20", "agents.batch=20", "curator.rounds=1", "agents.deadline=5")


def test_invited_people_answer_and_the_run_is_audited_and_they_may_take_part_again(tmp_path):
    with Bench(tmp_path / "bench", TWENTY, individuals=12) as bench:
        people = [(LightAgent.fresh(), code) for code in create_invitations(bench.referee.store, 12)]
        for agent, code in people:
            bench.referee.enrol(enrolment(agent), code)
        bench.meanwhile(lambda: answer(bench, [agent for agent, _ in people]))
        assert bench.run()["agents"]["answered"] == 20
        assert audited(bench).answers == 20
        (agent, code), (other, _) = people[:2]
        with pytest.raises(InvitationUsed):
            bench.referee.enrol(enrolment(other, again=True), code)
        further = bench.referee.enrol(enrolment(agent, again=True), code).message
        assert (further["first"], further["participant"]) == (20, agent.key)


def test_an_individual_that_was_asked_does_not_come_again_as_a_host(tmp_path):
    """Neither in one message nor in two of a group: a list with both in it could be read by nobody any more."""
    with Bench(tmp_path, TWENTY, individuals=12) as bench:
        people = [LightAgent.fresh() for _ in range(12)]
        for agent in people:
            bench.referee.enrol(enrolment(agent), TOKEN)
        bench.meanwhile(lambda: answer(bench, people))
        bench.run()
        for wishes, firsts in (
            ([{"agents": 5, "again": True}], [None]),
            ([{"agents": 5}, {"again": True}], [None, 20]),
        ):
            found = bench.referee.registrar.enrol([(enrolment(people[0], **wish), TOKEN) for wish in wishes])
            told = [json.loads(each)["message"]["first"] if isinstance(each, bytes) else None for each in found]
            assert (told, {type(each) for each in found} - {bytes}) == (firsts, {Conflict})
    with Bench(tmp_path, TWENTY, individuals=12) as bench:
        assert bench.referee.registrar.roster.agents == 21


def called(*words: str, code: int = 0) -> str:
    outcome = CliRunner().invoke(app, list(words), env={"COLUMNS": "300"})
    assert outcome.exit_code == code, outcome.output
    return outcome.output if code else outcome.stdout


PAGE = ("--page", "https://people.example/answer.html?x=1", "--referee", "https://referee.example:8000/")


def test_the_command_prints_codes_and_counts_them_while_the_referee_serves(tmp_path):
    state = ["--state", str(tmp_path)]
    key = called("key", *state).strip()
    with closing(Referee(tmp_path, NO_CURATOR)) as referee:
        codes = called("invite", "--count", "3", *state).split()
        assert len(set(codes)) == 3
        referee.enrol(enrolment(Identity.create()), codes[1])
        assert called("invitations", *state) == "3 invitation codes, 1 used\n"
        assert referee.identity.public == key
    other = tmp_path / "other.key"
    Identity.load_or_create(other)
    assert "give its key file" in called("invite", "--key", str(other), *state, code=1)


def test_codes_for_a_database_that_was_not_there_come_with_a_warning(tmp_path):
    """A referee on PostgreSQL has a state directory with its key alone: its codes are not there."""
    state = ["--state", str(tmp_path)]
    called("key", *state)
    outcome = CliRunner().invoke(app, ["invite", *state])
    assert (outcome.exit_code, len(outcome.stdout.split())) == (0, 1)
    warned = outcome.stderr
    assert f"{tmp_path / 'referee.sqlite'} is new" in warned
    assert "name its state directory (--state) or its database (--database)" in warned
    assert "is new" not in CliRunner().invoke(app, ["invite", *state]).stderr
    elsewhere = ["--database", f"sqlite:///{tmp_path / 'elsewhere.sqlite'}"]
    assert CliRunner().invoke(app, ["invite", *state, *elsewhere]).stderr == ""


def test_links_have_all_that_is_secret_in_the_fragment(tmp_path):
    state = ["--state", str(tmp_path / "referee")]
    key = called("key", *state).strip()
    links = called("invite", "--count", "2", *PAGE, *state).split()
    assert len(set(links)) == 2
    for link in links:
        parts = urlsplit(link)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}?{parts.query}" == PAGE[1]
        held = {name: value for name, (value,) in parse_qs(parts.fragment, strict_parsing=True).items()}
        code = held.pop("invitation")
        assert held == {"referee": "https://referee.example:8000", "key": key}
        with closing(Referee(tmp_path / "referee", NO_CURATOR)) as referee:
            referee.enrol(enrolment(Identity.create()), code)


def test_a_sheet_to_print_is_for_its_owner_alone_and_never_overwritten(tmp_path):
    state, sheet = ["--state", str(tmp_path / "referee")], tmp_path / "sheet"
    printed = called("invite", "--count", "3", *PAGE, *state, "--output", str(sheet))
    links = (sheet / "links.txt").read_text().split()
    text = (sheet / "invitations.html").read_text()
    assert printed.startswith(f"print {sheet}/invitations.html, one piece for each of 3 people")
    assert (len(links), text.count("<svg"), text.count("<section>")) == (3, 3, 3)
    for link in links:
        assert link.rpartition("invitation=")[2] in text
        assert link not in printed
    assert re.findall(r"""(?:src=|href=|url\()\S*""", text) == []
    assert not any(path.stat().st_mode & 0o077 for path in (sheet, *sheet.iterdir()))
    before = {path: path.read_bytes() for path in sheet.iterdir()}
    assert "would be lost" in called("invite", *PAGE, *state, "--output", str(sheet), code=1)
    assert {path: path.read_bytes() for path in sheet.iterdir()} == before
    assert called("invitations", *state) == "3 invitation codes, 0 used\n"


WRONG = {
    "no referee": (PAGE[:2], 2, "links need --page and --referee"),
    "no page": (PAGE[2:], 2, "links need --page and --referee"),
    "an output without links": (("--output", "sheet"), 2, "--output is for links"),
    "a page in the clear": (("--page", "http://people.example/", *PAGE[2:]), 1, "Serve the page with TLS"),
    "a referee in the clear": ((*PAGE[:2], "--referee", "http://referee.example"), 1, "start the referee with"),
    "a fragment": (("--page", "https://people.example/#top", *PAGE[2:]), 1, "must have no fragment"),
    "no address": (("--page", "people.example", *PAGE[2:]), 1, "begins with http"),
    "none": (("--count", "0"), 2, "greater than or equal to 1"),
}


@for_each("name", list(WRONG))
def test_links_that_no_browser_could_use_are_refused_and_no_code_is_made(tmp_path, name):
    words, status, why = WRONG[name]
    state = ["--state", str(tmp_path / "referee")]
    assert why in " ".join(called("invite", *words, *state, code=status).split())
    assert called("invitations", *state).startswith("0 invitation codes")


TOKENS = {"TANDEM_ENROLMENT_TOKEN": TOKEN, "TANDEM_OPERATOR_TOKEN": "another-token"}


@pytest.mark.slow
@pytest.mark.parametrize("pause", thinned([0.0, 0.002, 0.005, 0.02], 2, rest=pytest.mark.thorough))
def test_a_referee_that_is_killed_lets_one_key_in_with_a_code(tmp_path, pause):
    """Whenever it is killed: the key that comes first afterwards may be another one, and then is the only one."""
    keys = [Identity.create() for _ in range(2)]
    serve = ["referee.cli", "serve", "--state", str(tmp_path), "--port", "0"]
    party = PartyProcess("referee", serve, tmp_path, TOKENS)
    try:
        address = party.wait_for("listens on").split()[-1]
        party.let_die(for_good=True)
        code = called("invite", "--state", str(tmp_path)).strip()
        with ThreadPoolExecutor(1) as pool, closing(RefereeClient(address, patience=0.0)) as client:
            first = pool.submit(client.enrol, enrolment(keys[0]), code)
            time.sleep(pause)
            party.process.kill()
            party.process.wait(120)
            answered = first.exception(120) is None
    finally:
        party.stop()
    with closing(Referee(tmp_path, NO_CURATOR)) as again:
        admitted = []
        for who in (keys[1], keys[0]):
            try:
                again.enrol(enrolment(who), code)
                admitted.append(who)
            except InvitationUsed:
                pass
        assert len(admitted) == 1
        assert not answered or admitted == [keys[0]]
        assert again.store.count_invitations() == (1, 1)
