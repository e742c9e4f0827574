"""Replay a transcript: its replies are fed to a fresh generator, which must ask the same and end the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from io import BufferedIOBase
from typing import Any

import numpy as np

from common.core.errors import AuditFailed, PeerMisbehaved
from common.crypto.identity import Signed, verify
from common.local.queries.query import Answers, AskAgents
from common.log.entries import Head
from common.log.transcript import AnyEntry
from common.net.messages import Configuration, Perform
from common.operations.operation import declared_event, findings
from common.privacy.events import Event, NoEvent
from common.protocols.base import AskCurator, Progress, Testing
from common.scenario.scenario import ResolvedScenario
from referee.audit.agents import Agents, Place, checked_reports
from referee.collection.aggregation import add_up
from referee.collection.batches import AnyBatch
from referee.collection.judging import Asked
from referee.collection.order import public_randomness
from referee.protocols.base import Outcome, protocol_of
from referee.protocols.driver import begun, drive
from referee.runfolder import unpack_reports
from referee.runs.curator import check_release, operation_request
from referee.tables import Part, StoredReport


class _Over(Exception):
    """A run that was cut off goes no further."""


class Replay:
    """One replay of one transcript.

    Args:
        configuration, chosen: The run's configuration, and the scenario in it.
        curator, seen: The key of the curator that signed the terms, and the head of its ledger in them.
        reports: Opens the file of the reports on a question.

    Attributes:
        pending: Entries that no message of the protocol has asked for.
        reports, asked, answers, operations: Counts of what was checked.
        events: What the curator declared of its operations, as far as they cost something.
        answers_of: How many of the answers came from each participant, by its place in the roster.
        missing: Of the question that fewest answered: the share of those who were asked whose answers are not there.
        misbehaved: Why the curator's last release, which ended the run, is none that this run takes; empty where it is
            one.
    """

    def __init__(
        self,
        configuration: Configuration,
        chosen: ResolvedScenario,
        curator: str | None,
        seen: Head | None,
        agents: Agents,
        entries: Sequence[AnyEntry],
        reports: Callable[[int], AbstractContextManager[BufferedIOBase]],
        place: Place,
    ) -> None:
        self._configuration = configuration
        self._digest = configuration.fingerprint()
        self._scenario = chosen
        self._curator = curator
        self._seen = seen
        self._agents = agents
        self._lines = len(entries)
        self._reports = reports
        self._place = place
        self.pending = [entry for entry in entries[2:-1] if entry.kind != "beacon"]
        self.reports = self.asked = self.answers = self.operations = 0
        self.events: list[Event] = []
        self.notes: list[Progress] = []
        self.missing = 0.0
        self.misbehaved = ""
        self.answers_of = np.zeros(len(agents.roster), dtype=np.int64)

    def run(self, *, cut_off: bool) -> Outcome | None:
        """Return how the protocol ends on the transcript's replies; None where the run did not end by itself."""
        protocol = protocol_of(self._scenario)
        public = public_randomness(self._configuration.scenario, self._configuration.order)
        script, pattern = begun(protocol, self._scenario, public), protocol.pattern
        try:
            outcome = drive(script, pattern, self._until_cut if cut_off else self._exchange, self._note)
        except _Over:
            return None
        except PeerMisbehaved as error:
            if not cut_off or self.pending:
                raise
            self.misbehaved = error.detail
            return None
        if cut_off:
            raise AuditFailed(f"the protocol ends with {outcome.status!r} on these answers, the result hides it")
        self._place.words = "the result"
        if self.pending:
            line = self.pending[0].index + 1
            raise AuditFailed(f"transcript line {line}: the protocol had ended before this message")
        return outcome

    def _note(self, note: Progress) -> None:
        if not isinstance(note, Testing):
            self.notes.append(note)

    def _until_cut(self, number: int, step: AskCurator | AskAgents) -> Any:
        """Exchange a message up to the last one; only an open question may be left."""
        if not self.pending:
            raise _Over
        if isinstance(step, AskAgents) and len(self.pending) == 1 and self.pending[0].kind == "question":
            self._batch(self.pending[0], number, step)
            raise _Over
        return self._exchange(number, step)

    def _exchange(self, number: int, step: AskCurator | AskAgents) -> Any:
        return self._operation(number, step) if isinstance(step, AskCurator) else self._question(number, step)

    def _next(self, kind: str, number: int) -> AnyEntry:
        if not self.pending or self.pending[0].kind != kind:
            found = f"found {self.pending[0].kind!r}" if self.pending else "the transcript ends"
            line = self.pending[0].index + 1 if self.pending else self._lines
            raise AuditFailed(f"transcript line {line}: message {number} of the protocol is a {kind!r}, {found}")
        entry = self.pending.pop(0)
        self._place.words = f"transcript line {entry.index + 1} ({kind})"
        return entry

    def _operation(self, number: int, step: AskCurator) -> dict[str, Any]:
        entry = self._next("operation", number)
        if self._curator is None or self._seen is None:
            raise self._place.failed("an operation of a curator that never agreed to the run")
        request = operation_request(self._configuration.run, self._digest, number, step.operation, self._seen)
        body = entry.body
        sent = verify(Signed.parse(body["request"]), Perform.KIND, self._configuration.referee)
        if sent != request.wire():
            raise self._place.failed("the request is not the one that the protocol makes here")
        release = check_release(Signed.parse(body["release"]), request, self._curator)
        self._seen, result = release.ledger.head, release.result
        self.operations += 1
        event = declared_event(result)
        if isinstance(event, NoEvent) and findings(result):
            raise self._place.failed("something was released that the curator declares to cost nothing")
        if not isinstance(event, NoEvent):
            self.events.append(event)
        return result

    def _question(self, number: int, step: AskAgents) -> Answers:
        batch = self._batch(self._next("question", number), number, step)
        self.asked += batch.asked
        answered = self._next("answers", number)
        kind = self._scenario.agents.mechanism.answer_kind(step.query.domain)
        asked = Asked(self._configuration.run, self._digest, number, step.query, kind, lambda: batch)
        with self._reports(number) as file:
            reports = checked_reports(unpack_reports(file), asked, self._place)
            answers, root = add_up(asked, self._counted(reports, batch))
        actual = {"question": number, "asked": batch.asked, "answered": len(answers.values), "root": root}
        claimed = {name: answered.body[name] for name in actual}
        if claimed != actual:
            raise self._place.failed(f"the reports of question {number} do not match: {claimed} against {actual}")
        self.answers += len(answers.values)
        if answers.asked:
            self.missing = max(self.missing, 1.0 - len(answers.values) / answers.asked)
        return answers

    def _counted(self, reports: Iterator[StoredReport], batch: AnyBatch) -> Iterator[StoredReport]:
        for report in reports:
            self.reports += 1
            self.answers_of[batch.position(report.slot)] += report.answered
            yield report

    def _batch(self, entry: AnyEntry, number: int, step: AskAgents) -> AnyBatch:
        """Check a question, and return the agents that it goes to."""
        body = entry.body
        if body["query"] != step.query.wire() or body["question"] != number:
            raise self._place.failed("the question is not the one that the protocol asks here")
        parts = tuple(Part(int(c), int(a), int(b)) for c, a, b in body["parts"])
        others = [(str(run), Part(int(c), int(a), int(b))) for run, _, c, a, b in body.get("others", [])]
        self._agents.pass_over(others)
        return self._agents.take(parts, step.count)
