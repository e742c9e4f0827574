"""Pages of other origins: those that are allowed read what an agent needs, errors too; for others nothing changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from typer.testing import CliRunner

from common.core.errors import BadInput
from common.core.version import HEADER
from common.crypto.identity import Identity
from common.net import messages
from common.net.oblivious.relay import relay_app
from common.net.origins import MAX_AGE, check_origin, origin_of
from issuer.cli import app as issuer
from issuer.issuer import issuer_app
from local_agent.cli import app as local_agent
from referee.cli import app as referee
from referee.service import agents_edge
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.common.net.test_connections import app as plain_app
from tests.common.net.test_connections import watch_slow_path
from tests.support import TOKEN, Bench, fetch, seal, served
from tests.tiers import for_each
from tests.vouched import an_issuer

PAGE, OTHER = "https://people.example", "https://elsewhere.example"
ZEROS = "0" * 32


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("origins")) as found:
        found.run()
        yield found


@pytest.fixture(scope="module")
def address(bench) -> Iterator[str]:
    with served(referee_app(bench.referee, Runner(bench.referee), origins=[PAGE])) as found:
        yield found


def asked(address: str, method: str, path: str, origin: str | None = PAGE, **parts) -> httpx.Response:
    headers = {**({} if origin is None else {"Origin": origin}), **parts.pop("headers", {})}
    return fetch(method, address + path, headers=headers, **parts)


def preflight(address: str, method: str, path: str, origin: str = PAGE, sent: str = "authorization") -> httpx.Response:
    headers = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": sent}
    return asked(address, "OPTIONS", path, origin, headers=headers)


def shared(reply: httpx.Response) -> list[str]:
    return [name for name in reply.headers if name.startswith("access-control")]


ASKED = [
    ("GET", "/v1/referee"),
    ("GET", "/v1/runs/run/configuration"),
    ("POST", "/v1/enrolments"),
    ("POST", "/v1/polls"),
    ("POST", "/v1/declines"),
    ("POST", "/v1/proofs"),
    ("PUT", f"/v1/reports/{ZEROS}"),
]
NOT_ASKED = [
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/run"),
    ("GET", "/v1/metrics"),
    ("PUT", "/v1/runs/other"),
    ("PUT", f"/v1/packed-reports/{ZEROS}"),
    ("POST", "/v1/report-batches"),
    ("GET", "/v1/health"),
]


@for_each(("method", "path"), ASKED)
def test_a_page_that_is_allowed_reads_every_answer_of_an_agents_requests(address, method, path):
    # An empty body is refused where one is wanted: problem documents can be read as well.
    reply = asked(address, method, path)
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert reply.headers["vary"] == "Origin"
    assert {"Retry-After", HEADER} <= set(reply.headers["access-control-expose-headers"].split(", "))
    assert "access-control-allow-credentials" not in reply.headers
    assert reply.status_code == 200 or reply.headers["content-type"] == "application/problem+json"
    allowed = preflight(address, method, path, sent=f"authorization, content-type, {HEADER.lower()}")
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
    assert allowed.headers["access-control-max-age"] == str(MAX_AGE)
    assert method in allowed.headers["access-control-allow-methods"]
    assert HEADER in allowed.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in allowed.headers


@for_each(("method", "path"), NOT_ASKED)
def test_what_operators_hosts_and_monitors_ask_is_for_no_page(address, method, path):
    token = {"Authorization": f"Bearer {TOKEN}"}
    assert shared(asked(address, method, path, headers=token)) == []
    assert shared(preflight(address, method, path)) == []


@for_each(("method", "path"), ASKED)
@for_each("origin", [OTHER, "null", "https://people.example:8443"])
def test_for_a_page_of_another_origin_nothing_changes(address, method, path, origin):
    found, without = asked(address, method, path, origin), asked(address, method, path, None)
    assert (found.status_code, found.content) == (without.status_code, without.content)
    assert set(found.headers) == set(without.headers)
    refused = preflight(address, method, path, origin)
    assert (refused.status_code, shared(refused)) == (405, [])


def test_a_page_enrols_and_polls_and_reads_when_to_come_again_and_what_was_refused(address, monkeypatch):
    monkeypatch.setattr(agents_edge, "HOLD", 0.05)
    somebody = Identity.create()
    enrolment = seal(somebody, messages.Enrolment(agents=1)).raw()
    poll = seal(somebody, messages.Poll(participant=somebody.public)).raw()
    token = {"Authorization": f"Bearer {TOKEN}"}
    older = asked(address, "POST", "/v1/enrolments", content=enrolment, headers={**token, HEADER: "2 tandem/0.3.0"})
    assert (older.status_code, older.json()["type"]) == (409, "urn:tandem:problem:version-skew")
    stranger = asked(address, "POST", "/v1/enrolments", content=enrolment)
    assert (stranger.status_code, stranger.json()["type"]) == (401, "urn:tandem:problem:unauthorized")
    enrolled = asked(address, "POST", "/v1/enrolments", content=enrolment, headers=token)
    assert enrolled.status_code == 200
    later = asked(address, "POST", "/v1/polls", content=poll)
    assert (later.status_code, "retry-after" in later.headers) == (204, True)
    long = asked(address, "POST", "/v1/enrolments", content=bytes(1 << 17), headers=token)
    assert long.status_code == 413
    for reply in (older, stranger, enrolled, later, long):
        assert reply.headers["access-control-allow-origin"] == PAGE


def test_only_requests_of_allowed_pages_leave_the_fast_path(address, monkeypatch):
    slow = watch_slow_path(monkeypatch)
    for origin in (None, OTHER):
        asked(address, "POST", "/v1/polls", origin)
    assert slow == []
    asked(address, "POST", "/v1/polls", PAGE)
    assert slow == ["http /v1/polls"]


def test_issuers_and_relays_let_pages_ask_the_same_way(tmp_path):
    with an_issuer(tmp_path) as party, served(issuer_app(party, tmp_path, [PAGE])) as issuing:
        for method, path in (("GET", "/v1/issuer"), ("POST", "/v1/token-requests")):
            assert asked(issuing, method, path).headers["access-control-allow-origin"] == PAGE
            assert preflight(issuing, method, path).headers["access-control-allow-origin"] == PAGE
            assert shared(asked(issuing, method, path, OTHER)) == []
        assert shared(asked(issuing, "GET", "/v1/health")) == []
    with served(relay_app("http://127.0.0.1:9", origins=[PAGE])) as relaying:
        for method, path in (("POST", "/v1/relay"), ("GET", "/v1/oblivious-keys")):
            assert asked(relaying, method, path).headers["access-control-allow-origin"] == PAGE
            assert preflight(relaying, method, path, sent="content-type").status_code == 200
            assert shared(preflight(relaying, method, path, OTHER)) == []


def test_a_service_that_allows_no_origin_shares_nothing(tmp_path):
    with served(plain_app()) as address:
        reply = asked(address, "PUT", "/echo/x")
        assert (reply.status_code, shared(reply)) == (200, [])


@for_each(
    "origin",
    [
        PAGE,
        "https://people.example:8443",
        "https://xn--bcher-kva.example",
        "https://[2001:db8::1]:444",
        "http://localhost",
        "http://localhost:5173",
        "http://127.0.0.1:8000",
        "http://[::1]:8080",
    ],
)
def test_an_origin_is_written_as_browsers_do(origin):
    assert check_origin(origin) == origin
    assert origin_of(f"{origin}/folder/page.html") == origin


ANOTHER = ("/", "/page", "?x=1", ":443")
WRONG = {
    "begins with http:// or https://": ("*", "null", "people.example", "file:///home/me"),
    "no address": ("https://", "https://people.example:0", "https://people.example:99999"),
    f"write '{PAGE}'": (*(PAGE + end for end in ANOTHER), "https://People.example", "https://me@people.example"),
    "write 'https://xn--bcher-kva.example'": ("https://bücher.example",),
    "write 'http://localhost'": ("http://localhost:80",),
    "name each one by itself": ("https://*.example",),
    "Serve the page with TLS": ("http://people.example", "http://192.0.2.1:8000"),
}


@for_each(("why", "origin"), [(why, origin) for why, origins in WRONG.items() for origin in origins])
def test_what_no_browser_sends_is_refused_with_what_to_write(why, origin):
    with pytest.raises(BadInput, match=re.escape(why)):
        check_origin(origin)


@for_each("page", ["https://[::1", "https://[x]/page", "people.example/page", "https://\u2100.example/"])
def test_what_is_no_address_of_a_page_has_no_origin(page):
    with pytest.raises(BadInput, match="address"):
        origin_of(page)


@for_each("command", [referee, issuer, local_agent], ids=["referee", "issuer", "relay"])
def test_an_origin_that_is_none_is_wrong_usage(tmp_path, command):
    name = {referee: ["serve"], issuer: ["serve", "--state", str(tmp_path)], local_agent: ["relay"]}[command]
    outcome = CliRunner().invoke(command, [*name, "--allow-origin", "http://people.example"])
    assert outcome.exit_code == 2
    assert "Serve the page with TLS" in " ".join(outcome.output.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []
