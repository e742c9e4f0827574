"""The curator over HTTP: what a client sees, and that nobody but the referee makes others wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest

from common.core.errors import BudgetExceeded, Conflict, from_document
from common.crypto.identity import Identity
from common.privacy.guarantee import of_curator
from common.wire import messages
from curator.service import app
from curator.service.app import curator_app
from tests.curator.metering.greedy import CHEATS
from tests.curator.service.requests import ledger
from tests.support import Bench, served
from tests.tiers import thinned


@pytest.fixture
def client(bench: Bench) -> Iterator[httpx.Client]:
    bench.open()
    with (
        served(curator_app(bench.curator)) as address,
        httpx.Client(base_url=address, trust_env=False, timeout=60) as found,
    ):
        yield found


def perform(bench: Bench, number: int = 0, **changes: object):
    digest = messages.Configuration.parse(bench.referee.configuration("run").message).fingerprint()
    wire = {
        "run": "run",
        "digest": digest,
        "operation_id": str(number),
        "operation": {"kind": "learn", "round": 1},
        "seen": bench.head().wire(),
        **changes,
    }
    return bench.referee.identity.sign("perform", wire)


def put(client: httpx.Client, signed, number: int = 0):
    return client.put(f"/v1/runs/run/operations/{number}", content=signed.model_dump_json())


def test_it_says_who_it_is_and_what_it_guarantees(bench, client):
    said = client.get("/v1/curator").json()
    assert said == {"key": bench.curator.key, "guarantee": of_curator((60.0, 1e-4), "records").wire()}


def test_an_operation_gets_its_release_and_the_same_again(bench, client):
    first = put(client, perform(bench))
    assert first.status_code == 200
    assert put(client, perform(bench)).json() == first.json()


@pytest.mark.parametrize("cheat", thinned(CHEATS, 4), ids=lambda cheat: cheat.__name__)
def test_a_learner_that_takes_more_than_was_charged_releases_nothing_and_its_charge_stays(
    bench, client, monkeypatch, cheat, capfd
):
    """Over HTTP: one constant problem; the release is never made, however often it is asked for."""
    learner = type(bench.curator._policy.learner)
    honest = learner.learn
    with monkeypatch.context() as cheating:
        cheating.setattr(learner, "learn", lambda self, access, *rest: honest(self, cheat(access), *rest))
        for _ in range(2):
            reply = put(client, perform(bench))
            assert (reply.status_code, reply.json()["type"]) == (500, "urn:tandem:problem:operation-failed")
            assert reply.json()["detail"].startswith("the operation 'learn' failed inside the curator and released")
            assert [(row[0], row[3]) for row in ledger(bench)] == [("0", None)]
    assert capfd.readouterr().out == ""
    assert put(client, perform(bench)).status_code == 200  # with its own code again: the same charge, once
    assert len(ledger(bench)) == 1


def test_a_running_operation_says_ask_again(bench, client, monkeypatch):
    """202 while it runs; the release once it is there; the work is done once."""
    monkeypatch.setattr(app, "PROMPT", 0.02)
    entered, leave, calls = threading.Event(), threading.Event(), []
    real = bench.curator.perform_admitted

    def slow(*admitted):
        calls.append(1)
        entered.set()
        assert leave.wait(60)
        return real(*admitted)

    monkeypatch.setattr(bench.curator, "perform_admitted", slow)
    assert put(client, perform(bench)).status_code == 202
    assert entered.wait(60)
    assert put(client, perform(bench)).status_code == 202
    stranger = Identity.create().sign("perform", perform(bench).message)
    assert put(client, stranger).status_code == 401  # at once, though the queue is full
    leave.set()
    while (reply := put(client, perform(bench))).status_code == 202:
        pass
    assert reply.json()["kind"] == "release"
    assert 1 <= len(calls) <= 2


def test_errors_are_problem_documents(bench, client):
    put(client, perform(bench))
    conflict = put(client, perform(bench, operation={"kind": "learn", "round": 2}))
    assert conflict.status_code == 409
    assert conflict.headers["content-type"] == "application/problem+json"
    assert isinstance(from_document(conflict.json()), Conflict)
    wire = {**bench.referee.configuration("run").message, "run": "second"}
    signed = bench.referee.identity.sign("configuration", wire)
    refused = client.put("/v1/runs/second", content=signed.model_dump_json())
    error = from_document(refused.json())
    assert isinstance(error, BudgetExceeded)
    assert error.members["budget"] == 60.0


@pytest.mark.parametrize(("path", "number"), [("/v1/runs/other/operations/0", 0), ("/v1/runs/run/operations/1", 0)])
def test_the_path_and_the_message_must_agree(bench, client, path, number):
    reply = client.put(path, content=perform(bench, number).model_dump_json())
    assert reply.status_code == 422
    assert "path and the message" in reply.json()["detail"]


def test_a_configuration_under_another_name_is_refused(bench, client):
    signed = bench.referee.configuration("run")
    assert client.put("/v1/runs/other", content=signed.model_dump_json()).status_code == 422
    assert client.put("/v1/runs/run", content=signed.model_dump_json()).status_code == 200
