"""The reports on a question, read again: their fields are rebuilt from the question, the judge is the referee's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from common.core.errors import AuditFailed, TandemError
from common.crypto.identity import covered
from common.net.messages import PackedReport, Report, signed_bytes
from referee.collection.judging import Asked, Refusal, judge, payload, read, verified
from referee.tables import StoredReport


class Place:
    """The part of a run that is being checked, in words.

    Args:
        words: Where it begins.
    """

    def __init__(self, words: str) -> None:
        self.words = words

    def failed(self, why: str) -> AuditFailed:
        """Return the failure to raise."""
        return AuditFailed(f"{self.words}: {why}")

    @contextmanager
    def named_in_failures(self) -> Iterator[None]:
        """Add the place to the message of every failure inside; an honest referee's run has none.

        Raises:
            AuditFailed: For every error that a run's content can cause.
        """
        try:
            yield
        except AuditFailed:
            raise
        except TandemError as error:
            raise self.failed(error.detail) from None
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise self.failed(f"not what an honest referee writes ({error!r})") from None


GROUP = 4096
"""Reports whose signatures are verified together."""


def checked(reports: Iterable[StoredReport], asked: Asked, place: Place) -> Iterator[StoredReport]:
    """Go through the reports on a question by slot; each is signed, for exactly it, by whom it counts for.

    Raises:
        AuditFailed, BadMessage: If one is not acceptable, somebody reports twice, or they are not in the order of their
            slots.
    """
    last, rest = -1, iter(reports)
    while group := list(islice(rest, GROUP)):
        for report in group:
            if not 0 <= report.slot < asked.batch.asked:
                raise place.failed(f"a report is for slot {report.slot}, {asked.batch.asked} agents were asked")
            key = asked.batch.owner(report.slot).key
            if report.slot != int(asked.batch.slots_from(report.slot)[0]):
                raise place.failed(f"{key[:16]}... reports for a slot that is not its first")
            if report.slot <= last:
                again = report.slot == last
                raise place.failed(f"{key[:16]}... reports twice" if again else "the reports are not in order")
            last = report.slot
        yield from _judged(group, asked, place)


def _judged(group: list[StoredReport], asked: Asked, place: Place) -> list[StoredReport]:
    keys = [asked.batch.owner(report.slot).key for report in group]
    kinds = [Report.KIND if report.individual else PackedReport.KIND for report in group]
    payloads = [payload(report, asked) for report in group]
    good = verified(
        [bytes.fromhex(key) for key in keys],
        [covered(kind, what) for kind, what in zip(kinds, payloads, strict=True)],
        [report.signature for report in group],
    )
    for report, key, kind, what, fine in zip(group, keys, kinds, payloads, good.tolist(), strict=True):
        if not fine:
            raise place.failed(
                f"{key[:16]}... did not sign this answer to this question: it was asked something else than the "
                f"transcript says, or its report was changed"
            )
        signed = signed_bytes(kind, what, key, report.signature.hex())
        try:
            accepted = judge(read(signed, what, None if report.individual else report.body), asked)
        except Refusal as refusal:
            raise place.failed(refusal.problem.detail) from None
        if accepted != report:
            raise place.failed(f"the report of {key[:16]}... is not stored as it was signed")
    return group
