"""What every problem can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, SerializeAsAny

from common.core.registry import Vocabulary
from common.core.values import Value
from common.people.distributions.base import Distribution
from common.planning.planned_values import PlannedValue

if TYPE_CHECKING:
    from common.scenario.scenario import Scenario


class Problem(Value):
    """What a protocol of the hybrid model is to find out, as public numbers, in a frozen value.

    The problem says which features of a record mean what, how many people a guarantee takes, and what a right answer
    is. Curator and agents have people of the same distribution.
    """

    name: str
    releases: ClassVar[dict[str | None, int]] = {}
    """Among how many releases the curator's epsilon is divided, by the side that is alone; one by default."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of features of a record."""

    @abstractmethod
    def plan(self, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return every number of a run: ``n``, ``agents``, and settings of the curator's learner, by name.

        Parameters
        ----------
        paper
            Whether to compute as the paper does.

        Raises
        ------
        BadScenario, BadInput
            If there is no such number: says what would have to change.
        """

    @abstractmethod
    def judge(self, answer: dict[str, Any], scenario: Scenario, people: Distribution) -> dict[str, Any]:
        """Return what only a simulation can know of an answer: ``correct``, and the numbers that say why."""


PROBLEMS: Vocabulary[Problem] = Vocabulary("problem", "common.scenario.problems", "name")
AnyProblem = Annotated[SerializeAsAny[Problem], BeforeValidator(PROBLEMS.accept)]
"""A field of a value that holds any registered problem."""
