"""Aggregate reports, live and in the audit: answers by slot, their Merkle root, inclusion proofs, memory needed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import NotFound, PatternViolation, PolicyRefused
from common.core.machine import check_memory
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.packing import Mask, answer_type, mask_bytes, paste_mask, unpack_answered, unpack_answers, unpack_each
from common.local.queries.query import Answers, MassAnswers
from common.log.merkle import RunningRoot, Tree
from common.log.receipts import Proof, ProofRequest, StoredCheckpoint, entries_tree
from common.log.transcript import SignedEntry
from common.net.messages import MAX_LISTED
from referee.collection.judging import PendingQuestion, asked_slots
from referee.collection.order import MassBatch
from referee.collection.questions import OpenQuestions
from referee.store import RefereeStore
from referee.tables import StoredReport

GROUP = 1 << 14  # individual reports that are unpacked together


def add_up(asked: PendingQuestion, reports: Iterable[StoredReport]) -> tuple[Answers, str]:
    """Return the answers of all reports by slot, and the Merkle root over the reports (signature and body of each).

    ``reports`` are accepted reports by ascending slot; they are iterated over once.
    """
    if isinstance(asked.batch, MassBatch):
        return _add_up_mass(asked, asked.batch, reports)
    people = asked.batch.asked
    answered = np.zeros(people, dtype=np.bool_)
    values: AnyArray = np.zeros(people, dtype=answer_type(asked.kind))
    running = RunningRoot()
    for group in _groups(reports):
        if group[0].individual:
            slots = np.array([report.slot for report in group], dtype=np.int64)
            answered[slots], values[slots] = unpack_each([report.body for report in group], asked.kind)
        else:
            slots = asked.batch.slots_from(group[0].slot)
            answered[slots], values[slots] = unpack_answers(group[0].body, len(slots), asked.kind)
        for report in group:
            running.add(leaf(report))
    slots = np.flatnonzero(answered)
    return Answers(people, values[slots], slots.astype(np.int64)), running.root


def _add_up_mass(asked: PendingQuestion, batch: MassBatch, reports: Iterable[StoredReport]) -> tuple[Answers, str]:
    """Do the same for a :class:`MassBatch`, whose owners' slots are ranges: the answers given are concatenated."""
    values: AnyArray = np.empty(batch.asked, dtype=answer_type(asked.kind))
    mask: Mask = np.zeros(mask_bytes(batch.asked), dtype=np.uint8)
    running = RunningRoot()
    count = 0
    for group in _groups(reports):
        if group[0].individual:
            _, unpacked = unpack_each([report.body for report in group], asked.kind)
            slots = np.array([report.slot for report in group], dtype=np.int64)
            np.bitwise_or.at(mask, slots >> 3, (128 >> (slots & 7)).astype(np.uint8))
            pieces: Iterable[AnyArray] = (unpacked,)
        else:
            own = batch.slots_from(group[0].slot)
            answered, pieces = unpack_answered(group[0].body, len(own), asked.kind)
            paste_mask(mask, own.start, answered)
        for piece in pieces:
            values[count : count + len(piece)] = piece
            count += len(piece)
        for report in group:
            running.add(leaf(report))
    return MassAnswers(batch.asked, values[:count], mask), running.root


def leaf(report: StoredReport) -> bytes:
    """Return a report's leaf in the Merkle tree of its question: the digest of its signature and body."""
    return hashlib.sha256(b"".join((report.signature, report.body))).digest()


def _groups(reports: Iterable[StoredReport]) -> Iterator[list[StoredReport]]:
    """Yield groups of successive individual reports, at most ``GROUP`` each; a host's report is a group of its own."""
    for individual, members in groupby(reports, key=lambda report: report.individual):
        group: list[StoredReport] = []
        for report in members:
            group.append(report)
            if not individual or len(group) == GROUP:
                yield group
                group = []
        if group:
            yield group


def needed(enrolled: int, asked: int, mechanism: LocalRandomizer) -> int:
    """Return how many bytes of memory a question needs at most, for mechanisms that ask every agent the same question.

    The sum of: the mask of the agents asked, once whole and once cut into the hosts' masks (a quarter of a byte per
    enrolled agent); the answers (:func:`common.local.packing.answer_type` for each), once packed, once unpacked, and
    once as the protocol receives them; and the mask of the agents that answered (at most a quarter of a byte each).
    """
    try:
        width = answer_type(mechanism.answer_kind(None)).itemsize
    except PolicyRefused:  # it randomizes items: no question asks everybody the same
        return 0
    return enrolled // 4 + asked * (3 * width) + asked // 4


def check_room(enrolled: int, asked: int, mechanism: LocalRandomizer) -> None:
    """Refuse a question that does not fit into memory, with the need and what is free; a listed batch always fits."""
    if asked > MAX_LISTED:
        remedy = "ask fewer (agents.count), or give the referee more memory"
        check_memory(f"a question to {asked:,} agents", needed(enrolled, asked, mechanism), remedy)


LEAVES = 1_000_000  # reports in the trees that stay in memory, at most, unless one question alone has more: 64 MB


class Proofs:
    """Makes inclusion proofs, one at a time; the questions requested most recently stay in memory."""

    def __init__(self, store: RefereeStore, questions: OpenQuestions) -> None:
        self._store = store
        self._questions = questions
        self._lock = threading.Lock()
        self._listed: dict[tuple[str, int], tuple[Tree, SignedEntry]] = {}
        """The reports on a question as a tree, 64 bytes each, and the entry that names its root."""
        self._reached: dict[str, tuple[StoredCheckpoint, Tree]] = {}
        """By run: its newest checkpoint, and the tree of the transcript's entries up to it."""

    def prove(self, request: ProofRequest) -> Proof:
        """Return the inclusion proof for the participant that signed the request.

        NotFound if there is no such question, no report of this participant on it, or no checkpoint that covers it yet.
        PatternViolation if this participant was not asked, or the question is still open.
        """
        run, number, since = request.run, request.question, request.since
        open_question = self._questions.known(run, number, request.participant)
        if open_question.open:
            raise PatternViolation(f"question {number} of run {run!r} still takes answers: ask again once it is closed")
        asked_slots(request.participant, open_question.asked)
        report_number = open_question.number_of(request.participant)
        if not report_number:
            raise NotFound(f"no report of this participant on question {number} of run {run!r} is stored")
        report = self._store.report(report_number)
        with self._lock:
            tree, entry = self._list(run, number)
            checkpoint, entries = self._reach(run, entry)
        index = tree.find(leaf(report))
        if index is None:
            raise NotFound(f"this report is not under the root of question {number} of run {run!r}")
        return Proof(
            entry=entry.wire(),
            index=index,
            reports=len(tree),
            body=report.body.hex() if report.individual else "",
            path=tree.path(index),
            kept=checkpoint,
            entry_path=entries.path(entry.index),
            consistency=None if since is None or since > len(entries) else entries.consistency(since),
        )

    def _list(self, run: str, number: int) -> tuple[Tree, SignedEntry]:
        cached = self._listed.pop((run, number), None)
        if cached is None:
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
            count = self._store.count_reports(question)
            while self._listed and count + sum(len(tree) for tree, _ in self._listed.values()) > LEAVES:
                del self._listed[next(iter(self._listed))]
            cached = Tree(leaf(report) for report in self._store.reports(question)), entry
        self._listed[run, number] = cached  # last in the dict: the least recently requested is evicted first
        return cached

    def _reach(self, run: str, entry: SignedEntry) -> tuple[StoredCheckpoint, Tree]:
        checkpoint = self._store.last_checkpoint(run)
        if checkpoint is None or checkpoint.verified().entries <= entry.index:
            raise _not_yet(run, int(entry.body["question"]))
        cached = self._reached.get(run)
        if cached is None or cached[0] != checkpoint:
            cached = checkpoint, entries_tree(self._entries(run)[: checkpoint.verified().entries])
            self._reached = {run: cached}
        return cached

    def _entries(self, run: str) -> list[SignedEntry]:
        return [SignedEntry.model_validate_json(line) for line in self._store.entries(run)]


def _not_yet(run: str, number: int) -> NotFound:
    return NotFound(f"the answers to question {number} of run {run!r} are behind no checkpoint yet: ask again later")
