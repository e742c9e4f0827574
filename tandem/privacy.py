"""A private choice of one's own, as :doc:`hyperparameters` shows: what it costs, and how it is made."""

from common.numerics.randomness import RandomSource
from common.privacy.theorems.selection import epsilon_of_selection, geometric, mu_for_selection
from curator.mechanisms.selection import choose
from curator.mechanisms.sums import noisy_sum

__all__ = ["RandomSource", "choose", "epsilon_of_selection", "geometric", "mu_for_selection", "noisy_sum"]
