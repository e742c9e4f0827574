"""In which order a run asks: who takes part in the seed, what is committed to before, and what is published after.

A run that begins puts a layer of its own secret (:mod:`referee.collection.ordering.layers`) on every order that nobody
uses any more, so that the seeds which earlier runs have published tell nothing of its order. Its curator's terms then
join this layer, and so does the beacon if the run has one (:mod:`common.log.beacon`). An order that another run is
using stays as it is, and is *shared*: the commitment says so.

A run with a public seed, about simulated people, has nothing to hide and covers nothing: it goes on in the order there
is, so that it is the same run in every deployment.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection as Several
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from common.core.errors import AuditFailed
from common.wire.messages import Configuration, OrderCommitment
from referee.collection.ordering import layers
from referee.collection.ordering.order import commitment, simulated
from referee.state.values import Cohort


class Orders(NamedTuple):
    """What a run begins with.

    Attributes
    ----------
    usable
        The orders with agents that were never asked, oldest first, as they are from now on.
    fresh
        The one of those who enrolled since the last run began, which is among them; None if nobody did.
    seeds
        The new seeds of orders that were there, by their first agents.
    commitments
        To each usable order.
    """

    usable: tuple[Cohort, ...]
    fresh: Cohort | None
    seeds: dict[int, str]
    commitments: tuple[OrderCommitment, ...]


def orders_of(cohorts: Sequence[Cohort], agents: int, seed: int | None, in_use: Several[int]) -> Orders:
    """Return the orders that a run begins with.

    Parameters
    ----------
    cohorts
        All there are, oldest first.
    agents
        How many agents are enrolled.
    seed
        The public seed; None where the order is a secret.
    in_use
        The first agents of the orders that runs under way may ask.
    """
    sealed = sum(c.agents for c in cohorts)
    fresh = Cohort(sealed, agents - sealed, _secret(seed), 0) if agents > sealed else None
    left = [c for c in cohorts if c.used < c.agents]
    seeds = {
        c.first: layers.covered(c.seed, c.used, _secret(None)) for c in left if seed is None and c.first not in in_use
    }
    covered = [replace(c, seed=seeds.get(c.first, c.seed)) for c in left]
    usable = (*covered, *([fresh] if fresh else []))
    commitments = tuple(
        OrderCommitment(first=c.first, agents=c.agents, used=c.used, sha256=commitment(c.seed), shared=c in left)
        for c in usable
    )
    return Orders(usable, fresh, seeds, commitments)


def _secret(seed: int | None) -> str:
    return secrets.token_hex(32) if seed is None else simulated(seed)


class Given(NamedTuple):
    """What others than the referee have given to a run's order: the curator's share, and the value of its beacon."""

    share: str | None = None
    beacon: str | None = None

    @property
    def text(self) -> str | None:
        """Both as a seed names them (:mod:`referee.collection.ordering.layers`); None if nobody gave anything."""
        return "+".join(part for part in self if part is not None) or None

    @property
    def choosers(self) -> str:
        """Who chooses an order that is made of them, in words."""
        if self.beacon is not None:
            return REFEREE_AND_BEACON if self.share is None else ALL
        return REFEREE if self.share is None else BOTH


def shares_in(configuration: Configuration, cohorts: Sequence[Cohort], given: Given) -> dict[int, str]:
    """Return the seeds, by their first agents, of those orders of a run that what others gave makes others."""
    own = {promised.first for promised in configuration.order if not promised.shared}
    text = given.text
    return {} if text is None else {c.first: layers.joined(c.seed, text) for c in cohorts if c.first in own}


def opened(cohort: Cohort, configuration: Configuration, given: Given) -> str:
    """Return the seed that a run has committed to, of the order as it was used: without what others gave to it."""
    own = {promised.first for promised in configuration.order if not promised.shared}
    text = given.text
    return cohort.seed.removesuffix(f"+{text}") if text is not None and cohort.first in own else cohort.seed


def checked(promised: OrderCommitment, published: str, given: Given) -> tuple[str, str]:
    """Return the seed of an order as it was used, from what was published, and who chose it, in words.

    Raises
    ------
    AuditFailed
        If it is not the one committed to, or no seed.
    """
    named = f"the order of agents {promised.first}..."
    if commitment(published) != promised.sha256:
        raise AuditFailed(f"the seed of {named} is not the one committed to")
    try:
        begins = layers.begins(published)
    except ValueError as error:
        raise AuditFailed(f"the seed of {named}: {error}") from None
    if promised.shared or begins != promised.used:
        return published, BEFORE
    return layers.joined(published, given.text), given.choosers


BOTH = "the referee and the curator together"
ALL = "the referee, the curator and the beacon's witnesses together"
REFEREE_AND_BEACON = "the referee and the beacon's witnesses together"
REFEREE = "the referee alone"
BEFORE = "an earlier run"
"""Who chose an order, in words."""
