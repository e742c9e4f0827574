"""Parties of different protocols refuse each other at the first contact, over HTTP, and name both versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, get_args

import httpx
import pytest

from common.core import version
from common.core.errors import VersionSkew
from common.core.version import HEADER, PROTOCOL, stated
from common.net import edge, messages
from common.net.client import Client
from curator.service.app import curator_app
from local_agent.client import RefereeClient
from referee.service.app import referee_app
from referee.service.client import CuratorClient
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, served

BOTH = rf"protocol 3 \(Tandem 0\.9\.0\), this side speaks {PROTOCOL} \(Tandem .+\): upgrade"
NEWER = "3 tandem/0.9.0"
NOTHING = rf"states no protocol \(Tandem 0\.2\.0 or older\), this side speaks {PROTOCOL} \(Tandem "


@pytest.fixture
def parties(tmp_path) -> Iterator[tuple[Bench, str, str]]:
    with (
        Bench(tmp_path) as bench,
        served(referee_app(bench.referee, Runner(bench.referee))) as referee,
        served(curator_app(bench.curator)) as curator,
    ):
        yield bench, referee, curator


@contextmanager
def speaking(client: Client, said: str) -> Iterator[Any]:
    """A client of another release, which states what that one states."""
    with closing(client):
        client._client.headers[HEADER] = said
        yield client


def test_the_number_is_that_of_the_configuration():
    assert get_args(messages.Configuration.model_fields["version"].annotation) == (PROTOCOL,)


def test_services_refuse_a_newer_client_before_they_read_anything(parties):
    bench, referee, curator = parties
    with speaking(RefereeClient(referee), NEWER) as agent:
        for contact in (agent.key, lambda: agent.enrol(bench.population.enrolment(), TOKEN)):
            with pytest.raises(VersionSkew, match=rf"whoever asks speaks {BOTH}"):
                contact()
    signed = bench.referee.identity.sign("configuration", {"run": "run", "version": 3})
    with speaking(CuratorClient(curator), NEWER) as asking, pytest.raises(VersionSkew, match=BOTH):
        asking.open_run(signed)


@pytest.mark.parametrize(
    ("other", "speaks"),
    [((HEADER.encode(), NEWER.encode()), f"speaks {BOTH}"), ((b"x", b"y"), NOTHING)],
    ids=["newer", "older"],
)
def test_clients_refuse_a_service_of_another_release(parties, monkeypatch, other, speaks):
    """One that states a newer protocol at whatever it says; one that states nothing at the first contact."""
    bench, referee, curator = parties
    monkeypatch.setattr(edge, "stating", lambda: other)
    bad = bench.referee.identity.sign("configuration", {"run": "run"})
    with closing(RefereeClient(referee)) as agent, closing(CuratorClient(curator)) as asking:
        with pytest.raises(VersionSkew, match=rf"referee at {referee} {speaks}"):
            agent.key()
        with pytest.raises(VersionSkew, match=rf"curator at {curator} {speaks}"):
            asking.open_run(bad)


@pytest.mark.parametrize("found", [1, 3])
def test_a_configuration_of_another_protocol_is_refused_by_curator_and_agents(parties, found):
    """Also where no header says so, as from a release before it."""
    bench, _, curator = parties
    bench.open()
    wire = {**bench.referee.configuration("run").message, "version": found, "more": 1}
    signed = bench.referee.identity.sign("configuration", wire)
    both = rf"configuration speaks protocol {found} \(Tandem .*this side speaks {PROTOCOL} \(Tandem "
    reply = httpx.put(f"{curator}/v1/runs/run", content=signed.model_dump_json(), trust_env=False, timeout=60)
    assert (reply.status_code, reply.json()["type"]) == (409, "urn:tandem:problem:version-skew")
    with pytest.raises(VersionSkew, match=both):
        messages.Configuration.parse(wire)
    assert bench.curator._ledger.holder is not None  # the run of before, and nothing more
    with pytest.raises(VersionSkew, match=both):
        bench.curator.open_run(signed)


def test_whoever_states_nothing_may_still_look(parties):
    _, referee, curator = parties
    for address in (f"{referee}/v1/health", f"{curator}/v1/ready"):
        assert httpx.get(address, trust_env=False, timeout=60).headers[HEADER] == stated()
    assert httpx.get(f"{referee}/v1/referee", headers={HEADER: "x"}, trust_env=False, timeout=60).status_code == 409


def test_the_same_protocol_of_another_release_fits():
    version.check_stated(f"{PROTOCOL} tandem/9.9.9", "a peer")
