"""The share of a budget that is charged: between 0 and 1 whatever is admitted, and that of the fullest kind."""

from __future__ import annotations

from fractions import Fraction

from common.privacy.accountants.base import Counts, share_of
from common.privacy.budget import open_budget
from common.privacy.events import Release
from tests.tiers import for_each


@for_each(
    ("amount", "cap", "share"),
    [
        (Fraction(1), Fraction(4), 0.25),
        (Fraction(0), Fraction(0), 0.0),
        (Fraction(0), Counts((Fraction(2), Fraction(3))), 0.0),
        (Counts((Fraction(1), Fraction(2))), Counts((Fraction(10), Fraction(4))), 0.5),
        (Counts((Fraction(0), Fraction(1))), Counts((Fraction(0), Fraction(4))), 1.0),
    ],
)
def test_the_fullest_kind_counts(amount, cap, share):
    assert share_of(amount, cap) == share


def test_it_grows_to_one_with_what_is_admitted():
    event = Release(epsilon=0.25)
    budget = open_budget(1.0, 1e-6, 4 * [event])
    charged: list[Release] = []
    shares = [budget.share(charged)]
    for _ in range(4):
        budget.admit(charged, event)
        charged.append(event)
        shares.append(budget.share(charged))
    assert shares[0] == 0.0
    assert shares == sorted(shares)
    assert 0.5 < shares[-1] <= 1.0
