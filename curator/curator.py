"""The curator, with its own policy, accountant and ledger. It trusts no other party, not even the referee.

The engine (:mod:`curator.engine`) carries out every operation. The service makes it binding: it checks the whole
remaining budget, records the charge durably, runs the operation, stores the result, and releases it. All randomness of
an operation is derived from the curator's durable secret and the operation's history. So work that a crash interrupted
is repeated bit for bit, and there is never a second sample. A repeated request gets the stored result.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.core import canonical, errors
from common.core.durable import hold
from common.core.machine import Schedule
from common.core.plain import about_run
from common.core.threads import Supervised
from common.crypto.identity import Signed, verify
from common.learners.base import Calls
from common.lifetime.account import Account
from common.local.records import Records
from common.log.entries import Head
from common.log.ledger import REMEDY, Journal
from common.log.receipts import RevealedShare, RevealRequest, beacon_value, commitment_to
from common.log.witness import Witness, behind
from common.net import messages
from common.net.messages import Spent
from common.net.monitoring import Check, disk
from common.numerics.randomness import RandomSource, durable_secret
from common.operations.operation import Operation, release_of
from common.privacy.budget import open_budget
from common.privacy.events import Event, NonPrivate, Release
from common.privacy.guarantee import of_curator
from common.scenario.accepting import check_real
from common.scenario.scenario import ResolvedScenario, parse, policy_digest
from curator.engine import CuratorPolicy, Engine
from curator.learners.base import Learner
from curator.learners.model_agnostic import ModelAgnostic
from curator.ledger import ChargedOperation, Holder, Ledger
from curator.sample.base import Sample
from curator.state import Checkpoints, OwnersFile
from curator.stream import RunStream

if TYPE_CHECKING:
    from common.data.examining import Notes

log = logging.getLogger("tandem.curator")
RELEASE_UNIT = 1 / 16
"""Least delay in seconds of a release about real people; a longer delay is this times a power of two."""


def planned_events(
    learner: Learner, n: int, kappa: float | None, eta: float, rounds: int, handed_over: int = 0
) -> list[Event]:
    """Return the events of ``rounds`` rounds of learning and reweighing."""
    return [learner.event(bound) for bound in Calls(n, kappa, eta, rounds, handed_over).schedule]


def events_of_run(scenario: ResolvedScenario, policy: CuratorPolicy) -> Sequence[Event]:
    """Return the events that a run of a resolved scenario may cost the curator's people; the budget must cover them.

    Without a learner, each round is a release that costs its share.
    """
    if policy.learner is None:
        private = scenario.curator.epsilon is not None
        rounds: Sequence[Event] = policy.rounds * [Release(epsilon=scenario.curator.share) if private else NonPrivate()]
    else:
        handed_over = len(scenario.handed_over)
        rounds = planned_events(policy.learner, policy.n, policy.kappa, policy.eta, policy.rounds, handed_over)
    return [*rounds, *scenario.planned_margins]


OBEYED = (
    "the key of the referee that this curator obeys: another referee asks, or the same one has lost its key; put its "
    "key back. For another referee start a curator with that referee's --referee-key; with a fresh --state, if a run "
    "has opened here, which is charged to its people as a further run"
)
"""Whose key a curator expects, and the remedy if another key asks."""


@dataclass(frozen=True)
class SampleOrigin:
    """Where the people of a sample come from.

    Attributes:
        account: Their account in the ledger over all runs; None if no people are charged.
        read: Notes from reading their table.
        fix: Called with the curator's ledger after all other checks, to fix for the run who contributed.
    """

    account: Account | None = None
    read: Notes | None = None
    fix: Callable[[Journal], None] | None = None


_NO_TABLE = SampleOrigin()


class Curator:
    """One curator with one sample and one budget; closing it waits until the weights are on disk.

    A message that is not from the run's referee raises Forged or BadMessage, one about another run or configuration
    ConfigurationMismatch. CannotWrite means that the ledger cannot take an entry at present: nothing is lost; retry.

    Attributes:
        key, folder: Its public key, and its state directory.
        referee: The key of the referee that it obeys; None until the first referee opens a run.
        guarantee: The guarantee for every person in the sample, for any behaviour of the referee.
        consumers: The keys that may ask the stream that a run has opened.

    Args:
        scenario: The resolved scenario that this curator has agreed to; its curator section is the policy.
        sample: The private sample, n records. It is closed with the curator.
        seed: Public seed, for simulated people only.
        origin: Where the people come from; by default from no table, and without charges.

    Raises:
        BrokenLedger: If its ledger is missing, cut off, edited, or older than its head.
        BudgetExceeded: If the rounds of the policy do not fit its budget, or its people have spent theirs in other
            runs.
        BadScenario, BadData: If the policy and the sample do not match.
        BadInput: If another process uses the state directory, or its budget belongs to another referee.
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
        witnesses: Sequence[Witness] = (),
        origin: SampleOrigin = _NO_TABLE,
    ) -> None:
        section = scenario.curator
        if scenario.people == "real" and seed is not None:
            raise errors.BadScenario("people are real: the curator's noise must not come from a seed")
        check_real(scenario)
        self._policy = CuratorPolicy.from_scenario(scenario, sample, public)
        planned = events_of_run(scenario, self._policy)
        self._budget = open_budget(section.epsilon, section.delta, planned)
        self.guarantee = of_curator(self._budget.guarantee, section.guarantee.protects)
        self._lock = threading.Lock()
        self._schedule = Schedule()
        self._unit = RELEASE_UNIT if scenario.people == "real" else None
        self._sample = sample
        self._public = public
        self._digest, self._covered = policy_digest(scenario), scenario.covered
        self.consumers: frozenset[str] = frozenset()
        self._stream: RunStream | None = None
        with ExitStack() as resources:
            resources.callback(sample.close)
            resources.callback(hold(folder).close)
            self._journal = Journal(folder, {"policy": self._digest}, witnesses)
            secret = folder / "secret.key"
            self._randomness = durable_secret(secret) if seed is None else RandomSource.seeded(seed, "curator")
            self._checkpoints = Checkpoints(folder, self._randomness.derive("weights").words(4).tobytes())
            resources.callback(self._checkpoints.close)
            self.key, self.folder = self._journal.identity.public, folder
            self._ledger = Ledger(self._journal)
            self.referee = self._obeyed_key(referee)
            self._account = origin.account
            if origin.account is not None:
                holder = self._ledger.holder
                people_head = None if holder is None else holder.people
                origin.account.attach(self._journal, head=people_head, opened=holder is not None)
            self._owner = OwnersFile(folder, scenario, planned, origin.read)
            self._engine = self._rebuild_engine()
            self._owner.keep(self._engine.workspace.reweighing)
            self._charges = self._budget.share(self._ledger.events), len(list(self._ledger))
            if origin.fix is not None:
                origin.fix(self._journal)
            self._resources = resources.pop_all()

    def close(self) -> None:
        self._resources.close()

    def _obeyed_key(self, referee: str | None) -> str | None:
        holder = self._ledger.holder
        if holder is None:
            return referee
        if referee not in (None, holder.referee):
            raise errors.BadInput(
                f"this curator's budget belongs to referee {holder.referee[:16]}..., not to {str(referee)[:16]}...: "
                f"name that one (--referee-key), or start a curator with a fresh --state for another referee, which is "
                f"charged to its people as a further run"
            )
        return holder.referee

    def charges(self) -> tuple[float, int]:
        """Return the charged share of the budget and the number of charged operations, according to the ledger."""
        if self._lock.acquire(blocking=False):
            try:
                self._charges = self._budget.share(self._ledger.events), len(list(self._ledger))
            finally:
                self._lock.release()
        return self._charges

    @property
    def threads(self) -> list[Supervised]:
        return [self._checkpoints.worker.threads]

    def readiness_checks(self) -> dict[str, Check]:
        journal, folder = self._journal, self.folder
        return {"disk": lambda: disk(folder), "ledger": journal.lacking, "witnesses": journal.witnesses_lacking}

    def open_run(self, signed: Signed) -> Signed:
        """Agree to a run and give it the budget; the same configuration again gets the same answer.

        Raises:
            ConfigurationMismatch: If the request asks this curator for anything other than its policy.
            BudgetExceeded: If another run already has the budget, or its people have spent theirs in other runs.
            Busy: If an operation is running; as others may read and replay this message, it does not wait.
        """
        configuration = messages.Configuration.parse(verify(signed, messages.Configuration.KIND, self.referee, OBEYED))
        if configuration.referee != signed.key:
            raise errors.ConfigurationMismatch("the configuration names another referee than the one that signed it")
        digest = configuration.fingerprint()
        scenario = parse(configuration.scenario)
        if policy_digest(scenario) != self._digest:
            raise errors.ConfigurationMismatch(
                "the run's curator section differs from this curator's own policy: start both from the same scenario"
            )
        if self._covered is not None and scenario.covered != self._covered:
            raise errors.ConfigurationMismatch(
                "both sides read one file, whose people this curator charges for the agents' answers, too, and the "
                "run's agents cost something else, or were promised something else, than in this curator's scenario: "
                "start both from the same scenario"
            )
        with self._lock_or_busy():
            holder = self._ledger.holder
            if holder is None:
                if self.referee not in (None, signed.key):
                    raise errors.Forged("another referee was pinned meanwhile")
                self._check_open()
                spent, people = self._charge_people(digest)
                run = {"run": configuration.run, "digest": digest, "policy": self._digest, "referee": signed.key}
                self._ledger.open_run(Holder(**run, spent=spent, people=people))
                with about_run(configuration.run):
                    log.info("the run has the budget")
            elif (holder.run, holder.digest) != (configuration.run, digest):
                raise self._budget_error(
                    f"belongs to run {holder.run!r}; a further run needs new people or a new budget"
                )
            self.referee = signed.key
            self._journal.publish()
            share = self._share(digest)
            terms = messages.Terms(
                run=configuration.run,
                digest=digest,
                n=len(self._sample),
                guarantee=self.guarantee,
                all_runs=None if self._ledger.holder is None else self._ledger.holder.spent,
                ledger=self._ledger.opening(),
                share=None if configuration.beacon else share,
                share_sha256=commitment_to(share) if configuration.beacon and share is not None else None,
            )
        return self._journal.identity.sign(terms.KIND, terms.wire())

    @contextmanager
    def _lock_or_busy(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise errors.Busy("this curator is at work on another request; nothing was changed: ask again")
        try:
            yield
        finally:
            self._lock.release()

    def _charge_people(self, digest: str) -> tuple[Spent | None, Head | None]:
        """Charge the run to its people; a refusal tells the referee no number of people, only the log has it."""
        if self._account is None:
            return None, None
        try:
            return self._account.charge(self.key, digest)
        except errors.BudgetExceeded as error:
            log.error("the run is refused: %s", error.detail)
            epsilon, delta = self.guarantee.pair
            raise errors.BudgetExceeded(
                f"people of this curator have spent their lifetime budget in other runs, so that ({epsilon:g}, "
                f"{delta:g}) for this one is too much; nothing was charged, and the curator's log says more",
                **error.members,
            ) from None

    def open_share(self, signed: Signed) -> Signed:
        """Open this curator's share of the order of agents to a run's beacon; the same beacon gets the same answer.

        Raises:
            ConfigurationMismatch: If it names another run or configuration, or this curator has no share.
            Conflict: If the share was opened to another beacon: a party that knows it could choose among beacons.
        """
        request = RevealRequest.parse(verify(signed, RevealRequest.KIND, self.referee, OBEYED))
        context = {"referee": signed.key, "run": request.run, "digest": request.digest}
        share, value = self._share(request.digest), beacon_value(request.words, **context, witnesses=None)
        with self._lock:
            self._check_holder(request.run, request.digest)
            if share is None:
                raise errors.ConfigurationMismatch(
                    "this curator's randomness is a public seed: it has no share of the order"
                )
            if self._ledger.beacon is None:
                self._ledger.open_share(value, signed)
            elif self._ledger.beacon != value:
                raise errors.Conflict("the share of the order was opened to another beacon: a curator opens it to one")
            self._journal.publish()
        reveal = RevealedShare(run=request.run, digest=request.digest, beacon=value, share=share)
        return self._journal.identity.sign(reveal.KIND, reveal.wire())

    def _share(self, digest: str) -> str | None:
        """Return this curator's share of the order in which a run asks agents; None for simulated people.

        It is a pseudorandom function of the configuration, which contains the hash of the referee's share, so a
        repeated request gets the same share. A public seed has no secret to contribute.
        """
        if self._randomness.simulated:
            return None
        return self._randomness.derive("order", digest).words(4).tobytes().hex()

    def admit(self, signed: Signed) -> tuple[messages.Perform, Operation[Any]]:
        """Make the cheap checks of a request: its sender, its contents, and its run."""
        request = messages.Perform.parse(verify(signed, messages.Perform.KIND, self.referee, OBEYED))
        operation = self._policy.read(request.operation)
        self._check_run(request)
        return request, operation

    def acknowledge(self, signed: Signed) -> None:
        """Store up to which entry the run's referee has received this ledger; a repetition changes nothing."""
        received = messages.Acknowledgement.parse(verify(signed, messages.Acknowledgement.KIND, self.referee, OBEYED))
        self._check_run(received)
        with self._lock:
            self._ledger.acknowledge(signed)
            self._journal.publish()

    def _check_run(self, message: messages.Perform | messages.Acknowledgement) -> None:
        self._check_holder(message.run, message.digest)
        chain = self._journal.chain
        if not chain.holds(message.seen):
            raise errors.RolledBack(f"{behind('the referee', message.seen, chain.head())}. {REMEDY}")

    def _check_holder(self, run: str, digest: str) -> None:
        holder = self._ledger.holder
        if holder is None or (holder.run, holder.digest) != (run, digest):
            raise errors.ConfigurationMismatch(f"run {run!r} with this configuration does not hold the budget")

    def perform(self, signed: Signed) -> Signed:
        """Carry out an operation, once; a repeated request gets the stored release and is charged nothing.

        Raises:
            Conflict: If the id was used for another operation, or an earlier operation has not finished.
            BudgetExceeded: If the operation does not fit into the rest; states spent, requested and budget.
            RolledBack: If the ledger lacks entries that the referee has seen.
            PolicyRefused: If the policy's rounds are used up, a hypothesis needs features that the records lack, or is
                of a kind that a curator accepts only from its own learner; or if memory does not suffice.
            OperationFailed: If its code failed after the charge; does not state why.
        """
        return self.perform_admitted(signed, *self.admit(signed))

    def perform_admitted(self, signed: Signed, request: messages.Perform, operation: Operation[Any]) -> Signed:
        """Carry out an operation, given what :meth:`admit` returned for its request."""
        with about_run(request.run), self._lock:
            try:
                charge = self._perform_once(signed, request, operation)
            finally:
                self._journal.publish()  # charge and result (or failure) together, before any release
        release = messages.StoredRelease(
            run=request.run,
            digest=request.digest,
            operation_id=request.operation_id,
            request=signed.digest,
            result=charge.result or {},
            ledger=self._ledger.since(request.seen, charge),
        )
        return self._journal.identity.sign(release.KIND, release.wire())

    def _perform_once(self, signed: Signed, request: messages.Perform, operation: Operation[Any]) -> ChargedOperation:
        charge = self._ledger.find(request.operation_id)
        if charge is not None and not canonical.same(charge.perform.wire(), request.wire()):
            raise errors.Conflict(f"operation id {request.operation_id} was used for another operation")
        if charge is not None and charge.result is not None:
            return charge
        self._check_open()
        unfinished = self._ledger.unfinished()
        if charge is None and unfinished is not None:
            raise errors.Conflict(f"operation {unfinished.operation_id} has not finished: ask for it again first")
        if charge is None:
            event = self._engine.admit(operation, lambda event: self._budget.admit(self._ledger.events, event))
            charge = self._ledger.charge(signed, operation.wire(), event)
            log.info("operation %s (%s) is charged as %s", charge.operation_id, operation.kind, event.kind)
        with self._schedule.held(self._unit):
            self._carry_out(charge, operation)
        return charge

    def check_consumer(self, key: str) -> None:
        """Raise PolicyRefused for a key that may not ask the stream."""
        if key not in self.consumers:
            raise errors.PolicyRefused(
                f"key {key[:16]}... may not ask this curator's stream: its operator names who may, with --consumer-key"
            )

    def admit_point(self, signed: Signed) -> messages.PointQuestion:
        """Make the cheap checks of a consumer's question: who asks, and which curator.

        Raises:
            PolicyRefused: If its key is not a consumer's.
            ConfigurationMismatch: If it is for another curator.
        """
        question = messages.PointQuestion.parse(verify(signed, messages.PointQuestion.KIND))
        self.check_consumer(signed.key)
        if question.curator != self.key:
            raise errors.ConfigurationMismatch("the question is for another curator than the one with this key")
        return question

    def answer_point(self, signed: Signed, question: messages.PointQuestion) -> Signed:
        """Answer an admitted question once: the same point gets the stored answer (:mod:`curator.stream`).

        Raises:
            NotFound: If the run has opened no stream.
            StreamUsedUp: If no further unstable answer, or question, was paid for; nothing is charged.
            BadInput: If its values cannot be the features of a record.
        """
        holder = self._ledger.holder
        if holder is None:
            raise errors.NotFound("no run has opened a stream here, or not yet")
        with about_run(holder.run), self._lock:
            stream = self._run_stream()
            stored = stream.stored_answer(question)
            if stored is None:
                self._check_open()
                with self._schedule.held(self._unit):
                    stored = stream.answer(signed, question)
            self._journal.publish()
        answer = stream.reply(holder.run, question, stored)
        return self._journal.identity.sign(answer.KIND, answer.wire())

    def _run_stream(self) -> RunStream:
        if self._stream is None:
            opening = next((charge for charge in self._ledger if (charge.result or {}).get("stream")), None)
            if opening is None or not isinstance(self._policy.learner, ModelAgnostic):
                raise errors.NotFound("no run has opened a stream here, or not yet")
            self._stream = RunStream(self._ledger, opening, self._policy.learner, self._engine)
        return self._stream

    def _carry_out(self, charge: ChargedOperation, operation: Operation[Any]) -> None:
        number, reweighs = charge.operation_id, operation.reweighs_by is not None
        if reweighs:
            self._checkpoints.settle()
        start = time.monotonic()
        try:
            # Keys and run names do not enter its randomness, so a seeded run is the same in every deployment.
            result = release_of(self._engine.run(number, operation, charge.event), charge.event)
            self._ledger.finish(number, result)
            log.info("operation %s (%s) is released", number, operation.kind)
            self._engine.advance()
        except BaseException:
            # Memory may be ahead of the ledger now; only the ledger is authoritative.
            self._engine, self._stream = self._rebuild_engine(), None
            raise
        self._owner.keep(self._engine.workspace.reweighing, number)
        if reweighs:
            updates, seconds = self._engine.workspace.reweighing.updates, time.monotonic() - start
            self._checkpoints.offer(updates, seconds, self._engine.lineage(number), self._sample.cumulative_losses)

    def _check_open(self) -> None:
        why = self._journal.closed
        if why is not None:
            raise self._budget_error(
                f"counts as spent: {why}; what was released can still be asked for, anything more needs new people or "
                f"a new budget"
            )

    def _budget_error(self, why: str) -> errors.BudgetExceeded:
        epsilon, delta = self.guarantee.pair
        cap = epsilon if math.isfinite(epsilon) else "infinite"  # as JSON has no such number
        words = f"the whole budget (epsilon {epsilon:g}, delta {delta:g}) {why}"
        return errors.BudgetExceeded(words, spent=cap, requested=cap, budget=cap)

    def _rebuild_engine(self) -> Engine:
        past = ((charge.operation_id, charge.operation, charge.result) for charge in self._ledger)
        stored = self._checkpoints.load
        return Engine(self._policy, self._sample, self._randomness, public=self._public, past=past, find_stored=stored)
