"""One curator's account with its people: whether they may take part, and what is charged to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.core.errors import BadScenario, BrokenLedger
from common.lifetime.ledger import Deployment, PeopleLedger
from common.lifetime.recognition import Digests
from common.log.chain import REMEDY
from common.log.journal import Journal
from common.people.spec import RecordSource
from common.scenario.agreement import data_folder
from common.scenario.resolved import ResolvedScenario
from common.wire.messages import Spent


@dataclass(frozen=True)
class Counting:
    """Where runs are charged to real people; simulated ones have nothing to protect.

    Attributes
    ----------
    folder
        The people's ledger; None: this user's own.
    ephemeral
        Charge nobody: for experiments on records that are public.
    """

    folder: Path | None = None
    ephemeral: bool = False

    def account(self, scenario: ResolvedScenario) -> Account | None:
        """Return the account of a run's people, None where nobody is charged.

        Raises
        ------
        BadScenario
            If nobody is to be charged, and the people are real and no experiment.
        """
        if scenario.people == "simulated":
            return None
        if self.ephemeral:
            if not scenario.experiment:
                raise BadScenario(
                    "people are real: a run that charges nobody is for experiments on public records only; leave out "
                    "--ephemeral, or say experiment: true if that is what these are"
                )
            return None
        return Account(PeopleLedger(self.folder), scenario)


class Account:
    """The people of one curator in the people's ledger.

    Parameters
    ----------
    ledger
        The people's.
    scenario
        Resolved; its curator's cap is what they are charged.
    """

    def __init__(self, ledger: PeopleLedger, scenario: ResolvedScenario) -> None:
        self._ledger = ledger
        self._scenario = scenario
        self._who: Digests | None = None

    def meet(self, people: RecordSource) -> None:
        """Remember who the people are."""
        table = self._scenario.source.table
        folder = data_folder(self._scenario) if table is not None and table.files else None
        files = [] if table is None or folder is None else [folder / file for file in table.files]
        self._who = self._ledger.identify(people, files)

    def attend(self, journal: Journal, *, opened: bool) -> None:
        """Make the people's ledger a witness of a curator's; refuse to begin what they may not take part in.

        Parameters
        ----------
        opened
            Whether the curator's budget belongs to a run already.

        Raises
        ------
        BrokenLedger
            If the people's ledger does not know of a run that was opened, or has seen another ledger of this curator.
        BudgetExceeded
            If the people have spent their budget in other runs.
        """
        curator = journal.identity.public
        if opened and not self._ledger.knows(curator):
            raise BrokenLedger(
                f"the ledger of people {self._ledger.folder} does not know of this curator's run: name the one that it "
                f"was opened with (--ledger). {REMEDY}"
            )
        journal.attend(self._ledger.witness(curator), opened=opened)
        if not opened:
            self._with(self._ledger.check, curator)

    def charge(self, curator: str) -> Spent:
        """Charge the run to its people, once.

        Raises
        ------
        BudgetExceeded, CannotWrite
            As :meth:`common.lifetime.ledger.PeopleLedger.charge`.
        """
        return self._with(self._ledger.charge, curator)

    def _with(self, deed: Callable[[Deployment, Digests], Spent], curator: str) -> Spent:
        section = self._scenario.curator
        if self._who is None or section.epsilon is None or section.delta is None:
            raise AssertionError("real people are met, and have an epsilon and a delta, before they are charged")
        deployment = Deployment(
            curator=curator,
            scenario=self._scenario.name,
            people=section.n,
            epsilon=section.epsilon,
            delta=section.delta,
            lifetime=section.lifetime,
            experiment=self._scenario.experiment,
        )
        return deed(deployment, self._who)
