"""The one place that retries: what it repeats, when it gives up, and that no answer of a stranger breaks it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from common.core.errors import (
    BudgetExceeded,
    CannotWrite,
    NotFound,
    PeerMisbehaved,
    PeerUnavailable,
    TandemError,
)
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


CONNECT, UNREADABLE = httpx.ConnectError("refused"), "without a problem document"
GONE = r"cannot connect to http://peer .*is the service running there"
NO_SIGNED = b"", b"{}", b"[]", b"null", b'{"kind": 1}', b"\xff", b"NaN"
FAULTS: list[tuple[Any, Callable[[Any], Any], type[Exception], str]] = [
    *((reply, request, PeerUnavailable, GONE) for reply in (CONNECT, httpx.ReadTimeout(""), (503, b"{}"))),
    *((reply, request, PeerMisbehaved, UNREADABLE) for reply in ((500, b"<html>"), (400, b"[1]"), (404, b""))),
    *((reply, request, PeerMisbehaved, UNREADABLE) for reply in ((302, b""), (418, b"\xff\xfe"))),
    *(((200, text), lambda c: c.signed("GET", "/x"), PeerMisbehaved, "not a signed message") for text in NO_SIGNED),
    *(((200, text), RefereeClient.key, PeerMisbehaved, "not a JSON object") for text in (b"", b"[]", b"null", b"\xff")),
    (problem(NotFound("there is no run")), request, NotFound, "there is no run"),
]


@for_each(("reply", "call", "error", "why"), FAULTS, ids=range(len(FAULTS)))
def test_what_is_no_answer_is_an_error_in_one_sentence(reply, call, error, why):
    reply = httpx.Response(reply[0], content=reply[1]) if isinstance(reply, tuple) else reply
    kind = RefereeClient if call is RefereeClient.key else Client
    with closing(talking(reply, patience=0.02, kind=kind)) as client, pytest.raises(error, match=why) as caught:
        call(client)
    assert "\n" not in str(caught.value)


AWAY, RUNNING = httpx.ConnectError("refused"), httpx.Response(202, json={"status": "running"})
BUSY, DONE = httpx.Response(503, json={}), httpx.Response(200, json={"a": 1})
FULL = problem(CannotWrite("no space left"))


def test_it_repeats_until_it_is_answered_and_agents_wait_where_nothing_can_be_stored():
    """Others are told of it, and nobody waits for who may not be at work."""
    kind: type[Client]
    for kind, replies in (
        (CuratorClient, (AWAY, BUSY, RUNNING, RUNNING, AWAY, DONE)),
        (RefereeClient, (FULL, FULL, DONE)),
    ):
        with closing(talking(*replies, kind=kind)) as client:
            assert client.document("GET", "/x") == {"a": 1}
    for kind, reply, error, why in (
        (Client, RUNNING, PeerMisbehaved, r"answers GET /x that it is still at work \(202\), which takes no time"),
        (Client, FULL, CannotWrite, "no space left"),
        (RefereeClient, FULL, CannotWrite, "no space left"),
    ):
        with closing(talking(reply, patience=0.02, kind=kind)) as client, pytest.raises(error, match=why):
            client.request("GET", "/x")


def test_errors_come_back_as_what_they_were():
    with closing(talking(problem(BudgetExceeded("no", spent=1.0)))) as client:
        with pytest.raises(BudgetExceeded) as caught:
            client.request("GET", "/x")
        assert caught.value.members == {"spent": 1.0}


NO_STATES = "{}", '{"progress": 1}', '{"progress": [{}]}', '{"progress": [], "other": null}'
DOES_NOT_READ = [
    *((state, "not the state of a run") for state in NO_STATES),
    ('{"progress": [], "result": {"status": "done"}}', "transcript cannot be read"),
]


@for_each(("state", "why"), DOES_NOT_READ)
def test_a_referee_that_says_nonsense_of_a_run_is_caught(state, why, monkeypatch):
    told = httpx.Response(200, content=state)
    replies = (told, told, httpx.Response(200, content=b"nonsense" if "result" in state else state))
    monkeypatch.setattr("deploy.remote.RefereeAt", lambda url, patience: talking(*replies))
    with closing(Remote("http://peer", "token")) as remote, pytest.raises(PeerMisbehaved, match=why):
        remote.run(tiny(), 1, "run", lambda text, numbers: None)
