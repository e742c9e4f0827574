"""Guarantees in words promise no more than their formulas."""

import math

from common.privacy.guarantee import best_guess, formula, in_words, of_agent
from tests.tiers import for_each


@for_each("epsilon", [0.0, 1e-6, 0.3, 1.0, 2.0, 5.0, 20.0, 800.0])
@for_each("delta", [0.0, 1e-9, 1e-3, 0.5, 1.0])
def test_a_guess_is_never_said_to_be_worse_than_the_best_test_of_the_worst_mechanism(epsilon, delta):
    """The worst (epsilon, delta) mechanism: with delta it tells the record, else it is randomized response."""
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    right = delta + (1.0 - delta) * truth
    assert right - 1e-12 <= best_guess(epsilon, delta) <= min(1.0, right + 1.01e-4)


def test_an_agent_s_guarantee_in_words():
    promise = of_agent((2.0, 0.0))
    assert formula(promise) == "(2, 0)-differential privacy"
    assert "no more than 7.39 times" not in in_words(promise)
    assert "more than 7.39 times as likely (e to the epsilon = 2); there is no delta." in in_words(promise)
    assert in_words(of_agent((math.inf, 1.0))) == "Nothing is promised."
