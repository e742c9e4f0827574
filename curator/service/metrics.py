"""What a curator tells whoever watches it: its ledger's charges and its work, and nothing that its sample decides.

Everything here is a function of requests, of the public policy, and of times that the referee sees too: an operation's
seconds are those until its release left, which for real people is held until a public time.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from common.core.errors import TandemError
from common.crypto.identity import Signed
from common.log.ledger import LEDGER
from common.net.metrics import SECONDS, Family, Histogram, Sample, gauge
from common.net.readiness import free_bytes
from common.operations.operation import Operation
from common.wire.messages import Perform
from curator.service.curator import Curator

LEDGER_PROBLEMS = frozenset({"cannot-write", "rolled-back", "peer-unavailable", "peer-misbehaved", "broken-ledger"})
"""Problems that say that the ledger, or a witness of it, did not take an entry."""


class Watched:
    """A curator whose operations are counted.

    Parameters
    ----------
    curator
        Who carries them out.
    """

    def __init__(self, curator: Curator) -> None:
        self._curator = curator
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._seconds = Histogram(SECONDS, "operation")

    def perform(self, signed: Signed, request: Perform, operation: Operation[Any]) -> Signed:
        """Carry out an operation that the curator has admitted."""
        began, outcome, kind = time.monotonic(), TandemError.problem, operation.kind
        try:
            release = self._curator.perform_admitted(signed, request, operation)
            outcome = "released"
            return release
        except TandemError as error:
            outcome = error.problem
            raise
        finally:
            self._outcomes[kind, outcome] += 1
            self._seconds.observe(time.monotonic() - began, kind)

    def families(self) -> list[Family]:
        """Return the metrics."""
        curator, outcomes = self._curator, sorted(self._outcomes.items())
        share, charges = curator.charges()
        epsilon, delta = curator.guarantee.pair
        failed = sum(count for (_, outcome), count in outcomes if outcome in LEDGER_PROBLEMS)
        counted = [Sample(count, {"operation": kind, "outcome": outcome}) for (kind, outcome), count in outcomes]
        ledger = curator.folder / LEDGER
        return [
            gauge("tandem_curator_epsilon_cap", "What the ledger's run costs its people, by the policy.", epsilon),
            gauge("tandem_curator_delta_cap", "The delta of that.", delta),
            gauge("tandem_curator_budget_share", "Share of the budget that is charged, in [0, 1].", share),
            gauge("tandem_curator_charges", "Operations that the ledger holds.", charges),
            Family("tandem_curator_operations_total", "counter", "Operations, by kind and outcome.", counted),
            Family(
                "tandem_curator_operation_seconds",
                "histogram",
                "Seconds until an operation's release left.",
                self._seconds.samples(),
            ),
            Family("tandem_curator_ledger_failures_total", "counter", "Ledger or witness failed.", [Sample(failed)]),
            gauge("tandem_disk_free_bytes", "Bytes left for the state directory.", free_bytes(curator.folder)),
            gauge("tandem_database_bytes", "Bytes of the ledger.", ledger.stat().st_size if ledger.exists() else None),
        ]
