"""TLS of the commands themselves: a run over it, witness and all, and what each party says when something is amiss."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from common.net import tls
from deploy.processes import free_port
from referee.cli import app as referee_app
from tests.certified import PAST, circle
from tests.support import tiny

pytestmark = [pytest.mark.slow]

TOKENS = {
    "TANDEM_ENROLMENT_TOKEN": "enrolment-of-tests",
    "TANDEM_OPERATOR_TOKEN": "operator-of-tests",
    "TANDEM_WITNESS_TOKEN": "witness-of-tests",
    "TANDEM_METRICS_TOKEN": "metrics-of-tests",
}
TRUSTING = ("--trust-first-contact",)  # what is tried here is TLS
NONE = (tls.CA, tls.CERT, tls.KEY, tls.CLIENT_CA, tls.CLIENT_CERT, tls.CLIENT_KEY)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NONE}
    return {**kept, **TOKENS, "XDG_STATE_HOME": str(folder)}


def call(folder: Path, *words: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@contextmanager
def up(folder: Path, *words: str, says: str = "listens on") -> Iterator[str]:
    """Run a party until the block ends; gives the line in which it says that it is there."""
    with subprocess.Popen(
        [sys.executable, "-m", *words], env=environment(folder), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            line = next((line for line in process.stdout if says in line), "")
            assert line, f"{words} ended"
            yield line
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    return circle(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def scenario(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("scenario") / "tiny.yaml"
    path.write_text(yaml.safe_dump(tiny().wire()))
    return str(path)


def server(folder: Path, party: str) -> list[str]:
    return ["--tls-cert", str(folder / party / "server.pem")]


def test_a_run_over_tls_with_a_witness_ends_as_it_would_without(ours, scenario, tmp_path):
    ports = [str(free_port()) for _ in range(3)]
    curator, referee, witness = (f"https://127.0.0.1:{port}" for port in ports)
    believing = ["--tls-ca", str(ours / "public" / "ca.pem")]
    with ExitStack() as parties:
        start = lambda *words, **rest: parties.enter_context(up(tmp_path, *words, **rest))  # noqa: E731
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
        done = call(tmp_path, "referee.cli", *run, *believing)
        assert done.returncode == 0, done.stderr
        over_tls = json.loads(done.stdout)
        listed = call(tmp_path, "referee.cli", "runs", "--url", referee, "--json", *believing)
        assert [line["status"] for line in json.loads(listed.stdout)] == [over_tls["status"]]
        audited = call(
            tmp_path, "referee.cli", "audit", str(tmp_path / "run"), "--witness", witness, "--json", *believing
        )
        assert audited.returncode == 0, audited.stderr
        refused = call(tmp_path, "referee.cli", "runs", "--url", referee)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert refused.stderr.startswith(f"Peer not trusted: the referee at {referee} shows a certificate of an author")
    plain = call(tmp_path, "referee.cli", *run[:4], "--json", "--ephemeral", "--output", str(tmp_path / "plain"))
    in_the_clear = json.loads(plain.stdout)
    same = ("status", "iterations", "answer", "estimate", "privacy")
    assert {name: over_tls[name] for name in same} == {name: in_the_clear[name] for name in same}


@pytest.mark.parametrize("amiss", ["authority", "client", "other client", "ended", "clear"])
def test_a_referee_that_cannot_speak_to_its_curator_says_so_in_a_line_and_ends(amiss, ours, scenario, tmp_path):
    other = circle(tmp_path / "other", now=PAST if amiss == "ended" else None)
    port = str(free_port())
    with up(
        tmp_path, "curator.cli", "serve", scenario, "--seed", "1", "--port", port, "--ephemeral", *TRUSTING,
        *server(ours, "curator"), "--tls-client-ca", str(ours / "curator" / "ca.pem"),
    ):  # fmt: skip
        believed = (other if amiss == "authority" else ours) / "referee" / "ca.pem"
        shown = (other if amiss in ("other client", "ended") else ours) / "referee" / "client.pem"
        words = ["serve", "--port", "0", "--tls-ca", str(believed)]
        words += ["--curator", f"{'http' if amiss == 'clear' else 'https'}://127.0.0.1:{port}"]
        words += [] if amiss in ("client", "clear") else ["--tls-client-cert", str(shown)]
        if amiss == "clear":
            done = call(tmp_path, "local_agent.cli", "host", scenario, "--referee", f"http://127.0.0.1:{port}")
        else:
            done = call(tmp_path, "referee.cli", *words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    wanted = {
        "authority": ("the curator at https://", "authority that is not trusted here", "--tls-ca"),
        "client": ("the curator at https://", "speaks only to who shows a certificate", "--tls-client-cert"),
        "other client": ("the curator at https://", "does not accept the certificate", "--tls-client-cert"),
        "ended": ("the certificate of this client of the curator", "ended on 2021-02-01", "referee certificates"),
        "clear": ("this service speaks TLS", "https://", "--tls-ca"),
    }[amiss]
    assert all(word in done.stderr for word in wanted), done.stderr


@pytest.mark.parametrize(
    ("words", "whose"),
    [
        (["curator.cli", "serve", "SCENARIO", "--port", "0"], "this curator"),
        (["referee.cli", "serve", "--port", "0"], "this referee"),
        (["referee.cli", "witness", "--port", "0", "--state", "w"], "this witness"),
    ],
)
def test_a_service_whose_certificate_has_ended_does_not_start(words, whose, scenario, tmp_path):
    ended = circle(tmp_path / "ended", now=PAST)
    words = [scenario if word == "SCENARIO" else word for word in words]
    done = call(tmp_path, *words, *server(ended, whose.split()[1]))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"the certificate of {whose} (" in done.stderr
    assert "make another (referee certificates DIR)" in done.stderr


def test_a_key_without_a_certificate_is_refused(tmp_path):
    done = call(tmp_path, "curator.cli", "serve", "ball", "--port", "0", "--tls-client-ca", "x.pem")
    assert done.returncode == 1
    assert "--tls-client-ca is for a curator that speaks TLS: name its certificate with --tls-cert" in done.stderr


def test_the_command_makes_certificates_and_keeps_what_holds(tmp_path):
    words = ["certificates", str(tmp_path), "--host", "referee=203.0.113.2"]
    first, again = (CliRunner().invoke(referee_app, words) for _ in range(2))
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.output.count("made ") == 6
    assert again.output.count("kept ") == 6
    assert "stays here, with its key" in again.output
