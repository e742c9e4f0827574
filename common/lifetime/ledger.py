"""The ledger of people: the total privacy cost of all runs of this user for each person, on either side.

The curator's people are charged its whole cap (epsilon, delta) before anything is released; a host's people are charged
the epsilon of one answer before the first of them is asked. All rows that were read are charged, including those that a
``where`` or a selection leaves out, since a row's guarantee covers that decision, too.

*Composition.* A person who was charged (epsilon_i, delta_i) by charges 1..k, as one of the curator's people or as an
agent, is protected by (sum epsilon_i, sum delta_i): basic composition (Dwork, Kenthapadi, McSherry, Mironov and Naor
2006, Theorem 1). An agent's local randomizer is (epsilon, 0)-differentially private in its record, so it composes as
any other mechanism. The sum also holds if each run and its cap are chosen after all previous results, as here
(Rogers, Roth, Ullman and Vadhan 2016: the sum is a valid privacy filter), and if runs overlap in time (Vadhan and
Wang 2021). The optimal composition of Kairouz, Oh and Viswanath is smaller, but requires all caps to be fixed before
the first run.

:mod:`common.lifetime.recognition` decides which rows are the same person.
"""

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.core.durable import durable_key, hold, make_folder, user_state, write_durably
from common.core.errors import BadInput, BrokenLedger, BudgetExceeded, CannotWrite
from common.lifetime.charging import Side
from common.lifetime.recognition import Digester, People, by_id, recognised
from common.log.entries import Entry, Head
from common.log.ledger import Journal
from common.log.witness import FileWitness
from common.net.client import witness_at
from common.net.messages import Spent
from common.numerics.randomness import durable_secret
from common.privacy.rounding import above, stated
from common.scenario.sections import Lifetime

CHARGED, KEYED = "charged", "key"  # kinds of entries: a charge; the identity of the key for digests
WITNESS = "TANDEM_LEDGER_WITNESS"  # environment variable: a further place where the ledger's heads are stored

WHOSE = {"source": "the curator's people", "target": "the population's people"}
SECTIONS = {"source": "curator", "target": "agents"}
"""The section of a scenario that has the ``lifetime`` of each side's people."""


@dataclass(frozen=True)
class Charge:
    """The charge of one party's run for the people on its side.

    Attributes:
        party: The public key of the curator or host, which is charged once, for its most expensive run: a host's people
            answer in one of its runs, and it is not known beforehand in which.
        lifetime: The lifetime budget that these people were promised, if any.
        experiment: Whether it is an experiment on public records: it is recorded, but needs no lifetime budget.
        both: Whether it also covers the agents' answers, as both sides read the same file.
        apart: Whether every row was assigned to one side of the run at random: then a person pays for one side.
        labels: Whether only labels are protected.
    """

    side: Side
    party: str
    scenario: str
    people: int
    epsilon: float
    delta: float
    lifetime: Lifetime | None
    experiment: bool
    digest: str = ""
    both: bool = False
    apart: bool = False
    labels: bool = False


Paid = tuple[Charge, AnyArray]  # a charge, and for each of n people whether it applies to them, shape (n,)


class PeopleLedger:
    """The ledger of people in a folder; it is opened for each use, by one process at a time, while others wait.

    Its heads are stored in the file ``FOLDER.heads`` beside the folder, in the ledger of each curator that it charges,
    and at the given witnesses: so an older copy of the folder is not accepted as the ledger.

    The ``folder`` is by default ``people`` in this user's state directory. ``witnesses`` are further places for heads,
    in addition to that of the environment variable ``TANDEM_LEDGER_WITNESS``; the ledger stores them.
    """

    def __init__(self, folder: Path | None = None, witnesses: Sequence[str] = ()) -> None:
        self.folder = (folder or user_state() / "people").absolute()
        more = os.environ.get(WITNESS)
        self._places = tuple(dict.fromkeys((*witnesses, *([more] if more else []))))
        self._people_read: dict[tuple[str, str, tuple[str, ...]], People] = {}
        self._recognised: dict[tuple[People, People], AnyArray] = {}

    def digester(self) -> Digester:
        with self._opened():
            return Digester(durable_secret(self._key_file).words(4).tobytes())

    def witness(self, curator: str) -> FileWitness:
        folder = self.folder / "heads"
        make_folder(folder, mode=0o700)
        return FileWitness(folder / curator)

    def knows(self, party: str) -> bool:
        with self._opened() as journal:
            return bool(_entries_of(journal, party))

    def check_head(self, head: Head) -> None:
        """Raise BrokenLedger if this is not the ledger by which a curator was charged, or an older copy of it."""
        with self._opened() as journal:
            if not journal.chain.holds(head):
                raise BrokenLedger(
                    f"the ledger of people {self.folder} was put back to an older copy, or is another one: a curator's "
                    f"ledger has seen {head.entries} entries of it. What was charged since counts as spent: put the "
                    f"newest copy back"
                )

    def check(self, charges: Sequence[tuple[Charge, People]]) -> list[Spent]:
        """Return what a run's people will have spent after its charges, for one side or both; nothing is charged."""
        with self._opened() as journal:
            try:
                journal.chain.check_writable()
            except OSError as error:
                raise self._unusable(error) from None
            return [self._check(journal, charge, who, charges) for charge, who in charges]

    def charge(
        self, charge: Charge, people: People, beside: Sequence[tuple[Charge, People]] = ()
    ) -> tuple[Spent, Head]:
        """Charge people durably, and once; return what they have spent, and the ledger's head.

        If the party was charged less before, or this charge promises a smaller lifetime budget, the rest is charged.
        ``beside`` are the charges of the same run's other side, if its people are available.
        """
        with self._opened() as journal:
            entries = _entries_of(journal, charge.party)
            entry = entries[-1] if entries and _covers(entries, charge) else None
            if entry is None and (covering := _covering_entry(journal, charge)) is not None:
                people = self._uncovered(covering, people)
                entry = None if len(people) else covering
            if entry is not None:
                return Spent.parse(entry.body["spent"]), journal.chain.head()
            spent = self._check(journal, charge, people, [(charge, people), *beside])
            body = asdict(charge) | {
                "epsilon": _remainder(charge.epsilon, entries, "epsilon"),
                "delta": _remainder(charge.delta, entries, "delta"),
                "costs": [charge.epsilon, charge.delta],  # of the run; a part may have been charged before
                "people": min(charge.people, len(people)),
                "lifetime": None if charge.lifetime is None else charge.lifetime.wire(),
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "cells": self._keep(people),
                "id": f"{people.id_name:016x}",
                "files": list(people.files),
                "spent": spent.wire(),
            }
            body["curator"] = body.pop("party")
            journal.append(CHARGED, body)
            journal.publish()
            return spent, journal.chain.head()

    def table(self) -> list[dict[str, Any]]:
        """Return every charged run, oldest first, with the total that its people have spent over all runs.

        A row is about the curator's people, and its value ``agents`` about the agents; values are None for a side that
        was not charged here.
        """
        with self._opened() as journal:
            rows: dict[str, dict[str, Any]] = {}
            for number, entry in enumerate(_charged(journal)):
                body, source = entry.body, entry.body["side"] == "source"
                row = rows.setdefault(body["digest"] or f"{number}", _blank_row(body))
                total = self._total(journal, self._people(entry)).wire()
                epsilon, delta = _costs(body)
                own = {"people": body["people"], "epsilon": epsilon, "delta": delta, "lifetime": body["lifetime"]}
                own |= {"all_runs": total}
                row.update({**own, "curator": body["curator"]} if source else {"agents": own})
            return list(rows.values())

    def spent(self, digest: str) -> dict[Side, Spent]:
        with self._opened() as journal:
            run = [entry for entry in _charged(journal) if entry.body["digest"] == digest]
            return {entry.body["side"]: self._total(journal, self._people(entry)) for entry in run}

    @property
    def _key_file(self) -> Path:
        return self.folder / "people.key"

    @contextmanager
    def _opened(self) -> Iterator[Journal]:
        try:
            lock = hold(self.folder, wait=True)
        except (OSError, BadInput) as error:
            raise self._unusable(error.__context__ or error) from None
        with closing(lock):
            witnesses = [witness_at(place) for place in self._places]
            journal = Journal(self.folder, {"about": "people"}, witnesses, reach=witness_at)
            self._bind(journal)
            yield journal

    def _bind(self, journal: Journal) -> None:
        keyed = next((str(entry.body["key"]) for entry in journal.chain.entries if entry.kind == KEYED), None)
        if not self._key_file.exists() and (keyed is not None or _charged(journal)):
            raise BrokenLedger(
                f"the key {self._key_file} is gone: no person in it would be recognised. Put it back from a copy"
            )
        fingerprint = hashlib.blake2b(durable_key(self._key_file), digest_size=32, person=b"tandem key").hexdigest()
        if keyed is not None and keyed != fingerprint:
            raise BrokenLedger(
                f"the key {self._key_file} is not the one of this ledger: no person in it would be recognised. Put the "
                f"key back from a copy"
            )
        journal.add_witness(FileWitness(self.folder.with_name(f"{self.folder.name}.heads")), opened=keyed is not None)
        if keyed is None:
            journal.append(KEYED, {"key": fingerprint})
            journal.publish()

    def _unusable(self, error: BaseException) -> CannotWrite:
        return CannotWrite(
            f"the ledger of people {self.folder} cannot be used ({error}): make it writable, or name another "
            f"place with --ledger, or for all state in XDG_STATE_HOME; nothing was charged"
        )

    def _keep(self, people: People) -> str:
        content = people.encoded()
        name = hashlib.sha256(content).hexdigest()
        path = self.folder / "rows" / name
        make_folder(path.parent, mode=0o700)
        try:
            if not path.exists():
                write_durably(path, content, mode=0o600)
        except OSError as error:
            raise CannotWrite(f"the ledger of people cannot be written ({error}); nothing was charged") from None
        return name

    def _people(self, entry: Entry) -> People:
        name, id_name, files = key = entry.body["cells"], entry.body["id"], tuple(entry.body["files"])
        if key not in self._people_read:
            path = self.folder / "rows" / name
            content = path.read_bytes() if path.exists() else None
            if content is None or hashlib.sha256(content).hexdigest() != name:
                what = "is gone" if content is None else "was damaged"
                raise BrokenLedger(f"{path} {what}, which says who was charged. Put it back from a copy")
            self._people_read[key] = People.decoded(content, int(id_name, 16), files)
        return self._people_read[key]

    def _mask(self, entry: Entry, people: People) -> AnyArray:
        """Return for each of these people whether a charge applied to them, shape (n,)."""
        members = self._people(entry)
        if (members, people) not in self._recognised:
            self._recognised[members, people] = recognised(members, people)
        return self._recognised[members, people]

    def _uncovered(self, covering: Entry, people: People) -> People:
        members = self._people(covering)
        rest = ~recognised(members, replace(people, files=()))
        return replace(
            people, cells=people.cells[rest], files=tuple(file for file in people.files if file not in members.files)
        )

    def _total(self, journal: Journal, people: People) -> Spent:
        return _sum([(_stored(entry), self._mask(entry, people)) for entry in _charged(journal)])

    def _check(self, journal: Journal, charge: Charge, people: People, run: Sequence[tuple[Charge, People]]) -> Spent:
        """Return what these people will have spent after all charges of a run; BudgetExceeded if that is too much."""
        parties = {each.party for each, _ in run if each.party}
        # A party's own charges count as one, the most expensive; lifetime budgets that it has promised hold, too.
        promised = [_stored(entry).lifetime for entry in _entries_of(journal, charge.party)]
        raised = {each: _raised_charge(each, _entries_of(journal, each.party)) for each, _ in run}
        charge, run = raised[charge], [(raised[each], members) for each, members in run]
        entries = [e for e in _charged(journal) if e.body["curator"] not in parties]
        begun = not any(each.side == "source" for each, _ in run)
        same = [e for e in entries if _of_this_run(e, charge, entries, begun=begun)]
        covering = next((e for e in same if charge.side == "target" and e.body["both"]), None)
        if covering is not None:  # the curator's charge for the common file covers the agents, too
            rest = self._uncovered(covering, people)
            if not len(rest):
                return Spent.parse(covering.body["spent"])
            run, people = [(each, rest if each is charge else members) for each, members in run], rest
        past = [(e, _stored(e), inside) for e in entries if (inside := self._mask(e, people)).any()]
        new = [(each, recognised(members, people)) for each, members in run]
        costs = [(cost, inside) for _, cost, inside in past]
        spent, before = _sum([*costs, *new]), _sum(costs)
        earlier = [(entry, inside) for entry, _, inside in past if entry not in same]
        limits = [charge.lifetime, *promised, *(cost.lifetime for cost, inside in [*costs, *new] if inside.any())]
        repeats = np.any([inside for _, inside in earlier] or [np.zeros(len(people), dtype=np.bool_)], axis=0)
        agreed = np.any([mask for cost, mask in [*costs, *new] if cost.lifetime is not None] or [~repeats], axis=0)
        tight = next(
            (x for x in limits if x is not None and (x.epsilon < spent.epsilon or x.delta < spent.delta)), None
        )
        if tight is None and (charge.experiment or not np.any(repeats & ~agreed)):
            return spent
        words = self._words(charge, people, [e for e, *_ in past], before, spent, [e for e, _ in earlier])
        details = {"spent": before.epsilon, "requested": charge.epsilon}
        if tight is not None:
            raise BudgetExceeded(
                f"{words} Their lifetime budget is {_pair(tight)}, which no later run can raise. "
                f"Nothing was charged: ask for less, or take other people.",
                **details,
                budget=tight.epsilon,
            )
        key, pair = f"{SECTIONS[charge.side]}.lifetime", (spent.epsilon, spent.delta)
        raise BudgetExceeded(
            f"{words} Nothing was charged. If they agree to that, write it into the scenario: {key}: {{epsilon: "
            f"{pair[0]!r}, delta: {pair[1]!r}}} (estimators: lifetime=({pair[0]!r}, {pair[1]!r})); else take others.",
            **details,
            budget=before.epsilon,
        )

    def _words(
        self, charge: Charge, people: People, past: list[Entry], before: Spent, spent: Spent, earlier: list[Entry]
    ) -> str:
        """Return a message: who was recognised and how, what which runs have spent, how to distinguish equal rows."""
        would = f"with this run {_pair(charge)} they would have spent {_pair(spent)}"
        if not earlier:
            both = ", as some rows are, or look the same, on both sides of it" if charge.both or spent.both else ""
            return f"{WHOSE[charge.side].capitalize()}: {would}{both}."
        inside = np.any([self._mask(entry, people) for entry in past], axis=0)
        count = f"{int(inside.sum()):,} of {len(people):,} rows of {WHOSE[charge.side]}"
        runs = "; ".join(_words_of(entry.body) for entry in past[-3:])
        more = f" and {len(past) - 3} more" if len(past) > 3 else ""
        ids = all(by_id(self._people(entry), people) for entry in earlier)
        how = "have the id of" if ids else "look the same as"
        aside = "" if ids else " Rows that look the same count as one person."
        if not ids and not people.id_name:
            aside += (
                f" If these are others, name the column that says who is who: {charge.side}.table.id: COLUMN "
                f"(estimators: options={{'id_column': COLUMN}})."
            )
        return (
            f"{count} {how} rows that were charged before: {runs}{more}. One of them has spent {_pair(before)} so far, "
            f"in {before.runs} run{'s' * (before.runs > 1)}; {would}.{aside}"
        )


def _charged(journal: Journal) -> list[Entry]:
    return [entry for entry in journal.chain.entries if entry.kind == CHARGED]


def _entries_of(journal: Journal, party: str) -> list[Entry]:
    return [entry for entry in _charged(journal) if entry.body["curator"] == party]


def _raised_charge(charge: Charge, entries: Sequence[Entry]) -> Charge:
    """Return a charge, raised to the total that its party was charged before, if that is more."""
    totals = {name: above(sum((Fraction(e.body[name]) for e in entries), Fraction(0))) for name in ("epsilon", "delta")}
    return replace(charge, **{name: max(getattr(charge, name), total) for name, total in totals.items()})


def _covers(entries: Sequence[Entry], charge: Charge) -> bool:
    """Return whether a party's charges cover this one, with a lifetime budget that is at most as large."""
    lifetimes, lifetime = [each for entry in entries if (each := _stored(entry).lifetime) is not None], charge.lifetime
    kept = lifetime is None or any(x.epsilon <= lifetime.epsilon and x.delta <= lifetime.delta for x in lifetimes)
    return (
        kept and not _remainder(charge.epsilon, entries, "epsilon") and not _remainder(charge.delta, entries, "delta")
    )


def _remainder(cost: float, entries: Sequence[Entry], name: str) -> float:
    """Return the part of a cost that remains to be charged after a party's own charges."""
    if cost == float("inf"):
        return cost
    return above(max(Fraction(0), Fraction(cost) - sum(Fraction(entry.body[name]) for entry in entries)))


def _of_this_run(entry: Entry, charge: Charge, entries: Sequence[Entry], *, begun: bool) -> bool:
    """Return whether a charge belongs to the run that is checked.

    A host that starts alone does not know its run yet: the curator's charge for its scenario is assumed to belong to
    its run if no agents were charged for that. The host's final charge names the run.
    """
    digest = entry.body["digest"]
    if charge.digest or charge.side == "source" or not begun:
        return bool(charge.digest) and digest == charge.digest
    sides = {other.body["side"] for other in entries if other.body["digest"] == digest}
    return bool(digest) and sides == {"source"} and entry.body["scenario"] == charge.scenario


def _covering_entry(journal: Journal, charge: Charge) -> Entry | None:
    if charge.side == "source" or not charge.digest:
        return None
    return next((e for e in _charged(journal) if e.body["digest"] == charge.digest and e.body["both"]), None)


def _blank_row(body: dict[str, Any]) -> dict[str, Any]:
    names = ("time", "scenario", "experiment")
    blank = dict.fromkeys(("people", "epsilon", "delta", "lifetime", "curator", "all_runs", "agents"))
    return {name: body[name] for name in names} | blank


def _stored(entry: Entry) -> Charge:
    """Return a stored charge; one without a known run counts as a run of its party alone."""
    body = {**entry.body, "party": entry.body["curator"]}
    charge = Charge(**{name: body[name] for name in Charge.__dataclass_fields__})
    lifetime = None if charge.lifetime is None else Lifetime.parse(charge.lifetime)
    return replace(charge, digest=charge.digest or charge.party, lifetime=lifetime)


def _costs(body: dict[str, Any]) -> tuple[float, float]:
    """Return the epsilon and delta of a charged run, which may be more than was charged by its entry."""
    epsilon, delta = body.get("costs", (body["epsilon"], body["delta"]))
    return float(epsilon), float(delta)


def _words_of(body: dict[str, Any]) -> str:
    epsilon, delta = _costs(body)
    return f"{body['scenario']} of {body['time'][:16]}, {WHOSE[body['side']]} ({stated(epsilon)}, {stated(delta)})"


def _sum(costs: Sequence[Paid]) -> Spent:
    """Return the greatest epsilon and delta that any person has spent, and the number of runs with any of them."""
    met = _one_side_each([(cost, inside) for cost, inside in costs if inside.any()])
    patterns: AnyArray = np.zeros(1 if not met else len(met[0][1]), dtype=np.int64)
    sums = [(Fraction(0), Fraction(0))]
    for cost, inside in met:
        # Rows with the same charges share a pattern, so that there are few sums, which are exact.
        keys, patterns = np.unique(2 * patterns + inside, return_inverse=True)
        before, more = sums, (Fraction(cost.epsilon), Fraction(cost.delta))
        sums = [(before[k >> 1][0] + (k & 1) * more[0], before[k >> 1][1] + (k & 1) * more[1]) for k in keys.tolist()]
    epsilon, delta = (above(max(pair[part] for pair in sums)) for part in (0, 1))
    runs = [cost.digest for cost, _ in met]
    sides = combinations(zip(runs, (inside for _, inside in met), strict=True), 2)
    both = any((one & other).any() for (a, one), (b, other) in sides if a == b)
    labels = any(cost.labels for cost, inside in met if inside.any())
    return Spent(runs=max(1, len(set(runs))), epsilon=epsilon, delta=delta, both=both, labels=labels)


def _one_side_each(costs: Sequence[Paid]) -> list[Paid]:
    """Charge a person who matches rows on both sides of a run with separate sides only for the more expensive side."""
    paid: list[Paid] = []
    for cost, inside in costs:
        other = next((place for place, (each, _) in enumerate(paid) if cost.apart and each.digest == cost.digest), None)
        if other is None:
            paid.append((cost, inside))
            continue
        earlier, mask = paid[other]
        both, labels = mask & inside, cost.labels or earlier.labels
        epsilon, delta = max(cost.epsilon, earlier.epsilon), max(cost.delta, earlier.delta)
        paid[other] = earlier, mask & ~both
        paid += [(replace(cost, epsilon=epsilon, delta=delta, labels=labels), both), (cost, inside & ~both)]
    return paid


def _pair(spent: Spent | Lifetime | Charge) -> str:
    texts = (f"{value:g}" if float(f"{value:g}") == value else repr(value) for value in (spent.epsilon, spent.delta))
    return f"({', '.join(texts)})"
