"""Where runs are charged to real people, as who starts them says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from common.core.errors import BadScenario
from common.data.tables import TableSource
from common.scenario.scenario import ResolvedScenario

if TYPE_CHECKING:  # simulated people are charged nowhere, and their hosts load neither tables nor databases
    import polars

Side = Literal["source", "target"]


@dataclass(frozen=True, eq=False, repr=False)
class GivenPeople:
    """People as they were handed over, where that is not by the files that a scenario names.

    ``frame`` has their rows as columns of text, with names that mean something if it is ``named``; ``apart``: chance
    has shared out the rows of one table between the two sides.
    """

    frame: polars.DataFrame
    named: bool = True
    id_column: str | None = None
    files: tuple[Path, ...] = ()
    apart: bool = False


@dataclass(frozen=True)
class Charging:
    """Where runs are charged to real people; simulated ones have nothing to protect.

    Attributes:
        folder: The ledger of people; None: this user's own.
        ephemeral: Charge nobody: for experiments on records that are public.
        given: The people of a side as they were handed over; by default they are read from the scenario's files.
        both: Whether the people of both sides are at hand, so that a run is checked for both.
    """

    folder: Path | None = None
    ephemeral: bool = False
    witnesses: tuple[str, ...] = ()
    given: Mapping[Side, GivenPeople] = field(default_factory=dict)
    both: bool = False

    def charges(self, scenario: ResolvedScenario, side: Side) -> bool:
        """Tell whether the people on a side of a run are charged: those of a table, unless nobody is to be."""
        if scenario.people == "simulated":
            return False
        if self.ephemeral and not scenario.experiment:
            raise BadScenario(
                "people are real: a run without charges is for experiments on public records only; leave out "
                "--ephemeral, or say experiment: true if that is what these are"
            )
        return not self.ephemeral and table_of(scenario, side) is not None


USERS_OWN = Charging()  # runs are charged in this user's ledger of people


def table_of(scenario: ResolvedScenario, side: Side) -> TableSource | None:
    """Return the table that a side's people are of, None where they are simulated."""
    return scenario.source.table if side == "source" else scenario.target.table
