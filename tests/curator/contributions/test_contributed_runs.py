"""From contributions to a run: the same as about the file that they would be in, fixed from its beginning."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from common.core import errors
from common.core.durable import durable_key
from common.core.errors import BadInput, BrokenLedger, Forged, RunBegun
from common.crypto.identity import Identity
from common.data.loading import load
from common.data.tables import record_of
from common.lifetime.ledger import PeopleLedger
from common.log.ledger import KEY, LEDGER, Chain
from common.scenario import loading
from common.scenario.plan import resolve
from curator import cli as curator_cli
from curator.app import curator_app
from curator.cli import app as curator_command
from curator.contributions import collection as opening
from curator.contributions import messages
from curator.contributions.collection import Collection, collecting, collecting_app, new_invitations, serving_collection
from curator.contributions.contributor import SENT, CollectorClient, Contributor
from curator.contributions.store import FILE
from curator.ledger import backup, entry_summaries, restore
from curator.startup import open_curator
from deploy.deployment import Embedded
from tests.curator.contributions import given
from tests.curator.contributions.given import PEOPLE, TABLE, TOKEN, Direct, fill, give, person, rows, scenario
from tests.curator.contributions.test_collection import ONE, OTHER, agreed, sent
from tests.support import served

LEFT = {"plan": "pro", "visits": 29, "renews": "no"}
"""Somebody who withdraws."""


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A curator to whom all have contributed, one of them from a directory of their own. To be copied."""
    folder = tmp_path_factory.mktemp("collected")
    chosen = scenario(folder)
    fill(folder / "curator", chosen, rows()[:-1])
    with collecting(folder / "curator", chosen) as collection:
        give(folder / "me", collection, rows()[-1])
    return folder


@pytest.fixture
def curator(tmp_path: Path, collected: Path) -> Path:
    """A copy of its state directory; beside it that of one of the people."""
    shutil.copytree(collected, tmp_path / "state")
    return tmp_path / "state" / "curator"


def test_a_value_is_read_in_any_spelling_and_sealed_in_that_of_the_list(tmp_path: Path) -> None:
    plans = {"kind": "category", "column": "plan", "values": ["True", "False", "1e3"]}
    label = {"column": "renews", "positive": ["1.0"], "negative": ["0"]}
    chosen = scenario(tmp_path, {**TABLE, "features": [plans], "label": label, "contributed": True})
    table = chosen.source.table
    assert table is not None
    kinds_of = [(True, 1), ("true", 1.0), ("FALSE", "0"), (False, False), (1000, "01"), (1000.0, "0.0")]
    people = [{"plan": plan, "renews": renews} for plan, renews in (kinds_of * PEOPLE)[:PEOPLE]]
    assert {len(given.sealable(person, table)) for person in people} == {messages.record_length(table)}
    assert messages.checked_fields(people[0], table) == {"plan": "True", "renews": "1.0"}
    fill(tmp_path / "curator", chosen, people)
    found = opening.Contributions(tmp_path / "curator", chosen)(table, None).records
    single = [record_of(person, table) for person in people]
    assert found.features.tolist() == [one.features[0].tolist() for one in single]
    assert found.labels.tolist() == [int(one.labels[0]) for one in single]
    assert found.features.sum(axis=1).tolist() == [1.0] * PEOPLE


def begin(folder: Path, seed: int | None = 1) -> None:
    """Start the curator, and stop it."""
    open_curator(scenario(folder.parent), folder, seed, None).close()


def kinds(folder: Path) -> list[str]:
    return [entry["kind"] for entry in entry_summaries(folder)]


def released(folder: Path) -> list[object]:
    found = [entry.body for entry in Chain(folder / LEDGER).entries if entry.kind in ("charge", "result")]
    return [{name: body[name] for name in ("operation", "event", "result") if name in body} for body in found]


@pytest.mark.slow
def test_a_run_about_contributions_is_that_about_the_same_rows_in_a_file(tmp_path, curator):
    """Bit for bit: what the curator releases, what agents are asked, and the result."""
    given.write(tmp_path / "people.csv", rows())
    of_file = scenario(tmp_path, {**TABLE, "files": ["people.csv"]})
    results = [
        Embedded(folder).run(chosen, 1, "run", lambda text, numbers: None).result
        for folder, chosen in ((curator.parent, scenario(tmp_path)), (tmp_path / "filed", of_file))
    ]
    for name in ("status", "reason", "iterations", "answer", "estimate", "agents", "privacy", "rounds"):
        assert results[0].get(name) == results[1].get(name)
    assert results[0]["answer"] is not None
    assert released(curator) == released(tmp_path / "filed" / "curator")
    assert len(released(curator)) >= 2


def test_who_withdrew_is_not_in_it_and_the_others_keep_their_positions(tmp_path):
    """As a row of a file that is not kept: sampling goes by the number of the row."""
    chosen = scenario(tmp_path)
    fill(tmp_path / "curator", chosen, rows()[:5])
    with collecting(tmp_path / "curator", chosen) as collection:
        leaving = give(tmp_path / "me", collection, LEFT)
    fill(tmp_path / "curator", chosen, [])
    with collecting(tmp_path / "curator", chosen, most=PEOPLE + 1) as collection:
        for place, fields in enumerate(rows()[5:]):
            give(tmp_path / str(place), collection, fields)
        leaving.withdraw(Direct(collection), TOKEN)
    found = opening.Contributions(tmp_path / "curator", chosen)(chosen.source.table, None)
    assert found.rows.tolist() == [place for place in range(PEOPLE + 1) if place != 5]
    given.write(tmp_path / "people.csv", rows())
    loaded = load(tmp_path, scenario(tmp_path, {**TABLE, "files": ["people.csv"]}).source.table)
    assert found.records.features.tobytes() == loaded.features.tobytes()
    assert found.records.labels.tobytes() == loaded.labels.tobytes()


@pytest.mark.slow
def test_real_contributors_are_charged_as_people_and_stand_in_a_secret_order(tmp_path, curator):
    real = scenario(tmp_path, people="real")
    keys = fill(tmp_path / "one" / "curator", real, rows())
    fill(tmp_path / "two" / "curator", real, rows(), keys)
    Embedded(tmp_path / "one").run(real, None, "run", lambda text, numbers: None)
    assert [row["people"] for row in PeopleLedger().table()] == [PEOPLE]
    assert len(durable_key(tmp_path / "one" / "curator" / "order.key")) == 32
    with pytest.raises(errors.BudgetExceeded, match=r"12 of 12 rows of the curator's people .*curator.lifetime"):
        open_curator(real, tmp_path / "two" / "curator", None, None)
    # Nobody was asked anything, so nothing is fixed: they may still go.
    with collecting(tmp_path / "two" / "curator", real) as collection:
        assert collection.counts() == (PEOPLE, 0)


def test_too_few_begin_nothing(tmp_path, curator):
    with pytest.raises(BadInput, match="no contributions in"):
        open_curator(scenario(tmp_path), tmp_path / "nobody", 1, None)
    me = Contributor(curator.parent / "me", None)
    with collecting(curator, scenario(curator.parent)) as collection:
        me.withdraw(Direct(collection), TOKEN)
    with pytest.raises(BadInput, match="12 people are wanted, and fewer have contributed"):
        begin(curator)
    with collecting(curator, scenario(curator.parent)) as collection:
        give(tmp_path / "another", collection, rows()[-1])
    begin(curator)


def test_the_beginning_is_an_entry_of_the_ledger_and_a_restart_is_the_same_run(curator):
    chosen = scenario(curator.parent)
    me = Contributor(curator.parent / "me", None)
    with closing(open_curator(chosen, curator, 1, None)):
        with pytest.raises(BadInput, match="in use by another process"), collecting(curator, chosen):
            pass
        with closing(serving_collection(curator, chosen)) as begun, pytest.raises(RunBegun, match="the run has begun"):
            me.withdraw(Direct(begun), TOKEN)
    assert kinds(curator) == ["genesis", "sample"]
    with pytest.raises(RunBegun, match="fresh directory"), collecting(curator, chosen):
        pass
    begin(curator)
    assert kinds(curator) == ["genesis", "sample"]


@pytest.mark.parametrize("change", [
    "UPDATE kept SET position = 100 WHERE position = 3",
    "UPDATE kept SET envelope = (SELECT envelope FROM kept WHERE position = 4) WHERE position = 3",
    'UPDATE kept SET envelope = replace(envelope, \'"sealed":"\', \'"sealed":"A\') WHERE position = 3',
    "DELETE FROM kept WHERE position = 3",
])  # fmt: skip
def test_contributions_that_were_touched_after_the_beginning_are_not_started_on(curator, change):
    begin(curator)
    with closing(sqlite3.connect(curator / "contributions" / FILE)) as connection:
        connection.execute(change)
        connection.commit()
    with pytest.raises((BrokenLedger, BadInput), match=r"run has begun with|cannot be opened|fewer have contributed"):
        begin(curator)


def test_what_comes_while_a_curator_starts_stops_the_start(tmp_path, curator, monkeypatch):
    """The directory is held only once the sample is read: what was contributed in between is not lost in silence."""
    real = opening.Contributions.__call__

    def late(self, table, seen):
        found = real(self, table, seen)
        with collecting(curator, scenario(curator.parent), most=PEOPLE + 1) as collection:
            give(tmp_path / "late", collection, LEFT)
        return found

    monkeypatch.setattr(opening.Contributions, "__call__", late)
    with pytest.raises(BadInput, match="while the curator started"):
        begin(curator)
    monkeypatch.setattr(opening.Contributions, "__call__", real)
    assert kinds(curator) == ["genesis"]
    begin(curator)


def test_without_the_key_that_lies_beside_them_they_cannot_be_opened(curator):
    (curator / "contributions" / "hpke.key").write_bytes(bytes(31) + b"\x01")
    with pytest.raises(BrokenLedger, match="cannot be opened"):
        begin(curator)
    identity = Identity.load_or_create(curator / KEY)
    with pytest.raises(BadInput, match="another scenario, curator or policy"):
        Collection(curator, scenario(curator.parent), identity, most=2)


def test_a_copy_holds_contributions_once_nobody_can_be_taken_out_any_more(tmp_path, curator):
    """A copy from before would bring back who has withdrawn."""
    backup(curator, tmp_path / "early")
    assert not (tmp_path / "early" / "contributions").exists()
    begin(curator)
    backup(curator, tmp_path / "late")
    shutil.rmtree(curator / "contributions")
    (curator / LEDGER).unlink()
    restore(tmp_path / "late", curator)
    begin(curator)
    assert kinds(curator) == ["genesis", "sample"]


RUNNER = CliRunner()


@pytest.fixture
def address(collection: Collection) -> Iterator[str]:
    with served(collecting_app(collection)) as found:
        yield found


def dialled(address: str) -> closing[CollectorClient]:
    return closing(CollectorClient(address, patience=0.0))


@pytest.mark.slow
def test_strangers_put_nothing_into_the_sample_and_no_body_of_theirs_is_read(tmp_path, collection, address):
    give(tmp_path / "me", collection, ONE)
    for headers in ({}, {"Authorization": "Bearer wrong-token-of-a-stranger"}):
        reply = httpx.post(f"{address}/v1/contributions", content=sent(tmp_path / "me").raw(), headers=headers)
        assert (reply.status_code, reply.json()["type"]) == (401, "urn:tandem:problem:unauthorized")
    host, port = address.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as stranger:
        head = f"POST /v1/contributions HTTP/1.1\r\nHost: here\r\nContent-Length: {collection.largest}\r\n\r\n"
        stranger.sendall(head.encode())
        assert stranger.recv(12) == b"HTTP/1.1 401"  # while the whole body is owed
    with (
        dialled(address) as way,
        pytest.raises(errors.Unauthorized, match=r"the curator at .* says: .*contribution token"),
    ):
        person(tmp_path / "other", collection).contribute(OTHER, way, "wrong-token", agreed)
    assert collection.counts() == (1, 0)


@pytest.mark.slow
def test_a_code_from_a_word_processor_is_that_code_and_what_no_header_carries_is_said(tmp_path, collection, address):
    (code,) = new_invitations(tmp_path / "curator", 1)
    me, typed = person(tmp_path / "me", collection), code.replace("-", "\u2013")
    with dialled(address) as way:
        for wrong in (f"\u00e9{code}", f"{code}\x00", f"\U0001d7d8{code}"):
            with pytest.raises(BadInput, match="give it as it was handed out"):
                me.contribute(ONE, way, wrong, agreed)
        assert me.contribute(ONE, way, f"\u00a0{typed}\n", agreed).message["status"] == "kept"


@pytest.mark.slow
def test_what_is_too_large_is_not_read(address, collection):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path, most in (("contributions", collection.largest), ("withdrawals", 4096)):
        reply = httpx.post(f"{address}/v1/{path}", content=b" " * (most + 1), headers=headers)
        assert (reply.status_code, reply.json()["type"]) == (413, "urn:tandem:problem:too-large")
    assert collection.largest < 1 << 12


@pytest.mark.slow
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


KILLED = """
import os, signal, sys
from pathlib import Path
from common.scenario.plan import resolve
from common.scenario import loading
from common.net.server import listen, serve
from curator.contributions.collection import Collection, collecting, collecting_app
Collection._receipt = lambda *given: os.kill(os.getpid(), signal.SIGKILL)  # what is stored is stored by now
chosen = resolve(loading.load(sys.argv[1]))
with listen("127.0.0.1", 0) as listener, collecting(Path(sys.argv[2]), chosen, token=sys.argv[3]) as collection:
    print(collection.curator, flush=True)
    serve(collecting_app(collection), listener, "curator")
"""


@pytest.mark.slow
def test_a_curator_that_is_killed_between_storing_and_acknowledging_takes_it_once(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(scenario(tmp_path).wire()))
    arguments = [sys.executable, "-c", KILLED, str(file), str(tmp_path / "curator"), TOKEN]
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as party:
        assert party.stdout is not None
        key, said = party.stdout.readline().strip(), party.stdout.readline()
        me = Contributor(tmp_path / "me", key)
        with dialled(said.split()[-1]) as client, pytest.raises(errors.PeerUnavailable):
            me.contribute(ONE, client, TOKEN, agreed)
        assert party.wait(60) == -signal.SIGKILL
    chosen = resolve(loading.load(str(file)))
    with collecting(tmp_path / "curator", chosen) as collection, dialled_app(collection) as client:
        assert collection.counts() == (1, 0)
        receipt = me.contribute(ONE, client, TOKEN, agreed)
        assert collection.counts() == (1, 0)
        assert receipt.message["contribution"] == sent(tmp_path / "me").message["contribution"]


@pytest.mark.slow
def test_a_curator_that_serves_says_that_the_run_has_begun(tmp_path, collection, bench):
    me = give(tmp_path / "me", collection, ONE)
    collection.run_begun = True
    with served(curator_app(bench.curator, contributions=collection)) as address, dialled(address) as client:
        with pytest.raises(RunBegun, match="the run has begun, and with it the sample is fixed"):
            me.withdraw(client, TOKEN)
        assert me.contribute(ONE, client, TOKEN, agreed).message["status"] == "kept"
        assert client.request("GET", "/v1/curator").status_code == 200


# The command ----------------------------------------------------------------------------------------------------------


def contribute(*arguments: str):
    return RUNNER.invoke(curator_command, ["contribute", *arguments], env={"TANDEM_CONTRIBUTION_TOKEN": TOKEN})


@pytest.mark.slow
def test_the_command_shows_what_it_sends_and_what_is_promised(tmp_path, collection, address):
    (tmp_path / "me.json").write_text(json.dumps({**ONE, "name": "Ada Lovelace"}))
    given = [str(tmp_path / "me.json"), "--field", "visits=7", "--to", address, "--state", str(tmp_path / "me")]
    unknown = contribute(*given, "--yes")
    assert (unknown.exit_code, "--curator-key" in unknown.stderr) == (1, True)
    nobody = contribute(*given, "--curator-key", collection.curator)
    assert (nobody.exit_code, "cannot ask for consent" in nobody.stderr) == (1, True)
    done = contribute(*given, "--curator-key", collection.curator, "--yes")
    words = " ".join(done.stdout.split())
    assert done.exit_code == 0, done.stderr
    for said in ("these 3 fields, and no other plan family renews yes visits 7", "(8, 0.0001)-differential privacy",
                 "a run about 12 people", collection.curator, "is kept by the curator"):  # fmt: skip
        assert said in words
    assert "Ada" not in words
    gone = contribute("--withdraw", "--to", address, "--state", str(tmp_path / "me"))
    assert (gone.exit_code, "is deleted" in gone.stdout) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "status", "said"), [
    ([], 2, "give a JSON file"),
    (["--field", "visits"], 2, "COLUMN=VALUE"),
    (["--withdraw", "--field", "visits=1"], 2, "takes no record"),
    (["nothing.json", "--yes"], 1, "cannot be read as JSON"),
    (["--field=visits=99", "--field=plan=pro", "--field=renews=no", "--yes"], 1, "beyond the public bounds"),
    (["--withdraw"], 1, "nothing was contributed from"),
])  # fmt: skip
def test_what_the_command_refuses(tmp_path, collection, address, arguments, status, said):
    to = ["--to", address, "--state", str(tmp_path / "me"), "--curator-key", collection.curator]
    done = contribute(*arguments, *to)
    assert done.exit_code == status
    assert said in " ".join(done.stderr.replace("│", "").split())
    assert done.stdout == ""


@pytest.mark.slow
def test_a_person_who_is_asked_and_says_no_gives_nothing(tmp_path, collection, address, monkeypatch):
    monkeypatch.setattr(curator_cli, "has_terminal", lambda: True)
    fields = [part for name, value in ONE.items() for part in ("--field", f"{name}={value}")]
    arguments = ["contribute", *fields, "--to", address, "--state", str(tmp_path / "me")]
    arguments += ["--curator-key", collection.curator, "--token", TOKEN]
    no = RUNNER.invoke(curator_command, arguments, input="n\n")
    assert (no.exit_code, "not confirmed: nothing was sent" in no.stderr, collection.counts()) == (1, True, (0, 0))
    assert not (tmp_path / "me" / SENT).exists()
    assert RUNNER.invoke(curator_command, arguments, input="y\n").exit_code == 0
    assert collection.counts() == (1, 0)
