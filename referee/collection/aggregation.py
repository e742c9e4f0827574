"""The reports on a question combined, live and in the audit: answers by slot and the Merkle root, and their memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import PolicyRefused
from common.core.machine import check_memory
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.packing import Mask, answer_type, mask_bytes, paste_mask, unpack_answered, unpack_answers, unpack_each
from common.local.queries.query import Answers, MassAnswers
from common.log.merkle import RunningRoot
from common.net.messages import MAX_LISTED
from referee.collection.batches import MassBatch
from referee.collection.judging import Asked
from referee.tables import StoredReport

GROUP = 1 << 14  # individual reports that are unpacked together


def add_up(asked: Asked, reports: Iterable[StoredReport]) -> tuple[Answers, str]:
    """Return the answers of all reports by slot, and the Merkle root over the reports (signature and body of each).

    Reports are accepted ones, by ascending slot; they are gone through once.
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


def _add_up_mass(asked: Asked, batch: MassBatch, reports: Iterable[StoredReport]) -> tuple[Answers, str]:
    """Do the same for very many, whose slots follow each other: what was said is put one behind the other."""
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
    """Return what stands for a report under the root of its question: the digest of its signature and body."""
    return hashlib.sha256(b"".join((report.signature, report.body))).digest()


def _groups(reports: Iterable[StoredReport]) -> Iterator[list[StoredReport]]:
    """Group individual reports that follow each other; a host's is alone."""
    for individual, found in groupby(reports, key=lambda report: report.individual):
        group: list[StoredReport] = []
        for report in found:
            group.append(report)
            if not individual or len(group) == GROUP:
                yield group
                group = []
        if group:
            yield group


def needed(enrolled: int, asked: int, mechanism: LocalRandomizer) -> int:
    """Return how many bytes of memory a question takes at most, of a mechanism whose questions ask everybody the same.

    Who is asked, as a mask, whole and cut into the hosts' (a quarter of a byte for everybody who is enrolled); what was
    answered (:func:`common.local.packing.answer_type` for each), once packed, once unpacked, once as the protocol gets
    it; and who answered (an eighth of a byte).
    """
    try:
        width = answer_type(mechanism.answer_kind(None)).itemsize
    except PolicyRefused:  # it randomizes items: no question asks everybody the same
        return 0
    return enrolled // 4 + asked * (3 * width) + asked // 4


def check_room(enrolled: int, asked: int, mechanism: LocalRandomizer) -> None:
    """Refuse a question that would not fit into memory, with what it takes and what there is; what is listed fits."""
    if asked > MAX_LISTED:
        remedy = "ask fewer (agents.count), or give the referee more memory"
        check_memory(f"a question to {asked:,} agents", needed(enrolled, asked, mechanism), remedy)
