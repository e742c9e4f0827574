"""A private choice of one's own, as :doc:`hyperparameters` shows: what it costs, and how it is made; and A_stab.

:func:`a_stab` releases the value of any function that has a distance to instability (:doc:`model-agnostic`).
"""

from common.numerics.randomness import RandomSource
from common.privacy.theorems.selection import epsilon_of_selection, geometric, mu_for_selection
from curator.mechanisms.selection import choose
from curator.mechanisms.stability import a_stab
from curator.mechanisms.sums import noisy_sum

__all__ = ["RandomSource", "a_stab", "choose", "epsilon_of_selection", "geometric", "mu_for_selection", "noisy_sum"]
