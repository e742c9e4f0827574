"""What a referee signs so that it cannot deny it later: that it has a report, and how far a run's transcript went when.

A *receipt* says that it has stored a report: if that is not under the root of its closed question, the referee left it
out. A *checkpoint* is its word for the whole transcript so far. A *witness* that keeps it signs it with a time of its
own (:class:`Witnessed`); then the referee cannot show others another history of the run, or a shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from common.core import canonical
from common.core.errors import BadMessage, Forged, PeerMisbehaved
from common.core.values import DIGEST, MAX_PLACE, RUN, Number, Value
from common.crypto.identity import Identity, Signed, verify
from common.log.merkle import Tree, merkle_root
from common.log.transcript import AnyEntry, EntryHash

Time = Annotated[int, Field(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, UTC, before the year 10000: others have to be able to show them."""
Count = Annotated[int, Field(ge=0, lt=1 << 53)]  # what witnesses and transcripts count


class Receipt(Value):
    """The report with a signature, on a question of a run, is stored; ``time`` is that of the referee's clock."""

    KIND: ClassVar[str] = "receipt"
    run: str = Field(pattern=RUN)
    question: Number
    report: str = Field(pattern=r"^[0-9a-f]{128}$")
    time: Time


class Checkpoint(Value):
    """A run's transcript has this many entries, ends in this hash, and has this root over the hashes of all.

    ``configuration`` is the digest of the run's configuration, ``time`` that of the referee's clock. Question k takes
    no answers once ``closed`` (:func:`closed_of`) is above k. Earlier versions left it out.
    """

    KIND: ClassVar[str] = "checkpoint"
    run: str = Field(pattern=RUN)
    configuration: str = Field(pattern=DIGEST)
    entries: int = Field(ge=1, lt=1 << 53)
    hash: str = Field(pattern=DIGEST)
    root: str = Field(pattern=DIGEST)
    time: Time
    closed: int | None = Field(default=None, ge=0, exclude_if=lambda closed: closed is None)

    def covers(self, entries: Sequence[AnyEntry], tree: Tree | None = None) -> bool:
        """Tell whether it is of a transcript with these entries, or of its beginning."""
        if len(entries) < self.entries or entries[self.entries - 1].hash != self.hash:
            return False
        return self.root == (tree or entries_tree(entries)).beginning(self.entries)


class Witnessed(Value):
    """A witness keeps a checkpoint (``checkpoint`` is its digest) since a time, as number ``position`` of its run.

    ``previous`` is the digest of what the witness signed before it for this run, zeros for the first.
    """

    KIND: ClassVar[str] = "witnessed"
    checkpoint: str = Field(pattern=DIGEST)
    position: Count
    previous: str = Field(pattern=DIGEST)
    time: Time


class StoredCheckpoint(Value):
    """A signed checkpoint, and what witnesses have signed of it."""

    checkpoint: Signed
    witnessed: tuple[Signed, ...] = ()

    def verified(self, referee: str | None = None) -> Checkpoint:
        return Checkpoint.parse(verify(self.checkpoint, Checkpoint.KIND, referee))

    def seen(self) -> dict[str, Witnessed]:
        found = {}
        digest = Checkpoint.parse(self.checkpoint.message).fingerprint()
        for signed in self.witnessed:
            seen = Witnessed.parse(verify(signed, Witnessed.KIND))
            if seen.checkpoint != digest:
                raise Forged(f"witness {signed.key[:16]}... has signed another checkpoint")
            found[signed.key] = seen
        return found


def check_contradiction(shown: object, put: Signed, witness: str) -> None:
    """Refuse that a run has another history than a checkpoint of it says, unless its own referee has signed that.

    ``shown`` is what the witness shows for it, as it came. PeerMisbehaved, if it contradicts nothing.
    """
    checkpoint = Checkpoint.parse(put.message)
    try:
        signed = Signed.parse(canonical.decode(str(shown).encode()))
        known = Checkpoint.parse(verify(signed, Checkpoint.KIND, put.key))
    except (BadMessage, Forged):
        known = checkpoint
    same = known.model_copy(update={"time": checkpoint.time}) == checkpoint
    further = checkpoint.entries > known.entries and checkpoint.configuration == known.configuration
    if known.run != checkpoint.run or same or further:
        raise PeerMisbehaved(
            f"{witness} does not keep a checkpoint of run {checkpoint.run!r}, says that it has seen another history, "
            "and shows none that the run's referee has signed"
        )


class RunSeen(Value):
    """A run of which a witness keeps checkpoints: how far the last one goes, and when the witness signed it."""

    run: str = Field(pattern=RUN)
    entries: int = Field(ge=1, lt=1 << 53)
    time: Time


class ProofRequest(Value):
    """A participant asks for the proof that its report on a question is in the transcript.

    ``since``: how many entries the newest checkpoint of the run had that it was shown before, with which the transcript
    must begin.
    """

    KIND: ClassVar[str] = "proof-request"
    participant: str = Field(pattern=DIGEST)
    run: str = Field(pattern=RUN)
    question: Number
    since: int | None = Field(default=None, ge=1, lt=MAX_PLACE, exclude_if=lambda since: since is None)


class Proof(Value):
    """That a report is under the root of its question, and this root in the transcript.

    Attributes:
        entry: The transcript's entry with the counts and the root of the question.
        index, reports, path: The report's place among those on the question, their number, and its path to the root.
        body: The packed answer of an individual, hex; empty for a host, which has its own.
        kept: The newest checkpoint: it covers the entry.
        entry_path: Path of the entry's hash to the checkpoint's root.
        consistency: That the transcript begins with as many entries as the request names, if it names some.
    """

    entry: dict[str, Any]
    index: Count
    reports: int = Field(ge=1, lt=1 << 53)
    body: str = Field(max_length=64, pattern=r"^([0-9a-f]{2})*$")
    path: tuple[str, ...] = Field(max_length=64)
    kept: StoredCheckpoint
    entry_path: tuple[str, ...] = Field(max_length=64)
    consistency: tuple[str, ...] | None = Field(default=None, max_length=64, exclude_if=lambda path: path is None)


def closed_of(kinds: Sequence[str]) -> int:
    """Return how many messages of a protocol are over in a transcript with entries of these kinds.

    An operation is one entry, a question is one and its answers are the next. A run that has ended leaves nothing open.
    """
    replies = kinds.count("question") if kinds and kinds[-1] == "result" else kinds.count("answers")
    return kinds.count("operation") + replies


def entries_tree(entries: Sequence[AnyEntry]) -> Tree:
    """Return the tree over the hashes of a transcript's entries."""
    return Tree(bytes.fromhex(entry.hash) for entry in entries)


def receipt_for(signer: Identity, run: object, question: object, report: str, now: Time) -> bytes:
    """Return a referee's signed receipt for a stored report; its fields are valid ones."""
    payload = f'{{"question":{question},"report":"{report}","run":"{run}","time":{now}}}'
    return signer.envelope(Receipt.KIND, payload.encode("ascii"))


def check_receipt(signed: Signed, report: Signed, referee: str, whose: str = "") -> Receipt:
    """Return a receipt, if it is the referee's for this report (Forged)."""
    receipt = Receipt.parse(verify(signed, Receipt.KIND, referee, whose))
    about = report.message.get("run"), report.message.get("question"), report.signature
    if (receipt.run, receipt.question, receipt.report) != about:
        raise Forged("the referee's receipt is for another report: it is not known to be stored")
    return receipt


def signed_checkpoint(
    signer: Identity, run: str, configuration: str, entries: Sequence[AnyEntry | EntryHash], now: Time
) -> Signed:
    """Return a referee's checkpoint of a transcript with these entries."""
    if not entries:
        raise BadMessage("a transcript without entries has no checkpoint")
    checkpoint = Checkpoint(
        run=run,
        configuration=configuration,
        entries=len(entries),
        hash=entries[-1].hash,
        root=merkle_root(bytes.fromhex(entry.hash) for entry in entries),
        time=now,
        closed=closed_of([entry.kind for entry in entries]),
    )
    return signer.sign(checkpoint.KIND, checkpoint.wire())
