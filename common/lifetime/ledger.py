"""The people's ledger: what all runs together may have cost the people of a data set, whoever ran them from here.

It lies in the user's state directory, not in a run's folder, so that new folders, estimators and processes all charge
the same one. Each run is charged its whole cap (epsilon_i, delta_i) before anything is released.

*Composition.* A person who is in runs 1..k is protected by (sum epsilon_i, sum delta_i): basic composition (Dwork,
Kenthapadi, McSherry, Mironov and Naor 2006, Theorem 1). It holds also where each run and its cap are chosen after all
results before it, as here (Rogers, Roth, Ullman and Vadhan 2016: the sum is a valid privacy filter), and where runs
overlap in time (Vadhan and Wang 2021). The optimal composition of Kairouz, Oh and Viswanath is smaller, but needs all
caps to be fixed before the first run.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BrokenLedger, BudgetExceeded, CannotWrite
from common.lifetime.recognition import Digests, digests
from common.log.chain import Entry
from common.log.journal import Journal
from common.people.spec import RecordSource
from common.privacy.rounding import up
from common.scenario.sections import Lifetime
from common.wire.messages import Spent
from common.wire.state import durable_secret, hold, make_folder, user_state, write_durably
from common.wire.witness import FileWitness

CHARGED = "charged"


@dataclass(frozen=True)
class Deployment:
    """One curator's run as it is charged to its people.

    Attributes
    ----------
    curator
        The curator's public key: one curator has one budget, and is charged once.
    scenario
        Its name.
    people
        How many there are, n.
    epsilon, delta
        The curator's cap.
    lifetime
        What its people were promised for all of their runs, if anything.
    experiment
        Whether it is one on public records: it is counted, and needs no lifetime budget.
    """

    curator: str
    scenario: str
    people: int
    epsilon: float
    delta: float
    lifetime: Lifetime | None
    experiment: bool


class PeopleLedger:
    """The ledger in a folder. Opened for each use, by one process at a time; others wait.

    Parameters
    ----------
    folder
        None: ``people`` in this user's state directory (:func:`common.wire.state.user_state`).
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or user_state() / "people").absolute()

    def identify(self, people: RecordSource, files: Sequence[Path]) -> Digests:
        """Return who these people are, under this ledger's key.

        Raises
        ------
        BrokenLedger
            If the key is gone: nobody in the ledger would be known again.
        """
        with self._opened():
            key = durable_secret(self.folder / "people.key").words(4).tobytes()
        return digests(people, files, key)

    def witness(self, curator: str) -> FileWitness:
        """Return the witness of a curator's ledger that lies here."""
        folder = self.folder / "heads"
        make_folder(folder, mode=0o700)
        return FileWitness(folder / curator)

    def knows(self, curator: str) -> bool:
        """Tell whether a curator's run was charged here."""
        with self._opened() as journal:
            return any(entry.body["curator"] == curator for entry in _charged(journal))

    def check(self, deployment: Deployment, who: Digests) -> Spent:
        """Return what its people will have spent with a deployment; charges nothing.

        Raises
        ------
        BudgetExceeded
            If they have been in other runs and no lifetime budget holds all of them; says what to write.
        """
        with self._opened() as journal:
            return self._check(journal, deployment, who)

    def charge(self, deployment: Deployment, who: Digests) -> Spent:
        """Charge a deployment to its people, durably, once.

        Raises
        ------
        BudgetExceeded
            As :meth:`check`; nothing is charged then.
        CannotWrite
            If the disk does not take it.
        """
        with self._opened() as journal:
            known = next((e for e in _charged(journal) if e.body["curator"] == deployment.curator), None)
            if known is not None:
                return Spent.parse(known.body["spent"])
            spent = self._check(journal, deployment, who)
            rows = self._keep(who)
            journal.append(
                CHARGED,
                {
                    "curator": deployment.curator,
                    "scenario": deployment.scenario,
                    "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "people": deployment.people,
                    "epsilon": deployment.epsilon,
                    "delta": deployment.delta,
                    "lifetime": None if deployment.lifetime is None else deployment.lifetime.wire(),
                    "experiment": deployment.experiment,
                    "rows": rows,
                    "files": list(who.files),
                    "spent": spent.wire(),
                },
            )
            journal.publish()
            return spent

    def table(self) -> list[dict[str, Any]]:
        """Return every charged run, oldest first, with what its people have spent over all runs by now."""
        with self._opened() as journal:
            entries = _charged(journal)
            found = []
            for entry in entries:
                who = self._who(entry)
                epsilon, delta, runs = self._total(entries, who)
                shown = ("time", "scenario", "people", "epsilon", "delta", "lifetime", "experiment", "curator")
                total = {"runs": runs, "epsilon": epsilon, "delta": delta}
                found.append({**{name: entry.body[name] for name in shown}, "all_runs": total})
            return found

    # Inside ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self) -> Iterator[Journal]:
        try:
            lock = hold(self.folder, wait=True)
        except OSError as error:
            raise CannotWrite(
                f"the ledger of people {self.folder} cannot be used ({error}): make it writable, or name another place "
                f"with --ledger; nothing was charged"
            ) from None
        with closing(lock), closing(Journal(self.folder, {"about": "people"})) as journal:
            if len(journal.chain) > 1 and not (self.folder / "people.key").exists():
                raise BrokenLedger(
                    f"the key {self.folder / 'people.key'} is gone: nobody in the ledger would be known again. Put it "
                    f"back from a copy"
                )
            yield journal

    def _keep(self, who: Digests) -> str:
        """Keep the rows in a file by their digest, before the entry that names it."""
        content = who.rows.astype("<u8").tobytes()
        name = hashlib.sha256(content).hexdigest()
        path = self.folder / "rows" / name
        make_folder(path.parent, mode=0o700)
        try:
            if not path.exists():
                write_durably(path, content, mode=0o600)
        except OSError as error:
            raise CannotWrite(f"the ledger of people cannot be written ({error}); nothing was charged") from None
        return name

    def _who(self, entry: Entry) -> Digests:
        path = self.folder / "rows" / entry.body["rows"]
        if not path.exists():
            raise BrokenLedger(f"{path} is gone, which says who was charged. Put it back from a copy")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != path.name:
            raise BrokenLedger(f"{path} was damaged, which says who was charged. Put it back from a copy")
        return Digests(np.frombuffer(content, dtype="<u8").astype(np.uint64), tuple(entry.body["files"]))

    def _overlap(self, entry: Entry, who: Digests) -> AnyArray:
        """Say of each row whether it is in a run, shape (rows,); all are where both read the same file."""
        if set(entry.body["files"]) & set(who.files):
            return np.ones(len(who.rows), dtype=np.bool_)
        return np.isin(who.rows, self._who(entry).rows, assume_unique=True)

    def _total(self, entries: Sequence[Entry], who: Digests) -> tuple[float, float, int]:
        """Return epsilon and delta of the person who has spent most, and in how many runs any of these people were."""
        runs, patterns = 0, np.zeros(len(who.rows), dtype=np.int64)
        sums = [(Fraction(0), Fraction(0))]
        for entry in entries:
            inside = self._overlap(entry, who)
            if not inside.any():
                continue
            runs += 1
            # Rows with the same runs so far share a pattern, so that sums are exact and few.
            keys, patterns = np.unique(2 * patterns + inside, return_inverse=True)
            cost = Fraction(entry.body["epsilon"]), Fraction(entry.body["delta"])
            before = sums
            sums = [
                (before[k >> 1][0] + (k & 1) * cost[0], before[k >> 1][1] + (k & 1) * cost[1]) for k in keys.tolist()
            ]
        return _rounded(max(pair[0] for pair in sums)), _rounded(max(pair[1] for pair in sums)), runs

    def _check(self, journal: Journal, deployment: Deployment, who: Digests) -> Spent:
        entries = [e for e in _charged(journal) if e.body["curator"] != deployment.curator]
        others = [e for e in entries if self._overlap(e, who).any()]
        before = self._total(others, who)
        epsilon = _rounded(Fraction(before[0]) + Fraction(deployment.epsilon))
        delta, runs = _rounded(Fraction(before[1]) + Fraction(deployment.delta)), before[2]
        spent = Spent(runs=runs + 1, epsilon=epsilon, delta=delta)
        limits = [deployment.lifetime, *(_lifetime(e) for e in others)]
        tight = next((x for x in limits if x is not None and (x.epsilon < epsilon or x.delta < delta)), None)
        asked = {"spent": epsilon - deployment.epsilon, "requested": deployment.epsilon}
        own = f"({deployment.epsilon:g}, {deployment.delta:g})"
        would = f"{_before(others)}; with this run {own} they would have spent ({epsilon:g}, {delta:g}) over all runs"
        if tight is not None:
            raise BudgetExceeded(
                f"{would}, their lifetime budget is ({tight.epsilon:g}, {tight.delta:g}), which no later run can "
                f"raise. Nothing was charged: ask for less, or take other people",
                **asked,
                budget=tight.epsilon,
            )
        if others and all(x is None for x in limits) and not deployment.experiment:
            raise BudgetExceeded(
                f"{would}. Nothing was charged. If they agree to that, say so in the scenario: curator.lifetime: "
                f"{{epsilon: {epsilon!r}, delta: {delta!r}}} (estimators: lifetime=({epsilon!r}, {delta!r})); else "
                f"take other people",
                **asked,
                budget=epsilon - deployment.epsilon,
            )
        return spent


def _charged(journal: Journal) -> list[Entry]:
    return [entry for entry in journal.chain.entries if entry.kind == CHARGED]


def _lifetime(entry: Entry) -> Lifetime | None:
    return None if entry.body["lifetime"] is None else Lifetime.parse(entry.body["lifetime"])


def _before(others: Sequence[Entry]) -> str:
    if not others:
        return "these people were in no run before"
    runs = [
        f"{e.body['scenario']} of {e.body['time'][:16]} ({e.body['epsilon']:g}, {e.body['delta']:g})" for e in others
    ]
    more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
    return f"some of these people were in {len(runs)} run{'s' * (len(runs) > 1)} before: {'; '.join(runs[-3:])}{more}"


def _rounded(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else up(nearest, 0.0)
