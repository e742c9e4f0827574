"""One party's account of its people: whether they may take part in a run, and what they are charged."""

from dataclasses import replace
from fractions import Fraction

from common.core.errors import BadScenario, BrokenLedger
from common.lifetime.charging import Charging, GivenPeople, Side, table_of
from common.lifetime.ledger import Charge, PeopleLedger
from common.lifetime.recognition import Digester, People
from common.log.entries import Head
from common.log.ledger import REMEDY, Journal
from common.log.witness import Witness
from common.net.messages import Spent
from common.privacy.rounding import above
from common.scenario.scenario import ResolvedScenario, data_folder
from common.scenario.sections import Lifetime


class Account:
    """The people of one side of a run in the ledger of people."""

    def __init__(self, charging: Charging, scenario: ResolvedScenario, side: Side) -> None:
        self._charging = charging
        self._ledger = PeopleLedger(charging.folder, charging.witnesses)
        self._scenario = scenario
        self._side: Side = side
        self._people: People | None = None
        self._other_side: list[tuple[Charge, People]] = []

    def identify(self, data: GivenPeople | None = None) -> None:
        """Read and digest the people's rows, and for a curator also those of the population, if these are available."""
        digester = self._ledger.digester()
        self._people = self._read(digester, self._side, data)
        together = self._side == "source" and self._charging.both and not self._scenario.shares_a_file
        if together and table_of(self._scenario, "target") is not None:
            self._other_side = [(self._charge("target"), self._read(digester, "target"))]

    def check(self, party: str) -> Spent:
        """Return what the people will have spent after the run; raises if they may not take part."""
        charge = replace(self._charge(self._side), party=party)
        return self._ledger.check([(charge, self._require_people()), *self._other_side])[0]

    def attach(self, journal: Journal, *, head: Head | None, opened: bool) -> None:
        """Add the ledger of people as a witness of a curator's ledger; for a new one, check that they may take part."""
        curator = journal.identity.public
        if opened and not self._ledger.knows(curator):
            raise BrokenLedger(
                f"the ledger of people {self._ledger.folder} does not know of this curator's run: name the one that it "
                f"was opened with (--ledger). {REMEDY}"
            )
        if head is not None:
            self._ledger.check_head(head)
        journal.add_witness(self._ledger.witness(curator), opened=opened)
        if not opened:
            self.check(curator)

    def witness(self, party: str) -> Witness:
        return self._ledger.witness(party)

    def charge(self, party: str, digest: str) -> tuple[Spent, Head]:
        charge = replace(self._charge(self._side), party=party, digest=digest)
        beside = [(replace(other, digest=digest), people) for other, people in self._other_side]
        return self._ledger.charge(charge, self._require_people(), beside)

    def _charge(self, side: Side) -> Charge:
        data = self._charging.frames.get(side)
        return replace(charge_of(self._scenario, side), apart=data is not None and data.apart)

    def _require_people(self) -> People:
        if self._people is None:
            raise AssertionError("people are identified before they are charged")
        return self._people

    def _read(self, digester: Digester, side: Side, data: GivenPeople | None = None) -> People:
        table, folder = table_of(self._scenario, side), data_folder(self._scenario)
        data = data or self._charging.frames.get(side)
        if data is not None:
            return digester.people([data.frame], data.files, named=data.named, id_column=data.id_column)
        if table is None or folder is None:
            raise BadScenario("a table needs the directory of its files: give the scenario's key data")
        return digester.people_of(table, folder)


def charge_of(scenario: ResolvedScenario, side: Side) -> Charge:
    """Return the charge of a run for the people on a side.

    If both sides read the same file, a row may be on either side: it is charged as by
    :func:`common.privacy.guarantee.together`, with the curator's people, within both sides' lifetime budgets.
    """
    curator, agents = scenario.curator, scenario.agents
    epsilon, delta = agents.cost
    lifetime = curator.lifetime if side == "source" or agents.lifetime is None else agents.lifetime
    if side == "source":
        shared = scenario.shares_a_file
        if curator.epsilon is None or curator.delta is None:
            raise BadScenario("people are real: the curator needs an epsilon and a delta")
        if shared:
            epsilon = above(Fraction(curator.epsilon) + Fraction(epsilon))
            delta = above(Fraction(curator.delta) + Fraction(delta))
            limits = [each for each in (curator.lifetime, agents.lifetime) if each is not None]
            if limits:  # both limits hold
                lifetime = Lifetime(epsilon=min(x.epsilon for x in limits), delta=min(x.delta for x in limits))
        else:
            epsilon, delta = curator.epsilon, curator.delta
    return Charge(
        side=side,
        party="",
        scenario=scenario.name,
        people=curator.n if side == "source" else agents.count,
        epsilon=epsilon,
        delta=delta,
        lifetime=lifetime,
        experiment=scenario.experiment,
        both=side == "source" and scenario.shares_a_file,
        labels=side == "source" and curator.guarantee.protects == "labels",
    )
