"""Which cases of a contract the quick tests try: some, spread evenly over the list; the slow ones try the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], keep: int, *, several: bool = False) -> list[Any]:
    """Return all cases, of which all but ``keep`` are marked slow; the first one stays.

    Parameters
    ----------
    cases
        Values of the parameter, or of ``pytest.param``.
    several
        Whether each is a tuple of values of several parameters.
    """
    made = type(pytest.param())
    every = [c if isinstance(c, made) else pytest.param(*c) if several else pytest.param(c) for c in cases]
    kept = {place * len(every) // keep for place in range(keep)}
    return [
        case if place in kept else pytest.param(*case.values, marks=(*case.marks, pytest.mark.slow), id=case.id)
        for place, case in enumerate(every)
    ]
