"""A learner that chooses the hyperparameters of another learner privately, on the sample itself."""

from collections.abc import Collection
from functools import partial
from typing import Any, ClassVar

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BadScenario
from common.learners.chosen import ChosenSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import HypothesisLoss, grain
from common.local.records import Records
from curator.learners.base import LEARNERS, CallSizes, Learner, parse_learner
from curator.mechanisms.access import Access
from curator.mechanisms.sums import LossSum


@LEARNERS.register("chosen")
class ChosenLearner(ChosenSettings, Learner):
    """The best of K runs of a learner, each with settings drawn from a public grid, by a private score.

    A share of the places, evenly spread, is for validation; the others are for training. Each run trains a mu-GDP
    learner on the training part and scores its hypothesis on the validation part. The score is minus the sum of losses,
    with noise that makes it mu-GDP. So a run with its score is mu-GDP (the proof is in
    :func:`curator.mechanisms.selection.choose`), and the best of K runs, with K secret, costs
    :func:`common.privacy.theorems.selection.epsilon_of_selection`. Only the best hypothesis is released, never a score,
    K, or the settings that it was made with.

    All ``law.most`` runs are carried out and the first K are compared, since the proof fails if the running time
    reveals K. Runs of very different length reveal which settings were drawn, which the proof does not cover: leave
    numbers of iterations out of the grid if others can measure the time.
    """

    examples: ClassVar = (
        {
            "learner": {"name": "cnvx-adap", "iterations": 300, "features": 3, "norm": 1.8, "radius": 3.0},
            "grid": {"alpha": [0.3, 0.4]},
            "law": {"name": "negative-binomial", "gamma": 0.5, "most": 4},
            "mu": 2.0,
        },
    )

    def _candidates(self) -> list[Learner]:
        return [parse_learner(settings) for settings in self.candidates]

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        for candidate in self._candidates():
            candidate.check(dtype, dimension)

    def check_public(self, public: Records | None) -> None:
        if self.judges == "public":
            self._divisible(0 if public is None else len(public), "public people")
            public = None if public is None else self._split(public)[0]
        for candidate in self._candidates():
            candidate.check_public(public)

    def check_people(self, people: int) -> None:
        if self.judges == "held-out":
            people -= self._divisible(people, "people")
        for candidate in self._candidates():
            candidate.check_people(people)

    def check_here(self) -> None:
        for candidate in self._candidates():
            candidate.check_here()

    def check_run(self, rounds: int, operations: Collection[str]) -> None:
        for candidate in self._candidates():
            candidate.check_run(rounds, operations)

    def noise_numbers(self, sizes: CallSizes) -> int:
        return max(candidate.noise_numbers(sizes) for candidate in self._candidates()) + 1

    def room(self, sizes: CallSizes) -> int:
        parts = (sizes.people + sizes.public) * 2 * sizes.width
        return parts + max(candidate.room(sizes) for candidate in self._candidates())

    def _divisible(self, size: int, who: str) -> int:
        """Return how many of ``size`` records are for validation; BadScenario if either part would be empty."""
        count = int(np.count_nonzero(self._validation_mask(size)))
        if not 0 < count < size:
            raise BadScenario(
                f"validation = {self.validation:g} leaves {count} of {size} {who} for validation: "
                f"both parts need somebody"
            )
        return count

    def _validation_mask(self, size: int) -> AnyArray:
        edges = np.floor(np.arange(size + 1) * self.validation)
        return np.asarray(edges[1:] > edges[:-1])

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        parts = max(1, round(self.cut * grain(self.loss)))

        def losses(hypothesis: Hypothesis, records: Records) -> AnyArray:
            return np.minimum(HypothesisLoss(hypothesis, self.loss).count(records), parts)

        if self.judges == "held-out":

            def noisy(hypothesis: Hypothesis, part: Access) -> int:
                return -part.release(LossSum(parts, self.mu), partial(losses, hypothesis))

            return access.choose(self._candidates(), partial(self._fit, previous, public), noisy, self._validation_mask)
        if public is None:
            raise BadScenario("judges: public needs a public sample: give the scenario a section public")
        training, validation = self._split(public)

        def exact(hypothesis: Hypothesis, part: Access) -> int:
            return -int(losses(hypothesis, validation).sum(dtype=np.int64))

        return access.choose(self._candidates(), partial(self._fit, previous, training), exact)

    @staticmethod
    def _fit(previous: Hypothesis | None, public: Records | None, candidate: Learner, part: Access) -> Hypothesis:
        return candidate.learn(part, previous, public)

    def _split(self, records: Records) -> tuple[Records, Records]:
        mask = self._validation_mask(len(records))
        return records.take(np.flatnonzero(~mask)), records.take(np.flatnonzero(mask))
