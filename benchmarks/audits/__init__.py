"""Empirical privacy audits of everything that is shipped, with broken twins: ``python -m benchmarks.audits``.

Each module here has a function ``cases``, and names in ``AUDITED`` what its cases audit: operations by the name under
which they are registered (``operations count``), and the ways in which a learner may use people (``access
ClippedSum``): central mechanisms, noisy steps and shares by their class, and the private choice among runs. A learner
is audited by the cases of the ways that it takes. Agents' mechanisms have one each (:mod:`deploy.auditing`).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from types import ModuleType

from deploy import auditing
from deploy.auditing import Case


def cases() -> list[Case]:
    """Return every case: of mechanisms, learners, learners on draws, operations, agents, and whole transcripts."""
    return [case for module in (*_modules(), auditing) for case in module.cases()]


def audited() -> dict[str, tuple[str, ...]]:
    """Return the names of the cases of each way to use people and of each operation."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for module in _modules():
        for name, of in getattr(module, "AUDITED", {}).items():
            found[name] += of
    return dict(found)


def _modules() -> list[ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name.endswith("_cases"))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]
