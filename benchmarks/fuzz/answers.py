"""Answers of peers, for the fuzzer: one decoder for each method of each client, which reads an input as an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx

from benchmarks.fuzz.corpus import FINISHED, Corpus
from benchmarks.fuzz.decoders import Decoder
from common.core.errors import NotFound, TandemError
from common.core.plain import plain
from common.core.version import HEADER, stated
from common.crypto.identity import Identity
from common.crypto.vouching import IssuerKey
from common.log.receipts import StoredCheckpoint
from common.log.witness import last_head
from common.net.client import Client, HttpWitness, WitnessClient
from common.net.messages import Configuration, Perform
from curator.contributions.contributor import CollectorClient
from deploy import remote
from issuer.issuer import Keys
from local_agent.client import IssuerClient, RefereeClient
from referee.runs.curator import check_release, check_terms
from referee.service.referee import CuratorClient
from referee.service.witness import WitnessLog

URL = "http://peer"


class _Mock:
    """Where all answers come from: the input, with a status."""

    def __init__(self) -> None:
        self.raw, self.status, self.asked = b"", 200, 0
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        headers = {HEADER: stated(), "Content-Type": "application/json"}
        return httpx.Response(self.status, content=self.raw, headers=headers)

    def put_into(self, client: Any) -> Any:
        """Have a client's requests come here."""
        client._carrier = self.transport
        return client


def answer_decoders(corpus: Corpus, folder: Any) -> Iterator[Decoder]:
    """Return the decoders; what is read is checked as its caller does, where that takes little."""
    mock = _Mock()
    wanted: list[tuple[str, Callable[[], object], list[Any]]] = [
        *_agents(corpus, mock),
        *_services(corpus, mock, folder),
        *_operators(corpus, mock),
    ]
    for name, call, trees in wanted:
        raws = [tree for tree in trees if isinstance(tree, bytes)]
        found = [tree for tree in trees if not isinstance(tree, bytes)]
        yield Decoder(f"answer: {name}", _read(mock, call, 200), (TandemError,), found, raws)
    problems = [NotFound("x").document(), {"title": "x", "type": "about:blank", "status": 503}]
    client = mock.put_into(Client(URL, patience=0.0))
    for status in (400, 409, 500, 503):
        read = _read(mock, lambda: client.request("GET", "/v1/x"), status)
        yield Decoder(f"answer: refusal {status}", read, (TandemError,), problems, share=0.5)


def _read(mock: _Mock, call: Callable[[], object], status: int) -> Callable[[bytes], object]:
    def read(raw: bytes) -> object:
        mock.raw, mock.status, mock.asked = raw, status, 0
        try:
            return call()
        except TandemError as error:
            if mock.asked == 0:
                raise AssertionError("the client has not read this answer") from None
            if not plain(error.detail).isprintable():
                raise AssertionError(f"a terminal is shown {plain(error.detail)!r}") from None
            raise

    return read


def _agents(corpus: Corpus, mock: _Mock) -> Iterator[tuple[str, Callable[[], object], list[Any]]]:
    client = mock.put_into(RefereeClient(URL, patience=0.0))
    signed = {kind: [one.wire() for one in found[:3]] for kind, found in corpus.signed.items()}
    sent = corpus.signed["report"][0]
    yield "referee's key", client.key, [{"key": corpus.referee.identity.public}]
    yield "enrolled", lambda: client.enrol(sent, "token"), signed["enrolled"]
    yield "poll", lambda: client.poll(sent), [*signed.get("assignment", []), *signed.get("mass-assignment", [])]
    yield "configuration", lambda: client.configuration(FINISHED), signed["configuration"]
    yield "receipt", lambda: client.report(sent), signed["receipt"]
    proof = corpus.referee.proof(corpus.signed["proof-request"][0])
    yield "proof", lambda: (client.proof(sent).kept.seen(),), [proof.wire()]


def _services(corpus: Corpus, mock: _Mock, folder: Any) -> Iterator[tuple[str, Callable[[], object], list[Any]]]:
    curator = mock.put_into(CuratorClient(URL, patience=0.0))
    opening, asked = corpus.signed["configuration"][0], corpus.signed["perform"][0]
    configuration, request = Configuration.parse(opening.message), Perform.parse(asked.message)
    terms, release = corpus.signed["terms"][0], corpus.signed["release"][0]
    yield "terms", lambda: check_terms(curator.open_run(opening), configuration), [terms.wire()]
    yield "release", lambda: check_release(curator.perform(asked), request, asked.digest, release.key), [release.wire()]

    issuer = mock.put_into(IssuerClient(URL, patience=0.0))
    keys: IssuerKey = Keys(folder / "answers-issuer").public
    yield "issuer's keys", issuer.key, [keys.wire()]
    collector = mock.put_into(CollectorClient(URL, patience=0.0))
    yield "offer", lambda: collector.offer(corpus.agent.public), [corpus.agent.sign("offer", {}).wire()]

    identity = Identity.create()
    log = WitnessLog(folder / "answers-witness", identity)
    kept = []
    for checkpoint in corpus.signed["checkpoint"]:
        word = log.keep(checkpoint)
        kept.append(StoredCheckpoint(checkpoint=checkpoint, witnessed=(word,)))
    witness = mock.put_into(WitnessClient(URL, patience=0.0))
    key, first = corpus.referee.identity.public, kept[0].checkpoint
    yield "witness's key", witness.key, [{"key": identity.public}]
    yield (
        "witness's word",
        lambda: StoredCheckpoint(checkpoint=first, witnessed=(witness.keep(first),)).seen(),
        [one.witnessed[0].wire() for one in kept],
    )
    seen = [[one.wire() for one in kept]]
    yield "checkpoints that were seen", lambda: [one.seen() for one in witness.kept(key, FINISHED)], seen
    runs = [[one.wire() for one in log.runs(key, "", 100)]]
    yield "runs that were seen", lambda: witness.runs(key), runs
    head = HttpWitness(f"{URL}/v1/heads/name")
    client = mock.put_into(Client(URL, patience=0.0))
    # A witness of a ledger opens a client for each request; this one has the client of the fuzzer.
    head._request = lambda method, **parts: client.request(method, head._path, **parts)  # type: ignore[method-assign]  # of our own class
    extension = identity.sign("ledger-head", release.message["ledger"])
    yield "head of a ledger", lambda: last_head(head), [extension.wire()]


def _operators(corpus: Corpus, mock: _Mock) -> Iterator[tuple[str, Callable[[], object], list[Any]]]:
    referee = corpus.referee
    operating = remote.OperatorClient(mock.put_into(remote.RefereeAt(URL, patience=0.0)), "token")
    row = {"run": FINISHED, "scenario": "x", "status": "done", "waits_for": ""}
    yield "runs", operating.runs, [[row, row]]
    state = {"run": FINISHED, "progress": [{"text": "x", "numbers": {"round": 1.0}}], "result": None}
    yield "state of a run", lambda: operating.state(FINISHED, 0), [state]
    yield "entries", lambda: operating.entries(FINISHED, 0, 10), [corpus.transcript]
    configuration = [one.wire() for one in corpus.signed["configuration"][:2]]
    yield "configuration for an operator", lambda: operating.configuration(FINISHED), configuration
    remote.LOOK = 0.0  # a run that is followed is looked at again at once
    at = remote.Remote(URL, "token")
    mock.put_into(at._client)
    yield "checkpoints for an operator", lambda: at._page(FINISHED, 0), [[one.wire() for one in referee.kept(FINISHED)]]
    yield "run that is followed", lambda: at.follow(FINISHED, lambda text, numbers: None, _ends(mock)), [state]


def _ends(mock: _Mock) -> Callable[[], None]:
    """Return what looks at a followed run: it ends at the second look, as its operator would."""

    def look() -> None:
        if mock.asked:
            raise NotFound("the operator looks no more")

    return look
