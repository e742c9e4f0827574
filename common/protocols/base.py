"""What a protocol asks of its scenarios and of both sides, for those who carry no protocol out.

The referee's protocol holds itself to the pattern that is declared here, and a curator that agreed to a scenario takes
no operation that the pattern does not have. Both rest on one declaration, and a curator needs no code of the referee.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, SerializeAsAny

from common.core.errors import BadInput
from common.core.registry import Registry, Vocabulary
from common.core.values import Value
from common.data.distributions.base import Distribution
from common.protocols.patterns import Pattern


@dataclass(frozen=True)
class Demands:
    """What a protocol asks for.

    Attributes
    ----------
    pattern
        Who may say what, in which order.
    reweighs
        The curator's sample is reweighed, on which the bound on the divergence rests. If not, the curator learns once,
        and all agents test what was learned.
    portfolio
        It judges several models and their repairs; the scenario may say how it spends.
    claims
        A theorem says how accurate its answer is, for a sample, rounds and a learner that are large enough
        (``mode: realizable``). If not, no size is too small: what the agents' answers show holds for any.
    transfers
        Its answer is a model of the curator's people that is meant for the population: a portfolio may judge it.
    further
        Operations of a kind beyond one a round, by kind.
    several_tasks
        It learns several things about the same people, if the scenario names them.
    alone
        What remains of the pattern for a side whose other side is left out: by ``curator`` and ``agents``.
    answers
        What an agent's answer says: a ``value`` in [0, 1], or a ``bit``; None: the problem decides.
    """

    pattern: Pattern
    reweighs: bool = True
    portfolio: bool = False
    claims: bool = True
    transfers: bool = False
    further: Mapping[str, int] = field(default_factory=dict)
    several_tasks: bool = False
    alone: Mapping[str, Pattern] = field(default_factory=dict)
    answers: Literal["value", "bit"] | None = None


DEMANDS: Registry[Demands] = Registry("protocol's demands", __name__)
USUAL = "subsample-test-reweigh"


def demands_of(protocol: str) -> Demands:
    """Return what a protocol asks for; the usual, if there is none of that name: who runs it refuses it."""
    return DEMANDS[protocol if protocol in DEMANDS.names() else USUAL]


def pattern_of(protocol: str, alone: str | None = None) -> Pattern:
    """Return a protocol's message pattern, or what remains of it for a side that is alone.

    Raises
    ------
    BadInput
        If there is no such protocol, or nothing remains of it.
    """
    if protocol not in DEMANDS.names():
        raise BadInput(
            f"protocol {protocol!r} declares no pattern; known: {', '.join(DEMANDS.names())}. A package that adds a "
            f"protocol declares its pattern by an entry point in the group tandem.demands"
        )
    demands = DEMANDS[protocol]
    if alone is None:
        return demands.pattern
    if alone not in demands.alone:
        raise BadInput(f"nothing remains of protocol {protocol!r} for {alone} alone")
    return demands.alone[alone]


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
