"""Poll the referee for questions and answer them, for one agent or a hosted population."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from common.core.errors import BadInput, BrokenLedger, Forged, NotFound, Refused, RolledBack, TandemError
from common.core.machine import Schedule
from common.core.plain import about_run
from common.core.values import run_name
from common.crypto.identity import Signed, verify
from common.log.receipts import check_receipt
from common.net import messages
from local_agent.person.agent import Agent
from local_agent.policy import PINNED, CheckedQuestion

if TYPE_CHECKING:  # one person's agent loads no population
    from local_agent.hosted.population import Population

log = logging.getLogger("tandem.agent")

REMEMBERED = 8  # configurations of runs that are kept in memory; others are requested again
MIN_SECONDS = 1 / 16
SECONDS_A_CHARACTER = 1e-6  # per character, to parse a question and compute its digest
SECONDS_A_PERSON = 1e-4  # per person, to derive the key of the noise and to draw it
SECONDS_A_STEP = 2e-9  # per character of the question and person, to evaluate it


class Host:
    """The connection of an :class:`Agent`, or of a hosted population, with a referee.

    Args:
        referee: The referee's pinned public key.
        delay: Draws the seconds to wait before an individual's answer is sent; it does not depend on the record.
        schedule: Holds answers of real people until a public time (:func:`public_seconds`), by its clock.
        consent: Asks an individual whether to answer a question that passed every check, given the remaining
            lifetime epsilon; raises if not.
        on_taken: Called when the referee has acknowledged an individual's answer.
    """

    def __init__(
        self,
        answerer: Agent | Population,
        port: RefereePort,
        referee: str,
        delay: Callable[[], float] = lambda: 0.0,
        schedule: Schedule | None = None,
        consent: Callable[[CheckedQuestion, float], None] | None = None,
        on_taken: Callable[[], None] = lambda: None,
    ) -> None:
        self._answerer = answerer
        self._port = port
        self._referee = referee
        self._delay = delay
        self._schedule = schedule or Schedule()
        self._consent = consent
        self._configurations: dict[str, Signed] = {}
        self._on_taken = on_taken
        self._token: str | None = None  # the token of the enrolment
        self._due = False  # whether an individual has answered since its enrolment
        self.declined = False  # whether the agents' own policy refused the last question
        self.counts: Counter[str] = Counter()  # questions ``answered``, and those ``declined:REASON``
        self.polled = time.monotonic()  # when the referee last answered a poll, or this host started

    @property
    def finished(self) -> bool:
        """Whether an individual has spent its lifetime budget, and has no report left to send."""
        return isinstance(self._answerer, Agent) and self._answerer.finished

    @property
    def individual(self) -> bool:
        return isinstance(self._answerer, Agent)

    @property
    def people_asked(self) -> int:
        return int(self._answerer.answered)

    def close(self) -> None:
        self._answerer.close()

    def enrol(self, token: str) -> messages.Enrolled:
        """Enrol, and return the agents' numbers. An individual that was asked before may be asked once more."""
        agents, self._token = self._answerer, token
        signed = agents.enrolment(again=agents.answered > 0) if isinstance(agents, Agent) else agents.enrolment()
        reply = self._port.enrol(signed, token)
        self._due = False
        enrolled = messages.Enrolled.parse_signed(verify(reply, messages.Enrolled.KIND, self._referee, PINNED))
        if not isinstance(agents, Agent):
            agents.settle(enrolled.first)
        return enrolled

    def step(self) -> bool:
        """Poll once, answer the question if there is one, and return whether there was one.

        Refused, Forged or BadMessage if the agents do not accept it: the referee gets the reason, and no answer.
        """
        self.declined = False
        if isinstance(self._answerer, Agent) and (report := self._answerer.unacknowledged) is not None:
            # A crash or an unavailable referee came after the answer: send the same report again.
            self._hand_in(self._answerer, report)
            return True
        self._enrol_again()
        assignment = self._poll()
        if assignment is None:
            return False
        kind = messages.assignment_of(assignment.kind).KIND
        verify(assignment, kind, self._referee, PINNED)  # before any part of it is used
        run = run_name(assignment.message.get("run"))
        with about_run(run):
            return self._take_up(assignment, run)

    def _take_up(self, assignment: Signed, run: str) -> bool:
        configuration = self._configurations.get(run)
        if configuration is None or configuration.digest != assignment.message.get("digest"):  # or of an earlier run
            configuration = self._port.configuration(run)
            verify(configuration, messages.Configuration.KIND, self._referee, PINNED)  # before it is stored
            self._configurations[run] = configuration
            if len(self._configurations) > REMEMBERED:  # a referee may name any number of runs
                del self._configurations[next(iter(self._configurations))]
        try:
            if not self._agreed(assignment, configuration):
                return False
            report = self._answer(assignment, configuration)
        except (BrokenLedger, RolledBack):
            raise  # this folder, or its people's ledger, is an old copy: the question is for the other copy to answer
        except (Refused, BadInput, Forged) as error:
            # A question that these people must not answer does not prevent answers to others.
            self.declined = True
            self.counts[f"declined:{error.problem}"] += 1
            log.info("a question is declined: %s", error.problem)
            self._decline(assignment, error)
            raise
        if isinstance(report, Signed) and isinstance(self._answerer, Agent):
            self._hand_in(self._answerer, report)
        elif not isinstance(report, Signed) and not isinstance(self._answerer, Agent):
            receipt = self._port.report_packed(*report)
            check_receipt(receipt, report[0], self._referee, PINNED)
            self._answerer.keep_receipt(receipt, *report)
        self.counts["answered"] += 1
        log.info("a question is answered, and the receipt is kept")
        return True

    def _poll(self) -> Signed | None:
        poll = messages.Poll(participant=self._answerer.identity.public)
        signed = self._answerer.identity.sign(poll.KIND, poll.wire())
        try:
            assignment = self._port.poll(signed)
        except NotFound:  # the referee was restored to a state before this enrolment
            if self._token is None:
                raise
            log.warning("the referee does not know of this enrolment any more: it is repeated")
            self.enrol(self._token)
            assignment = self._port.poll(signed)
        self.polled = time.monotonic()
        return assignment

    def _agreed(self, assignment: Signed, configuration: Signed) -> bool:
        """Ask an individual for consent, and return whether the question is still open afterwards."""
        if self._consent is None or not isinstance(self._answerer, Agent):
            return True
        self._consent(self._answerer.examine(assignment, configuration), self._answerer.left[0])
        again = self._poll()
        if again is not None and again.message == assignment.message:
            return True
        log.warning("the question was closed while you decided: nothing was answered, nothing is spent")
        return False

    def _answer(self, assignment: Signed, configuration: Signed) -> Signed | tuple[Signed, bytes]:
        agents, least = self._answerer, public_seconds(assignment)
        with self._schedule.held(
            least + self._delay() if isinstance(agents, Agent) else least if agents.real else None
        ):
            return agents.answer(assignment, configuration)

    def _decline(self, assignment: Signed, error: TandemError) -> None:
        asked = {name: assignment.message.get(name) for name in ("run", "digest", "question")}
        answer = {"assignment": assignment.digest, "reason": error.problem}
        try:
            refusal = messages.Decline.parse({**asked, **answer})
            self._port.decline(self._answerer.identity.sign(refusal.KIND, refusal.wire()))
        except TandemError as further:
            log.warning("the referee did not take that a question is declined: %s", further.detail)

    def _hand_in(self, agent: Agent, report: Signed) -> None:
        try:
            receipt = self._port.report(report)
            check_receipt(receipt, report, self._referee, PINNED)
        except TandemError as error:
            if error.status < 500 or isinstance(error, Forged):
                agent.not_taken()  # the answer was sent, and there is no other answer to this question
                self._due = True
            raise
        agent.keep_receipt(receipt)
        self._due = True
        self._on_taken()
        self._enrol_again()

    def _enrol_again(self) -> None:
        """Enrol for later runs, unless the lifetime budget is spent; if this fails, the next step repeats it."""
        if self._due and not self.finished and self._token is not None:
            self.enrol(self._token)


def public_seconds(assignment: Signed) -> float:
    """Return the least time in seconds for an answer, from public facts: number of people, length of the question."""
    people, query = assignment.message.get("people"), assignment.message.get("query")
    # A character of base64 holds six bits: six people of a mask, or 3/16 of a number.
    each = 6.0 if "slot" in assignment.message else 0.75 / 4.0
    return seconds_for(each * len(people) if isinstance(people, str) else 1.0, len(str(query)))


def seconds_for(people: float, length: int) -> float:
    """Return at least twice the seconds that ``people`` answers to a question of ``length`` characters take.

    This is measured, not proven (``python -m benchmarks.answer_times``). If a machine takes longer, the answer is held
    for twice this time, or four times (:class:`~common.core.machine.Schedule`).
    """
    return MIN_SECONDS + SECONDS_A_CHARACTER * length + people * (SECONDS_A_PERSON + SECONDS_A_STEP * length)


class RefereePort(Protocol):
    """The interface of the referee to agents, implemented by an HTTP client, and by the referee itself in process.

    A repeated enrolment or report gets the same reply; the reply to a report is its receipt.
    """

    def enrol(self, signed: Signed, token: str) -> Signed: ...
    def poll(self, signed: Signed) -> Signed | None: ...
    def configuration(self, run: str) -> Signed: ...
    def decline(self, signed: Signed) -> None: ...
    def report(self, signed: Signed) -> Signed: ...
    def report_packed(self, signed: Signed, body: bytes) -> Signed: ...
