"""Changed messages against the real services, in process: whatever is sent, an answer below 500, soon.

Half of the changed messages are signed again by a key that the service knows: the signature is no shield then, and the
change reaches the code behind it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.fuzz.campaign import HANGS, SECONDS, Counts, Finding, split
from benchmarks.fuzz.contributions import TOKEN as CONTRIBUTION
from benchmarks.fuzz.contributions import Contributing
from benchmarks.fuzz.corpus import FINISHED, TOKEN, Corpus
from benchmarks.fuzz.mutation import Mutator
from benchmarks.fuzz.oblivious import sealed_requests
from common.core import canonical
from common.core.errors import BadMessage
from common.crypto import identity
from common.crypto.blindrsa import blind
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import token_input, token_request
from common.net.app import Service
from common.net.oblivious.binary_http import InnerResponse
from common.net.oblivious.encapsulation import GATEWAY, RELAY, REQUEST_TYPE, SIGNED_KEYS, Exchange
from common.net.oblivious.relay import relay_app
from curator.app import curator_app
from curator.contributions.collection import collecting_app
from issuer.issuer import InvitationCodes, Issuer, issuer_app
from referee.service.agents_edge import HOLD
from referee.service.app import referee_app
from referee.service.runner import Runner
from referee.service.witness import witness_app

WITNESS = f"{TOKEN}-witness"


@dataclass(frozen=True)
class Request:
    """A request, as a valid one or changed.

    Attributes:
        opened: Returns status and body of what is inside a successful answer; None: there is nothing inside.
    """

    method: str
    path: str
    query: str = ""
    token: str = ""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    opened: Callable[[bytes], tuple[int, bytes]] | None = None


@dataclass(frozen=True)
class Target:
    """A service, and what makes changed requests to it."""

    name: str
    app: Service
    requests: tuple[Callable[[Mutator], Request], ...]


def targets(corpus: Corpus, folder: Path) -> list[Target]:
    """Return all services, with the valid requests of a real run."""
    issuer = Issuer(folder / "issuer")
    referee = referee_app(corpus.referee, Runner(corpus.referee))
    relay = relay_app("http://referee.invalid", carrier=httpx.ASGITransport(referee))
    return [
        Target("curator", curator_app(corpus.curator), tuple(_curator(corpus))),
        Target("referee", referee, (*_referee(corpus), *_carried(corpus, GATEWAY))),
        Target("relay", relay, tuple(_carried(corpus, RELAY))),
        Target("witness", witness_app(folder / "witness", WITNESS), tuple(_witness(corpus))),
        Target("issuer", issuer_app(issuer, folder / "issuer"), tuple(_issuer(issuer, folder / "issuer"))),
        _collecting(Contributing(corpus, folder / "serving")),
    ]


def _asked(path: str, m: Mutator) -> Request:
    return Request("GET", path)


def _queried(path: str, token: str, m: Mutator) -> Request:
    return Request("GET", path, _query(m), token)


def _said(method: str, path: str, signed: Signed, signer: Identity, token: str, m: Mutator) -> Request:
    return Request(method, path, token=token, body=_changed(m, signed, signer))


def _packed(path: str, signed: Signed, body: bytes, signer: Identity | None, m: Mutator) -> Request:
    """Return packed answers of which the message is changed, which the signer signs again, or else the body."""
    changed = signed.raw() + b"\n" + m.raw(body) if signer is None else _changed(m, signed, signer) + b"\n" + body
    return Request("PUT", path, body=changed)


def _curator(corpus: Corpus) -> Iterator[Callable[[Mutator], Request]]:
    referee = corpus.referee.identity

    def announced(path: str, signed: Signed, m: Mutator) -> Request:
        body = _changed(m, signed, referee)
        announcement = identity.announce_body(referee, "PUT", path, body)
        return Request("PUT", path, body=body, headers=((identity.PROOF_HEADER, announcement),))

    for kind, tail in (("configuration", ""), ("perform", "/operations/{}"), ("acknowledgement", "/acknowledgement")):
        for signed in corpus.signed[kind][:5]:
            path = f"/v1/runs/{FINISHED}" + tail.format(signed.message.get("operation_id"))
            yield partial(announced, path, signed)
    for path in ("/v1/curator", "/v1/health", "/v1/metrics", f"/v1/runs/{FINISHED}"):
        yield partial(_asked, path)


def _referee(corpus: Corpus) -> Iterator[Callable[[Mutator], Request]]:
    people, agent = corpus.population.identity, corpus.agent
    enrolment, operator = f"{TOKEN}-enrolment", f"{TOKEN}-operator"
    simple = (("enrolment", "POST", "/v1/enrolments"), ("decline", "POST", "/v1/declines"))
    for kind, method, path in (*simple, ("proof-request", "POST", "/v1/proofs")):
        for signed in corpus.signed[kind]:
            signer = agent if signed.key == agent.public else people
            yield partial(_said, method, path, signed, signer, enrolment)
    # A poll that is answered with nothing is held for seconds: strangers' polls are not.
    poll = corpus.signed["poll"][0]
    yield lambda m: Request("POST", "/v1/polls", body=_changed(m, poll, Identity.create()))
    report = corpus.signed["report"][0]
    yield lambda m: Request("PUT", f"/v1/reports/{'0' * 32}", body=_changed(m, report, agent))
    yield lambda m: Request("POST", "/v1/report-batches", token=enrolment, body=b"[%b]" % _changed(m, report, agent))
    for signed, body in corpus.bodies:
        path = f"/v1/packed-reports/{signed.message['report_id']}"
        yield partial(_packed, path, signed, body, people)
        yield partial(_packed, path, signed, body, None)
    wanted = {"scenario": corpus.chosen.wire(), "seed": 1}
    yield lambda m: Request("PUT", f"/v1/runs/{FINISHED}", token=operator, body=m.written(wanted))
    for tail in ("", "/standing", "/configuration", "/checkpoints", "/transcript", "/reports/0", "/participants"):
        yield partial(_queried, f"/v1/runs/{FINISHED}{tail}", operator)
    for path in ("/v1/runs", "/v1/metrics", "/v1/referee"):
        yield partial(_queried, path, operator)


def _carried(corpus: Corpus, path: str) -> Iterator[Callable[[Mutator], Request]]:
    kind = (("content-type", REQUEST_TYPE),)

    def carried(sealed: Callable[[Mutator], tuple[bytes, Exchange]], m: Mutator) -> Request:
        body, exchange = sealed(m)

        def opened(raw: bytes) -> tuple[int, bytes]:
            inner = InnerResponse.decode(exchange.open(raw))
            return inner.status, inner.content

        if m.random.random() < 0.3:
            return Request("POST", path, body=m.raw(body), headers=kind)
        return Request("POST", path, body=body, headers=kind, opened=opened)

    for sealed in sealed_requests(corpus):
        yield partial(carried, sealed)
    for place in (path, SIGNED_KEYS):
        yield partial(_asked, place)


def _witness(corpus: Corpus) -> Iterator[Callable[[Mutator], Request]]:
    referee = corpus.referee.identity
    path = f"/v1/runs/{referee.public}/{FINISHED}"
    for signed in corpus.signed["checkpoint"][:3]:
        yield partial(_said, "PUT", path, signed, referee, WITNESS)
    yield lambda m: Request("GET", path, _query(m))
    head = corpus.signed["release"][0].message["ledger"]
    signer = Identity.create()
    signed = signer.sign("ledger-head", head)
    yield lambda m: Request("PUT", "/v1/heads/a", token=WITNESS, body=_changed(m, signed, signer))
    yield lambda m: Request("GET", "/v1/heads/a", token=WITNESS)


def _token(code: str, asked: bytes, m: Mutator) -> Request:
    return Request("POST", "/v1/token-requests", token=code, body=m.raw(asked))


def _issuer(issuer: Issuer, folder: Path) -> Iterator[Callable[[Mutator], Request]]:
    for code in (*InvitationCodes(folder).invite(3), "no code"):
        message = token_input("0" * 64, bytes(32), issuer.public.token_key_id)
        asked = token_request(issuer.public, blind(issuer.public.token_key, message).message)
        yield partial(_token, code, asked)
    yield partial(_asked, "/v1/issuer")


def _collecting(people: Contributing) -> Target:
    sent, gone, person = people.contribution, people.withdrawal, people.person
    requests = (
        partial(_said, "POST", "/v1/contributions", sent, person, CONTRIBUTION),
        partial(_said, "POST", "/v1/withdrawals", gone, person, CONTRIBUTION),
        lambda m: Request("POST", "/v1/contributions", body=_changed(m, sent, person)),
        lambda m: Request("GET", "/v1/contributions/offer", _query(m)),
    )
    return Target("curator that collects", collecting_app(people.collection), requests)


def _changed(mutator: Mutator, signed: Signed, signer: Identity) -> bytes:
    """Return a signed message that is changed: inside and signed again, in its envelope, or in its bytes."""
    way = mutator.random.random()
    if way < 0.05:
        return signed.raw()
    if way < 0.55:
        message = mutator.tree(signed.message)
        try:
            payload = canonical.encode(message)
        except (BadMessage, UnicodeEncodeError):
            return mutator.written(signed.wire())
        kind = signed.kind if mutator.random.random() < 0.95 else "poll"
        return signer.envelope(kind, payload)
    return mutator.written(signed.wire()) if way < 0.9 else mutator.raw(signed.raw())


def _query(mutator: Mutator) -> str:
    value = mutator.random.choice(
        ("0", "1", "-1", "", "x", "1e9", str(1 << 31), str(1 << 63), "9" * 5000, "%00", "%ff")
    )
    return f"{mutator.random.choice(('after', 'most', 'q'))}={value}"


async def ask(app: Service, request: Request) -> tuple[int, bytes]:
    """Send a request to a service in process; return the status and the body.

    Raises:
        Exception: Whatever the service lets through: a server would be left with it.
    """
    headers = [(b"host", b"x"), (b"content-length", str(len(request.body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in request.headers]
    if request.token:
        headers.append((b"authorization", f"Bearer {request.token}".encode("utf-8", "replace")))
    if request.method == "PUT" and request.path.startswith("/v1/runs/") and request.body[:1] == b"{":
        headers.append((b"content-type", b"application/json"))
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method, "scheme": "http",
        "path": request.path, "raw_path": request.path.encode("utf-8", "replace"), "root_path": "",
        "query_string": request.query.encode("utf-8", "replace"), "headers": headers, "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2), "state": {},
    }  # fmt: skip
    pending = [{"type": "http.request", "body": request.body, "more_body": False}]
    said: list[Any] = []

    async def receive() -> Any:
        return pending.pop() if pending else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        said.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in said[1:])
    return int(said[0]["status"]), body


async def _fuzz(target: Target, count: int, seed: int, until: float) -> tuple[Counts, list[Finding]]:
    mutator, counts, findings = Mutator(f"{seed} {target.name}"), Counts(), []
    for _ in range(count):
        if time.monotonic() > until:
            break
        request = _bent(mutator, mutator.random.choice(target.requests)(mutator))
        began = time.perf_counter()
        problem: str | None = None
        try:
            async with asyncio.timeout(HANGS):
                status, body = await ask(target.app, request)
            if status == 200 and request.opened is not None:
                status, body = request.opened(body)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            problem, status, body = f"let {error!r:.300} through", 0, b""
        took = time.perf_counter() - began
        counts.inputs += 1
        counts.seconds += took
        counts.slowest_ms = max(counts.slowest_ms, took * 1e3)
        if 0 < status < 400:
            counts.read += 1
        else:
            counts.refused[str(status)] += 1
        if status >= 500:
            problem = f"{status} {body[:300]!r}"
        elif status >= 400 and not _is_problem(body):
            problem = f"{status} without a problem document: {body[:300]!r}"
        elif took > SECONDS + (HOLD if request.path == "/v1/polls" else 0.0):  # a poll may be held that long
            problem = f"took {took:.1f} s"
        if problem is not None:
            where = f"{target.name}: {request.method} {request.path[:100]}?{request.query[:50]}"
            findings.append(Finding(where, problem, request.body[:2000].hex()))
    return counts, findings


def _is_problem(body: bytes) -> bool:
    try:
        return {"type", "title", "status", "detail"} <= set(json.loads(body))
    except (ValueError, TypeError):
        return False


def _bent(mutator: Mutator, request: Request) -> Request:
    """Change what is around a body, now and then: the path, the method, the token."""
    way = mutator.random.random()
    if way < 0.05:
        path = "/" + mutator.raw(request.path.encode()).decode("latin-1").replace("?", "").lstrip("/")[:3000]
        return replace(request, path=path, opened=None)
    if way < 0.07:
        method = mutator.random.choice(("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH", "OPTIONS", "X"))
        return replace(request, method=method, opened=None)
    if way < 0.1:
        token = mutator.random.choice(("", "x", "é", request.token + "x", "a" * 5000))
        return replace(request, token=token)
    return request


def fuzz_services(
    aims: list[Target], count: int, seed: int, seconds: float = float("inf")
) -> tuple[dict[str, Counts], list[Finding]]:
    """Send so many changed requests to all services together; return what became of them, and the findings."""
    found: dict[str, Counts] = {}
    findings: list[Finding] = []
    until = time.monotonic() + seconds

    async def every() -> None:
        for target, wanted in zip(aims, split(count, [1.0] * len(aims)), strict=True):
            counts, bad = await _fuzz(target, wanted, seed, until)
            found[f"service {target.name}"] = counts
            findings.extend(bad)

    asyncio.run(every())
    return found, findings


def statuses(found: dict[str, Counts]) -> Counter[str]:
    """Return how often each status was answered that is none of success."""
    return sum((counts.refused for counts in found.values()), Counter())
