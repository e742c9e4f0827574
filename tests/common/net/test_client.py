"""The one place that retries: what it repeats, when it gives up, and that no answer of a stranger breaks it."""

import json
from collections.abc import Iterator
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
    """A database that was away for a moment ended the agent that enrolled then."""
    full = CannotWrite("no space left")
    client = talking(problem(full), problem(full), httpx.Response(200, json={"a": 1}), kind=RefereeClient)
    assert client.document("GET", "/x") == {"a": 1}
    client.close()
    for kind in (Client, RefereeClient):
        client = talking(problem(full), patience=0.02, kind=kind)
        with pytest.raises(CannotWrite, match="no space left"):
            client.request("GET", "/x")
        client.close()


@pytest.mark.parametrize("reply", [httpx.ConnectError("refused"), httpx.ReadTimeout(""), httpx.Response(503, json={})])
def test_it_gives_up_in_one_sentence(reply):
    client = talking(reply, patience=0.02)
    with pytest.raises(PeerUnavailable, match=r"cannot connect to http://peer .*is the service running there"):
        client.request("GET", "/x")
    client.close()


def test_errors_come_back_as_what_they_were():
    client = talking(problem(BudgetExceeded("no", spent=1.0)))
    with pytest.raises(BudgetExceeded) as caught:
        client.request("GET", "/x")
    assert caught.value.members == {"spent": 1.0}
    client.close()


@pytest.mark.parametrize(
    "reply",
    [
        httpx.Response(500, content=b"<html>"),
        httpx.Response(400, json=[1]),
        httpx.Response(404, content=b""),
        httpx.Response(302, headers={"location": "http://elsewhere"}),
        httpx.Response(418, content=b"\xff\xfe"),
    ],
)
def test_errors_without_a_document_are_the_peers_fault(reply):
    client = talking(reply)
    with pytest.raises(PeerMisbehaved, match="without a problem document"):
        client.request("GET", "/x")
    client.close()


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'{"kind": 1}', b"\xff", b"NaN"])
def test_replies_that_are_not_signed_messages(content):
    client = talking(httpx.Response(200, content=content))
    with pytest.raises(PeerMisbehaved, match="not a signed message"):
        client.signed("GET", "/x")
    client.close()


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"x", b"\xff"])
def test_replies_that_are_not_documents(content):
    client: Any = talking(httpx.Response(200, content=content), kind=RefereeClient)
    with pytest.raises(PeerMisbehaved, match="not a JSON object"):
        client.key()
    client.close()


def test_a_signed_reply_is_read():
    signed = Identity.create().sign("kind", {"a": 1})
    client = talking(httpx.Response(200, content=signed.model_dump_json()))
    assert client.signed("PUT", "/x", signed) == signed
    client.close()


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://x", "file:///etc/passwd"])
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


def test_an_unknown_run_is_said_so():
    client = talking(problem(NotFound("there is no run")))
    with pytest.raises(NotFound):
        client.request("GET", "/x")
    client.close()
