"""Look at a curator's ledger without changing it: verify the chain, list what was charged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from common.core.errors import BadInput, BrokenLedger
from common.log.chain import REMEDY, Chain, Entry
from common.log.journal import CLOSED, HEAD, KEY, LEDGER, read_head
from common.wire.identity import Identity
from common.wire.witness import Witness, behind


def verify_ledger(state: Path, witnesses: Sequence[Witness] = ()) -> dict[str, Any]:
    """Check a ledger against its head and its witnesses; return how far it goes.

    Raises
    ------
    BrokenLedger
        Saying what does not agree, and what to do.
    """
    with closing(_chain(state)) as chain:
        identity = Identity.load_or_create(state / KEY)
        if not (state / HEAD).exists():
            raise BrokenLedger(f"the ledger's head {state / HEAD} is gone. {REMEDY}")
        seen = [(f"the file {state / HEAD}", read_head(state / HEAD, identity.public))]
        for witness in witnesses:
            last = witness.last()
            if last is None:
                raise BrokenLedger(f"the witness {witness.place} knows nothing of this ledger. {REMEDY}")
            seen.append((f"the witness {witness.place}", last))
        for who, head in seen:
            if not chain.holds(head):
                raise BrokenLedger(f"{behind(who, head, chain.head())}. {REMEDY}")
        closed = next((str(e.body["why"]) for e in chain.entries if e.kind == CLOSED), None)
        return {"curator": identity.public, **chain.head().wire(), "agreed": [who for who, _ in seen], "closed": closed}


def listed(state: Path) -> list[dict[str, Any]]:
    """Return the entries of a ledger whose chain holds, oldest first, each in a few words; no hypothesis is shown."""
    with closing(_chain(state)) as chain:
        return [{"entry": number, "kind": entry.kind, **_words(entry)} for number, entry in chain.numbered()]


def _chain(state: Path) -> Chain:
    if not (state / LEDGER).exists() or not (state / KEY).exists():
        raise BadInput(f"{state} is not a curator's state directory: it has no ledger")
    return Chain(state / LEDGER)


def _words(entry: Entry) -> dict[str, Any]:
    body = entry.body
    if entry.kind == "charge":
        request = body["request"]["message"]
        return {
            "operation": request["operation_id"],
            "asks": body["operation"]["kind"],
            "event": body["event"],
            "referee_had_seen": request["seen"]["entries"],
        }
    if entry.kind == "acknowledgement":
        return {"referee_had_seen": body["acknowledgement"]["message"]["seen"]["entries"]}
    if entry.kind == "result":
        return {"operation": body["operation_id"]}
    return dict(body)
