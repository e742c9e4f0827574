"""The one place that retries: what it repeats, when it gives up, and that no answer of a stranger breaks it."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from common.core.errors import (
    BadInput,
    BudgetExceeded,
    CannotWrite,
    NotFound,
    PeerMisbehaved,
    PeerUnavailable,
    TandemError,
)
from common.crypto.identity import Identity
from common.net.client import Client
from deploy.remote import Remote
from local_agent.client import RefereeClient
from referee.service.referee import CuratorClient
from tests.support import tiny
from tests.tiers import for_each


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.net.client.PAUSES", (0.001,))


def talking(*replies: httpx.Response | Exception, kind: type[Client] = Client, patience: float = 5.0) -> Client:
    """Return a client whose peer gives these replies, the last for ever."""
    queue: Iterator[httpx.Response | Exception] = iter(replies)
    last = [replies[-1]]

    def handle(request: httpx.Request) -> httpx.Response:
        reply = next(queue, last[0])
        if isinstance(reply, Exception):
            raise reply
        return reply

    return kind("http://peer", patience=patience, transport=httpx.MockTransport(handle))


def problem(error: TandemError) -> httpx.Response:
    return httpx.Response(error.status, json=error.document())


def request(client: Client) -> Any:
    return client.request("GET", "/x")


def signed(client: Client) -> Any:
    return client.signed("GET", "/x")


def key(client: Any) -> Any:
    return client.key()


CONNECT, UNREADABLE = httpx.ConnectError("refused"), "without a problem document"
GONE = r"cannot connect to http://peer .*is the service running there"
FAULTS: list[tuple[Any, Callable[[Client], Any], type[Exception], str]] = [
    *((reply, request, PeerUnavailable, GONE) for reply in (CONNECT, httpx.ReadTimeout(""), (503, b"{}"))),
    *((reply, request, PeerMisbehaved, UNREADABLE) for reply in ((500, b"<html>"), (400, b"[1]"), (404, b""))),
    *((reply, request, PeerMisbehaved, UNREADABLE) for reply in ((302, b""), (418, b"\xff\xfe"))),
    *(
        ((200, content), signed, PeerMisbehaved, "not a signed message")
        for content in (b"", b"{}", b"[]", b"null", b'{"kind": 1}', b"\xff", b"NaN")
    ),
    *(((200, content), key, PeerMisbehaved, "not a JSON object") for content in (b"", b"[]", b"null", b"x", b"\xff")),
    (problem(NotFound("there is no run")), request, NotFound, "there is no run"),
]


@for_each(("reply", "call", "error", "why"), FAULTS, ids=range(len(FAULTS)))
def test_what_is_no_answer_is_an_error_in_one_sentence(reply, call, error, why):
    reply = httpx.Response(reply[0], content=reply[1]) if isinstance(reply, tuple) else reply
    with closing(talking(reply, patience=0.02, kind=RefereeClient if call is key else Client)) as client:
        with pytest.raises(error, match=why) as caught:
            call(client)
        assert "\n" not in str(caught.value)


def test_it_repeats_until_it_is_answered():
    away = httpx.ConnectError("refused")
    busy = httpx.Response(503, json={})
    running = httpx.Response(202, json={"status": "running"})
    client = talking(away, busy, running, running, away, httpx.Response(200, json={"a": 1}), kind=CuratorClient)
    assert client.document("GET", "/x") == {"a": 1}
    client.close()
    client = talking(running)
    with pytest.raises(PeerMisbehaved, match=r"answers GET /x that it is still at work \(202\), which takes no time"):
        client.request("GET", "/x")
    client.close()


def test_agents_wait_for_a_referee_that_cannot_store_anything_and_others_are_told_of_it():
    full = CannotWrite("no space left")
    client = talking(problem(full), problem(full), httpx.Response(200, json={"a": 1}), kind=RefereeClient)
    assert client.document("GET", "/x") == {"a": 1}
    client.close()
    for kind in (Client, RefereeClient):
        client = talking(problem(full), patience=0.02, kind=kind)
        with pytest.raises(CannotWrite, match="no space left"):
            client.request("GET", "/x")
        client.close()


def test_errors_come_back_as_what_they_were():
    with closing(talking(problem(BudgetExceeded("no", spent=1.0)))) as client:
        with pytest.raises(BudgetExceeded) as caught:
            client.request("GET", "/x")
        assert caught.value.members == {"spent": 1.0}


def test_a_signed_reply_is_read():
    signed = Identity.create().sign("kind", {"a": 1})
    with closing(talking(httpx.Response(200, content=signed.model_dump_json()))) as client:
        assert client.signed("PUT", "/x", signed) == signed


@for_each("url", ["", "localhost:8000", "ftp://x", "file:///etc/passwd"])
def test_an_address_is_a_web_address(url):
    with pytest.raises(BadInput, match="http://"):
        Client(url)


def remote_of(monkeypatch: pytest.MonkeyPatch, *replies: httpx.Response) -> Remote:
    monkeypatch.setattr("deploy.remote.RefereeAt", lambda url, patience: talking(*replies))
    return Remote("http://peer", "token")


@pytest.mark.parametrize("state", [{}, {"progress": 1}, {"progress": [{}]}, {"progress": [], "other": None}])
def test_a_referee_that_says_nonsense_of_a_run_is_caught(state, monkeypatch):
    remote = remote_of(monkeypatch, httpx.Response(200, content=json.dumps(state)))
    with pytest.raises(PeerMisbehaved, match="not the state of a run"):
        remote.run(tiny(), 1, "run", lambda text, numbers: None)
    remote.close()


def test_a_transcript_that_cannot_be_read_is_the_referees_fault(monkeypatch):
    state = httpx.Response(200, json={"progress": [], "result": {"status": "done"}})
    remote = remote_of(monkeypatch, state, state, httpx.Response(200, content=b"nonsense"))
    with pytest.raises(PeerMisbehaved, match="transcript cannot be read"):
        remote.run(tiny(), 1, "run", lambda text, numbers: None)
    remote.close()
