"""What every problem can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from common.core.registry import Vocabulary
from common.core.values import Value
from common.data.distributions.base import Distribution


class Problem(Value):
    """What a protocol of the hybrid model is to find out, as public numbers, in a frozen value.

    The problem says which features of a record mean what, and what a right answer is; how many people a guarantee takes
    is in :mod:`common.planning.problems`. Curator and agents have people of the same distribution.
    """

    name: str

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of features of a record."""

    @abstractmethod
    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        """Return what only a simulation can know of an answer: ``correct``, and the numbers that say why.

        Parameters
        ----------
        answer
            Its JSON form.
        alpha
            The scenario's accuracy.
        people
            What T is.

        Raises
        ------
        BadMessage
            If the answer is not one to this problem.
        BadScenario
            If the truth about such people is not known.
        """


PROBLEMS: Vocabulary[Problem] = Vocabulary("problem", __name__, "name")
AnyProblem = Annotated[SerializeAsAny[Problem], BeforeValidator(PROBLEMS.accept)]
"""A field of a value that holds any registered problem."""
