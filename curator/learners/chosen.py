"""Another learner with hyperparameters that are chosen privately, on the sample itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray
from common.core.errors import BadScenario
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Gaussian, PrivateSelection
from common.privacy.theorems.private_selection import choose, combinations, noisy_sum
from common.privacy.theorems.stopping import StoppingDistribution
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.losses import Loss, count, grain
from common.vocabulary.records import Records
from curator.learners.base import LEARNERS, Learner, Sizes, parse_learner
from curator.weights.reweighing import Reweighing
from curator.weights.sampling import Sampler

MAX_CANDIDATES = 256


@LEARNERS.register("chosen")
class ChosenLearner(Learner):
    """The best of K runs of a learner, each with settings drawn from a public grid, by a private score.

    The sample is split by place: a share of the places, evenly spread, is for validation, the others are for
    training. Each run trains a mu-GDP learner on the training part and scores what it gives on the validation part:
    minus the sum of losses, with noise that makes it mu-GDP. One record is in one of the parts, so a run with its
    score is mu-GDP (the proof is in :func:`common.privacy.theorems.private_selection.choose`), and the best of K runs,
    K secret, costs what :func:`common.privacy.theorems.private_selection.epsilon_of_selection` says: Papernot and
    Steinke (2022), Theorems 2 and 6, and better. Only the best hypothesis is released, never a score, K, or the
    settings that it was made with.

    All ``law.most`` runs are carried out and K of them looked at, since whoever knew K from the time would undo the
    proof. Runs of very different length tell which settings were drawn, about which the proof says nothing: leave
    numbers of iterations out of the grid where somebody else can read the clock.

    The hypothesis comes from the training part alone; it is not fitted again on everybody, which would cost once more.

    Attributes
    ----------
    learner
        Settings of the learner that is run, without ``mu``. It must learn from the sample itself and declare
        Gaussian releases of at most ``mu`` in all.
    grid
        Values to try, by setting of that learner; every combination is a candidate.
    law
        Of K.
    mu
        Of one run: given to the learner as its ``mu``, and spent on its score.
    validation
        Share of the places for validation, in (0, 1).
    judges
        ``held-out``: as above. ``public``: for a public sample of the people that the hypothesis is for (reverse
        adaptation); it is split in the place of the private sample, all of which is for training, and scores on public
        records are post-processing and need no noise.
    loss
        What is scored: the loss that agents test.
    cut
        Losses above are counted as this much, in scores only. The noise of a score is cut/mu, so that a public bound on
        the losses that matter (squared residuals of a tenth: .01) makes it as much smaller. Mistakes are not cut.
    """

    name: Literal["chosen"] = "chosen"
    learner: dict[str, Any]
    grid: dict[str, tuple[Any, ...]] = Field(min_length=1)
    law: StoppingDistribution
    mu: float = Field(gt=0, le=1e6)
    validation: float = Field(default=0.2, gt=0, lt=1)
    judges: Literal["held-out", "public"] = "held-out"
    loss: Loss = "zero-one"
    cut: float = Field(default=1.0, gt=0, le=1)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return convex adaptation with one of two weights of the source."""
        learner = {"name": "cnvx-adap", "iterations": 300, "features": 3, "norm": 1.8, "radius": 3.0}
        law = {"name": "negative-binomial", "gamma": 0.5, "most": 4}
        return (cls.parse({"learner": learner, "grid": {"alpha": [0.3, 0.4]}, "law": law, "mu": 2.0}),)

    @model_validator(mode="after")
    def _candidates_fit(self) -> Self:
        size = math.prod(map(len, self.grid.values()))
        if not 1 <= size <= MAX_CANDIDATES:
            raise ValueError(f"the grid must have 1 to {MAX_CANDIDATES} combinations, found {size}")
        fixed = sorted({"name", "mu"} & set(self.grid)) + sorted({"mu"} & set(self.learner))
        if fixed:
            raise ValueError(f"{fixed[0]} is the same for all candidates and given outside of the grid and the learner")
        for settings in combinations(self.grid):
            self._check_candidate(settings)
        return self

    def _check_candidate(self, settings: dict[str, Any]) -> None:
        try:
            candidate = self._candidate(settings)
        except BadScenario as wrong:
            raise ValueError(f"the candidate {settings}: {wrong.detail}") from None
        event = candidate.event(1.0)
        if not isinstance(event, Gaussian):
            raise ValueError(
                f"{candidate.name} declares {event.kind} events, and only learners with Gaussian releases from the "
                f"sample itself can be chosen from: take cnvx-adap or ncnvx-adap"
            )
        if math.sqrt(event.count) * event.mu > self.mu * (1.0 + 1e-12):
            raise ValueError(
                f"a run of {candidate.name} is {event.count} times {event.mu}-GDP, more than mu = {self.mu}"
            )
        if candidate.by_choice:
            raise ValueError(f"{candidate.name} gives hypotheses that not everybody accepts: it cannot be chosen from")

    def _candidate(self, settings: dict[str, Any]) -> Learner:
        return parse_learner({**self.learner, **settings, "mu": self.mu})

    def _candidates(self) -> list[Learner]:
        return [self._candidate(settings) for settings in combinations(self.grid)]

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        """Refuse what one of the candidates refuses."""
        for candidate in self._candidates():
            candidate.check(dtype, dimension)

    def check_public(self, public: Records | None) -> None:
        """Refuse what one of the candidates refuses, and a public sample that cannot be split."""
        if self.judges == "public":
            self._divisible(0 if public is None else len(public), "public people")
        for candidate in self._candidates():
            candidate.check_public(public)

    def check_people(self, people: int) -> None:
        """Refuse a sample of which nobody is left for one of the parts, or too few for a candidate."""
        if self.judges == "held-out":
            people -= self._divisible(people, "people")
        for candidate in self._candidates():
            candidate.check_people(people)

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of both parts, twice while they are put together, and of the largest candidate's work."""
        parts = (sizes.people + sizes.public) * 2 * sizes.width
        return parts + max(candidate.room(sizes) for candidate in self._candidates())

    def _divisible(self, size: int, who: str) -> int:
        """Return how many of so many are for validation."""
        held = int(np.count_nonzero(self._held(0, size)))
        if not 0 < held < size:
            raise BadScenario(
                f"validation = {self.validation:g} leaves {held} of {size} {who} for validation: "
                f"both parts need somebody"
            )
        return held

    def _held(self, begin: int, size: int) -> AnyArray:
        """Say which of the places begin..begin+size-1 are for validation: a public rule, whatever is in them."""
        edges = np.floor(np.arange(begin, begin + size + 1) * self.validation)
        return np.asarray(edges[1:] > edges[:-1])

    def event(self, sampling: float) -> Event:
        """One choice among releases from the sample itself, whatever its weights are."""
        return PrivateSelection(mu=self.mu, law=self.law)

    def learn(
        self, sampler: Sampler, source: RandomSource, previous: Hypothesis | None, public: Records | None = None
    ) -> Hypothesis:
        """Choose; the weights play no part."""
        everybody: Iterator[Records] = sampler.everybody()
        if self.judges == "public":
            if public is None:
                raise BadScenario("judges: public needs a public sample: give the scenario a section public")
            training, (public, validation) = Records.joined(list(everybody)), self._split([public])
        else:
            training, validation = self._split(everybody)
        part = Reweighing(len(training), None, 1.0).sampler(training)
        parts = max(1, round(self.cut * grain(self.loss)))

        def fit(settings: dict[str, Any], randomness: RandomSource) -> Hypothesis:
            candidate: Learner = settings["candidate"]
            return candidate.learn(part, randomness, previous, public)

        def score(hypothesis: Hypothesis, randomness: RandomSource) -> int:
            losses = np.minimum(count(self.loss, hypothesis, validation), parts)
            total = int(losses.sum(dtype=np.int64))
            return -total if self.judges == "public" else -noisy_sum(total, parts, self.mu, randomness)

        return choose(fit, score, {"candidate": self._candidates()}, self.law, source).output

    def _split(self, pieces: Iterable[Records]) -> tuple[Records, Records]:
        """Return the training and the validation part of records in their fixed order."""
        parts: tuple[list[Records], list[Records]] = ([], [])
        begin = 0
        for records in pieces:
            held = self._held(begin, len(records))
            parts[0].append(records.take(np.flatnonzero(~held)))
            parts[1].append(records.take(np.flatnonzero(held)))
            begin += len(records)
        return Records.joined(parts[0]), Records.joined(parts[1])
