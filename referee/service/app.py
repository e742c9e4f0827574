"""The referee over HTTP: agents enrol, poll and report; an operator creates runs and reads what became of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
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
    METRICS,
    Service,
    create_app,
    handled,
    metrics_response,
    of_requests,
    problem_response,
    read_signed,
    signed_body,
)
from common.net.edge import Admitted, Guarded, Opening
from common.net.oblivious.encapsulation import GATEWAY, SIGNED_KEYS
from common.net.oblivious.gateway import Gateway
from common.net.oblivious.relay import encapsulated_body
from referee.collection.judging import Sent
from referee.runfolder import pack_reports
from referee.service.agents_edge import AgentsEdge
from referee.service.monitoring import checks, of_groups, of_referee
from referee.service.referee import Referee
from referee.service.runner import Runner

log = logging.getLogger("tandem.referee")
MAX_REPORTS = 1000
"""Individual reports in one batch, at most."""
MAX_KEPT = 1000
"""Checkpoints in one answer, at most."""
MAX_RUN = 4 << 20
"""Bytes of a request to run a scenario."""
FOR_AGENTS = re.compile(
    rb"GET /v1/(?:referee|runs/[0-9a-zA-Z_-]{1,64}/configuration)|POST /v1/(?:enrolments|polls|declines|proofs)"
    rb"|PUT /v1/reports/[0-9a-f]{32}"
)
"""What an individual's agent asks, and so may ask through the gateway: nothing of hosts, operators or monitors."""
RunName = Annotated[str, Path(pattern=RUN)]
ReportId = Annotated[str, Path(pattern=messages.REPORT_ID)]
Token = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]

BINARY: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
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
    """A run in the list of all: its scenario, how it stands, and what it waits for (empty once it has ended)."""

    run: str
    scenario: str
    status: str
    waits_for: str


def referee_app(referee: Referee, runner: Runner, beside: Iterable[Supervised] = ()) -> Service:
    """Return the service of a referee.

    Args:
        beside: Threads that work for it, beside those of the runner and of its own requests.
    """
    agents = AgentsEdge(referee)
    gateway = Gateway(referee.identity, FOR_AGENTS)
    groups = (*agents.groups, gateway.group)

    async def operators_body(opening: Opening) -> Admitted:
        referee.authorize("operator", opening.token)
        return Admitted(MAX_RUN)

    app = create_app(
        "Tandem referee",
        "Drives hybrid-model protocols between a curator and many local agents.",
        limits={**agents.limits, **gateway.limits, "/v1/runs/": Guarded(MAX_RUN, operators_body)},
        short={**agents.handlers, **gateway.handlers},
        checks=checks(referee, runner),
        threads=[*runner.threads, *beside, *(thread for group in groups for thread in group.threads)],
    )
    gateway.attach(app.edge)

    @app.exception_handler(SQLAlchemyError)
    async def away(request: Request, error: SQLAlchemyError) -> Response:
        log.error("the referee's database cannot be used", exc_info=error)
        return problem_response(CannotWrite("the referee's database cannot be used at present: ask again"))

    @app.get("/v1/referee", summary="Who is this referee?")
    def about() -> RefereeInfo:
        return RefereeInfo(key=referee.identity.public)

    _add_agents(app, agents)
    _add_gateway(app, gateway)
    _add_batches(app, referee, agents)
    _add_runs(app, referee, runner)
    _add_progress(app, referee)
    _add_folders(app, referee)

    @app.get("/v1/metrics", summary="Metrics, in Prometheus' text format (metrics, operator)", response_class=METRICS)
    def metrics(token: Token) -> Response:
        referee.registrar.may_look(token.credentials if token else "")
        return metrics_response([*of_requests(app), *of_referee(referee), *of_groups(groups)])

    return app


def _state(referee: Referee, run: str, after: int) -> RunState:
    known = referee.store.run(run)
    progress = tuple(ProgressNote(text=n.text, numbers=n.numbers) for n in referee.notes(run)[after:])
    return RunState(run=run, status=known.status, progress=progress, result=known.result)


def _check_operator(referee: Referee, token: HTTPAuthorizationCredentials | None) -> None:
    referee.authorize("operator", token.credentials if token else "")


def _add_agents(app: Service, agents: AgentsEdge) -> None:
    """Add what agents and hosts ask; the edge answers these before they come here, by the same handlers."""

    @app.post(
        "/v1/enrolments",
        summary="Enrol an agent or a hosted population",
        response_model=Signed,
        openapi_extra=signed_body("enrolment"),
    )
    async def enrol(request: Request, token: Token) -> Response:
        return await handled(agents.enrol, request)

    @app.post(
        "/v1/polls",
        summary="Is there a question for me?",
        response_model=Signed,
        responses={204: {"description": "No; ask again after Retry-After seconds"}},
        openapi_extra=signed_body("poll"),
    )
    async def poll(request: Request) -> Response:
        return await handled(agents.poll, request)

    @app.put(
        "/v1/reports/{report_id}",
        summary="Hand in one randomized answer; the reply is the receipt",
        response_model=Signed,
        openapi_extra=signed_body("report"),
    )
    async def report(report_id: ReportId, request: Request) -> Response:
        return await handled(agents.report, request)

    @app.post(
        "/v1/declines",
        summary="Say that a question will not be answered, and why",
        status_code=204,
        openapi_extra=signed_body("decline"),
    )
    async def decline(request: Request) -> Response:
        return await handled(agents.decline, request)


def _add_gateway(app: Service, gateway: Gateway) -> None:
    """Add what passes a relay; the edge answers these, too."""

    @app.post(GATEWAY, summary="Answer an encapsulated request of an agent", openapi_extra=encapsulated_body())
    async def forwarded(request: Request) -> Response:
        return await handled(gateway.forwarded, request)

    @app.get(GATEWAY, summary="Keys for encapsulated requests (RFC 9458)", response_class=Response)
    async def gateway_keys(request: Request) -> Response:
        return await handled(gateway.keys, request)

    @app.get(SIGNED_KEYS, summary="The same keys, under the referee's signature", response_model=Signed)
    async def oblivious_keys(request: Request) -> Response:
        return await handled(gateway.signed, request)


def _add_batches(app: Service, referee: Referee, agents: AgentsEdge) -> None:
    """Add batches of reports, packed reports of hosts, and proofs."""

    @app.post(
        "/v1/report-batches",
        summary="Hand in many individual answers; those that fail are listed with a reason (enrolment or individual)",
        openapi_extra={
            "requestBody": {
                "required": True,
                "description": "Signed reports",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "array",
                            "maxItems": MAX_REPORTS,
                            "items": {"$ref": "#/components/schemas/Signed"},
                        }
                    }
                },
            }
        },
    )
    async def batch(request: Request, token: Token) -> BatchOutcome:
        referee.registrar.admits(token.credentials if token else "")
        return await run_in_threadpool(_take_each, referee, await request.body())

    @app.put(
        "/v1/packed-reports/{report_id}",
        summary="Hand in the packed answers of a hosted population; the reply is the receipt",
        response_model=Signed,
        openapi_extra={
            "requestBody": {
                "required": True,
                "description": "A signed 'packed-report' in one line of JSON, then the packed answers",
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )
    async def packed(report_id: ReportId, request: Request) -> Response:
        return await handled(agents.packed, request, first_line=True)

    @app.post(
        "/v1/proofs",
        summary="Prove that my report is in the transcript",
        openapi_extra=signed_body(ProofRequest.KIND),
    )
    async def prove(request: Request) -> Proof:
        signed = await read_signed(request, ProofRequest.KIND)
        return await run_in_threadpool(referee.proof, signed)


def _add_runs(app: Service, referee: Referee, runner: Runner) -> None:
    """Add what an operator asks of runs: create, list, look, cancel."""

    @app.put("/v1/runs/{run}", summary="Create a run (operator)")
    def create(run: RunName, wanted: RunRequest, token: Token) -> RunState:
        _check_operator(referee, token)
        referee.create(run, wanted.scenario, wanted.seed)
        runner.wake()
        return _state(referee, run, 0)

    @app.get("/v1/runs", summary="All runs, oldest first: how they stand, and what they wait for (operator)")
    def runs(token: Token) -> list[RunLine]:
        _check_operator(referee, token)
        return [
            RunLine(run=run.run, scenario=str(run.scenario.get("name")), status=run.status, waits_for=waits_for)
            for run, waits_for in referee.standing()
        ]

    @app.get("/v1/runs/{run}", summary="How is a run doing? (operator)")
    def show(run: RunName, token: Token, after: Annotated[int, Query(ge=0, lt=MAX_PLACE)] = 0) -> RunState:
        _check_operator(referee, token)
        return _state(referee, run, after)

    @app.get("/v1/runs/{run}/standing", summary="What a run waits for, and its agents so far (operator)")
    def standing(run: RunName, token: Token) -> RunStanding:
        _check_operator(referee, token)
        waits_for = referee.waits_for(referee.store.run(run))
        return RunStanding(waits_for=waits_for, test=referee.test(run), **referee.agents(run))

    @app.put(
        "/v1/runs/{run}/cancellation",
        summary="Cancel a run: what was released stays released, what was spent stays spent (operator)",
    )
    def cancel(run: RunName, token: Token) -> RunState:
        _check_operator(referee, token)
        referee.cancel(run)
        runner.wake()
        return _state(referee, run, 0)


def _add_progress(app: Service, referee: Referee) -> None:
    """Add a run's configuration, checkpoints and transcript."""

    @app.get("/v1/runs/{run}/configuration", summary="A run's signed configuration")
    def configuration(run: RunName) -> Signed:
        return referee.configuration(run)

    @app.get(
        "/v1/runs/{run}/checkpoints",
        summary="How far the run's transcript went when, with the words of its witnesses; oldest first (operator)",
    )
    def checkpoints(
        run: RunName,
        token: Token,
        after: Annotated[int, Query(ge=0, lt=MAX_PLACE)] = 0,
        most: Annotated[int, Query(ge=1, le=MAX_KEPT)] = MAX_KEPT,
    ) -> list[StoredCheckpoint]:
        _check_operator(referee, token)
        return referee.kept(run, after, most)

    @app.get(
        "/v1/runs/{run}/transcript",
        summary="The transcript, or so many of its entries after the first ones: one JSON entry a line (operator)",
        response_class=PlainTextResponse,
    )
    def transcript(
        run: RunName,
        token: Token,
        after: Annotated[int, Query(ge=0, lt=MAX_PLACE)] = 0,
        most: Annotated[int, Query(ge=0, le=MAX_PLACE)] = MAX_PLACE,
    ) -> PlainTextResponse:
        _check_operator(referee, token)
        referee.store.run(run)
        entries = referee.store.entries(run)[after : after + most]
        return PlainTextResponse("".join(line + "\n" for line in entries))


def _add_folders(app: Service, referee: Referee) -> None:
    """Add what else a run folder holds: reports, participants, vouchers."""

    @app.get(
        "/v1/runs/{run}/reports/{question}",
        summary="All reports on a question, as accepted (operator)",
        response_class=Response,
        responses=BINARY,
    )
    def reports(run: RunName, question: Annotated[int, Path(ge=0, lt=1 << 31)], token: Token) -> Response:
        _check_operator(referee, token)
        found = referee.store.question(run, question)
        if found is None:
            raise NotFound(f"run {run!r} has no question {question}")
        return Response(pack_reports(referee.store.reports(found)), media_type="application/octet-stream")

    @app.get(
        "/v1/runs/{run}/participants",
        summary="Everybody who was enrolled when a run began: key and number of agents (operator)",
        response_class=Response,
        responses=BINARY,
    )
    def participants(run: RunName, token: Token) -> Response:
        _check_operator(referee, token)
        return Response(referee.participants(run), media_type="application/octet-stream")

    @app.get(
        "/v1/runs/{run}/vouchers",
        summary="What those who were enrolled when a run began have shown of issuers (operator)",
        response_class=Response,
        responses=BINARY,
    )
    def vouchers(run: RunName, token: Token) -> Response:
        _check_operator(referee, token)
        return StreamingResponse(referee.vouchers(run), media_type="application/octet-stream")


def _take_each(referee: Referee, raw: bytes) -> BatchOutcome:
    wires = canonical.decode(raw)
    if not isinstance(wires, list) or len(wires) > MAX_REPORTS:
        raise BadMessage(f"a batch is a list of at most {MAX_REPORTS} signed reports")
    reports = [Signed.parse(wire) for wire in wires]
    outcomes = list(enumerate(referee.accept([Sent(signed) for signed in reports])))
    rejected = [
        Rejected(position=i, reason=outcome.problem) for i, outcome in outcomes if isinstance(outcome, TandemError)
    ]
    receipts = tuple(Signed.model_validate_json(outcome) for _, outcome in outcomes if isinstance(outcome, bytes))
    return BatchOutcome(accepted=len(receipts), receipts=receipts, rejected=tuple(rejected))
