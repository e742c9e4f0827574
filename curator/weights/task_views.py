"""Draws from the reweighed sample as one task sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from common.core.arrays import Floats, Indices, Singles
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.relabelled import Task
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.sample.base import Sample
from curator.sample.rows.gathered_rows import GatheredRows
from curator.weights.sampling import Density, Distinct, Sampler


class TaskSampler(Sampler):
    """Draws from mu, each seen through a public :class:`~common.local.hypotheses.relabelled.Task`.

    A view is a function of one record, so what is proven of learners on draws from mu holds for them on views of
    draws: it is a learner that begins with the view.

    Parameters
    ----------
    sample, density, share_bound
        As for :class:`~curator.weights.sampling.Sampler`.
    task
        What the learner gets to see.
    """

    def __init__(self, sample: Sample, density: Density, task: Task, share_bound: float = 1.0) -> None:
        super().__init__(sample, density, share_bound)
        self._task = task

    @classmethod
    def of(cls, sampler: Sampler, task: Task) -> Self:
        """Return what a task sees of a sampler's draws."""
        return cls(sampler._sample, sampler._density, task, sampler.share_bound)

    @property
    def dimension(self) -> int:
        """Number of features that the task looks at."""
        return self._task.features

    def draws(self, count: int, source: RandomSource) -> Records:
        """Draw ``count`` records independently from mu, seen through the task."""
        return self._task.of(super().draws(count, source))

    def located(self, count: int, source: RandomSource) -> GatheredRows:
        """Do the same, for one compiled loop."""
        return GatheredRows.of(self.draws(count, source))

    def distinct(self, count: int, source: RandomSource) -> Distinct:
        """Draw ``count`` records independently from mu, as the distinct ones among them, seen through the task."""
        drawn = super().distinct(count, source)
        return DistinctViews(drawn.sample, drawn.rows, drawn.times, self._task)

    def everybody(self) -> Iterator[Records]:
        """Yield the sample as it is, seen through the task."""
        return map(self._task.of, super().everybody())

    def weighted(self) -> Iterator[tuple[Records, Floats]]:
        """Yield the sample, seen through the task, with its weights."""
        return ((self._task.of(records), weights) for records, weights in super().weighted())


@dataclass(frozen=True, repr=False, eq=False)
class DistinctViews(Distinct):
    """The distinct records among some draws, each seen through a task.

    Records that are distinct may look alike; how often each was drawn is told by record.

    Attributes
    ----------
    task
        What is seen of them.
    """

    task: Task

    @property
    def dimension(self) -> int:
        """Number of features that the task looks at."""
        return self.task.features

    def blocks(self, size: int) -> Iterator[Records]:
        """Yield the views, ``size`` at a time, in the sample's order; none is kept."""
        return map(self.task.of, super().blocks(size))

    def take(self, places: Indices) -> Records:
        """Return the views at the given places among these, which ascend."""
        return self.task.of(super().take(places))

    def located(self, places: Indices) -> GatheredRows:
        """Return views of the records at the given places, which ascend, for compiled loops."""
        return GatheredRows.of(self.take(places))

    def signed_margins(self, plane: Linear) -> Singles:
        """Return the signed margins of all views."""
        return self._copied_margins(plane)
