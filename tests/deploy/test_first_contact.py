"""Whom a curator and an agent obey and believe: the referee whose key they were given, and who shows certificates.

TLS is that of the commands themselves: a run over it, witness and all, and what each says when something is amiss.
"""

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
import yaml
from typer import Typer
from typer.testing import CliRunner, Result

from common.core.errors import Forged
from common.crypto.identity import Identity, Signed
from common.net import tls
from curator.cli import app as curator_command
from deploy.processes import PartyProcess, free_port
from local_agent.cli import app as agent_command
from referee.cli import app as referee_command
from referee.service.referee import CuratorClient
from tests.certified import PAST, circle
from tests.support import TOKEN, Bench, served, tiny

pytestmark = pytest.mark.slow
RUNNER, NUMBERS = CliRunner(), itertools.count()


@pytest.fixture(scope="module")
def scenario(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("scenario") / "tiny.yaml"
    path.write_text(yaml.safe_dump(tiny().wire()))
    return str(path)


def configuration(folder: Path) -> tuple[Identity, Signed]:
    """Return a referee's identity, and the configuration of a run that it signs."""
    with Bench(folder) as bench:
        bench.open()
        return Identity.load_or_create(folder / "referee" / "identity.key"), bench.referee.configuration("run")


@contextmanager
def up(folder: Path, *words: str, says: str = "listens on", **environment: str) -> Iterator[tuple[str, PartyProcess]]:
    """Run a party until the block ends; gives the line in which it says that it is there."""
    party = PartyProcess(f"party-{next(NUMBERS)}", list(words), folder, environment)
    try:
        yield party.wait_for(says), party
    finally:
        party.stop()


@contextmanager
def curator(folder: Path, scenario: str, *words: str) -> Iterator[tuple[str, PartyProcess]]:
    """Run ``curator serve`` until the block ends; gives its address."""
    command = ("curator.cli", "serve", scenario, "--seed", "1", "--state", str(folder / "state"), "--port", "0")
    with up(folder, *command, *words) as (line, party):
        yield line.split()[-1], party


def opens(address: str, identity: Identity, signed: Signed) -> bool:
    """Tell whether a referee may open its run with a curator."""
    with closing(CuratorClient(address, patience=0.0)) as client:
        client.identity = identity
        try:
            client.open_run(signed)
        except Forged as error:
            if "start a curator with that referee's --referee-key" not in error.detail:
                raise
            return False
        return True


def refused(command, *words: str, environment: dict[str, str] | None = None) -> str:
    outcome = RUNNER.invoke(command, list(words), env=environment)
    assert outcome.exit_code == 1, (outcome.output, outcome.exception)
    assert outcome.stdout == ""
    assert len(outcome.stderr.splitlines()) == 1, outcome.stderr
    return outcome.stderr


def test_a_curator_without_a_key_does_not_start_and_leaves_nothing(tmp_path, scenario):
    state = tmp_path / "state"
    serve = ["serve", scenario, "--seed", "1", "--port", "0", "--state", str(state)]
    told = refused(curator_command, *serve)
    assert all(word in told for word in ("--referee-key", "referee key", "--trust-first-contact"))
    for key in ("", "abc", "g" * 64, "A" * 64, "0" * 63, f"{'0' * 64} {'0' * 64}", "\x1b[31m" + "0" * 64):
        told = refused(curator_command, *serve, "--referee-key", key)
        assert "--referee-key is a public key of 64 hexadecimal digits" in told
        assert "\x1b" not in told
    assert not state.exists()


def test_a_stranger_who_comes_first_gets_nothing_and_a_run_that_was_opened_needs_no_key(tmp_path, scenario):
    honest, ours = configuration(tmp_path / "honest")
    stranger, theirs = configuration(tmp_path / "stranger")
    for words in (["--referee-key", f" {honest.public}\n"], []):
        with curator(tmp_path, scenario, *words) as (address, party):
            assert not opens(address, stranger, theirs)
            assert opens(address, honest, ours)
            assert "first contact" not in party.logged()
    serve = ["serve", scenario, "--seed", "1", "--port", "0", "--state", str(tmp_path / "state")]
    told = refused(curator_command, *serve, "--referee-key", stranger.public)
    assert f"belongs to referee {honest.public[:16]}..., not to {stranger.public[:16]}..." in told
    assert "--referee-key" in told


def test_trust_at_first_contact_is_an_option_that_warns(tmp_path, scenario):
    stranger, theirs = configuration(tmp_path / "stranger")
    honest, ours = configuration(tmp_path / "honest")
    with curator(tmp_path, scenario, "--trust-first-contact") as (address, party):
        assert party.logged().count("trusts at first contact") == 1
        assert opens(address, stranger, theirs)
        assert not opens(address, honest, ours)
    with curator(tmp_path, scenario, "--trust-first-contact") as (_, party):
        assert "first contact" not in party.logged()  # the ledger holds whom it obeys


def test_referee_key_prints_what_a_curator_and_an_agent_are_given(tmp_path, scenario):
    def printed(*words: str) -> str:
        outcome = RUNNER.invoke(referee_command, ["key", *words])
        assert outcome.exit_code == 0, outcome.output
        return outcome.stdout.strip()

    key = printed("--state", str(tmp_path / "referee"))
    assert printed("--state", str(tmp_path / "referee")) == key
    assert printed("--key", str(tmp_path / "referee" / "identity.key")) == key
    assert key == Identity.load_or_create(tmp_path / "referee" / "identity.key").public
    assert (tmp_path / "referee").stat().st_mode & 0o077 == 0
    raw = tmp_path / "raw.key"
    raw.write_bytes(bytes(range(32)))  # as the secret of a cluster holds it
    raw.chmod(0o400)
    assert printed("--key", str(raw)) == Identity.load_or_create(raw).public


def test_an_agent_that_knows_no_key_trusts_at_first_contact_with_a_warning_and_only_then(tmp_path, scenario):
    me = tmp_path / "me.json"
    me.write_text(json.dumps({"features": [0.1] * 8, "label": 1}))
    with Bench(tmp_path / "bench", individuals=1) as bench, served(bench.app()) as address:
        key, other = bench.referee.identity.public, Identity.create().public
        for name, words in (
            ("host", ["host", scenario, "--seed", "1", "--agents", "1"]),
            ("answer", ["answer", str(me), "--epsilon", "4", "--yes"]),
        ):
            state = ["--state", str(tmp_path / name), "--token", TOKEN, "--referee", address]
            wrong = refused(agent_command, *words, *state, "--referee-key", other)
            assert f"has the key {key[:16]}..., expected {other[:16]}..." in wrong
            assert "64 hexadecimal digits" in refused(agent_command, *words, *state, "--referee-key", "abc")
            fresh = ["--state", str(tmp_path / f"{name}-fresh"), *state[2:]]
            denied = [part if part != TOKEN else "another-token" for part in fresh]  # ends it once it knows the key
            told = RUNNER.invoke(agent_command, [*words, *denied]).stderr.splitlines()
            assert "trusted at first contact" in told[0]
            assert key in told[0]
            assert len(told) == 2
            assert "first contact" not in refused(agent_command, *words, *denied)
            assert "first contact" not in refused(
                agent_command, *words, *denied, environment={"TANDEM_REFEREE_KEY": key}
            )


TOKENS = {
    "TANDEM_ENROLMENT_TOKEN": "enrolment-of-tests",
    "TANDEM_OPERATOR_TOKEN": "operator-of-tests",
    "TANDEM_WITNESS_TOKEN": "witness-of-tests",
    "TANDEM_METRICS_TOKEN": "metrics-of-tests",
}
TRUSTING = ("--trust-first-contact",)  # what is tried here is TLS
NONE = (tls.CA, tls.CERT, tls.KEY, tls.CLIENT_CA, tls.CLIENT_CERT, tls.CLIENT_KEY)


def call(folder: Path, command: Typer, *words: str) -> Result:
    """Give a command in this process, which keeps nothing of what its options say of TLS."""
    return RUNNER.invoke(command, list(words), env={**dict.fromkeys(NONE), **TOKENS, "XDG_STATE_HOME": str(folder)})


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    return circle(tmp_path_factory.mktemp("ours"))


def server(folder: Path, party: str) -> list[str]:
    return ["--tls-cert", str(folder / party / "server.pem")]


def test_a_run_over_tls_with_a_witness_ends_as_it_would_without(ours, scenario, tmp_path):
    ports = [str(free_port()) for _ in range(3)]
    curator, referee, witness = (f"https://127.0.0.1:{port}" for port in ports)
    believing = ["--tls-ca", str(ours / "public" / "ca.pem")]
    with ExitStack() as parties:
        start = lambda *words, **rest: parties.enter_context(up(tmp_path, *words, **TOKENS, **rest))[0]  # noqa: E731
        start("referee.cli", "witness", "--state", str(tmp_path / "w"), "--port", ports[2], *server(ours, "witness"))
        admitting = ["--tls-client-ca", str(ours / "curator" / "ca.pem")]
        heads = ["--witness", f"{witness}/v1/heads/curator", *believing]
        said = start(
            "curator.cli", "serve", scenario, "--seed", "1", "--port", ports[0], "--ephemeral", *TRUSTING,
            *server(ours, "curator"), *admitting, *heads,
        )  # fmt: skip
        assert curator in said
        shown = ["--tls-client-cert", str(ours / "referee" / "client.pem")]
        start(
            "referee.cli", "serve", "--port", ports[1], "--curator", curator, "--witness", witness,
            *server(ours, "referee"), *believing, *shown,
        )  # fmt: skip
        hosting = ["host", scenario, "--seed", "1", "--referee", referee, *believing]
        start("local_agent.cli", *hosting, says="hosts")
        run = ["run", scenario, "--seed", "1", "--deployment", referee, "--json", "--output", str(tmp_path / "run")]
        done = call(tmp_path, referee_command, *run, *believing)
        assert done.exit_code == 0, done.stderr
        over_tls = json.loads(done.stdout)
        listed = call(tmp_path, referee_command, "runs", "--url", referee, "--json", *believing)
        assert [line["status"] for line in json.loads(listed.stdout)] == [over_tls["status"]]
        audited = call(
            tmp_path, referee_command, "audit", str(tmp_path / "run"), "--witness", witness, "--json", *believing
        )
        assert audited.exit_code == 0, audited.stderr
        refused = call(tmp_path, referee_command, "runs", "--url", referee)
        complains(refused, f"Peer not trusted: the referee at {referee} shows a certificate of an author")
        unshown = call(tmp_path, referee_command, "serve", "--port", "0", "--curator", curator, *believing)
        complains(unshown, f"the curator at {curator} speaks only to who shows a certificate", "--tls-client-cert")
    plain = call(tmp_path, referee_command, *run[:4], "--json", "--ephemeral", "--output", str(tmp_path / "plain"))
    in_the_clear = json.loads(plain.stdout)
    same = ("status", "iterations", "answer", "estimate", "privacy")
    assert {name: over_tls[name] for name in same} == {name: in_the_clear[name] for name in same}


def complains(done: Result, *words: str) -> None:
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1), done.stderr
    assert all(word in done.stderr for word in words), done.stderr


def test_a_service_whose_certificate_has_ended_or_is_missing_does_not_start(scenario, tmp_path):
    ended = circle(tmp_path / "ended", now=PAST)
    for party, command, words in (
        ("curator", curator_command, ["serve", scenario, "--port", "0"]),
        ("referee", referee_command, ["serve", "--port", "0"]),
        ("witness", referee_command, ["witness", "--port", "0", "--state", "w"]),
    ):
        remedy = "make another (referee certificates DIR)"
        complains(call(tmp_path, command, *words, *server(ended, party)), f"the certificate of this {party} (", remedy)
    done = call(tmp_path, curator_command, "serve", scenario, "--port", "0", "--tls-client-ca", "x.pem")
    complains(done, "--tls-client-ca is for a curator that speaks TLS: name its certificate with --tls-cert")
