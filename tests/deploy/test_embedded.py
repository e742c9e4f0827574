"""One process: deterministic, resumable, and it says so when nobody can come any more."""

from __future__ import annotations

import socket
import struct
import sys

import pytest

from common.core.errors import BadInput
from common.net.server import listen
from deploy.embedded import Embedded
from deploy.processes import free_port
from tests.support import Bench, tiny


def quiet(text: str, numbers: dict[str, float]) -> None:
    """Watch nothing."""


def test_the_same_seed_is_the_same_run_and_another_seed_another(tmp_path, undisturbed):
    first = Embedded(tmp_path / "a").run(tiny(), 1, "other-name", quiet)
    for name in ("status", "iterations", "answer", "estimate", "agents", "privacy"):
        assert first.result[name] == undisturbed[1].result[name]
    assert Embedded(tmp_path / "b").run(tiny(), 2, "run", quiet).result["answer"] != first.result["answer"]


def test_a_finished_run_is_handed_over_again(tmp_path):
    first = Embedded(tmp_path).run(tiny(), 1, "run", quiet)
    assert Embedded(tmp_path).run(tiny(), 1, "run", quiet) == first


def test_progress_is_told(tmp_path):
    told = []
    Embedded(tmp_path).run(tiny(), 1, "run", lambda text, numbers: told.append(text))
    assert [text for text in told if text.startswith("round")] == ["round 1", "round 2", "round 3"]


def test_too_few_people_end_the_run_at_once(tmp_path):
    """A host that has fewer people than wanted: nobody will ever come, so the run fails instead of waiting."""
    Embedded(tmp_path).run(tiny("agents.count=1300"), 1, "run", quiet)
    second = Embedded(tmp_path).run(tiny("agents.count=1300"), 1, "second", quiet)
    assert second.result["status"] == "failed"
    assert "fewer people" in second.result["reason"]
    assert second.transcript == ""


def test_no_deadline_passes_while_everybody_is_at_work(tmp_path):
    """Nobody's answer is on its way: a machine of any speed gives the same run."""
    agents = Embedded(tmp_path).run(tiny("agents.deadline=1e-9"), 1, "run", quiet).result["agents"]
    assert agents["answered"] == agents["asked"] == 1200


def test_nothing_stays_open_when_a_party_cannot_be_opened(tmp_path):
    Embedded(tmp_path).run(tiny(), 1, "run", quiet)
    with pytest.raises(BadInput, match="another seed"):
        Embedded(tmp_path).run(tiny(), 2, "run", quiet)
    with Bench(tmp_path / "other"):
        pass
    Embedded(tmp_path).run(tiny(), 1, "run", quiet)


def test_a_free_port_is_given_to_nobody_else_before_its_service_listens():
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    for port in ports:
        with listen("127.0.0.1", port) as listener:
            assert listener.getsockname()[1] == port


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone keeps a port for who is bound to it")
def test_the_system_itself_hands_out_no_free_port_again():
    port = free_port()
    with socket.socket() as other:
        try:  # for this socket the system chooses from this port alone: IP_LOCAL_PORT_RANGE, here by its number
            other.setsockopt(socket.IPPROTO_IP, 51, struct.pack("I", port | port << 16))
        except OSError:
            pytest.skip("a range of ports for one socket needs Linux 6.3")
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", 0))
