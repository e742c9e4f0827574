"""Everything that is registered, by kind: what a scenario may name."""

from __future__ import annotations

from types import ModuleType

from common.core.registry import declared
from common.people import distributions
from common.scenario import problems
from common.vocabulary import hypotheses, mechanisms, queries
from curator import learners
from referee import protocols

KINDS: dict[str, ModuleType] = {
    "protocols": protocols,
    "problems": problems,
    "learners": learners,
    "mechanisms": mechanisms,
    "queries": queries,
    "hypotheses": hypotheses,
    "distributions": distributions,
}
"""The package that each kind is registered from."""


def registered() -> dict[str, list[str]]:
    """Return the names of all protocols, problems, learners, mechanisms, queries, hypotheses and distributions."""
    return {noun: declared(package) for noun, package in KINDS.items()}
