"""Which people of a file are a sample, and in which slot each stands: so that a changed row is one changed record.

A row of the files is *replaced*: any of its fields may change, also those by which rows are kept, so it may come to be
kept, or cease to be. Let M be the rows that are kept, |M| >= n. Filtering first and permuting what is left afterwards
moves every person behind the changed one. Here instead:

*Who*: the n rows of M with the least keys f(i), f a pseudorandom function under a public key of the row's number i in
the files alone. A row that joins M or leaves it exchanges at most one of the n for one other, whatever n is.

*Where*: in the order of the keys g(i), g a pseudorandom function under a *secret* key. No public rule can do it. If
each slot is filled by a function of M, removing row a from M fills a's slot with s(a), removing row b fills b's with
s(b), and removing both must do both at once, as each removal may change one slot only; so s(a) differs from s(b) for
any two of the n slots, although fewer than n rows may be left over. With a secret g the order is uniformly random,
whatever the rows hold. Let x be the row that leaves the sample and y the one that enters it. Exchanging g(x) and g(y)
is a bijection of the keys that keeps their law, and after it every other row is in the slot where it was before, and y
in that of x. So both samples are mixtures, with the same weights, of pairs that differ in *one* slot. A mechanism that
is (epsilon, delta)-DP for such pairs, adaptively for as long as the order lives, is (epsilon, delta)-DP for the
mixtures (joint convexity of the hockey-stick divergence; likewise Renyi divergences are quasi-convex, and so are
trade-off functions). It is then (epsilon, delta)-DP for replacing one row of the *files*, n public.
"""

from __future__ import annotations

import numpy as np

from common.core.arrays import Indices
from common.core.errors import BadData
from common.numerics.randomness import RandomSource


def placed(rows: Indices, size: int | None, public: RandomSource, secret: RandomSource | None) -> Indices:
    """Return who is in a sample, slot by slot: positions in ``rows``, shape (n,), int64.

    Args:
        rows: M: the numbers of the rows that are kept, in the files, ascending, shape (m,).
        size: n, public; None: all that are kept, whose number is then public.
        public: The key of f.
        secret: The key of g; None: the order is that of f, for people who need no protection.

    Raises:
        BadData: If fewer than n are kept. That there are as many is taken for public, as n is; the message does not
            count them.
    """
    wanted = len(rows) if size is None else size
    if wanted > len(rows):
        raise BadData(
            f"{wanted} people are wanted, the table has fewer that fit: lower their number, and leave some room (how "
            f"many fit is itself data, so a number that all files like this one have is the one to state)"
        )
    chosen = ranked(rows, public)[:wanted]
    return chosen if secret is None else chosen[ranked(rows[chosen], secret)]


def ranked(rows: Indices, source: RandomSource) -> Indices:
    """Return the order of rows by their keys: 128 pseudorandom bits of each row's number, ties by that number.

    Args:
        rows: Numbers of rows, from 0, shape (m,).
        source: Fresh; word 2i and word 2i + 1 of it are the key of row i.
    """
    if not rows.size:
        return np.zeros(0, dtype=np.int64)
    keys = source.words(2 * (int(rows.max()) + 1)).reshape(-1, 2)[rows]
    return np.lexsort((rows, keys[:, 1], keys[:, 0])).astype(np.int64)
