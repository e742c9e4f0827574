"""What all services share: one kind of answer for all nonsense, readiness, and work that is done in groups."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from common.core.errors import Busy, NotReady, from_document
from common.crypto.identity import Identity
from common.net import batching, monitoring
from common.net.app import create_app
from common.net.batching import Grouped
from common.net.edge import LARGE
from common.net.monitoring import CHECK_PATIENCE, FRESH, MIN_FREE, Readiness, disk, require
from curator.app import curator_app
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.common.net.test_connections import answers
from tests.curator.requests import full_disk
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


ZEROS = "0" * 32
ASKS = {
    f"/v1/{name}": (method, kind)
    for name, method, kind in (
        ("enrolments", "POST", "enrolment"),
        ("polls", "POST", "poll"),
        (f"reports/{ZEROS}", "PUT", "report"),
        (f"packed-reports/{ZEROS}", "PUT", "packed-report"),
    )
}
TARGETS = [
    *(("referee", method, path) for path, (method, _) in ASKS.items()),
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


REPORT = {"report_id": ZEROS, "run": "run", "digest": 2 * ZEROS, "question": 1, "answer": 1}
HUGE = [
    {},
    {**REPORT, "question": 1 << 52},
    {**REPORT, "answer": 1e308},
    {**REPORT, "people": 1 << 52, "assignment": 2 * ZEROS, "body_sha256": 2 * ZEROS},
    {**REPORT, "run": "r\x00n"},
    {"agents": 1 << 52},
    {"agents": -1},
    {"participant": 2 * ZEROS},
    {"participant": {"deep": [[[[]]]]}},
    {"report_id": ZEROS, "extra": [[[[[[[]]]]]]]},
]


@for_each("message", HUGE, ids=range(len(HUGE)))
@for_each("path", sorted(ASKS))
def test_well_signed_nonsense_is_refused_too(addresses, path, message):
    method, kind = ASKS[path]
    content = Identity.create().sign(kind, message).raw() + (b"\n\x00" if kind == "packed-report" else b"")
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


def test_places_that_do_not_exist(addresses):
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("DELETE", "/v1/health", 405),
        ("GET", "/v1/runs/" + "x" * 65, 422),
        ("GET", "/v1/runs/%2e%2e", 422),
    ):
        assert asked(addresses, method, path, b"").status_code == status, path
        assert asked(addresses, method, path, b"", "curator").status_code in (status, 404, 405), path


@for_each("header", ["Chunked", "chunked", "gzip, chunked", "identity"])
@for_each("party", ["referee", "curator"])
def test_bodies_declare_their_length(addresses, party, header):
    head = f"POST /v1/polls HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {header}\r\nConnection: close\r\n\r\n"
    assert answers(addresses[party], f"{head}0\r\n\r\n0\r\n\r\n".encode())[0][0] in (b"400", b"413", b"501")


def test_bodies_have_a_limit(addresses):
    head = f"PUT /v1/packed-reports/x HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE + 1}\r\n\r\n"
    ((status, _, body),) = answers(addresses["referee"], head.encode())
    assert status == b"413"
    assert b"must declare its length" in body


def test_a_bug_is_said_to_be_one_and_shows_nothing(caplog):
    app = create_app("x", "y")

    @app.get("/bug")
    def bug() -> None:
        raise RuntimeError("the record of somebody")

    with served(app) as address:
        reply = httpx.get(address + "/bug", trust_env=False, timeout=60)
    assert (reply.status_code, reply.json()["detail"][:15]) == (500, "this is a fault")
    assert "record" not in reply.text


@for_each(("method", "path"), [("PUT", "/v1/runs/new"), ("GET", "/v1/runs/run/reports/1"), ("POST", "/v1/enrolments")])
def test_what_needs_a_token_needs_the_right_one(addresses, method, path):
    enrolment = Identity.create().sign("enrolment", {"agents": 1}).model_dump_json()
    body = enrolment if "enrol" in path else '{"scenario": {}}'
    for said in (None, "Bearer wrong", "Basic eDp5", f"bearer {TOKEN}x", f"Bearer {TOKEN.upper()}", TOKEN):
        headers = {"Content-Type": "application/json", **({"Authorization": said} if said else {})}
        assert asked(addresses, method, path, body, headers=headers).status_code == 401, said


def test_checks_are_made_at_most_once_a_second():
    made: list[float] = []
    now = [100.0]
    ready = Readiness({"one": lambda: made.append(now[0])}, lambda: now[0])
    assert ready.known() is None
    assert ready.check() == ready.known() == ready.check() == {}
    assert made == [100.0]
    now[0] += FRESH
    assert ready.known() is None
    ready.check()
    assert made == [100.0, 100.0 + FRESH]


def test_what_a_check_raises_is_not_told():
    wrong = Readiness(
        {"one": lambda: Path("/private/path").read_text(), "two": lambda: "is gone", "three": lambda: None}
    ).check()
    with pytest.raises(NotReady) as refused:
        require(wrong)
    assert refused.value.detail == "one: cannot be used; two: is gone; the service's log says more"
    assert refused.value.members == {"not_ready": "one, two"}


def test_a_check_that_hangs_counts_as_failed_for_whoever_asks_meanwhile():
    now, began, end = [100.0], threading.Event(), threading.Event()

    def hangs() -> str | None:
        began.set()
        end.wait(60)
        return None

    ready = Readiness({"one": hangs}, lambda: now[0])
    first = threading.Thread(target=ready.check)
    first.start()
    assert began.wait(60)
    now[0] += CHECK_PATIENCE + 0.1
    assert ready.known() == {"checks": "have not ended for 3 seconds"}
    end.set()
    first.join(30)
    assert ready.known() == {}


def test_a_full_disk_and_a_missing_one_are_said(tmp_path, monkeypatch):
    assert disk(tmp_path) is None
    with full_disk():
        assert disk(tmp_path) in ("cannot be written", "is full")
    assert list(tmp_path.iterdir()) == []
    assert disk(tmp_path / "gone") == "cannot be written"
    monkeypatch.setattr(monitoring, "free_bytes", lambda folder: MIN_FREE - 1)
    assert disk(tmp_path) == "less than 64 MiB are free"


def test_alive_without_being_ready():
    app = create_app("a", "b", checks={"one": lambda: "is gone"})
    with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        alive, reply = client.get("/v1/health"), client.get("/v1/ready")
    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})
    assert (reply.status_code, reply.headers["content-type"]) == (503, "application/problem+json")
    assert reply.json()["not_ready"] == "one"


@pytest.mark.asyncio
async def test_everybody_gets_their_own_outcome_and_what_waits_is_one_group():
    sizes: list[int] = []
    gate = threading.Event()

    def work(items):
        sizes.append(len(items))
        gate.wait(60)
        return [item * item for item in items]

    grouped = Grouped(work, "squares")
    first = asyncio.ensure_future(grouped(1))
    await asyncio.sleep(0)
    rest = [asyncio.ensure_future(grouped(n)) for n in range(2, 1000)]
    await asyncio.sleep(0)
    gate.set()
    assert [await first, *await asyncio.gather(*rest)] == [n * n for n in range(1, 1000)]
    assert sizes == [1, batching.MOST, 998 - batching.MOST]


@pytest.mark.asyncio
async def test_too_many_are_told_to_come_again(monkeypatch):
    monkeypatch.setattr(batching, "WAITING", 3)
    gate = threading.Event()
    grouped: Grouped[int, bool] = Grouped(lambda items: [gate.wait(60) for _ in items], "slow")
    asked = [asyncio.ensure_future(grouped(n)) for n in range(10)]
    await asyncio.sleep(0)
    gate.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(outcome, Busy) for outcome in found) == 6


@pytest.mark.asyncio
async def test_a_group_is_checked_while_the_one_before_is_worked_on():
    """The second group's check ends the first one's work: one after the other would wait for ever."""
    checked = threading.Event()

    def check(items):
        if 1 not in items:
            checked.set()
        return [str(item) for item in items]

    def work(items):
        if "1" in items:
            assert checked.wait(60)
        return [item + "!" for item in items]

    grouped: Grouped[int, str] = Grouped(work, "numbers", check)
    first = asyncio.ensure_future(grouped(1))
    await asyncio.sleep(0)
    rest = [asyncio.ensure_future(grouped(n)) for n in range(2, 50)]
    assert [await first, *await asyncio.gather(*rest)] == [f"{n}!" for n in range(1, 50)]


@pytest.mark.parametrize("where", ["check", "work"])
@pytest.mark.asyncio
async def test_what_a_stage_raises_its_group_gets(where):
    def fails(stage):
        def run(items):
            if stage == where and "bad" in items:
                raise OSError("disk full")
            return items

        return run

    grouped: Grouped[str, str] = Grouped(fails("work"), "strings", fails("check"))
    gone = asyncio.ensure_future(grouped("gone"))
    await asyncio.sleep(0)
    gone.cancel()  # who gives up disturbs nobody
    with pytest.raises(OSError, match="disk full"):
        await grouped("bad")
    assert await asyncio.gather(*(grouped(f"later {n}") for n in range(3))) == [f"later {n}" for n in range(3)]
