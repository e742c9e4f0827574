"""A run whose questions nobody accepts is refused before the curator is charged, and says who refuses what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from common.core import errors
from common.crypto.identity import Identity, Signed
from common.data.population import open_records
from common.local.queries.query import QUERIES
from common.log.transcript import SignedEntry
from common.net.client import WitnessClient
from common.net.messages import AgentPolicy
from common.numerics.randomness import subseed
from common.scenario.scenario import ResolvedScenario
from curator.curator import Curator
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.audit.audit import audit
from referee.collection.enrolment import check_accepted
from referee.protocols.base import PROTOCOLS, protocol_of
from referee.runs import curator as patience
from referee.runs.checkpoints import RunCheckpoints
from referee.service.referee import Referee
from referee.service.witness import witness_app
from referee.store import RefereeStore
from tests.referee.audit.test_beacon import drawn
from tests.referee.audit.test_order_nobody_chooses import carry
from tests.referee.protocols.test_protocol_contract import World, play
from tests.support import ONE_QUESTION, TOKEN, Bench, audited, served, small, tiny
from tests.tiers import for_each

ALL = frozenset(QUERIES.shipped())
PORTFOLIO = small("portfolio", "agents.mechanism.epsilon=3")


class Individuals(Bench):
    """A bench of whose agents some are individuals with rules of their own, beside those of the host.

    ``opened`` counts how often the curator was asked for its terms, which charge it.
    """

    def __init__(
        self,
        folder: Path,
        chosen: ResolvedScenario,
        individuals: int,
        queries: Callable[[int], frozenset[str]] = lambda i: ALL,
        epsilon: float | None = None,
    ) -> None:
        self.opened = 0
        super().__init__(folder, chosen, individuals=individuals)
        self.lifetime = chosen.agents.mechanism.guarantee[0] if epsilon is None else epsilon
        people = open_records(chosen.target, None, subseed(9, "target"), individuals)
        self.hosts: list[Host] = []
        for i in range(individuals):
            policy = PersonalPolicy(self.referee.identity.public, self.lifetime, queries=queries(i))
            agent = Agent(people.records(np.array([i])), policy, folder / f"person-{i}")
            self.hosts.append(Host(agent, self.referee, policy.referee))
            self.hosts[-1].enrol(TOKEN)
        real = self._gate.open_run

        def open_run(signed):
            self.opened += 1
            return real(signed)

        self._gate.open_run = open_run  # type: ignore[method-assign]

    def allow(self, queries: frozenset[str]) -> None:
        """Have the host's people accept these kinds alone: it says so by enrolling again."""
        self.population._policy = PersonalPolicy(self.referee.identity.public, self.lifetime, queries=queries)
        self.host.enrol(TOKEN)

    def wait(self, seconds: float) -> None:
        """Let everybody work, or else the seconds pass."""
        busy = False
        for host in [self.host, *self.hosts]:
            try:
                busy |= not host.finished and host.step()
            except errors.TandemError:
                busy = True
        if not busy:
            self.clock.wait(seconds)

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        super().close()


BESIDE = ("blender", "local-gradient-descent", "portfolio", "subsample-test-reweigh")
"""Protocols of different questions; test_individuals_alone_give_the_answer_that_a_host_gives has one of each."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in BESIDE else pytest.mark.thorough) for n in PROTOCOLS.shipped()]
)
def test_individuals_answer_what_every_shipped_protocol_asks(tmp_path, name):
    chosen = small(name)
    with Individuals(tmp_path, chosen, individuals=min(12, chosen.agents.count // 3)) as bench:
        result = bench.run()
        assert result["status"] in ("done", "exhausted"), result["reason"]
        assert result["lost"] == {"silent": 0, "declined": {}}
        assert result["agents"]["asked"] > 0
        assert audited(bench).status == result["status"]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS.names())
def test_a_run_asks_no_kind_that_its_protocol_does_not_name_beforehand(name):
    scenarios = [small(name)]
    if name == "portfolio":
        scenarios += [PORTFOLIO, small(name, "portfolio.teach=0")]
    for chosen in scenarios:
        asks = protocol_of(chosen).asks(chosen)
        assert asks <= protocol_of(chosen).pattern.kinds("agents")
        for rate in (0.1, 0.5):
            play(name, chosen, world := World(chosen, rate))
            assert {step.query.kind for step in world.questions()} <= asks


@pytest.mark.slow
def test_a_run_that_nobody_accepts_is_refused_before_the_curator_is_charged(tmp_path):
    with Individuals(tmp_path, PORTFOLIO, 4, lambda i: ALL - {"residual"}) as bench:
        bench.allow(frozenset({"loss"}))
        result = bench.run()
        assert result["status"] == "refused"
        assert "no enrolled agent accepts questions of kind 'moment'" not in result["reason"]
        assert "no enrolled agent accepts questions of kind 'residual'" in result["reason"]
        assert f"{PORTFOLIO.agents.count:,} refuse this kind" in result["reason"]
        assert (bench.opened, result["agents"]["asked"]) == (0, 0)
        assert audited(bench).status == "refused"
        bench.allow(ALL)  # the same people, who have changed their minds: nothing was spent of anybody
        result = bench.run("again")
        assert result["status"] in ("done", "exhausted")
        assert bench.opened == 1
        assert audited(bench, "again").status == result["status"]
    with closing(Referee(tmp_path / "referee", bench._gate)) as again:  # the last word of each outlives a restart
        stated = {policy.refuses: agents for policy, agents in again.registrar.policies()}
    assert stated == {("residual",): 4, (): PORTFOLIO.agents.count - 4}


@pytest.mark.slow
def test_some_who_refuse_are_counted_and_keep_nobody_from_the_others(tmp_path):
    with Individuals(tmp_path / "bench", PORTFOLIO, 30, lambda i: frozenset({"item"})) as bench:
        result = bench.run()
        notes = [note.text for note in bench.referee.notes("run")]
        assert audited(bench).status == result["status"]
    assert f"30 of {PORTFOLIO.agents.count:,} enrolled agents do not accept" in notes[0]
    assert result["status"] in ("done", "exhausted")
    declined = result["lost"]["declined"]
    assert 0 < declined["policy"] <= 30
    assert result["agents"]["answered"] == result["agents"]["asked"] - declined["policy"]


def test_who_refuses_what_is_judged_kind_by_kind():
    def said(*refuses: str, epsilon: float | None = 3.0, features: int = 8) -> AgentPolicy:
        return AgentPolicy(refuses=refuses, epsilon=epsilon, delta=0.0, features=features)

    assert check_accepted({"loss", "score"}, PORTFOLIO, [(said(), 5)], 5) is None
    # Each kind has somebody who accepts it, if not the same.
    apart = [(said("loss"), 3), (said("score"), 4)]
    assert check_accepted({"loss", "score"}, PORTFOLIO, apart, 7) == (
        "4 of 7 enrolled agents do not accept questions of kind 'score': 4 refuse this kind"
    )
    # Whoever said nothing accepts everything.
    assert check_accepted({"loss"}, PORTFOLIO, [(said("loss"), 3)], 4) is not None
    why = r"of kind 'loss', which this run asks: .*nothing of the curator's budget"
    alike = (said("loss"), said(epsilon=2.9), said(features=7))
    for nobody in (*([(policy, 3)] for policy in alike), [(said(epsilon=2), 1), (said("loss"), 2)]):
        with pytest.raises(errors.PolicyRefused, match=why):
            check_accepted({"loss"}, PORTFOLIO, nobody, 3)
    assert check_accepted({"loss"}, PORTFOLIO, [(said(epsilon=None), 3)], 3) is None
    with pytest.raises(errors.PolicyRefused) as refused:
        check_accepted({"loss", "score"}, PORTFOLIO, [(said("score"), 12)], 12)
    page = (Path(__file__).parents[3] / "docs" / "running.md").read_text("utf-8")
    assert f"    refused: {refused.value.detail}\n" in page
    assert check_accepted((), PORTFOLIO, [(said("loss"), 3)], 3) is None


class Faulty:
    """Stands before a curator; the first ``times`` messages ``at`` a method, which it counts, meet a fault."""

    def __init__(self, curator: Curator, times: int, at: str, fault: Callable[[Callable[[], Signed]], Signed]) -> None:
        self._curator, self.left, self._at, self._fault = curator, times, at, fault
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._curator, name)
        return (lambda signed: self._through(lambda: real(signed))) if name == self._at else real

    def _through(self, answer: Callable[[], Signed]) -> Signed:
        self.asked += 1
        self.left -= 1
        return self._fault(answer) if self.left >= 0 else answer()


def spoilt_there(answer: Callable[[], Signed]) -> Signed:
    raise errors.Forged("this is not signed by whom it names")


def spoilt_back(answer: Callable[[], Signed]) -> Signed:
    reply = answer()
    return reply.model_copy(update={"message": {**reply.message, "run": "other"}})


def refused(answer: Callable[[], Signed]) -> Signed:
    raise errors.PolicyRefused("this operation is beyond what was agreed")


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "DOUBT", 0.0)


@pytest.mark.usefixtures("no_pauses")
@for_each("at", ["open_run", "perform"])
@for_each("fault", [spoilt_there, spoilt_back])
def test_a_message_that_was_changed_on_its_way_ends_no_run(tmp_path, at, fault):
    with Bench(tmp_path, curator=lambda curator: Faulty(curator, 1, at, fault)) as bench:
        assert bench.run()["status"] == "exhausted"
        assert audited(bench).answers == 1200


@pytest.mark.usefixtures("no_pauses")
@for_each(("fault", "status", "times"), [(spoilt_back, "failed", 1 + patience.DOUBTS), (refused, "refused", 1)])
def test_a_curator_that_says_so_again_and_again_is_believed_and_its_own_rules_at_once(tmp_path, fault, status, times):
    with Bench(tmp_path, curator=lambda curator: Faulty(curator, 99, "perform", fault)) as bench:
        faulty: Any = bench._gate.curator
        result = bench.run()
    assert (result["status"], faulty.asked) == (status, times)
    assert ("signature" in result["reason"]) == (fault is spoilt_back)


@pytest.mark.usefixtures("no_pauses")
def test_a_curator_that_is_away_beyond_all_patience_ends_no_run(tmp_path, monkeypatch):
    def away(answer: Callable[[], Signed]) -> Signed:
        raise errors.PeerUnavailable("nobody answers")

    monkeypatch.setattr(patience, "PAUSE", 0.0)
    with Bench(tmp_path, curator=lambda curator: Faulty(curator, 50, "perform", away)) as bench:
        assert bench.run()["status"] == "exhausted"
        said = [note.text for note in bench.referee.notes("run")]
    assert said.count("the run waits for the curator: nobody answers") == 1


SECRET = "witness-token"
TESTED = tiny(*ONE_QUESTION, "protocol=learn-and-test", "agents.deadline=5")


@contextmanager
def watched(folder: Path, wrap: Callable[[WitnessClient], Any]) -> Iterator[tuple[Bench, WitnessClient, Any]]:
    """Give a bench whose referee tells a served witness through what ``wrap`` puts before it, the witness, and that."""
    with (
        served(witness_app(folder / "witness", SECRET)) as address,
        closing(WitnessClient(address, SECRET, patience=0.1)) as witness,
        Bench(folder / "bench", TESTED, watching=[witness]) as bench,
    ):
        before = wrap(witness)
        bench.referee.checkpoints = RunCheckpoints(bench.referee.store, bench.referee.identity, [before])
        yield bench, witness, before


def test_a_run_of_which_a_witness_has_seen_more_is_refused_and_asks_nobody(tmp_path):
    def keep(signed: Signed) -> Signed:
        raise errors.RolledBack("the witness has seen 99 entries")

    other = SimpleNamespace(place="elsewhere", key=lambda: "0" * 64, keep=keep)
    with Bench(tmp_path, TESTED, watching=[other]) as bench:
        result = bench.run()
        assert (result["status"], result["reason"]) == ("refused", "the witness has seen 99 entries")
        assert result["agents"]["asked"] == 0
        assert bench.referee.checkpoints.owed("run")
        bench.referee.catch_up()
        assert not bench.referee.checkpoints.owed("run")  # it is told once, not every ten seconds


def test_a_run_waits_for_its_witness_before_anybody_is_asked_and_ends_without_it(tmp_path):
    """The witness goes away behind the first checkpoint: the run ends, and has it told once it is back."""
    with watched(tmp_path, CheckpointsAway) as (bench, witness, away):
        bench.hooks = [lambda: None, away.come_back, away.leave]
        assert bench.run()["status"] == "done"
        assert bench.referee.notes("run")[0].text.startswith("the run waits for a witness: nobody")
        assert bench.referee.checkpoints.owed("run")
        assert audited(bench).history.unseen
        away.come_back()
        bench.referee.catch_up()
        assert not bench.referee.checkpoints.owed("run")
        found = audited(bench).history
        assert found.unseen == ()
        assert list(found.witnesses) == [witness.key()]


class CheckpointsAway:
    """A witness that is away at first, and whenever it is told to leave."""

    place = "a witness"

    def __init__(self, witness: WitnessClient) -> None:
        self._witness, self._there = witness, False

    def come_back(self) -> None:
        self._there = True

    def leave(self) -> None:
        self._there = False

    def __getattr__(self, name: str) -> Any:
        if not self._there:
            raise errors.PeerUnavailable("nobody answers there")
        return getattr(self._witness, name)


def test_proofs_are_for_those_who_were_asked_and_of_what_is_closed(tmp_path):
    def request(who: Identity, question: int) -> Signed:
        return who.sign("proof-request", {"participant": who.public, "run": "run", "question": question})

    with Bench(tmp_path, TESTED) as bench:
        host = bench.population.identity

        def while_open() -> None:
            with pytest.raises(errors.PatternViolation, match="still takes answers"):
                bench.referee.proof(request(host, 1))

        bench.during(while_open)
        assert bench.referee.proof(request(host, 1)).reports == 1
        with pytest.raises(errors.NotFound, match="no question 7"):
            bench.referee.proof(request(host, 7))
        with pytest.raises(errors.PatternViolation, match="was not asked"):
            bench.referee.proof(request(Identity.create(), 1))


class LosesReplies:
    """A witness that keeps every checkpoint, and whose reply to the second one is lost."""

    place = "a witness"

    def __init__(self, witness: WitnessClient) -> None:
        self._witness, self._asked = witness, 0
        self.key, self.kept = witness.key, witness.kept

    def keep(self, signed: Signed) -> Signed:
        word = self._witness.keep(signed)
        self._asked += 1
        if self._asked == 2:
            raise errors.PeerUnavailable("the reply was lost")
        return word


def test_a_word_of_a_witness_whose_reply_was_lost_is_fetched_and_the_audit_finds_no_gap(tmp_path, monkeypatch):
    monkeypatch.setattr("referee.runs.checkpoints.BETWEEN", 0.0)
    monkeypatch.setattr("referee.runs.checkpoints.SHARE", 0.0)
    with watched(tmp_path, LosesReplies) as (bench, witness, _):
        assert bench.run()["status"] == "done"
        bench.referee.catch_up()
        kept = witness.kept(bench.referee.identity.public, "run")
        assert len(kept) > 2
        assert [each.witnessed for each in bench.referee.kept("run")] == [each.witnessed for each in kept]
        assert audited(bench).history.unseen == ()


def test_a_run_that_a_fault_cuts_off_behind_its_beacon_goes_on_with_the_terms_that_it_has(tmp_path, monkeypatch):
    real, failed = RefereeStore.add_entry, list[str]()

    def failing(store: RefereeStore, run: str, entry: SignedEntry, *further: Any) -> None:
        real(store, run, entry, *further)
        if entry.kind == "beacon" and not failed:
            failed.append(run)
            raise OperationalError("insert", {}, Exception("disk I/O error"))

    monkeypatch.setattr(RefereeStore, "add_entry", failing)
    with drawn(tmp_path, count=1) as bench:
        with pytest.raises(OperationalError):
            carry(bench)
        assert audit(carry(bench)).status == "exhausted"
