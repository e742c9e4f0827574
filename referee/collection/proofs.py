"""Proofs that a report is in the transcript: for whoever has sent it, from what the referee has stored."""

from __future__ import annotations

import threading

from common.core.errors import NotFound, PatternViolation
from common.log.merkle import Tree
from common.log.receipts import Proof, ProofRequest, StoredCheckpoint, entries_tree
from common.log.transcript import SignedEntry
from referee.collection.aggregation import leaf
from referee.collection.judging import Refusal, asked_slots
from referee.collection.questions import OpenQuestions
from referee.store import RefereeStore

LEAVES = 1_000_000  # reports in the trees that stay in memory, at most, unless one question alone has more: 64 MB


class Proofs:
    """Makes proofs, one at a time; the questions that somebody asked about last stay in memory.

    A question's tree takes 64 bytes a report, and is made anew if it is not in memory: a participant that asks about
    one question after the other keeps one core busy, and no request waits for it but further ones for proofs.
    """

    def __init__(self, store: RefereeStore, questions: OpenQuestions) -> None:
        self._store = store
        self._questions = questions
        self._lock = threading.Lock()
        self._listed: dict[tuple[str, int], tuple[Tree, SignedEntry]] = {}
        """The reports on a question as a tree, 64 bytes each, and the entry that names its root."""
        self._reached: dict[str, tuple[StoredCheckpoint, Tree]] = {}
        """A run's transcript as far as its newest checkpoint goes."""

    def prove(self, request: ProofRequest) -> Proof:
        """Return the proof for the participant that asks, who has signed that.

        Raises:
            NotFound: If there is no such question, no report of this participant on it, or no checkpoint behind it yet.
            PatternViolation: If this participant was not asked, or the question is still open.
        """
        run, number, since = request.run, request.question, request.since
        taking = self._questions.known(run, number)
        if taking.open:
            raise PatternViolation(f"question {number} of run {run!r} still takes answers: ask again once it is closed")
        try:
            asked_slots(request.participant, taking.asked)
        except Refusal as refusal:
            raise refusal.problem from None
        stored = taking.number(taking.asked.batch.roster.position(request.participant))
        if not stored:
            raise NotFound(f"no report of this participant on question {number} of run {run!r} is stored")
        report = self._store.report(stored)
        with self._lock:
            tree, entry = self._list(run, number)
            kept, entries = self._reach(run, entry)
        index = tree.find(leaf(report))
        if index is None:
            raise NotFound(f"this report is not under the root of question {number} of run {run!r}")
        return Proof(
            entry=entry.wire(),
            index=index,
            reports=len(tree),
            body=report.body.hex() if report.individual else "",
            path=tree.path(index),
            kept=kept,
            entry_path=entries.path(entry.index),
            consistency=None if since is None or since > len(entries) else entries.consistency(since),
        )

    def _list(self, run: str, number: int) -> tuple[Tree, SignedEntry]:
        known = self._listed.pop((run, number), None)
        if known is None:
            question = self._store.question(run, number)
            entries = self._entries(run)
            entry = next((e for e in entries if e.kind == "answers" and e.body.get("question") == number), None)
            if entries and entry is None and entries[-1].kind == "result":
                raise NotFound(
                    f"run {run!r} ended {self._store.run(run).status!r} before the answers to question {number} were "
                    "counted: they are in no transcript"
                )
            if question is None or entry is None:
                raise _not_yet(run, number)
            coming = self._store.count_reports(question)
            while self._listed and coming + sum(len(tree) for tree, _ in self._listed.values()) > LEAVES:
                del self._listed[next(iter(self._listed))]
            known = Tree(leaf(report) for report in self._store.reports(question)), entry
        self._listed[run, number] = known  # the last one that somebody asked about is the last one to be forgotten
        return known

    def _reach(self, run: str, entry: SignedEntry) -> tuple[StoredCheckpoint, Tree]:
        kept = self._store.last_checkpoint(run)
        if kept is None or kept.verified().entries <= entry.index:
            raise _not_yet(run, int(entry.body["question"]))
        known = self._reached.get(run)
        if known is None or known[0] != kept:
            known = kept, entries_tree(self._entries(run)[: kept.verified().entries])
            self._reached = {run: known}
        return known

    def _entries(self, run: str) -> list[SignedEntry]:
        return [SignedEntry.model_validate_json(line) for line in self._store.entries(run)]


def _not_yet(run: str, number: int) -> NotFound:
    return NotFound(f"the answers to question {number} of run {run!r} are behind no checkpoint yet: ask again later")
