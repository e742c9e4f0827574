"""Statements that a referee signs and cannot deny later: receipts of reports, and checkpoints of a run's transcript.

A *receipt* states that the referee has stored a report: if that is not under the root of its closed question, the
referee left it out. A *checkpoint* is a statement about the whole transcript so far. A *witness* that stores it signs
it with a time of its own (:class:`Witnessed`); then the referee cannot show others another or shorter history.

The order of agents depends on a *beacon*: the witnesses' signatures on the beginning of a run, after which the curator
opens its share. Three values determine an order, each fixed before the next is known, and opened in the same order:

1. the referee's secret, whose hash is in the configuration C; C also names the witnesses W_1..W_m;
2. the curator's share, whose hash is in its terms T (:func:`commitment_to`);
3. the beacon: the signature of each W_i on the checkpoint of exactly :data:`ROUND` entries, C and T. Its Merkle root
   binds both. Before W_i has signed it, the signature does not exist.

Then the curator opens its share, in a message that names the beacon, once per configuration and for one beacon. The
referee opens its secret when the run has ended. The order is keyed by the 512 bits H(secret + share + beacon).

Theorem. Let SHA-256 and H (SHAKE256) be random oracles and Ed25519 unforgeable under chosen messages. Let the referee,
the curator or one of the W_i be honest; all others may collude. Let k be 1 if the referee or the curator is honest,
else the number of this referee's runs for which the honest W_i has signed such a checkpoint. Let a share p of all keys
of orders be favourable to the colluders. The key of the run that they show is one of these with probability at most
k p, up to the probability to guess 256 bits or to forge a signature.

Proof. *Honest referee*: its secret is 256 random bits, of which the others have only a hash until the run has ended, so
their choices do not depend on it. *Honest curator*: it gives its budget, and its terms, to one C, so the secret is
fixed; its share is 256 pseudorandom bits, of which they have a hash; it opens them in a message that names one
beacon, so that is fixed as well. *Honest witness*: it signs at most one checkpoint of :data:`ROUND` entries for a
run, since it accepts only extensions, and the root of that fixes C and T, hence secret and share. Anyone who has
queried H at the right point before W_i signed has forged a signature. Afterwards the only choice left is to abandon the
run and begin another one with another name: this gives k attempts, and the witness shows which runs there were. QED.

A witness's signature is no verifiable random function: one that chooses its nonces can choose among signatures. It then
chooses without share and secret, since the share is opened later. All three parties together can choose the order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from common.core import canonical
from common.core.errors import BadMessage, Forged, PeerMisbehaved
from common.core.values import DIGEST, MAX_PLACE, RUN, Number, RunMessage, Value
from common.crypto.identity import Identity, Signed, verify
from common.log.merkle import Tree, merkle_root
from common.log.transcript import AnyEntry, EntryHash

Time = Annotated[int, Field(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, UTC, before the year 10000, so that other programs can show them as dates."""
Count = Annotated[int, Field(ge=0, lt=1 << 53)]  # a number of entries, reports or checkpoints


class Receipt(Value):
    """The statement that the report with a signature is stored; ``time`` is that of the referee's clock."""

    KIND: ClassVar[str] = "receipt"
    run: str = Field(pattern=RUN)
    question: Number
    report: str = Field(pattern=r"^[0-9a-f]{128}$")
    time: Time


class Checkpoint(Value):
    """The statement that a transcript has this many entries, ends in this hash, and has this root over all hashes.

    ``configuration`` is the digest of the run's configuration, ``time`` that of the referee's clock. Question k accepts
    no answers once ``closed`` (:func:`closed_of`) is above k. Earlier versions omitted it.
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
        """Return whether it is a checkpoint of a transcript with these entries, or of its beginning."""
        if len(entries) < self.entries or entries[self.entries - 1].hash != self.hash:
            return False
        return self.root == (tree or entries_tree(entries)).beginning(self.entries)


class Witnessed(Value):
    """The statement that a witness stores a checkpoint (by its digest) since a time, as number ``position`` of its run.

    ``previous`` is the digest of the witness's previous statement for this run, zeros for the first.
    """

    KIND: ClassVar[str] = "witnessed"
    checkpoint: str = Field(pattern=DIGEST)
    position: Count
    previous: str = Field(pattern=DIGEST)
    time: Time


class StoredCheckpoint(Value):
    """A signed checkpoint, and the witnesses' signed statements about it."""

    checkpoint: Signed
    witnessed: tuple[Signed, ...] = ()

    def verified(self, referee: str | None = None) -> Checkpoint:
        return Checkpoint.parse_signed(verify(self.checkpoint, Checkpoint.KIND, referee))

    def seen(self) -> dict[str, Witnessed]:
        statements = {}
        digest = Checkpoint.parse(self.checkpoint.message).fingerprint()
        for signed in self.witnessed:
            statement = Witnessed.parse_signed(verify(signed, Witnessed.KIND))
            if statement.checkpoint != digest:
                raise Forged(f"witness {signed.key[:16]}... has signed another checkpoint")
            statements[signed.key] = statement
        return statements


def check_contradiction(evidence: object, put: Signed, witness: str) -> None:
    """Verify a witness's claim that it has seen another history of a run than a checkpoint states.

    ``evidence`` is the witness's, as received. PeerMisbehaved if it is not a checkpoint that the run's referee
    has signed and that contradicts ``put``.
    """
    checkpoint = Checkpoint.parse(put.message)
    try:
        signed = Signed.parse(canonical.decode(str(evidence).encode()))
        other = Checkpoint.parse(verify(signed, Checkpoint.KIND, put.key))
    except (BadMessage, Forged):
        other = checkpoint
    same = other.model_copy(update={"time": checkpoint.time}) == checkpoint
    further = checkpoint.entries > other.entries and checkpoint.configuration == other.configuration
    if other.run != checkpoint.run or same or further:
        raise PeerMisbehaved(
            f"{witness} does not keep a checkpoint of run {checkpoint.run!r}, says that it has seen another history, "
            "and shows none that the run's referee has signed"
        )


class RunSeen(Value):
    """A run whose checkpoints a witness stores: the entries of the last one, and when the witness signed it."""

    run: str = Field(pattern=RUN)
    entries: int = Field(ge=1, lt=1 << 53)
    time: Time


class ProofRequest(Value):
    """A participant's request for the proof that its report on a question is in the transcript.

    ``since``: number of entries of the newest checkpoint of the run that it was shown before, which the transcript must
    extend.
    """

    KIND: ClassVar[str] = "proof-request"
    participant: str = Field(pattern=DIGEST)
    run: str = Field(pattern=RUN)
    question: Number
    since: int | None = Field(default=None, ge=1, lt=MAX_PLACE, exclude_if=lambda since: since is None)


class Proof(Value):
    """The proof that a report is under the root of its question, and that this root is in the transcript.

    Attributes:
        entry: The transcript's entry with the counts and the root of the question.
        index, reports, path: The report's index among those on the question, their number, and its path to the root.
        body: The packed answer of an individual, hex; empty for a host, which has stored it.
        kept: The newest checkpoint, which covers the entry.
        entry_path: Path of the entry's hash to the checkpoint's root.
        consistency: Proof that the transcript extends the ``since`` entries of the request, if that states some.
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
    """Return how many messages of a protocol are completed in a transcript with entries of these kinds.

    An operation is one entry; a question is one, and its answers are the next. A run that has ended has none open.
    """
    replies = kinds.count("question") if kinds and kinds[-1] == "result" else kinds.count("answers")
    return kinds.count("operation") + replies


def entries_tree(entries: Sequence[AnyEntry]) -> Tree:
    """Return the tree over the hashes of a transcript's entries."""
    return Tree(bytes.fromhex(entry.hash) for entry in entries)


def receipt_for(signer: Identity, run: object, question: object, report: str, now: Time) -> bytes:
    """Return a referee's signed receipt for a stored report; the fields must be valid, since they are not checked."""
    payload = f'{{"question":{question},"report":"{report}","run":"{run}","time":{now}}}'
    return signer.envelope(Receipt.KIND, payload.encode("ascii"))


def check_receipt(signed: Signed, report: Signed, referee: str, whose: str = "") -> Receipt:
    """Verify that a receipt is the referee's for this report, and return it; else Forged."""
    receipt = Receipt.parse_signed(verify(signed, Receipt.KIND, referee, whose))
    subject = report.message.get("run"), report.message.get("question"), report.signature
    if (receipt.run, receipt.question, receipt.report) != subject:
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


ROUND = 2
"""Number of entries whose checkpoint the witnesses sign as the beacon: the configuration, and the curator's terms."""


class RevealRequest(RunMessage):
    """The referee's request that the curator open its share, with the beacon."""

    KIND: ClassVar[str] = "open-share"
    words: StoredCheckpoint


class RevealedShare(RunMessage):
    """The curator's opened share, sent after it has received the beacon (``beacon`` is its value)."""

    KIND: ClassVar[str] = "share"
    beacon: str = Field(pattern=DIGEST)
    share: str = Field(pattern=DIGEST)


def commitment_to(share: str) -> str:
    """Return the commitment to a share (32 bytes in hex) that terms contain: its SHA-256, hex."""
    return hashlib.sha256(bytes.fromhex(share)).hexdigest()


def beacon_value(
    words: StoredCheckpoint, *, referee: str, run: str, digest: str, witnesses: Sequence[str] | None
) -> str:
    """Return the beacon of a run from its witnesses' signatures: SHA-256, hex.

    Args:
        witnesses: The keys that the configuration names; None: any witnesses, as a curator accepts them.

    Raises:
        Forged, BadMessage: If the signatures are not those of all these witnesses, and of no others, on the run's first
            :data:`ROUND` entries.
    """
    checkpoint = words.verified(referee)
    if (checkpoint.run, checkpoint.configuration, checkpoint.entries) != (run, digest, ROUND):
        raise Forged(
            f"the beacon's words are not about the first {ROUND} entries of this run: {checkpoint.entries} of "
            f"{checkpoint.run!r}"
        )
    statements = words.seen()
    if not statements or len(statements) != len(words.witnessed):
        raise Forged("the beacon has one word of each witness, and of one witness at least")
    if witnesses is not None and statements.keys() != set(witnesses):
        raise Forged("the beacon's words are not those of the witnesses that the run's configuration names")
    signatures = {signed.key: signed.signature for signed in words.witnessed}
    return hashlib.sha256(canonical.encode(signatures)).hexdigest()
