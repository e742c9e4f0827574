"""A referee's checkpoints and proofs: witnesses before agents, an end that is told later, proofs of what is closed."""

from __future__ import annotations

from contextlib import closing

import pytest

from common.core.errors import NotFound, PatternViolation, PeerUnavailable, RolledBack
from common.crypto.identity import Identity, Signed
from common.net.witness_client import WitnessClient
from referee.audit.audit import audit
from referee.runs.checkpoints import Checkpoints
from referee.service.witness import witness_app
from tests.support import Bench, leave_folder, served, tiny

SECRET = "witness-token"
ONE_QUESTION = (
    "protocol=learn-and-test",
    "agents.count=600",
    "agents.batch=600",
    "curator.rounds=1",
    "agents.deadline=5",
)


class Elsewhere:
    """A witness that has seen another history of every run."""

    place = "elsewhere"

    def key(self) -> str:
        return "0" * 64

    def keep(self, signed: Signed) -> Signed:
        raise RolledBack("the witness has seen 99 entries")


def test_a_run_of_which_a_witness_has_seen_more_is_refused_and_asks_nobody(tmp_path):
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION), watching=[Elsewhere()]) as bench:
        result = bench.run()
        assert (result["status"], result["reason"]) == ("refused", "the witness has seen 99 entries")
        assert result["agents"]["asked"] == 0
        assert bench.referee.checkpoints.owed("run")
        bench.referee.catch_up()
        assert not bench.referee.checkpoints.owed("run")  # it is told once, not every ten seconds


def test_a_run_waits_for_its_witness_before_anybody_is_asked_and_ends_without_it(tmp_path):
    """The witness goes away behind the first checkpoint: the run ends, and has it told once it is back."""
    folder, chosen = tmp_path / "witness", tiny(*ONE_QUESTION)
    with (
        served(witness_app(folder, SECRET)) as address,
        closing(WitnessClient(address, SECRET, patience=0.1)) as witness,
        Bench(tmp_path / "bench", chosen, watching=[witness]) as bench,
    ):
        away = Away(witness)
        bench.referee.checkpoints = Checkpoints(bench.referee.store, bench.referee.identity, [away])
        bench.hooks = [lambda: None, away.come_back, away.leave]
        assert bench.run()["status"] == "done"
        assert bench.referee.notes("run")[0].text.startswith("the run waits for a witness: nobody")
        assert bench.referee.checkpoints.owed("run")
        assert audit(leave_folder(tmp_path / "behind", chosen, 1, bench.finished())).history.unseen
        away.come_back()
        bench.referee.catch_up()
        assert not bench.referee.checkpoints.owed("run")
        found = audit(leave_folder(tmp_path / "run", chosen, 1, bench.finished())).history
        assert found.unseen == ()
        assert list(found.witnesses) == [witness.key()]


class Away:
    """A witness that is away at first, and whenever it is told to leave."""

    place = "a witness"

    def __init__(self, witness: WitnessClient) -> None:
        self._witness, self._there = witness, False

    def come_back(self) -> None:
        self._there = True

    def leave(self) -> None:
        self._there = False

    def key(self) -> str:
        self._check()
        return self._witness.key()

    def keep(self, signed: Signed) -> Signed:
        self._check()
        return self._witness.keep(signed)

    def _check(self) -> None:
        if not self._there:
            raise PeerUnavailable("nobody answers there")


def test_proofs_are_for_those_who_were_asked_and_of_what_is_closed(tmp_path):
    chosen = tiny(*ONE_QUESTION)
    with Bench(tmp_path / "bench", chosen) as bench:
        host = bench.population.identity
        asked = []

        def while_open() -> None:
            with pytest.raises(PatternViolation, match="still takes answers"):
                bench.referee.proof(request(host, 1))
            asked.append(True)

        bench.meanwhile(while_open)
        bench.run()
        assert asked
        assert bench.referee.proof(request(host, 1)).reports == 1
        with pytest.raises(NotFound, match="no question 7"):
            bench.referee.proof(request(host, 7))
        with pytest.raises(PatternViolation, match="was not asked"):
            bench.referee.proof(request(Identity.create(), 1))


def request(who: Identity, question: int) -> Signed:
    return who.sign("proof-request", {"participant": who.public, "run": "run", "question": question})


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
            raise PeerUnavailable("the reply was lost")
        return word


def test_a_word_of_a_witness_whose_reply_was_lost_is_fetched_and_the_audit_finds_no_gap(tmp_path, monkeypatch):
    monkeypatch.setattr("referee.runs.checkpoints.BETWEEN", 0.0)
    monkeypatch.setattr("referee.runs.checkpoints.SHARE", 0.0)
    chosen = tiny(*ONE_QUESTION)
    with (
        served(witness_app(tmp_path / "witness", SECRET)) as address,
        closing(WitnessClient(address, SECRET)) as witness,
        Bench(tmp_path / "bench", chosen, watching=[witness]) as bench,
    ):
        bench.referee.checkpoints = Checkpoints(bench.referee.store, bench.referee.identity, [LosesReplies(witness)])
        assert bench.run()["status"] == "done"
        bench.referee.catch_up()
        kept = witness.kept(bench.referee.identity.public, "run")
        assert len(kept) > 2
        assert [each.witnessed for each in bench.referee.kept("run")] == [each.witnessed for each in kept]
        assert audit(leave_folder(tmp_path / "run", chosen, 1, bench.finished())).history.unseen == ()
