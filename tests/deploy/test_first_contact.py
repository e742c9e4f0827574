"""Whom a curator and an agent obey: the referee whose key they were given, and no stranger who comes first."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from common.core.errors import Forged
from common.crypto.identity import Identity, Signed
from curator.cli import app as curator_command
from local_agent.cli import app as agent_command
from referee.cli import app as referee_command
from referee.service.app import referee_app
from referee.service.referee import CuratorClient
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, served, tiny

pytestmark = [pytest.mark.slow]
RUNNER = CliRunner()


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
def curator(folder: Path, scenario: str, *words: str) -> Iterator[tuple[str, Path]]:
    """Run ``curator serve`` until the block ends; gives its address, and what it writes on its standard error."""
    command = [sys.executable, "-m", "curator.cli", "serve", scenario, "--seed", "1", "--state", str(folder / "state")]
    environment = {name: value for name, value in os.environ.items() if name != "TANDEM_REFEREE_KEY"}
    errors = folder / "errors"
    with (
        errors.open("w") as written,
        subprocess.Popen(
            [*command, "--port", "0", *words], stdout=subprocess.PIPE, stderr=written, text=True, env=environment
        ) as process,
    ):
        try:
            line = next((line for line in process.stdout if "listens on" in line), "")
            assert line, errors.read_text()
            yield line.split()[-1], errors
        finally:
            process.terminate()


def opens(address: str, identity: Identity, signed: Signed) -> bool:
    """Tell whether a referee may open its run with a curator."""
    client = CuratorClient(address, patience=0.0)
    client.identity = identity
    try:
        client.open_run(signed)
    except Forged:
        return False
    finally:
        client.close()
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
    for words in (["--referee-key", honest.public], ["--referee-key", f" {honest.public}\n"], []):
        with curator(tmp_path, scenario, *words) as (address, errors):
            assert not opens(address, stranger, theirs)
            assert opens(address, honest, ours)
            assert "first contact" not in errors.read_text()
    serve = ["serve", scenario, "--seed", "1", "--port", "0", "--state", str(tmp_path / "state")]
    told = refused(curator_command, *serve, "--referee-key", stranger.public)
    assert f"belongs to referee {honest.public[:16]}..., not to {stranger.public[:16]}..." in told
    assert "--referee-key" in told


def test_trust_at_first_contact_is_an_option_that_warns(tmp_path, scenario):
    stranger, theirs = configuration(tmp_path / "stranger")
    honest, ours = configuration(tmp_path / "honest")
    with curator(tmp_path, scenario, "--trust-first-contact") as (address, errors):
        assert errors.read_text().count("trusts at first contact") == 1
        assert opens(address, stranger, theirs)
        assert not opens(address, honest, ours)
    with curator(tmp_path, scenario, "--trust-first-contact") as (_, errors):
        assert "first contact" not in errors.read_text()  # the ledger holds whom it obeys


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
    with (
        Bench(tmp_path / "bench", individuals=1) as bench,
        served(referee_app(bench.referee, Runner(bench.referee))) as address,
    ):
        key, other = bench.referee.identity.public, Identity.create().public
        for place, (name, words) in enumerate(
            (
                ("host", ["host", scenario, "--seed", "1", "--agents", "1"]),
                ("answer", ["answer", str(me), "--epsilon", "4", "--yes"]),
            )
        ):
            state = ["--state", str(tmp_path / name), "--token", TOKEN, "--referee", address]
            wrong = refused(agent_command, *words, *state, "--referee-key", other)
            assert f"has the key {key[:16]}..., expected {other[:16]}..." in wrong
            assert "64 hexadecimal digits" in refused(agent_command, *words, *state, "--referee-key", "abc")
            fresh = ["--state", str(tmp_path / f"{name}-{place}"), *state[2:]]
            denied = [part if part != TOKEN else "another-token" for part in fresh]  # ends it once it knows the key
            told = RUNNER.invoke(agent_command, [*words, *denied]).stderr.splitlines()
            assert "trusted at first contact" in told[0]
            assert key in told[0]
            assert len(told) == 2
            assert "first contact" not in refused(agent_command, *words, *denied)
            assert "first contact" not in refused(
                agent_command, *words, *denied, environment={"TANDEM_REFEREE_KEY": key}
            )
