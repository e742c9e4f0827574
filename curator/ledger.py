"""The curator's ledger: a charge is on disk before its operation runs, and a result before it is released.

Entries of the journal: ``open`` gives the budget to a run; ``charge`` has the referee's signed request and its event;
``result`` has the release; ``acknowledgement`` records that the referee received the ledger so far; ``answer`` has a
consumer's signed question to a stream and its label; ``share`` names the beacon to which the curator has opened its
share of the order. All other state is derived from them in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from common.core import canonical
from common.core import folder as files
from common.core.database import VERSION_TABLE, opened_copy, place_for_copy
from common.core.durable import durable_key, hold, sync_folder, user_state, write_durably
from common.core.errors import BadData, BadInput, BadMessage, BrokenLedger
from common.core.values import Value
from common.crypto.identity import Identity, Signed
from common.log.entries import Entry, Extension, Head, signed_head
from common.log.ledger import CLOSED, HEADS, KEY, LEDGER, REMEDY, SAMPLE, Chain, Journal, read_head
from common.log.witness import FileWitness, Witness, behind, last_head
from common.net.messages import Acknowledgement, Perform, PointQuestion, Spent
from common.privacy.events import Event, NoEvent, parse_event

OPEN, SHARE, CHARGE, RESULT, ACKNOWLEDGEMENT = "open", "share", "charge", "result", "acknowledgement"
ANSWER = "answer"


@dataclass
class ChargedOperation:
    """One charged operation; operations are in the order of their charges.

    Attributes:
        operation: The JSON form of the request with all defaults filled in; its randomness is derived from it.
        entries: The ledger's length just after the result.
    """

    request: Signed
    operation: dict[str, Any]
    event: Event
    result: dict[str, Any] | None = None
    entries: int = 0

    def __post_init__(self) -> None:
        self.perform = Perform.parse(self.request.message)

    @property
    def operation_id(self) -> str:
        return self.perform.operation_id


class Holder(Value):
    """The run that holds the budget, the digests of its configuration and policy, and the referee that opened it.

    ``spent`` is what the data set's people have spent over all runs, this one included; None if that is not counted.
    ``people`` is the head of the ledger of people after that charge.
    """

    run: str
    digest: str
    policy: str
    referee: str
    spent: Spent | None = None
    people: Head | None = None


class Ledger:
    """Charges and results of the one run that holds the curator's budget; entries are on disk before in memory.

    Attributes:
        acknowledged: How many entries the referee has countersigned after its last request; 0 if none.
        answers: Consumers' questions to a stream, each with its label; None if the teachers did not agree enough.
        beacon: The value of the beacon to which the curator's share of the order was opened; None before that.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._charges: dict[str, ChargedOperation] = {}
        self.answers: list[tuple[PointQuestion, int | None]] = []
        self.events: list[Event] = []
        self.holder: Holder | None = None
        self.acknowledged = 0
        self.beacon: str | None = None
        self._opened = 0
        for number, entry in journal.chain.numbered():
            self._enter(entry, number)

    def __iter__(self) -> Iterator[ChargedOperation]:
        return iter(self._charges.values())

    def find(self, operation_id: str) -> ChargedOperation | None:
        return self._charges.get(operation_id)

    def unfinished(self) -> ChargedOperation | None:
        """Return the charge whose operation has not finished; only the last one can be."""
        last = next(reversed(self._charges.values()), None)
        return last if last is not None and last.result is None else None

    def open_run(self, holder: Holder) -> None:
        body = holder.wire()
        if holder.people is None:
            del body["people"]  # the form without it, so that a seeded run stays the same
        self._append(OPEN, body)

    def charge(self, request: Signed, operation: dict[str, Any], event: Event) -> ChargedOperation:
        self._append(CHARGE, {"request": request.wire(), "operation": operation, "event": event.wire()})
        return next(reversed(self._charges.values()))

    def finish(self, operation_id: str, result: dict[str, Any]) -> None:
        self._append(RESULT, {"operation_id": operation_id, "result": result})

    def answer(self, signed: Signed, label: int | None) -> None:
        self._append(ANSWER, {"request": signed.wire(), "label": label})

    def acknowledge(self, signed: Signed) -> None:
        """Durably store the referee's acknowledgement, unless an earlier one already covers as many entries."""
        if Acknowledgement.parse(signed.message).seen.entries > self.acknowledged:
            self._append(ACKNOWLEDGEMENT, {"acknowledgement": signed.wire()})

    def open_share(self, beacon: str, signed: Signed) -> None:
        """Durably record the beacon to which the share of the order is opened, with the request."""
        self._append(SHARE, {"beacon": beacon, "request": signed.wire()})

    def opening(self) -> Extension:
        return self.journal.chain.extension(0, self._opened)

    def since(self, head: Head, charge: ChargedOperation) -> Extension:
        return self.journal.chain.extension(head.entries, charge.entries)

    def _append(self, kind: str, body: dict[str, Any]) -> None:
        head = self.journal.append(kind, body)
        self._enter(self.journal.chain.entries[-1], head.entries)

    def _enter(self, entry: Entry, number: int) -> None:
        body = entry.body
        try:
            if entry.kind == OPEN:
                self.holder, self._opened = Holder.parse(body), number
            elif entry.kind == CHARGE:
                charge = ChargedOperation(Signed.parse(body["request"]), body["operation"], parse_event(body["event"]))
                self._charges[charge.operation_id] = charge
                if not isinstance(charge.event, NoEvent):
                    self.events.append(charge.event)
            elif entry.kind == RESULT:
                charge = self._charges[body["operation_id"]]
                charge.result, charge.entries = body["result"], number
            elif entry.kind == ANSWER:
                self.answers.append((PointQuestion.parse(body["request"]["message"]), body["label"]))
            elif entry.kind == SHARE:
                self.beacon = str(body["beacon"])
            elif entry.kind == ACKNOWLEDGEMENT:
                self.acknowledged = Acknowledgement.parse(body["acknowledgement"]["message"]).seen.entries
        except (KeyError, TypeError, BadMessage):
            raise BrokenLedger(f"entry {number} of the ledger ({entry.kind}) cannot be read") from None


def verify_ledger(state: Path, witnesses: Sequence[Witness] = ()) -> dict[str, Any]:
    """Verify a ledger against its head and its witnesses; return its extent."""
    chain = _chain(state)
    identity = Identity.load_or_create(state / KEY)
    if not (state / HEADS).exists():
        raise BrokenLedger(f"the ledger's head {state / HEADS} is gone. {REMEDY}")
    heads = _heads(state, identity.public, witnesses)
    for who, head in heads:
        if head is None:
            raise BrokenLedger(f"{who} knows nothing of this ledger. {REMEDY}")
        if not chain.holds(head):
            raise BrokenLedger(f"{behind(who, head, chain.head())}. {REMEDY}")
    closed = next((str(e.body["why"]) for e in chain.entries if e.kind == CLOSED), None)
    return {"curator": identity.public, **chain.head().wire(), "agreed": [who for who, _ in heads], "closed": closed}


def _heads(state: Path, key: str, witnesses: Sequence[Witness]) -> list[tuple[str, Head | None]]:
    """Return the heads of a ledger that its head file and its witnesses have, each with its origin."""
    file_heads = [(f"the file {state / HEADS}", read_head(state / HEADS, key))] if (state / HEADS).exists() else []
    return [*file_heads, *((f"the witness {witness.place}", last_head(witness)) for witness in witnesses)]


def entry_summaries(state: Path) -> list[dict[str, Any]]:
    """Return short descriptions of the entries of a ledger with a valid chain, oldest first, without hypotheses."""
    numbered = _chain(state).numbered()
    return [{"entry": number, "kind": entry.kind, **_entry_details(entry)} for number, entry in numbered]


def _chain(state: Path) -> Chain:
    chain = Chain(state / LEDGER)
    if not len(chain) or not (state / KEY).exists():
        raise BadInput(f"{state} is not a curator's state directory: it has no ledger")
    return chain


def _entry_details(entry: Entry) -> dict[str, Any]:
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
    if entry.kind == ANSWER:
        return {"consumer": body["request"]["key"]}
    return dict(body)


_CONTRIBUTED = frozenset({VERSION_TABLE, "invited", "kept", "withdrawn"})  # tables of the databases
COPIED_FILES = (KEY, "secret.key", "order.key", "claim.json", "people", "public-people")
"""Files without which a ledger is useless; those that exist are copied with it. Weights are computed again."""
CONTRIBUTIONS = "contributions"  # directory of what people contributed
SEALED = tuple(f"{CONTRIBUTIONS}/{name}" for name in ("contributions.sqlite", "offer.json", "hpke.key", "token"))
"""Its files. They are copied with the ledger only after the run has begun: an earlier copy could restore what people
withdrew later.
"""


def backup(state: Path, copy: Path) -> Head:
    """Copy a curator's ledger and keys, also while it runs; return the copy's head. BadInput if there is no ledger."""
    _chain(state)  # raises if it cannot be read
    place_for_copy(copy)
    _copy_file(state, copy, LEDGER)
    chain = Chain(copy / LEDGER)
    started = any(entry.kind == SAMPLE for entry in chain.entries)
    for name in (*COPIED_FILES, *(SEALED if started else ())):  # contributions do not change after the run has begun
        _copy_file(state, copy, name)
    return _write_head(copy, chain.head())


def restore(copy: Path, state: Path, witnesses: Sequence[Witness] = (), *, close: bool = False) -> Head:
    """Replace a lost ledger by a copy; return its head.

    The copy is accepted unchanged only if it is shown to be the newest: its head equals the one beside the lost ledger
    and the one of every witness that it had. Otherwise there may have been releases that are not in the copy.

    Args:
        state: The state directory: one that does not exist, is empty, or is the one that was copied. If it has a
            ledger, that is kept as ``ledger.jsonl.replaced``.
        close: Accept a copy even if it is not shown to be the newest, and count the whole budget as spent. Earlier
            releases may then be requested again, but nothing more.

    Raises:
        BrokenLedger: If the copy is not shown to be the newest, and ``close`` is not set; nothing was changed.
        BadInput: If another process uses the directory, it contains anything else, or ``copy`` is no copy.
    """
    if not len(Chain(copy / LEDGER)) or not (copy / KEY).exists():
        raise BadInput(f"{copy} is no copy of a curator's ledger: give a directory that curator backup has made")
    _check_place(copy, state)
    _checked_doubt(copy, state, witnesses, close=close)  # before a directory is made
    with closing(hold(state)):
        doubt = _checked_doubt(copy, state, witnesses, close=close)
        copied = state / f"{LEDGER}.copied"
        write_durably(copied, (copy / LEDGER).read_bytes(), mode=0o600)  # the old one stays until this one is complete
        if doubt:  # before the file can be used as the ledger
            Chain(copied).append(CLOSED, {"why": f"the ledger was put back from a copy: {doubt}"})
        if (state / LEDGER).exists():
            (state / LEDGER).replace(_unused_path(state / f"{LEDGER}.replaced"))
        copied.replace(state / LEDGER)
        sync_folder(state)
        for name in (*COPIED_FILES, *SEALED):
            _copy_file(copy, state, name)
        for stale in state.glob("weights-*"):
            stale.unlink()
        return _write_head(state, Chain(state / LEDGER).head())


def _unused_path(path: Path) -> Path:
    """Return the path, or one with a number appended, at which no file exists, so that earlier files are kept."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(candidate for candidate in numbered if not candidate.exists()) if path.exists() else path


def _check_place(copy: Path, state: Path) -> None:
    if not state.exists():
        return
    if state.resolve() == copy.resolve():
        raise BadInput(f"{state} is the copy itself: name the state directory that it is to be put into")
    if not state.is_dir():
        raise BadInput(f"{state} is no directory: name a state directory, or a new one")
    names = {path.name for path in state.iterdir()}
    if names - {"lock"} and not names & {LEDGER, HEADS, KEY}:
        raise BadInput(
            f"{state} is not empty, and no curator's state directory: nothing was put there; name a new directory, "
            f"an empty one, or the one that was copied"
        )
    try:
        other = KEY in names and durable_key(state / KEY) != durable_key(copy / KEY)
    except BadInput:
        other = False  # a damaged key is also restored
    if other:
        raise BadInput(
            f"{state} has the key of another party: nothing was put there; name the directory that was copied, or a "
            f"new one"
        )


def _checked_doubt(copy: Path, state: Path, witnesses: Sequence[Witness], *, close: bool) -> str | None:
    """Return why a copy may not be the newest, or None if it is; raise BrokenLedger if in doubt without ``close``."""
    doubt = _doubt(Chain(copy / LEDGER), Identity.load_or_create(copy / KEY), state, witnesses)
    if doubt and not close:
        raise BrokenLedger(
            f"{doubt}. What was released since counts as spent, and how much that is cannot be known: find a newer "
            f"copy, or give --close, which counts the whole budget as spent"
        )
    return doubt


def _copy_file(source: Path, target: Path, name: str) -> None:
    if (source / name).exists():
        (target / name).parent.mkdir(exist_ok=True, mode=0o700)
        write_durably(target / name, (source / name).read_bytes(), mode=0o600)


def people_witnesses(copy: Path) -> list[Witness]:
    """Return this user's ledger of people as a witness of a copy's curator, if it has seen that curator."""
    if not (copy / KEY).exists():
        return []
    path = user_state() / "people" / "heads" / Identity.load_or_create(copy / KEY).public
    return [FileWitness(path)] if path.exists() else []


def _doubt(chain: Chain, identity: Identity, state: Path, witnesses: Sequence[Witness]) -> str | None:
    places = {str(entry.body["place"]) for entry in chain.entries if entry.kind == "witness"}
    missing = places - {witness.place for witness in witnesses}
    if missing:
        return f"the copy's witness {min(missing)} was not asked (give it with --witness)"
    heads = _heads(state, identity.public, witnesses)
    for who, head in heads:
        if head != chain.head():
            return f"{who} knows nothing of this ledger" if head is None else behind(who, head, chain.head())
    return None if heads else "no head of this ledger is left, neither beside it nor at a witness"


def _write_head(folder: Path, head: Head) -> Head:
    signed = signed_head(Identity.load_or_create(folder / KEY), head)
    write_durably(folder / HEADS, canonical.encode(signed.wire()) + b"\n", mode=0o600)
    return head


def check_copy(copy: Path) -> None:
    """Raise BadData unless the directory has only files of a copy: none may run code, be a link, or be too large."""
    if not files.present(copy, LEDGER) or not files.present(copy, KEY):
        return  # there is nothing to restore, as :func:`restore` reports
    for name in (*COPIED_FILES, *SEALED[1:]):
        if name == KEY or files.present(copy, name):
            files.read(Path(name), files.KEY, copy)
    if files.present(copy, SEALED[0]):
        with opened_copy(copy, SEALED[0], files.CONTRIBUTIONS, _CONTRIBUTED):
            pass
    values = 0
    for line in files.read(Path(LEDGER), files.LEDGER, copy).splitlines():
        try:
            values += canonical.check_shape(line)
        except BadMessage as error:
            raise BadData(f"an entry of {copy / LEDGER} cannot be read: {error.detail}") from None
        if values > 4 * canonical.MOST:
            raise BadData(f"{copy / LEDGER} holds more than {4 * canonical.MOST:,} values: no ledger has as many")
