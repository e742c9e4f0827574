"""What a curator may release as learned: what its agreed learner can give, about records as people have them.

The message pattern and the operation's result say what *form* a release has; whether it is of the class that the run's
configuration names follows from the scenario. It is judged live, before anybody is asked about it, and in the audit.
"""

from __future__ import annotations

from common.core.errors import PeerMisbehaved
from common.operations.learning import Learn, Learned
from common.scenario.resolved import ResolvedScenario


def check_learned(scenario: ResolvedScenario, asked: Learn, learned: Learned) -> None:
    """Refuse a hypothesis that the curator's learner cannot have given.

    The number of features is compared where it is known without anybody's data, that of simulated people; the agents
    compare it with their own records in any case.

    Raises
    ------
    PeerMisbehaved
        Saying of which kind it is, or what it needs.
    """
    learner, found = scenario.curator.learner, learned.hypothesis
    if learner is not None and not learner.can_give(found):
        raise PeerMisbehaved(
            f"the curator released a hypothesis of kind {found.kind!r} that its learner {learner.name!r}, with the "
            "settings of the scenario, cannot give"
        )
    known = scenario.source.distribution
    if asked.task is None and known is not None and found.min_features > known.dimension:
        raise PeerMisbehaved(
            f"the curator released a hypothesis over {found.min_features:,} features, its people have "
            f"{known.dimension:,}"
        )
