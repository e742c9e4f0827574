"""Carry one run to its end, from wherever it stands.

A run survives any crash: each exchange is on disk before the protocol learns of it. A restarted referee feeds the
stored replies to a fresh generator and goes on where it was.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, TypeVar

from common.core.errors import (
    BadMessage,
    BadScenario,
    CannotWrite,
    PeerError,
    PeerMisbehaved,
    PeerUnavailable,
    Refused,
    RunCancelled,
    Superseded,
    TandemError,
)
from common.scenario.resolved import parse_resolved
from common.vocabulary.steps import Answers, AskAgents, AskCurator, Progress, Testing
from common.wire import messages
from common.wire.chain import Head
from common.wire.identity import Identity, Signed
from common.wire.transcript import Entry, append
from common.wire.witness import behind
from referee.collection.collection import Collection
from referee.collection.order import commitment, public_randomness, simulated
from referee.collection.room import check_room
from referee.collection.roster import Roster, participants_root
from referee.protocols.base import Outcome, protocol_of
from referee.protocols.driver import drive
from referee.protocols.quorum import begun
from referee.runs.checkpoints import Checkpoints
from referee.runs.operations import check_release, check_terms, operation_request
from referee.runs.port import CuratorPort
from referee.runs.results import result_document, rounds_of
from referee.state.store import Store
from referee.state.values import Cohort, Run

T = TypeVar("T")

ENROLMENT_PATIENCE = 300.0
"""Seconds to wait until as many agents are enrolled as a scenario wants."""
PAUSE = 2.0
"""Seconds before a curator that cannot write is asked again."""
LOOK = 0.5
"""Seconds between two looks at whether the run is to be cancelled."""
_TERMS = -1
"""The step under which the curator's terms are stored: before the protocol's first."""


class Execution:
    """One run of one referee.

    Parameters
    ----------
    state
        The run as it stands in the store.
    store, identity, roster, collection
        The referee's own.
    enrolment
        Says how many are enrolled, beside the caps.
    curator
        How to reach the curator.
    checkpoints
        Says how far the transcript goes, to witnesses too.
    wait
        How to wait for enrolments and reports.
    patience
        Seconds to wait for enrolments.
    """

    def __init__(
        self,
        state: Run,
        store: Store,
        identity: Identity,
        roster: Roster,
        collection: Collection,
        enrolment: Callable[[], dict[str, int]],
        curator: CuratorPort,
        checkpoints: Checkpoints,
        wait: Callable[[float], None],
        patience: float,
    ) -> None:
        self._patience = patience
        self._checkpoints = checkpoints
        self._looked = -LOOK
        self._state = state
        self._run = state.run
        self._scenario = parse_resolved(state.scenario)
        self._store = store
        self._identity = identity
        self._roster = roster
        self._collection = collection
        self._enrolment = enrolment
        self._curator = curator
        self._sleep = wait
        self._seen: Head | None = None
        self._seconds = {"total": 0.0, "curator": 0.0, "agents": 0.0}

    def carry(self, on_progress: Callable[[Progress], None]) -> dict[str, Any]:
        """Drive the protocol to its end and return the result document.

        What goes wrong ends the run as ``refused`` (a party's own rules forbid it) or ``failed``, with the reason; the
        operator's word ends it as ``cancelled``.
        """
        began = time.monotonic()
        self._on_progress = on_progress
        notes: list[Progress] = []

        def noticed(note: Progress) -> None:
            if not isinstance(note, Testing):
                notes.append(note)
            on_progress(note)

        outcome: Outcome | None = None
        terms: messages.Terms | None = None
        status: str
        try:
            self._configuration = self.begin(on_progress)
            self._until_witnessed(lambda: self._checkpoints.make(self._run, self._configuration.fingerprint()))
            terms, self._curator_key = self._agree()
            protocol = protocol_of(self._scenario)
            public = public_randomness(self._configuration.scenario, self._configuration.order)
            script, pattern = begun(protocol, self._scenario, public), protocol.pattern
            outcome = drive(script, pattern, self._exchange, noticed)
            status, reason = outcome.status, outcome.reason
        except RunCancelled:
            status, reason = "cancelled", self._left_behind()
        except Superseded:
            raise  # whoever drives now goes on where this one was
        except (Refused, BadScenario, BadMessage) as error:
            status, reason = "refused", error.detail
        except TandemError as error:
            status, reason = "failed", error.detail
        self._acknowledge()
        self._seconds["total"] = time.monotonic() - began
        return self._end(outcome, status, reason, terms, rounds_of(note.numbers for note in notes))

    def give_up(self, reason: str) -> dict[str, Any]:
        """End the run as ``failed``, without answer."""
        self._on_progress = lambda note: None
        agreed = self._store.reply_entry(self._run, _TERMS)
        terms = None if agreed is None else messages.Terms.parse(Signed.parse(agreed.body["terms"]).message)
        return self._end(None, "failed", reason, terms, [])

    # Cancelling -----------------------------------------------------------------------------------------------------

    def _heed(self) -> None:
        """Stop here if the run is to be cancelled: everything before is on disk."""
        if time.monotonic() - self._looked >= LOOK:
            self._looked = time.monotonic()
            if self._store.cancelled(self._run):
                raise RunCancelled("by the operator")

    def _wait(self, seconds: float) -> None:
        self._heed()
        self._sleep(seconds)

    def _left_behind(self) -> str:
        """Say what a cancelled run has released and spent."""
        kinds = [Entry.model_validate_json(line).kind for line in self._store.entries(self._run)]
        asked = self._store.asked(self._run)
        if "terms" not in kinds:
            return "cancelled by the operator: nothing of the curator's budget is spent, no agent was asked"
        operations, questions = kinds.count("operation"), kinds.count("question")
        return (
            f"cancelled by the operator after {operations} operations of the curator, which stay released, and "
            f"{questions} questions to {asked:,} agents, who are not asked again; the curator's budget belongs to this "
            "run and counts as spent"
        )

    # Beginning and end ----------------------------------------------------------------------------------------------

    def begin(self, on_progress: Callable[[Progress], None]) -> messages.Configuration:
        """Fix the configuration once enough agents are enrolled; afterwards it never changes.

        Raises
        ------
        PeerUnavailable
            If they are not enrolled in time.
        """
        if self._state.configuration is not None:
            return messages.Configuration.parse(self._state.configuration)
        self._on_progress = on_progress
        witnesses = self._until_witnessed(self._checkpoints.keys)
        self._await_agents(on_progress)
        check_room(self._roster.agents, min(self._wanted, self._available()), self._scenario.agents.mechanism)
        cohorts = self._store.cohorts()
        sealed = sum(c.agents for c in cohorts)
        enrolled = len(self._roster)
        agents = self._roster.before(enrolled)  # who enrols from here on is of the next cohort
        listed = self._roster.encode(enrolled)
        fresh = agents - sealed
        cohort = Cohort(sealed, fresh, self._order_seed(), 0) if fresh else None
        usable = [c for c in (*cohorts, *([cohort] if cohort else [])) if c.used < c.agents]
        configuration = messages.Configuration(
            run=self._run,
            referee=self._identity.public,
            scenario=self._state.scenario,
            order=tuple(
                messages.OrderCommitment(first=c.first, agents=c.agents, used=c.used, sha256=commitment(c.seed))
                for c in usable
            ),
        )
        body = {
            "referee": self._identity.public,
            "configuration": configuration.wire(),
            "participants": {"count": enrolled, "agents": agents, "root": participants_root(listed)},
        }
        if witnesses:
            body["witnesses"] = witnesses
        entry = append(None, "configuration", body, self._identity)
        self._store.configure(self._run, configuration.wire(), cohort, entry)
        return configuration

    def _until_witnessed(self, ask: Callable[[], T]) -> T:
        """Ask witnesses, again and again while one is away: before anybody is asked, all of them know of the run."""
        said = False
        while True:
            try:
                return ask()
            except (PeerError, CannotWrite) as error:
                if not said:
                    self._on_progress(Progress(f"the run waits for a witness: {error.detail}", {}))
                said = True
                self._wait(PAUSE)
                self._store.check_driving()

    def lacking(self) -> str | None:
        """Say which agents the run waits for before it can begin; None if it has begun or can begin."""
        if self._state.configuration is not None or (available := self._available()) >= self._wanted:
            return None
        return f"waiting for agents: {self._wanted:,} wanted, {available:,} enrolled that were never asked"

    def claim(self) -> int:
        """Return how many agents the run may still ask of those that its scenario wants."""
        return max(0, self._wanted - self._store.asked(self._run))

    def has_enough(self, beside: int) -> bool:
        """Tell whether as many agents as the run wants were never asked, ``beside`` others not counted."""
        return self._available() - beside >= self._wanted

    @property
    def _wanted(self) -> int:
        return int(self._scenario.agents.count)

    def _available(self) -> int:
        return self._roster.agents - sum(c.used for c in self._store.cohorts())

    def _await_agents(self, on_progress: Callable[[Progress], None]) -> None:
        clock = self._collection.clock
        deadline = clock() + self._patience
        said = None
        self._heed()
        while (lacking := self.lacking()) is not None:
            if clock() >= deadline:
                raise PeerUnavailable(
                    f"the scenario wants {self._wanted} agents that were never asked, {self._available()} are enrolled "
                    f"(each answers once in its life): start more, or lower agents.count"
                )
            if lacking != said:
                on_progress(Progress(lacking, {}))
                said = lacking
            self._wait(0.2)
            self._store.check_driving()

    def _order_seed(self) -> str:
        if self._state.seed is None or self._scenario.people == "real":
            return secrets.token_hex(32)
        return simulated(self._state.seed)

    def _agree(self) -> tuple[messages.Terms, str]:
        """Return the curator's terms and key, asking for them the first time."""
        agreed = self._store.reply_entry(self._run, _TERMS)
        if agreed is None:
            wire = self._configuration.wire()
            signed = self._patiently(self._curator.open_run, self._identity.sign(messages.Configuration.KIND, wire))
            self._check_known(signed.key, check_terms(signed, self._configuration))
            self._record("terms", {"terms": signed.wire()}, _TERMS)
        else:
            signed = Signed.parse(agreed.body["terms"])
        terms = check_terms(signed, self._configuration)
        self._seen = terms.ledger.head
        return terms, signed.key

    def _check_known(self, key: str, terms: messages.Terms) -> None:
        """Refuse a curator whose ledger has forgotten what it showed in an earlier run."""
        for run, seen in self._store.heads(key):
            if not terms.ledger.extends(seen):
                raise PeerMisbehaved(
                    f"{behind('the referee', seen, terms.ledger.head)} (run {run!r}). What was released there counts "
                    f"as spent: the curator must put its newest ledger back"
                )

    def _end(
        self,
        outcome: Outcome | None,
        status: str,
        reason: str,
        terms: messages.Terms | None,
        rounds: list[dict[str, float]],
    ) -> dict[str, Any]:
        self._collection.close(self._run)
        result = result_document(
            self._scenario,
            outcome,
            rounds=rounds,
            status=status,
            reason=reason,
            terms=terms,
            agents={
                "enrolled": self._roster.agents,
                "asked": self._store.asked(self._run),
                "answered": self._store.answered(self._run),
                "rejected": self._collection.count_rejected(),
            },
            lost=self._lost(),
            enrolment=self._enrolment(),
            seconds=self._seconds,
        )
        last = self._store.last_entry(self._run)
        entry = None
        if last is not None:
            # Of its own orders alone: a run that goes on may have an order that was not published yet.
            own = {promised.first for promised in self._promised()}
            seeds = {str(c.first): c.seed for c in self._store.cohorts() if c.first in own}
            published = {name: value for name, value in result.items() if name != "seconds"}
            entry = append(last, "result", {"result": published, "order": seeds}, self._identity)
        self._store.finish(self._run, status, result, entry)
        if entry is not None:
            self._checkpoint(now=True)
        return result

    def _checkpoint(self, *, now: bool) -> None:
        """Make a checkpoint in passing: a run that witnesses cannot follow is what the audit says of it."""
        if not now and not self._checkpoints.due(self._run):
            return
        configuration = messages.Configuration.parse(self._store.run(self._run).configuration)
        try:
            self._checkpoints.in_passing(self._run, configuration.fingerprint())
        except Refused as error:
            if not now:
                raise
            self._on_progress(Progress(f"the run's end is not witnessed: {error.detail}", {}))

    def _promised(self) -> tuple[messages.OrderCommitment, ...]:
        wire = self._store.run(self._run).configuration
        return () if wire is None else messages.Configuration.parse(wire).order

    def _lost(self) -> dict[str, Any]:
        declined = self._collection.declined(self._run)
        asked = self._store.asked(self._run)
        silent = asked - self._store.answered(self._run) - sum(declined.values())
        return {"silent": max(0, silent), "declined": declined}

    # Exchanges ------------------------------------------------------------------------------------------------------

    def _exchange(self, number: int, step: AskCurator | AskAgents) -> Any:
        began = time.monotonic()
        self._heed()
        if isinstance(step, AskCurator):
            reply: Any = self._ask_curator(number, step)
            self._seconds["curator"] += time.monotonic() - began
        else:
            reply = self._ask_agents(number, step)
            self._seconds["agents"] += time.monotonic() - began
        return reply

    def _ask_curator(self, number: int, step: AskCurator) -> dict[str, Any]:
        """Have an operation carried out, or find its stored release."""
        if self._seen is None:
            raise AssertionError("terms come before operations")
        request = operation_request(self._run, self._configuration.fingerprint(), number, step.operation, self._seen)
        stored = self._store.reply_entry(self._run, number)
        if stored is not None:
            release = check_release(stored.body, request, self._curator_key)
        else:
            signed = self._identity.sign(request.KIND, request.wire())
            body = {"request": signed.wire(), "release": self._patiently(self._curator.perform, signed).wire()}
            release = check_release(body, request, self._curator_key)
            self._record("operation", body, number)
        self._seen = release.ledger.head
        return release.result

    def _acknowledge(self) -> None:
        """Countersign what the curator released last; the run does not depend on it."""
        if self._seen is None:
            return
        received = messages.Acknowledgement(run=self._run, digest=self._configuration.fingerprint(), seen=self._seen)
        try:
            self._curator.acknowledge(self._identity.sign(received.KIND, received.wire()))
        except TandemError as error:
            self._on_progress(Progress(f"the curator's last release is not countersigned: {error.detail}", {}))

    def _patiently(self, ask: Callable[[Signed], Signed], signed: Signed) -> Signed:
        """Ask the curator, again and again while it cannot store what it must store first."""
        said = False
        while True:
            try:
                return ask(signed)
            except CannotWrite as error:
                if not said:
                    self._on_progress(Progress(f"the run waits for the curator: {error.detail}", {}))
                said = True
                self._heed()
                time.sleep(PAUSE)
                self._store.check_driving()

    def _ask_agents(self, number: int, step: AskAgents) -> Answers:
        """Ask a batch, or find its stored answers."""
        deadline = self._scenario.agents.deadline
        answers, root = self._collection.ask(self._run, number, step.query, step.count, deadline, self._wait)
        if self._store.reply_entry(self._run, number) is None:
            counts = {"asked": answers.asked, "answered": len(answers.values)}
            self._record("answers", {"question": number, **counts, "root": root}, number)
        return answers

    def _record(self, kind: str, body: dict[str, Any], step: int) -> None:
        """Append a transcript entry that holds the reply to a step."""
        last = self._store.last_entry(self._run)
        self._store.add_entry(self._run, append(last, kind, body, self._identity), step)
        self._checkpoint(now=False)
