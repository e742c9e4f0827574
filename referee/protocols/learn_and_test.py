"""Learn and test: the curator learns once, the agents say how good it is for the population."""

from __future__ import annotations

from common.operations import Learn
from common.queries.loss import LossQuery
from common.scenario import Scenario
from referee.asking import at_once, survey
from referee.patterns import agents, curator, sequence
from referee.protocols.base import PROTOCOLS, AskCurator, Note, Outcome, Protocol, Script, learned


@PROTOCOLS.register("learn-and-test")
class LearnAndTest(Protocol):
    """One learner's call on the curator's sample, one test by all agents.

    For learners that account for the difference of S and T themselves, by a public sample, say (private domain
    adaptation, Bassily, Cortes, Mao and Mohri 2024): what they are worth is then a question to T. The estimate is of
    one hypothesis, chosen before any agent answered, so its interval holds as it is. ``exhausted`` if fewer agents
    than ``agents.count`` were there to be asked.
    """

    title = "Learn and test"
    pattern = sequence(curator("learn"), agents("loss"))

    def script(self, scenario: Scenario, public: int) -> Script:
        """Learn, then estimate the loss on T."""
        hypothesis = learned((yield AskCurator(Learn(round=1))))
        loss = LossQuery(hypothesis=hypothesis, loss=scenario.agents.loss)
        wanted = at_once(int(scenario.agents.count))
        found = yield from survey(loss, scenario, wanted, 1)
        yield Note("tested", {"round": 1, "rounds": 1, "asked": found.asked, **found.estimate.wire()})
        reason = f"{found.asked:,} agents tested what the curator learned"
        return Outcome("done" if found.asked == wanted else "exhausted", 1, hypothesis, found.estimate, reason)
