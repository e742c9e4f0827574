"""What a protocol is: a generator over messages, with a declared message pattern.

A protocol yields :class:`AskCurator`, :class:`AskAgents`, :class:`Together` and :class:`Progress`, receives the answer
to each, and returns an :class:`Outcome`. It is deterministic given its parameters and the answers: resume and audit are
replay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from common.core.errors import BadMessage, PeerMisbehaved
from common.core.registry import Registry
from common.core.values import Value
from common.scenario.scenario import Scenario
from common.statistics.intervals import Estimate
from common.vocabulary.hypotheses.base import Hypothesis, parse_hypothesis
from common.vocabulary.hypotheses.constant import Constant
from common.vocabulary.hypotheses.parity import Parity
from common.vocabulary.steps import AskAgents, AskCurator, Progress, Together
from common.vocabulary.tasks import Task
from referee.protocols.patterns import Pattern


@dataclass(frozen=True)
class Outcome:
    """How a protocol ended.

    ``done``: with its answer; ``exhausted``: all rounds or agents used, the best answer is given.

    Attributes
    ----------
    iterations
        Rounds that were used.
    answer, estimate, reason
        What was found (a hypothesis, but for problems), what the agents say about it, and why it ended there.
    tasks
        Of a protocol that learns several things: how each ended, in order. The rest is then that of the last one, and
        the iterations are those of all.
    """

    status: Literal["done", "exhausted"]
    iterations: int
    answer: Value
    estimate: Estimate | None
    reason: str
    tasks: tuple[Outcome, ...] = ()

    def ended(self, iterations: int, reason: str) -> Outcome:
        """Return this answer as that of a protocol which used up ``iterations`` rounds."""
        return replace(self, iterations=iterations, reason=reason)


Step = AskCurator | AskAgents | Together | Progress
Script = Generator[Step, Any, Outcome]


def learned(release: dict[str, Any], task: Task | None = None) -> Hypothesis:
    """Return the hypothesis in the curator's reply to ``learn``, as one about whole records.

    Raises
    ------
    PeerMisbehaved
        If there is none that can be read, or none that the task can have.
    """
    try:
        hypothesis = parse_hypothesis(release.get("hypothesis"))
        return hypothesis if task is None else task.about(hypothesis)
    except BadMessage as error:
        raise PeerMisbehaved(f"the curator released no acceptable hypothesis: {error.detail}") from None


def learned_parity(release: dict[str, Any], dimension: int) -> Parity | None:
    """Return the parity of so many features in the curator's reply to ``learn``; None if no block answered.

    Raises
    ------
    PeerMisbehaved
        If it is neither.
    """
    hypothesis = learned(release)
    if isinstance(hypothesis, Constant):
        return None
    if not isinstance(hypothesis, Parity) or hypothesis.min_features > dimension:
        raise PeerMisbehaved(f"the curator released no parity of {dimension} features, but a {hypothesis.kind}")
    return hypothesis


MAX_WHOLE = 1 << 53
"""Whole numbers up to here are the same as doubles."""


def whole(release: dict[str, Any], key: str, least: int = -MAX_WHOLE, most: int = MAX_WHOLE) -> int:
    """Return a whole number from ``least`` to ``most`` in the curator's reply.

    Raises
    ------
    PeerMisbehaved
        If there is none.
    """
    value = release.get(key)
    if type(value) is not int or not least <= value <= most:
        raise PeerMisbehaved(f"the curator released no {key}: wanted a whole number from {least} to {most}")
    return value


class Protocol(ABC):
    """A protocol: its name, its pattern, its script."""

    title: ClassVar[str]
    pattern: ClassVar[Pattern]
    problem: ClassVar[str | None] = None
    """Name of the problem that its scenarios have; None: a hypothesis with a small loss."""

    patterns_alone: ClassVar[dict[str, Pattern]] = {}
    """The patterns of runs in which one side is left out, by the side that is alone."""

    @classmethod
    @abstractmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return scenarios of it that run in a fraction of a second, at least one: the contract suite runs the first.

        They may leave numbers at ``plan``.
        """

    def agreed(self, scenario: Scenario) -> Pattern:
        """Return the pattern of a run."""
        return self.pattern if scenario.alone is None else self.patterns_alone[scenario.alone]

    @abstractmethod
    def script(self, scenario: Scenario, public: int) -> Script:
        """Start the protocol for a resolved scenario (no value is left at ``plan``).

        Parameters
        ----------
        public
            Public randomness of the run, below 2^60 (:func:`referee.collection.order.public_randomness`).
        """


PROTOCOLS: Registry[type[Protocol]] = Registry("protocol", "referee.protocols")
