"""The curator over HTTP: six resources, all signed, none of which shows a record; and its metrics."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from common.core.errors import BadMessage, Busy, TandemError, Unauthorized
from common.core.threads import Worker
from common.core.values import RUN, Value
from common.crypto.identity import PROOF_HEADER, Signed, check_announcement
from common.log.ledger import LEDGER
from common.log.receipts import RevealRequest
from common.net import app as web
from common.net import messages
from common.net.edge import LARGE, SMALL, TINY, Admitted, Guarded, Opening
from common.net.monitoring import SECONDS, Family, Histogram, MetricSample, free_bytes, gauge
from common.net.tokens import same
from common.operations.operation import Operation
from common.privacy.guarantee import PrivacyGuarantee
from curator.contributions.collection import Collection, add_contributions
from curator.curator import OBEYED, Curator

PROMPT = 20.0  # seconds after which a request for a running operation is answered 202 ("ask again")
WAITING = 64  # maximum number of queued questions to a stream; clients must retry further ones

RunName = Annotated[str, Path(pattern=RUN)]
OperationId = Annotated[str, Path(pattern=r"^[0-9]{1,9}$")]


class CuratorInfo(Value):
    """Who this curator is and what it guarantees its people."""

    key: str
    guarantee: PrivacyGuarantee


async def _body_limit(curator: Curator, opening: Opening, *, consumer: bool = False) -> Admitted:
    """Accept more than 4 KiB only from a consumer, or from the referee that the curator obeys.

    Until it obeys a referee, it accepts 64 KiB from any client.
    """
    header = opening.headers.get(PROOF_HEADER.lower().encode())
    if header is None:
        return Admitted(TINY)
    claimed, key = header.decode("latin-1"), curator.referee
    if consumer:
        key = claimed[:64]
        curator.check_consumer(key)
    request_line = opening.method, opening.path, opening.length
    sha256 = await asyncio.to_thread(check_announcement, claimed, *request_line, key, OBEYED)
    return Admitted(SMALL if consumer or key is None else LARGE, sha256)


def curator_app(curator: Curator, metrics_token: str = "", contributions: Collection | None = None) -> web.Service:
    """Return the service of a curator."""
    worker = Worker("operation")
    app = web.create_app(
        "Tandem curator",
        "Holds a private sample; answers a fixed set of operations within a fixed budget.",
        limits={
            "/v1/runs/": Guarded(LARGE, partial(_body_limit, curator)),
            "/v1/answer": Guarded(SMALL, partial(_body_limit, curator, consumer=True)),
        },
        checks=curator.readiness_checks(),
        threads=[worker.threads, *curator.threads],
    )
    if contributions is not None:
        add_contributions(app, contributions)
    counted_curator = CountedCurator(curator)

    @app.get("/v1/curator", summary="The curator's public key, and what it guarantees")
    def about() -> CuratorInfo:
        return CuratorInfo(key=curator.key, guarantee=curator.guarantee)

    @app.get("/v1/metrics", summary="Metrics, in Prometheus' text format (metrics)", response_class=web.METRICS)
    def metrics(token: web.BearerToken) -> Response:
        if not metrics_token or not same(token, metrics_token):
            raise Unauthorized("this needs the token of TANDEM_METRICS_TOKEN, if the curator was started with one")
        return web.metrics_response([*web.of_requests(app), *counted_curator.families()])

    _add_runs(app, curator)
    _add_operations(app, curator, worker, counted_curator)
    _add_stream(app, curator, worker, counted_curator)
    return app


def _add_runs(app: web.Service, curator: Curator) -> None:
    @app.put(
        "/v1/runs/{run}",
        summary="Agree to a run; idempotent",
        response_model=Signed,
        openapi_extra=web.signed_body("configuration"),
    )
    async def open_run(run: RunName, request: Request) -> Signed:
        return await run_in_threadpool(curator.open_run, await _read_for_run(run, request, messages.Configuration.KIND))

    @app.put(
        "/v1/runs/{run}/share",
        summary="Reveal the curator's share of the agents' order, once, for the run's beacon",
        response_model=Signed,
        openapi_extra=web.signed_body("open-share"),
    )
    async def open_share(run: RunName, request: Request) -> Signed:
        return await run_in_threadpool(curator.open_share, await _read_for_run(run, request, RevealRequest.KIND))

    @app.put(
        "/v1/runs/{run}/acknowledgement",
        summary="Store the referee's acknowledgement of the ledger's entries",
        status_code=204,
        openapi_extra=web.signed_body("acknowledgement"),
    )
    async def acknowledge(run: RunName, request: Request) -> None:
        await run_in_threadpool(curator.acknowledge, await _read_for_run(run, request, messages.Acknowledgement.KIND))


async def _read_for_run(run: str, request: Request, kind: str) -> Signed:
    signed = await web.read_signed(request, kind)
    if signed.message.get("run") != run:
        raise BadMessage(f"the path names run {run!r}, the message {signed.message.get('run')!r}")
    return signed


def _add_operations(app: web.Service, curator: Curator, worker: Worker, counted_curator: CountedCurator) -> None:
    """Add operations: they run one after the other, each once; clients poll for the result of a long one."""
    running: dict[str, Future[Signed]] = {}

    @app.put(
        "/v1/runs/{run}/operations/{operation_id}",
        summary="Perform an operation; idempotent; 202: not finished, repeat the request",
        response_model=Signed,
        responses={202: {"description": "Still running; repeat the request"}},
        openapi_extra=web.signed_body("perform"),
    )
    async def perform(run: RunName, operation_id: OperationId, request: Request) -> Response:
        raw = await request.body()

        def admit() -> tuple[Signed, messages.Perform, Operation[Any]]:
            signed = web.signed_of(raw, messages.Perform.KIND)
            if (signed.message.get("run"), signed.message.get("operation_id")) != (run, operation_id):
                raise BadMessage("the path and the message name different operations")
            return signed, *curator.admit(signed)

        # Only the referee may make others wait in the queue.
        signed, message, operation = await run_in_threadpool(admit)
        begin = partial(worker.submit, counted_curator.perform, signed, message, operation)
        return await _result_or_retry(running, signed.fingerprint(), begin)


async def _result_or_retry(
    jobs: dict[str, Future[Signed]], identity: str, begin: Callable[[], Future[Signed]]
) -> Response:
    """Return the result of a job, which is started unless it runs, or the answer that the client must ask again."""
    job = jobs.get(identity)
    if job is None:
        job = jobs[identity] = begin()
        job.add_done_callback(lambda done: jobs.pop(identity, None))
    try:
        release = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(job)), PROMPT)
    except TimeoutError:
        if not job.done():
            return JSONResponse({"status": "running"}, 202, headers={"Retry-After": "0"})
        release = job.result()  # it has finished meanwhile, or raised its own TimeoutError
    return Response(release.raw(), media_type="application/json")


def _add_stream(app: web.Service, curator: Curator, worker: Worker, counted_curator: CountedCurator) -> None:
    """Add consumers' questions: answered one after the other, after operations; at most WAITING are queued."""
    waiting: dict[str, Future[Signed]] = {}

    @app.put(
        "/v1/answer",
        summary="Ask the run's stream for the class of a point; 202: not finished, repeat the request",
        response_model=Signed,
        responses={202: {"description": "Still running; repeat the request"}},
        openapi_extra=web.signed_body("point"),
    )
    async def answer(request: Request) -> Response:
        signed = await web.read_signed(request, messages.PointQuestion.KIND)
        question = await run_in_threadpool(curator.admit_point, signed)
        identity = question.fingerprint()
        if identity not in waiting and len(waiting) >= WAITING:
            raise Busy(f"{WAITING} questions wait for their answer already; nothing was charged")
        return await _result_or_retry(
            waiting, identity, partial(worker.submit, counted_curator.answer, signed, question)
        )


LEDGER_PROBLEMS = frozenset({"cannot-write", "rolled-back", "peer-unavailable", "peer-misbehaved", "broken-ledger"})
"""Problem types which say that the ledger, or a witness of it, did not accept an entry."""


class CountedCurator:
    """A curator whose operations are counted."""

    def __init__(self, curator: Curator) -> None:
        self._curator = curator
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._seconds = Histogram(SECONDS, "operation")

    def perform(self, signed: Signed, request: messages.Perform, operation: Operation[Any]) -> Signed:
        return self._counted(operation.kind, lambda: self._curator.perform_admitted(signed, request, operation))

    def answer(self, signed: Signed, question: messages.PointQuestion) -> Signed:
        return self._counted(question.KIND, lambda: self._curator.answer_point(signed, question))

    def _counted(self, kind: str, work: Callable[[], Signed]) -> Signed:
        start, outcome = time.monotonic(), TandemError.problem
        try:
            release = work()
            outcome = "released"
            return release
        except TandemError as error:
            outcome = error.problem
            raise
        finally:
            self._outcomes[kind, outcome] += 1
            self._seconds.observe(time.monotonic() - start, kind)

    def families(self) -> list[Family]:
        curator, outcomes = self._curator, sorted(self._outcomes.items())
        share, charges = curator.charges()
        epsilon, delta = curator.guarantee.pair
        failed = [MetricSample(sum(count for (_, outcome), count in outcomes if outcome in LEDGER_PROBLEMS))]
        samples = [MetricSample(count, {"operation": kind, "outcome": outcome}) for (kind, outcome), count in outcomes]
        ledger, times = curator.folder / LEDGER, self._seconds.samples()
        return [
            gauge("tandem_curator_epsilon_cap", "What the ledger's run costs its people, by the policy.", epsilon),
            gauge("tandem_curator_delta_cap", "The delta of that.", delta),
            gauge("tandem_curator_budget_share", "Share of the budget that is charged, in [0, 1].", share),
            gauge("tandem_curator_charges", "Operations that the ledger holds.", charges),
            Family("tandem_curator_operations_total", "counter", "Operations, by kind and outcome.", samples),
            Family(
                "tandem_curator_operation_seconds", "histogram", "Seconds until an operation's release left.", times
            ),
            Family("tandem_curator_ledger_failures_total", "counter", "Ledger or witness failed.", failed),
            gauge("tandem_disk_free_bytes", "Bytes left for the state directory.", free_bytes(curator.folder)),
            gauge("tandem_database_bytes", "Bytes of the ledger.", ledger.stat().st_size if ledger.exists() else None),
        ]
