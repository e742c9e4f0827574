"""Every case, and which of them audits what is registered: each module of :mod:`deploy.auditing.cases` has some.

A module has a function ``cases``, and names in ``AUDITED`` the learners and operations that its cases audit, by the
group and name under which they are registered. Each mechanism has one (:mod:`deploy.auditing.cases.mechanism_cases`).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from types import ModuleType

from deploy.auditing import cases as folder
from deploy.auditing.case import Case


def cases() -> list[Case]:
    """Return every case: of mechanisms, learners, learners on draws, operations, agents, and whole transcripts."""
    return [case for module in _modules() for case in module.cases()]


def audited() -> dict[str, tuple[str, ...]]:
    """Return the names of the cases of each learner and operation, by its group and name: ``operations count``."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for module in _modules():
        for name, of in getattr(module, "AUDITED", {}).items():
            found[name] += of
    return dict(found)


def _modules() -> list[ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    return [importlib.import_module(f"{folder.__name__}.{name}") for name in names]
