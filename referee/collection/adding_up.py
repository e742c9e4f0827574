"""What the reports on a question add up to, live and in the audit: answers by slot, and the root; in one pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from common.core.arrays import AnyArray
from common.vocabulary.packing import answer_type, unpack_answers, unpack_each
from common.vocabulary.steps import Answers
from common.wire.transcript import merkle_root
from referee.collection.asked import Asked
from referee.state.values import StoredReport

GROUP = 1 << 14
"""Individual reports that are unpacked together."""


def add_up(asked: Asked, reports: Iterable[StoredReport]) -> tuple[Answers, str]:
    """Return the answers of all reports by slot, and the Merkle root over the reports (signature and body of each).

    Parameters
    ----------
    asked
        The question.
    reports
        Its reports, accepted, by ascending slot; gone through once.
    """
    people = len(asked.batch.members)
    answered = np.zeros(people, dtype=np.bool_)
    values: AnyArray = np.zeros(people, dtype=answer_type(asked.kind))
    leaves: list[bytes] = []
    for group in _groups(reports):
        if group[0].individual:
            slots = np.array([report.slot for report in group], dtype=np.int64)
            answered[slots], values[slots] = unpack_each([report.body for report in group], asked.kind)
        else:
            slots = asked.batch.slots_from(group[0].slot)
            answered[slots], values[slots] = unpack_answers(group[0].body, len(slots), asked.kind)
        leaves += [hashlib.sha256(b"".join((report.signature, report.body))).digest() for report in group]
    slots = np.flatnonzero(answered)
    return Answers(people, values[slots], slots.astype(np.int64)), merkle_root(leaves)


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
