"""Learn from the agents alone: gradient descent in the local model, one coordinate and one answer per agent."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.local.answers import Answers, AskAgents
from common.local.hypotheses.linear import Linear
from common.local.mechanisms.mechanism import Mechanism
from common.local.queries.gradient import GradientQuery
from common.local.queries.loss import LossQuery
from common.protocols.steps import Progress
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import at_once, estimate_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script
from referee.protocols.examples import small_ball

MIN_PER_COORDINATE = 400
"""Agents per coordinate and step, at least: below that a step is mostly noise."""
MAX_STEPS = 30
TESTED = 0.1
"""Share of the agents kept for estimating the loss of the result."""


@PROTOCOLS.register("local-gradient-descent")
class LocalGradientDescent(Protocol):
    """Logistic regression without a curator: the baseline that the hybrid model must beat.

    Interactive local-model gradient descent (Smith, Thakurta and Upadhyay 2017; Duchi, Jordan and Wainwright 2013): in
    each step fresh agents answer one randomized bit about one coordinate of the gradient at their record. Every agent
    answers once, so each has the mechanism's guarantee, whatever d is; but d + 1 coordinates share the agents, and the
    error of a step grows as sqrt((d + 1) / agents) / epsilon. Returns the average of the second half of the iterates.
    There is no threshold to halt at: the status is ``exhausted``.
    """

    title = "Local gradient descent"
    done = "nothing: it has no level and no gap to stop at, and ends exhausted"
    pattern = pattern_of("local-gradient-descent")
    bears_liars = True

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return a small scenario about a ball."""
        return (small_ball("protocol=local-gradient-descent"),)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Repeat w <- w - step * estimated gradient; then estimate the loss of the averaged w."""
        d, norm = scenario.target.dimension, scenario.target.norm
        if not math.isfinite(norm):
            raise BadScenario("local gradient descent needs records of bounded norm: give the target a public norm")
        # |slope| <= 1: no coordinate of a gradient is greater than the record's, or than the intercept's.
        bound = max(1.0, scenario.target.coordinate)
        count = scenario.agents.count
        learning = int(count * (1.0 - TESTED))
        at_once(count - learning, alike=True)
        steps = max(1, min(MAX_STEPS, learning // (MIN_PER_COORDINATE * (d + 1))))
        iterate, total = np.zeros(d + 1), np.zeros(d + 1)
        # The logistic loss is (norm^2 + 1)/4-smooth in (w, b) on records of that norm.
        stride = 4.0 / (norm**2 + 1.0)
        for step in range(1, steps + 1):
            gradient = yield from _gradient(iterate, bound, learning // steps, scenario.agents.value_mechanism)
            iterate = iterate - stride * gradient
            if 2 * step > steps:
                total += iterate
            yield Progress(f"step {step}", {"round": step, "rounds": steps})
        hypothesis = _linear(total)
        found = yield from estimate_mean(LossQuery(hypothesis=hypothesis), scenario, count - learning, 1)
        reason = f"all {steps} steps were used"
        return Outcome("exhausted", steps, hypothesis, found.estimate, reason, heard=found.heard)


def _gradient(iterate: Floats, bound: float, count: int, mechanism: Mechanism) -> Generator[AskAgents, Answers, Floats]:
    """Estimate each coordinate of the gradient from the agents whose slot asked for it."""
    width = len(iterate)
    answers = yield AskAgents(GradientQuery(hypothesis=_linear(iterate), bound=bound), at_once(count))
    coordinate = answers.slots % width
    sums = np.bincount(coordinate, weights=mechanism.unbias(answers.values), minlength=width)
    counts = np.bincount(coordinate, minlength=width)
    # A coordinate about which nobody answered stays where it is: its slope is taken as 0.
    means = np.divide(sums, counts, out=np.full(width, 0.5), where=counts > 0)
    return np.asarray((2.0 * means - 1.0) * bound)


def _linear(parameters: Floats) -> Linear:
    return Linear(weights=tuple(float(w) for w in parameters[:-1]), threshold=float(parameters[-1]))
