"""The best of a secret random number of private runs.

What that costs is in :mod:`common.privacy.theorems.selection`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from common.core.errors import BadInput
from common.learners.chosen import combinations
from common.numerics.randomness import RandomSource
from common.privacy.theorems.selection import AnyLaw
from common.privacy.theorems.stopping import weights
from curator.mechanisms.whole_numbers import below, place_of

Output = TypeVar("Output")


@dataclass(frozen=True)
class Chosen(Generic[Output]):
    """The best run: its output, and the settings that it was made with (public, as the output is)."""

    output: Output
    settings: dict[str, Any]


def choose(
    fit: Callable[[dict[str, Any], RandomSource], Output],
    score: Callable[[Output, RandomSource], float],
    grid: Mapping[str, Sequence[Any]],
    law: AnyLaw,
    source: RandomSource,
    *,
    constant_time: bool = True,
) -> Chosen[Output]:
    """Run K times with settings drawn uniformly from a public grid, and return the run with the highest score.

    If ``fit`` followed by ``score`` is mu-GDP for each setting, the choice costs what
    :func:`~common.privacy.theorems.selection.epsilon_of_selection` says for mu. Typically
    ``fit`` sees one part of the sample and is mu-GDP in it, and ``score`` sees the other part, disjoint, and is mu-GDP
    in it whatever it is to score. Then both together are mu-GDP: where the neighbours differ in the first part, the
    score is post-processing of the fit; where they differ in the second, the fits have the same law, and given the
    fit the scores are no easier to tell apart than N(0, 1) and N(mu, 1), which, as a trade-off function is convex,
    remains true on the average over the fits. Drawing the settings is such an average.

    Args:
        fit: (settings, randomness) -> output.
        score: (output, randomness) -> a score that is private itself, the higher the better; for example
            :func:`curator.mechanisms.sums.noisy_sum`.
        grid: Public values of each setting.
        law: Of K.
        constant_time: Carry out all ``law.most`` runs and look at the first K only, as who knows how long it took would
            know K.

    Raises:
        BadInput: If a setting has no values.
    """
    settings = combinations(grid)
    if not settings:
        raise BadInput("every setting of the grid needs at least one value")
    count = draw_count(law, source.derive("count"))
    drawn = source.derive("settings").integers(len(settings), law.most)

    def attempt(run: int) -> tuple[float, Chosen[Output]]:
        own = settings[int(drawn[run])]
        output = fit(own, source.derive("fit", run))
        return score(output, source.derive("score", run)), Chosen(output, own)

    best = attempt(0)
    for run in range(1, law.most if constant_time else count):
        found = attempt(run)
        if run < count and found[0] > best[0]:
            best = found
    return best[1]


def draw_count(law: AnyLaw, source: RandomSource) -> int:
    """Draw K, exactly: the law's probabilities are ratios of integers.

    Nobody but the caller may learn it, from the time that the runs take least of all; so all probabilities are gone
    through, whichever K it is.
    """
    shares = weights(law)
    return 1 + place_of(below(sum(shares), source), shares)
