"""One large request without key or token holds neither service up: almost nothing of it is read, nothing parsed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from common.crypto.identity import PROOF_HEADER, Identity, announce_body
from common.net import messages
from common.net.edge import LARGE
from curator.service.app import curator_app
from referee.service.app import referee_app
from referee.service.client import CuratorClient
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, seal, served, tiny
from tests.tiers import for_each

READ = 6 << 20
"""Bytes that buffers on the way may take before a refusal arrives."""
ID = "0" * 32


def header(who: Identity, **changed: object) -> bytes:
    said = {"run": "run", "digest": "0" * 64, "question": 1, "people": 3, "assignment": "0" * 64, "body_sha256": ID * 2}
    return who.sign("packed-report", {"report_id": ID, **said, **changed}).model_dump_json().encode() + b"\n"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with Bench(tmp_path_factory.mktemp("large")) as bench:
        bench.referee.allow("operator", TOKEN)
        bench.run()
        referee = referee_app(bench.referee, Runner(bench.referee))
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


@for_each("name", sorted(ATTACKS))
def test_it_is_told_why(addresses, name):
    party, path, further, begin = ATTACKS[name]
    method = "POST" if "batches" in path else "PUT"
    headers = dict([further.strip().split(": ")]) if further else {}
    body = begin + bytes((1 << 20) - len(begin))
    reply = httpx.request(method, addresses[party] + path, content=body, headers=headers, trust_env=False, timeout=60)
    assert 400 <= reply.status_code < 500
    assert reply.headers["content-type"] == "application/problem+json"


def test_a_body_longer_than_its_header_says_is_not_read(tmp_path):
    seen = []
    with Bench(tmp_path, tiny("agents.count=600", "agents.batch=600", "curator.rounds=1")) as bench:

        def attack() -> None:
            who = bench.population.identity
            asked = bench.referee.poll(seal(who, messages.Poll(participant=who.public))).message
            digest = messages.Configuration.parse(bench.referee.configuration("run").message).fingerprint()
            said = header(who, digest=digest, question=asked["question"], people=600)
            with served(referee_app(bench.referee, Runner(bench.referee))) as address:
                path = f"{address}/v1/packed-reports/{ID}"
                for extra in (0, 1, 1 << 20):
                    seen.append(
                        httpx.put(path, content=said + bytes(150 + extra), trust_env=False, timeout=60).json()["type"]
                    )

        bench.meanwhile(attack)
        assert bench.run()["agents"]["answered"] == 600
    # the right length is read, and found to be another body than the header says
    assert [kind.rpartition(":")[2] for kind in seen] == ["bad-message", "too-large", "too-large"]


def test_the_referee_announces_what_it_sends(tmp_path):
    """A configuration of more than 4 KiB is read because its referee announces it, and not as it is."""
    with Bench(tmp_path, tiny(f"description={'x' * 5000}")) as bench, served(curator_app(bench.curator)) as address:
        bench.referee.create("run", bench.chosen.wire(), 1)
        assert bench.referee.drive()
        bench.referee._execution(bench.referee.store.run("run")).begin(lambda note: None)
        signed = bench.referee.configuration("run")
        body = signed.model_dump_json().encode()
        assert len(body) > 5000
        plain = httpx.put(f"{address}/v1/runs/run", content=body, trust_env=False, timeout=60)
        assert (plain.status_code, json.loads(plain.content)["type"]) == (413, "urn:tandem:problem:too-large")
        client = CuratorClient(address, patience=10)
        client.identity = bench.referee.identity
        try:
            assert messages.Terms.parse(client.open_run(signed).message).run == "run"
        finally:
            client.close()
