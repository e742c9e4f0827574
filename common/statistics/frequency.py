"""Shares of people by item, from a frequency oracle's answers or a code query's, and exact intervals of their rates."""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from common.core.arrays import AnyArray, Floats, Indices, Words
from common.core.errors import BadInput
from common.local.mechanisms.frequency import MAX_LISTED, FrequencyOracle, public_words, walsh_hadamard
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.features import ItemQuery, Questions
from common.local.queries.query import Answers, FrequencyQuery

_ROUNDING = 1e-9  # room, in the rate of support, for what quantiles in doubles and an oracle's 32-bit hashes can be off


@dataclass(frozen=True, eq=False)
class Reports:
    """Answers to one question about an item, shape (n,), with the public word of each: all that an oracle needs.

    ``domain`` is the number of items that they were randomized for.
    """

    domain: int
    answers: AnyArray
    publics: Words

    def __len__(self) -> int:
        return len(self.answers)

    def supports(self, oracle: FrequencyOracle, items: Words) -> Indices:
        return oracle.supports(self.answers, self.domain, self.publics, items)


def reports(query: FrequencyQuery, answers: Answers) -> Reports:
    """Return the answers of a batch with their public words."""
    return Reports(query.domain, answers.values, public_words(query.public, answers.slots))


def reports_by_length(query: ItemQuery, answers: Answers) -> dict[int, Reports]:
    """Return the answers of a batch by the length of the prefix that they are about, shortest first.

    A length that the query names several times has the answers of all these groups. The groups are disjoint: given a
    random order of agents, the answers of one say nothing about the noise in another.
    """
    together = reports(query, answers)
    lengths = np.array(query.lengths, dtype=np.int64)[answers.slots % len(query.lengths)]
    groups = {}
    for length in sorted(set(query.lengths)):
        rows = lengths == length
        groups[length] = Reports(query.domain, together.answers[rows], together.publics[rows])
    return groups


def binomial_intervals(counts: Indices, trials: int, miss: float) -> tuple[Floats, Floats]:
    """Return the Clopper-Pearson interval of the rate of each count out of so many trials.

        low = the r with P(Bin(n, r) >= count) = miss/2,     high = the r with P(Bin(n, r) <= count) = miss/2

    Whatever the rate is, the interval misses it with probability at most ``miss`` (Clopper and Pearson 1934). Rounded
    outwards. Without trials it is [0, 1].
    """
    if trials == 0:
        return np.zeros(len(counts)), np.ones(len(counts))
    successes, failures = counts.astype(np.float64), (trials - counts).astype(np.float64)
    low = np.where(counts > 0, betaincinv(np.maximum(successes, 0.5), failures + 1.0, miss / 2.0), 0.0)
    high = np.where(failures > 0, betaincinv(successes + 1.0, np.maximum(failures, 0.5), 1.0 - miss / 2.0), 1.0)
    return np.maximum(low - _ROUNDING, 0.0), np.minimum(high + _ROUNDING, 1.0)


def signed_shares(questions: Questions, mechanism: BitMechanism) -> Floats:
    """Estimate, for every item, the share of agents that hold it with sign +, less that with sign -; shape (2^bits,).

    Unbiased; the variance is at most 1/(n (2p-1)^2) over the public rows and the randomized responses, since each of n
    answers adds +-1/(n (2p-1)). ``questions`` are about the same items, 2^24 of them at most; at least one.
    """
    bits = questions[0][0].code_bits
    if 1 << bits > MAX_LISTED:
        raise BadInput(f"at most {MAX_LISTED} items are estimated at once, found 2^{bits}")
    sums = np.zeros(1 << bits, dtype=np.int64)
    for query, answers in questions:
        rows = query.rows(answers.slots)
        sums += np.bincount(rows, minlength=1 << bits) - 2 * np.bincount(rows[answers.values == 1], minlength=1 << bits)
    walsh_hadamard(sums)
    count = sum(len(answers.values) for _, answers in questions)
    return np.asarray(sums / (max(1, count) * (2.0 * mechanism.truth - 1.0)), dtype=np.float64)


def likeliest_parity(questions: Questions) -> int:
    """Return the row r for which the agents of that row reported <r, v> + s = 0 most clearly: s is the parity r of v.

    Agents of another row report 0 and 1 equally often. With fewer than a few agents a row, 2^bits in all, this is a
    guess: no local protocol without exponentially many agents does better (Kasiviswanathan et al. 2011, Theorem 5.6).
    """
    rows = np.concatenate([query.rows(answers.slots) for query, answers in questions])
    if not len(rows):
        return 0
    ones = np.concatenate([answers.values for _, answers in questions])
    rows, place = np.unique(rows, return_inverse=True)
    counts = np.bincount(place)
    clear = (counts - 2.0 * np.bincount(place, weights=ones)) / np.sqrt(counts)
    return int(rows[np.argmax(clear)])
