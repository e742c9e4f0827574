"""Learn and test: the curator learns once, the agents say how good it is for the population."""

from __future__ import annotations

from typing import Literal

from common.local.queries.loss import LossQuery
from common.operations.learning import Learn
from common.protocols.steps import Progress
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import ask, at_once, estimate_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script
from referee.protocols.examples import small_ball


@PROTOCOLS.register("learn-and-test")
class LearnAndTest(Protocol):
    """One learner's call on the curator's sample, one test by all agents.

    For learners that account for the difference of S and T themselves, for example by a public sample (private domain
    adaptation, Bassily, Cortes, Mao and Mohri 2024): what they are worth is then a question to T. The estimate is of
    one hypothesis, chosen before any agent answered, so its interval holds as it is. ``exhausted`` if fewer agents
    than ``agents.count`` were there to be asked.
    """

    title = "Learn and test"
    done = (
        "all agents that the scenario wants were asked about one model; no level is tested, and its loss on T may be "
        "large: with probability {sure} at least the stated interval holds that loss among those who answer"
    )
    pattern = pattern_of("learn-and-test")
    bears_liars = True

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return a small scenario about a ball."""
        return (small_ball("protocol=learn-and-test"),)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Learn, then estimate the loss on T."""
        wanted = at_once(scenario.agents.count, alike=True)  # refused before the curator spends anything
        hypothesis = (yield from ask(Learn(round=1))).hypothesis
        loss = LossQuery(hypothesis=hypothesis, loss=scenario.agents.loss)
        found = yield from estimate_mean(loss, scenario, wanted, 1)
        yield Progress("tested", {"round": 1, "rounds": 1, "asked": found.asked, **found.estimate.wire()})
        reason = f"{found.asked:,} agents tested what the curator learned"
        status: Literal["done", "exhausted"] = "done" if found.asked == wanted else "exhausted"
        return Outcome(status, 1, hypothesis, found.estimate, reason, heard=found.heard)
