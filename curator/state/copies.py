"""Copies of a curator's ledger: made while it works, and put back without giving anybody a fresh budget."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from common.core import canonical
from common.core import folder as files
from common.core.database import VERSION_TABLE, copy_sqlite, opened_copy, place_for_copy
from common.core.durable import durable_key, hold, user_state, write_durably
from common.core.errors import BadData, BadInput, BadMessage, BrokenLedger
from common.crypto.identity import Identity
from common.log.entries import Head, signed_head
from common.log.ledger import CLOSED, HEAD, KEY, LEDGER, SAMPLE, Chain, read_head
from common.log.witness import FileWitness, Witness, behind

_LEDGER = frozenset({VERSION_TABLE, "entries"})
_CONTRIBUTED = frozenset({VERSION_TABLE, "invited", "kept", "withdrawn"})
"""Tables of the databases."""
BESIDE = (KEY, "secret.key", "order.key", "claim.json", "people", "public-people")
"""Files without which a ledger is of no use; those that there are go with it. Weights are computed again."""
CONTRIBUTIONS = "contributions"
"""Directory of what people contributed."""
SEALED = tuple(f"{CONTRIBUTIONS}/{name}" for name in ("contributions.sqlite", "offer.json", "hpke.key", "token"))
"""What is in it. It goes with the ledger once the run has begun: until then a copy could bring back what is withdrawn.
"""


def backup(state: Path, copy: Path) -> Head:
    """Copy a curator's ledger and keys, also while it is at work; return the copy's head.

    Args:
        state: The curator's state directory.
        copy: A directory that does not exist, or is empty; made with mode 0700, since it holds the curator's secrets.

    Raises:
        BadInput: If there is no ledger, or the place is taken.
        BrokenLedger: If the ledger is none.
    """
    if not (state / LEDGER).exists() or not (state / KEY).exists():
        raise BadInput(f"{state} is not a curator's state directory: it has no ledger")
    place_for_copy(copy)
    copy_sqlite(state / LEDGER, copy / LEDGER)
    with closing(Chain(copy / LEDGER)) as chain:
        begun = any(entry.kind == SAMPLE for entry in chain.entries)
    for name in (*BESIDE, *(SEALED if begun else ())):  # what has begun is changed no more
        _take(state, copy, name)
    return _write_head(copy)


def restore(copy: Path, state: Path, witnesses: Sequence[Witness] = (), *, close: bool = False) -> Head:
    """Put a copy in the place of a ledger that was lost; return its head.

    The copy is taken as it is only where it is shown to be the newest: its head is the one beside the lost ledger, and
    the one of every witness that it has had. Otherwise something may have been released that it does not know of.

    Args:
        copy: As :func:`backup` makes it.
        state: The state directory: one that does not exist, is empty, or is the one that was copied, whose ledger, if
            there is one, is kept as ``ledger.sqlite.replaced``.
        witnesses: Those of the ledger.
        close: Take a copy also if it is not shown to be the newest, and count the whole budget as spent: what was
            released may be asked for again, nothing more.

    Raises:
        BrokenLedger: If the copy is not shown to be the newest, and is not to be closed; nothing was changed.
        BadInput: If another process works on the directory, it holds anything else, or the copy is none.
    """
    if not (copy / LEDGER).exists() or not (copy / KEY).exists():
        raise BadInput(f"{copy} is no copy of a curator's ledger: give a directory that curator backup has made")
    _check_place(copy, state)
    _checked_doubt(copy, state, witnesses, close=close)  # before a directory is made
    with closing(hold(state)):
        doubt = _checked_doubt(copy, state, witnesses, close=close)
        if (state / LEDGER).exists():
            (state / LEDGER).replace(state / f"{LEDGER}.replaced")
        for name in (LEDGER, *BESIDE, *SEALED):
            _take(copy, state, name)
        for stale in state.glob("weights-*"):
            stale.unlink()
        if doubt:
            with closing(Chain(state / LEDGER)) as chain:
                chain.append(CLOSED, {"why": f"the ledger was put back from a copy: {doubt}"})
        return _write_head(state)


def _check_place(copy: Path, state: Path) -> None:
    """Refuse to put a copy where anything else is, or onto itself."""
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
    with closing(Chain(copy / LEDGER)) as chain:
        doubt = _doubt(chain, Identity.load_or_create(copy / KEY), state, witnesses)
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
    """Say why a copy may not be the newest; None if it is shown to be."""
    named = {str(entry.body["place"]) for entry in chain.entries if entry.kind == "witness"}
    missing = named - {witness.place for witness in witnesses}
    if missing:
        return f"the copy's witness {min(missing)} was not asked (give it with --witness)"
    seen: list[tuple[str, Head]] = []
    if (state / HEAD).exists():
        seen.append((f"the file {state / HEAD}", read_head(state / HEAD, identity.public)))
    for witness in witnesses:
        last = witness.last()
        if last is None:
            return f"the witness {witness.place} knows nothing of this ledger"
        seen.append((f"the witness {witness.place}", last))
    if not seen:
        return "no head of this ledger is left, neither beside it nor at a witness"
    other = next(((who, head) for who, head in seen if head != chain.head()), None)
    return None if other is None else behind(*other, chain.head())


def _write_head(folder: Path) -> Head:
    with closing(Chain(folder / LEDGER)) as chain:
        head = chain.head()
    signed = signed_head(Identity.load_or_create(folder / KEY), head)
    write_durably(folder / HEAD, canonical.encode(signed.wire()), mode=0o600)
    return head


def check_copy(copy: Path) -> None:
    """Check that what is to be put back is a copy's files and nothing else: none runs code, is a link, or is too large.

    Raises:
        NotFound, BadData: Naming the file that is another one.
    """
    if not files.present(copy, LEDGER) or not files.present(copy, KEY):
        return  # nothing to be put back, as :func:`restore` says
    for name in BESIDE:
        if name == KEY or files.present(copy, name):
            files.read(Path(name), files.KEY, copy)
    if files.present(copy, CONTRIBUTIONS):
        for name in SEALED[1:]:
            if files.present(copy, name):
                files.read(Path(name), files.KEY, copy)
        if files.present(copy, SEALED[0]):
            with opened_copy(copy, SEALED[0], files.CONTRIBUTIONS, _CONTRIBUTED):
                pass
    values = 0
    with opened_copy(copy, LEDGER, files.LEDGER, _LEDGER) as connection:
        for (body,) in connection.execute("SELECT CAST(body AS BLOB) FROM entries"):
            try:
                values += canonical.check_shape(body or b"")
            except BadMessage as error:
                raise BadData(f"an entry of {copy / LEDGER} cannot be read: {error.detail}") from None
            if values > 4 * canonical.MOST:
                raise BadData(f"{copy / LEDGER} holds more than {4 * canonical.MOST:,} values: no ledger has as many")
