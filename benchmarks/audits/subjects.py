"""What audits run against: a curator in memory with the referee that tests it, and a very small learner."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self
from unittest.mock import patch

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray
from common.crypto.identity import Identity
from common.learners.base import SETTINGS
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.records import Records
from common.log.entries import Head, following
from common.log.ledger import GENESIS, Chain, Journal
from common.log.witness import Witness
from common.net import messages
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Gaussian
from common.scenario.scenario import ResolvedScenario, parse_resolved
from curator.curator import Curator
from curator.learners.base import LEARNERS, Learner
from curator.mechanisms.access import Access
from curator.mechanisms.sums import ClippedSum
from curator.sample.base import LocalSample

REFEREE = Identity.create()
_PEOPLE = {"name": "sparse-conjunction", "side": "source", "d": 3, "truth": [0, 1], "rates": []}
_UNUSED_ORDER = ({"first": 0, "agents": 1, "used": 0, "sha256": "0" * 64},)


_SHARED = Path("/", "dev", "shm")


def state_folder() -> TemporaryDirectory[str]:
    """Return a folder for parties' states, in memory if this machine has a file system there: each is written once."""
    return TemporaryDirectory(dir=_SHARED if os.access(_SHARED, os.W_OK) else None)


class MemoryChain(Chain):
    """A curator's ledger for experiments that are repeated very often: the same entries, kept in memory."""

    def __init__(self) -> None:
        self.entries, self._links = [], []

    def append(self, kind: str, body: dict[str, Any]) -> Head:
        self._enter(*following(self.entries[-1] if self.entries else None, kind, body))
        return self.head()


class MemoryJournal(Journal):
    """A journal of such a chain, which tells nobody."""

    def __init__(self, folder: Path, about: dict[str, Any], witnesses: Sequence[Witness] = ()) -> None:
        self.closed = None
        self.chain, self.identity = MemoryChain(), Identity.create()
        self.append(GENESIS, about)

    def publish(self) -> None:
        """Tell nobody."""


def policy(**curator: Any) -> ResolvedScenario:
    """Return a scenario with the given section of the curator."""
    return parse_resolved(
        {
            "name": "audit",
            "title": "A tiny sample under audit",
            "alpha": 0.1,
            "divergence": {"chi_squared": 2.0},
            "source": {"distribution": _PEOPLE},
            "target": {"distribution": {**_PEOPLE, "side": "target"}},
            "curator": curator,
            "agents": {"count": 1, "mechanism": {"name": "warner", "epsilon": 1.0}},
        }
    )


class Office:
    """A curator whose budget a run holds; operations get numbers in the order they are asked for."""

    def __init__(self, curator: Curator, digest: str, seen: Head) -> None:
        self._curator = curator
        self._digest = digest
        self._seen = seen
        self._asked = 0

    def ask(self, operation: dict[str, Any], *, times: int = 1) -> list[dict[str, Any]]:
        """Send one and the same request so many times; return every result."""
        request = messages.Perform(
            run="audit", digest=self._digest, operation_id=str(self._asked), operation=operation, seen=self._seen
        )
        self._asked += 1
        signed = REFEREE.sign(request.KIND, request.wire())
        return [self._curator.perform(signed).message["result"] for _ in range(times)]


@contextmanager
def office(
    kind: type[Curator], scenario: ResolvedScenario, records: Records, folder: Path, source: RandomSource
) -> Iterator[Office]:
    """Open a curator with an empty ledger and randomness of its own, and give its budget to a run."""
    seed = int(source.integers(1 << 62, 1)[0])
    with patch("curator.curator.Journal", MemoryJournal):
        curator = kind(scenario, LocalSample.from_records(records), folder, seed=seed)
    try:
        configuration = messages.Configuration(
            run="audit", referee=REFEREE.public, scenario=scenario.wire(), order=_UNUSED_ORDER
        )
        signed = curator.open_run(REFEREE.sign(configuration.KIND, configuration.wire()))
        seen = messages.Terms.parse(signed.message).ledger.head
        yield Office(curator, configuration.fingerprint(), seen)
    finally:
        curator.close()


class NoisyMean(Learner):
    """The mean of label times feature over the sample itself, clipped to [-1, 1], with noise; and a given threshold."""

    name: Literal["noisy-mean"] = "noisy-mean"
    mu: float = Field(gt=0)
    threshold: float = 0.0
    releases: int = 1

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(mu=2.0),)

    def event(self, tv_bound: float) -> Event:
        return Gaussian(count=self.releases, mu=self.mu)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        width = access.dimension
        noisy = access.release(ClippedSum(math.sqrt(width), width, self.mu), self._signed)
        return Linear(weights=tuple((noisy / access.people).tolist()), threshold=self.threshold)

    @staticmethod
    def _signed(records: Records) -> AnyArray:
        return np.asarray(records.labels[:, None] * np.clip(records.features.astype(np.float64), -1, 1))


@contextmanager
def registered() -> Iterator[None]:
    """Have the learner in the registries, within a context."""
    with SETTINGS.extended("noisy-mean", NoisyMean), LEARNERS.extended("noisy-mean", NoisyMean):
        yield
