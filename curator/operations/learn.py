"""Learn from draws of the reweighed distribution and release the hypothesis."""

from __future__ import annotations

from common.core.errors import BadScenario, PolicyRefused
from common.numerics.randomness import RandomSource
from common.privacy.events import Event
from common.vocabulary.operations.learn import Learn, Learned
from curator.learners.base import Learner
from curator.operations.base import HANDLERS, OperationHandler, Workspace
from curator.weights.task_views import TaskSampler


@HANDLERS.register("learn")
class LearnHandler(OperationHandler[Learn, Learned]):
    """Algorithm 2 of Kohen & Sheffet, "apply M to draws from mu^t"; costs what the learner declares at s_t."""

    def event(self, operation: Learn, workspace: Workspace) -> Event:
        """Return the learner's event at the present sampling bound."""
        return _learner(workspace).event(workspace.reweighing.sampling_bound())

    def check(self, operation: Learn, workspace: Workspace) -> None:
        """Refuse a view that the learner cannot learn from."""
        seen = workspace.sample.dimension if operation.task is None else operation.task.features
        try:
            _learner(workspace).check(workspace.sample.dtype, seen)
        except BadScenario as unfit:
            raise PolicyRefused(unfit.detail) from None

    def run(self, operation: Learn, workspace: Workspace, source: RandomSource) -> Learned:
        """Learn, warm-started at the last released hypothesis."""
        sampler = workspace.reweighing.sampler(workspace.sample)
        if operation.task is not None:
            sampler = TaskSampler(workspace.sample, workspace.reweighing.density(), operation.task)
        hypothesis = _learner(workspace).learn(sampler, source, workspace.previous, workspace.public)
        workspace.previous = hypothesis
        return Learned(hypothesis=hypothesis)

    def replay(self, operation: Learn, result: Learned, workspace: Workspace) -> None:
        """Remember what was released."""
        workspace.previous = result.hypothesis


def _learner(workspace: Workspace) -> Learner:
    if workspace.learner is None:
        raise PolicyRefused("this curator's policy has no learner")
    return workspace.learner
