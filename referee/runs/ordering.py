"""The order in which a run asks agents: who contributes to its seed, what is committed to before and published after.

The beacon is the contribution of the witnesses and the curator: witnesses sign a run's beginning, then the curator
reveals its share.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection as Several
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from common.core.errors import AuditFailed, BadMessage, PeerMisbehaved
from common.crypto.identity import Signed, verify
from common.log.receipts import RevealedShare, StoredCheckpoint, beacon_value, commitment_to
from common.net.messages import Configuration, OrderCommitment, Terms
from referee.collection import order
from referee.collection.order import commitment, simulated
from referee.runs.curator import CURATORS
from referee.tables import Cohort


class Orders(NamedTuple):
    """What a run begins with: commitments to the orders with agents that were never asked, oldest first.

    ``fresh`` is the cohort of those who enrolled since the last run began; ``seeds`` are the new seeds of existing
    orders, by their first agents.
    """

    fresh: Cohort | None
    seeds: dict[int, str]
    commitments: tuple[OrderCommitment, ...]


def orders_of(cohorts: Sequence[Cohort], agents: int, seed: int | None, in_use: Several[int]) -> Orders:
    """Return the orders that a run begins with, for so many enrolled ``agents``.

    ``cohorts`` are all there are, oldest first. Without a public ``seed`` the order is secret. ``in_use`` are the first
    agents of the orders that runs in progress may ask.
    """
    sealed = sum(c.agents for c in cohorts)
    fresh = Cohort(sealed, agents - sealed, _secret(seed), 0) if agents > sealed else None
    left = [c for c in cohorts if c.used < c.agents]
    open_ones = [c for c in left if seed is None and c.first not in in_use]
    seeds = {c.first: order.add_layer(c.seed, c.used, _secret(None)) for c in open_ones}
    covered = [replace(c, seed=seeds.get(c.first, c.seed)) for c in left]
    commitments = tuple(
        OrderCommitment(first=c.first, agents=c.agents, used=c.used, sha256=commitment(c.seed), shared=c in left)
        for c in (*covered, *([fresh] if fresh else []))
    )
    return Orders(fresh, seeds, commitments)


def _secret(seed: int | None) -> str:
    return secrets.token_hex(32) if seed is None else simulated(seed)


class OrderEntropy(NamedTuple):
    """What other parties contribute to a run's order: the curator's share, and the value of its beacon."""

    share: str | None = None
    beacon: str | None = None

    @property
    def text(self) -> str | None:
        """Both as part of a seed (:mod:`referee.collection.order`); None if there are no contributions."""
        return "+".join(part for part in self if part is not None) or None

    @property
    def choosers(self) -> str:
        """The parties that choose an order with these contributions, in words."""
        if self.beacon is not None:
            return REFEREE_AND_BEACON if self.share is None else ALL
        return REFEREE if self.share is None else BOTH


def shares_in(configuration: Configuration, cohorts: Sequence[Cohort], entropy: OrderEntropy) -> dict[int, str]:
    """Return the seeds, by first agent, of those orders of a run that other parties' contributions change."""
    own = {promised.first for promised in configuration.order if not promised.shared}
    return {c.first: order.join_share(c.seed, entropy.text) for c in cohorts if c.first in own and entropy.text}


def opened(cohort: Cohort, configuration: Configuration, entropy: OrderEntropy) -> str:
    """Return the committed seed of an order: the used one, without the contributions of other parties."""
    own = {promised.first for promised in configuration.order if not promised.shared}
    return cohort.seed.removesuffix(f"+{entropy.text}") if entropy.text and cohort.first in own else cohort.seed


def checked(promised: OrderCommitment, published: str, entropy: OrderEntropy) -> tuple[str, str]:
    """Return the seed of an order as it was used, from the published seed, and who chose it, in words.

    AuditFailed if it is not the one committed to, or no seed.
    """
    named = f"the order of agents {promised.first}..."
    if commitment(published) != promised.sha256:
        raise AuditFailed(f"the seed of {named} is not the one committed to")
    try:
        begins = order.read_layers(published)[-1].start
    except ValueError as error:
        raise AuditFailed(f"the seed of {named}: {error}") from None
    if promised.shared or begins != promised.used:
        return published, BEFORE
    return order.join_share(published, entropy.text), entropy.choosers


BOTH = "the referee and the curator together"
ALL = "the referee, the curator and the beacon's witnesses together"
REFEREE_AND_BEACON = "the referee and the beacon's witnesses together"
REFEREE = "the referee alone"
BEFORE = "an earlier run"  # who chose an order, in words


def beacon_of(words: StoredCheckpoint, configuration: Configuration) -> str:
    """Return the beacon of the run with a configuration (:func:`common.log.receipts.beacon_value`)."""
    c = configuration
    return beacon_value(words, referee=c.referee, run=c.run, digest=c.fingerprint(), witnesses=c.beacon)


def check_beacon(body: dict[str, Any], configuration: Configuration, terms: Terms, curator: str) -> OrderEntropy:
    """Return what other parties contributed to a run's order, from the entry of its beacon.

    Forged or BadMessage if a witness's statement, or the share, has the wrong signer. PeerMisbehaved if the share was
    opened to another beacon, or is not the one that the terms are bound to.
    """
    value = beacon_of(StoredCheckpoint.parse(body["words"]), configuration)
    if terms.share_sha256 is None:
        if "share" in body:
            raise BadMessage("the curator has bound itself to no share, and one is opened")
        return OrderEntropy(None, value)
    if "share" not in body:
        raise BadMessage("the curator's share is not opened")
    signed = Signed.parse(body["share"])
    share = RevealedShare.parse(verify(signed, RevealedShare.KIND, curator, CURATORS))
    if (share.run, share.digest, share.beacon) != (configuration.run, configuration.fingerprint(), value):
        raise PeerMisbehaved("the curator's share was opened for another beacon or configuration")
    if commitment_to(share.share) != terms.share_sha256:
        raise PeerMisbehaved("the curator opens another share than its terms are bound to")
    return OrderEntropy(share.share, value)
