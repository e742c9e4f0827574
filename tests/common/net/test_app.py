"""The manners of every service: one kind of answer for every kind of nonsense, and never a fault of the service."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from common.core.errors import from_document
from common.crypto.identity import Identity
from common.net.app import create_app
from common.net.edge import LARGE
from curator.app import curator_app
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, served
from tests.tiers import for_each, thinned

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with Bench(tmp_path_factory.mktemp("service")) as bench:
        bench.referee.allow("operator", TOKEN)
        bench.run()
        referee = referee_app(bench.referee, Runner(bench.referee))
        with served(referee) as first, served(curator_app(bench.curator)) as second:
            yield {"referee": first, "curator": second, "key": bench.referee.identity.public}


def asked(addresses, method, path, content, party="referee", headers=AUTHORIZED) -> httpx.Response:
    url = addresses[party] + path
    return httpx.request(method, url, content=content, headers=headers, trust_env=False, timeout=60)


TARGETS = [
    ("referee", "POST", "/v1/enrolments"),
    ("referee", "POST", "/v1/polls"),
    ("referee", "PUT", "/v1/reports/" + "0" * 32),
    ("referee", "PUT", "/v1/packed-reports/" + "0" * 32),
    ("referee", "PUT", "/v1/runs/new"),
    ("curator", "PUT", "/v1/runs/run"),
    ("curator", "PUT", "/v1/runs/run/operations/0"),
]
DEEP = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
DEEPISH = b'{"scenario":' + b"[" * 300 + b"]" * 300 + b"}"
NONSENSE = {
    "nothing": b"",
    "no JSON": b"\x00\xff\xfe",
    "no object": b"[]",
    "a number": b"1e999",
    "not a number": b'{"kind":"poll","message":{"x":NaN},"key":"' + b"0" * 64 + b'","signature":"' + b"0" * 128 + b'"}',
    "very deep": DEEP,
    "rather deep": DEEPISH,
    "a lone surrogate as a name": b'{"\\ud800": 1}',
    "a lone surrogate as a kind": b'{"kind":"\\ud800","message":{},"key":"","signature":""}',
    "a lone surrogate inside": b'{"scenario":{"\\udfff":"\\ud800"}}',
    "a name twice": b'{"kind":"a","kind":"b"}',
    "a long number": b"9" * 6000,
    "newlines": b"\n\n\n",
    "half an envelope": b'{"kind":"poll"',
}


@for_each("name", thinned(sorted(NONSENSE), 5))
@for_each(("party", "method", "path"), TARGETS)
def test_nonsense_is_a_problem_document_and_no_fault(addresses, party, method, path, name):
    reply = asked(addresses, method, path, NONSENSE[name], party)
    assert 400 <= reply.status_code < 500
    assert reply.headers["content-type"] == "application/problem+json"
    error = from_document(reply.json())
    assert len(error.detail) < 1000


KINDS = {
    "/v1/enrolments": ("POST", "enrolment"),
    "/v1/polls": ("POST", "poll"),
    "/v1/reports/" + "0" * 32: ("PUT", "report"),
    "/v1/packed-reports/" + "0" * 32: ("PUT", "packed-report"),
}
HUGE = [
    {},
    {"report_id": "0" * 32, "run": "run", "digest": "0" * 64, "question": 1 << 52, "answer": 1},
    {"report_id": "0" * 32, "run": "run", "digest": "0" * 64, "question": 1, "answer": 1e308},
    {"report_id": "0" * 32, "run": "run", "digest": "0" * 64, "question": 1, "people": 1 << 52, "assignment": "0" * 64}
    | {"body_sha256": "0" * 64},
    {"report_id": "0" * 32, "run": "r\x00n", "digest": "0" * 64, "question": 1, "answer": 1},
    {"agents": 1 << 52},
    {"agents": -1},
    {"participant": "0" * 64},
    {"participant": {"deep": [[[[]]]]}},
    {"report_id": "0" * 32, "extra": [[[[[[[]]]]]]]},
]


@for_each("message", HUGE, ids=range(len(HUGE)))
@for_each("path", sorted(KINDS))
def test_well_signed_nonsense_is_refused_too(addresses, path, message):
    method, kind = KINDS[path]
    signed = Identity.create().sign(kind, message)
    content = signed.model_dump_json().encode() + (b"\n\x00" if kind == "packed-report" else b"")
    assert 400 <= asked(addresses, method, path, content).status_code < 500


def test_deep_messages_that_are_well_signed_are_refused(addresses):
    nested = json.loads("[" * 400 + "]" * 400)
    for kind, path in (("perform", "/v1/runs/run/operations/0"), ("configuration", "/v1/runs/run")):
        signed = Identity.create().sign(kind, {"run": "run", "operation_id": "0", "operation": {}, "x": 1})
        wire = json.loads(signed.model_dump_json())
        wire["message"]["x"] = nested
        reply = httpx.put(addresses["curator"] + path, content=json.dumps(wire), trust_env=False, timeout=60)
        assert reply.status_code == 422
        assert "levels deep" in reply.json()["detail"]


@for_each("party", ["referee", "curator"])
@for_each(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("DELETE", "/v1/health", 405),
        ("GET", "/v1/runs/" + "x" * 65, 422),
        ("GET", "/v1/runs/%2e%2e", 422),
        ("GET", "/v1/health", 200),
    ],
)
def test_places_that_do_not_exist(addresses, party, method, path, status):
    reply = asked(addresses, method, path, b"", party)
    assert reply.status_code in ((status,) if party == "referee" else (status, 404, 405))


def answered(address: str, request: str) -> tuple[bytes, bytes]:
    """Return the status and the rest of what a raw request is answered with."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=600) as connection:
        connection.sendall(request.encode())
        with connection.makefile("rb") as reply:
            return reply.readline().split()[1], reply.read()


@for_each("header", ["Chunked", "chunked", "gzip, chunked", "identity"])
@for_each("party", ["referee", "curator"])
def test_bodies_declare_their_length(addresses, party, header):
    head = f"POST /v1/polls HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {header}\r\nConnection: close\r\n\r\n"
    assert answered(addresses[party], head + "0\r\n\r\n0\r\n\r\n")[0] in (b"400", b"413", b"501")


def test_bodies_have_a_limit(addresses):
    head = f"PUT /v1/packed-reports/x HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE + 1}\r\nConnection: close\r\n\r\n"
    status, body = answered(addresses["referee"], head)
    assert status == b"413"
    assert b"must declare its length" in body


def test_a_bug_is_said_to_be_one_and_shows_nothing(caplog):
    app = create_app("x", "y")

    @app.get("/bug")
    def bug() -> None:
        raise RuntimeError("the record of somebody")

    with served(app) as address:
        reply = httpx.get(address + "/bug", trust_env=False, timeout=60)
    assert reply.status_code == 500
    assert "record" not in reply.text
    assert reply.json()["detail"].startswith("this is a fault")


@for_each(("method", "path"), [("PUT", "/v1/runs/new"), ("GET", "/v1/runs/run/reports/1"), ("POST", "/v1/enrolments")])
def test_what_needs_a_token_needs_the_right_one(addresses, method, path):
    enrolment = Identity.create().sign("enrolment", {"agents": 1}).model_dump_json()
    body = enrolment if "enrol" in path else '{"scenario": {}}'
    for said in (None, "Bearer wrong", "Basic eDp5", f"bearer {TOKEN}x", f"Bearer {TOKEN.upper()}", TOKEN):
        headers = {"Content-Type": "application/json", **({"Authorization": said} if said else {})}
        assert asked(addresses, method, path, body, headers=headers).status_code == 401, said
