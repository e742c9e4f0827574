"""A curator whose disk is full says so and loses nothing: the run waits, and ends as it would have ended."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest

from common.core.errors import CannotWrite
from common.net.client import Client
from curator.service.app import curator_app
from referee.runs import patience
from tests.curator.service.requests import LEARN, ledger, request
from tests.support import served


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow beyond 8 KiB: the operating system refuses as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_charge_that_cannot_be_written_is_not_made_and_may_be_asked_again(bench):
    bench.open()
    bench.head()
    with full_disk(), pytest.raises(CannotWrite, match=r"nothing was released.*same request") as refused:
        bench.perform(0, LEARN)
    assert refused.value.status == 503
    assert (ledger(bench), list(bench.curator._ledger)) == ([], [])
    bench.perform(0, LEARN)
    assert len(ledger(bench)) == 1


def test_over_http_it_is_a_503_with_the_time_to_ask_again(bench):
    bench.open()
    signed = request(bench, "0", LEARN)
    with served(curator_app(bench.curator)) as address:
        path = "/v1/runs/run/operations/0"
        with full_disk(), httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            reply = client.put(path, content=signed.model_dump_json())
        assert (reply.status_code, reply.headers["Retry-After"]) == (503, "2")
        assert reply.json()["type"].endswith("cannot-write")
        with closing(Client(address)) as referee:
            with full_disk(), pytest.raises(CannotWrite):
                referee.signed("PUT", path, signed)
            assert referee.signed("PUT", path, signed).message["operation_id"] == "0"


def test_the_run_waits_and_ends_as_it_would_have(tmp_path, monkeypatch, undisturbed, bench):
    """Every write of the ledger fails three times before the disk takes it: charges, results and the opening."""
    monkeypatch.setattr(patience, "PAUSE", 0.0)
    chain = bench.curator._ledger.journal.chain
    real, said = chain.append, []
    failed: list[tuple[str, int]] = []

    def appending(kind, body):
        key = (kind, len(chain))
        if kind != "acknowledgement" and failed.count(key) < 3:  # for that the run does not wait
            failed.append(key)
            raise OSError(28, "No space left on device")
        return real(kind, body)

    monkeypatch.setattr(chain, "append", appending)
    bench.referee.create("run", bench.chosen.wire(), bench.seed)
    result = bench.referee.execute("run", lambda note: said.append(note.text))
    expected = undisturbed[1].result
    same = ("status", "reason", "iterations", "answer", "estimate", "agents")
    assert {name: result[name] for name in same} == {name: expected[name] for name in same}
    assert len(failed) == 3 * len(set(failed)) > 10
    assert sum("the run waits for the curator" in text for text in said) >= 6
