"""Carry one run to its end from its stored state: each exchange is on disk before the protocol receives it.

A restarted referee feeds the stored replies to a fresh generator and continues where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from common.core import errors
from common.crypto.identity import Identity, Signed
from common.local.queries.query import Answers, AskAgents
from common.log.entries import Head
from common.log.receipts import RevealRequest
from common.log.transcript import SignedEntry, append
from common.log.witness import behind
from common.net import messages
from common.net.transport import DeadlinePassed, time_limit
from common.protocols.base import AskCurator, Progress, Testing
from common.scenario.scenario import parse_resolved
from referee.collection.aggregation import check_room
from referee.collection.collection import ReportCollection
from referee.collection.enrolment import Registrar, check_accepted
from referee.collection.order import public_randomness
from referee.collection.roster import participants_root
from referee.protocols.base import Outcome, Protocol, protocol_of
from referee.protocols.driver import begun, drive
from referee.runs.checkpoints import RunCheckpoints
from referee.runs.curator import (
    DOUBTS,
    CuratorPort,
    answered,
    check_release,
    check_terms,
    operation_request,
    within,
)
from referee.runs.ordering import OrderEntropy, check_beacon, opened, orders_of, shares_in
from referee.runs.results import result_document, rounds_of
from referee.store import RefereeStore
from referee.tables import StoredRun

T = TypeVar("T")

ENROLMENT_PATIENCE = 300.0  # seconds to wait for as many enrolled agents as a scenario wants
PAUSE = 2.0  # seconds between two checks of whether what a run waits for is there
LOOK = 0.5  # seconds between two checks of whether the run is to be cancelled
OTHERS = 5  # a run that has not begun lets others work this many times as long as it waited for a witness in vain
ACKNOWLEDGED = 5.0  # seconds that the curator has to accept the last acknowledgement of a run
_TERMS, _BEACON = -1, -2
"""The steps under which the curator's terms, and a run's beacon, are stored: before the protocol's first step."""


@dataclass(eq=False)
class Execution:
    """One run of one referee, in its stored state.

    ``wait`` waits for enrolments and reports; ``patience`` is the timeout in seconds for agents to enrol, and
    ``curator_patience`` that for one answer of the curator.
    """

    state: StoredRun
    store: RefereeStore
    identity: Identity
    registrar: Registrar
    collection: ReportCollection
    curator: CuratorPort
    checkpoints: RunCheckpoints
    wait: Callable[[float], None]
    patience: float
    curator_patience: float

    def __post_init__(self) -> None:
        self._run = self.state.run
        self._scenario = parse_resolved(self.state.scenario)
        self._roster = self.registrar.roster
        self._last_check = -LOOK
        self._witness_cost: dict[str, float] = {}
        self._passed_over: set[str] = set()
        self._head: Head | None = None
        self._seconds = {"total": 0.0, "curator": 0.0, "agents": 0.0}

    def run(self, on_progress: Callable[[Progress], None]) -> dict[str, Any]:
        """Drive the protocol to its end and return the result document.

        The run may end as ``refused`` (a party's own rules forbid it), ``failed`` or ``cancelled``, with the reason.
        """
        began = time.monotonic()
        self._on_progress = on_progress
        notes: list[Progress] = []

        def noticed(note: Progress) -> None:
            if not isinstance(note, Testing):
                notes.append(note)
            on_progress(note)

        outcome: Outcome | None = None
        status: str
        try:
            self._configuration = self.begin(on_progress)
            self._until_witnessed(lambda: self.checkpoints.make(self._run, self._fingerprint))
            protocol = protocol_of(self._scenario)
            self._check_accepted(protocol)
            self._curator_key = self._agree()
            public = public_randomness(self._configuration.scenario, self._configuration.order)
            script, pattern = begun(protocol, self._scenario, public), protocol.pattern
            ended = drive(script, pattern, self._exchange, noticed)
            self._check_answered()
            outcome, status, reason = ended, ended.status, ended.reason
        except errors.RunCancelled:
            status, reason = "cancelled", self._cancellation_summary()
        except errors.Superseded:
            raise  # the process that drives the run now continues it
        except (errors.Refused, errors.BadScenario, errors.BadMessage) as error:
            status, reason = "refused", error.detail
        except errors.TandemError as error:
            status, reason = "failed", error.detail
        self._acknowledge()
        self._seconds["total"] = time.monotonic() - began
        return self._end(outcome, status, reason, rounds_of(note.numbers for note in notes))

    def give_up(self, reason: str) -> dict[str, Any]:
        self._on_progress = lambda note: None
        return self._end(None, "failed", reason, [])

    def _say(self, text: str) -> None:
        self._on_progress(Progress(text, {}))

    def _check_cancelled(self) -> None:
        if time.monotonic() - self._last_check >= LOOK:
            self._last_check = time.monotonic()
            if self.store.cancelled(self._run):
                raise errors.RunCancelled("by the operator")

    def _wait(self, seconds: float) -> None:
        self._check_cancelled()
        self.wait(seconds)
        self.store.check_driving()

    def _cancellation_summary(self) -> str:
        kinds = [SignedEntry.model_validate_json(line).kind for line in self.store.entries(self._run)]
        asked = self.store.asked(self._run)
        if "terms" not in kinds:
            return "cancelled by the operator: nothing of the curator's budget is spent, no agent was asked"
        operations, questions = kinds.count("operation"), kinds.count("question")
        return (
            f"cancelled by the operator after {operations} operations of the curator, which stay released, and "
            f"{questions} questions to {asked:,} agents, who are not asked again; the curator's budget belongs to this "
            "run and counts as spent"
        )

    def begin(self, on_progress: Callable[[Progress], None]) -> messages.Configuration:
        """Fix the configuration once enough agents are enrolled; afterwards it never changes.

        PeerUnavailable if they do not enrol in time.
        """
        if self.state.configuration is not None:
            return messages.Configuration.parse(self.state.configuration)
        self._on_progress = on_progress
        witnesses = self._until_witnessed(self.checkpoints.keys)
        self._await_agents()
        check_room(self._roster.agents, min(self._wanted, self._available()), self._scenario.agents.mechanism)
        in_use = self._orders_in_use()
        enrolled = len(self._roster)
        agents = self._roster.before(enrolled)  # agents who enrol later belong to the next cohort
        participants = self._roster.encode(enrolled)
        orders = orders_of(self.store.cohorts(), agents, self._public_seed, in_use)
        configuration = messages.Configuration(
            run=self._run,
            referee=self.identity.public,
            scenario=self.state.scenario,
            order=orders.commitments,
            beacon=tuple(witnesses) if self.checkpoints.beacon and self._public_seed is None else (),
        )
        body = {
            "referee": self.identity.public,
            "configuration": configuration.wire(),
            "participants": {"count": enrolled, "agents": agents, "root": participants_root(participants)},
        }
        if witnesses:
            body["witnesses"] = witnesses
        if (vouchers := self.registrar.vouched(agents)) is not None:
            body["vouchers"] = vouchers
        entry = append(None, "configuration", body, self.identity)
        self.store.configure(self._run, configuration.wire(), orders.fresh, entry, orders.seeds)
        return configuration

    def _check_accepted(self, protocol: Protocol) -> None:
        if self.store.reply_entry(self._run, _TERMS) is not None:
            return
        self.registrar.refresh()
        asks, policies = protocol.asks(self._scenario), self.registrar.policies()
        note = check_accepted(asks, self._scenario, policies, self._roster.agents)
        if note is not None:
            self._say(note)

    def _check_answered(self) -> None:
        asked, declined = self.store.asked(self._run), self.collection.declined(self._run)
        if 0 < asked <= sum(declined.values()):
            reasons = ", ".join(f"{reason} {agents:,}" for reason, agents in declined.items())
            raise errors.PolicyRefused(
                f"all {asked:,} agents that were asked decline to answer: {reasons}; their own rules, or their "
                "lifetime budgets, do not allow what the scenario asks"
            )

    def _until_witnessed(self, ask: Callable[[], T]) -> T:
        """Ask witnesses, and retry while one is unavailable; a witness that keeps answering wrongly ends the run."""
        reported, doubts = False, 0
        while True:
            began = time.monotonic()
            try:
                with time_limit(float("inf"), self._check_lease):
                    return ask()
            except (errors.PeerError, errors.CannotWrite) as error:
                doubts += isinstance(error, errors.PeerMisbehaved)
                if doubts > DOUBTS:
                    raise errors.PeerMisbehaved(
                        f"{error.words}. No agent is asked before every witness of this referee knows of the run: it "
                        "ends here: fix that witness, or start the referee without it"
                    ) from None
                if not reported:
                    self._say(f"the run waits for a witness: {error.words}")
                reported = True
                # A slow witness has blocked the other runs as well: they get most of the time.
                for _ in range(1 + int(OTHERS * (time.monotonic() - began) / PAUSE)):
                    self._wait(PAUSE)

    def lacking(self) -> str | None:
        """Return which agents the run waits for before it can begin; None if it has begun or can begin."""
        if self.state.configuration is not None or (available := self._available()) >= self._wanted:
            return None
        return f"waiting for agents: {self._wanted:,} wanted, {available:,} enrolled that were never asked"

    def claim(self) -> int:
        return max(0, self._wanted - self.store.agents_asked(self._run))

    def has_enough(self, beside: int) -> bool:
        """Tell whether enough agents for the run were never asked, not counting ``beside`` others."""
        return self._available() - beside >= self._wanted

    @property
    def _wanted(self) -> int:
        return int(self._scenario.agents.count)

    def _available(self) -> int:
        return self._roster.agents - sum(c.used for c in self.store.cohorts())

    def _await_agents(self) -> None:
        clock = self.collection.clock
        deadline = clock() + self.patience
        reported = None
        self._check_cancelled()
        while (lacking := self.lacking()) is not None:
            if clock() >= deadline:
                raise errors.PeerUnavailable(
                    f"the scenario wants {self._wanted} agents that were never asked, {self._available()} are enrolled "
                    f"(a run asks each once): start more, or lower agents.count"
                )
            if lacking != reported:
                self._say(lacking)
                reported = lacking
            self._wait(0.2)

    @cached_property
    def _fingerprint(self) -> str:
        return messages.Configuration.parse(self.store.run(self._run).configuration).fingerprint()

    @property
    def _public_seed(self) -> int | None:
        return None if self._scenario.people == "real" else self.state.seed

    def _orders_in_use(self) -> set[int]:
        while True:
            runs = [r for r in self.store.unfinished() if r.configuration is not None and r.run != self._run]
            agreed = [messages.Configuration.parse(run.configuration) for run in runs]
            if all(self.store.reply_entry(c.run, _BEACON if c.beacon else _TERMS) is not None for c in agreed):
                return {promised.first for configuration in agreed for promised in configuration.order}
            self._wait(PAUSE)

    def _agree(self) -> str:
        """Get the curator's terms, and the beacon if there is one; return the key with which the curator signs."""
        agreed = self.store.reply_entry(self._run, _TERMS)
        if agreed is None:
            asked = self.identity.sign(messages.Configuration.KIND, self._configuration.wire())
            check = partial(check_terms, configuration=self._configuration)
            signed, terms = self._patiently(self.curator.open_run, asked, check)
            for run, head in self.store.heads(signed.key):
                if not terms.ledger.extends(head):  # it has lost what it showed in an earlier run
                    raise errors.PeerMisbehaved(
                        f"{behind('the referee', head, terms.ledger.head)} (run {run!r}). What was released there "
                        "counts as spent: the curator must put its newest ledger back"
                    )
            last = not self._configuration.beacon
            seeds = shares_in(self._configuration, self.store.cohorts(), OrderEntropy(terms.share)) if last else None
            self._record("terms", {"terms": signed.wire()}, _TERMS, seeds)
        else:
            signed = Signed.parse(agreed.body["terms"])
            terms = check_terms(signed, self._configuration)
        self._head = terms.ledger.head
        if self._configuration.beacon:
            self._draw(terms, signed.key)
        return signed.key

    def _draw(self, terms: messages.Terms, key: str) -> None:
        """Get the run's beacon, and the curator's share, before any agent is asked: the order is derived from them."""
        if self.store.reply_entry(self._run, _BEACON) is not None:
            return
        words = self._until_witnessed(lambda: self.checkpoints.make(self._run, self._configuration.fingerprint()))
        body: dict[str, Any] = {"words": words.wire()}
        if terms.share_sha256 is not None:
            asked = RevealRequest(run=self._run, digest=self._configuration.fingerprint(), words=words)
            revealed, _ = self._patiently(
                self.curator.open_share,
                self.identity.sign(asked.KIND, asked.wire()),
                lambda share: check_beacon({**body, "share": share.wire()}, self._configuration, terms, key),
            )
            body["share"] = revealed.wire()
        entropy = check_beacon(body, self._configuration, terms, key)
        self._record("beacon", body, _BEACON, shares_in(self._configuration, self.store.cohorts(), entropy))

    def _order_entropy(self, configuration: messages.Configuration, terms: messages.Terms | None) -> OrderEntropy:
        drawn, agreed = (self.store.reply_entry(self._run, step) for step in (_BEACON, _TERMS))
        if terms is None or drawn is None or agreed is None:
            return OrderEntropy(None if terms is None else terms.share)
        return check_beacon(drawn.body, configuration, terms, Signed.parse(agreed.body["terms"]).key)

    def _end(
        self,
        outcome: Outcome | None,
        status: str,
        reason: str,
        rounds: list[dict[str, float]],
    ) -> dict[str, Any]:
        # The stored terms: a run that was resumed may end before it reads them.
        agreed = self.store.reply_entry(self._run, _TERMS)
        terms = None if agreed is None else messages.Terms.parse(Signed.parse(agreed.body["terms"]).message)
        self.collection.close(self._run)
        asked, answers = self.store.asked(self._run), self.store.answered(self._run)
        declined, several = self.collection.declined(self._run), self._scenario.agents.answers > 1
        result = result_document(
            self._scenario,
            outcome,
            rounds=rounds,
            status=status,
            reason=reason,
            terms=terms,
            agents={
                "enrolled": self._enrolled(),
                "asked": asked,
                "answered": answers,
                "rejected": self.collection.count_rejected(),
                **({"people": self.store.agents_asked(self._run)} if several else {}),
            },
            lost={"silent": max(0, asked - answers - sum(declined.values())), "declined": declined},
            enrolment=self.registrar.enrolled(),
            seconds=self._seconds,
        )
        last = self.store.last_entry(self._run)
        entry = None
        if last is not None:
            # Only of the orders that it used: others, and the unused parts, stay secret.
            configuration = messages.Configuration.parse(self.store.run(self._run).configuration)
            used = {part.cohort for question in self.store.questions(self._run) for part in question.parts}
            entropy = self._order_entropy(configuration, terms)
            cohorts = [cohort for cohort in self.store.cohorts() if cohort.first in used]
            seeds = {str(cohort.first): opened(cohort, configuration, entropy) for cohort in cohorts}
            published = {name: value for name, value in result.items() if name != "seconds"}
            entry = append(last, "result", {"result": published, "order": seeds}, self.identity)
        self.store.finish(self._run, status, result, entry)
        if entry is not None:
            self._checkpoint(now=True)
        return result

    def _enrolled(self) -> int:
        """Return how many people's agents were enrolled when the run began: later ones take no part in it."""
        first = self.store.first_entry(self._run)
        places = len(self._roster) if first is None else int(first.body["participants"]["count"])
        return self._roster.people_before(places)

    def _checkpoint(self, *, now: bool) -> None:
        if not now and not self.checkpoints.due(self._run):
            return
        try:
            problems = self.checkpoints.in_passing(self._run, self._fingerprint, self._witness_cost)
        except errors.Refused as error:
            if not now:
                raise
            self._say(f"the run's end is not witnessed: {error.words}")
            return
        for place, problem in problems.items():
            if place not in self._passed_over:
                self._passed_over.add(place)
                self._say(f"the run goes on, its checkpoint is not witnessed yet: {problem}")

    def _exchange(self, number: int, step: AskCurator | AskAgents) -> Any:
        began = time.monotonic()
        if self.store.reply_entry(self._run, number) is None:  # else it resumes after a crash
            self._check_cancelled()
        reply = self._ask_curator(number, step) if isinstance(step, AskCurator) else self._ask_agents(number, step)
        self._seconds["curator" if isinstance(step, AskCurator) else "agents"] += time.monotonic() - began
        return reply

    def _ask_curator(self, number: int, step: AskCurator) -> dict[str, Any]:
        if self._head is None:
            raise AssertionError("terms come before operations")
        request = operation_request(self._run, self._fingerprint, number, step.operation, self._head)
        signed = self.identity.sign(request.KIND, request.wire())
        check = partial(check_release, request=request, digest=signed.digest, key=self._curator_key)
        stored = self.store.reply_entry(self._run, number)
        if stored is not None:
            release = check(Signed.parse(stored.body["release"]))
        else:
            reply, release = self._patiently(self.curator.perform, signed, check)
            self._record("operation", {"request": signed.wire(), "release": reply.wire()}, number)
        self._head = release.ledger.head
        return release.result

    def _acknowledge(self) -> None:
        """Countersign the curator's last release; the run does not depend on it."""
        if self._head is None:
            return
        received = messages.Acknowledgement(run=self._run, digest=self._fingerprint, seen=self._head)
        signed = self.identity.sign(received.KIND, received.wire())
        try:
            within(ACKNOWLEDGED, self.curator.acknowledge, signed, self.store.check_driving)
        except errors.Superseded:
            raise
        except (errors.TandemError, DeadlinePassed) as error:
            why = error.detail if isinstance(error, errors.TandemError) else f"no answer in {ACKNOWLEDGED:g} s"
            self._say(f"the curator's last release is not countersigned: {why}")

    def _patiently(
        self, ask: Callable[[Signed], Signed], signed: Signed, check: Callable[[Signed], T]
    ) -> tuple[Signed, T]:
        agreed, patience = self._head is not None, self.curator_patience  # it is set once the terms are agreed
        return answered(ask, signed, check, patience, agreed=agreed, look=self._check_lease, say=self._say)

    def _check_lease(self) -> None:
        self._check_cancelled()
        self.store.check_driving()

    def _ask_agents(self, number: int, step: AskAgents) -> Answers:
        deadline = self._scenario.agents.deadline
        answers, root = self.collection.ask(self._run, number, step, deadline, self._wait)
        if self.store.reply_entry(self._run, number) is None:
            counts = {"asked": answers.asked, "answered": len(answers.values)}
            self._record("answers", {"question": number, **counts, "root": root}, number)
        return answers

    def _record(self, kind: str, body: dict[str, Any], step: int, seeds: dict[int, str] | None = None) -> None:
        last = self.store.last_entry(self._run)
        self.store.add_entry(self._run, append(last, kind, body, self.identity), step, seeds)
        self._checkpoint(now=False)
