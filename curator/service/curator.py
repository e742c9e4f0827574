"""The curator: its own policy, its own accountant, its own ledger. Trusts nobody, the referee included.

Every operation goes the way of the engine (:mod:`curator.engine.engine`), to which the service adds what makes it
binding: check the whole remaining budget, record the charge durably, run, store the result, release. All randomness of
an operation is derived from the curator's durable secret and the operation's history, so work that a crash cut off is
repeated bit for bit: there never is a second sample; a repeated request gets what was stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common.core.errors import BadInput, BadScenario, BudgetExceeded, ConfigurationMismatch, Conflict, Forged
from common.core.schedule import Schedule
from common.privacy.budget import open_budget
from common.privacy.calibration import sampling_schedule
from common.privacy.events import Event, NonPrivate, Release
from common.privacy.guarantee import Guarantee, of_curator
from common.scenario.agreement import policy_digest
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import parse
from common.service.database import sqlite_url
from common.vocabulary.operations.base import Operation, release_of
from common.vocabulary.records import Records
from common.wire import messages
from common.wire.identity import Signed, verify
from curator.engine.engine import Engine
from curator.engine.policy import Policy
from curator.learners.base import Learner
from curator.sample.base import Sample
from curator.state.ledger import Charge, Holder, Ledger
from curator.state.ledger_index import LedgerIndex
from curator.state.state_directory import StateDirectory

RELEASE_UNIT = 1 / 16
"""Seconds after which a release of real people leaves at the earliest; later, after this times a power of two."""


def planned_events(
    learner: Learner | None, share: float | None, n: int, kappa: float | None, eta: float, rounds: int
) -> Sequence[Event]:
    """Return the events of ``rounds`` rounds of learning and reweighing: what the budget must hold.

    Without a learner: of as many releases, each of which costs its share.
    """
    if learner is None:
        return rounds * [NonPrivate() if share is None else Release(epsilon=share)]
    bounds = (1.0,) * rounds if kappa is None else sampling_schedule(n, kappa, eta, rounds)
    return [learner.event(bound) for bound in bounds]


class Curator:
    """One curator with one sample and one budget.

    Parameters
    ----------
    scenario
        The resolved scenario that this curator has agreed to: its own section is its policy.
    sample
        The private sample, n records. Closed with the curator.
    folder
        State directory: ledger, weights, key.
    public
        The public sample, if the scenario has one.
    seed
        Public seed, for simulated people only.
    referee
        The referee's public key that it obeys; None pins the first that opens a run.
    schedule
        With which clock real people's releases are held until :data:`RELEASE_UNIT` times a power of two has passed.

    Raises
    ------
    BudgetExceeded
        If the rounds of the policy do not fit its budget.
    BadScenario, BadData
        If the policy and the sample do not fit together.
    BadInput
        If another process works on the state directory, or its budget belongs to another referee.
    """

    def __init__(
        self,
        scenario: ResolvedScenario,
        sample: Sample,
        folder: Path,
        *,
        public: Records | None = None,
        seed: int | None = None,
        referee: str | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        section = scenario.curator
        if scenario.people == "real" and seed is not None:
            raise BadScenario("people are real: the curator's noise must not come from a seed")
        if scenario.people == "real" and section.epsilon is None:
            raise BadScenario("people are real: the curator needs an epsilon and a delta")
        self._policy = policy = Policy.of(scenario, sample, public)
        share = None if section.epsilon is None else section.share
        planned = planned_events(policy.learner, share, policy.n, policy.kappa, policy.eta, policy.rounds)
        self._budget = open_budget(section.epsilon, section.delta, planned)
        self._guarantee = of_curator(self._budget.guarantee, section.guarantee.protects)
        self._lock = threading.Lock()
        self._schedule = schedule or Schedule()
        self._unit = RELEASE_UNIT if scenario.people == "real" else None
        self._sample = sample
        self._public = public
        self._digest = policy_digest(scenario)
        with ExitStack() as opened:
            opened.callback(sample.close)
            self._directory = StateDirectory(folder, seed)
            opened.callback(self._directory.close)
            self._ledger = Ledger(sqlite_url(folder / "ledger.sqlite"))
            opened.callback(self._ledger.close)
            self._referee = self._pinned(referee)
            self._index = LedgerIndex(self._ledger)
            self._engine = self._rebuilt()
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Release the sample, the ledger and the state directory."""
        self._opened.close()

    def _pinned(self, referee: str | None) -> str | None:
        """Return the referee to obey: the one that holds the budget already, else the given one."""
        holder = self._ledger.holder()
        if holder is None:
            return referee
        if referee not in (None, holder.referee):
            raise BadInput(
                f"this curator's budget belongs to referee {holder.referee[:16]}..., not to {str(referee)[:16]}..."
            )
        return holder.referee

    @property
    def key(self) -> str:
        """The curator's public key."""
        return self._directory.identity.public

    @property
    def guarantee(self) -> Guarantee:
        """What holds for every person in the sample and any behaviour of the referee."""
        return self._guarantee

    # Messages -------------------------------------------------------------------------------------------------------

    def open_run(self, signed: Signed) -> Signed:
        """Agree to a run and give it the budget; the same configuration again gets the same answer.

        Raises
        ------
        Forged, BadMessage
            If the configuration is not one of the pinned referee.
        ConfigurationMismatch
            If it asks of this curator anything else than its policy.
        BudgetExceeded
            If another run already has the budget.
        """
        configuration = messages.Configuration.parse(verify(signed, messages.Configuration.KIND, self._referee))
        if configuration.referee != signed.key:
            raise ConfigurationMismatch("the configuration names another referee than the one that signed it")
        digest = configuration.fingerprint()
        if policy_digest(parse(configuration.scenario)) != self._digest:
            raise ConfigurationMismatch(
                "the run's curator section differs from this curator's own policy: start both from the same scenario"
            )
        with self._lock:
            holder = self._ledger.holder()
            if holder is None:
                if self._referee not in (None, signed.key):
                    raise Forged("another referee was pinned meanwhile")
                self._ledger.open_run(Holder(configuration.run, digest, self._digest, signed.key))
            elif (holder.run, holder.digest) != (configuration.run, digest):
                epsilon, delta = self.guarantee.pair
                raise BudgetExceeded(
                    f"the whole budget (epsilon {epsilon:g}, delta {delta:g}) belongs to run {holder.run!r}; "
                    f"a further run needs new people or a new budget",
                    spent=epsilon,
                    requested=epsilon,
                    budget=epsilon,
                )
            self._referee = signed.key
        terms = messages.Terms(
            run=configuration.run,
            digest=digest,
            n=len(self._sample),
            guarantee=self.guarantee,
        )
        return self._directory.identity.sign(terms.KIND, terms.wire())

    def admit(self, signed: Signed) -> tuple[messages.Perform, Operation[Any]]:
        """Check a request as far as that takes no work: who sent it, what it says, for which run.

        Raises
        ------
        Forged, BadMessage, ConfigurationMismatch, PolicyRefused
            As :meth:`perform`.
        """
        request = messages.Perform.parse(verify(signed, messages.Perform.KIND, self._referee))
        operation = self._policy.read(request.operation)
        holder = self._ledger.holder()
        if holder is None or (holder.run, holder.digest) != (request.run, request.digest):
            raise ConfigurationMismatch(f"run {request.run!r} with this configuration does not hold the budget")
        return request, operation

    def perform(self, signed: Signed) -> Signed:
        """Carry out an operation, once; a repeated request gets the stored release and is charged nothing.

        Raises
        ------
        Forged, BadMessage
            If the request is not one of the run's referee.
        ConfigurationMismatch
            If it names another run or configuration.
        Conflict
            If the id was used for another operation, or an earlier operation has not finished.
        BudgetExceeded
            If the operation does not fit into what is left; says spent, requested and budget.
        PolicyRefused
            If the policy's rounds are used up, a hypothesis needs features that the records lack, or is of a kind that
            a curator takes only if its own learner gives it; if memory does not suffice.
        OperationFailed
            If its code failed after the charge; says nothing about why.
        """
        request, operation = self.admit(signed)
        with self._lock:
            result = self._once(request, operation)
        release = messages.Release(
            run=request.run,
            digest=request.digest,
            operation_id=request.operation_id,
            request=request.fingerprint(),
            result=result,
        )
        return self._directory.identity.sign(release.KIND, release.wire())

    # The way of every operation -------------------------------------------------------------------------------------

    def _once(self, request: messages.Perform, operation: Operation[Any]) -> dict[str, Any]:
        """Return what an operation released, carrying it out if that has not been done."""
        wanted = request.fingerprint()
        known = self._index.find(request.operation_id)
        if known is not None and known.request != wanted:
            raise Conflict(f"operation id {request.operation_id} was used for another operation")
        if known is not None and known.result is not None:
            return known.result
        unfinished = self._index.unfinished()
        if known is None and unfinished is not None:
            raise Conflict(f"operation {unfinished.operation_id} has not finished: ask for it again first")
        if known is None:
            event = self._engine.admit(operation, lambda event: self._budget.admit(self._index.events, event))
            known = Charge(request.operation_id, wanted, operation.wire(), event, None)
            self._index.charge(request.run, known)
        with self._schedule.held(self._unit):
            return self._carry_out(request.run, known, operation)

    def _carry_out(self, run: str, charge: Charge, operation: Operation[Any]) -> dict[str, Any]:
        """Run what was charged, and store what it releases."""
        number, reweighs = charge.operation_id, operation.reweighs_by is not None
        if reweighs:
            self._directory.checkpoints.settle()
        began = time.monotonic()
        try:
            # Keys and run names stay out of its randomness: a seeded run is the same run in every deployment.
            result = release_of(self._engine.run(number, operation, charge.event), charge.event)
            self._index.finish(run, number, result)
            self._engine.advance()
        except BaseException:
            # Memory may be ahead of the ledger now; only the ledger says what has happened.
            self._engine = self._rebuilt()
            raise
        if reweighs:
            updates, seconds = self._engine.workspace.reweighing.updates, time.monotonic() - began
            self._directory.checkpoints.offer(
                updates, seconds, self._engine.lineage(number), self._sample.cumulative_losses
            )
        return result

    def _rebuilt(self) -> Engine:
        """Return the engine that the ledger's operations lead to."""
        return Engine(
            self._policy,
            self._sample,
            self._directory.randomness,
            public=self._public,
            past=self._index,
            kept=self._directory.checkpoints.load,
        )
