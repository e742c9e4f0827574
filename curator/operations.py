"""Handlers of the curator's operations: each declares its event before it runs, and does the work."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices, Words
from common.core.errors import BadInput, BadScenario, PolicyRefused
from common.core.registry import Registry
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import Weighing
from common.local.records import Records
from common.numerics.loops import pack
from common.operations import operation as ops
from common.operations.operation import Operation, R
from common.privacy.events import Event, Gaussian, NoEvent, Release
from curator.learners.base import CallSizes, Learner
from curator.learners.model_agnostic import ModelAgnostic
from curator.mechanisms import counts
from curator.mechanisms.access import Access
from curator.mechanisms.counts import NoisyHead
from curator.mechanisms.parities import RankParities
from curator.mechanisms.selection import MostFrequent

Kind = TypeVar("Kind", bound=Operation[Any])


@dataclass(frozen=True)
class Standing:
    """The curator's public state before an operation, without any record.

    Attributes:
        people, dimension, dtype: n, d, and the type of the features of the sample.
        tv_bound: Bound on the total variation between the current mu and that of a neighbouring sample.
        previous: The last released hypothesis.
        check_room: Refuses a reweigh if there is not enough memory for its counts.
    """

    people: int
    dimension: int
    dtype: np.dtype[Any]
    tv_bound: float
    learner: Learner | None
    previous: Hypothesis | None
    public: Records | None
    check_room: Callable[[Weighing], None]


class OperationHandler(ABC, Generic[Kind, R]):
    """A handler of one kind of operation.

    A handler holds no sample. It works through an :class:`~curator.mechanisms.access.Access`, which pays for what
    :meth:`event` declared. The engine changes the weights for operations with a ``reweighs_by``.
    """

    @abstractmethod
    def event(self, operation: Kind, standing: Standing) -> Event:
        """Return the event that the operation costs, from public numbers alone."""

    def check(self, operation: Kind, standing: Standing) -> None:
        """Refuse an operation that cannot be carried out here, before anything is charged or changed.

        Raises:
            PolicyRefused: With what is missing.
        """

    @abstractmethod
    def run(self, operation: Kind, access: Access, standing: Standing) -> R:
        """Carry it out within what was charged, and return the release."""

    def learned(self, result: R) -> Hypothesis | None:
        """Return the hypothesis that later rounds start from, if this result has one."""
        return None


class ReleasingHandler(OperationHandler[Kind, R]):
    """One release of the ``epsilon`` that the operation names."""

    def event(self, operation: Kind, standing: Standing) -> Event:
        return Release(epsilon=operation.epsilon)  # type: ignore[attr-defined]  # of every operation that is released so


HANDLERS: Registry[type[OperationHandler[Any, Any]]] = Registry("operation", __name__, alone=True)


@HANDLERS.register("count")
class CountHandler(ReleasingHandler[ops.Count, ops.ReleasedCount]):
    """A noisy count (:class:`curator.mechanisms.counts.NoisyCount`) on the sample itself, regardless of weights."""

    def run(self, operation: ops.Count, access: Access, standing: Standing) -> ops.ReleasedCount:
        def bits(records: Records) -> AnyArray:
            return np.asarray((records.features[:, operation.features] > 0).any(axis=1))

        count = access.release(counts.NoisyCount(operation.epsilon), bits)
        return ops.ReleasedCount(count=count)


@HANDLERS.register("select")
class SelectHandler(ReleasingHandler[ops.Select, ops.SelectedFeature]):
    """The exponential mechanism (:class:`~curator.mechanisms.selection.MostFrequent`) on the unweighted sample."""

    def run(self, operation: ops.Select, access: Access, standing: Standing) -> ops.SelectedFeature:
        columns = slice(operation.first, operation.first + operation.count)
        index = access.release(
            MostFrequent(operation.epsilon, operation.count), lambda records: records.features[:, columns] > 0
        )
        return ops.SelectedFeature(feature=operation.first + index)


@HANDLERS.register("head")
class HeadHandler(ReleasingHandler[ops.HeadList, ops.CountedHead]):
    """Noisy histograms of even places and of odd ones: :class:`curator.mechanisms.counts.NoisyHead`."""

    def check(self, operation: ops.HeadList, standing: Standing) -> None:
        if standing.people < 2:
            raise PolicyRefused(f"one half lists and the other counts: that takes two people, found {standing.people}")

    def run(self, operation: ops.HeadList, access: Access, standing: Standing) -> ops.CountedHead:
        columns = slice(operation.first, operation.first + operation.bits)
        items, counts, people = access.release(
            NoisyHead(operation.bits, operation.most, operation.epsilon),
            lambda records: pack(records.features[:, columns]),
        )
        return ops.CountedHead(items=tuple(items.tolist()), counts=tuple(counts.tolist()), people=people)


@HANDLERS.register("reweigh")
class ReweighHandler(OperationHandler[Any, ops.Reweighed]):
    """Algorithm 2 of Kohen & Sheffet, "w_i <- w_i exp(-eta [1 - L(h(x_i), l(x_i))])", which the engine carries out.

    Nothing is released, so nothing is charged. Weights are functions of the record and of public messages only, even if
    this curator never released the hypothesis (docs/corrections.md, "Arbitrary reweigh hypotheses").
    """

    def event(self, operation: Any, standing: Standing) -> Event:
        return NoEvent()

    def check(self, operation: Any, standing: Standing) -> None:
        standing.check_room(operation.reweighs_by)

    def run(self, operation: Any, access: Access, standing: Standing) -> ops.Reweighed:
        return ops.Reweighed()


@HANDLERS.register("margins")
class MarginsHandler(OperationHandler[ops.Margins, ops.NoisyMargins]):
    """Weighted shares with noise (:class:`curator.mechanisms.sums.NoisyShares`: theorem and proof)."""

    def event(self, operation: ops.Margins, standing: Standing) -> Event:
        return Gaussian(mu=operation.mu)

    def run(self, operation: ops.Margins, access: Access, standing: Standing) -> ops.NoisyMargins:
        cells = operation.cells

        def items(records: Records) -> Indices:  # defined in this package, so it gets blocks
            return cells.items_of(records)

        shares, total = access.shares(operation.mu, cells.items, items)
        return ops.NoisyMargins(shares=tuple(shares.tolist()), whole=total)


@HANDLERS.register("learn")
class LearnHandler(OperationHandler[ops.Learn, ops.Learned]):
    """Algorithm 2 of Kohen & Sheffet, "apply M to draws from mu^t"; costs the learner's event at s_t."""

    def event(self, operation: ops.Learn, standing: Standing) -> Event:
        return _learner_of(standing).event(standing.tv_bound)

    def check(self, operation: ops.Learn, standing: Standing) -> None:
        features = standing.dimension if operation.task is None else operation.task.features
        public = 0 if standing.public is None else len(standing.public)
        try:
            _learner_of(standing).check(standing.dtype, features)
            _learner_of(standing).check_noise(CallSizes(standing.people, public, features, standing.dtype.itemsize))
        except BadScenario as error:
            raise PolicyRefused(error.detail) from None

    def run(self, operation: ops.Learn, access: Access, standing: Standing) -> ops.Learned:
        task_access = access if operation.task is None else access.through(operation.task)
        release = _learner_of(standing).learned(task_access, standing.previous, standing.public)
        axes, count = release.directions, operation.directions
        if axes is not None:
            axes = ops.Directions(rows=axes.rows[:count], offsets=axes.offsets[:count]) if count else None
        return release.model_copy(update={"directions": axes})

    def learned(self, result: ops.Learned) -> Hypothesis:
        return result.hypothesis


def _learner_of(standing: Standing) -> Learner:
    if standing.learner is None:
        raise PolicyRefused("this curator's policy has no learner")
    return standing.learner


@HANDLERS.register("label")
class LabelHandler(OperationHandler[ops.LabelPoints, ops.Labelled]):
    """Algorithm 2 and, with ``transfer``, Algorithm 3 of Bassily, Thakkar and Thakurta (2018), on the sample itself.

    The cost depends only on the learner's settings and the number of points. GNMax costs exact Gaussian releases, which
    add up over operations. The sparse vector costs one (epsilon, delta)-DP release, and its one sequence must be
    requested at once. Teachers are trained again for each operation; they are functions of their chunks and of seeds.
    """

    def event(self, operation: ops.LabelPoints, standing: Standing) -> Event:
        return _model_agnostic_of(standing).answers_event(operation.count)

    def check(self, operation: ops.LabelPoints, standing: Standing) -> None:
        learner = _model_agnostic_of(standing)
        last, point_count = operation.first + operation.count, learner.points_of(standing.people, standing.public)
        if last > point_count:
            raise PolicyRefused(f"points up to number {last} are to be labelled, there are {point_count}")
        complete = operation.first == 0 and operation.count == learner.queries
        if not complete and not learner.aggregation.in_parts:
            raise PolicyRefused(
                f"{learner.aggregation.name} answers one whole sequence, the first {learner.queries} points; asked for "
                f"{operation.count} from number {operation.first} on"
            )

    def run(self, operation: ops.LabelPoints, access: Access, standing: Standing) -> ops.Labelled:
        learner = _model_agnostic_of(standing)
        points = learner.points(access, standing.public, operation.first, operation.count)
        answers = learner.answers(access, points)
        student = learner.transfer(points, answers, access.coins) if operation.transfer else None
        labels, stream = tuple(learner.released(answers)), learner.stream_opening()
        return ops.Labelled(labels=labels, protects=learner.protects, hypothesis=student, stream=stream)


def _model_agnostic_of(standing: Standing) -> ModelAgnostic:
    if not isinstance(standing.learner, ModelAgnostic):
        raise PolicyRefused("labelling takes a curator whose learner is model-agnostic")
    if standing.learner.draws is not None:
        raise PolicyRefused("labels are answers of the sample itself: the policy's learner wants draws of it")
    return standing.learner


@HANDLERS.register("parities")
class ParitiesHandler(ReleasingHandler[ops.LearnParities, ops.BlockParities]):
    """The curator of Lemma 3.3, "The power of synergy": :class:`curator.mechanisms.parities.RankParities`."""

    def check(self, operation: ops.LearnParities, standing: Standing) -> None:
        if operation.parts * operation.blocks > standing.people:
            raise PolicyRefused(
                f"{operation.parts} parts of {operation.blocks} blocks are more than the {standing.people} people"
            )
        if standing.dtype != np.uint8:
            raise PolicyRefused(f"parities want 0/1 features, found {standing.dtype}")
        try:
            _ = _mechanism(operation).law
        except BadInput as error:
            raise PolicyRefused(error.detail) from None

    def run(self, operation: ops.LearnParities, access: Access, standing: Standing) -> ops.BlockParities:
        def equations(records: Records) -> tuple[Words, Bits, Bits]:
            keys = pack(records.features[:, operation.first : operation.first + operation.bits])
            ones = np.ones((len(records), 1), dtype=np.uint8)
            rows = np.concatenate([records.features[:, : operation.features], ones], axis=1)
            return keys, rows, (records.labels > 0).view(np.uint8)

        return ops.BlockParities(parities=access.release(_mechanism(operation), equations))


def _mechanism(operation: ops.LearnParities) -> RankParities:
    return RankParities(operation.rule, operation.epsilon, operation.parts, operation.blocks)
