"""Contributions over HTTP: strangers, somebody in between, a full disk, and a curator that is killed at its worst."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest
from typer.testing import CliRunner

from common.core.errors import BadMessage, CannotWrite, Forged, PeerUnavailable, RunBegun, Unauthorized
from common.planning.plan import resolve
from common.scenario import loading
from curator import cli_contributions
from curator.cli import app as curator_command
from curator.contributions.app import collecting_app
from curator.contributions.collection import Collection
from curator.contributions.contributor import SENT, CollectorClient, Contributor
from curator.contributions.opening import collecting
from curator.service.app import curator_app
from tests.curator.contributions.given import TOKEN, give, person, scenario
from tests.curator.contributions.test_collection import ONE, OTHER, agreed, full_disk, sent
from tests.support import served

pytestmark = pytest.mark.slow
RUNNER = CliRunner()


@pytest.fixture
def address(collection: Collection) -> Iterator[str]:
    with served(collecting_app(collection)) as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, trust_env=False, timeout=60) as found:
        yield found


@contextmanager
def dialled(address: str) -> Iterator[CollectorClient]:
    with closing(CollectorClient(address, patience=0.0)) as found:
        yield found


def test_a_person_contributes_and_withdraws(tmp_path, collection, address):
    me = person(tmp_path / "me", collection)
    with dialled(address) as client:
        assert me.contribute(ONE, client, TOKEN, agreed).message["status"] == "kept"
        assert collection.counts() == (1, 0)
        assert me.withdraw(client, "").message["status"] == "withdrawn"
    assert collection.counts() == (0, 1)


def test_strangers_put_nothing_into_the_sample_and_no_body_of_theirs_is_read(tmp_path, collection, client, address):
    give(tmp_path / "me", collection, ONE)
    signed = sent(tmp_path / "me")
    for token in ("", "wrong-token-of-a-stranger"):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        reply = client.post("/v1/contributions", content=signed.raw(), headers=headers)
        assert (reply.status_code, reply.json()["type"]) == (401, "urn:tandem:problem:unauthorized")
    host, port = address.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as stranger:
        head = f"POST /v1/contributions HTTP/1.1\r\nHost: here\r\nContent-Length: {collection.largest}\r\n\r\n"
        stranger.sendall(head.encode())
        assert stranger.recv(12) == b"HTTP/1.1 401"  # while the whole body is owed
    with dialled(address) as way, pytest.raises(Unauthorized, match=r"the curator at .* says: .*contribution token"):
        person(tmp_path / "other", collection).contribute(OTHER, way, "wrong-token", agreed)
    assert collection.counts() == (1, 0)


def test_what_is_too_large_is_not_read(client, collection):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path, most in (("/v1/contributions", collection.largest), ("/v1/withdrawals", 4096)):
        reply = client.post(path, content=b" " * (most + 1), headers=headers)
        assert (reply.status_code, reply.json()["type"]) == (413, "urn:tandem:problem:too-large")
    assert collection.largest < 1 << 12


def test_somebody_in_between_with_a_key_of_their_own_gets_nothing(tmp_path, collection):
    """A relay that answers with an offer of its own, or with the curator's offer and another sealing key."""
    with collecting(tmp_path / "relay", scenario(tmp_path), token=TOKEN) as relay, dialled_app(relay) as client:
        me = person(tmp_path / "me", collection)
        with pytest.raises(Forged, match=r"expected .*--curator-key.*Nothing was sent"):
            me.contribute(ONE, client, TOKEN, agreed)
        message = {**collection.offer.message, "public_key": relay.offer.message["public_key"]}
        relay.offer = collection.offer.model_copy(update={"message": message})
        with pytest.raises(Forged, match="does not verify"):
            me.contribute(ONE, client, TOKEN, agreed)
        assert relay.counts() == (0, 0)
        assert not (tmp_path / "me" / SENT).exists()


@contextmanager
def dialled_app(collection: Collection) -> Iterator[CollectorClient]:
    with served(collecting_app(collection)) as address, dialled(address) as client:
        yield client


def test_a_replay_at_another_curator_is_a_problem_of_the_message(tmp_path, collection):
    give(tmp_path / "me", collection, ONE)
    with (
        collecting(tmp_path / "other", scenario(tmp_path), token=TOKEN) as other,
        dialled_app(other) as client,
        pytest.raises(BadMessage, match="this is for the offer"),
    ):
        client.contribute(sent(tmp_path / "me"), TOKEN)


def test_a_full_disk_is_a_503_with_the_time_to_ask_again(tmp_path, collection, client, address, monkeypatch):
    give(tmp_path / "first", collection, OTHER)  # whose page is there
    me = person(tmp_path / "me", collection)
    with dialled(address) as way:
        with full_disk_for(monkeypatch, collection), pytest.raises(CannotWrite):
            me.contribute(ONE, way, TOKEN, agreed)
        with full_disk():
            headers = {"Authorization": f"Bearer {TOKEN}"}
            reply = client.post("/v1/contributions", content=sent(tmp_path / "me").raw(), headers=headers)
        assert (reply.status_code, reply.headers["Retry-After"]) == (503, "2")
        assert reply.json()["type"] == "urn:tandem:problem:cannot-write"
        assert collection.counts() == (1, 0)
        assert me.contribute(ONE, way, TOKEN, agreed).message["status"] == "kept"


@contextmanager
def full_disk_for(monkeypatch: pytest.MonkeyPatch, collection: Collection) -> Iterator[None]:
    """Fill the disk of the curator alone: the person has one of their own."""
    real = collection._store.add

    def adding(*arguments):
        with full_disk():
            return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(collection._store, "add", adding)
        yield


KILLED = """
import os, signal, sys
from pathlib import Path
from common.planning.plan import resolve
from common.scenario import loading
from common.planning.plan import resolve
from common.net.server import listen, serve
from curator.contributions.app import collecting_app
from curator.contributions.collection import Collection
from curator.contributions.opening import collecting
Collection._said = lambda *said: os.kill(os.getpid(), signal.SIGKILL)  # what is stored is stored by now
chosen = resolve(loading.load(sys.argv[1]))
with listen("127.0.0.1", 0) as listener, collecting(Path(sys.argv[2]), chosen, token=sys.argv[3]) as collection:
    print(collection.curator, flush=True)
    serve(collecting_app(collection), listener, "curator")
"""


def test_a_curator_that_is_killed_between_storing_and_acknowledging_takes_it_once(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(scenario(tmp_path).wire()))
    arguments = [sys.executable, "-c", KILLED, str(file), str(tmp_path / "curator"), TOKEN]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": os.getcwd()}
    ) as party:
        assert party.stdout is not None
        key, said = party.stdout.readline().strip(), party.stdout.readline()
        me = Contributor(tmp_path / "me", key)
        with dialled(said.split()[-1]) as client, pytest.raises(PeerUnavailable):
            me.contribute(ONE, client, TOKEN, agreed)
        assert party.wait(60) == -signal.SIGKILL
    with (
        collecting(tmp_path / "curator", resolve(loading.load(str(file)))) as collection,
        dialled_app(collection) as client,
    ):
        assert collection.counts() == (1, 0)
        receipt = me.contribute(ONE, client, TOKEN, agreed)
        assert collection.counts() == (1, 0)
        assert receipt.message["contribution"] == sent(tmp_path / "me").message["contribution"]


def test_a_curator_that_serves_says_that_the_run_has_begun(tmp_path, collection, bench):
    me = give(tmp_path / "me", collection, ONE)
    collection.begun = True
    with served(curator_app(bench.curator, contributions=collection)) as address, dialled(address) as client:
        with pytest.raises(RunBegun, match="the run has begun, and with it the sample is fixed"):
            me.withdraw(client, TOKEN)
        assert me.contribute(ONE, client, TOKEN, agreed).message["status"] == "kept"
        assert client.request("GET", "/v1/curator").status_code == 200


# The command ----------------------------------------------------------------------------------------------------------


def contribute(*arguments: str):
    return RUNNER.invoke(curator_command, ["contribute", *arguments], env={"TANDEM_CONTRIBUTION_TOKEN": TOKEN})


def test_the_command_shows_what_it_sends_and_what_is_promised(tmp_path, collection, address):
    (tmp_path / "me.json").write_text(json.dumps({**ONE, "name": "Ada Lovelace"}))
    given = [str(tmp_path / "me.json"), "--field", "visits=7", "--to", address, "--state", str(tmp_path / "me")]
    unknown = contribute(*given, "--yes")
    assert (unknown.exit_code, "--curator-key" in unknown.stderr) == (1, True)
    nobody = contribute(*given, "--curator-key", collection.curator)
    assert (nobody.exit_code, "nobody can be asked for consent" in nobody.stderr) == (1, True)
    done = contribute(*given, "--curator-key", collection.curator, "--yes")
    words = " ".join(done.stdout.split())
    assert done.exit_code == 0, done.stderr
    for said in ("these 3 fields, and no other plan family renews yes visits 7", "(8, 0.0001)-differential privacy",
                 "a run about 12 people", collection.curator, "is kept by the curator"):  # fmt: skip
        assert said in words
    assert "Ada" not in words
    gone = contribute("--withdraw", "--to", address, "--state", str(tmp_path / "me"))
    assert (gone.exit_code, "is deleted" in gone.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "give a JSON file"),
        (["--field", "visits"], 2, "COLUMN=VALUE"),
        (["--withdraw", "--field", "visits=1"], 2, "takes no record"),
        (["nothing.json", "--yes"], 1, "cannot be read as JSON"),
        (
            ["--field", "visits=99", "--field", "plan=basic", "--field", "renews=no", "--yes"],
            1,
            "beyond the public bounds",
        ),
        (["--withdraw"], 1, "nothing was contributed from"),
    ],
)
def test_what_the_command_refuses(tmp_path, collection, address, arguments, status, said):
    to = ["--to", address, "--state", str(tmp_path / "me"), "--curator-key", collection.curator]
    done = contribute(*arguments, *to)
    assert done.exit_code == status
    assert said in " ".join(done.stderr.replace("│", "").split())
    assert done.stdout == ""


def test_a_person_who_is_asked_and_says_no_gives_nothing(tmp_path, collection, address, monkeypatch):
    monkeypatch.setattr(cli_contributions, "has_terminal", lambda: True)
    fields = [part for name, value in ONE.items() for part in ("--field", f"{name}={value}")]
    arguments = ["contribute", *fields, "--to", address, "--state", str(tmp_path / "me")]
    arguments += ["--curator-key", collection.curator, "--token", TOKEN]
    no = RUNNER.invoke(curator_command, arguments, input="n\n")
    assert (no.exit_code, "you said no: nothing was sent" in no.stderr, collection.counts()) == (1, True, (0, 0))
    assert RUNNER.invoke(curator_command, arguments, input="y\n").exit_code == 0
    assert collection.counts() == (1, 0)
