"""Label public points by the votes of teachers."""

from __future__ import annotations

from common.core.errors import PolicyRefused
from common.privacy.events import Event
from common.vocabulary.operations.label import Label, Labelled
from curator.learners.model_agnostic import ModelAgnostic
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("label")
class LabelHandler(OperationHandler[Label, Labelled]):
    """Algorithm 2 and, with ``transfer``, Algorithm 3 of Bassily, Thakkar and Thakurta (2018), on the sample itself.

    What it costs follows from the learner's settings and the number of points alone: exact Gaussian releases for GNMax,
    which add up over operations; one (epsilon, delta)-DP release for the sparse vector, whose one sequence must be
    asked for at once. Teachers are trained again for each operation: they are functions of their chunks and of seeds.
    """

    def event(self, operation: Label, standing: Standing) -> Event:
        """Return the event of so many answers."""
        return _learner(standing).answers_event(operation.count)

    def check(self, operation: Label, standing: Standing) -> None:
        """Refuse points that do not exist, and part of a sequence."""
        learner = _learner(standing)
        last, known = operation.first + operation.count, learner.points_of(standing.people, standing.public)
        if last > known:
            raise PolicyRefused(f"points up to number {last} are to be labelled, there are {known}")
        whole = operation.first == 0 and operation.count == learner.queries
        if not whole and not learner.aggregation.in_parts:
            raise PolicyRefused(
                f"{learner.aggregation.name} answers one whole sequence, the first {learner.queries} points; asked for "
                f"{operation.count} from number {operation.first} on"
            )

    def run(self, operation: Label, access: Access, standing: Standing) -> Labelled:
        """Release a label (or number of a class) a point, or null; and the student's model, if it is asked for."""
        learner = _learner(standing)
        points = learner.points(access, standing.public, operation.first, operation.count)
        answers = learner.answers(access, points)
        student = learner.transfer(points, answers, access.coins) if operation.transfer else None
        return Labelled(labels=tuple(learner.released(answers)), protects=learner.protects, hypothesis=student)


def _learner(standing: Standing) -> ModelAgnostic:
    if not isinstance(standing.learner, ModelAgnostic):
        raise PolicyRefused("labelling takes a curator whose learner is model-agnostic")
    if standing.learner.draws is not None:
        raise PolicyRefused("labels are answers of the sample itself: the policy's learner wants draws of it")
    return standing.learner
