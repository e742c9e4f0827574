"""The referee: enrols agents, opens runs, drives their protocol, and writes everything down.

A run survives any crash: each exchange is on disk before the protocol learns of it. A restarted referee feeds the
stored replies to a fresh generator and goes on where it was.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common import canonical, messages, scenario
from common.database import sqlite_url
from common.errors import (
    BadMessage,
    BadScenario,
    NotFound,
    PeerMisbehaved,
    PeerUnavailable,
    Refused,
    TandemError,
    Unauthorized,
)
from common.identity import Identity, Signed, verify
from common.scenario import Scenario
from common.service import token_hash
from common.state import hold
from common.transcript import append
from referee.collection import Collection
from referee.driver import drive
from referee.order import commitment
from referee.port import CuratorPort
from referee.protocols.base import PROTOCOLS, AskAgents, AskCurator, Note, Outcome
from referee.results import result_document
from referee.store import Cohort, Run, Store

log = logging.getLogger("tandem.referee")

ENROLMENT_PATIENCE = 300.0
"""Seconds to wait until as many agents are enrolled as a scenario wants."""


class Referee:
    """One referee.

    Parameters
    ----------
    folder
        State directory: key and database.
    curator
        How to reach the curator.
    database
        SQLAlchemy URL; by default a SQLite file in the state directory.
    wait
        How to wait for reports; by default sleep until one arrives. A deployment in one process lets agents work here.

    Raises
    ------
    BadInput
        If another process works on the state directory, or the database cannot be opened.
    """

    def __init__(
        self,
        folder: Path,
        curator: CuratorPort,
        *,
        database: str | None = None,
        wait: Callable[[float], None] | None = None,
    ) -> None:
        with ExitStack() as opened:
            opened.callback(hold(folder).close)
            self.identity = Identity.load_or_create(folder / "identity.key")
            self.store = Store(database or sqlite_url(folder / "referee.sqlite"))
            opened.callback(self.store.close)
            self._opened = opened.pop_all()
        self.collection = Collection(self.store, self.identity)
        self._curator = curator
        self._wait = wait or self.collection.wait
        self._notes: dict[str, list[Note]] = {}

    def close(self) -> None:
        """Release the database and the state directory."""
        self._opened.close()

    # Agents ---------------------------------------------------------------------------------------------------------

    def allow(self, purpose: str, token: str) -> None:
        """Accept this token, and no other, for ``enrolment`` or for the ``operator``; only its hash is kept."""
        self.store.allow_token(purpose, token_hash(token))

    def authorize(self, purpose: str, token: str) -> None:
        """Check a token.

        Raises
        ------
        Unauthorized
            If it was not allowed for this purpose.
        """
        if not self.store.token_allowed(purpose, token_hash(token)):
            raise Unauthorized(f"this needs a valid {purpose} token (Authorization: Bearer ...)")

    def enrol(self, signed: Signed, token: str) -> Signed:
        """Enrol a participant; the same again gets the same numbers."""
        self.authorize("enrolment", token)
        wanted = messages.Enrolment.parse(verify(signed, messages.Enrolment.KIND))
        participant = self.store.enrol(signed.key, wanted.agents)
        reply = messages.Enrolled(participant=signed.key, first=participant.first, agents=participant.agents)
        return self.identity.sign(reply.KIND, reply.wire())

    def poll(self, signed: Signed) -> Signed | None:
        """Return the open question for a participant, if there is one.

        Raises
        ------
        Forged
            If somebody else signed the poll.
        NotFound
            If the participant is not enrolled.
        """
        poll = messages.Poll.parse(verify(signed, messages.Poll.KIND, str(signed.message.get("participant"))))
        if self.store.participant(poll.participant) is None:
            raise NotFound("this participant is not enrolled here")
        return self.collection.assignment(poll.participant)

    def report(self, signed: Signed) -> None:
        """Take an individual report."""
        self._counted(lambda: self.collection.accept(signed))

    def report_packed(self, signed: Signed, body: bytes) -> None:
        """Take a hosted population's report."""
        self._counted(lambda: self.collection.accept_packed(signed, body))

    def _counted(self, accept: Callable[[], None]) -> None:
        try:
            accept()
        except TandemError as error:
            self.collection.rejected[error.problem] += 1
            raise

    # Runs -----------------------------------------------------------------------------------------------------------

    def create(self, run: str, tree: Any, seed: int | None) -> Run:
        """Create a run of a resolved scenario; the same request again returns it as it stands.

        Raises
        ------
        BadScenario, BadInput
            If the scenario is not valid, or a value is still at ``plan``.
        Conflict
            If the name is taken by another request.
        """
        chosen = scenario.parse(canonical.decode(canonical.encode(tree)))
        PROTOCOLS[chosen.protocol]
        numbers = (
            chosen.curator.n,
            chosen.curator.rounds,
            chosen.curator.eta,
            chosen.curator.kappa,
            chosen.agents.count,
        )
        if "plan" in numbers:
            raise BadScenario("a run needs a resolved scenario: a value is still at 'plan'")
        wire = public(chosen)
        return self.store.create_run(run, canonical.digest({"scenario": wire, "seed": seed}), wire, seed)

    def configuration(self, run: str) -> Signed:
        """Return a run's signed configuration.

        Raises
        ------
        NotFound
            If there is no such run, or it has not begun.
        """
        wire = self.store.run(run).configuration
        if wire is None:
            raise NotFound(f"run {run!r} has not begun")
        return self.identity.sign(messages.Configuration.KIND, wire)

    def notes(self, run: str) -> list[Note]:
        """Return what the run has said of its progress so far."""
        return self._notes.get(run, [])

    def execute(self, run: str, watch: Callable[[Note], None] = lambda note: None) -> dict[str, Any]:
        """Carry a run to its end, from wherever it stands; returns the result document.

        What goes wrong ends the run as ``refused`` (a party's own rules forbid it) or ``failed``, with the reason.
        """
        state = self.store.run(run)
        if state.result is not None:
            return state.result
        chosen = scenario.parse(state.scenario)
        began = time.monotonic()
        seconds = {"total": 0.0, "curator": 0.0, "agents": 0.0}
        outcome: Outcome | None = None
        terms: messages.Terms | None = None
        status: str
        notes = self._notes[run] = []

        def noticed(note: Note) -> None:
            notes.append(note)
            watch(note)

        try:
            configuration = self._begin(state, chosen, noticed)
            terms, curator_key = self._agree(configuration)
            exchange = _Exchange(self, chosen, configuration, curator_key, seconds)
            protocol = PROTOCOLS[chosen.protocol]()
            outcome = drive(protocol.script(chosen), protocol.pattern, exchange, noticed)
            status, reason = outcome.status, outcome.reason
        except (Refused, BadScenario, BadMessage) as error:
            status, reason = "refused", error.detail
        except TandemError as error:
            status, reason = "failed", error.detail
        seconds["total"] = time.monotonic() - began
        return self._end(run, chosen, outcome, status, reason, terms, seconds)

    def give_up(self, run: str, reason: str) -> dict[str, Any]:
        """End a run as ``failed``, without answer, because of a fault of the referee itself."""
        agreed = self.store.reply_entry(run, -1)
        terms = None if agreed is None else messages.Terms.parse(Signed.parse(agreed.body["terms"]).message)
        chosen = scenario.parse(self.store.run(run).scenario)
        return self._end(run, chosen, None, "failed", reason, terms, {})

    def _end(
        self,
        run: str,
        chosen: Scenario,
        outcome: Outcome | None,
        status: str,
        reason: str,
        terms: messages.Terms | None,
        seconds: dict[str, float],
    ) -> dict[str, Any]:
        result = result_document(
            chosen,
            outcome,
            status=status,
            reason=reason,
            terms=terms,
            agents=self._agents(run),
            seconds=seconds,
        )
        last = self.store.last_entry(run)
        entry = None
        if last is not None:
            seeds = {str(c.first): c.seed for c in self.store.cohorts()}
            published = {name: value for name, value in result.items() if name != "seconds"}
            entry = append(last, "result", {"result": published, "order": seeds}, self.identity)
        self.store.finish(run, status, result, entry)
        return result

    def _begin(self, state: Run, chosen: Scenario, watch: Callable[[Note], None]) -> messages.Configuration:
        """Fix the configuration once enough agents are enrolled; afterwards it never changes."""
        if state.configuration is not None:
            return messages.Configuration.parse(state.configuration)
        wanted = int(chosen.agents.count)
        deadline = time.monotonic() + ENROLMENT_PATIENCE
        said = -1
        while (available := self._available()) < wanted:
            if time.monotonic() > deadline:
                raise PeerUnavailable(
                    f"the scenario wants {wanted} agents that were never asked, {available} are enrolled: "
                    f"start more, or lower agents.count"
                )
            if available != said:
                watch(Note(f"waiting for agents: {available:,} of {wanted:,} are enrolled", {}))
                said = available
            self._wait(0.2)
        cohorts = self.store.cohorts()
        sealed = sum(c.agents for c in cohorts)
        fresh = self.store.enrolled() - sealed
        seed = (
            secrets.token_hex(32) if state.seed is None else hashlib.sha256(f"order {state.seed}".encode()).hexdigest()
        )
        cohort = Cohort(sealed, fresh, seed, 0) if fresh else None
        usable = [c for c in (*cohorts, *([cohort] if cohort else [])) if c.used < c.agents]
        configuration = messages.Configuration(
            run=state.run,
            referee=self.identity.public,
            scenario=state.scenario,
            order=tuple(
                messages.OrderCommitment(first=c.first, agents=c.agents, used=c.used, sha256=commitment(c.seed))
                for c in usable
            ),
        )
        body = {
            "referee": self.identity.public,
            "configuration": configuration.wire(),
            "participants": [[p.key, p.first, p.agents] for p in self.store.participants()],
        }
        self.store.configure(
            state.run, configuration.wire(), cohort, append(None, "configuration", body, self.identity)
        )
        return configuration

    def _agree(self, configuration: messages.Configuration) -> tuple[messages.Terms, str]:
        """Return the curator's terms and key, asking for them the first time."""
        agreed = self.store.reply_entry(configuration.run, -1)
        if agreed is None:
            signed = self._curator.open_run(self.identity.sign(messages.Configuration.KIND, configuration.wire()))
            _terms(signed, configuration)
            body = {"terms": signed.wire()}
            agreed = append(self.store.last_entry(configuration.run), "terms", body, self.identity)
            self.store.add_entry(configuration.run, agreed, -1)
        signed = Signed.parse(agreed.body["terms"])
        return _terms(signed, configuration), signed.key

    def _available(self) -> int:
        return self.store.enrolled() - sum(c.used for c in self.store.cohorts())

    def _agents(self, run: str) -> dict[str, int]:
        return {
            "enrolled": self.store.enrolled(),
            "asked": sum(q.asked for q in self.store.questions(run)),
            "answered": self.store.answered(run),
            "rejected": sum(self.collection.rejected.values()),
        }

    # Exchanges ------------------------------------------------------------------------------------------------------

    def ask_curator(
        self, configuration: messages.Configuration, key: str, number: int, step: AskCurator
    ) -> dict[str, Any]:
        """Have an operation carried out, or find its stored release."""
        request = messages.Perform(
            run=configuration.run,
            digest=configuration.fingerprint(),
            operation_id=str(number),
            operation=step.operation.wire(),
        )
        stored = self.store.reply_entry(configuration.run, number)
        if stored is not None:
            return check_release(stored.body, request, key)
        signed = self.identity.sign(request.KIND, request.wire())
        release = self._curator.perform(signed)
        body = {"request": signed.wire(), "release": release.wire()}
        result = check_release(body, request, key)
        self.store.add_entry(
            configuration.run,
            append(self.store.last_entry(configuration.run), "operation", body, self.identity),
            number,
        )
        return result

    def ask_agents(self, chosen: Scenario, run: str, number: int, step: AskAgents) -> Any:
        """Ask a batch, or find its stored answers."""
        answers = self.collection.ask(run, number, step.query, step.count, chosen.agents.deadline, self._wait)
        if self.store.reply_entry(run, number) is None:
            body = {"question": number, **self.collection.summary(run, number)}
            self.store.add_entry(run, append(self.store.last_entry(run), "answers", body, self.identity), number)
        return answers


class _Exchange:
    """Carries out the numbered exchanges of one run and times them."""

    def __init__(
        self,
        referee: Referee,
        chosen: Scenario,
        configuration: messages.Configuration,
        curator_key: str,
        seconds: dict[str, float],
    ) -> None:
        self._referee = referee
        self._chosen = chosen
        self._configuration = configuration
        self._curator_key = curator_key
        self._seconds = seconds

    def __call__(self, number: int, step: AskCurator | AskAgents) -> Any:
        began = time.monotonic()
        if isinstance(step, AskCurator):
            reply = self._referee.ask_curator(self._configuration, self._curator_key, number, step)
            self._seconds["curator"] += time.monotonic() - began
            return reply
        reply = self._referee.ask_agents(self._chosen, self._configuration.run, number, step)
        self._seconds["agents"] += time.monotonic() - began
        return reply


def public(chosen: Scenario) -> dict[str, Any]:
    """Return a scenario's public JSON: without the local path of anybody's data."""
    return {**chosen.wire(), "data": None}


def check_release(body: dict[str, Any], request: messages.Perform, key: str) -> dict[str, Any]:
    """Return the result in an operation's transcript entry if the curator signed it for exactly this request.

    Raises
    ------
    Forged
        If another key signed.
    PeerMisbehaved
        If it answers another request.
    """
    release = messages.Release.parse(verify(Signed.parse(body["release"]), messages.Release.KIND, key))
    expected = (request.run, request.digest, request.operation_id, request.fingerprint())
    if (release.run, release.digest, release.operation_id, release.request) != expected:
        raise PeerMisbehaved(f"the curator's release does not answer operation {request.operation_id}")
    return release.result


def _terms(signed: Signed, configuration: messages.Configuration) -> messages.Terms:
    terms = messages.Terms.parse(verify(signed, messages.Terms.KIND))
    if (terms.run, terms.digest) != (configuration.run, configuration.fingerprint()):
        raise PeerMisbehaved("the curator's terms are for another configuration")
    return terms
