"""The reports on a question, read again: the judge is the referee's own."""

from __future__ import annotations

from common.wire.identity import Signed
from common.wire.messages import Report
from referee.audit.place import Place
from referee.collection.asked import Asked
from referee.collection.judging import Refusal, judge, read_individual, read_packed
from referee.state.runfolder import unpack_reports
from referee.state.values import StoredReport


def read_reports(raw: bytes, asked: Asked, place: Place) -> list[StoredReport]:
    """Return the reports on a question by participant; each is signed, for exactly it, by whom it counts for.

    Raises
    ------
    AuditFailed, Forged, BadMessage
        If one is not acceptable, or somebody reports twice.
    """
    found: dict[str, StoredReport] = {}
    for header, body in unpack_reports(raw):
        signed = Signed.parse(header)
        try:
            claim = read_individual(signed, body) if signed.kind == Report.KIND else read_packed(signed, body)
            if claim.key in found:
                raise place.failed(f"{claim.key[:16]}... reports twice")
            found[claim.key] = judge(claim, asked)
        except Refusal as refusal:
            raise place.failed(_words(refusal, signed.key)) from None
    return [found[key] for key in sorted(found)]


def _words(refusal: Refusal, key: str) -> str:
    """Say what a refusal means to an auditor, who suspects the referee rather than the participant."""
    if refusal.reason == "another assignment":
        return f"{key[:16]}... was asked something else than the transcript says"
    if refusal.reason == "not asked":
        return f"of the agents that {key[:16]}... reports for, 0 were asked"
    return refusal.problem.detail
