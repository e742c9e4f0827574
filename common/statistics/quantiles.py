"""A quantile of an item's distribution, by noisy binary search with fresh agents in every round.

Functions raise :class:`BadInput` for numbers outside the ranges that they state.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from common.core.errors import BadInput
from common.local.mechanisms.mechanism import Mechanism
from common.local.queries.features import ThresholdQuery
from common.local.queries.query import Answers, AskAgents
from common.statistics import evidence
from common.statistics.intervals import tally

Search = Generator[AskAgents, Answers, "Quantile"]
_FIRST = 8  # the first batch about a threshold is this part of the most that a verdict can take
_PATIENCE = 4  # what all this waiting may take, in multiples of the most that a verdict can take


@dataclass(frozen=True)
class Quantile:
    """What answers show about a quantile: it is between ``first`` and ``last``, up to the tolerance.

    With the promised probability P(x < first) < share + tolerance and P(x <= last) > share - tolerance for an item x
    drawn from T. Where both are the same item, it is a quantile for some share within the tolerance. They differ only
    if the agents ran out.

    Attributes:
        asked: Number of agents.
        thresholds: Number of different thresholds that they were asked about.
    """

    first: int
    last: int
    asked: int
    thresholds: int

    @property
    def complete(self) -> bool:
        """Whether one item was found."""
        return self.first == self.last


def find_quantile(
    mechanism: Mechanism, bits: int, share: float, tolerance: float, beta: float, feature: int = 0, first: int = 0
) -> Search:
    """Search {0,1}^bits for the least item of which a given share of people have one that is no greater.

    Theorem 2.19 of Beimel, Korolova, Nissim, Sheffet and Stemmer (2020), after Gaboardi, Rogers and Sheffet (2019),
    with sequential tests. The threshold t halves what is left; fresh agents are asked whether their item is below it,
    batch by batch, until it is shown that F(t) = P(x < t) is above share - tolerance (go on below t) or below share +
    tolerance (go on from t). Both cannot be wrong, and by Ville's inequality one of them is shown falsely with
    probability at most beta/bits, however often and whenever one looks (:mod:`common.statistics.evidence`). There are
    at most ``bits`` thresholds, so all that is shown is true with probability 1 - beta. A threshold of which both is
    shown is itself an answer and ends the search: the second verdict is waited for unless it seems far off. All that is
    asked is ``bits`` + 4 times what a verdict can take, at most.

    Args:
        bits: Length of the item, 1 to 64.
        share, tolerance: 0 < share - tolerance < share + tolerance < 1.
        beta: Failure probability, in (0, 1).
        feature: The feature that is the item's most significant bit.
        first: How many agents to ask first about each threshold; by default an eighth of the most that a verdict takes.
    """
    bar = _Bar(mechanism, bits, share, tolerance, beta)
    low, high, asked, thresholds = 0, 1 << bits, 0, 0
    patience = _PATIENCE * bar.most
    while high - low > 1:
        below = (low + high) // 2
        query = ThresholdQuery(first=feature, bits=bits, below=below)
        seen = yield from _ask_about(query, mechanism, bar, first or -(-bar.most // _FIRST), patience)
        asked, patience, thresholds = asked + seen.asked, patience - seen.waited, thresholds + 1
        if seen.above and seen.below:
            return Quantile(below, below, asked, thresholds)
        if not seen.above and not seen.below:
            break
        low, high = (low, below) if seen.above else (below, high)
    return Quantile(low, high - 1, asked, thresholds)


class _Bar:
    """What a verdict about a threshold takes.

    Attributes:
        evidences: Against F(t) <= share - tolerance, and against F(t) >= share + tolerance.
        needed: The logarithm that either must reach.
        most: Number of answers by which one of them has.
    """

    def __init__(self, mechanism: Mechanism, bits: int, share: float, tolerance: float, beta: float) -> None:
        if not 1 <= bits <= 64:
            raise BadInput(f"an item has 1 to 64 bits, found {bits}")
        if not 0.0 < share - tolerance < share + tolerance < 1.0:
            raise BadInput(
                f"the tolerance must be positive and leave the share inside (0, 1), found {share} +- {tolerance}"
            )
        if not 0.0 < beta < 1.0:
            raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
        self.evidences = evidence.gather(mechanism, share - tolerance, share + tolerance)
        self.needed = evidence.needed(beta / bits)
        self.most = evidence.worst_case(mechanism, share - tolerance, share + tolerance, beta / bits)


@dataclass(frozen=True)
class _Seen:
    """What is shown about a threshold, how many agents were asked, and how many of them after the first verdict."""

    above: bool
    below: bool
    asked: int
    waited: int


def _ask_about(
    query: ThresholdQuery, mechanism: Mechanism, bar: _Bar, first: int, patience: int
) -> Generator[AskAgents, Answers, _Seen]:
    """Ask until there is a verdict and no second one in sight, or both, or no agent is left."""
    asked, waited, total, count = 0, 0, 0.0, 0
    above = below = False
    while True:
        left = patience - waited if above or below else max(1, bar.most - count)
        answers = yield AskAgents(query, min(-(-count // 2) or first, left))
        asked += answers.asked
        waited += answers.asked if above or below else 0
        batch, size = tally(mechanism, answers.values)
        total, count = total + batch, count + size
        gained = [e.log_value(total, count) for e in (bar.evidences.above, bar.evidences.below)] if count else [0.0]
        if count:
            above, below = above or gained[0] >= bar.needed, below or gained[1] >= bar.needed
        verdict = above or below
        hopeless = waited >= patience or min(gained) < -bar.needed
        if answers.asked == 0 or (above and below) or (verdict and hopeless):
            return _Seen(above, below, asked, waited)
