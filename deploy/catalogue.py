"""Everything that is registered, by kind: what a scenario may name."""

from __future__ import annotations

from typing import Any

from common.core.registry import Registry
from common.people.distributions.base import DISTRIBUTIONS
from common.scenario.problems.base import PROBLEMS
from common.vocabulary.hypotheses.base import HYPOTHESES
from common.vocabulary.mechanisms.base import MECHANISMS
from common.vocabulary.queries.base import QUERIES
from curator.learners.base import LEARNERS
from curator.operations.base import HANDLERS
from referee.protocols.base import PROTOCOLS


def registered() -> dict[str, list[str]]:
    """Return the names of all there is of each kind, shipped and installed."""
    registries: dict[str, Registry[Any]] = {
        "protocols": PROTOCOLS,
        "problems": PROBLEMS,
        "operations": HANDLERS,
        "learners": LEARNERS,
        "mechanisms": MECHANISMS,
        "queries": QUERIES,
        "hypotheses": HYPOTHESES,
        "distributions": DISTRIBUTIONS,
    }
    return {noun: registry.names() for noun, registry in registries.items()}
