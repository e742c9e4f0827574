"""Learn from draws of the reweighed distribution and release the hypothesis."""

from __future__ import annotations

from common.core.errors import BadScenario, PolicyRefused
from common.privacy.events import Event
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.operations.learn import Learn, Learned
from curator.learners.base import Learner, Sizes
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("learn")
class LearnHandler(OperationHandler[Learn, Learned]):
    """Algorithm 2 of Kohen & Sheffet, "apply M to draws from mu^t"; costs what the learner declares at s_t."""

    def event(self, operation: Learn, standing: Standing) -> Event:
        """Return the learner's event at the present sampling bound."""
        return _learner(standing).event(standing.tv_bound)

    def check(self, operation: Learn, standing: Standing) -> None:
        """Refuse a view that the learner cannot learn from, or for which it would draw too many numbers of noise."""
        seen = standing.dimension if operation.task is None else operation.task.features
        public = 0 if standing.public is None else len(standing.public)
        try:
            _learner(standing).check(standing.dtype, seen)
            _learner(standing).check_noise(Sizes(standing.people, public, seen, standing.dtype.itemsize))
        except BadScenario as unfit:
            raise PolicyRefused(unfit.detail) from None

    def run(self, operation: Learn, access: Access, standing: Standing) -> Learned:
        """Learn, warm-started at the last released hypothesis."""
        seen = access if operation.task is None else access.through(operation.task)
        return Learned(hypothesis=_learner(standing).learn(seen, standing.previous, standing.public))

    def learned(self, result: Learned) -> Hypothesis:
        """Return what was released."""
        return result.hypothesis


def _learner(standing: Standing) -> Learner:
    if standing.learner is None:
        raise PolicyRefused("this curator's policy has no learner")
    return standing.learner
