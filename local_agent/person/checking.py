"""Whether what an agent has sent is in the transcript of its run: by the referee's proof, and a witness's word.

The leaf of the proof is compared with the bytes that this agent has sent. A referee that shows no proof yet is believed
for a limited time, which this device's clock counts, and no longer than a witness has not seen the question closed.
What is shown must go on from what was shown before, and from what a witness has seen.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Protocol

from common.core.errors import BadMessage, Forged, NotFound, PatternViolation
from common.crypto.identity import Identity, Signed
from common.local.packing import MAX_SYMBOLS, AnswerKind, pack_one
from common.log.merkle import root_from_inclusion_proof, verify_consistency
from common.log.receipts import Checkpoint, Proof, ProofRequest, StoredCheckpoint, check_receipt
from common.log.transcript import SignedEntry, check_entry
from common.log.witness import Witness
from common.net.messages import Report
from local_agent.person.receipts import HeldReceipt, SeenCheckpoint, leaf_of

INCLUDED, OPEN, UNSEEN, LEFT_OUT, OTHER = "included", "not shown yet", "not witnessed", "left out", "another history"
WITHIN = 86_400.0  # seconds after which a referee must have shown a report that it has acknowledged
SECONDS = 10.0  # what asking about one report may take beyond the patience with a referee that is away
_KINDS: tuple[AnswerKind, ...] = ("bit", "real", 256, MAX_SYMBOLS)  # one kind of answer for each way to write one down


class ProvingPort(Protocol):
    """The referee, as far as it proves: it answers a signed :class:`~common.log.receipts.ProofRequest`."""

    def proof(self, signed: Signed) -> Proof: ...


@dataclass(frozen=True)
class ReportCheck:
    """What became of one report.

    Attributes:
        status: ``included``; ``not shown yet``, where the referee shows no proof, nothing contradicts it and its time
            is not over; ``not witnessed``, where it is included in what the referee shows, the witness has not seen
            that yet, and the time is not over; ``left out``, where the referee has signed a receipt and what it shows
            does not hold the report as it was sent, is another history than the witness has seen, or was not shown in
            time; ``another history``, where it does not go on from what the referee has shown before.
        why: In words.
        witnesses: Keys of the witnesses that know the transcript in which it is.
        shown: What the referee has shown, to be kept for the next time; None where it has proven nothing.
    """

    held: HeldReceipt
    status: str
    why: str
    witnesses: tuple[str, ...] = ()
    shown: SeenCheckpoint | None = None

    def document(self) -> dict[str, Any]:
        return {
            "run": self.held.run,
            "question": self.held.question,
            "status": self.status,
            "why": self.why,
            "witnesses": list(self.witnesses),
            "receipt": str(self.held.path),
        }


class Remembered:
    """A witness that is asked once about each run."""

    def __init__(self, witness: Witness) -> None:
        self.key = cache(witness.key)
        self.kept = cache(witness.kept)


def in_words(finding: ReportCheck, within: float) -> str:
    """Return a finding in one line."""
    held = finding.held
    words = f"question {held.question} of run {held.run}: {finding.status} ({finding.why})"
    if finding.witnesses:
        words += f"; witnessed by {', '.join(key[:16] + '...' for key in finding.witnesses)}"
    if finding.status in (OPEN, UNSEEN):
        until = datetime.fromtimestamp(held.sent + within, UTC).isoformat(" ", "seconds")
        words += f"; ask again: from {until} on this counts as left out"
    if finding.status == LEFT_OUT:
        words += f"; the receipt that shows it: {held.path}"
    return words


_EXIT = {LEFT_OUT: 1, OTHER: 1, OPEN: 3, UNSEEN: 4, INCLUDED: 0}  # the worst first; docs/security.md says the promises


def summary(found: Sequence[ReportCheck]) -> str:
    """Return in one line what is wrong, or not shown yet, and what to do."""
    counts = Counter(finding.status for finding in found)
    named = ", ".join(f"{counts[status]} {status}" for status in _EXIT if counts[status] and status != INCLUDED)
    if exit_status(found) == 1:
        todo = "hand receipts and checkpoints to an auditor of the run (referee audit --receipt, --checkpoint)"
    else:
        todo = "ask again later, within the time of --within"
    return f"Not all is shown: of {len(found)} reports {named}; {todo}"


def exit_status(found: Sequence[ReportCheck]) -> int:
    """Return the exit status of a check, by what became of all reports."""
    statuses = {each.status for each in found}
    return next(status for name, status in _EXIT.items() if name in statuses)


def check(
    held: HeldReceipt,
    identity: Identity,
    port: ProvingPort,
    referee: str,
    witness: Remembered | None = None,
    before: SeenCheckpoint | None = None,
    *,
    within: float = WITHIN,
    clock: Callable[[], float] = time.time,
) -> ReportCheck:
    """Ask the witness once, then the referee at most twice, to prove that a report is in its transcript.

    Args:
        identity, referee: Of the agent that sent the report; the referee's pinned key.
        witness: A service that stores checkpoints of the run: the proof's transcript must extend the newest.
        before: What the referee has shown of the run before: what it shows now must go on from there.
        within: Seconds after the report was sent in which it must be shown, and witnessed if there is a witness.
        clock: This device's, in seconds since 1970. One that is off by more than ``within`` ends the wait.

    Raises:
        Forged: If the receipt itself is none of this referee, or the witness shows what it has not signed.
        PeerError: If referee or witness do not answer.
    """
    check_receipt(held.receipt, held.report, referee)
    newest = None if witness is None else _newest(held, witness, referee)
    late = abs(clock() - held.sent) > within
    proofs = []
    try:
        for known in _distinct(None if before is None else before.kept, newest):
            since = None if known is None else known.verified(referee).entries
            request = ProofRequest(participant=identity.public, run=held.run, question=held.question, since=since)
            proofs.append(port.proof(identity.sign(request.KIND, request.wire())))
    except (PatternViolation, NotFound) as error:
        return _without(held, error, newest, before, late, within)
    try:
        by, *_ = [_checked(held, proof, referee) for proof in proofs]
    except (Forged, BadMessage) as error:
        return ReportCheck(held, LEFT_OUT, error.detail)
    shown = SeenCheckpoint(proofs[0].kept, frozenset({held.question, *(() if before is None else before.questions)}))
    if before is not None and (why := _breaks(before.kept, proofs[0], referee, "the referee has shown")):
        return ReportCheck(held, OTHER, why, by, shown)
    if newest is not None and (why := _breaks(newest, proofs[-1], referee, "the witness has seen")):
        return ReportCheck(held, LEFT_OUT, why, by, shown)
    entry = SignedEntry.parse(proofs[-1].entry).index
    place, grown = f"entry {entry} of the transcript", len({each.kept.verified().root for each in proofs}) > 1
    if witness is None or not (newest is None or newest.verified().entries <= entry or grown):
        return ReportCheck(held, INCLUDED, place, by, shown)
    when = f"{within:,.0f} s after the report was sent" if late else "yet"
    return ReportCheck(held, LEFT_OUT if late else UNSEEN, f"{place}, which the witness has not seen {when}", by, shown)


def _distinct(before: StoredCheckpoint | None, newest: StoredCheckpoint | None) -> tuple[StoredCheckpoint | None, ...]:
    if before is None or newest is None or before.checkpoint.message == newest.checkpoint.message:
        return (newest if before is None else before,)
    return before, newest


def _without(
    held: HeldReceipt,
    error: PatternViolation | NotFound,
    newest: StoredCheckpoint | None,
    before: SeenCheckpoint | None,
    late: bool,
    within: float,
) -> ReportCheck:
    parsed = None if newest is None else newest.verified()
    if before is not None and held.question in before.questions:
        return ReportCheck(held, OTHER, f"the referee has proven this report before, and answers now: {error.detail}")
    if parsed is not None and (parsed.closed or 0) > held.question:
        why = (
            f"the witness has seen this question closed, in {parsed.entries} entries that the referee has signed at "
            f"{parsed.time}; the referee shows no proof and answers: {error.detail}"
        )
    elif "ask again" not in error.detail:
        why = error.detail
    elif late:
        why = f"it is not shown {within:,.0f} s after it was sent; the referee answers: {error.detail}"
    else:
        return ReportCheck(held, OPEN, error.detail)
    return ReportCheck(held, LEFT_OUT, why)


def _breaks(known: StoredCheckpoint, proof: Proof, referee: str, who: str) -> str:
    """Return why a proof's checkpoint does not go on from an older one; nothing if it does."""
    old, new = known.verified(referee), proof.kept.verified(referee)
    was = f"{who} {old.entries} entries that end in {old.hash[:12]}..., and the referee shows"
    if new.entries < old.entries:
        return f"{was} only {new.entries} now"
    path = proof.consistency or ()
    if not verify_consistency(old.root, old.entries, new.root, new.entries, path):
        return f"{was} {new.entries} now, which do not begin with those: it is another history"
    return ""


def _checked(held: HeldReceipt, proof: Proof, referee: str) -> tuple[str, ...]:
    entry = SignedEntry.parse(proof.entry)
    check_entry(entry, referee)
    if (entry.kind, entry.body.get("question")) != ("answers", held.question):
        raise Forged("the referee proves something about another question")
    if root_from_inclusion_proof(_leaf(held, proof), proof.index, proof.reports, proof.path) != entry.body.get("root"):
        raise Forged("the referee's path does not lead from this report to the root of the question")
    parsed = proof.kept.verified(referee)
    if (parsed.run, parsed.configuration) != (held.run, held.report.message["digest"]):
        raise Forged("the checkpoint is one of another run")
    own = bytes.fromhex(entry.hash)
    if root_from_inclusion_proof(own, entry.index, parsed.entries, proof.entry_path) != parsed.root:
        raise Forged("the referee's path does not lead from the question's entry to the checkpoint")
    return tuple(proof.kept.seen())


def _leaf(held: HeldReceipt, proof: Proof) -> bytes:
    """Return what stands for a report: of the bytes that this agent has sent.

    An individual's receipt of an earlier version has no leaf: then the answer that was signed, however it is written.
    """
    if held.report.kind != Report.KIND:
        return bytes.fromhex(held.leaf)
    own, answer = {held.leaf}, held.report.message["answer"]
    for kind in () if held.leaf else _KINDS:
        with suppress(BadMessage):
            own.add(leaf_of(held.report, pack_one(answer, kind)).hex())
    found = leaf_of(held.report, bytes.fromhex(proof.body))
    if found.hex() not in own:
        raise Forged(
            f"the referee has another answer beside this agent's signature: its leaf holds {proof.body or 'nothing'}, "
            f"and this agent has sent the answer {answer:g}"
        )
    return found


def _newest(held: HeldReceipt, witness: Remembered, referee: str) -> StoredCheckpoint | None:
    """Return the newest checkpoint that a witness has seen of this report's run; None where it has seen none."""
    key, found = witness.key(), witness.kept(referee, held.run)
    newest = max(found, key=lambda kept: Checkpoint.parse(kept.checkpoint.message).entries, default=None)
    if newest is None:
        return None
    parsed = newest.verified(referee)
    if key not in newest.seen():
        raise Forged("the witness shows what it has not signed: ask another one")
    if (parsed.run, parsed.configuration) != (held.run, held.report.message["digest"]):
        raise Forged(f"the witness shows a checkpoint of another run than {held.run!r}: ask another one")
    return newest
