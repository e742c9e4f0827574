"""Replay a transcript: feed its replies to a fresh generator, which must ask the same and end the same."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from io import BufferedIOBase
from itertools import islice
from typing import Any

import numpy as np

from common.core import canonical
from common.core.arrays import Indices
from common.core.errors import AuditFailed, NotVouched, PeerMisbehaved, TandemError
from common.core.values import RUN
from common.crypto.identity import Signed, covered, verify
from common.crypto.vouching import Grant, IssuerKey, issuer_of
from common.local.queries.query import Answers, AskAgents
from common.log.entries import Head
from common.log.transcript import AnyEntry
from common.net.messages import Configuration, PackedReport, Perform, Report, signed_bytes
from common.operations.operation import declared_event, findings
from common.privacy.events import Event, NoEvent
from common.protocols.base import AskCurator, Progress, Testing
from common.scenario.scenario import ResolvedScenario
from referee.collection.aggregation import add_up
from referee.collection.enrolment import grant_of, unpacked, vouched
from referee.collection.judging import PendingQuestion, judge, payload, read, verified
from referee.collection.order import AnyBatch, form_batch, public_randomness
from referee.collection.roster import Roster, participants_root
from referee.protocols.base import Outcome, protocol_of
from referee.protocols.driver import begun, drive
from referee.runfolder import unpack_reports
from referee.runs.curator import check_release, operation_request
from referee.runs.ordering import OrderEntropy, checked
from referee.tables import Cohort, Part, StoredReport


class _TranscriptEnd(Exception):
    """The end of the transcript of a run that was cut off."""


@dataclass
class Replay:
    """One replay of one transcript.

    Attributes:
        configuration, chosen: The run's configuration, and the scenario in it.
        curator, head: The key of the curator that signed the terms, and the head of its ledger in them.
        open_reports: Opens the file of the reports on a question.
        pending: Entries that no message of the protocol has used yet.
        reports, asked, answers, operations: Counts of what was checked.
        people: How many agents were asked, each counted once.
        events: The privacy events that the curator declared for its operations, without those that cost nothing.
        answers_of: How many of the answers came from each participant, by its place in the roster.
        missing: The largest share, over all questions, of those who were asked whose answers are missing.
        misbehaved: Why this run does not accept the curator's last release, which ended it; empty if it does.
    """

    configuration: Configuration
    chosen: ResolvedScenario
    curator: str | None
    head: Head | None
    agents: Agents
    entries: Sequence[AnyEntry]
    open_reports: Callable[[int], AbstractContextManager[BufferedIOBase]]
    place: ReplayPosition
    reports = asked = people = answers = operations = 0
    missing = 0.0
    misbehaved = ""

    def __post_init__(self) -> None:
        self.pending = [entry for entry in self.entries[2:-1] if entry.kind != "beacon"]
        self.events: list[Event] = []
        self.notes: list[Progress] = []
        self.answers_of = np.zeros(len(self.agents.roster), dtype=np.int64)

    def run(self, *, cut_off: bool) -> Outcome | None:
        """Return how the protocol ends on the transcript's replies; None if the run was cut off."""
        protocol = protocol_of(self.chosen)
        public = public_randomness(self.configuration.scenario, self.configuration.order)
        script, pattern = begun(protocol, self.chosen, public), protocol.pattern
        try:
            outcome = drive(script, pattern, self._until_cut if cut_off else self._exchange, self._note)
        except _TranscriptEnd:
            return None
        except PeerMisbehaved as error:
            if not cut_off or self.pending:
                raise
            self.misbehaved = error.detail
            return None
        if cut_off and self.asked and not self.answers and not self.pending:
            return None  # if all have declined, a run ends as refused, whatever the protocol makes of no answers
        if cut_off:
            raise AuditFailed(f"the protocol ends with {outcome.status!r} on these answers, the result hides it")
        self.place.words = "the result"
        if self.pending:
            line = self.pending[0].index + 1
            raise AuditFailed(f"transcript line {line}: the protocol had ended before this message")
        return outcome

    def _note(self, note: Progress) -> None:
        if not isinstance(note, Testing):
            self.notes.append(note)

    def _until_cut(self, number: int, step: AskCurator | AskAgents) -> Any:
        if not self.pending:
            raise _TranscriptEnd
        if isinstance(step, AskAgents) and len(self.pending) == 1 and self.pending[0].kind == "question":
            self._batch(self.pending[0], number, step)
            raise _TranscriptEnd
        return self._exchange(number, step)

    def _exchange(self, number: int, step: AskCurator | AskAgents) -> Any:
        return self._operation(number, step) if isinstance(step, AskCurator) else self._question(number, step)

    def _next(self, kind: str, number: int) -> AnyEntry:
        if not self.pending or self.pending[0].kind != kind:
            actual = f"found {self.pending[0].kind!r}" if self.pending else "the transcript ends"
            line = self.pending[0].index + 1 if self.pending else len(self.entries)
            raise AuditFailed(f"transcript line {line}: message {number} of the protocol is a {kind!r}, {actual}")
        entry = self.pending.pop(0)
        self.place.words = f"transcript line {entry.index + 1} ({kind})"
        return entry

    def _operation(self, number: int, step: AskCurator) -> dict[str, Any]:
        entry = self._next("operation", number)
        if self.curator is None or self.head is None:
            raise self.place.failed("an operation of a curator that never agreed to the run")
        request = operation_request(
            self.configuration.run, self.configuration.fingerprint(), number, step.operation, self.head
        )
        body = entry.body
        asked = Signed.parse(body["request"])
        if not canonical.same(verify(asked, Perform.KIND, self.configuration.referee), request.wire()):
            raise self.place.failed("the request is not the one that the protocol makes here")
        release = check_release(Signed.parse(body["release"]), request, asked.digest, self.curator)
        self.head, result = release.ledger.head, release.result
        self.operations += 1
        event = declared_event(result)
        if isinstance(event, NoEvent) and findings(result):
            raise self.place.failed("something was released that the curator declares to cost nothing")
        if not isinstance(event, NoEvent):
            self.events.append(event)
        return result

    def _question(self, number: int, step: AskAgents) -> Answers:
        batch = self._batch(self._next("question", number), number, step)
        self.asked += batch.asked
        self.people += batch.asked if step.again is None else 0
        answered = self._next("answers", number)
        kind = self.chosen.agents.mechanism.answer_kind(step.query.domain)
        asked = PendingQuestion(
            self.configuration.run, self.configuration.fingerprint(), number, step.query, kind, lambda: batch
        )
        with self.open_reports(number) as file:
            reports = checked_reports(unpack_reports(file), asked, self.place)
            answers, root = add_up(asked, self._counted(reports, batch))
        actual = {"question": number, "asked": batch.asked, "answered": len(answers.values), "root": root}
        claimed = {name: answered.body[name] for name in actual}
        if claimed != actual:
            raise self.place.failed(f"the reports of question {number} do not match: {claimed} against {actual}")
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
        body = entry.body
        if not canonical.same([body["query"], body["question"]], [step.query.wire(), number]):
            raise self.place.failed("the question is not the one that the protocol asks here")
        parts = tuple(Part(int(c), int(a), int(b)) for c, a, b in body["parts"])
        if body.get("again") != step.again:
            raise self.place.failed("the question goes to other agents than the protocol asks here")
        if step.again is not None:
            return self.agents.take_again(step.again, parts)
        foreign = [(str(run), Part(int(c), int(a), int(b))) for run, _, c, a, b in body.get("others", [])]
        self.agents.pass_over(foreign)
        return self.agents.take(number, parts, step.count)


class Agents:
    """The agents of a run: each has one number, one owner and one place in one order, and is asked once.

    Or it is asked as often as the scenario allows (agents.answers), each time with all others of its first question.

    Each method raises ``AuditFailed`` where the transcript says otherwise.

    Args:
        configuration: The run's configuration, with the commitments to the orders.
        listed: Counts and root of the list of participants, as the transcript signs them.
        raw: The list itself (:meth:`referee.collection.roster.Roster.encode`).
        place: The part of the run that is being checked.

    Attributes:
        roster: Everybody who was enrolled when the run began.
        individuals, hosts: The number of individuals among them, and the number of people that each host claims to
            represent, the largest first.
        choosers: Who chose the orders in which agents were asked, in words (:mod:`referee.runs.ordering`).
        others: How many agents of the run's orders other runs have asked, by the names of these runs.
    """

    def __init__(self, configuration: Configuration, listed: dict[str, Any], raw: bytes, place: ReplayPosition) -> None:
        self._place = place
        self._run = configuration.run
        self.others: dict[str, int] = {}
        self.choosers: tuple[str, ...] = ()
        place.words = "the list of participants"
        self.roster = Roster.decode(raw)
        actual = {"count": len(self.roster), "agents": self.roster.agents, "root": participants_root(raw)}
        if actual != listed:
            raise AuditFailed(f"the list of participants is not the one that was signed: {listed} against {actual}")
        speaks = self.roster.speaks_for()
        self.individuals = self.roster.individuals
        self.hosts = tuple(sorted((int(people) for people in speaks[speaks > 1]), reverse=True))
        place.words = "the numbers of agents"
        orders = sorted(configuration.order, key=lambda promised: promised.first)
        for promised, limit in zip(orders, [*(p.first for p in orders[1:]), self.roster.agents], strict=True):
            if promised.first + promised.agents > limit:
                raise AuditFailed(f"agents {promised.first}... are in two orders, or not enrolled")
        self._cohorts: dict[int, Cohort] = {}
        self._places, self._people = self.roster.people()  # individuals who had taken part in other runs
        self._asked_again: set[int] = set()
        self._taken: dict[int, tuple[Part, ...]] = {}  # by the number of the question

    def open(self, configuration: Configuration, seeds: dict[str, str], entropy: OrderEntropy) -> None:
        """Take in the orders before any agent is asked: published seeds by first agent, and others' contributions."""
        self._place.words = "the order of agents"
        for promised in configuration.order:
            published, seed = seeds.get(str(promised.first)), ""
            if published is not None:
                seed, chooser = checked(promised, published, entropy)
                self.choosers = tuple(sorted({*self.choosers, chooser}))
            self._cohorts[promised.first] = Cohort(promised.first, promised.agents, seed, promised.used)

    def pass_over(self, foreign: Sequence[tuple[str, Part]]) -> None:
        """Record which agents other runs have asked meanwhile, as the referee has signed: they are no longer free."""
        for run, part in foreign:
            if not re.fullmatch(RUN, run):
                raise self._place.failed(f"{run!r} is no name of a run")
            if run == self._run:
                raise self._place.failed("agents of the run itself are listed as another run's")
            self._use(part)
            self.others[run] = self.others.get(run, 0) + part.stop - part.start

    def _use(self, part: Part) -> None:
        cohort = self._cohorts[part.cohort]
        if part.start != cohort.used or not part.start < part.stop <= cohort.agents:
            raise self._place.failed("agents are not taken in the committed order")
        self._cohorts[part.cohort] = Cohort(cohort.first, cohort.agents, cohort.seed, part.stop)

    def take_again(self, first: int, parts: tuple[Part, ...]) -> AnyBatch:
        """Return the agents of an earlier question; the driver checks how often they may be asked."""
        if parts != self._taken[first]:
            raise self._place.failed(f"agents were asked again who are not those of question {first}")
        return form_batch(parts, self._cohorts.__getitem__, self.roster)

    def take(self, number: int, parts: tuple[Part, ...], count: int) -> AnyBatch:
        """Return the agents of a question, the next ones of the orders; no later question may take them."""
        for part in parts:
            self._use(part)
            if not self._cohorts[part.cohort].seed:
                raise self._place.failed("agents were asked in an order whose seed was not published")
        asked = sum(p.stop - p.start for p in parts)
        left = sum(c.agents - c.used for c in self._cohorts.values())
        if asked > count or (asked < count and left > 0):
            raise self._place.failed(f"{count} agents were to be asked, {asked} were")
        batch = form_batch(parts, self._cohorts.__getitem__, self.roster)
        again = self._people[batch.asks(self._places)].tolist() if len(self._places) else []
        if len(again) > len(set(again)) or not self._asked_again.isdisjoint(again):
            raise self._place.failed("somebody who is listed several times is asked twice in this run")
        self._asked_again.update(again)
        self._taken[number] = parts
        return batch


@dataclass(frozen=True)
class GrantedHost:
    """A host for which an issuer vouches: its name, how many people it brought, and the most that it may bring."""

    name: str
    people: int
    most: int


@dataclass(frozen=True)
class ByIssuer:
    """For whom one issuer vouches by credentials and grants; ``pinned``: the auditor knows its keys from elsewhere."""

    pinned: bool
    individuals: int = 0
    hosts: tuple[GrantedHost, ...] = ()


@dataclass(frozen=True)
class Vouching:
    """Who vouches for those who were enrolled when a run began.

    Attributes:
        issuers: By their fingerprints.
        individuals, hosts: Those for whom only the referee, or the host itself, vouches: the number of individuals, and
            of the people of each host.
        strangers: Number of answers of people for whom no issuer with independently known keys vouches.
    """

    issuers: dict[str, ByIssuer] = field(default_factory=dict)
    individuals: int = 0
    hosts: tuple[int, ...] = ()
    strangers: int = 0


class Vouchers:
    """The checked credentials and grants that participants have shown.

    Args:
        stated: What the transcript's first entry states about vouchers, if anything.
        pinned: Keys of issuers that are known from elsewhere.

    It refuses a file other than the signed one, a credential that was not signed for the key of its individual, and a
    grant that is not for a host with so many people: an honest referee accepts none of these.
    """

    def __init__(
        self,
        roster: Roster,
        stated: Mapping[str, Any] | None,
        file: BufferedIOBase | None,
        pinned: Sequence[IssuerKey],
        place: ReplayPosition,
    ) -> None:
        place.words = "who vouches for participants"
        self._roster = roster
        self._pinned = {issuer.fingerprint() for issuer in pinned}
        self._by = np.zeros(len(roster), dtype=np.int64)  # 1 + the issuer's place; 0: no issuer vouches
        self._grants: dict[int, Grant] = {}
        named = [IssuerKey.parse(wire) for wire in stated["issuers"]] if stated is not None else []
        self._issuers = list({issuer.fingerprint(): issuer for issuer in (*pinned, *named)}.values())
        if stated is not None:
            self._check(stated, io.BytesIO() if file is None else file, place)

    def _check(self, stated: Mapping[str, Any], file: BufferedIOBase, place: ReplayPosition) -> None:
        if hashlib.file_digest(file, "sha256").hexdigest() != stated["sha256"]:
            raise place.failed("the file of vouchers is not the one that was signed")
        file.seek(0)
        firsts, count = self._roster.firsts, 0
        for first, voucher in unpacked(file):
            count += 1
            position = int(np.searchsorted(firsts, first))
            if position == len(self._roster) or firsts[position] != first:
                raise place.failed(f"something is shown for agent {first}, with which no participant begins")
            if issuer_of(voucher, self._issuers) is None:
                continue  # from an earlier issuer of the referee that is not known here: it counts for nothing
            participant = self._roster.at(position)
            try:
                issuer = vouched(voucher, participant.key, participant.agents, self._issuers)
            except NotVouched as error:
                raise place.failed(f"for {participant.key[:16]}... no issuer vouches: {error.detail}") from None
            self._by[position] = 1 + self._issuers.index(issuer)
            if (grant := grant_of(voucher)) is not None:
                self._grants[position] = grant
        if count != stated["count"]:
            raise AuditFailed(f"the transcript speaks of {stated['count']} vouchers, there are {count}")

    def summary(self, answers: Indices) -> Vouching:
        people = self._roster.speaks_for()
        once = self._by.copy()  # a person in several places counts at the first one
        places, first = self._roster.people()
        once[places[places != first]] = -1
        issuers, pinned = {}, np.zeros(len(people), dtype=np.bool_)
        for place, issuer in enumerate(self._issuers):
            own = self._by == place + 1
            fingerprint = issuer.fingerprint()
            if own.any() or fingerprint in self._pinned:
                hosts = [p for p in np.flatnonzero(own).tolist() if p in self._grants]
                grants = ((self._grants[p], int(people[p])) for p in hosts)
                granted = tuple(GrantedHost(grant.name, brought, grant.people) for grant, brought in grants)
                persons = int((own & (once >= 0)).sum()) - len(hosts)
                issuers[fingerprint] = ByIssuer(fingerprint in self._pinned, persons, granted)
            if fingerprint in self._pinned:
                pinned |= own
        unvouched = people[once == 0]
        return Vouching(
            issuers,
            individuals=int((unvouched == 1).sum()),
            hosts=tuple(sorted((int(n) for n in unvouched[unvouched > 1]), reverse=True)),
            strangers=int(answers[~pinned].sum()),
        )


class ReplayPosition:
    """The part of a run that is being checked, in words."""

    def __init__(self, words: str) -> None:
        self.words = words

    def failed(self, why: str) -> AuditFailed:
        return AuditFailed(f"{self.words}: {why}")

    @contextmanager
    def named_in_failures(self) -> Iterator[None]:
        """Raise ``AuditFailed``, with the place, for every error inside that a run's content can cause."""
        try:
            yield
        except AuditFailed:
            raise
        except TandemError as error:
            raise self.failed(error.detail) from None
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise self.failed(f"not what an honest referee writes ({error!r})") from None


GROUP = 4096  # reports whose signatures are verified together


def checked_reports(
    reports: Iterable[StoredReport], asked: PendingQuestion, place: ReplayPosition
) -> Iterator[StoredReport]:
    """Yield the reports on a question, checked: ordered by slot, one per owner, each signed by it for this question."""
    last, rest = -1, iter(reports)
    while group := list(islice(rest, GROUP)):
        for report in group:
            if not 0 <= report.slot < asked.batch.asked:
                raise place.failed(f"a report is for slot {report.slot}, {asked.batch.asked} agents were asked")
            key = asked.batch.owner(report.slot).key
            if report.slot != int(asked.batch.slots_from(report.slot)[0]):
                raise place.failed(f"{key[:16]}... reports for a slot that is not its first")
            if report.slot <= last:
                again = report.slot == last
                raise place.failed(f"{key[:16]}... reports twice" if again else "the reports are not in order")
            last = report.slot
        yield from _judged(group, asked, place)


def _judged(group: list[StoredReport], asked: PendingQuestion, place: ReplayPosition) -> list[StoredReport]:
    keys = [asked.batch.owner(report.slot).key for report in group]
    kinds = [Report.KIND if report.individual else PackedReport.KIND for report in group]
    payloads = [payload(report, asked) for report in group]
    good = verified(
        [bytes.fromhex(key) for key in keys],
        [covered(kind, what) for kind, what in zip(kinds, payloads, strict=True)],
        [report.signature for report in group],
    )
    for report, key, kind, what, fine in zip(group, keys, kinds, payloads, good.tolist(), strict=True):
        if not fine:
            raise place.failed(
                f"{key[:16]}... did not sign this answer to this question: it was asked something else than the "
                f"transcript says, or its report was changed"
            )
        signed = signed_bytes(kind, what, key, report.signature.hex())
        if judge(read(signed, what, None if report.individual else report.body), asked) != report:
            raise place.failed(f"the report of {key[:16]}... is not stored as it was signed")
    return group
