"""Agents behind a relay, over real HTTP: who sees which address, and what an agent says of a relay that does harm."""

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from common.crypto.identity import Identity
from common.net.app import Service
from common.net.connection import HttpConnection
from common.net.oblivious.encapsulation import REQUEST_BYTES
from common.net.oblivious.relay import relay_app
from common.net.tls import CertificateFiles, server_context
from local_agent.cli import app
from local_agent.client import RelayedClient
from local_agent.person.checking import INCLUDED, check, held_receipts
from referee.audit.audit import audit
from referee.service import agents_edge
from tests import relayed
from tests.certified import believe, circle
from tests.local_agent.test_policy import individual
from tests.support import ONE_QUESTION, TOKEN, Bench, leave_folder, served, tiny

AGENT, RELAY = "127.0.0.2", "127.0.0.3"
PEOPLE = 3


@dataclass
class Wire:
    """What came on the connections of each port of this process: from which address, and all bytes."""

    peers: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    bytes: dict[int, bytearray] = field(default_factory=lambda: defaultdict(bytearray))


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Listen at the sockets themselves, below all that a service makes of them."""
    found, come = Wire(), HttpConnection.data_received

    def seen(self: HttpConnection, data: bytes) -> None:
        port = self.transport.get_extra_info("sockname")[1]
        found.peers[port].add(self.transport.get_extra_info("peername")[0])
        found.bytes[port] += data
        come(self, data)

    monkeypatch.setattr(HttpConnection, "data_received", seen)
    return found


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.mark.slow
def test_a_referee_sees_the_relay_s_address_and_a_relay_sees_nothing_else(tmp_path, wire, monkeypatch):
    monkeypatch.setattr(agents_edge, "HOLD", 0.01)
    chosen = tiny(*ONE_QUESTION)
    with ExitStack() as opened:
        bench = opened.enter_context(Bench(tmp_path / "bench", chosen, individuals=PEOPLE))
        key = bench.referee.identity.public
        address = opened.enter_context(served(bench.app()))
        relay = opened.enter_context(served(relay_app(address, source=RELAY)))

        def asks() -> RelayedClient:
            carrier = httpx.HTTPTransport(local_address=AGENT)
            return opened.enter_context(closing(RelayedClient(relay, key, carrier=carrier)))

        folders = [tmp_path / f"agent-{one}" for one in range(PEOPLE)]
        hosts = [opened.enter_context(individual(bench, folder, port=asks())) for folder in folders]
        identities = [Identity.load_or_create(folder / "identity.key") for folder in folders]

        def answer() -> None:
            assert all(host.step() for host in hosts)

        bench.meanwhile(answer)
        result = bench.run()
        findings = [
            check(receipt, identity, asks(), key)
            for folder, identity in zip(folders, identities, strict=True)
            for receipt in held_receipts(folder)
        ]
        folder = leave_folder(tmp_path / "run", chosen, bench.seed, bench.finished())
    assert result["agents"]["answered"] == 600
    assert [finding.status for finding in findings] == [INCLUDED] * PEOPLE
    assert audit(folder).answers == 600
    # The referee: the relay's address alone, on every connection, and in nothing that came on them.
    assert wire.peers[port_of(address)] == {RELAY}
    at_referee, at_relay = bytes(wire.bytes[port_of(address)]), bytes(wire.bytes[port_of(relay)])
    assert AGENT.encode() not in at_referee
    heads = [part.split(b"\r\n\r\n")[0] for part in at_referee.split(b"POST /.well-known/ohttp-gateway HTTP/1.1\r\n")]
    assert len(heads[1:]) == PEOPLE * 5  # enrolment, poll, configuration, report, proof
    names = {line.split(b":")[0].lower() for head in heads[1:] for line in head.split(b"\r\n")}
    assert names == {b"host", b"content-type", b"content-length"}
    # The relay: the agents' address, and requests of one length without a word in them.
    assert wire.peers[port_of(relay)] == {AGENT}
    assert at_relay.count(b"Content-Length: %d\r\n" % REQUEST_BYTES) == at_relay.count(b"POST /v1/relay HTTP/1.1\r\n")
    secrets = [TOKEN, *(identity.public for identity in identities), "enrolment", "assignment", "report", "Bearer"]
    assert [word for word in secrets if word.encode() in at_relay or word.encode() in at_referee] == []


@pytest.mark.slow
def test_relay_and_referee_speak_tls(tmp_path, monkeypatch):
    ours = circle(tmp_path / "tls")
    believe(monkeypatch, ours, client=None)
    files = (CertificateFiles.of(party, ours / party / "server.pem", None) for party in ("referee", "witness"))
    first, second = map(server_context, files)
    with Bench(tmp_path / "bench") as bench:
        key = bench.referee.identity.public
        with (
            served(bench.app(), tls=first) as address,
            served(relay_app(address), tls=second) as relay,
            closing(RelayedClient(relay, key)) as client,
        ):
            assert (address[:8], relay[:8], client.key()) == ("https://", "https://", key)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"TANDEM_ENROLMENT_TOKEN": TOKEN})


def answering(folder: Path, relay: str, *more: str) -> Result:
    """Have an agent with a state directory answer through a relay."""
    (folder.parent / "me.json").write_text(json.dumps({"features": [0.125] * 8, "label": 1}))
    return run("answer", str(folder.parent / "me.json"), "--yes", "--state", str(folder), "--relay", relay, *more)


HARM: list[tuple[Callable[[Service], object], str]] = [
    (relayed.substitutes_keys, "hands out keys that are not those of the pinned referee"),
    (relayed.alters_requests, "was changed on its way"),
    (relayed.alters_responses, "not the referee's answer to this request"),
    (relayed.cuts_responses_off, "not the referee's answer to this request"),
    (relayed.swaps_responses, "not the referee's answer to this request"),
    (relayed.replays_responses, "not the referee's answer to this request"),
    (relayed.answers_in_plain, "nothing that a relay would"),
]


@pytest.mark.slow
def test_an_agent_says_in_one_line_what_a_relay_did_and_stops(tmp_path):
    with Bench(tmp_path / "bench", tiny("agents.count=600"), individuals=1) as bench:
        with served(bench.app()) as address:
            for number, (harm, said) in enumerate(HARM):
                relay = relay_app(address)
                harm(relay)
                with served(relay) as there:
                    key = bench.referee.identity.public
                    done = answering(tmp_path / f"me-{number}", there, "--referee-key", key)
                assert done.exit_code == 1, done.output
                (line,) = done.stderr.splitlines()
                assert line.startswith(f"Relay not trusted: the relay at {there} ")
                assert said in line
        # What was changed enrolled nobody; where the answer alone was another one, the request had come.
        assert bench.referee.registrar.roster.agents == 599 + 1


def test_a_relay_needs_a_key_that_is_known_and_no_witness_is_asked_beside_it(tmp_path):
    done = answering(tmp_path / "me", "http://127.0.0.1:1")
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
    assert "name it with --referee-key" in done.stderr
    # A witness would be dialled directly, by the one whose report it is.
    done = run("check", "--state", str(tmp_path), "--relay", "http://127.0.0.1:1", "--witness", "http://127.0.0.1:2")
    assert (done.exit_code, "from this device's address" in done.stderr) == (1, True)
