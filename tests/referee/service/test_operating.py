"""Runs as an operator sees them: listed, cancelled while they wait and while they run, and in nobody's way."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from common.core.errors import AuditFailed, BadPlugin, NotFound, NotVouched, Refused, Unauthorized
from common.core.registry import Registry
from common.crypto.identity import Identity
from common.log.transcript import SignedEntry
from common.net import messages
from curator.startup import open_curator
from deploy.remote import Remote, operating
from issuer.issuer import Keys
from referee.audit.audit import audit
from referee.audit.replay import Agents, ReplayPosition
from referee.cli import app
from referee.collection.enrolment import UNVOUCHED, USUAL, Caps
from referee.collection.order import passed_over
from referee.collection.roster import Roster
from referee.runs.execution import Execution
from referee.service.app import referee_app
from referee.service.runner import Runner, learn_words
from referee.tables import Cohort, Part, Participant, StoredQuestion
from referee.view import show
from tests.referee.service.test_referee import ended, until
from tests.support import TOKEN, Bench, Curators, Halted, audited, leave_folder, seal, served, tiny
from tests.tiers import for_each


@contextmanager
def running(bench: Bench) -> Iterator[str]:
    runner = Runner(bench.referee)
    with served(referee_app(bench.referee, runner)) as address:
        runner.start()
        try:
            yield address
        finally:
            runner.stop()


def nobody_answers(bench: Bench) -> threading.Event:
    """Let runs wait until they are cancelled; returns what is set once the first question waits."""
    asked = threading.Event()

    def quiet(seconds: float) -> None:
        asked.set()
        threading.Event().wait(0.02)

    bench.referee._wait = quiet
    return asked


def enrol(bench: Bench, agents: int = 1, token: str = TOKEN) -> Identity:
    who = Identity.create()
    bench.referee.enrol(seal(who, messages.Enrolment(agents=agents)), token)
    return who


def test_a_run_that_waits_for_agents_blocks_no_other(tmp_path):
    with Bench(tmp_path) as bench:
        bench.referee.create("greedy", tiny("agents.count=100000").wire(), 1)
        bench.referee.create("modest", bench.chosen.wire(), 1)
        with running(bench) as address, operating(address, TOKEN) as operator:
            assert ended(bench, "modest")["status"] == "exhausted"
            first, second = operator.runs()
            assert (first["run"], first["status"]) == ("greedy", "waiting")
            assert first["waits_for"].startswith("agents: 100,000 wanted, ")
            assert (second["run"], second["waits_for"]) == ("modest", "")
            assert "100,000 wanted" in operator.state("greedy", 0)["progress"][0]["text"]
            assert operator.cancel("greedy")["status"] == "cancelled"
            assert "no agent was asked" in ended(bench, "greedy")["reason"]


def test_a_running_run_is_cancelled_and_what_was_released_stays(tmp_path):
    with Bench(tmp_path / "state") as bench:
        asked = nobody_answers(bench)
        bench.referee.create("run", bench.chosen.wire(), 1)
        with running(bench) as address, operating(address, TOKEN) as operator:
            assert asked.wait(600)
            (line,) = operator.runs()
            waits_for, _, since = line["waits_for"].partition("; nothing new since ")
            assert (line["status"], waits_for) == ("running", "agents: 0 of 400 on question 1")
            then = datetime.strptime(since, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
            assert abs((datetime.now(UTC) - then).total_seconds()) < 600.0
            result = operator.cancel("run")
            assert operator.cancel("run") == result
        assert (result["status"], result["answer"]) == ("cancelled", None)
        for words in ("after 1 operations of the curator, which stay released", "counts as spent"):
            assert words in result["reason"]
        assert result["privacy"]["curator"] == bench.curator.guarantee.wire()
        kinds = [json.loads(line)["kind"] for line in bench.referee.store.entries("run")]
        assert kinds == ["configuration", "terms", "operation", "question", "result"]
        assert audit(bench.leave()).status == "cancelled"


def test_a_cancelled_run_stays_so_after_a_crash_and_one_that_has_ended_is_not_cancelled(tmp_path):
    with Bench(tmp_path / "one") as bench:
        bench.open()
        bench.referee.cancel("run")
    with Bench(tmp_path / "one") as bench:
        assert bench.run()["status"] == "cancelled"
    with Bench(tmp_path / "two") as bench:
        ended = bench.run()
        bench.referee.cancel("run")
        assert bench.run() == ended
        with pytest.raises(NotFound):
            bench.referee.cancel("another")


def test_a_run_whose_last_answer_is_in_is_not_cancelled_any_more(tmp_path, monkeypatch):
    """Whoever could cancel it then, as a crash came before the result, could do so by what the answers are."""

    def crash(*_):
        raise Halted

    with Bench(tmp_path / "state") as bench:
        with monkeypatch.context() as crashing:
            crashing.setattr(Execution, "_end", crash)
            with pytest.raises(Halted):
                bench.run()
        bench.referee.cancel("run")
        assert bench.run()["status"] == "exhausted"
        assert audited(bench).status == "exhausted"


def test_a_run_that_is_cancelled_while_it_waits_is_not_said_to_be_verifiable(tmp_path, capsys):
    greedy, folder = tiny("agents.count=100000"), tmp_path / "run"
    with Bench(tmp_path / "state") as bench:
        bench.referee.create("greedy", greedy.wire(), 1)
        with running(bench) as address, operating(address, TOKEN) as operator:
            assert operator.cancel("greedy")["status"] == "cancelled"
        leave_folder(folder, greedy, 1, bench.finished("greedy"))
    show.result(greedy, json.loads((folder / "result.json").read_text()))
    printed = capsys.readouterr().out
    assert f"run folder: {folder}" in printed
    assert "Verify it" not in printed
    with pytest.raises(AuditFailed, match="a run that ended while it waited to begin has nothing to verify"):
        audit(folder)


def test_all_of_this_is_the_operators(tmp_path):
    with Bench(tmp_path) as bench:
        bench.run()
        with running(bench) as address:
            for method, path in (
                *(("GET", "/v1/runs"), ("GET", "/v1/runs/run"), ("GET", "/v1/runs/run/transcript")),
                *(("PUT", "/v1/runs/run/cancellation"), ("GET", "/v1/metrics")),
            ):
                assert httpx.request(method, address + path, trust_env=False, timeout=60).status_code == 401
            with operating(address, "another") as stranger, pytest.raises(Unauthorized):
                stranger.runs()
            with closing(Remote(address, TOKEN)) as remote:
                assert remote.follow("run", lambda text, numbers: None).result["status"] == "exhausted"


@pytest.mark.slow
def test_the_commands(tmp_path):
    def call(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--url", address], env={"TANDEM_OPERATOR_TOKEN": TOKEN})
        assert done.exit_code == 0, done.output
        return done.stdout

    with Bench(tmp_path) as bench, running(bench) as address:
        ended(bench, "mine", bench.chosen.wire())
        listed = [line.split() for line in call("runs").splitlines()]
        assert listed[0] == ["run", "scenario", "status", "waits", "for,", "or", "has", "shown"]
        assert (listed[1][0], listed[1][2]) == ("mine", "ended")
        shown = json.loads(call("runs", "--json"))[0]
        assert (shown["run"], shown["status"]) == ("mine", "exhausted")
        log = call("logs", "mine", "--follow")
        for words in ("6000 agents of 1 participants are enrolled", "agents answered", "exhausted"):
            assert words in log
        assert "exhausted" in call("cancel", "mine")
        wrong = CliRunner().invoke(app, ["logs", "../x", "--url", address, "--token", TOKEN])
        assert (wrong.exit_code, wrong.stderr[:22]) == (1, "Message not acceptable")


def test_caps_are_held_and_printed(tmp_path):
    with Bench(tmp_path) as bench:
        bench.referee.registrar.caps = Caps(individuals=3, hosts=2, people=7000)
        for agents, why in (
            *((7001, r"at most 7,000 people.*found 7,001"), (2, ""), (2, "at most 2 hosts")),
            *((1, ""), (1, ""), (1, ""), (1, "at most 3 individuals.*one token admits them all.*--issuer")),
        ):
            with pytest.raises(Refused, match=why) if why else nullcontext():
                enrol(bench, agents)
        bench.host.enrol(TOKEN)  # who is enrolled already stays so
        caps = {"max_individuals": 3, "max_hosts": 2, "max_people_per_host": 7000}
        assert bench.run()["enrolment"] == {"individuals": 3, "hosts": 2, **caps}
    with Bench(tmp_path / "vouched") as bench:  # the same one who has the token and makes keys
        bench.referee.registrar.issuers = (Keys(tmp_path / "issuer").public,)
        with pytest.raises(NotVouched, match="an issuer must vouch"):
            enrol(bench)
        assert bench.referee.registrar.enrolled()["individuals"] == 0
    told = " ".join(CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "300"}).stdout.split())
    assert f"default: {UNVOUCHED:,}, which one token can admit; {USUAL.individuals:,} with --issuer" in told


SLOW = ("agents.count=1200", "agents.batch=600", "agents.deadline=100000")
QUICK = ("agents.count=1200", "agents.batch=400")


@pytest.fixture
def curators(tmp_path: Path) -> Iterator[Curators]:
    made = Curators(tmp_path / "curators", lambda folder: open_curator(tiny(), folder, 1, None))
    yield made
    made.close()


@contextmanager
def beside(folder: Path, curators: Curators) -> Iterator[tuple[Bench, Runner, Callable[[], None]]]:
    """A referee with 2,400 hosted people who answer, and 1,200 who keep silent until they are told to decline."""
    with Bench(folder, tiny("agents.count=2400"), curator=lambda own: curators) as bench:
        quiet, working = enrol(bench, 1200), threading.Lock()

        def wait(seconds: float) -> None:
            with working:
                if not bench.host.step():
                    bench.clock.wait(1.0)
                    threading.Event().wait(0.002)

        def speak() -> None:
            asked = bench.referee.poll(seal(quiet, messages.Poll(participant=quiet.public)))
            if asked is not None:
                found = messages.Assignment.parse(asked.message)
                said = {"run": found.run, "digest": found.digest, "question": found.question, "reason": "policy"}
                bench.referee.decline(seal(quiet, messages.Decline.parse({**said, "assignment": found.fingerprint()})))

        bench.referee._wait = wait
        yield bench, Runner(bench.referee), speak


def positions(bench: Bench, run: str) -> set[int]:
    """Return the places in the committed order that a run has asked."""
    parts = [part for question in bench.referee.store.questions(run) for part in question.parts]
    return {place for part in parts for place in range(part.start, part.stop)}


@pytest.mark.slow
def test_a_run_that_waits_for_answers_blocks_no_other(tmp_path, curators):
    """Some of those whom the first run asks keep silent until a deadline far away; the second run ends meanwhile."""
    with beside(tmp_path / "state", curators) as (bench, runner, speak):
        store, chosen = bench.referee.store, {"slow": tiny(*SLOW), "quick": tiny(*QUICK)}
        for seed, run in enumerate(chosen, start=1):
            bench.referee.create(run, chosen[run].wire(), seed)
        runner.start()
        ended(bench, "quick")
        assert (store.run("slow").status, len(store.questions("slow"))) == ("running", 1)
        assert bench.referee.waits_for(bench.referee.store.runs()[0]).startswith("agents: ")
        until(lambda: speak() or store.run("slow").result is not None)
        runner.stop()
        slow, quick = positions(bench, "slow"), positions(bench, "quick")
        assert slow | quick == set(range(len(slow) + len(quick)))  # nobody twice, and nobody is left out
        entries = [SignedEntry.model_validate_json(line) for line in store.entries("slow")]
        between = [entry.body.get("others") for entry in entries if entry.kind == "question"]
        assert between[0] is None
        assert {(run, number) for run, number, *_ in between[1]} == {
            ("quick", question.question) for question in store.questions("quick")
        }
        others = [
            audit(leave_folder(tmp_path / run, chosen[run], seed, bench.finished(run))).others
            for seed, run in enumerate(chosen, start=1)
        ]
    assert others == [{"quick": len(quick)}, {}]


@pytest.mark.slow
def test_a_run_begins_only_beside_others_that_leave_it_enough(tmp_path, curators):
    """Of 3,600 people the first run may ask 2,400: the second, which wants 1,400, waits for its end, and says so."""
    with beside(tmp_path / "state", curators) as (bench, runner, _):
        store = bench.referee.store
        bench.referee.create("slow", tiny("agents.count=2400", *SLOW[1:]).wire(), 1)
        bench.referee.create("next", tiny("agents.count=1400", "agents.batch=400").wire(), 2)
        runner.start()
        until(lambda: len(store.questions("slow")) == 1)
        waits_for = bench.referee.waits_for(bench.referee.store.runs()[1])
        assert waits_for == "agents that runs under way may ask: slow (1,800 agents)"
        bench.referee.cancel("slow")
        ended(bench, "next")
        runner.stop()
        assert store.run("next").configuration is not None
        assert positions(bench, "next").isdisjoint(positions(bench, "slow"))


def test_runs_of_a_lease_that_was_lost_end_before_another_lease_is_taken(tmp_path, curators, monkeypatch):
    with beside(tmp_path / "state", curators) as (bench, runner, _):
        store = bench.referee.store
        held, released = threading.Event(), threading.Event()

        def stuck(seconds: float) -> None:
            held.set()
            released.wait(60)

        bench.referee._wait = stuck
        bench.referee.create("slow", tiny(*SLOW).wire(), 1)
        runner.start()
        assert held.wait(60)
        store.fence = None  # as the process learns it
        tried = []
        monkeypatch.setattr(bench.referee, "drive", lambda: tried.append(1))
        runner._wanted.set()
        (thread,) = runner._under_way.values()
        runner._thread.join(0.05)
        assert not tried
        released.set()
        thread.join(60)
        until(lambda: tried)
        runner.stop()
        assert store.run("slow").status == "running"  # nothing was written about its end


@pytest.mark.slow
def test_a_run_cut_off_by_a_crash_goes_on_with_the_agents_that_it_had(tmp_path, curators):
    """Both runs are under way when the process dies; the one after it ends both, and asks nobody twice."""
    runs = {"slow": tiny(*SLOW), "quick": tiny(*QUICK)}
    with beside(tmp_path / "state", curators) as (bench, runner, _):
        store = bench.referee.store
        for seed, (run, chosen) in enumerate(runs.items(), start=1):
            bench.referee.create(run, chosen.wire(), seed)
        runner.start()
        until(lambda: store.questions("slow") and store.questions("quick"))
        runner.stop()
        before = {run: positions(bench, run) for run in runs}
    with beside(tmp_path / "state", curators) as (bench, runner, _):
        slow = bench.referee._wait
        bench.referee._wait = lambda seconds: slow(seconds) or bench.clock.wait(1000.0)  # the deadlines pass
        runner.start()
        for run in runs:
            ended(bench, run)
        runner.stop()
        after = {run: positions(bench, run) for run in runs}
        assert all(before[run] <= after[run] for run in runs)
        assert after["slow"].isdisjoint(after["quick"])
        for seed, (run, chosen) in enumerate(runs.items(), start=1):
            audit(leave_folder(tmp_path / run, chosen, seed, bench.finished(run)))


def order_of(agents: int, used: int) -> Any:
    """Return the agents of an audit: one order of so many, of whom so many were asked before."""
    found = Agents.__new__(Agents)
    found._place, found._run, found.others = ReplayPosition("here"), "mine", {}
    found._cohorts = {0: Cohort(0, agents, "seed", used)}
    found.roster = Roster([Participant("0" * 64, 0, agents)])
    found._places, found._people = found.roster.people()
    found._asked_again, found._taken = set(), {}
    return found


@for_each(
    "others",
    [
        [],  # a gap that nobody accounts for
        *([("other", Part(0, 10, end))] for end in (14, 16, 101)),  # too small, too large, more than there are
        [("other", Part(0, 11, 15))],  # begins too late
        [("mine", Part(0, 10, 15))],  # its own
        [("other", Part(0, 10, 10)), ("other", Part(0, 10, 15))],  # nobody
        # Names that no run can have, for a terminal.
        *([(name, Part(0, 10, 15))] for name in ("\x1b]0;paid\x07", "[bold]other[/bold]", "other\n")),
    ],
)
def test_an_audit_refuses_agents_that_were_passed_over_otherwise_than_it_was_signed(others):
    agents = order_of(100, 10)
    with pytest.raises(AuditFailed):  # noqa: PT012 - at whichever of both
        agents.pass_over(others)
        agents.take(1, (Part(0, 15, 20),), 5)


def test_agents_that_another_run_asks_again_are_listed_once(tmp_path):
    fresh, again = ((Part(0, 10, 14),), (Part(0, 14, 20),)), ((Part(0, 10, 14),), 1)
    asked = [StoredQuestion("other", n, {}, parts, 4, True) for n, parts in enumerate(fresh)]
    asked.append(StoredQuestion("other", 3, {}, again[0], 4, True, again=again[1]))
    found = passed_over("run", {0: 10}, asked)
    assert found == [["other", 0, 0, 10, 14], ["other", 1, 0, 14, 20]]


def test_an_audit_accepts_agents_that_other_runs_are_said_to_have_asked():
    agents = order_of(100, 10)
    agents.pass_over([("other", Part(0, 10, 12)), ("another", Part(0, 12, 15))])
    assert len(agents.take(1, (Part(0, 15, 20),), 5).members) == 5
    assert agents.others == {"other": 2, "another": 3}
    with pytest.raises(AuditFailed, match="were to be asked"):
        agents.take(2, (), 5)  # there are 80 left
    agents.pass_over([("other", Part(0, 20, 100))])
    assert len(agents.take(2, (), 5).members) == 0


def test_broken_plug_ins_are_logged_when_words_are_loaded(monkeypatch, caplog):
    monkeypatch.setattr(Registry, "names", lambda self: (_ for _ in ()).throw(BadPlugin("broken: fix it")))
    learn_words()
    assert "broken: fix it" in caplog.text
