"""Draws from the reweighed sample as one task sees them."""

from __future__ import annotations

from collections.abc import Iterator

from common.randomness import RandomSource
from common.records import Records
from common.tasks import Task
from curator.sample.base import Sample
from curator.sampling import Density, Sampler


class TaskSampler(Sampler):
    """Draws from mu, each seen through a public :class:`~common.tasks.Task`.

    A view is a function of one record, so what is proven of learners on draws from mu holds for them on views of
    draws: it is a learner that begins with the view.

    Parameters
    ----------
    sample, density
        As for :class:`~curator.sampling.Sampler`.
    task
        What the learner gets to see.
    """

    def __init__(self, sample: Sample, density: Density, task: Task) -> None:
        super().__init__(sample, density)
        self._task = task

    @property
    def dimension(self) -> int:
        """Number of features that the task looks at."""
        return self._task.features

    def draws(self, count: int, source: RandomSource) -> Records:
        """Draw ``count`` records independently from mu, seen through the task."""
        return self._task.of(super().draws(count, source))

    def everybody(self) -> Iterator[Records]:
        """Yield the sample as it is, seen through the task."""
        return map(self._task.of, super().everybody())
