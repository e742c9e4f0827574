"""The common base of all HTTP services of Tandem: problem documents, limits, liveness, readiness, metrics.

Every error becomes a problem document (RFC 9457). An unexpected exception becomes a 500 without any detail, since a
detail might contain private data.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from common.core import canonical
from common.core.errors import URN, BadMessage, TandemError
from common.core.threads import Supervised
from common.core.values import Value
from common.crypto.identity import Signed
from common.net.edge import TINY, App, Call, Edge, Guarded, Handler, Receive, Reply, Scope, Send, fault, problem
from common.net.monitoring import CONTENT_TYPE, Check, Family, MetricSample, Readiness, by_label, require, write
from common.net.origins import AllowedOrigins

log = logging.getLogger("tandem")


class ProblemDocument(Value):
    """An RFC 9457 problem document, for the OpenAPI description."""

    type: str
    title: str
    status: int
    detail: str


_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": meaning, "content": _PROBLEM}
    for status, meaning in {
        400: "The request cannot be read",
        401: "A token or signature is missing or wrong",
        403: "Refused by this party's own rules",
        404: "There is no such thing here",
        405: "Not with this method",
        409: "Conflicts with an earlier message",
        413: "The request body is too large",
        422: "Well-formed, but not acceptable",
        503: "Not possible at present",
    }.items()
}


class Service(FastAPI):
    """An app behind its edge; requests that the edge answers do not pass through the framework."""

    def __init__(self, threads: Iterable[Supervised] = (), **settings: Any) -> None:
        super().__init__(**settings)
        self.threads = tuple(threads)
        self.edge = Edge(super().__call__)
        self._outermost: App = self.edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._outermost(scope, receive, send)

    def allow_origins(self, origins: Sequence[str], resources: re.Pattern[bytes]) -> None:
        """Let web pages of these origins request resources (:class:`~common.net.origins.AllowedOrigins`)."""
        if origins:
            self._outermost = allowed = AllowedOrigins(self.edge, origins, resources)
            self.edge.origins = allowed.origins

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        # Added once, not computed for each route: that took two thirds of the time to create an app.
        problem_schema = ProblemDocument.model_json_schema()
        document.setdefault("components", {}).setdefault("schemas", {})["Problem"] = problem_schema
        return document


def problem_response(error: TandemError) -> Response:
    """Return an error as a problem document."""
    reply = problem(error)
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(reply.body, reply.status, headers, media_type=reply.kind.decode())


def create_app(
    title: str,
    description: str,
    *,
    limits: Mapping[str, int | Guarded] | None = None,
    checks: Mapping[str, Check] | None = None,
    threads: Iterable[Supervised] = (),
) -> Service:
    """Return an app with what all services share: problem documents, limits, liveness and readiness.

    ``limits`` are those of its :class:`~common.net.edge.Edge`; ``checks`` and ``threads`` determine its readiness.
    """
    options: dict[str, Any] = {"title": title, "description": description, "version": "1", "responses": PROBLEMS}
    app = Service(threads, **options, docs_url=None, redoc_url=None)
    readiness = Readiness({**(checks or {}), **{thread.name: thread.check for thread in app.threads}})

    # Resources open to anybody must be cheap: many requests at the same time delay others by the time that each takes.
    async def health(call: Call) -> Reply:
        return Reply(200, b'{"status":"alive"}')

    @cache
    def document() -> bytes:
        return json.dumps(app.openapi(), separators=(",", ":")).encode()

    async def describe(call: Call) -> Reply:
        return Reply(200, document())

    app.edge.limits.update({"/openapi.json": TINY, **(limits or {})})
    app.edge.short["GET", "/openapi.json"] = describe

    def plain(error: HTTPException) -> Response:
        title = str(error.detail)
        document = {"type": URN + "http", "title": title, "status": error.status_code, "detail": title}
        return JSONResponse(document, error.status_code, error.headers, media_type="application/problem+json")

    answer_errors(app, problem_response, plain)

    summary = "Is this service alive? Its loop answers"
    add_handled(app, "GET", "/v1/health", health, summary, response_model=dict[str, str])

    @app.get("/v1/ready", summary="Whether this service is ready; 503 names what is missing")
    async def ready() -> dict[str, str]:
        wrong = readiness.known()
        require(await run_in_threadpool(readiness.check) if wrong is None else wrong)
        return {"status": "ready"}

    return app


def answer_errors(
    app: Service, render: Callable[[TandemError], Response], plain: Callable[[HTTPException], Response]
) -> None:
    """Register handlers for every error of an app; ``plain`` answers those of the framework."""

    @app.exception_handler(TandemError)
    async def refused(request: Request, error: TandemError) -> Response:
        app.edge.problems[error.problem] += 1
        return render(error)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return render(BadMessage(f"{place}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> Response:
        return plain(error)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return await refused(request, fault(request.method, request.url.path, error))


METRICS = PlainTextResponse  # how metrics are described
BYTES_SCHEMA = {"type": "string", "format": "binary"}  # the OpenAPI schema of bytes


def metrics_response(families: Iterable[Family]) -> Response:
    """Return metrics as a response."""
    return Response(write(families), media_type=CONTENT_TYPE)


def of_requests(app: Service) -> list[Family]:
    """Return the metrics of requests and threads that every service has."""
    edge = app.edge
    classes: Counter[str] = Counter()
    for status, count in list(edge.statuses.items()):
        classes[f"{status // 100}xx"] += count
    problems = dict(edge.problems)
    failures = {thread.name: float(thread.failures) for thread in app.threads}
    unexpectedly = "Threads that ended unexpectedly, and were started again."
    return [
        by_label("counter", "tandem_requests_total", "Requests answered, by class of status.", "status", classes),
        Family("tandem_requests_shed_total", "counter", "Answered 503.", [MetricSample(edge.statuses[503])]),
        by_label("counter", "tandem_problems_total", "Requests refused, by problem type.", "problem", problems),
        by_label("counter", "tandem_thread_failures_total", unexpectedly, "thread", failures),
    ]


async def read_signed(request: Request, kind: str) -> Signed:
    """Do what :func:`signed_of` does with a request's body, outside the event loop."""
    return await run_in_threadpool(signed_of, await request.body(), kind)


def signed_of(raw: bytes, kind: str) -> Signed:
    """Parse a signed message of a kind strictly, or raise BadMessage; the caller verifies its signature."""
    signed = Signed.parse(canonical.decode(raw))
    if signed.kind != kind:
        raise BadMessage(f"this resource takes a signed {kind!r}, found {signed.kind!r}")
    return signed


def add_handled(
    app: Service,
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    limit: int | Guarded = TINY,
    **described: Any,
) -> None:
    """Add a resource that the edge answers; the framework only describes it and gets no request for it.

    ``limit`` is the edge's limit for bodies.
    """
    place = path.partition("{")[0]
    app.edge.limits[place] = limit
    app.edge.short[method, place] = handler

    def answer() -> Response:
        raise AssertionError("the edge answers this resource")

    app.add_api_route(path, answer, methods=[method], summary=summary, name=handler.__name__, **described)


def signed_body(kind: str) -> dict[str, Any]:
    """Return the OpenAPI description of a request body that is a signed message of a kind."""
    return body_of(f"A signed {kind!r}", "application/json", {"$ref": "#/components/schemas/Signed"})


def body_of(description: str, media_type: str, schema: Mapping[str, Any] = BYTES_SCHEMA) -> dict[str, Any]:
    """Return the OpenAPI description of a request body; by default of one that is bytes."""
    content = {media_type: {"schema": schema}}
    return {"requestBody": {"required": True, "description": description, "content": content}}


def bearer_token(
    authorization: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))],
) -> str:
    """Return the token of the header ``Authorization: Bearer ...``, or an empty text."""
    return "" if authorization is None else authorization.credentials


BearerToken = Annotated[str, Depends(bearer_token)]
