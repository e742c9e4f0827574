"""Settings for where runs are charged to real people, given by the user who starts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from common.core.errors import BadScenario
from common.data.tables import TableSource
from common.scenario.scenario import ResolvedScenario

if TYPE_CHECKING:  # simulated people are not charged, and their hosts load neither tables nor databases
    import polars

Side = Literal["source", "target"]


@dataclass(frozen=True, eq=False, repr=False)
class GivenPeople:
    """People who were given as a frame instead of by the files that a scenario names.

    ``frame`` has their rows as columns of text; ``named``: its column names are meaningful; ``apart``: the rows of one
    table were assigned to the two sides at random.
    """

    frame: polars.DataFrame
    named: bool = True
    id_column: str | None = None
    files: tuple[Path, ...] = ()
    apart: bool = False


@dataclass(frozen=True)
class Charging:
    """Where runs are charged to real people; simulated people are not charged.

    Attributes:
        folder: The ledger of people; None: this user's own.
        ephemeral: Do not charge: for experiments on public records.
        frames: The people of a side, as frames; by default they are read from the scenario's files.
        both: Whether the people of both sides are available, so that a run is checked for both.
    """

    folder: Path | None = None
    ephemeral: bool = False
    witnesses: tuple[str, ...] = ()
    frames: Mapping[Side, GivenPeople] = field(default_factory=dict)
    both: bool = False

    def charges(self, scenario: ResolvedScenario, side: Side) -> bool:
        """Return whether the people on a side of a run are charged: people of a table are, unless ``ephemeral``."""
        if scenario.people == "simulated":
            return False
        if self.ephemeral and not scenario.experiment:
            raise BadScenario(
                "people are real: a run without charges is for experiments on public records only; leave out "
                "--ephemeral, or say experiment: true if that is what these are"
            )
        return not self.ephemeral and table_of(scenario, side) is not None


USERS_OWN = Charging()  # charge runs in this user's ledger of people


def table_of(scenario: ResolvedScenario, side: Side) -> TableSource | None:
    """Return the table of a side's people, None if they are simulated."""
    return scenario.source.table if side == "source" else scenario.target.table
