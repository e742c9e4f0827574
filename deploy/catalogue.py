"""Everything that is registered, by kind: what a scenario may name."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple

from common import operations
from common import protocols as problems
from common.core.registry import Registry, declared, installed
from common.data import distributions
from common.local import hypotheses, mechanisms, queries
from curator import learners
from referee import protocols


class RegisteredKind(NamedTuple):
    """The package that a kind is registered from, its module that declares the registry, and the registry's name."""

    package: ModuleType
    module: str
    registry: str


KINDS = {
    "protocols": RegisteredKind(protocols, "base", "PROTOCOLS"),
    "problems": RegisteredKind(problems, "base", "PROBLEMS"),
    "operations": RegisteredKind(operations, "operation", "OPERATIONS"),
    "learners": RegisteredKind(learners, "base", "LEARNERS"),
    "mechanisms": RegisteredKind(mechanisms, "mechanism", "MECHANISMS"),
    "queries": RegisteredKind(queries, "query", "QUERIES"),
    "hypotheses": RegisteredKind(hypotheses, "hypothesis", "HYPOTHESES"),
    "distributions": RegisteredKind(distributions, "base", "DISTRIBUTIONS"),
}
"""Every kind, by the group of its entry points."""


def registered() -> dict[str, list[str]]:
    """Return the names of all there is of each kind, shipped and installed; imports none of them."""
    return {
        group: sorted({*declared(kind.package, kind.registry), *(entry.name for entry in installed(group))})
        for group, kind in KINDS.items()
    }


def explained(group: str) -> dict[str, str]:
    """Return the names of one kind, each with the first sentence of its documentation; imports all of that kind."""
    kind = KINDS[group]
    declaring = importlib.import_module(f"{kind.package.__name__}.{kind.module}")
    registry: Registry[object] = getattr(declaring, kind.registry)
    return {name: _first_sentence(entry) for name, entry in registry.items()}


def _first_sentence(entry: object) -> str:
    paragraph = (entry.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())
