"""The page that a referee serves: in a process of its own, which shows the referee's runs and never outlives it."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from typer.testing import CliRunner

from common.core import errors
from common.core.database import STANDSTILL
from common.crypto.identity import Identity, Signed, verify
from common.log.entries import START
from common.log.ledger import LEDGER
from common.log.receipts import Checkpoint, StoredCheckpoint, Witnessed, signed_checkpoint
from common.log.transcript import SignedEntry, append
from common.log.witness import FileWitness
from common.net import messages, monitoring
from curator.app import curator_app
from deploy.load.client import LightAgent
from deploy.processes import PartyProcess, free_port
from referee.audit.audit import audit
from referee.cli import app
from referee.collection import roster
from referee.collection.enrolment import Registrar
from referee.service import agents_edge
from referee.service.app import checks
from referee.service.referee import Referee, RefereeSettings
from referee.service.runner import Runner
from referee.service.witness import WitnessLog, witness_app
from referee.store import FAR, RefereeStore, backup
from referee.tables import LEASING, RUNS
from tests import postgres, support
from tests.clocks import Clock
from tests.curator.given import full_disk
from tests.referee.service.test_operating import enrol
from tests.referee.service.test_referee import ONE_QUESTION, until
from tests.support import TOKEN, Bench, asking, seal

TOKENS = {"TANDEM_ENROLMENT_TOKEN": "choose-one", "TANDEM_OPERATOR_TOKEN": "choose-another"}


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_the_page_shows_the_referee_and_ends_with_it(tmp_path, end):
    serve = ["referee.cli", "serve", "--state", str(tmp_path / "referee"), "--port", "0", "--page", str(free_port())]
    party = PartyProcess("referee", serve, tmp_path, TOKENS)
    try:
        link = re.search(r"http://\S+", party.wait_for("/?key="))[0]
        party.let_die(for_good=True)
        with httpx.Client(trust_env=False, timeout=60, follow_redirects=True) as browser:

            def gone() -> bool:
                try:
                    browser.get(link)
                except httpx.TransportError:
                    return True
                return False

            page = browser.get(link).text
            assert "has no runs yet" in page
            assert TOKENS["TANDEM_OPERATOR_TOKEN"] not in page
            assert httpx.get(link.partition("?")[0], trust_env=False, timeout=60).status_code == 403
            party.process.send_signal(end)
            party.process.wait(120)
            until(gone)
    finally:
        party.stop()


def test_agents_are_answered_or_refused_by_the_edge(tmp_path):
    somebody, stranger = Identity.create(), Identity.create()
    enrolment = seal(somebody, messages.Enrolment(agents=1)).model_dump_json()
    poll = seal(stranger, messages.Poll(participant=stranger.public)).model_dump_json()
    with Bench(tmp_path) as bench, asking(bench.app()) as client:
        told = client.post("/v1/enrolments", content=enrolment)
        assert (told.status_code, told.json()["message"]["participant"]) == (200, somebody.public)
        unknown = client.post("/v1/enrolments", content=enrolment, headers={"Authorization": "Bearer x"})
        refused = client.post("/v1/polls", content=poll)
        misplaced = client.put("/v1/reports/" + "0" * 32, content=poll)
        assert [each.status_code for each in (unknown, refused, misplaced)] == [401, 404, 422]
        assert refused.json()["type"].rpartition(":")[2] == errors.NotFound.problem
        assert misplaced.headers["content-type"] == "application/problem+json"


def test_of_very_many_only_hosts_are_held_and_pauses_share_what_a_referee_takes(tmp_path, monkeypatch):
    assert roster.usual_pause(100_000) == pytest.approx(150.0)
    assert roster.usual_pause(10**9) == 0.75 * roster.LONGEST
    monkeypatch.setattr(roster, "HELD", 3)
    monkeypatch.setattr(agents_edge, "HOLD", 0.05)
    with Bench(tmp_path) as bench, asking(bench.app()) as client:

        def pause(who: Identity) -> float:
            told = client.post("/v1/polls", content=seal(who, messages.Poll(participant=who.public)).raw())
            assert told.status_code == 204
            return float(told.headers["retry-after"])

        first, host = enrol(bench), enrol(bench, 2)
        assert pause(first) == pause(host) == 0.0  # three participants, with the bench's own host
        individuals = [first, *(enrol(bench) for _ in range(3))]
        monkeypatch.setattr(roster, "POLLS", 0.1)
        assert pause(host) == 0.0
        assert all(30.0 <= pause(who) <= 60.0 for who in individuals)


INDIVIDUAL = "for-individuals-only"


@pytest.mark.usefixtures("each_store")
def test_a_token_admits_whom_it_is_for(bench):
    bench.referee.registrar.allow("individual", INDIVIDUAL)
    for agents, token, admitted in (
        *((1, INDIVIDUAL, True), (1, TOKEN, True), (2, TOKEN, True)),
        *((2, INDIVIDUAL, False), (1, "", False), (2, "", False)),
    ):
        with (
            nullcontext()
            if admitted
            else pytest.raises(errors.Unauthorized, match="enrolment token" if token else None)
        ):
            enrol(bench, agents, token)
    with pytest.raises(errors.Unauthorized):
        bench.referee.registrar.authorize("operator", INDIVIDUAL)
    other = Registrar(bench.referee.store, bench.referee.identity)  # of another process on the same database
    other.admits(INDIVIDUAL)
    bench.referee.registrar.allow("individual", None)
    other.refresh()
    with pytest.raises(errors.Unauthorized):
        other.admits(INDIVIDUAL)
    with pytest.raises(errors.Unauthorized):
        enrol(bench, 1, INDIVIDUAL)
    enrol(bench, 1, TOKEN)
    assert bench.referee.registrar.roster.agents == bench.chosen.agents.count + 5


def test_lists_are_asked_from_places_that_they_do_not_have(tmp_path):
    said = Checkpoint(run="run", configuration="0" * 64, entries=1, hash="0" * 64, root="0" * 64, time=1)
    with Bench(tmp_path / "bench") as bench:
        bench.run()
        app, referee = bench.app(), Identity.create()
        with asking(witness_app(tmp_path, TOKEN)) as witness, asking(app) as run:
            place = f"/v1/runs/{referee.public}/run"
            assert witness.put(place, content=seal(referee, said).raw()).status_code == 200
            for number in (0, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64):
                paths = [f"/v1/runs/run{path}?after={number}" for path in ("", "/checkpoints", "/transcript")]
                paths.append(f"/v1/runs/run/transcript?after=1&most={number}")
                answers = [*(run.get(path) for path in paths), witness.get(f"{place}?after={number}")]
                assert all(answer.status_code in (200, 422) for answer in answers), number
            entries = bench.referee.store.entries("run")
            for after, most in ((0, 2), (1, 1), (2, 99), (99, 1), (1, 0)):
                shown = run.get(f"/v1/runs/run/transcript?after={after}&most={most}").text
                assert shown.splitlines() == entries[after : after + most], (after, most)


@pytest.fixture
def _looks_each_time(monkeypatch):
    monkeypatch.setattr(monitoring, "FRESH", 0.0)


def lacks(client: httpx.Client) -> str | None:
    reply = client.get("/v1/ready")
    assert client.get("/v1/health").status_code == 200
    return None if reply.status_code == 200 else str(reply.json()["not_ready"])


@pytest.mark.usefixtures("_looks_each_time")
def test_a_referee_without_room_or_database_is_alive_and_not_ready_and_to_ask_commits_nothing(tmp_path):
    with Bench(tmp_path) as bench, asking(bench.app(), "") as client:
        store, before = bench.referee.store, bench.referee.store.commits()

        def only_reads(on: str) -> None:
            with store._engine.begin() as connection:
                connection.exec_driver_sql(f"PRAGMA query_only={on}")

        assert (lacks(client), store.commits()) == (None, before)
        with full_disk():
            assert lacks(client) == "disk"
        assert lacks(client) is None
        only_reads("ON")
        assert lacks(client) == "database"
        assert str(tmp_path) not in client.get("/v1/ready").text
        only_reads("OFF")
        assert lacks(client) is None


@pytest.mark.usefixtures("_looks_each_time")
def test_a_process_that_would_drive_wants_somebody_to(tmp_path, monkeypatch):
    with Bench(tmp_path) as bench:
        bench.referee.lease = 0.01
        runner = Runner(bench.referee)
        driver = checks(bench.referee, runner)["driver"]
        monkeypatch.setattr(bench.referee, "drive", lambda: False)  # whoever holds it is not heard of
        assert driver() is None  # it takes requests alone
        runner.start()
        try:
            until(lambda: driver() == "no process has held the lease for 0.03 seconds")
            assert bench.referee.store.take_lease("another", 60.0)
            bench.referee.store.fence = None
            assert driver() is None
        finally:
            runner.stop()


@pytest.mark.usefixtures("_looks_each_time")
def test_a_curator_whose_ledger_or_witness_is_gone_is_not_ready(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    witness = FileWitness(other / "heads")
    with Bench(tmp_path / "state", witnesses=[witness]) as bench, asking(curator_app(bench.curator), "") as client:
        before = bench.curator._journal.chain.head()
        assert lacks(client) is None
        assert bench.curator._journal.chain.head() == before  # to ask writes nothing
        with full_disk():
            assert lacks(client) == "disk"
        shutil.rmtree(other)
        assert lacks(client) == "witnesses"
        ledger = tmp_path / "state" / "curator" / LEDGER
        ledger.rename(ledger.with_suffix(".away"))
        assert lacks(client) == "ledger, witnesses"
        assert "1 of 1 cannot be written" in client.get("/v1/ready").json()["detail"]


# A PostgreSQL server that crashes -----------------------------------------------------------------------------------


@pytest.fixture
def server(postgresql):
    """A server of this test alone: the other tests' one is not for crashing."""
    own = postgres.start()
    yield own
    own.close()


def test_while_the_server_is_away_everybody_is_told_to_come_again_and_nothing_is_lost(tmp_path, server, monkeypatch):
    url = server.database()
    monkeypatch.setattr(support, "database_of", lambda folder: url)
    agents = [LightAgent.fresh() for _ in range(30)]
    enrolment = seal(Identity.create(), messages.Enrolment(agents=1)).raw()
    with Bench(tmp_path / "state", ONE_QUESTION, individuals=30) as bench:
        for agent in agents:
            bench.referee.enrol(Signed.model_validate_json(agent.enrolment()), TOKEN)

        def attack() -> None:
            with asking(bench.app()) as client:

                def poll(agent: LightAgent) -> httpx.Response:
                    return client.post("/v1/polls", content=agent.poll())

                def report(place: int) -> httpx.Response:
                    return client.put(f"/v1/reports/{agents[place].report_id}", content=bodies[place])

                bodies = [agent.answer(poll(agent).content) for agent in agents]
                ways: list[Callable[[], httpx.Response]] = [
                    lambda: report(20),
                    lambda: client.post("/v1/enrolments", content=enrolment),
                    lambda: client.get("/v1/runs/run"),
                    lambda: poll(LightAgent.fresh()),
                ]
                assert all(report(place).status_code == 200 for place in range(20))
                server.stop(signal.SIGQUIT)
                for ask in ways:
                    refused = ask()
                    assert (refused.status_code, refused.headers.get("retry-after")) == (503, "2"), refused.text
                assert poll(agents[20]).status_code == 200  # that is known without it
                server.start()
                assert all(report(place).status_code == 200 for place in range(30))
                assert ways[1]().json()["message"]["first"] == 100

        bench.meanwhile(attack)
        result = bench.run()
        assert result["agents"] == {"enrolled": 100, "asked": 100, "answered": 100, "rejected": 0}
        assert audit(bench.leave()).reports == 31


NO_CURATOR: Any = None


def test_a_clock_that_jumps_keeps_nobody_waiting_and_lets_one_drive(tmp_path, monkeypatch):
    clock = Clock(1_000_000.0)
    monkeypatch.setattr("time.time", clock)
    url = f"sqlite:///{tmp_path}/shared.sqlite"
    with closing(RefereeStore(url)) as first, closing(RefereeStore(url)) as second:
        assert first.take_lease("first", 10.0)
        clock.now -= 10.0 * (FAR - 2)  # one that is a little behind is waited for
        assert not second.take_lease("second", 10.0)
        clock.now -= 86_400.0
        assert first.take_lease("first", 10.0)  # a driver whose own clock was put back drives on
        assert first.fence == 1
        assert second.take_lease("second", 10.0)
        assert (second.fence, second.lease_left()) == (2, 10.0)
        first.renew_lease(10.0)  # it learns that it was replaced
        assert first.fence is None
        clock.now += 86_400.0
        assert first.take_lease("first", 10.0)
        second.renew_lease(10.0)
        assert (first.fence, second.fence) == (3, None)


@pytest.mark.slow
def test_a_driver_that_stands_still_in_a_transaction_holds_nobody_up_for_long(postgresql):
    """Its server ends the transaction after a quarter of a minute, and nothing of it is written."""
    url, settled = postgresql.database(), text("SHOW idle_in_transaction_session_timeout")
    with closing(RefereeStore(url)) as first, closing(RefereeStore(url)) as second:
        first.create_run("run", "request", {}, 1)
        assert first.take_lease("first", 0.1)
        with first._alone(LEASING) as connection:
            assert connection.execute(settled).scalar() == STANDSTILL
        time.sleep(0.2)

        def stand_still() -> None:
            with first._driving() as connection:
                connection.execute(delete(RUNS))
                assert second.take_lease("second", 60.0)  # this thread waits here, so the transaction stands still

        with pytest.raises(SQLAlchemyError):
            stand_still()
        assert [run.run for run in first.unfinished()] == ["run"]
        first.renew_lease(60.0)
        assert (first.fence, second.fence) == (None, 2)


def test_the_newest_entry_is_read_where_another_process_may_have_written_it(tmp_path, monkeypatch):
    clock, key = Clock(1_000_000.0), Identity.create()
    monkeypatch.setattr("time.time", clock)
    entries = [append(None, "first", {}, key)]
    entries += [append(entries[0], "second", {"a": [1.0]}, key)]
    entries += [append(entries[1], "third", {}, key)]
    url = f"sqlite:///{tmp_path}/shared.sqlite"
    with closing(RefereeStore(url)) as first, closing(RefereeStore(url)) as second:
        first.create_run("run", "request", {}, 1)
        assert first.take_lease("first", 10.0)
        first.add_entry("run", entries[0])
        assert first.last_entry("run") == second.last_entry("run") == entries[0]
        clock.now += 20.0
        assert second.take_lease("second", 10.0)
        second.add_entry("run", entries[1])
        with pytest.raises(errors.Superseded):
            first.add_entry("run", entries[1])
        assert first.last_entry("run") == second.last_entry("run") == entries[1]
        clock.now += 20.0
        assert first.take_lease("first", 10.0)  # what it wrote under its older token is not the newest
        assert first.last_entry("run") == entries[1]
        with pytest.raises(IntegrityError):
            first.add_entry("run", entries[1])
        first.add_entry("run", entries[2])
        with pytest.raises(IntegrityError):
            first.add_entry("run", entries[2])  # not committed: what was remembered is not taken for certain
        second.renew_lease(10.0)  # it learns that it was replaced: what it writes before that is refused
        assert [store.last_entry("run") for store in (first, second)] == [entries[2]] * 2


def test_a_referee_starts_from_a_copy_that_was_made_while_it_served(tmp_path):
    """The copy is of one moment: of what is in the write-ahead log, and of nothing that is under way or comes later."""
    state, copy = tmp_path / "referee", tmp_path / "copy"
    with closing(Referee(state, NO_CURATOR)) as live, closing(sqlite3.connect(state / "referee.sqlite")) as other:
        live.registrar.allow("enrolment", TOKEN)
        before = live.identity.public
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM tokens")  # under way, not committed
        backup(state, copy)
        other.rollback()
        live.registrar.allow("operator", "a-later-operator")
    assert not any(path.stat().st_mode & 0o077 for path in (copy, copy / "identity.key"))
    with closing(Referee(copy, NO_CURATOR)) as again:
        assert again.identity.public == before
        again.registrar.authorize("enrolment", TOKEN)
        assert {purpose for purpose, _ in again.store.tokens()} == {"enrolment"}


def test_a_key_elsewhere_comes_along_and_what_is_no_referee_is_refused(tmp_path):
    key, state = tmp_path / "keys" / "referee.key", tmp_path / "referee"
    with closing(Referee(state, NO_CURATOR, settings=RefereeSettings(key=key))) as live:
        public = live.identity.public
    with pytest.raises(errors.BadInput, match="--key"):
        backup(state, tmp_path / "copy")
    outcome = CliRunner().invoke(app, ["backup", str(tmp_path / "copy"), "--state", str(state), "--key", str(key)])
    assert (outcome.exit_code, "state directory to start from" in outcome.output) == (0, True)
    with closing(Referee(tmp_path / "copy", NO_CURATOR)) as again:
        assert again.identity.public == public
    with pytest.raises(errors.BadInput, match="is not empty"):
        backup(state, tmp_path / "copy", key)
    with pytest.raises(errors.BadInput, match="pg_dump"):
        backup(tmp_path / "keys", tmp_path / "other")


def test_a_damaged_database_is_not_copied(tmp_path):
    state, copy = tmp_path / "referee", tmp_path / "copy"
    Referee(state, NO_CURATOR).close()
    (state / "referee.sqlite").write_bytes(b"no database" * 1000)
    outcome = CliRunner().invoke(app, ["backup", str(copy), "--state", str(state)])
    assert (outcome.exit_code, outcome.output.count("\n"), copy.exists()) == (1, 1, False)
    assert "it was damaged: put the newest copy back" in outcome.output


REFEREE = Identity.create()
DIGEST = "d" * 64


def transcript(*kinds: str) -> list[SignedEntry]:
    entries: list[SignedEntry] = []
    for kind in kinds:
        entries.append(append(entries[-1] if entries else None, kind, {}, REFEREE))
    return entries


ENTRIES = transcript("configuration", "question", "answers", "result")


def checkpoint(entries, now=10, run="run", signer=REFEREE, configuration=DIGEST):
    return signed_checkpoint(signer, run, configuration, entries, now)


@pytest.fixture
def log(tmp_path):
    times = iter([100.0, 200.5, 150.0, 300.0, 400.0])
    return WitnessLog(tmp_path, Identity.create(), lambda: next(times))


def kept_in(log) -> list[StoredCheckpoint]:
    return log.kept(REFEREE.public, "run")


def word(signed) -> Witnessed:
    return Witnessed.parse(verify(signed, Witnessed.KIND))


def test_words_are_one_chain_with_times_that_never_go_back(log):
    said = [word(log.keep(checkpoint(ENTRIES[:n]))) for n in (1, 2, 4)]
    assert [w.position for w in said] == [0, 1, 2]
    assert [w.previous for w in said] == [START, said[0].fingerprint(), said[1].fingerprint()]
    assert [w.time for w in said] == [100, 200, 200]
    kept = kept_in(log)
    assert [each.verified().entries for each in kept] == [1, 2, 4]
    assert [next(iter(each.seen().values())) for each in kept] == said
    assert [StoredCheckpoint.model_validate_json(line) for line in log.lines(REFEREE.public, "run", 1, 1)] == kept[1:2]
    assert log.kept(REFEREE.public, "other") == []


def test_the_same_entries_again_get_the_same_word_whenever_they_were_signed_and_nothing_goes_back(log):
    first = log.keep(checkpoint(ENTRIES[:2]))
    assert log.keep(checkpoint(ENTRIES[:2])) == log.keep(checkpoint(ENTRIES[:2], now=99)) == first
    for other in (
        checkpoint(ENTRIES[:1]),
        checkpoint(transcript("configuration", "operation")),
        checkpoint(ENTRIES[:3], configuration="e" * 64),
    ):
        with pytest.raises(errors.RolledBack, match="has seen 2 entries"):
            log.keep(other)
    assert len(kept_in(log)) == 1


def test_only_the_referee_of_a_run_speaks_of_it(log):
    log.keep(checkpoint(ENTRIES, signer=Identity.create()))
    assert kept_in(log) == []
    for key, run in (("../../etc", "run"), (REFEREE.public, "../run")):
        with pytest.raises(errors.BadMessage):
            log.kept(key, run)


def test_a_line_that_was_cut_off_was_never_acknowledged_and_is_replaced_and_an_edited_one_is_refused(log, tmp_path):
    log.keep(checkpoint(ENTRIES[:1]))
    path = tmp_path / REFEREE.public / "run.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"checkpoint": {"kind": "ch')
    assert len(kept_in(log)) == 1
    log.keep(checkpoint(ENTRIES[:2]))
    assert path.read_bytes().startswith(whole)
    assert [each.verified().entries for each in kept_in(log)] == [1, 2]
    path.write_bytes(b"{}\n")
    with pytest.raises(errors.BrokenLedger, match="edited"):
        log.keep(checkpoint(ENTRIES[:3]))


def test_a_folder_that_is_gone_takes_nothing(tmp_path):
    own = Identity.create()
    WitnessLog(tmp_path / "to be made", own).check_writable()
    with pytest.raises(PermissionError):
        WitnessLog(tmp_path / "gone" / "too", own).check_writable()


def test_a_word_for_another_checkpoint_is_none_for_this(log):
    other = log.keep(checkpoint(ENTRIES[:1]))
    with pytest.raises(errors.Forged, match="another checkpoint"):
        StoredCheckpoint(checkpoint=checkpoint(ENTRIES[:2]), witnessed=(other,)).seen()
