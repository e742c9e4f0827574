"""What answers to a code query say: how many agents hold each item, by sign; or which parity their labels are."""

from __future__ import annotations

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadInput
from common.vocabulary.mechanisms.base import BitMechanism
from common.vocabulary.mechanisms.frequency import MAX_LISTED
from common.vocabulary.mechanisms.hadamard import walsh_hadamard
from common.vocabulary.steps import Questions


def signed_shares(asked: Questions, mechanism: BitMechanism) -> Floats:
    """Estimate, for every item, the share of agents that hold it with sign +, less that with sign -.

    Unbiased; the variance is at most 1/(n (2p-1)^2) over the public rows and the randomized responses, since each of n
    answers adds +-1/(n (2p-1)).

    Parameters
    ----------
    asked
        Questions about the same items, at least one.

    Returns
    -------
    Shape (2^bits,).

    Raises
    ------
    BadInput
        If there are more than 2^24 items.
    """
    bits = asked[0][0].code_bits
    if 1 << bits > MAX_LISTED:
        raise BadInput(f"at most {MAX_LISTED} items are estimated at once, found 2^{bits}")
    sums = np.zeros(1 << bits, dtype=np.int64)
    for query, answers in asked:
        rows = query.rows(answers.slots)
        sums += np.bincount(rows, minlength=1 << bits) - 2 * np.bincount(rows[answers.values == 1], minlength=1 << bits)
    walsh_hadamard(sums)
    told = sum(len(answers.values) for _, answers in asked)
    return np.asarray(sums / (max(1, told) * (2.0 * mechanism.truth - 1.0)), dtype=np.float64)


def likeliest_parity(asked: Questions) -> int:
    """Return the row r for which the agents of that row told <r, v> + s = 0 most clearly: s is the parity r of v.

    Agents of another row tell 0 and 1 alike. With fewer than a few agents a row, 2^bits in all, this is a guess: no
    local protocol without exponentially many agents does better (Kasiviswanathan et al. 2011, Theorem 5.6).
    """
    rows = np.concatenate([query.rows(answers.slots) for query, answers in asked])
    if not len(rows):
        return 0
    ones = np.concatenate([answers.values for _, answers in asked])
    rows, place = np.unique(rows, return_inverse=True)
    told = np.bincount(place)
    clear = (told - 2.0 * np.bincount(place, weights=ones)) / np.sqrt(told)
    return int(rows[np.argmax(clear)])
