"""The curator: its own policy, its own accountant, its own ledger. Trusts nobody, the referee included.

Every operation goes the same way: check the whole remaining budget, record the charge durably, run, store the result,
release. All randomness of an operation is derived from the curator's durable secret and the operation's id, so work
that a crash cut off is repeated bit for bit: there never is a second sample; a repeated request gets what was stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common.core.errors import (
    BadData,
    BadInput,
    BadScenario,
    BudgetExceeded,
    ConfigurationMismatch,
    Conflict,
    Forged,
    PolicyRefused,
)
from common.privacy.budget import open_budget
from common.privacy.calibration import sampling_schedule
from common.privacy.events import Event, NonPrivate, SubsampledRelease
from common.scenario.agreement import policy_digest
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import parse
from common.service.database import sqlite_url
from common.vocabulary.hypotheses.base import hypothesis_kind, ordinary_kinds
from common.vocabulary.operations import Operation, Reweigh, parse_operation
from common.vocabulary.records import Records
from common.wire import messages
from common.wire.identity import Signed, verify
from curator.learners.base import Learner, parse_learner
from curator.operations.base import HANDLERS, Workspace
from curator.sample.base import Sample
from curator.state.ledger import Charge, Holder, Ledger
from curator.state.ledger_index import LedgerIndex
from curator.state.state_directory import StateDirectory
from curator.weights.reweighing import Reweighing


def planned_events(
    learner: Learner | None, share: float | None, n: int, kappa: float | None, eta: float, rounds: int
) -> Sequence[Event]:
    """Return the events of ``rounds`` rounds of learning and reweighing: what the budget must hold.

    Without a learner: of as many releases, each of which costs its share.
    """
    if learner is None:
        return rounds * [NonPrivate() if share is None else SubsampledRelease(draws=1, sampling=1.0, epsilon=share)]
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
    ) -> None:
        policy = scenario.curator
        n, kappa, eta, rounds = policy.n, policy.kappa, policy.eta, policy.rounds
        if scenario.people == "real" and seed is not None:
            raise BadScenario("people are real: the curator's noise must not come from a seed")
        if scenario.people == "real" and policy.epsilon is None:
            raise BadScenario("people are real: the curator needs an epsilon and a delta")
        if len(sample) != n:
            raise BadData(f"the curator's policy is for n = {n} records, found {len(sample)}")
        sample.check()
        self._learner = None if policy.learner is None else parse_learner(policy.learner)
        if self._learner is not None and scenario.problem is None:
            self._learner.check(sample.dtype, sample.dimension)
        if self._learner is not None:
            self._learner.check_public(public)
            self._learner.check_people(n)
        share = None if policy.epsilon is None else policy.share
        planned = planned_events(self._learner, share, n, kappa, eta, rounds)
        self._budget = open_budget(policy.epsilon, policy.delta, planned)
        self._lock = threading.Lock()
        self._numbers = (kappa, eta)
        self._rounds = rounds
        self._sample = sample
        self._public = public
        self._policy = policy_digest(scenario)
        with ExitStack() as opened:
            opened.callback(sample.close)
            self._directory = StateDirectory(folder, seed)
            opened.callback(self._directory.close)
            self._ledger = Ledger(sqlite_url(folder / "ledger.sqlite"))
            opened.callback(self._ledger.close)
            self._referee = self._pinned(referee)
            self._index = LedgerIndex(self._ledger)
            self._workspace = self._rebuild()
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
    def _by_choice(self) -> frozenset[str]:
        return frozenset() if self._learner is None else self._learner.by_choice

    @property
    def key(self) -> str:
        """The curator's public key."""
        return self._directory.identity.public

    @property
    def guarantee(self) -> tuple[float, float]:
        """The (epsilon, delta) that holds for every person in the sample, whatever the referee does."""
        return self._budget.guarantee

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
        if policy_digest(parse(configuration.scenario)) != self._policy:
            raise ConfigurationMismatch(
                "the run's curator section differs from this curator's own policy: start both from the same scenario"
            )
        with self._lock:
            holder = self._ledger.holder()
            if holder is None:
                if self._referee not in (None, signed.key):
                    raise Forged("another referee was pinned meanwhile")
                self._ledger.open_run(Holder(configuration.run, digest, self._policy, signed.key))
            elif (holder.run, holder.digest) != (configuration.run, digest):
                epsilon, delta = self.guarantee
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
            **messages.guarantee(self.guarantee),
        )
        return self._directory.identity.sign(terms.KIND, terms.wire())

    def admit(self, signed: Signed) -> tuple[messages.Perform, Operation]:
        """Check a request as far as that takes no work: who sent it, what it says, for which run.

        Raises
        ------
        Forged, BadMessage, ConfigurationMismatch, PolicyRefused
            As :meth:`perform`.
        """
        request = messages.Perform.parse(verify(signed, messages.Perform.KIND, self._referee))
        kind = hypothesis_kind(request.operation)
        if kind is not None and kind not in ordinary_kinds() | self._by_choice:
            # Before it is parsed: parsing is what this curator has not agreed to.
            raise PolicyRefused(f"this curator's learner gives no hypothesis of kind {kind!r}, so it takes none")
        operation = parse_operation(request.operation)
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

    def _once(self, request: messages.Perform, operation: Operation) -> dict[str, Any]:
        wanted = request.fingerprint()
        known = self._index.find(request.operation_id)
        if known is not None and known.request != wanted:
            raise Conflict(f"operation id {request.operation_id} was used for another operation")
        if known is not None and known.result is not None:
            return known.result
        unfinished = self._index.unfinished()
        if known is None and unfinished is not None:
            raise Conflict(f"operation {unfinished.operation_id} has not finished: ask for it again first")
        act = HANDLERS[operation.kind]()
        least = operation.min_features
        if least > self._sample.dimension:
            raise PolicyRefused(f"{operation.kind} needs {least} features, records have {self._sample.dimension}")
        event = act.event(operation, self._workspace)
        charge = Charge(request.operation_id, wanted, operation.wire(), event, None)
        if known is None:
            self._budget.admit(self._index.events, event)
            self._check_rounds(operation)
            act.check(operation, self._workspace)
            self._index.charge(request.run, charge)
        # Keys and run names stay out of it, so that a seeded run is the same run in every deployment.
        source = self._directory.randomness.derive(self._index.lineage(request.operation_id))
        if isinstance(operation, Reweigh):
            self._directory.checkpoints.settle()
        began = time.monotonic()
        try:
            result = {**act.run(operation, self._workspace, source), "event": event.wire()}
            self._index.finish(request.run, request.operation_id, result)
        except BaseException:
            # Memory may be ahead of the ledger now; only the ledger says what has happened.
            self._workspace = self._rebuild()
            raise
        if isinstance(operation, Reweigh):
            updates, lineage = self._workspace.reweighing.updates, self._index.lineage(request.operation_id)
            self._directory.checkpoints.offer(
                updates, time.monotonic() - began, lineage, self._sample.cumulative_losses
            )
        return result

    def _check_rounds(self, operation: Operation) -> None:
        done = self._index.count(operation.kind)
        if done >= self._rounds:
            raise PolicyRefused(
                f"the policy allows {self._rounds} rounds, {done} {operation.kind!r} operations are done"
            )

    def _rebuild(self) -> Workspace:
        """Return the workspace that the ledger's finished operations lead to."""
        kappa, eta = self._numbers
        finished = [(parse_operation(c.operation), c) for c in self._index if c.result is not None]
        reweighs = [(operation, c) for operation, c in finished if isinstance(operation, Reweigh)]
        stored = self._directory.checkpoints.load([self._index.lineage(c.operation_id) for _, c in reweighs])
        done, cumulative_losses = stored if stored is not None else (0, None)
        losses = [operation.loss for operation, _ in reweighs[:done]]
        reweighing = Reweighing.restore(self._sample, kappa, eta, losses, cumulative_losses)
        workspace = Workspace(self._sample, reweighing, self._learner, public=self._public)
        for operation, charge in finished:
            if isinstance(operation, Reweigh) and done > 0:
                done -= 1
            elif charge.result is not None:
                HANDLERS[operation.kind]().replay(operation, charge.result, workspace)
        return workspace
