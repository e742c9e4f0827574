"""All frequent items of {0,1}^b, b up to 64, from one question to all agents at once.

The prefix extending method (Wang, Li and Jha 2019, "Locally differentially private heavy hitter identification"): the
agents' slots put them into groups, each of which reports prefixes of one length. The prefixes that the first group
supports most are extended by all continuations to the second length, the second group shows which of these it supports
most, and so on; the last group shows which whole items are frequent. Groups are disjoint, so a group's reports about
its candidates are independent of how they became candidates.
"""

from collections.abc import Iterator

import numpy as np

from common.core.arrays import Indices, Words
from common.core.errors import BadInput
from common.local.mechanisms.frequency import MAX_LISTED, FrequencyOracle, HadamardResponse
from common.local.queries.features import ItemQuery
from common.local.queries.query import Answers
from common.numerics.bisection import narrowed
from common.statistics.frequency import Reports, binomial_intervals, reports_by_length

KEPT = 256  # prefixes that go on to the next length
MAX_CANDIDATES = 1 << 26
_BLOCK = 1 << 20  # candidates whose counts are in memory at once


def ladder(bits: int, oracle: FrequencyOracle) -> tuple[int, ...]:
    """Return the prefix lengths of the groups: few and far apart, as far as counting allows.

    With Hadamard response a transform counts all continuations of a prefix; with other oracles each candidate is
    compared with each answer: steps are of 8 bits. Measured with ``python -m benchmarks.heavy_hitters``.
    """
    most, first, step = (24, 20, 16) if isinstance(oracle, HadamardResponse) else (16, 16, 8)
    if bits <= most:
        return (bits,)
    steps = -(-(bits - first) // step)
    return (first, *(first + -(-(bits - first) * k // steps) for k in range(1, steps + 1)))


def find(query: ItemQuery, oracle: FrequencyOracle, answers: Answers, beta: float, beam: int = KEPT) -> Words:
    """List the items whose share is shown to be above 0, the most supported first, uint64.

    A candidate of the last group is listed if the interval of its share lies above 0. All these intervals hold together
    with probability 1 - beta (:func:`~common.statistics.frequency.binomial_intervals`, among all candidates), so that
    with probability beta/2 at most any with a share of 0 is listed. Time is proportional to answers times ``beam`` with
    Hadamard response, and to answers times candidates with others.

    Args:
        query: The question; :func:`ladder` gives good prefixes. Its public randomness was drawn at random.
        answers: One batch.
        beta: Failure probability, in (0, 1).
        beam: Prefixes that go on from each length to the next; at least 1.
    """
    if not 0.0 < beta < 1.0:
        raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
    if beam < 1:
        raise BadInput(f"at least 1 prefix must be kept, found {beam}")
    lengths = tuple(sorted(set(query.lengths)))
    _check_candidates(lengths, beam)
    batches = reports_by_length(query, answers)
    prefixes, previous = np.zeros(1, dtype=np.uint64), 0
    for length in lengths[:-1]:
        prefixes = _most_supported(batches[length], oracle, prefixes, length - previous, beam)
        previous = length
    last, step = batches[lengths[-1]], lengths[-1] - previous
    threshold = _listing_count(oracle, query.domain, len(last), beta / (len(prefixes) << step))
    listed = [
        (items[above], supports[above])
        for items, supports in _continuations(last, oracle, prefixes, step)
        for above in [np.flatnonzero(supports >= threshold)]
    ]
    items, supports = (np.concatenate(parts) for parts in zip(*listed, strict=True))
    return np.asarray(items[np.lexsort((items, -supports))])


def _most_supported(reports: Reports, oracle: FrequencyOracle, prefixes: Words, step: int, beam: int) -> Words:
    """Return the most supported continuations, at most ``beam``; ties go to the smaller items."""
    items, supports = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    for more_items, more_supports in _continuations(reports, oracle, prefixes, step):
        threshold = supports[-1] if len(supports) == beam else 0
        above = np.flatnonzero(more_supports >= threshold)
        if len(above) > 4 * beam:
            threshold = np.partition(more_supports, len(more_supports) - beam)[len(more_supports) - beam]
            above = np.flatnonzero(more_supports >= threshold)
        items, supports = np.concatenate([items, more_items[above]]), np.concatenate([supports, more_supports[above]])
        order = np.lexsort((items, -supports))[:beam]
        items, supports = items[order], supports[order]
    return items


def _continuations(
    reports: Reports, oracle: FrequencyOracle, prefixes: Words, step: int
) -> Iterator[tuple[Words, Indices]]:
    width = max(1, _BLOCK >> step)
    ends = np.arange(1 << step, dtype=np.uint64)
    for begin in range(0, len(prefixes), width):
        batch = prefixes[begin : begin + width]
        supports = oracle.extended_supports(reports.answers, reports.domain, reports.publics, batch, step)
        yield ((batch[:, None] << np.uint64(step)) + ends).reshape(-1), supports.reshape(-1)


def _listing_count(oracle: FrequencyOracle, domain: int, count: int, miss: float) -> int:
    """Return the least number of supports that noise alone hardly reaches (count + 1 if there is none)."""

    def listed(supports: int) -> bool:
        return supports > count or binomial_intervals(np.array([supports]), count, miss)[0][0] > oracle.rates(domain)[1]

    return narrowed(listed, -1, count + 1, 0.0)


def _check_candidates(lengths: tuple[int, ...], beam: int) -> None:
    previous, survivors = 0, 1
    for length in lengths:
        count = survivors << (length - previous)
        if count > (MAX_CANDIDATES if previous else MAX_LISTED):
            raise BadInput(
                f"there would be {count} candidates of {length} bits: ask for prefixes of more lengths, nearer to each "
                "other, or keep fewer"
            )
        survivors, previous = min(count, beam), length
