"""A private choice of the user's own (:doc:`hyperparameters`): what it costs, and how it is made; and A_stab.

:func:`a_stab` releases the value of any function with a known distance to instability (:doc:`model-agnostic`).
"""

from common.numerics.randomness import RandomSource
from common.privacy.theorems.selection import epsilon_of_selection, geometric, mu_for_selection
from curator.mechanisms.selection import choose
from curator.mechanisms.stability import a_stab
from curator.mechanisms.sums import noisy_sum

__all__ = ["RandomSource", "a_stab", "choose", "epsilon_of_selection", "geometric", "mu_for_selection", "noisy_sum"]
