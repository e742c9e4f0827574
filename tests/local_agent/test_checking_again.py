"""An agent that checks again: the referee must show the history that it has shown before, and its continuation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import BadData, NotFound, PatternViolation
from common.crypto.identity import Identity, Signed
from common.log.merkle import Tree
from common.log.receipts import Proof, ProofRequest, StoredCheckpoint, entries_tree, receipt_for, signed_checkpoint
from common.log.transcript import Entry, append
from local_agent.person.checking import INCLUDED, LEFT_OUT, OPEN, OTHER, Finding, check
from local_agent.person.receipts import HeldReceipt, SeenCheckpoint, leaf_of, seen_checkpoint, store_seen

DIGEST = "ab" * 32
REFEREE, PERSON = Identity.create(), Identity.create()


def held() -> HeldReceipt:
    said = {"report_id": "0" * 32, "run": "run", "digest": DIGEST, "question": 1, "assignment": DIGEST, "answer": 1.0}
    report = PERSON.sign("report", said)
    receipt = Signed.model_validate_json(receipt_for(REFEREE, report, 7))
    return HeldReceipt(Path("receipt.json"), receipt, report, "")


HELD = held()
LEAF = leaf_of(HELD.report, b"\x80\x80")


def history(*kinds: str) -> list[Entry]:
    """Return a transcript: the person's answer is under the entry of the first answers."""
    entries: list[Entry] = []
    for number, kind in enumerate(("configuration", "terms", "question", "answers", *kinds)):
        body: dict[str, Any] = {"number": number, "says": kind}
        if kind == "answers":
            body = {"question": 1, "root": Tree([LEAF]).root}
        entries.append(append(entries[-1] if entries else None, kind, body, REFEREE))
    return entries


@dataclass
class Referee:
    """A referee that shows a transcript as far as its newest checkpoint goes; ``path`` replaces its proof's path."""

    entries: list[Entry]
    problem: Exception | None = None
    path: tuple[str, ...] | None = None

    def proof(self, signed: Signed) -> Proof:
        if self.problem is not None:
            raise self.problem
        since, tree = ProofRequest.parse(signed.message).since, entries_tree(self.entries)
        path = tree.consistency(since) if since is not None and since <= len(tree) else None
        return Proof(
            entry=self.entries[3].wire(),
            index=0,
            reports=1,
            body="8080",
            path=(),
            kept=StoredCheckpoint(checkpoint=signed_checkpoint(REFEREE, "run", DIGEST, self.entries, 9)),
            entry_path=tree.path(3),
            consistency=path if self.path is None else self.path,
        )


def asked(referee: Referee, before: SeenCheckpoint | None = None) -> Finding:
    return check(HELD, PERSON, referee, REFEREE.public, before=before)


@pytest.fixture
def before() -> SeenCheckpoint:
    """What the agent was shown the first time."""
    found = asked(Referee(history("operation", "question")))
    assert found.status == INCLUDED
    assert found.shown is not None
    return found.shown


def test_a_history_that_goes_on_is_included_again_and_the_newest_is_kept(before):
    longer = history("operation", "question", "answers", "result")
    found = asked(Referee(longer), before)
    assert found.status == INCLUDED
    assert found.shown is not None
    assert found.shown.kept.said().entries == 8
    again = asked(Referee(longer), found.shown)
    assert (again.status, again.shown) == (INCLUDED, found.shown)


FORKS = {
    "another end of the same length": history("operation", "result"),
    "another end that is longer": history("operation", "result", "result"),
    "another history from the answers on": history("result", "question", "answers", "result"),
}


@pytest.mark.parametrize("name", sorted(FORKS))
def test_a_referee_that_shows_another_history_the_second_time_is_found(before, name):
    """Both hold the agent's report, under a valid path: only the first checkpoint tells them apart."""
    fork = FORKS[name]
    assert asked(Referee(fork)).status == INCLUDED
    found = asked(Referee(fork), before)
    assert found.status == OTHER
    assert "do not begin with those" in found.why


def test_no_path_passes_for_a_beginning_that_is_none(before):
    """It may send any path: that of its own history, of the true one, one that is too long, or none."""
    fork, true = FORKS["another end that is longer"], history("operation", "question", "answers")
    own, honest = entries_tree(fork), entries_tree(true)
    paths = [(), own.consistency(6), honest.consistency(6), (*own.consistency(6), "00" * 32), ("nothing",), own.path(5)]
    for path in paths:
        assert asked(Referee(fork, path=path), before).status == OTHER
    assert asked(Referee(true, path=honest.consistency(6)), before).status == INCLUDED


def test_a_referee_that_was_put_back_is_found(before):
    found = asked(Referee(history("operation")), before)
    assert found.status == OTHER
    assert "only 5 now" in found.why


@pytest.mark.parametrize(
    "problem",
    [
        PatternViolation("question 1 of run 'run' still takes answers: ask again once it is closed"),
        NotFound("the answers to question 1 are behind no checkpoint yet: ask again later"),
        NotFound("run 'run' has no question 1"),
    ],
    ids=["open again", "no checkpoint any more", "gone"],
)
def test_what_was_proven_once_is_proven_again(before, problem):
    found = asked(Referee([], problem), before)
    assert found.status == OTHER
    assert "has proven this report before" in found.why
    first = asked(Referee([], problem))
    assert first.status in (OPEN, LEFT_OUT)


def test_what_was_shown_stays_in_the_state_directory(tmp_path, before):
    assert seen_checkpoint(tmp_path, "run") is None
    path = store_seen(tmp_path, "run", before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert seen_checkpoint(tmp_path, "run") == before
    other = store_seen(tmp_path, "run", SeenCheckpoint(before.kept, frozenset({3})), other=True)
    assert seen_checkpoint(tmp_path, "run") == before
    assert other != path
    path.write_text("{}")
    with pytest.raises(BadData, match="is no checkpoint"):
        seen_checkpoint(tmp_path, "run")
