"""All registered entries by kind, which a scenario may name."""

import importlib
from types import ModuleType

from common import operations
from common import protocols as problems
from common.core.registry import Registry, declared, installed
from common.data import distributions
from common.local import hypotheses, mechanisms, queries
from curator import learners
from referee import protocols

KINDS: dict[str, tuple[ModuleType, str]] = {
    "protocols": (protocols, "base"),
    "problems": (problems, "base"),
    "operations": (operations, "operation"),
    "learners": (learners, "base"),
    "mechanisms": (mechanisms, "mechanism"),
    "queries": (queries, "query"),
    "hypotheses": (hypotheses, "hypothesis"),
    "distributions": (distributions, "base"),
}
"""Every kind, by the group of its entry points: its package, and the module there that declares the registry.

The registry has the name of the kind, in capitals.
"""


def registered() -> dict[str, list[str]]:
    """Return the names of all entries of each kind, shipped and installed, without importing them."""
    return {
        group: sorted({*declared(package, group.upper()), *(entry.name for entry in installed(group))})
        for group, (package, _) in KINDS.items()
    }


def explained(group: str) -> dict[str, str]:
    """Return the names of one kind, each with the first paragraph of its docstring; imports all of that kind."""
    package, module = KINDS[group]
    registry: Registry[object] = getattr(importlib.import_module(f"{package.__name__}.{module}"), group.upper())
    first = {name: (entry.__doc__ or "").strip().partition("\n\n")[0] for name, entry in registry.items()}
    return {name: " ".join(paragraph.split()) for name, paragraph in first.items()}
