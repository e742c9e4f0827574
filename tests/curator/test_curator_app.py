"""The curator over HTTP: what a client sees, and that nobody but the referee makes others wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import pytest

from common.core import errors
from common.crypto.identity import Identity, Signed, verify
from common.log.entries import Entry
from common.log.ledger import CLOSED
from common.net import messages
from common.net.client import Client
from common.privacy.guarantee import of_curator
from curator import app
from curator.app import curator_app
from curator.curator import Curator, SampleOrigin
from curator.ledger import entry_summaries
from referee.runs import curator as patience
from tests.common.local.hypotheses.onnx_models import linear, wire
from tests.curator.given import LEARN, begun, full_disk, ledger, reopened, request, sample
from tests.curator.mechanisms.greedy import CHEATS
from tests.support import Bench, served, tiny
from tests.tiers import thinned

NOTHING_PROMISED = ("curator.epsilon=null", "curator.delta=null")


@pytest.fixture
def address(bench: Bench) -> Iterator[str]:
    bench.open()
    with served(curator_app(bench.curator)) as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, trust_env=False, timeout=60) as found:
        yield found


def perform(bench: Bench, operation: Any = LEARN) -> Signed:
    return request(bench, "0", operation)


def put(client: httpx.Client, signed):
    return client.put("/v1/runs/run/operations/0", content=signed.model_dump_json())


def test_it_says_who_it_is_and_what_it_guarantees(bench, client):
    said = client.get("/v1/curator").json()
    assert said == {"key": bench.curator.key, "guarantee": of_curator((60.0, 1e-4), "records").wire()}


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


def test_nobody_waits_for_an_operation_with_a_configuration_that_everybody_may_read(bench, client, monkeypatch):
    """More than there are threads say again what the referee has said, and none of them is held."""
    entered, leave = threading.Event(), threading.Event()
    real = bench.curator._carry_out

    def slow(*charged):
        entered.set()
        assert leave.wait(60)
        real(*charged)

    monkeypatch.setattr(bench.curator, "_carry_out", slow)
    agreed = bench.referee.configuration("run").model_dump_json()
    with ThreadPoolExecutor(61) as strangers:
        working = strangers.submit(put, client, perform(bench))
        assert entered.wait(60)
        waiting = [strangers.submit(client.put, "/v1/runs/run", content=agreed) for _ in range(60)]
        try:
            assert {said.result(20).status_code for said in waiting} == {503}
            assert client.get("/v1/ready", timeout=20).status_code == 200
        finally:
            leave.set()
    assert working.result().status_code == client.put("/v1/runs/run", content=agreed).status_code == 200


def test_the_path_and_the_message_must_agree(bench, client):
    signed = perform(bench).model_dump_json()
    for path in ("/v1/runs/other/operations/0", "/v1/runs/run/operations/1"):
        reply = client.put(path, content=signed)
        assert (reply.status_code, "path and the message" in reply.json()["detail"]) == (422, True)
    agreed = bench.referee.configuration("run").model_dump_json()
    assert [client.put(f"/v1/runs/{run}", content=agreed).status_code for run in ("other", "run")] == [422, 200]


def acknowledgements(curator: Curator) -> list[tuple[int, Entry]]:
    return [(n, entry) for n, entry in curator._journal.chain.numbered() if entry.kind == "acknowledgement"]


@pytest.fixture
def ended(bench) -> Bench:
    bench.run()
    return bench


def test_the_referee_countersigns_all_that_was_released(ended):
    [(number, entry)] = acknowledgements(ended.curator)
    chain = ended.curator._journal.chain
    assert number == len(chain)
    signed = Signed.parse(entry.body["acknowledgement"])
    received = messages.Acknowledgement.parse(verify(signed, "acknowledgement", ended.referee.identity.public))
    assert received.seen == chain.head(number - 1)
    assert chain.entries[number - 2].kind == "result"


def test_the_same_again_or_an_older_one_changes_nothing(ended):
    [(number, entry)] = acknowledgements(ended.curator)
    signed, chain = Signed.parse(entry.body["acknowledgement"]), ended.curator._journal.chain
    head = chain.head()
    ended.curator.acknowledge(signed)
    older = {**signed.message, "seen": chain.head(number - 2).wire()}
    ended.curator.acknowledge(ended.referee.identity.sign("acknowledgement", older))
    assert chain.head() == head
    ended.curator.close()
    with closing(reopened(ended.folder / "curator")) as again:
        again.acknowledge(signed)
        assert again._journal.chain.head() == head
    assert entry_summaries(ended.folder / "curator")[-1]["referee_had_seen"] == number - 1


def test_strangers_other_runs_and_other_ledgers_are_refused(ended):
    [(_, entry)] = acknowledgements(ended.curator)
    message: dict[str, Any] = entry.body["acknowledgement"]["message"]
    referee = ended.referee.identity
    for signer, changes, error in (
        (Identity.create(), {}, errors.Forged),
        (referee, {"run": "other"}, errors.ConfigurationMismatch),
        (referee, {"seen": {**message["seen"], "hash": "0" * 64}}, errors.RolledBack),
    ):
        with pytest.raises(error):
            ended.curator.acknowledge(signer.sign("acknowledgement", {**message, **changes}))
    assert len(acknowledgements(ended.curator)) == 1


class Away:
    """A curator that nobody reaches once all is released."""

    def __init__(self, curator: Curator) -> None:
        self.open_run, self.open_share, self.perform = curator.open_run, curator.open_share, curator.perform

    def acknowledge(self, signed: Signed) -> None:
        raise errors.PeerUnavailable("nobody answers")


def test_a_curator_that_is_away_does_not_fail_the_run(tmp_path):
    with Bench(tmp_path, curator=Away) as bench:
        result = bench.run()
        assert result["status"] == "exhausted"  # that is how this scenario ends
        assert acknowledgements(bench.curator) == []


def test_over_http_it_is_a_503_with_the_time_to_ask_again(bench, address, client):
    signed, path = perform(bench), "/v1/runs/run/operations/0"
    with full_disk():
        reply = put(client, signed)
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "2")
    assert reply.json()["type"].endswith("cannot-write")
    with closing(Client(address)) as referee:
        with full_disk(), pytest.raises(errors.CannotWrite, match=r"nothing was released.*same request"):
            referee.signed("PUT", path, signed)
        assert (ledger(bench), list(bench.curator._ledger)) == ([], [])
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


def test_a_curator_that_promises_nothing_refuses_a_second_run_in_json(tmp_path):
    """Its budget is infinite, which is no number of JSON: a referee could not read the refusal."""
    with begun(tmp_path, tiny(*NOTHING_PROMISED)) as bench, served(curator_app(bench.curator)) as address:
        agreed = bench.referee.configuration("run").message
        second = bench.referee.identity.sign("configuration", {**agreed, "run": "second"})
        with closing(Client(address)) as referee, pytest.raises(errors.BudgetExceeded, match="belongs to run 'run'"):
            referee.signed("PUT", "/v1/runs/second", second)


class Attending:
    """Stands for the people in the ledger over all runs: keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.charged: list[str] = []

    def attach(self, journal: Any, *, head: Any, opened: bool) -> None:
        self.told.append(opened)

    def charge(self, party: str, digest: str) -> tuple[None, None]:
        self.charged.append(digest)
        return None, None


def test_a_curator_whose_budget_counts_as_spent_charges_its_people_nothing(tmp_path):
    with begun(tmp_path / "bench") as bench:
        agreed = bench.referee.configuration("run")
    for closed in (True, False):
        account: Any = Attending()
        curator = Curator(tiny(), sample(1200), tmp_path / f"{closed}", seed=1, origin=SampleOrigin(account))
        if closed:
            curator._journal.append(CLOSED, {"why": "an older copy was put back"})
            with pytest.raises(errors.BudgetExceeded, match="an older copy was put back") as refused:
                curator.open_run(agreed)
            epsilon = curator.guarantee.pair[0]
            assert refused.value.members == {"spent": epsilon, "requested": epsilon, "budget": epsilon}
        else:
            curator.open_run(agreed)
        curator.close()
        assert (account.told, len(account.charged)) == ([False], not closed)
    # Of an opened run the ledger of people must know already; people of one that is not opened must have budget left.
    Curator(tiny(), sample(1200), tmp_path / "False", seed=1, origin=SampleOrigin(account)).close()
    assert account.told == [False, True]


GRAPH = {"kind": "reweigh", "hypothesis": wire(linear([1.0] * 8))}
BAYES = ("curator.learner={name: scikit, classifier: GaussianNB, draws: 200}", *NOTHING_PROMISED)


def test_a_curator_with_another_learner_refuses_graphs_unparsed(bench, monkeypatch):
    def never(*_):
        raise AssertionError("parsed")

    monkeypatch.setattr("common.local.hypotheses.onnx.read_graph", never)
    bench.open()
    for hypothesis in (GRAPH["hypothesis"], {"kind": "onnx", "model": "****"}):
        with pytest.raises(errors.PolicyRefused, match="gives no hypothesis of kind 'onnx', so it takes none"):
            bench.perform(0, {"kind": "reweigh", "hypothesis": hypothesis})


def test_a_curator_that_gives_graphs_takes_them(tmp_path):
    with begun(tmp_path, tiny(*BAYES)) as bench:
        assert bench.perform(0, {"kind": "learn", "round": 1}).result["hypothesis"]["kind"] == "onnx"
        assert bench.perform(1, GRAPH).result["event"]["kind"]
        with pytest.raises(errors.BadMessage, match="base64"):
            bench.perform(2, {"kind": "reweigh", "hypothesis": {"kind": "onnx", "model": "****"}})


def test_a_whole_run_with_graphs(tmp_path):
    with Bench(tmp_path, tiny(*BAYES)) as bench:
        result = bench.run()
    assert result["answer"]["kind"] == "onnx"
