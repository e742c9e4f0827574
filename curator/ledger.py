"""The curator's ledger: what was charged is on disk before anything runs; what was computed, before anything leaves.

Entries of the journal: ``open`` gives the budget to a run, ``charge`` holds the referee's signed request and its event,
``result`` what was released, ``acknowledgement`` that the referee received the last of it; ``answer`` a consumer's
signed question to a stream and its label; ``share`` to which beacon the curator has opened its share of the order.
Everything else follows from them, in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from common.core import canonical
from common.core import folder as files
from common.core.database import VERSION_TABLE, opened_copy, place_for_copy
from common.core.durable import durable_key, hold, sync_folder, user_state, write_durably
from common.core.errors import BadData, BadInput, BadMessage, BrokenLedger
from common.core.values import Value
from common.crypto.identity import Identity, Signed
from common.log.entries import Entry, Extension, Head, signed_head
from common.log.ledger import CLOSED, HEAD, KEY, LEDGER, REMEDY, SAMPLE, Chain, Journal, read_head
from common.log.witness import FileWitness, Witness, behind, last_head
from common.net.messages import Acknowledgement, Perform, PointQuestion, Spent
from common.privacy.events import Event, NoEvent, parse_event

OPEN, SHARE, CHARGE, RESULT, ACKNOWLEDGEMENT = "open", "share", "charge", "result", "acknowledgement"
ANSWER = "answer"


@dataclass
class ChargedOperation:
    """One operation in the order it was charged.

    Attributes:
        operation: The JSON form of what it asks for, all defaults filled in: an operation's randomness is derived from
            it.
        entries: How long the ledger was when the result was in it.
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


class StreamAnswer(NamedTuple):
    """A point that was asked of a stream, and its label; None: the teachers did not agree enough."""

    point: tuple[float, ...]
    label: int | None


class Holder(Value):
    """The run that holds the budget, the digests of its configuration and policy, and the referee that opened it.

    ``spent`` is what the data set's people have spent over all runs, this one included; None where nobody counts.
    ``people`` is the head of the ledger of people after that charge.
    """

    run: str
    digest: str
    policy: str
    referee: str
    spent: Spent | None = None
    people: Head | None = None


class Ledger:
    """Charges and results of the one run that holds the curator's budget. Each line is on disk before it is here.

    Attributes:
        acknowledged: How many entries the referee has countersigned after its last request; 0 if none.
        beacon: The value of the beacon to which the curator's share of the order was opened; None while it is not.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._charges: dict[str, ChargedOperation] = {}
        self.answers: list[StreamAnswer] = []
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
            del body["people"]  # as it was before there was any: a seeded run stays the same
        self._append(OPEN, body)

    def charge(self, request: Signed, operation: dict[str, Any], event: Event) -> ChargedOperation:
        """Record a charge, durably first; return it."""
        self._append(CHARGE, {"request": request.wire(), "operation": operation, "event": event.wire()})
        return next(reversed(self._charges.values()))

    def finish(self, operation_id: str, result: dict[str, Any]) -> None:
        self._append(RESULT, {"operation_id": operation_id, "result": result})

    def answer(self, signed: Signed, label: int | None) -> None:
        """Store the label with which a stream answers a question, durably first."""
        self._append(ANSWER, {"request": signed.wire(), "label": label})

    def acknowledge(self, signed: Signed) -> None:
        """Store the referee's acknowledgement, durably first; one that says no more than another is left out."""
        if Acknowledgement.parse(signed.message).seen.entries > self.acknowledged:
            self._append(ACKNOWLEDGEMENT, {"acknowledgement": signed.wire()})

    def open_share(self, beacon: str, signed: Signed) -> None:
        """Note to which beacon the share of the order is opened, durably first; the request is kept with it."""
        self._append(SHARE, {"beacon": beacon, "request": signed.wire()})

    def opening(self) -> Extension:
        return self.journal.chain.extension(0, self._opened)

    def since(self, seen: Head, charge: ChargedOperation) -> Extension:
        return self.journal.chain.extension(seen.entries, charge.entries)

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
                asked = PointQuestion.parse(body["request"]["message"])
                self.answers.append(StreamAnswer(asked.point, body["label"]))
            elif entry.kind == SHARE:
                self.beacon = str(body["beacon"])
            elif entry.kind == ACKNOWLEDGEMENT:
                self.acknowledged = Acknowledgement.parse(body["acknowledgement"]["message"]).seen.entries
        except (KeyError, TypeError, BadMessage):
            raise BrokenLedger(f"entry {number} of the ledger ({entry.kind}) cannot be read") from None


def verify_ledger(state: Path, witnesses: Sequence[Witness] = ()) -> dict[str, Any]:
    """Check a ledger against its head and its witnesses; return how far it goes."""
    chain = _chain(state)
    identity = Identity.load_or_create(state / KEY)
    if not (state / HEAD).exists():
        raise BrokenLedger(f"the ledger's head {state / HEAD} is gone. {REMEDY}")
    seen = _heads(state, identity.public, witnesses)
    for who, head in seen:
        if head is None:
            raise BrokenLedger(f"{who} knows nothing of this ledger. {REMEDY}")
        if not chain.holds(head):
            raise BrokenLedger(f"{behind(who, head, chain.head())}. {REMEDY}")
    closed = next((str(e.body["why"]) for e in chain.entries if e.kind == CLOSED), None)
    return {"curator": identity.public, **chain.head().wire(), "agreed": [who for who, _ in seen], "closed": closed}


def _heads(state: Path, key: str, witnesses: Sequence[Witness]) -> list[tuple[str, Head | None]]:
    """Return what a ledger's head and its witnesses have seen of it, and who that is."""
    beside = [(f"the file {state / HEAD}", read_head(state / HEAD, key))] if (state / HEAD).exists() else []
    return [*beside, *((f"the witness {witness.place}", last_head(witness)) for witness in witnesses)]


def listed(state: Path) -> list[dict[str, Any]]:
    """Return the entries of a ledger whose chain holds, oldest first, each in a few words; no hypothesis is shown."""
    numbered = _chain(state).numbered()
    return [{"entry": number, "kind": entry.kind, **_words(entry)} for number, entry in numbered]


def _chain(state: Path) -> Chain:
    chain = Chain(state / LEDGER)
    if not len(chain) or not (state / KEY).exists():
        raise BadInput(f"{state} is not a curator's state directory: it has no ledger")
    return chain


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
    if entry.kind == ANSWER:
        return {"consumer": body["request"]["key"]}
    return dict(body)


_CONTRIBUTED = frozenset({VERSION_TABLE, "invited", "kept", "withdrawn"})  # tables of the databases
BESIDE = (KEY, "secret.key", "order.key", "claim.json", "people", "public-people")
"""Files without which a ledger is of no use; those that there are go with it. Weights are computed again."""
CONTRIBUTIONS = "contributions"  # directory of what people contributed
SEALED = tuple(f"{CONTRIBUTIONS}/{name}" for name in ("contributions.sqlite", "offer.json", "hpke.key", "token"))
"""What is in it. It goes with the ledger once the run has begun: until then a copy could bring back what is withdrawn.
"""


def backup(state: Path, copy: Path) -> Head:
    """Copy a curator's ledger and keys, also while it is at work; return the copy's head (BadInput: there is none)."""
    _chain(state)  # which can be read
    place_for_copy(copy)
    _take(state, copy, LEDGER)
    chain = Chain(copy / LEDGER)
    begun = any(entry.kind == SAMPLE for entry in chain.entries)
    for name in (*BESIDE, *(SEALED if begun else ())):  # what has begun is changed no more
        _take(state, copy, name)
    return _write_head(copy, chain.head())


def restore(copy: Path, state: Path, witnesses: Sequence[Witness] = (), *, close: bool = False) -> Head:
    """Put a copy in the place of a ledger that was lost; return its head.

    The copy is taken as it is only where it is shown to be the newest: its head is the one beside the lost ledger, and
    the one of every witness that it has had. Otherwise something may have been released that it does not know of.

    Args:
        state: The state directory: one that does not exist, is empty, or is the one that was copied, whose ledger, if
            there is one, is kept as ``ledger.jsonl.replaced``.
        close: Take a copy also if it is not shown to be the newest, and count the whole budget as spent: what was
            released may be asked for again, nothing more.

    Raises:
        BrokenLedger: If the copy is not shown to be the newest, and is not to be closed; nothing was changed.
        BadInput: If another process works on the directory, it holds anything else, or the copy is none.
    """
    if not len(Chain(copy / LEDGER)) or not (copy / KEY).exists():
        raise BadInput(f"{copy} is no copy of a curator's ledger: give a directory that curator backup has made")
    _check_place(copy, state)
    _checked_doubt(copy, state, witnesses, close=close)  # before a directory is made
    with closing(hold(state)):
        doubt = _checked_doubt(copy, state, witnesses, close=close)
        copied = state / f"{LEDGER}.copied"
        write_durably(copied, (copy / LEDGER).read_bytes(), mode=0o600)  # the old one stays until this one is whole
        if doubt:  # before it can be taken for the ledger
            Chain(copied).append(CLOSED, {"why": f"the ledger was put back from a copy: {doubt}"})
        if (state / LEDGER).exists():
            (state / LEDGER).replace(_unused(state / f"{LEDGER}.replaced"))
        copied.replace(state / LEDGER)
        sync_folder(state)
        for name in (*BESIDE, *SEALED):
            _take(copy, state, name)
        for stale in state.glob("weights-*"):
            stale.unlink()
        return _write_head(state, Chain(state / LEDGER).head())


def _unused(path: Path) -> Path:
    """Return a path, or one with a number behind its name, at which nothing lies: what was kept before stays."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in numbered if not each.exists()) if path.exists() else path


def _check_place(copy: Path, state: Path) -> None:
    if not state.exists():
        return
    if state.resolve() == copy.resolve():
        raise BadInput(f"{state} is the copy itself: name the state directory that it is to be put into")
    if not state.is_dir():
        raise BadInput(f"{state} is no directory: name a state directory, or a new one")
    found = {path.name for path in state.iterdir()}
    if found - {"lock"} and not found & {LEDGER, HEAD, KEY}:
        raise BadInput(
            f"{state} is not empty, and no curator's state directory: nothing was put there; name a new directory, "
            f"an empty one, or the one that was copied"
        )
    try:
        other = KEY in found and durable_key(state / KEY) != durable_key(copy / KEY)
    except BadInput:
        other = False  # a key that was damaged is put back, too
    if other:
        raise BadInput(
            f"{state} has the key of another party: nothing was put there; name the directory that was copied, or a "
            f"new one"
        )


def _checked_doubt(copy: Path, state: Path, witnesses: Sequence[Witness], *, close: bool) -> str | None:
    """Return why a copy may not be the newest, None if it is shown to be; refuse it if it is not to be closed."""
    doubt = _doubt(Chain(copy / LEDGER), Identity.load_or_create(copy / KEY), state, witnesses)
    if doubt and not close:
        raise BrokenLedger(
            f"{doubt}. What was released since counts as spent, and how much that is cannot be known: find a newer "
            f"copy, or give --close, which counts the whole budget as spent"
        )
    return doubt


def _take(source: Path, target: Path, name: str) -> None:
    if (source / name).exists():
        (target / name).parent.mkdir(exist_ok=True, mode=0o700)
        write_durably(target / name, (source / name).read_bytes(), mode=0o600)


def known_to_people(copy: Path) -> list[Witness]:
    """Return this user's ledger of people as a witness of a copy's curator, if it has seen that curator."""
    if not (copy / KEY).exists():
        return []
    path = user_state() / "people" / "heads" / Identity.load_or_create(copy / KEY).public
    return [FileWitness(path)] if path.exists() else []


def _doubt(chain: Chain, identity: Identity, state: Path, witnesses: Sequence[Witness]) -> str | None:
    named = {str(entry.body["place"]) for entry in chain.entries if entry.kind == "witness"}
    missing = named - {witness.place for witness in witnesses}
    if missing:
        return f"the copy's witness {min(missing)} was not asked (give it with --witness)"
    seen = _heads(state, identity.public, witnesses)
    for who, head in seen:
        if head != chain.head():
            return f"{who} knows nothing of this ledger" if head is None else behind(who, head, chain.head())
    return None if seen else "no head of this ledger is left, neither beside it nor at a witness"


def _write_head(folder: Path, head: Head) -> Head:
    signed = signed_head(Identity.load_or_create(folder / KEY), head)
    write_durably(folder / HEAD, canonical.encode(signed.wire()), mode=0o600)
    return head


def check_copy(copy: Path) -> None:
    """Refuse (BadData) what is no copy's files and nothing else: none runs code, is a link, or is too large."""
    if not files.present(copy, LEDGER) or not files.present(copy, KEY):
        return  # nothing to be put back, as :func:`restore` says
    for name in (*BESIDE, *SEALED[1:]):
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
