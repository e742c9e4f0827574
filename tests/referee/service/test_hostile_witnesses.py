"""A witness that answers anything, or nothing, ends no run, no other run and no thread."""

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

from common.core.durable import file_name
from common.core.errors import URN, BadInput
from common.crypto.identity import Identity, Signed
from common.log.entries import START, Extension, Head, link_of, linked
from common.log.receipts import Checkpoint, StoredCheckpoint, Witnessed, signed_checkpoint
from common.log.transcript import append
from common.log.witness import last_head
from common.net import monitoring
from common.net.client import HttpWitness, WitnessClient
from common.privacy.guarantee import NOTHING
from local_agent.person import checking
from referee.runs import execution
from referee.service import runner as running
from referee.service.referee import CuratorClient
from referee.service.witness import HEADS, witness_app
from tests.referee.service.test_referee import driving, ended, until
from tests.support import TOKEN, Bench, asking, served, tiny

KEYS = b"s" * 32, b"h" * 32
SIGNER, HONEST = (Identity(Ed25519PrivateKey.from_private_bytes(key)) for key in KEYS)
STRANGER = Identity.create()
Answer = tuple[int, bytes] | None
"""A status and a body; None: none ever comes."""


def word(put: Signed, signer: Identity = SIGNER, **changed: Any) -> Answer:
    """What an honest witness answers, but for what is changed."""
    digest = Checkpoint.parse(put.message).fingerprint()
    said = {"checkpoint": digest, "position": 0, "previous": START, "time": int(time.time()), **changed}
    return 200, signer.sign(Witnessed.KIND, said).raw()


def problem(name: str, status: int = 409, **members: Any) -> Answer:
    """A problem document of Tandem's."""
    return status, json.dumps(
        {"type": URN + name, "title": "t", "status": status, "detail": "d" * 2000, **members}
    ).encode()


FIRST: dict[str, Signed] = {}
"""The first checkpoint of each run."""


def an_invented_history(put: Signed) -> Answer:
    """That it has seen another history, shown under a signature of its own."""
    entries = [append(None, "configuration", {}, STRANGER)]
    other = signed_checkpoint(STRANGER, put.message["run"], put.message["configuration"], entries, 0)
    return problem("rolled-back", checkpoint=other.raw().decode())


LIES: dict[str, Callable[[Signed], Answer]] = {
    "another checkpoint": lambda put: word(put, checkpoint="0" * 64),
    "an old checkpoint": lambda put: word(FIRST[put.message["run"]]),
    "another key": lambda put: word(put, STRANGER),
    "a list": lambda put: (200, b"[1, 2]"),
    "null": lambda put: (200, b"null"),
    "garbage": lambda put: (200, bytes(range(256))),
    "nothing": lambda put: (200, b""),
    "deep JSON": lambda put: (200, b"[" * 100_000),
    "thousands of words": lambda put: (200, b"[" + b",".join([word(put)[1]] * 3000) + b"]"),
    "the checkpoint itself": lambda put: (200, put.raw()),
    "another kind": lambda put: (200, SIGNER.sign("receipt", dict(put.message)).raw()),
    "a time beyond all": lambda put: word(put, time=2**53 - 1),
    "a position that is none": lambda put: word(put, position=-1),
    "an unknown field": lambda put: word(put, more=1),
    "204": lambda put: (204, b""),
    "404": lambda put: (404, b"<html>"),
    "500": lambda put: (500, b"{}"),
    "no such run": lambda put: problem("not-found", 404),
    "conflict": lambda put: problem("conflict"),
    "superseded": lambda put: problem("superseded", 503),
    "cancelled": lambda put: problem("run-cancelled"),
    "rolled back, and nothing to show": lambda put: problem("rolled-back"),
    "rolled back, and garbage to show": lambda put: problem("rolled-back", checkpoint=[1]),
    "rolled back, and this one to show": lambda put: problem("rolled-back", checkpoint=put.raw().decode()),
    "an invented history": an_invented_history,
    "unauthorized": lambda put: problem("unauthorized", 401),
    "cannot write": lambda put: problem("cannot-write", 503),
    "202 for ever": lambda put: (202, b"{}"),
    "503 for ever": lambda put: (503, b"{}"),
    "no answer": lambda put: None,
}


class Peer:
    """A witness on loopback that may turn hostile: what it answers may change at any time.

    Attributes:
        lie: What a PUT is answered, given the signed message; None: the word of an honest witness.
        key: What is answered to who asks for its key; None: that key.
    """

    def __init__(self, private: bytes = KEYS[0]) -> None:
        self.lie: Callable[[Signed], Answer] | None = None
        self.key: Callable[[], Answer] | None = None
        self._opened = ExitStack()
        folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory()))
        (folder / "identity.key").write_bytes(private)
        app = witness_app(folder, TOKEN)
        app.middleware("http")(self._answer)
        self.url = self._opened.enter_context(served(app))
        self.close = self._opened.close

    async def _answer(self, request: Request, honest: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.method == "PUT":
            signed = Signed.model_validate_json(await request.body())
            FIRST.setdefault(signed.message["run"], signed)
            if self.lie is None:
                return await honest(request)
            answer = await run_in_threadpool(self.lie, signed)
        elif request.url.path.startswith("/v1/runs/") or self.key is None:
            return await honest(request)
        else:
            answer = self.key()
        if answer is None:
            await asyncio.sleep(600)
        status, body = answer or (503, b"")
        return Response(body, status, media_type="application/json")


@contextmanager
def watched(folder: Path, patience: float = 0.2) -> Iterator[tuple[Peer, Bench, httpx.Client]]:
    """A referee with two witnesses, of which one is hostile, that drives runs and serves its operator."""
    with (
        closing(Peer()) as peer,
        closing(Peer(KEYS[1])) as honest,
        closing(WitnessClient(peer.url, TOKEN, patience=patience)) as first,
        closing(WitnessClient(honest.url, TOKEN)) as second,
        driving(folder, 30_000, [first, second]) as (bench, runner, _, operator),
    ):
        runner.start()
        yield peer, bench, operator


def witnesses_of_the_end(bench: Bench, run: str) -> list[str]:
    kept, last = bench.referee.store.last_checkpoint(run), bench.referee.store.last_entry(run)
    return list(kept.seen()) if kept.verified().entries == last.index + 1 else []


QUICK = tiny("agents.count=600", "agents.batch=200", "agents.deadline=5").wire()


@pytest.mark.slow
@pytest.mark.parametrize("names", [[*LIES][1::2], pytest.param([*LIES][::2], marks=pytest.mark.thorough)], ids=len)
def test_no_answer_of_a_witness_ends_a_run_that_it_knows_of(tmp_path, caplog, monkeypatch, names):
    monkeypatch.setattr(monitoring, "FRESH", 0.0)
    monkeypatch.setattr(running, "CATCH_UP", 0.2)
    with watched(tmp_path) as (peer, bench, operator):
        store, checkpoints = bench.referee.store, bench.referee.checkpoints
        for number, name in enumerate(names):
            lie, run = LIES[name], f"run-{number}"
            peer.lie, switched = None, threading.Event()
            caplog.clear()

            def turn(lie: Callable[[Signed], Answer] = lie, switched: threading.Event = switched) -> None:
                peer.lie = lie
                checkpoints.standing[peer.url].again = 0.0
                switched.set()

            until(lambda: not any(checkpoints.owed(line.run) for line in store.runs()))
            checkpoints._due.clear()
            bench.hooks = [turn]
            result = ended(bench, run, QUICK)
            assert switched.is_set(), name
            assert result["status"] in ("done", "exhausted"), (name, result["reason"])
            assert checkpoints.owed(run), name  # the hostile one has not signed the end
            until(lambda run=run: witnesses_of_the_end(bench, run) == [HONEST.public])
            assert operator.get("/v1/ready").status_code == 200, name
            notes = [note["text"] for note in operator.get(f"/v1/runs/{run}").json()["progress"]]
            (passed,) = (note for note in notes if "its checkpoint is not witnessed yet" in note)
            assert (peer.url in passed, len(passed) < 3000) == (True, True), name
            logged = [line for line in caplog.records if "a witness is passed over" in line.getMessage()]
            assert len(logged) == 1, (name, [line.getMessage() for line in logged])
            shown = operator.get("/v1/metrics").text
            assert f'tandem_witness_answers{{witness="{peer.url}"}} 0' in shown, name
        peer.lie = None
        until(lambda: not any(checkpoints.owed(line.run) for line in store.runs()))  # it is told in the end
        until(lambda: not checkpoints.standing[peer.url].problem)
        shown = operator.get("/v1/metrics").text
        assert f'tandem_witness_answers{{witness="{peer.url}"}} 1' in shown
        assert 'tandem_thread_failures_total{thread="runner"} 0' in shown


@pytest.mark.slow
def test_a_witness_that_lies_before_anybody_is_asked_ends_that_run_with_a_reason_and_later_ones_go_on(
    tmp_path, monkeypatch
):
    """All witnesses know of a run before anybody is asked: the operator hears which one cannot be told, and chooses."""
    monkeypatch.setattr(execution, "PAUSE", 0.01)
    keys: dict[str, Callable[[], Answer]] = {
        "no key": lambda: (200, b"{}"),
        "a key that is none": lambda: (200, b'{"key": "../../x"}'),
        "a list": lambda: (200, b"[]"),
        "a problem": lambda: problem("superseded"),
    }
    with watched(tmp_path) as (peer, bench, operator):
        lies = ("another checkpoint", "another key", "garbage", "cancelled", "an invented history")
        for number, name in enumerate((*keys, *lies)):
            peer.key, peer.lie = keys.get(name), None if name in keys else LIES[name]
            result = ended(bench, f"failed-{number}", QUICK)
            assert "fix that witness, or start the referee without it" in result["reason"], name
            found = result["status"], result["agents"]["asked"], result["privacy"]["curator"]
            assert found == ("failed", 0, NOTHING.wire()), name
        peer.key, peer.lie = None, None
        assert ended(bench, "honest", QUICK)["status"] in ("done", "exhausted")
        assert operator.get("/v1/ready").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("hangs", ["no answer", "503 for ever"])
def test_a_run_that_waits_for_a_witness_is_cancelled_and_others_go_on_beside_it(tmp_path, hangs):
    with watched(tmp_path, patience=600.0) as (peer, bench, operator):
        bench.hooks = [lambda: None]
        assert ended(bench, "first", QUICK)["status"] in ("done", "exhausted")
        peer.lie = LIES[hangs]
        bench.referee.create("stuck", QUICK, 1)
        until(lambda: any("waits for a witness" in note.text for note in bench.referee.notes("stuck")))
        assert bench.referee.store.run("stuck").result is None
        bench.referee.create("behind", QUICK, 1)
        assert operator.put("/v1/runs/behind/cancellation").json()["status"] in ("cancelling", "cancelled")
        assert ended(bench, "behind")["status"] == "cancelled"
        assert bench.referee.store.run("stuck").result is None
        assert operator.get("/v1/ready").status_code == 200
        assert operator.put("/v1/runs/stuck/cancellation").json()["status"] in ("cancelling", "cancelled")
        assert ended(bench, "stuck")["status"] == "cancelled"
        peer.lie = None
        assert ended(bench, "last", QUICK)["status"] in ("done", "exhausted")


STALLS: dict[str, Answer] = {"no answer": None, "202 for ever": (202, b"{}"), "503 for ever": (503, b"{}")}


@pytest.mark.slow
@pytest.mark.parametrize("at", ["configuration", "perform", "acknowledgement"])
def test_a_run_is_cancelled_however_its_curator_stalls(tmp_path, at):
    """The curator is honest up to a message of one kind, and stalls from there on, also when the run has to end."""
    with (
        closing(Peer()) as peer,
        closing(CuratorClient(peer.url)) as client,
        driving(tmp_path, 6000) as (bench, runner, _, _),
    ):
        curators = bench._gate.curator
        client.identity, bench.referee._curator, bench.hooks = bench.referee.identity, client, []
        ask = {"configuration": curators.open_run, "perform": curators.perform, "acknowledgement": curators.acknowledge}
        stall: list[Answer] = []
        met = threading.Event()

        def answer(signed: Signed) -> Answer:
            if signed.kind == at:
                met.set()
            if met.is_set():
                return stall[0]
            reply = ask[signed.kind](signed)
            return (204, b"") if reply is None else (200, reply.raw())

        peer.lie = answer
        runner.start()
        for number, (name, how) in enumerate(STALLS.items()):
            if at == "configuration" and name == "503 for ever":
                continue  # nobody has agreed to anything: that is a curator which is away
            stall[:] = [how]
            met.clear()
            run = f"run-{number}"
            bench.referee.create(run, QUICK, 1)
            assert met.wait(600), name
            bench.referee.cancel(run)
            status, notes = ended(bench, run)["status"], [note.text for note in bench.referee.notes(run)]
            if at == "acknowledgement":
                assert status in ("done", "exhausted"), name
                assert any("is not countersigned" in note for note in notes), name
            else:
                assert status == "cancelled", name


SECRET = "witness-token"
REFEREE, CURATOR = Identity.create(), Identity.create()
NAMES = ("runs", "heads", "identity", "lock", "con", "nul", "com1", "0", "a-", "z" * 64, "tmp", "jsonl")
RUNS = ("runs", "Runs", "RUNS", "con", "CON", "Con", "-", "_", "a-b", "A-b", "a_b", "x" * 64, "X" * 64, "heads")
NO_NAMES = (
    *("..", "%2e%2e", "..%2fidentity.key", "%2fetc%2fpasswd", "identity.key", ".ready", HEADS, "a.", "a%20", "a+b"),
    *("%C3%A9", "e%CC%81", "A", "a%00", "a%0a", "z" * 65, "z" * 5000, "-a"),
)


def checkpoint(run: str) -> Signed:
    entries = [append(None, "configuration", {"run": run}, REFEREE)]
    return signed_checkpoint(REFEREE, run, "d" * 64, entries, 1)


def head(entries: int = 1) -> Signed:
    links = tuple(link_of(index, "entry", b"{}") for index in range(entries))
    reached = [START]
    for each in links:
        reached.append(linked(reached[-1], each))
    newest = Head(chain=reached[1], entries=entries, hash=reached[-1])
    return CURATOR.sign(Extension.KIND, Extension(head=newest, since=0, links=links).wire())


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_file_name_stands_for_one_name_alone_also_where_case_does_not_count():
    names = [file_name(run) for run in RUNS]
    assert len({name.lower() for name in names}) == len(RUNS)
    assert all(len(name) + len(".jsonl.part") < 255 for name in names)
    assert not {name.lower().partition(".")[0] for name in names} & {"con", "nul", "aux", "prn", "com1", "lpt1"}
    assert file_name("a-b_7") == "a-b_7"  # what most names are
    for wrong in ("", ".", "..", "a/b", "a.", "a ", "\u00e9", "e\u0301", "a+b", "a\n", "a\0", "x" * 65):
        with pytest.raises(BadInput, match="no file is named after"):
            file_name(wrong)


def test_heads_of_any_name_leave_room_for_runs_and_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_WITNESS_TOKEN", SECRET)
    with asking(witness_app(tmp_path, SECRET), SECRET) as raw:
        address = str(raw.base_url)
        with closing(WitnessClient(address, SECRET)) as client:
            client.key()
            heads = [HttpWitness(f"{address}/v1/heads/{name}") for name in NAMES]
            for entries, witness in enumerate(heads, start=1):
                assert last_head(witness) is None
                witness.keep(head(entries))
            assert [last_head(witness).entries for witness in heads] == [*range(1, len(NAMES) + 1)]
            for run in RUNS:
                client.keep(checkpoint(run))
            for run in RUNS:
                (kept,) = client.kept(REFEREE.public, run)
                assert kept.verified(REFEREE.public).run == run
            assert [seen.run for seen in client.runs(REFEREE.public)] == sorted(RUNS)
        before = everything(tmp_path)
        refused = [f"/v1/heads/{name}" for name in NO_NAMES]
        refused += [f"/v1/runs/{REFEREE.public}/{name}" for name in NO_NAMES if name not in ("A", "-a")]
        for path in refused:
            assert 400 <= raw.get(path).status_code < 500, path
            assert 400 <= raw.put(path, content=head().raw()).status_code < 500, path
        for key in ("..", "A" * 64, "x", f"{REFEREE.public}%0a"):
            assert 400 <= raw.put(f"/v1/runs/{key}/run", content=checkpoint("run").raw()).status_code < 500, key
        assert everything(tmp_path) == before


def test_an_agent_keeps_what_it_was_shown_of_runs_that_differ_by_case(tmp_path):
    def store(folder: Path, run: str) -> None:
        stored = StoredCheckpoint(checkpoint=checkpoint(run))
        checking.store_seen(folder, run, checking.SeenCheckpoint(stored, frozenset({1})))

    for run in RUNS:
        store(tmp_path, run)
    assert len({path.name.lower() for path in (tmp_path / checking.SEEN_FOLDER).iterdir()}) == len(RUNS)
    for run in RUNS:
        assert checking.seen_checkpoint(tmp_path, run).checkpoint.verified().run == run
    # As a file system without case finds it.
    checking._seen_path(tmp_path, "Runs").rename(checking._seen_path(tmp_path, "rUNS"))
    assert checking.seen_checkpoint(tmp_path, "rUNS") is None
