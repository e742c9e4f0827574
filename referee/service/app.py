"""The referee over HTTP: agents enrol, poll and report, an operator creates runs, and monitoring reads metrics."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import Field
from sqlalchemy.exc import SQLAlchemyError

from common.core import canonical
from common.core.errors import BadMessage, CannotWrite, NotFound, TandemError
from common.core.threads import Supervised
from common.core.values import MAX_PLACE, RUN, Value
from common.crypto.identity import Signed
from common.log.receipts import Proof, ProofRequest, StoredCheckpoint
from common.net import messages
from common.net.app import (
    BYTES_SCHEMA,
    METRICS,
    BearerToken,
    Service,
    add_handled,
    bearer_token,
    body_of,
    create_app,
    metrics_response,
    of_requests,
    problem_response,
    read_signed,
    signed_body,
)
from common.net.batching import Grouped
from common.net.edge import LARGE, TINY, Admitted, Guarded, Opening
from common.net.monitoring import Check, Family, MetricSample, by_label, disk, free_bytes, gauge
from common.net.oblivious.encapsulation import GATEWAY, SIGNED_KEYS
from common.net.oblivious.gateway import Gateway
from common.net.oblivious.relay import ENCAPSULATED_BODY
from referee.collection.judging import ReceivedReport
from referee.runfolder import pack_reports
from referee.service.agents_edge import MAX_BATCH, AgentsEdge
from referee.service.referee import Referee
from referee.service.runner import Runner

log = logging.getLogger("tandem.referee")
MAX_REPORTS = 1000  # individual reports in one batch, at most
MAX_KEPT = 1000  # checkpoints in one answer, at most
MAX_RUN = 4 << 20  # bytes of a request to run a scenario
FOR_AGENTS = re.compile(
    rb"GET /v1/(?:referee|runs/[0-9a-zA-Z_-]{1,64}/configuration)|POST /v1/(?:enrolments|polls|declines|proofs)"
    rb"|PUT /v1/reports/[0-9a-f]{32}"
)
"""The requests of an individual's agent, allowed also through the gateway and from pages of other origins: none of
hosts, operators or monitors."""
RunName = Annotated[str, Path(pattern=RUN)]
ReportId = Annotated[str, Path(pattern=messages.REPORT_ID)]
After = Annotated[int, Query(ge=0, lt=MAX_PLACE)]

BINARY: dict[str, Any] = {
    "response_class": Response,
    "responses": {200: {"content": {"application/octet-stream": {"schema": BYTES_SCHEMA}}}},
}


class RefereeInfo(Value):
    """Who this referee is."""

    key: str


class RunRequest(Value):
    """A request to run a resolved scenario; the same again returns the run as it stands."""

    scenario: dict[str, Any]
    seed: int | None = Field(default=None, ge=0, lt=1 << 63)


class Rejected(Value):
    """A report of a batch that was not accepted; ``reason`` is a problem type without its prefix."""

    position: int
    reason: str


class BatchOutcome(Value):
    """What became of a batch of reports: how many were accepted, with their receipts, and which were not."""

    accepted: int
    rejected: tuple[Rejected, ...]
    receipts: tuple[Signed, ...]


class ProgressNote(Value):
    """One thing that a run said of its progress."""

    text: str
    numbers: dict[str, float]


class RunStanding(Value):
    """For whom or what a run waits, and its agents so far.

    ``declined`` counts by reason those of closed questions who said that they would not answer. ``test`` says how far
    the test of the round under way is, by the answers to its closed questions: ``asked``, ``tested_answers``,
    ``tested_worst_case`` and, where it may stop early, ``tested_above``, ``tested_below`` (log-evidence, in nats) and
    ``tested_needed``; null where there is none.
    """

    waits_for: str
    enrolled: int
    asked: int
    answered: int
    declined: dict[str, int]
    test: dict[str, float] | None


class RunState(Value):
    """A run as it stands; ``progress`` holds what came after the asked position."""

    run: str
    status: str
    progress: tuple[ProgressNote, ...]
    result: dict[str, Any] | None


class RunLine(Value):
    """A run in the list of all: its scenario, how it stands, and what it waits for or, once it has ended, has shown."""

    run: str
    scenario: str
    status: str
    waits_for: str
    verdict: str


def referee_app(
    referee: Referee, runner: Runner, beside: Iterable[Supervised] = (), origins: Sequence[str] = ()
) -> Service:
    """Return the service of a referee; further threads ``beside`` it are monitored as well.

    Web pages of these ``origins`` may send the requests of an individual's agent.
    """
    agents = AgentsEdge(referee)
    gateway = Gateway(referee.identity, FOR_AGENTS)
    groups = (*agents.groups, gateway.group)

    async def operators_body(opening: Opening) -> Admitted:
        referee.registrar.authorize("operator", opening.token)
        return Admitted(MAX_RUN)

    app = create_app(
        "Tandem referee",
        "Drives hybrid-model protocols between a curator and many local agents.",
        limits={
            "/v1/runs/": Guarded(MAX_RUN, operators_body),
            "/v1/report-batches": Guarded(MAX_BATCH, agents.batch_may_come),
            "/v1/proofs": TINY,
        },
        checks=checks(referee, runner),
        threads=[*runner.threads, *beside, *(thread for group in groups for thread in group.threads)],
    )
    gateway.edge = app.edge
    app.allow_origins(origins, FOR_AGENTS)

    @app.exception_handler(SQLAlchemyError)
    async def database_unavailable(request: Request, error: SQLAlchemyError) -> Response:
        log.error("the referee's database cannot be used", exc_info=error)
        return problem_response(CannotWrite("the referee's database cannot be used at present: ask again"))

    @app.get("/v1/referee", summary="The referee's public key")
    def about() -> RefereeInfo:
        return RefereeInfo(key=referee.identity.public)

    @app.get("/v1/runs/{run}/configuration", summary="A run's signed configuration")
    def configuration(run: RunName) -> Signed:
        return referee.configuration(run)

    def check_operator(token: BearerToken) -> None:
        referee.registrar.authorize("operator", token)

    operator = APIRouter(dependencies=[Depends(check_operator)])
    _add_handled(app, agents, gateway)
    _add_batches(app, referee)
    _add_runs(operator, referee, runner)
    _add_folders(operator, referee)
    app.include_router(operator)

    @app.get("/v1/metrics", summary="Metrics, in Prometheus' text format (metrics, operator)", response_class=METRICS)
    def metrics(token: BearerToken) -> Response:
        referee.registrar.may_look(token)
        return metrics_response([*of_requests(app), *of_referee(referee), *of_groups(groups)])

    return app


def _state(referee: Referee, run: str, after: int) -> RunState:
    stored = referee.store.run(run)
    progress = tuple(ProgressNote(text=n.text, numbers=n.numbers) for n in referee.notes(run)[after:])
    return RunState(run=run, status=stored.status, progress=progress, result=stored.result)


def _report_id(report_id: ReportId) -> None:
    """Have the framework check and describe the path of a report."""


def _add_handled(app: Service, agents: AgentsEdge, gateway: Gateway) -> None:
    """Describe the requests of agents, hosts and relays, which the edge answers."""
    add = partial(add_handled, app)
    receipt: dict[str, Any] = {"response_model": Signed, "dependencies": [Depends(_report_id)]}
    token = {"dependencies": [Depends(bearer_token)]}
    none = {204: {"description": "No; ask again after Retry-After seconds"}}
    words = "A signed 'packed-report' in one line of JSON, then the packed answers"
    guarded = Guarded(LARGE, agents.packed_may_come, line=TINY)
    packed: dict[str, Any] = {"openapi_extra": body_of(words, "application/octet-stream"), "limit": guarded}
    enrolled: dict[str, Any] = {**token, "response_model": Signed, "openapi_extra": signed_body("enrolment")}
    polled: dict[str, Any] = {"response_model": Signed, "responses": none, "openapi_extra": signed_body("poll")}
    declined: dict[str, Any] = {"status_code": 204, "openapi_extra": signed_body("decline")}
    add("POST", "/v1/enrolments", agents.enrol, "Enrol an agent or a hosted population", **enrolled)
    add("POST", "/v1/polls", agents.poll, "Is there a question for me?", **polled)
    add("POST", "/v1/declines", agents.decline, "Say that a question will not be answered, and why", **declined)
    words = "Hand in one randomized answer; the reply is the receipt"
    add("PUT", "/v1/reports/{report_id}", agents.report, words, openapi_extra=signed_body("report"), **receipt)
    words = "Hand in the packed answers of a hosted population; the reply is the receipt"
    add("PUT", "/v1/packed-reports/{report_id}", agents.packed, words, **packed, **receipt)
    words = "Answer an encapsulated request of an agent"
    add("POST", GATEWAY, gateway.forwarded, words, openapi_extra=ENCAPSULATED_BODY)
    add("GET", GATEWAY, gateway.keys, "Keys for encapsulated requests (RFC 9458)", response_class=Response)
    add("GET", SIGNED_KEYS, gateway.signed, "The same keys, under the referee's signature", response_model=Signed)


def _add_batches(app: Service, referee: Referee) -> None:
    reports = {"type": "array", "maxItems": MAX_REPORTS, "items": {"$ref": "#/components/schemas/Signed"}}

    @app.post(
        "/v1/report-batches",
        summary="Submit many individual reports; refused ones are listed with a reason (enrolment or individual)",
        openapi_extra=body_of("Signed reports", "application/json", reports),
    )
    async def batch(request: Request, token: BearerToken) -> BatchOutcome:
        referee.registrar.admits(token)
        return await run_in_threadpool(_take_each, referee, await request.body())

    @app.post(
        "/v1/proofs", summary="Prove that a report is in the transcript", openapi_extra=signed_body(ProofRequest.KIND)
    )
    async def prove(request: Request) -> Proof:
        signed = await read_signed(request, ProofRequest.KIND)
        return await run_in_threadpool(referee.proof, signed)


def _add_runs(operator: APIRouter, referee: Referee, runner: Runner) -> None:
    @operator.put("/v1/runs/{run}", summary="Create a run (operator)")
    def create(run: RunName, body: RunRequest) -> RunState:
        referee.create(run, body.scenario, body.seed)
        runner.wake()
        return _state(referee, run, 0)

    @operator.get("/v1/runs", summary="All runs with their status and what they wait for, oldest first (operator)")
    def runs() -> list[RunLine]:
        lines = []
        for run in referee.store.runs():
            fields = {"run": run.run, "scenario": str(run.scenario.get("name")), "status": run.status}
            lines.append(RunLine(**fields, waits_for=referee.waits_for(run), verdict=referee.verdict(run)))
        return lines

    @operator.get("/v1/runs/{run}", summary="The status of a run (operator)")
    def show(run: RunName, after: After = 0) -> RunState:
        return _state(referee, run, after)

    @operator.get(
        "/v1/runs/{run}/standing",
        summary="What a run waits for, and how many agents have enrolled and answered (operator)",
    )
    def standing(run: RunName) -> RunStanding:
        waits_for = referee.waits_for(referee.store.run(run))
        return RunStanding(waits_for=waits_for, test=referee.test(run), **referee.agents(run))

    @operator.put(
        "/v1/runs/{run}/cancellation",
        summary="Cancel a run; releases and spent budgets stay as they are (operator)",
    )
    def cancel(run: RunName) -> RunState:
        referee.cancel(run)
        runner.wake()
        return _state(referee, run, 0)


def _add_folders(operator: APIRouter, referee: Referee) -> None:
    @operator.get(
        "/v1/runs/{run}/checkpoints",
        summary="The checkpoints of a run, signed by referee and witnesses, oldest first (operator)",
    )
    def checkpoints(
        run: RunName, after: After = 0, most: Annotated[int, Query(ge=1, le=MAX_KEPT)] = MAX_KEPT
    ) -> list[StoredCheckpoint]:
        return referee.kept(run, after, most)

    @operator.get(
        "/v1/runs/{run}/transcript",
        summary="The transcript, or a part of it, one JSON entry per line (operator)",
        response_class=PlainTextResponse,
    )
    def transcript(
        run: RunName, after: After = 0, most: Annotated[int, Query(ge=0, le=MAX_PLACE)] = MAX_PLACE
    ) -> PlainTextResponse:
        referee.store.run(run)
        return PlainTextResponse("".join(line + "\n" for line in referee.store.entries(run, after, most)))

    @operator.get(
        "/v1/runs/{run}/reports/{question}", summary="All accepted reports on a question (operator)", **BINARY
    )
    def reports(run: RunName, question: Annotated[int, Path(ge=0, lt=1 << 31)]) -> Response:
        stored = referee.store.question(run, question)
        if stored is None:
            raise NotFound(f"run {run!r} has no question {question}")
        return Response(pack_reports(referee.store.reports(stored)), media_type="application/octet-stream")

    @operator.get(
        "/v1/runs/{run}/participants",
        summary="The participants that were enrolled when a run began: key and number of agents (operator)",
        **BINARY,
    )
    def participants(run: RunName) -> Response:
        return Response(referee.participants(run), media_type="application/octet-stream")

    @operator.get(
        "/v1/runs/{run}/vouchers",
        summary="The credentials and grants of the participants that were enrolled when a run began (operator)",
        **BINARY,
    )
    def vouchers(run: RunName) -> Response:
        return StreamingResponse(referee.vouchers(run), media_type="application/octet-stream")


def _take_each(referee: Referee, raw: bytes) -> BatchOutcome:
    wires = canonical.decode(raw)
    if not isinstance(wires, list) or len(wires) > MAX_REPORTS:
        raise BadMessage(f"a batch is a list of at most {MAX_REPORTS} signed reports")
    outcomes = list(enumerate(referee.accept(list(map(_sent, wires)))))
    problems = [(position, outcome.problem) for position, outcome in outcomes if isinstance(outcome, TandemError)]
    rejected = tuple(Rejected(position=position, reason=problem) for position, problem in problems)
    receipts = tuple(Signed.model_validate_json(outcome) for _, outcome in outcomes if isinstance(outcome, bytes))
    return BatchOutcome(accepted=len(receipts), receipts=receipts, rejected=rejected)


def _sent(wire: Any) -> ReceivedReport | TandemError:
    try:
        return ReceivedReport(Signed.parse(wire))
    except BadMessage as error:
        return error


STATES = ("waiting", "running", "cancelling", "done", "exhausted", "refused", "failed", "cancelled")
"""States of runs; metrics report each one, even if no run is in it."""


def of_referee(referee: Referee) -> list[Family]:
    """Return the metrics of a referee."""
    store, collection, standing = referee.store, referee.collection, referee.checkpoints.standing
    fence = store.fence
    answers = {place: float(not status.problem) for place, status in standing.items()}
    misbehaved = {place: float(status.misbehaved) for place, status in standing.items()}
    answers_text = "Whether a witness kept what it was sent last."
    wrong_text = "Answers that no witness gives: such a witness is passed over, and asked again."
    enrolled, accepted = referee.registrar.enrolled(), [MetricSample(collection.accepted)]
    rejected = dict(collection.rejected)
    return [
        *_of_runs(referee),
        gauge("tandem_agents_enrolled", "Agents that are enrolled.", referee.registrar.roster.agents),
        *(gauge(f"tandem_enrolment_{n}", f"Enrolment: {n.replace('_', ' ')}.", count) for n, count in enrolled.items()),
        Family("tandem_reports_accepted_total", "counter", "Reports that were stored here.", accepted),
        by_label("counter", "tandem_reports_rejected_total", "Reports refused, by reason.", "reason", rejected),
        by_label("gauge", "tandem_witness_answers", answers_text, "witness", answers),
        by_label("counter", "tandem_witness_misbehaved_total", wrong_text, "witness", misbehaved),
        Family("tandem_commits_total", "counter", "Transactions committed.", [MetricSample(store.commits())]),
        gauge("tandem_lease_held", "Whether this process drives the runs.", float(fence is not None)),
        gauge("tandem_lease_seconds_left", "Seconds until the lease ends, of any holder.", store.lease_left()),
        gauge("tandem_fence", "The fencing token of this process, while it drives.", fence),
        gauge("tandem_disk_free_bytes", "Bytes left for the state directory.", free_bytes(referee.folder)),
        gauge("tandem_database_bytes", "Bytes of the database on disk.", store.bytes()),
    ]


def of_groups(groups: Sequence[Grouped[Any]]) -> list[Family]:
    """Return the metrics of work done in groups; reports are committed so, each group in one transaction."""
    seconds = [sample for group in groups for sample in group.seconds.samples()]
    sizes = [sample for group in groups for sample in group.sizes.samples()]
    waiting = {group.name: float(group.waiting) for group in groups}
    return [
        Family("tandem_group_seconds", "histogram", "Seconds of work on one group, its commit included.", seconds),
        Family("tandem_group_items", "histogram", "Requests in one group.", sizes),
        by_label("gauge", "tandem_queue_length", "Requests that wait for a group.", "kind", waiting),
    ]


def _of_runs(referee: Referee) -> list[Family]:
    states = dict.fromkeys(STATES, 0) | referee.store.states()
    now, silent, agents = time.monotonic(), [], []
    for run in referee.store.unfinished():
        summary = referee.agents(run.run)
        declined = sum(summary["declined"].values())
        counts = {"asked": summary["asked"], "answered": summary["answered"], "declined": declined}
        agents += [MetricSample(count, {"run": run.run, "state": state}) for state, count in counts.items()]
        if run.configuration is not None and run.run in referee.progressed:
            silent.append(MetricSample(now - referee.progressed[run.run], {"run": run.run}))
    waits = "Seconds since a run under way last made progress: how old what it waits for is."
    asked = "Agents of closed questions of runs under way; asked ones of all."
    return [
        by_label("gauge", "tandem_runs", "Runs by state.", "state", states),
        Family("tandem_run_seconds_since_progress", "gauge", waits, silent),
        Family("tandem_run_agents", "gauge", asked, agents),
    ]


TAKING_OVER = 3.0
"""Time, in lengths of a lease, for another process to take over from one that stopped, or for the first to begin."""


def checks(referee: Referee, runner: Runner) -> dict[str, Check]:
    """Return the checks of a referee's process.

    Only a process that drives runs, or would, needs a driver. A process that only takes requests (``--role ingest``)
    stores the agents' reports until a process drives again, so taking it out of service would lose answers.
    """
    began = time.monotonic()

    def database() -> str | None:
        referee.store.check_writable()
        return None

    def driver() -> str | None:
        if not runner.started or referee.store.fence is not None:
            return None
        patience = TAKING_OVER * referee.lease
        left = referee.store.lease_left()
        if time.monotonic() - began < patience or (left is not None and left > -patience):
            return None
        return f"no process has held the lease for {patience:g} seconds"

    return {"disk": lambda: disk(referee.folder), "database": database, "driver": driver}
