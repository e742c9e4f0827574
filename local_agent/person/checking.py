"""An agent's receipts and checkpoints, and the check that its reports are in the transcript of their run.

The agent stores a receipt for each report, and the newest checkpoint that it has received of each run, one file each.
A referee may show a proof late, up to a time limit by this device's clock, unless a witness has seen the question
closed. Every checkpoint must extend the previous one, and the one that a witness has seen.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from common.core import canonical
from common.core import folder as files
from common.core.durable import file_name, make_folder, write_durably
from common.core.errors import BadData, BadMessage, Forged, NotFound, PatternViolation
from common.core.values import run_name
from common.crypto.identity import Identity, Signed
from common.log.merkle import root_from_inclusion_proof, verify_consistency
from common.log.receipts import Checkpoint, Proof, ProofRequest, StoredCheckpoint, check_receipt
from common.log.transcript import SignedEntry, check_entry
from common.log.witness import Witness
from common.net.messages import Report

FOLDER = "receipts"  # folder in the agent's state directory
_LATEST = 1e11  # seconds since 1970 (the year 5138): a later time is invalid


@dataclass(frozen=True)
class HeldReceipt:
    """A receipt and the report that it acknowledges, as they were signed.

    Attributes:
        leaf: The report's leaf in the Merkle tree of its question, hex.
        sent: When the receipt first arrived, by this device's clock, in seconds since 1970; by default now.
    """

    path: Path
    receipt: Signed
    report: Signed
    leaf: str
    sent: float = field(default_factory=time.time)

    @property
    def run(self) -> str:
        return str(self.report.message["run"])

    @property
    def question(self) -> int:
        return int(self.report.message["question"])


def store_receipt(folder: Path, receipt: Signed, report: Signed, body: bytes) -> None:
    """Store a receipt durably, readable by its owner only, beside those of other reports; ``body``: packed answers."""
    name = f"{file_name(report.message['run'])}-{report.message['question']}"
    path = folder / FOLDER / f"{name}.json"
    leaf, sent = leaf_of(report, body).hex(), time.time()
    with suppress(BadData, NotFound):  # for a report that is sent again, the first time counts
        if read_receipt(path).report != report:  # of an earlier run with the same name, or of another history of it
            path = path.with_name(f"{name}-{report.signature[:32]}.json")
        sent = read_receipt(path).sent
    tree: dict[str, Any] = {"receipt": receipt.wire(), "report": report.wire(), "leaf": leaf, "sent": sent}
    if not path.parent.is_dir():  # an existing one was synchronised when the state directory was locked
        make_folder(path.parent, mode=0o700)
    write_durably(path, json.dumps(tree).encode(), mode=0o600)


def leaf_of(report: Signed, body: bytes) -> bytes:
    """Return a report's leaf in its question's Merkle tree: the digest of its signature and packed answers."""
    return hashlib.sha256(bytes.fromhex(report.signature) + body).digest()


def held_receipts(folder: Path) -> Iterator[HeldReceipt]:
    """Yield all receipts of a state directory, by name; BadData if there is none, or one cannot be read."""
    place = folder / FOLDER
    paths = [place / name for name in files.names(place, ".json")] if place.is_dir() else []
    if not paths:
        raise BadData(
            f"there is no receipt in {folder}: no agent has answered with this state directory, or its referee gave "
            "none; name another with --state"
        )
    for path in paths:
        yield read_receipt(path)


def read_receipt(path: Path) -> HeldReceipt:
    """Read one receipt, or raise BadData."""
    try:
        tree = canonical.decode(files.read(path, files.RECEIPT))
        sent, leaf = float(tree["sent"]), bytes.fromhex(tree["leaf"])
        if not 0.0 <= sent < _LATEST or len(leaf) != hashlib.sha256().digest_size:
            raise ValueError("no time, or no digest")
        return HeldReceipt(path, Signed.parse(tree["receipt"]), Signed.parse(tree["report"]), leaf.hex(), sent)
    except (ValueError, KeyError, TypeError, BadMessage):
        raise BadData(f"{path} is no receipt: it was edited, or is another file") from None


SEEN_FOLDER = "checkpoints"  # folder in the agent's state directory


@dataclass(frozen=True)
class SeenCheckpoint:
    """The newest checkpoint of a run that a referee has shown, and the questions for which it has proven a report."""

    checkpoint: StoredCheckpoint
    questions: frozenset[int]


def seen_checkpoint(folder: Path, run: str) -> SeenCheckpoint | None:
    """Return the stored checkpoint of a run, None if there is none; BadData if the file was edited."""
    path = _seen_path(folder, run)
    if not path.exists():
        return None
    try:
        tree = canonical.decode(files.read(path, files.CHECKPOINT))
        checkpoint = StoredCheckpoint.parse(tree["checkpoint"])
        questions = frozenset(int(number) for number in tree["questions"])
        return (
            SeenCheckpoint(checkpoint, questions) if checkpoint.verified().run == run else None
        )  # run and Run may be one file
    except (ValueError, KeyError, TypeError, BadMessage, Forged):
        raise BadData(f"{path} is no checkpoint: it was edited, or is another file") from None


def store_seen(folder: Path, run: str, newest: SeenCheckpoint, *, other: bool = False) -> Path:
    """Store durably the checkpoint that was shown of a run, readable by its owner only; return the file.

    If it does not extend the previous one (``other``), it is stored beside that, in a separate file.
    """
    path = _seen_path(folder, run, ".other.json" if other else ".json")
    make_folder(path.parent, mode=0o700)
    tree = {"checkpoint": newest.checkpoint.wire(), "questions": sorted(newest.questions)}
    write_durably(path, json.dumps(tree).encode(), mode=0o600)
    return path


def _seen_path(folder: Path, run: str, ending: str = ".json") -> Path:
    return folder / SEEN_FOLDER / f"{file_name(run_name(run))}{ending}"


INCLUDED, OPEN, UNSEEN, LEFT_OUT, OTHER = "included", "not shown yet", "not witnessed", "left out", "another history"
WITHIN = 86_400.0  # seconds within which a referee must show a report that it has acknowledged
SECONDS = 10.0  # time limit per report, in addition to the patience with an unavailable referee


class ProvingPort(Protocol):
    """The referee as a prover: it answers a signed :class:`~common.log.receipts.ProofRequest`."""

    def proof(self, signed: Signed) -> Proof: ...


@dataclass(frozen=True)
class ReportCheck:
    """The result of the check of one report.

    Attributes:
        status: ``included``; ``not shown yet``, if there is no proof and the time limit is not over; ``not witnessed``,
            if the witness has not seen the shown transcript and the time limit is not over; ``left out``, if the shown
            transcript does not contain the report as it was sent, is another history than the witness has seen, or was
            not shown in time; ``another history``, if it does not extend what the referee has shown before.
        witnesses: Keys of the witnesses that know the transcript that contains it.
        checkpoint: The one that the referee has shown, to be stored; None if it has proven nothing.
    """

    receipt: HeldReceipt
    status: str
    why: str
    witnesses: tuple[str, ...] = ()
    checkpoint: SeenCheckpoint | None = None

    def document(self) -> dict[str, Any]:
        return {
            "run": self.receipt.run,
            "question": self.receipt.question,
            "status": self.status,
            "why": self.why,
            "witnesses": list(self.witnesses),
            "receipt": str(self.receipt.path),
        }


class CachedWitness:
    """A witness whose replies are cached, so that it is asked once about each run."""

    def __init__(self, witness: Witness) -> None:
        self.key = cache(witness.key)
        self.kept = cache(witness.kept)


def in_words(finding: ReportCheck, within: float) -> str:
    """Return a finding as one line of text."""
    receipt = finding.receipt
    words = f"question {receipt.question} of run {receipt.run}: {finding.status} ({finding.why})"
    if finding.witnesses:
        words += f"; witnessed by {', '.join(key[:16] + '...' for key in finding.witnesses)}"
    if finding.status in (OPEN, UNSEEN):
        until = datetime.fromtimestamp(receipt.sent + within, UTC).isoformat(" ", "seconds")
        words += f"; ask again: from {until} on this counts as left out"
    if finding.status == LEFT_OUT:
        words += f"; the receipt that shows it: {receipt.path}"
    return words


_EXIT = {LEFT_OUT: 1, OTHER: 1, OPEN: 3, UNSEEN: 4, INCLUDED: 0}  # the worst first, as docs/security.md states


def summary(findings: Sequence[ReportCheck]) -> str:
    """Return one line that states what is wrong or not shown yet, and what to do."""
    counts = Counter(finding.status for finding in findings)
    named = ", ".join(f"{counts[status]} {status}" for status in _EXIT if counts[status] and status != INCLUDED)
    if exit_status(findings) == 1:
        todo = "hand receipts and checkpoints to an auditor of the run (referee audit --receipt, --checkpoint)"
    else:
        todo = "ask again later, within the time of --within"
    return f"Not all is shown: of {len(findings)} reports {named}; {todo}"


def exit_status(findings: Sequence[ReportCheck]) -> int:
    """Return the exit status of a check: that of the worst finding."""
    statuses = {finding.status for finding in findings}
    return next(status for name, status in _EXIT.items() if name in statuses)


def check(
    receipt: HeldReceipt,
    identity: Identity,
    port: ProvingPort,
    referee: str,
    witness: CachedWitness | None = None,
    before: SeenCheckpoint | None = None,
    *,
    within: float = WITHIN,
    clock: Callable[[], float] = time.time,
) -> ReportCheck:
    """Ask the witness once, then ask the referee at most twice to prove that a report is in its transcript.

    Forged if the receipt is not one of this referee, or the witness shows a checkpoint that it has not signed.
    PeerError if referee or witness do not answer.

    Args:
        witness: A service that stores checkpoints of the run: the proof's transcript must extend the newest.
        before: The checkpoint that the referee has shown of the run before: the new one must extend it.
        within: Seconds after the report was sent within which it must be shown, and witnessed if there is a witness.
        clock: This device's clock, in seconds since 1970. If it is off by more than ``within``, the time limit is over.
    """
    check_receipt(receipt.receipt, receipt.report, referee)
    newest = None if witness is None else _newest(receipt, witness, referee)
    late = abs(clock() - receipt.sent) > within
    proofs = []
    try:
        for older in _distinct(None if before is None else before.checkpoint, newest):
            since = None if older is None else older.verified(referee).entries
            request = ProofRequest(participant=identity.public, run=receipt.run, question=receipt.question, since=since)
            proofs.append(port.proof(identity.sign(request.KIND, request.wire())))
    except (PatternViolation, NotFound) as error:
        return _unproven(receipt, error, newest, before, late, within)
    try:
        witnesses, *_ = [_checked(receipt, proof, referee) for proof in proofs]
    except (Forged, BadMessage) as error:
        return ReportCheck(receipt, LEFT_OUT, error.detail)
    checkpoint = SeenCheckpoint(
        proofs[0].kept, frozenset({receipt.question, *(() if before is None else before.questions)})
    )
    if before is not None and (why := _breaks(before.checkpoint, proofs[0], referee, "the referee has shown")):
        return ReportCheck(receipt, OTHER, why, witnesses, checkpoint)
    if newest is not None and (why := _breaks(newest, proofs[-1], referee, "the witness has seen")):
        return ReportCheck(receipt, LEFT_OUT, why, witnesses, checkpoint)
    entry = SignedEntry.parse(proofs[-1].entry).index
    place, grown = f"entry {entry} of the transcript", len({each.kept.verified().root for each in proofs}) > 1
    if witness is None or not (newest is None or newest.verified().entries <= entry or grown):
        return ReportCheck(receipt, INCLUDED, place, witnesses, checkpoint)
    when = f"{within:,.0f} s after the report was sent" if late else "yet"
    return ReportCheck(
        receipt, LEFT_OUT if late else UNSEEN, f"{place}, which the witness has not seen {when}", witnesses, checkpoint
    )


def _distinct(before: StoredCheckpoint | None, newest: StoredCheckpoint | None) -> tuple[StoredCheckpoint | None, ...]:
    if before is None or newest is None or before.checkpoint.message == newest.checkpoint.message:
        return (newest if before is None else before,)
    return before, newest


def _unproven(
    receipt: HeldReceipt,
    error: PatternViolation | NotFound,
    newest: StoredCheckpoint | None,
    before: SeenCheckpoint | None,
    late: bool,
    within: float,
) -> ReportCheck:
    parsed = None if newest is None else newest.verified()
    if before is not None and receipt.question in before.questions:
        return ReportCheck(
            receipt, OTHER, f"the referee has proven this report before, and answers now: {error.detail}"
        )
    if parsed is not None and (parsed.closed or 0) > receipt.question:
        why = (
            f"the witness has seen this question closed, in {parsed.entries} entries that the referee has signed at "
            f"{parsed.time}; the referee shows no proof and answers: {error.detail}"
        )
    elif "ask again" not in error.detail:
        why = error.detail
    elif late:
        why = f"it is not shown {within:,.0f} s after it was sent; the referee answers: {error.detail}"
    else:
        return ReportCheck(receipt, OPEN, error.detail)
    return ReportCheck(receipt, LEFT_OUT, why)


def _breaks(older: StoredCheckpoint, proof: Proof, referee: str, who: str) -> str:
    """Return why a proof's checkpoint does not extend an older one; an empty text if it does."""
    old, new = older.verified(referee), proof.kept.verified(referee)
    was = f"{who} {old.entries} entries that end in {old.hash[:12]}..., and the referee shows"
    if new.entries < old.entries:
        return f"{was} only {new.entries} now"
    path = proof.consistency or ()
    if not verify_consistency(old.root, old.entries, new.root, new.entries, path):
        return f"{was} {new.entries} now, which do not begin with those: it is another history"
    return ""


def _checked(receipt: HeldReceipt, proof: Proof, referee: str) -> tuple[str, ...]:
    entry = SignedEntry.parse_signed(proof.entry)
    check_entry(entry, referee)
    if (entry.kind, entry.body.get("question")) != ("answers", receipt.question):
        raise Forged("the referee proves something about another question")
    if root_from_inclusion_proof(_leaf(receipt, proof), proof.index, proof.reports, proof.path) != entry.body.get(
        "root"
    ):
        raise Forged("the referee's path does not lead from this report to the root of the question")
    parsed = proof.kept.verified(referee)
    if (parsed.run, parsed.configuration) != (receipt.run, receipt.report.message["digest"]):
        raise Forged("the checkpoint is one of another run")
    own = bytes.fromhex(entry.hash)
    if root_from_inclusion_proof(own, entry.index, parsed.entries, proof.entry_path) != parsed.root:
        raise Forged("the referee's path does not lead from the question's entry to the checkpoint")
    return tuple(proof.kept.seen())


def _leaf(receipt: HeldReceipt, proof: Proof) -> bytes:
    own = bytes.fromhex(receipt.leaf)
    if receipt.report.kind == Report.KIND and leaf_of(receipt.report, bytes.fromhex(proof.body)) != own:
        raise Forged(
            f"the referee has another answer beside this agent's signature: its leaf holds {proof.body or 'nothing'}, "
            f"and this agent has sent the answer {receipt.report.message['answer']:g}"
        )
    return own


def _newest(receipt: HeldReceipt, witness: CachedWitness, referee: str) -> StoredCheckpoint | None:
    key, checkpoints = witness.key(), witness.kept(referee, receipt.run)
    newest = max(checkpoints, key=lambda stored: Checkpoint.parse(stored.checkpoint.message).entries, default=None)
    if newest is None:
        return None
    parsed = newest.verified(referee)
    if key not in newest.seen():
        raise Forged("the witness shows what it has not signed: ask another one")
    if (parsed.run, parsed.configuration) != (receipt.run, receipt.report.message["digest"]):
        raise Forged(f"the witness shows a checkpoint of another run than {receipt.run!r}: ask another one")
    return newest
