"""Which cases of a contract the quick tests try: some, spread evenly over the list; the slow ones try the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], keep: int) -> list[Any]:
    """Return all cases, of which all but ``keep`` are marked slow; the first one stays.

    Parameters
    ----------
    cases
        Values of one parameter each; of several parameters as ``pytest.param``.
    """
    every = [case if isinstance(case, type(pytest.param())) else pytest.param(case) for case in cases]
    kept = {place * len(every) // keep for place in range(keep)}
    return [
        case if place in kept else pytest.param(*case.values, marks=(*case.marks, pytest.mark.slow), id=case.id)
        for place, case in enumerate(every)
    ]
