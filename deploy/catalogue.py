"""Everything that is registered, by kind: what a scenario may name."""

from __future__ import annotations

from typing import Any

from common.distributions.base import DISTRIBUTIONS
from common.hypotheses.base import HYPOTHESES
from common.mechanisms.base import MECHANISMS
from common.problems.base import PROBLEMS
from common.queries.base import QUERIES
from common.registry import Registry
from curator.learners.base import LEARNERS
from referee.protocols.base import PROTOCOLS


def registered() -> dict[str, list[str]]:
    """Return the names of all protocols, problems, learners, mechanisms, queries, hypotheses and distributions."""
    registries: dict[str, Registry[Any]] = {
        "protocols": PROTOCOLS,
        "problems": PROBLEMS,
        "learners": LEARNERS,
        "mechanisms": MECHANISMS,
        "queries": QUERIES,
        "hypotheses": HYPOTHESES,
        "distributions": DISTRIBUTIONS,
    }
    return {noun: registry.names() for noun, registry in registries.items()}
