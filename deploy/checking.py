"""Check whether a scenario and its data can be run; every command does so before anything is charged.

Each party has its own functions that refuse what it does not accept; here all are called, in the order of a run.
"""

import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from common.core.errors import BadInput, BadScenario, BudgetExceeded, TandemError
from common.data.population import open_records
from common.learners.base import LearnerSettings
from common.lifetime.account import Account
from common.lifetime.charging import Charging, table_of
from common.lifetime.ledger import PeopleLedger
from common.lifetime.recognition import Digester
from common.numerics.bisection import narrowed
from common.scenario.accepting import accepted, in_range
from common.scenario.scenario import ResolvedScenario, Scenario, data_folder, parse_resolved, public_sample
from curator.learners.base import parse_learner
from curator.startup import check_policy, check_room
from referee.protocols.base import check_problem
from referee.protocols.driver import check_beginning

Side = Literal["S", "T"]
MOST_PEOPLE = 1 << 20  # if so many people of the curator do not suffice, their number is not the reason


def checked(asked: Scenario) -> ResolvedScenario:
    """Return the resolved scenario if it can be planned and simulated, whatever the curator's budget is.

    BadScenario if no protocol has that name, the protocol does not fit the problem, the learner refuses its settings,
    or planning fails.
    """
    try:
        check_problem(asked)
    except BadInput as error:
        raise BadScenario(error.detail) from None
    if isinstance(asked.curator.learner, LearnerSettings):
        parse_learner(asked.curator.learner)
    chosen = accepted(asked)
    if chosen.curator.learner is not None:
        parse_learner(chosen.curator.learner)
    check_beginning(chosen)
    return chosen


def acceptable(asked: Scenario) -> ResolvedScenario:
    """Return the resolved scenario if all parties accept it, judged by its public numbers; no table is read.

    BadScenario as for :func:`checked`, and if the curator's learner cannot learn from such samples. BadInput or
    BudgetExceeded if the curator's budget does not cover the plan.
    """
    chosen = checked(asked)
    check_parties(chosen)
    return chosen


def acceptable_of(with_people: Callable[[int], Scenario], n: int, too_few: str) -> ResolvedScenario:
    """Return the resolved scenario for n people of the curator; if they are too few, report a sufficient number.

    BadScenario, BadInput or BudgetExceeded as for :func:`acceptable`; if more people help, with a sufficient number.
    ``too_few`` is the caller's text that n are too few.
    """

    def holds(people: int) -> bool:
        try:
            acceptable(with_people(people))
        except TandemError:
            return False
        return True

    try:
        return acceptable(with_people(n))
    except (BadInput, BudgetExceeded) as error:
        if n >= MOST_PEOPLE or not holds(MOST_PEOPLE):
            raise
        why = "" if "kappa" in error.detail else f" ({error.detail})"  # a user with a table has chosen no kappa
    bad, good = n, min(2 * n, MOST_PEOPLE)
    while good < MOST_PEOPLE and not holds(good):
        bad, good = good, min(2 * good, MOST_PEOPLE)
    raise BadScenario(f"{too_few}: {narrowed(holds, bad, good, 0.02):,} would do{why}")


def check_parties(chosen: ResolvedScenario) -> None:
    """Refuse a resolved scenario that a party would refuse, as :func:`acceptable` does."""
    parse_resolved(chosen.wire())  # the planned numbers may be larger than a run admits
    with in_range():
        check_policy(chosen, check_beginning(chosen))


def check_people(chosen: ResolvedScenario, sides: Collection[Side] = ("S", "T")) -> None:
    """Refuse tables that their parties could not read, by reading them as the parties do; nothing is kept.

    Raises the first BadScenario or BadData that a run would raise. Contributions are not read: they are checked one by
    one as they arrive, and are in no folder.
    """
    folder = data_folder(chosen) if sides else None
    sources = {"S": (chosen.source, chosen.curator.n), "T": (chosen.target, chosen.agents.count)}
    for side in sides:
        people, size = sources[side]
        if people.table is not None and not people.table.contributed:
            open_records(people, folder and folder.absolute() if side == "S" else folder, 0, size)
    if "S" in sides and chosen.public is not None and chosen.public.table is not None:
        with in_range():
            check_policy(chosen, check_beginning(chosen), public_sample(chosen, 0))


def check_lifetimes(chosen: ResolvedScenario, charging: Charging) -> None:
    """Refuse a run whose people, all of them at hand, have spent too much (BudgetExceeded); nothing is charged."""
    if charging.charges(chosen, "source"):
        with TemporaryDirectory() as empty:  # without earlier charges there is no ledger, and none is created
            begun = PeopleLedger(charging.folder).folder.exists()
            account = Account(
                replace(charging, both=True, folder=charging.folder if begun else Path(empty) / "people"),
                chosen,
                "source",
            )
            account.identify()
            account.check("")


def check_ids(chosen: ResolvedScenario, sides: Collection[Side]) -> None:
    """Refuse tables whose ids do not identify their people, as a run does that charges them."""
    folder = data_folder(chosen)
    for side in sides:
        table = table_of(chosen, "source" if side == "S" else "target")
        if table is not None and table.id is not None and folder is not None and chosen.people != "simulated":
            Digester(secrets.token_bytes(32)).people_of(table, folder)  # contributions have no files


def refusal(chosen: ResolvedScenario, tables: Collection[Side] = ()) -> TandemError | None:
    """Return the error with which a run of a resolved scenario would end before anything is charged; None if none.

    ``tables``: the sides whose tables are read; for T alone, the curator is not checked.
    """
    try:
        if "S" in tables or not tables:
            check_parties(chosen)
        if tables:
            check_room(chosen, Path())
        check_people(chosen, tables)
        check_ids(chosen, tables)
    except TandemError as error:
        return error
    return None
