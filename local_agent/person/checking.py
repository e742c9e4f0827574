"""Whether what an agent has sent is in the transcript of its run, by the referee's proof and a witness's word.

Whoever asks again also has the referee prove that the transcript goes on from where it was the last time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from common.core.errors import Forged, NotFound, PatternViolation
from common.wire.identity import Identity, Signed
from common.wire.primitives.merkle import climbed, extends
from common.wire.receipts import Kept, Proof, ProofRequest, check_receipt
from common.wire.transcript import Entry, check_entry
from local_agent.person.receipts import Held, leaf_of
from local_agent.person.shown import Shown

INCLUDED, OPEN, UNSEEN, LEFT_OUT, OTHER = "included", "open", "not witnessed", "left out", "another history"


class ProvingPort(Protocol):
    """The referee, as far as it proves."""

    def proof(self, signed: Signed) -> Proof:
        """Return the proof for a signed :class:`~common.wire.receipts.ProofRequest`."""
        ...


class SeenPort(Protocol):
    """A witness, as far as anybody may ask it."""

    def key(self) -> str:
        """Return its public key."""
        ...

    def kept(self, referee: str, run: str) -> list[Kept]:
        """Return all that it has seen of a run."""
        ...


@dataclass(frozen=True)
class Finding:
    """What became of one report.

    Attributes
    ----------
    status
        ``included``; ``open``, where the referee says that the question takes answers still, or that no checkpoint is
        behind it yet; ``not witnessed``, where it is included in what the referee shows and the witness has not seen
        that yet; ``left out``, where the referee has signed a receipt and what it shows does not hold the report, or
        is another history than the witness has seen; ``another history``, where it does not go on from what the
        referee has shown before.
    why
        In words.
    witnesses
        Keys of the witnesses that know the transcript in which it is.
    shown
        What the referee has shown, to be kept for the next time; None where it has proven nothing.
    """

    held: Held
    status: str
    why: str
    witnesses: tuple[str, ...] = ()
    shown: Shown | None = None


def check(
    held: Held,
    identity: Identity,
    port: ProvingPort,
    referee: str,
    witness: SeenPort | None = None,
    before: Shown | None = None,
) -> Finding:
    """Ask the referee to prove that a report is in its transcript, and check the proof.

    Parameters
    ----------
    identity
        Of the agent that sent the report.
    referee
        The referee's pinned key.
    witness
        Somebody who has kept checkpoints of the run, and is asked whether the proof leads to one of them.
    before
        What the referee has shown of the run before: what it shows now must go on from there.

    Raises
    ------
    Forged
        If the receipt itself is none of this referee: then it proves nothing.
    PeerError
        If referee or witness do not answer.
    """
    check_receipt(held.receipt, held.report, referee)
    since = None if before is None else before.kept.said(referee).entries
    request = ProofRequest(participant=identity.public, run=held.run, question=held.question, since=since)
    proven = before is not None and held.question in before.questions
    try:
        proof = port.proof(identity.sign(request.KIND, request.wire()))
    except (PatternViolation, NotFound) as error:
        if proven:
            return Finding(held, OTHER, f"the referee has proven this report before, and now says: {error.detail}")
        waits = isinstance(error, PatternViolation) or "ask again later" in error.detail
        return Finding(held, OPEN if waits else LEFT_OUT, error.detail)
    try:
        seen = _checked(held, proof, referee)
        now = Shown(proof.kept, frozenset({held.question, *(() if before is None else before.questions)}))
        if before is not None and (why := _breaks(before.kept, proof, referee)):
            return Finding(held, OTHER, why, seen, now)
        known = witness is None or _known(proof.kept, witness, referee)
    except Forged as error:
        return Finding(held, LEFT_OUT, error.detail)
    why = f"entry {Entry.parse(proof.entry).index} of the transcript"
    return Finding(held, INCLUDED if known else UNSEEN, why, seen, now)


def _breaks(before: Kept, proof: Proof, referee: str) -> str:
    """Say why a proof's checkpoint does not go on from an older one; nothing if it does."""
    old, new = before.said(referee), proof.kept.said(referee)
    was = f"{old.entries} entries that end in {old.hash[:12]}..., and shows"
    if new.entries < old.entries:
        return f"the referee has shown {was} only {new.entries} now"
    path = proof.consistency or ()
    if not extends(old.root, old.entries, new.root, new.entries, path):
        return f"the referee has shown {was} {new.entries} now, which do not begin with those"
    return ""


def _checked(held: Held, proof: Proof, referee: str) -> tuple[str, ...]:
    entry = Entry.parse(proof.entry)
    check_entry(entry, referee)
    if (entry.kind, entry.body.get("question")) != ("answers", held.question):
        raise Forged("the referee proves something about another question")
    leaf = bytes.fromhex(held.leaf) if held.leaf else leaf_of(held.report, bytes.fromhex(proof.body))
    if climbed(leaf, proof.index, proof.reports, proof.path) != entry.body.get("root"):
        raise Forged("the referee's path does not lead from this report to the root of the question")
    said = proof.kept.said(referee)
    if (said.run, said.configuration) != (held.run, held.report.message["digest"]):
        raise Forged("the checkpoint is one of another run")
    if climbed(bytes.fromhex(entry.hash), entry.index, said.entries, proof.entry_path) != said.root:
        raise Forged("the referee's path does not lead from the question's entry to the checkpoint")
    return tuple(proof.kept.seen())


def _known(kept: Kept, witness: SeenPort, referee: str) -> bool:
    """Tell whether a witness has seen the very transcript that the referee shows.

    Raises
    ------
    Forged
        If it has seen another one, of which both cannot be beginnings, or shows what it has not signed.
    """
    key, shown = witness.key(), kept.said(referee)
    for other in witness.kept(referee, shown.run):
        word, known = other.seen(), other.said(referee)
        if key not in word:
            raise Forged("the witness shows what it has not signed")
        if known.entries == shown.entries and known.hash != shown.hash:
            raise Forged(
                f"the witness has seen another history of run {shown.run!r}: {known.entries} entries that end in "
                f"{known.hash[:12]}..., and not in {shown.hash[:12]}..."
            )
        if (known.entries, known.hash) == (shown.entries, shown.hash):
            return True
    return False
