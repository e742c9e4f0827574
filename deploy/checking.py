"""The one question whether a scenario and its data can be run, which every command asks before anything is charged.

Each party refuses by functions of its own what it would not take; here all are asked, in the order of a run.
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
MOST_PEOPLE = 1 << 20  # where so many people of the curator do not help, the reason is another one


def checked(asked: Scenario) -> ResolvedScenario:
    """Return the resolved scenario: what can be planned and simulated, whatever the curator's budget is.

    BadScenario if no protocol has that name, its problem is another, the learner refuses its settings, or planning
    fails.
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
    """Return the resolved scenario, if all parties take it, as far as its public numbers tell; no table is read.

    BadScenario as :func:`checked`, and if the curator's learner cannot learn from such samples. BadInput or
    BudgetExceeded if the curator's budget does not hold what is planned.
    """
    chosen = checked(asked)
    check_parties(chosen)
    return chosen


def acceptable_of(with_people: Callable[[int], Scenario], n: int, too_few: str) -> ResolvedScenario:
    """Return the resolved scenario of n people of the curator; if they are too few, say how many would do.

    BadScenario, BadInput or BudgetExceeded as :func:`acceptable`; where more people help, with a number that does.
    ``too_few`` says that n are too few, in the words of who counts them.
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
        why = "" if "kappa" in error.detail else f" ({error.detail})"  # who counts rows has chosen no kappa
    bad, good = n, min(2 * n, MOST_PEOPLE)
    while good < MOST_PEOPLE and not holds(good):
        bad, good = good, min(2 * good, MOST_PEOPLE)
    raise BadScenario(f"{too_few}: {narrowed(holds, bad, good, 0.02):,} would do{why}")


def check_parties(chosen: ResolvedScenario) -> None:
    """Refuse what a party would refuse of a resolved scenario, as :func:`acceptable` does."""
    parse_resolved(chosen.wire())  # what was planned may be larger than a run admits
    with in_range():
        check_policy(chosen, check_beginning(chosen))


def check_people(chosen: ResolvedScenario, sides: Collection[Side] = ("S", "T")) -> None:
    """Refuse tables that their parties could not read, by reading them as they do; nothing is kept.

    Contributions are checked one by one as they come, and are in nobody's folder. Raises the first BadScenario
    or BadData that a run would raise.
    """
    folder = data_folder(chosen) if sides else None
    wanted = {"S": (chosen.source, chosen.curator.n), "T": (chosen.target, chosen.agents.count)}
    for side in sides:
        people, size = wanted[side]
        if people.table is not None and not people.table.contributed:
            open_records(people, folder and folder.absolute() if side == "S" else folder, 0, size)
    if "S" in sides and chosen.public is not None and chosen.public.table is not None:
        with in_range():
            check_policy(chosen, check_beginning(chosen), public_sample(chosen, 0))


def check_lifetimes(chosen: ResolvedScenario, charging: Charging) -> None:
    """Refuse a run whose people, all of them at hand, have spent too much (BudgetExceeded); nothing is charged."""
    if charging.charges(chosen, "source"):
        with TemporaryDirectory() as empty:  # where nobody was charged before there is no ledger, and none is begun
            begun = PeopleLedger(charging.folder).folder.exists()
            account = Account(
                replace(charging, both=True, folder=charging.folder if begun else Path(empty) / "people"),
                chosen,
                "source",
            )
            account.identify()
            account.check("")


def check_ids(chosen: ResolvedScenario, sides: Collection[Side]) -> None:
    """Refuse tables by whose ids their people cannot be told apart, as a run does that charges them."""
    folder = data_folder(chosen)
    for side in sides:
        table = table_of(chosen, "source" if side == "S" else "target")
        if table is not None and table.id is not None and folder is not None and chosen.people != "simulated":
            Digester(secrets.token_bytes(32)).people_of(table, folder)  # of contributions there are no files


def refusal(chosen: ResolvedScenario, tables: Collection[Side] = ()) -> TandemError | None:
    """Return the error with which a run of a resolved scenario would end before anything is charged; None if none.

    ``tables``: whose tables are read; of T's keeper alone, nothing is asked about the curator.
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
