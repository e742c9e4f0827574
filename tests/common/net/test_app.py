"""What all services share: bodies within limits, one answer for all nonsense, readiness, and work in groups."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from common.core.errors import Busy, NotReady, Unauthorized, from_document
from common.core.plain import PlainFormatter
from common.crypto.identity import Identity
from common.net import batching, monitoring
from common.net import edge as module
from common.net.app import create_app
from common.net.batching import Grouped
from common.net.edge import LARGE, SMALL, TINY, Admitted, Call, Edge, Guarded, Opening, Reply, fault, problem
from common.net.monitoring import CHECK_PATIENCE, FRESH, MIN_FREE, Readiness, disk, require
from curator.app import curator_app
from tests.common.net.test_connections import answers
from tests.curator.given import full_disk
from tests.deploy.test_foreign_text import EVIL
from tests.support import TOKEN, Bench, fetch, served
from tests.tiers import for_each

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with Bench(tmp_path_factory.mktemp("service")) as bench:
        bench.run()
        referee = bench.app()
        with served(referee) as first, served(curator_app(bench.curator)) as second:
            yield {"referee": first, "curator": second, "key": bench.referee.identity.public}


def asked(addresses, method, path, content, party="referee") -> httpx.Response:
    return fetch(method, addresses[party] + path, content=content, headers=AUTHORIZED)


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
NONSENSE = {
    "nothing": b"",
    "no JSON": b"\x00\xff\xfe",
    "no object": b"[]",
    "a number": b"1e999",
    "not a number": b'{"kind":"poll","message":{"x":NaN},"key":"' + b"0" * 64 + b'","signature":"' + b"0" * 128 + b'"}',
    "very deep": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "rather deep": b'{"scenario":' + b"[" * 300 + b"]" * 300 + b"}",
    "a lone surrogate as a name": b'{"\\ud800": 1}',
    "a lone surrogate as a kind": b'{"kind":"\\ud800","message":{},"key":"","signature":""}',
    "a lone surrogate inside": b'{"scenario":{"\\udfff":"\\ud800"}}',
    "a name twice": b'{"kind":"a","kind":"b"}',
    "a long number": b"9" * 6000,
    "newlines": b"\n\n\n",
    "half an envelope": b'{"kind":"poll"',
}


@for_each("name", sorted(NONSENSE))
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
        reply = asked(addresses, "PUT", path, json.dumps(wire), "curator")
        assert reply.status_code == 422
        assert "levels deep" in reply.json()["detail"]


def test_bodies_declare_their_length(addresses):
    for header in ("Chunked", "chunked", "gzip, chunked", "identity"):
        head = f"POST /v1/polls HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {header}\r\nConnection: close\r\n\r\n"
        for party in ("referee", "curator"):
            found = answers(addresses[party], f"{head}0\r\n\r\n0\r\n\r\n".encode())
            assert found[0][0] in (b"400", b"413", b"501"), (party, header)


def test_a_bug_is_said_to_be_one_shows_nothing_and_is_written_by_one_log_in_which_it_forges_no_line(capfd, caplog):
    app = create_app("x", "y")

    @app.get("/bug")
    def bug() -> None:
        raise RuntimeError(f"the record of somebody {EVIL}")

    caplog.handler.setFormatter(PlainFormatter("%(name)s: %(message)s"))
    with served(app) as address:
        reply = fetch("GET", address + "/bug")
    assert (reply.status_code, reply.json()["detail"][:15]) == (500, "this is a fault")
    assert "record" not in reply.text
    captured = capfd.readouterr()
    assert captured.out + captured.err == "", "nothing but the log's own handler writes"
    assert "RuntimeError" in caplog.text
    assert all(line.isprintable() for line in caplog.text.splitlines())
    assert "\n# " not in caplog.text


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
    grouped: Grouped[bool] = Grouped(lambda items: [gate.wait(60) for _ in items], "slow")
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

    grouped: Grouped[str] = Grouped(work, "numbers", check)
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

    grouped: Grouped[str] = Grouped(fails("work"), "strings", fails("check"))
    gone = asyncio.ensure_future(grouped("gone"))
    await asyncio.sleep(0)
    gone.cancel()  # who gives up disturbs nobody
    with pytest.raises(OSError, match="disk full"):
        await grouped("bad")
    assert await asyncio.gather(*(grouped(f"later {n}") for n in range(3))) == [f"later {n}" for n in range(3)]


Parts = list[tuple[bytes, bool]]
Answered = tuple[int, bytes, bytes]


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the app is not asked")


async def echo(call: Call) -> Reply:
    return Reply(200, call.body)


async def known(opening: Opening) -> Admitted:
    if opening.token != "known":
        raise Unauthorized("who are you?")
    return Admitted(1 << 20)


async def short_one(opening: Opening) -> Admitted:
    return Admitted(int(opening.line), "" if opening.line != b"3" else hashlib.sha256(b"abc").hexdigest())


def edge() -> Edge:
    limits = {"/large": 1 << 20, "/tiny": TINY, "/token": Guarded(LARGE, known), "/line": Guarded(LARGE, short_one, 10)}
    return Edge(nobody, limits, {("PUT", path): echo for path in (*limits, "/echo")})


async def put(behind: Edge, parts: Parts, length: int | None = None, path: str = "/echo", token: str = "") -> Answered:
    """Send a body in parts, and then nothing more. Return status, body, and what is said of the connection."""
    rest, said = list(parts), list[MutableMapping[str, Any]]()
    declared = sum(len(part) for part, _ in parts) if length is None else length

    async def receive() -> MutableMapping[str, Any]:
        if not rest:
            await asyncio.Event().wait()
        body, more = rest.pop(0)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    headers = [(b"host", b"x"), (b"content-length", str(declared).encode())]
    headers.append((b"authorization", b"Bearer " + token.encode()))
    scope = {"type": "http", "http_version": "1.1", "method": "PUT", "path": path, "headers": headers}
    await behind(scope, receive, send)
    return said[0]["status"], said[1]["body"], dict(said[0]["headers"]).get(b"connection", b"")


def answered_in_parts(*parts: tuple[bytes, bool], behind: Edge | None = None, **more: Any) -> Answered:
    """Return what a body is answered with; what it held of memory is let go."""
    behind = behind or edge()
    found = asyncio.run(put(behind, list(parts), **more))
    assert set(behind.unfinished.values()) == {0}
    return found


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    for parts in ([], [(b"ab", True)]):
        behind = edge()
        status, body, connection = answered_in_parts(*parts, length=9, behind=behind)
        assert (status, connection, json.loads(body)["type"][-9:]) == (408, b"close", ":too-slow")
        assert answered_in_parts((b"abc", False), behind=behind)[0] == 200


def test_a_body_is_put_together_and_has_the_limit_of_its_resource():
    for path, most in (("/tiny", TINY), ("/echo", SMALL), ("/large", 1 << 20)):
        assert answered_in_parts((b"a", True), (b"", True), (b"bc", False), path=path) == (200, b"abc", b"")
        assert answered_in_parts((bytes(most), False), path=path)[0] == 200
        assert answered_in_parts(length=most + 1, path=path)[::2] == (413, b"close")


def test_large_bodies_together_have_a_limit(monkeypatch):
    monkeypatch.setattr(module, "UNFINISHED", {SMALL: 100, LARGE: 100})
    monkeypatch.setattr(module, "PATIENCE", 600.0)

    async def work() -> int:
        behind = edge()
        large = SMALL + 1
        slow = [asyncio.ensure_future(put(behind, [(bytes(50), True)], large, "/large")) for _ in range(2)]
        await asyncio.sleep(0)
        assert (await put(behind, [(bytes(TINY), False)]))[0] == 200  # a tiny one is never refused
        assert (await put(behind, [(bytes(100), False)], SMALL))[0] == 200  # nor are small ones by large ones
        status = (await put(behind, [(b"x", True)], large, "/large"))[0]
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert set(behind.unfinished.values()) == {0}
        return status

    assert asyncio.run(work()) == 503


@for_each(
    ("parts", "length", "status", "body"),
    [
        ([(b"4\n", True), (b"wxyz", False)], None, 200, b"wxyz"),
        ([(b"4\nwx", True), (b"yz", False)], None, 200, b"wxyz"),
        ([(b"3\nabc", False)], None, 200, b"abc"),
        ([(b"3\nabd", False)], None, 401, None),
        ([(b"4\n", True)], LARGE, 413, None),
        ([(b"0123456789", True), (b"0", True)], LARGE, 422, None),
        ([(b"4", False)], None, 422, None),
    ],
)
def test_nothing_is_read_before_somebody_has_said_that_it_may_come_by_its_first_line(parts, length, status, body):
    found = answered_in_parts(*parts, length=length, path="/line")
    assert (found[0], found[1] if status == 200 else None) == (status, body)


def test_nothing_is_read_before_somebody_has_said_that_it_may_come_by_a_token():
    assert answered_in_parts(length=LARGE, path="/token")[::2] == (401, b"close")
    assert answered_in_parts(length=2 << 20, path="/token", token="known")[0] == 413
    assert answered_in_parts((b"abc", False), path="/token", token="known")[:2] == (200, b"abc")


def test_no_descriptor_is_a_503_with_the_time_to_ask_again():
    for error in (OSError(24, "Too many open files"), OperationalError("INSERT", {}, Exception("full"))):
        reply = problem(fault("GET", "/lacking", error))
        assert (reply.status, dict(reply.headers)[b"retry-after"]) == (503, b"2")
        assert b"Too many" not in reply.body
    assert fault("GET", "/bug", KeyError("a record")).status == 500
