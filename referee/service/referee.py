"""The referee: enrols agents, takes their reports, and creates and executes runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from common.core import canonical
from common.core.database import sqlite_url
from common.core.durable import durable_key, hold
from common.core.errors import Forged, NotFound, PeerUnavailable, PeerUntrusted, Superseded, TandemError
from common.core.plain import about_run, clock
from common.crypto.identity import PROOF_HEADER, Identity, Signed, announce_body, verify
from common.crypto.vouching import IssuerKey
from common.log.receipts import Proof, ProofRequest, StoredCheckpoint
from common.log.witness import Witness
from common.net import messages
from common.net.client import Client, read_signed_reply
from common.net.edge import LARGE
from common.net.messages import AnySigned
from common.protocols.base import Progress, Testing
from common.scenario.accepting import accepted
from common.scenario.scenario import ResolvedScenario, parse_resolved
from referee.collection.aggregation import Proofs
from referee.collection.collection import ReportCollection
from referee.collection.enrolment import USUAL, Caps, Registrar, packed
from referee.collection.judging import Claim, ReceivedReport, claims, receipts
from referee.protocols.driver import check_beginning
from referee.runs import execution
from referee.runs.checkpoints import RunCheckpoints
from referee.runs.curator import CURATOR_PATIENCE, CuratorPort
from referee.runs.execution import Execution
from referee.runs.verdict import verdict
from referee.store import RefereeStore
from referee.tables import StoredRun

T = TypeVar("T")
log = logging.getLogger("tandem.referee")
LEASE = 10.0  # seconds for which a process drives the runs without renewing its lease


@dataclass(frozen=True)
class RefereeSettings:
    """What an operator sets for a referee.

    Attributes:
        database: SQLAlchemy URL; by default a SQLite file in the state directory.
        key: File of the signing key, which all processes on one database share; by default in the state directory.
        lease: Seconds without renewal after which another process may drive the runs that this one drives.
        curator_patience: Seconds for which a run waits for one answer of its curator.
    """

    database: str | None = None
    key: Path | None = None
    lease: float = LEASE
    curator_patience: float = CURATOR_PATIENCE


DEFAULTS = RefereeSettings()


class Referee:
    """One referee; its methods raise ``NotFound`` for the name of an unknown run.

    BadInput if another process uses the state directory, or the database cannot be opened or is another referee's.

    Args:
        wait: How to wait for reports; by default sleep until one arrives. A deployment in one process lets agents work
            here.
        clock: The clock for deadlines, in seconds.
        witnesses: The witnesses that keep checkpoints of the runs' transcripts.
        beacon: Whether the signatures of these witnesses enter the orders in which runs ask agents.
        issuers: The issuers, one of which must vouch for each participant that enrols; by default none need.
    """

    def __init__(
        self,
        folder: Path,
        curator: CuratorPort,
        *,
        settings: RefereeSettings = DEFAULTS,
        wait: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        caps: Caps = USUAL,
        witnesses: Sequence[Witness] = (),
        beacon: bool = False,
        issuers: Sequence[IssuerKey] = (),
    ) -> None:
        with ExitStack() as opened:
            opened.callback(hold(folder).close)
            self.identity = Identity.load_or_create(settings.key or folder / "identity.key")
            self.store = RefereeStore(settings.database or sqlite_url(folder / "referee.sqlite"))
            opened.callback(self.store.close)
            self.store.check_owner(self.identity.public)
            self._name = durable_key(folder / "process").hex()
            self._opened = opened.pop_all()
        self.folder = folder
        self._began = False
        self.lease = settings.lease
        self.registrar = Registrar(self.store, self.identity, caps, issuers)
        self.collection = ReportCollection(self.store, self.identity, self.registrar, clock, self._name)
        self.checkpoints = RunCheckpoints(self.store, self.identity, witnesses, beacon=beacon)
        self.proofs = Proofs(self.store, self.collection.questions)
        self._curator = curator
        self._curator_patience = settings.curator_patience
        self._wait = wait or self.collection.questions.wait
        self._notes: dict[str, list[Progress]] = {}
        self._tests: dict[str, dict[str, float]] = {}
        self._verdicts: dict[str, str] = {}
        self.progressed: dict[str, float] = {}
        """When each run of this process last reported progress, by the machine's monotonic clock."""

    def close(self) -> None:
        self._opened.close()

    def enrol(self, signed: Signed, token: str) -> Signed:
        return Signed.model_validate_json(_or_raise(self.registrar.enrol([(signed, token)])[0]))

    def poll(self, signed: Signed) -> Signed | None:
        assignment = _or_raise(self.collection.poll([signed])[0])
        return None if assignment is None else Signed.model_validate_json(assignment)

    def decline(self, signed: Signed) -> None:
        _or_raise(self.collection.decline([signed])[0])

    def accept(self, sent: Sequence[ReceivedReport | TandemError]) -> list[bytes | TandemError]:
        return self.take(claims(sent))

    def take(self, claimed: Sequence[Claim | TandemError]) -> list[bytes | TandemError]:
        """Take reports whose signatures were verified; return for each the signed receipt, or why there is none."""
        problems = self.collection.accept(claimed)
        return receipts(self.identity, claimed, problems, int(time.time()))

    def report(self, signed: Signed) -> Signed:
        return Signed.model_validate_json(_or_raise(self.accept([ReceivedReport(signed)])[0]))

    def report_packed(self, signed: AnySigned, body: bytes) -> Signed:
        return Signed.model_validate_json(_or_raise(self.accept([ReceivedReport(signed, body)])[0]))

    def proof(self, signed: Signed) -> Proof:
        """Return the proof that a participant's report is in the transcript, for that participant alone."""
        request = ProofRequest.parse(verify(signed, ProofRequest.KIND))
        if request.participant != signed.key:
            raise Forged("somebody else signed this request than the participant that it names")
        return self.proofs.prove(request)

    def create(self, run: str, tree: Any, seed: int | None) -> StoredRun:
        """Create a run of a resolved scenario; the same request again returns the run in its current state.

        BadScenario or BadInput if the scenario is not valid, or a value is still ``plan``. Conflict if another request
        has used the name.
        """
        chosen = parse_resolved(canonical.decode(canonical.encode(tree)))
        accepted(chosen)
        check_beginning(chosen)
        wire = public(chosen)
        request = canonical.digest({"scenario": wire, "seed": None if seed is None else str(seed)})
        return self.store.create_run(run, request, wire, seed)

    def configuration(self, run: str) -> Signed:
        """Return a run's signed configuration; ``NotFound`` if it has not begun."""
        wire = self.store.run(run).configuration
        if wire is None:
            raise NotFound(f"run {run!r} has not begun")
        return self.identity.sign(messages.Configuration.KIND, wire)

    def participants(self, run: str) -> bytes:
        self.store.run(run)
        first = self.store.first_entry(run)
        count = 0 if first is None else int(first.body["participants"]["count"])
        if count > len(self.registrar.roster):
            self.registrar.refresh()
        return self.registrar.roster.encode(count)

    def vouchers(self, run: str) -> Iterator[bytes]:
        self.store.run(run)
        first = self.store.first_entry(run)
        agents = 0 if first is None or "vouchers" not in first.body else int(first.body["participants"]["agents"])
        return packed(self.store.vouchers(agents))

    def kept(self, run: str, after: int = 0, most: int = 1 << 31) -> list[StoredCheckpoint]:
        self.store.run(run)
        return self.store.checkpoints(run, after, most)

    def catch_up(self) -> None:
        """Have witnesses keep the final checkpoints of runs that could not be sent when the runs ended."""
        cost: dict[str, float] = {}
        for run in filter(self.checkpoints.owed, self.store.ended()):
            configuration = messages.Configuration.parse(self.store.run(run).configuration)
            self.checkpoints.catch_up(run, configuration.fingerprint(), cost)

    def notes(self, run: str) -> list[Progress]:
        return self._notes.get(run, [])

    def test(self, run: str) -> dict[str, float] | None:
        """Return the progress of the test of a run's round; None if none is under way, or another process drives."""
        return self._tests.get(run)

    def drive(self) -> bool:
        """Become the process of this referee that drives its runs, if no other does; return whether this one drives.

        The first call does not wait for an earlier process's lease: the directory was free, so that process has ended.
        """
        drives = self.store.take_lease(self._name, self.lease, again=not self._began)
        self._began = True
        return drives

    def lacking(self, state: StoredRun) -> str | None:
        """Return, and add to the run's notes, which agents it waits for before it can begin; None if for none."""
        reason = self._execution(state).lacking()
        notes = self._notes.setdefault(state.run, [])
        if reason is not None and (not notes or notes[-1].text != reason):
            notes.append(Progress(reason, {}))
            self.progressed[state.run] = time.monotonic()
        return reason

    def claimed(self, state: StoredRun) -> str | None:
        """Return which runs under way may still ask agents that a new run needs; None if it need not wait for them.

        A run that has begun may ask as many agents as its scenario wants. A further run begins only if enough agents
        remain for it beside those; otherwise both might end without their answers.
        """
        if state.configuration is not None:
            return None
        runs = [run for run in self.store.unfinished() if run.configuration is not None and run.run != state.run]
        claims = {run.run: self._execution(run).claim() for run in runs}
        if self._execution(state).has_enough(beside=sum(claims.values())):
            return None
        return ", ".join(f"{run} ({claim:,} agents)" for run, claim in claims.items() if claim)

    def cancel(self, run: str) -> None:
        """End a run as ``cancelled``: at its turn if it has not begun, else between two of its messages.

        Releases stay released and spent budget stays spent; a run that has ended stays as it is.
        """
        self.store.run(run)
        self.store.cancel(run)

    def verdict(self, run: StoredRun) -> str:
        """Return the verdict on a run that has ended, as in its report; empty before."""
        if run.result is None:
            return ""
        if run.run not in self._verdicts:
            self._verdicts[run.run] = verdict(parse_resolved(run.scenario), run.result).title
        return self._verdicts[run.run]

    def agents(self, run: str) -> dict[str, Any]:
        """Count the agents that are enrolled, those that a run has asked, who answered, and who declined, by reason."""
        return {
            "enrolled": self.registrar.roster.agents,
            "asked": self.store.asked(run),
            "answered": self.store.answered(run),
            "declined": self.collection.declined(run),
        }

    def waits_for(self, run: StoredRun) -> str:
        """Return what a run waits for, and since when it made no progress, if known; empty once it has ended.

        Only progress that this process has seen counts.
        """
        if run.result is not None:
            return ""
        last = self.progressed.get(run.run)
        since = "" if last is None else f"; nothing new since {clock(int(time.time() - time.monotonic() + last))}"
        return self._waits_for(run) + since

    def _waits_for(self, run: StoredRun) -> str:
        if run.status == "cancelling":
            return "the end of what it is at"
        if run.configuration is None:
            lacking = self._execution(run).lacking()
            claimed = None if lacking is not None else self.claimed(run)
            if claimed is not None:
                return f"agents that runs under way may ask: {claimed}"
            return "its turn" if lacking is None else lacking.removeprefix("waiting for ")
        if (summary := self.collection.answer_summary(run.run)) is None:
            return "the curator"
        return f"agents: {summary[1]:,} of {summary[2]:,} on question {summary[0]}"

    def execute(
        self,
        run: str,
        on_progress: Callable[[Progress], None] = lambda note: None,
        patience: float | None = None,
        wait: Callable[[float], None] | None = None,
    ) -> dict[str, Any]:
        """Execute a run to its end, from its current state; return the result document.

        An error ends the run as ``refused`` (a party's own rules forbid it) or ``failed``, with the reason.
        Superseded if another process drives the runs, or began to while this one did: the other one continues.

        Args:
            patience: Seconds to wait for agents before it begins; by default
                :data:`referee.runs.execution.ENROLMENT_PATIENCE`.
            wait: How to wait for agents, for a caller that drives the runs already.
        """
        state = self.store.run(run)
        if state.result is not None:
            return state.result
        if wait is not None:
            self.store.check_driving()
        elif self.store.fence is None and not self.drive():
            raise Superseded("another process drives the runs of this referee")
        notes = self._notes.setdefault(run, [])

        def noticed(note: Progress) -> None:
            if isinstance(note, Testing):
                self._tests[run] = note.numbers
                return
            self._tests.pop(run, None)
            notes.append(note)
            self.progressed[run] = time.monotonic()
            log.info("%s", note.text)
            on_progress(note)

        self.progressed[run] = time.monotonic()
        with about_run(run):
            log.info("the run begins, or goes on")
            try:
                result = self._execution(state, patience, wait).run(noticed)
            finally:
                self._tests.pop(run, None)
            log.info("the run has ended: %s", result["status"])
        return result

    def wait(self, seconds: float) -> None:
        self._wait(seconds)

    def give_up(self, run: str, reason: str) -> dict[str, Any]:
        """End a run as ``failed``, without an answer, because of a fault of the referee itself."""
        return self._execution(self.store.run(run)).give_up(reason)

    def _execution(
        self, state: StoredRun, patience: float | None = None, wait: Callable[[float], None] | None = None
    ) -> Execution:
        parts = (self.store, self.identity, self.registrar, self.collection, self._curator, self.checkpoints)
        patience = execution.ENROLMENT_PATIENCE if patience is None else patience
        return Execution(state, *parts, wait or self._wait, patience, self._curator_patience)


def _or_raise(outcome: T | TandemError) -> T:
    if isinstance(outcome, TandemError):
        raise outcome
    return outcome


def public(chosen: ResolvedScenario) -> dict[str, Any]:
    """Return a scenario's public JSON, without the local paths of data."""
    return {**chosen.wire(), "data": None}


_ONCE = 5.0  # timeout in seconds of a message that a run does not wait for


class CuratorClient(Client):
    """:class:`referee.runs.curator.CuratorPort` over HTTP.

    ``identity``, the referee's, signs an announcement of each request: without it the curator reads 4 KiB of a body.
    """

    party = "curator"
    shows = True
    most = LARGE
    works = CURATOR_PATIENCE
    identity: Identity | None = None

    def bind(self) -> None:
        """Raise ``PeerUntrusted``, before a run waits, if TLS does not authenticate the peer as the curator."""
        if self.url.startswith("https://"):
            try:
                self.request("GET", "/v1/health", patience=0.0, timeout=_ONCE)
            except PeerUntrusted:
                raise
            except PeerUnavailable:
                pass  # a run that needs the curator waits for it

    def open_run(self, signed: Signed) -> Signed:
        return self._put(f"/v1/runs/{signed.message['run']}", signed)

    def open_share(self, signed: Signed) -> Signed:
        return self._put(f"/v1/runs/{signed.message['run']}/share", signed)

    def perform(self, signed: Signed) -> Signed:
        """Send an operation and return its release; retry while the curator is still computing it."""
        run, operation_id = signed.message["run"], signed.message["operation_id"]
        return self._put(f"/v1/runs/{run}/operations/{operation_id}", signed)

    def acknowledge(self, signed: Signed) -> None:
        """Acknowledge what the referee has received, with a short timeout if the curator cannot be reached."""
        path = f"/v1/runs/{signed.message['run']}/acknowledgement"
        body = signed.raw()
        self.request("PUT", path, patience=_ONCE, timeout=_ONCE, content=body, headers=self._announced(path, body))

    def _put(self, path: str, signed: Signed) -> Signed:
        body = signed.raw()
        return read_signed_reply(self.request("PUT", path, content=body, headers=self._announced(path, body)))

    def _announced(self, path: str, body: bytes) -> dict[str, str]:
        return {} if self.identity is None else {PROOF_HEADER: announce_body(self.identity, "PUT", path, body)}
