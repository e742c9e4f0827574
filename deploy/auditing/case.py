"""One audit: a function that is claimed to be private, and twins of it that break the claim on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from common.core.arrays import AnyArray
from common.numerics.randomness import RandomSource
from common.privacy.auditing import AuditFinding, Subject, audit, exceeds

Safeguard = tuple[object, str]
"""Where a safeguard is found: a module or class, and the name in it."""


def without(safeguard: Safeguard, other: Any, subject: Subject) -> Subject:
    """Return the subject with something else in the place of a safeguard."""
    place, name = safeguard

    def broken(given: Any, runs: int, source: RandomSource) -> AnyArray:
        with patch.object(place, name, other):
            return subject(given, runs, source)

    return broken


FAILURE = 1e-6
"""Probability that one audit claims too much (Clopper-Pearson, both sides together)."""


@dataclass(frozen=True)
class Case:
    """What is claimed of a subject on a pair of neighbouring inputs, and which twins must be caught.

    Attributes
    ----------
    name
        For people.
    epsilon, delta
        The claim, as the accountant or the mechanism states it.
    inputs
        Two neighbouring inputs.
    honest
        The code that is shipped.
    twins
        The same with one safeguard taken out, by what was taken out.
    runs
        Runs on each input, for the search and again for the bound.
    least
        A bound that the honest subject must reach, so that passing means something; 0 where nothing of its leak can
        be seen in so few runs.
    """

    name: str
    epsilon: float
    inputs: tuple[Any, Any]
    honest: Subject
    runs: int
    delta: float = 0.0
    twins: Mapping[str, Subject] = field(default_factory=dict)
    least: float = 0.0

    def measure(self, subject: Subject, *, scale: float = 1.0) -> AuditFinding:
        """Audit the honest subject or a twin, with ``scale`` times the runs; the seed is fixed."""
        source = RandomSource.seeded(1, "audit", self.name)
        runs = round(scale * self.runs)
        return audit(subject, self.inputs, source, runs=runs, delta=self.delta, failure=FAILURE)

    def catches(self, twin: Subject) -> bool:
        """Tell whether a twin is shown to break the claim, in as few runs as that takes and ``runs`` at most."""
        source = RandomSource.seeded(1, "audit", self.name)
        return exceeds(
            twin, self.inputs, source, epsilon=self.epsilon, runs=self.runs, delta=self.delta, failure=FAILURE
        )
