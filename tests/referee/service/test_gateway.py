"""The referee's gateway and a relay before it: what passes, what does not, and what each of the two is shown."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from common.core.errors import BadMessage, Forged, NotFound, RelayUntrusted, Unauthorized
from common.crypto.identity import PROOF_HEADER, Identity, Signed, announce_body
from common.net import messages
from common.net.app import Service
from common.net.edge import LARGE
from common.net.oblivious.binary_http import InnerRequest, InnerResponse
from common.net.oblivious.client import ThroughRelay
from common.net.oblivious.encapsulation import (
    GATEWAY,
    KEY_PROBLEM,
    KEYS_TYPE,
    RELAY,
    REQUEST_BYTES,
    REQUEST_TYPE,
    RESPONSE_BYTES,
    RESPONSE_TYPE,
    SIGNED_KEYS,
    GatewayKey,
    KeyConfiguration,
    decode_list,
    encapsulate,
    verified_keys,
)
from common.net.oblivious.relay import relay_app
from curator.app import curator_app
from local_agent.client import RelayedClient
from referee.service import agents_edge
from referee.service.referee import CuratorClient
from tests import relayed
from tests.relayed import NOWHERE, InProcess, Recording, relay_before
from tests.support import TOKEN, Bench, asking, seal, served, tiny
from tests.tiers import for_each
from tests.vouched import enrolment


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("gateway")) as parties:
        parties.run()
        yield parties


@pytest.fixture
def app(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setattr(agents_edge, "HOLD", 0.01)
    return bench.app()


@pytest.fixture
def through(bench: Bench) -> Iterator[Callable[[Service], RelayedClient]]:
    with ExitStack() as opened:

        def asks(relay: Service) -> RelayedClient:
            way = InProcess(relay)
            return opened.enter_context(closing(RelayedClient(NOWHERE, bench.referee.identity.public, carrier=way)))

        yield asks


class Direct:
    """Dials the gateway itself, as a relay does."""

    def __init__(self, app: FastAPI) -> None:
        self.http = httpx.Client(base_url="http://referee.invalid", transport=InProcess(app))
        self.keys = self.http.get(SIGNED_KEYS)
        self.configuration = verified_keys(Signed.model_validate_json(self.keys.content), self.keys.json()["key"])

    def post(self, body: bytes, kind: str = REQUEST_TYPE) -> httpx.Response:
        return self.http.post(GATEWAY, content=body, headers={"Content-Type": kind})

    def ask(self, raw: bytes) -> InnerResponse:
        sent, exchange = encapsulate(self.configuration, raw)
        response = self.post(sent)
        assert (response.status_code, response.headers["content-type"]) == (200, RESPONSE_TYPE)
        assert len(response.content) % RESPONSE_BYTES == 0
        return InnerResponse.decode(exchange.open(response.content))


@pytest.fixture
def direct(bench: Bench) -> Iterator[Direct]:
    found = Direct(bench.app())
    with closing(found.http):
        yield found


def poll(who: Identity) -> Signed:
    return seal(who, messages.Poll(participant=who.public))


def test_keys_stand_at_the_well_known_place_and_are_the_signed_ones(direct):
    found = direct.http.get(GATEWAY)
    assert (found.headers["content-type"], decode_list(found.content)) == (KEYS_TYPE, [direct.configuration])
    with pytest.raises(Forged):
        verified_keys(Signed.model_validate_json(direct.keys.content), Identity.create().public)


def test_all_that_an_individual_asks_passes_the_relay(bench, app, through):
    agent, person = through(relay_before(app)), Identity.create()
    assert agent.key() == bench.referee.identity.public
    enrolled = agent.enrol(enrolment(person), TOKEN)
    assert enrolled.message["participant"] == person.public
    assert agent.enrol(enrolment(person), TOKEN).message == enrolled.message  # the same again is the same
    assert agent.poll(poll(person)) is None
    assert agent.configuration("run") == bench.referee.configuration("run")
    with pytest.raises(Unauthorized, match="the referee behind the relay at"):
        agent.enrol(enrolment(Identity.create()), "another-token")
    with pytest.raises(NotFound):
        agent.configuration("none")
    with pytest.raises(BadMessage, match="at most"):  # what is too long for a relay is not sent
        agent.request("POST", "/v1/polls", content=bytes(REQUEST_BYTES))


OUTSIDE = [
    *(("GET", f"/v1/runs{path}") for path in ("", "/run", "/run/standing", "/run/transcript", "/run/checkpoints")),
    *(("GET", f"/v1/{path}") for path in ("runs/run/reports/1", "runs/run/participants", "metrics", "health")),
    *(("PUT", f"/v1/{path}") for path in ("runs/another", "runs/run/cancellation", "packed-reports/" + "0" * 32)),
    *(("POST", path) for path in ("/v1/report-batches", GATEWAY, "/v1/referee")),
    *(("GET", f"/v1/runs/{path}") for path in ("../runs/run/configuration", "run/configuration?x=/transcript")),
    *(("GET", path) for path in ("/openapi.json", "/v1/referee/", "http://elsewhere.invalid/v1/referee")),
    ("CONNECT", "/v1/referee"),
]


def test_nothing_but_what_individuals_ask_is_behind_the_gateway(direct):
    """With the operator's token, which would open all of it to who asks directly."""
    token = ((b"authorization", f"Bearer {TOKEN}".encode()),)
    for method, path in OUTSIDE:
        found = direct.ask(InnerRequest(method.encode(), path.encode(), token).encode())
        assert (found.status, dict(found.fields)[b"content-type"]) == (404, b"application/problem+json"), path
        assert json.loads(found.content)["detail"] == "there is no such thing behind this gateway"


def test_what_is_wrong_inside_is_said_inside(direct):
    for raw, status in (
        (b"", 422),
        (b"\x02\x03GET", 422),
        (InnerRequest(b"POST", b"/v1/polls", content=b"nonsense").encode(), 422),
        # A length that is said inside counts for nothing.
        (InnerRequest(b"POST", b"/v1/polls", ((b"content-length", b"1"),), bytes(3000)).encode(), 422),
        (InnerRequest(b"GET", b"/v1/referee", ((b"tandem-protocol", b"99 tandem/9"),)).encode(), 409),
    ):
        assert direct.ask(raw).status == status


def test_what_cannot_be_opened_is_refused_outside_and_never_a_fault(direct):
    sent, _ = encapsulate(direct.configuration, b"request")
    other = GatewayKey.derived(b"another " * 4).configuration
    same_name = KeyConfiguration(direct.configuration.identifier, other.public)
    bodies = [b"", b"\x00", sent[:7], sent[:40], sent[:-1], relayed.changed(sent), bytes(REQUEST_BYTES), b"{}"]
    bodies += [encapsulate(same_name, b"request")[0], sent + b"\x00", sent[:7] + bytes(32) + sent[39:]]
    for body in bodies:
        response = direct.post(body)
        assert 400 <= response.status_code < 500, body
        assert response.headers["content-type"] == "application/problem+json"
    assert direct.post(bytes(REQUEST_BYTES + 1)).status_code == 413
    assert direct.post(sent, "application/json").status_code == 422
    unknown = direct.post(encapsulate(KeyConfiguration(other.identifier ^ 1, other.public), b"request")[0])
    assert (unknown.status_code, unknown.json()["type"]) == (400, KEY_PROBLEM)


def test_what_a_relay_holds_has_one_length_and_no_plain_text(app, through):
    relay, person = relay_before(app), Identity.create()
    held = Recording(relay)
    client = through(relay)
    client.enrol(enrolment(person), TOKEN)
    client.poll(poll(person))
    client.configuration("run")
    with pytest.raises(NotFound):
        client.poll(poll(Identity.create()))
    came, went = [call.body for call in held.came[1:]], [reply.body for reply in held.went[1:]]
    assert [len(body) for body in came] == [REQUEST_BYTES] * 4
    assert [len(body) for body in went] == [RESPONSE_BYTES] * 4
    assert {reply.status for reply in held.went} == {200}  # a refusal looks like everything else
    secret = [TOKEN.encode(), person.public.encode(), b"/v1/", b"enrol", b"poll", b"signature", b"Bearer"]
    assert [word for word in secret if word in b"".join(came + went)] == []
    assert {tuple(sorted(call.headers)) for call in held.came[1:]} == {(b"content-length", b"content-type", b"host")}


def test_nothing_of_a_client_s_request_goes_on_but_its_body(app):
    behind = httpx.ASGITransport(app, raise_app_exceptions=False)
    asked: list[httpx.Request] = []

    class Seen(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            asked.append(request)
            return await behind.handle_async_request(request)

    relay = relay_app("http://referee.invalid", carrier=Seen())
    headers = {"Content-Type": REQUEST_TYPE, "X-Forwarded-For": "203.0.113.9", "Cookie": "who=me", "User-Agent": "mine"}
    with httpx.Client(base_url=NOWHERE, transport=InProcess(relay)) as client:
        client.get(SIGNED_KEYS, headers=headers)
        client.post(RELAY + "?who=me", content=b"x" * 200, headers=headers)
    assert [dict(request.headers) for request in asked] == [
        {"host": "referee.invalid"},
        {"host": "referee.invalid", "content-length": "200", "content-type": REQUEST_TYPE},
    ]
    assert [request.url.raw_path.decode() for request in asked] == [SIGNED_KEYS, GATEWAY]


def test_a_relay_leads_to_one_referee_and_takes_nothing_else(app):
    with httpx.Client(base_url=NOWHERE, transport=InProcess(relay_before(app))) as client:
        for method, path, body, kind, status in (
            ("GET", "/v1/referee", b"", REQUEST_TYPE, 404),
            ("POST", GATEWAY, b"x", REQUEST_TYPE, 404),
            ("POST", RELAY, b"x", "text/plain", 422),
            ("POST", RELAY, bytes(5000), REQUEST_TYPE, 413),
        ):
            reply = client.request(method, path, content=body, headers={"Content-Type": kind})
            assert reply.status_code == status, path
        assert client.request("CONNECT", "http://elsewhere.invalid").status_code in (404, 405)


def test_a_request_that_is_sent_again_changes_nothing(bench, app, through):
    relay, person, before = relay_before(app), Identity.create(), bench.referee.registrar.roster.agents
    relayed.replays_requests(relay)
    assert through(relay).enrol(enrolment(person), TOKEN).message["participant"] == person.public
    assert bench.referee.registrar.roster.agents == before + 1


def test_nothing_is_sealed_to_keys_of_a_relay(app, through):
    relay = relay_before(app)
    read = relayed.substitutes_keys(relay)
    with pytest.raises(RelayUntrusted, match="keys that are not those of the pinned referee"):
        through(relay).enrol(enrolment(Identity.create()), TOKEN)
    assert read == []
    relay = relay_before(app)
    relayed.substitutes_keys_under_the_referee_s_name(relay)
    with pytest.raises(RelayUntrusted, match="does not verify"):
        through(relay).key()


def test_all_ways_lead_through_the_relay(bench, app):
    """Also a redirect, or an address in a request, makes the transport dial nobody else."""
    carrier = InProcess(relay_before(app))
    way = ThroughRelay(NOWHERE, bench.referee.identity.public, carrier)
    with httpx.Client(base_url="http://elsewhere.invalid", transport=way, trust_env=False) as client:
        assert client.get("/v1/referee").json()["key"] == bench.referee.identity.public
    assert {request.url.host for request, _ in carrier.seen} == {"relay.invalid"}


READ = 6 << 20
"""Bytes that buffers on the way may take before a refusal arrives."""
ID = "0" * 32


def header(who: Identity, **changed: object) -> bytes:
    said = {"run": "run", "digest": "0" * 64, "question": 1, "people": 3, "assignment": "0" * 64, "body_sha256": ID * 2}
    return who.sign("packed-report", {"report_id": ID, **said, **changed}).model_dump_json().encode() + b"\n"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with Bench(tmp_path_factory.mktemp("large")) as bench:
        bench.run()
        referee = bench.app()
        with served(referee) as first, served(curator_app(bench.curator)) as second:
            yield {"referee": first, "curator": second}


STRANGER = Identity.create()
ATTACKS = {
    "packed reports, one line": ("referee", f"/v1/packed-reports/{ID}", "", b'{"a":"'),
    "packed reports, forged": ("referee", f"/v1/packed-reports/{ID}", "", header(STRANGER).replace(b"run", b"ruN", 1)),
    "packed reports, a stranger": ("referee", f"/v1/packed-reports/{ID}", "", header(STRANGER)),
    "a run": ("referee", "/v1/runs/new", "", b'{"scenario":"'),
    "a batch": ("referee", "/v1/report-batches", "", b"["),
    "an operation": ("curator", "/v1/runs/run/operations/0", "", b'{"a":"'),
    "an agreement": ("curator", "/v1/runs/run", "", b'{"a":"'),
    "an acknowledgement": ("curator", "/v1/runs/run/acknowledgement", "", b'{"a":"'),
    "announced by a stranger": (
        "curator",
        "/v1/runs/run/operations/0",
        f"{PROOF_HEADER}: {announce_body(STRANGER, 'PUT', '/v1/runs/run/operations/0', b'')}\r\n",
        b'{"a":"',
    ),
}


@for_each("name", sorted(ATTACKS))
def test_it_is_refused_before_it_is_read(addresses, name):
    party, path, further, begin = ATTACKS[name]
    method, length = ("POST", 2 << 20) if "batches" in path else ("PUT", LARGE)
    parts = urlsplit(addresses[party])
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{further}\r\n"
    sent = 0
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as attacker:
        attacker.sendall(head.encode() + begin)
        try:
            while sent < length:
                sent += attacker.send(bytes(1 << 16))
        except ConnectionError:
            pass
    assert sent < min(READ, length) or length < READ
    assert httpx.get(addresses[party] + "/v1/health", trust_env=False, timeout=60).status_code == 200
    headers = dict([further.strip().split(": ")]) if further else {}
    body = begin + bytes((1 << 20) - len(begin))  # who sends less is told why
    reply = httpx.request(method, addresses[party] + path, content=body, headers=headers, trust_env=False, timeout=60)
    assert 400 <= reply.status_code < 500
    assert reply.headers["content-type"] == "application/problem+json"


def test_a_body_longer_than_its_header_says_is_not_read(tmp_path):
    seen = []
    with Bench(tmp_path, tiny("agents.count=600", "agents.batch=600", "curator.rounds=1")) as bench:

        def attack() -> None:
            who = bench.population.identity
            asked = bench.referee.poll(poll(who)).message
            digest = messages.Configuration.parse(bench.referee.configuration("run").message).fingerprint()
            said = header(who, digest=digest, question=asked["question"], people=600)
            with asking(bench.app(), "") as client:
                for extra in (0, 1, 1 << 20):
                    reply = client.put(f"/v1/packed-reports/{ID}", content=said + bytes(150 + extra))
                    seen.append(reply.json()["type"].rpartition(":")[2])

        bench.meanwhile(attack)
        assert bench.run()["agents"]["answered"] == 600
    # the right length is read, and found to be another body than the header says
    assert seen == ["bad-message", "too-large", "too-large"]


def test_the_referee_announces_what_it_sends(tmp_path):
    """A configuration of more than 4 KiB is read because its referee announces it, and not as it is."""
    with (
        Bench(tmp_path, tiny(f"description={'x' * 5000}")) as bench,
        asking(curator_app(bench.curator), "") as direct,
        closing(CuratorClient(str(direct.base_url), patience=10)) as client,
    ):
        bench.referee.create("run", bench.chosen.wire(), 1)
        assert bench.referee.drive()
        bench.referee._execution(bench.referee.store.run("run")).begin(lambda note: None)
        signed = bench.referee.configuration("run")
        plain = direct.put("/v1/runs/run", content=signed.raw())
        assert (plain.status_code, plain.json()["type"]) == (413, "urn:tandem:problem:too-large")
        client.identity = bench.referee.identity
        assert messages.Terms.parse(client.open_run(signed).message).run == "run"
