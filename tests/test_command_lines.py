"""Bad input to the commands, or wrong peers: exit status 1 or 2, one line on stderr that says why, none on stdout."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

import scenarios
from common.core import version as wire_version
from common.core.durable import user_state
from common.core.errors import BadInput, BadScenario, PeerMisbehaved
from common.core.machine import python_environment, python_module
from common.crypto.identity import Identity
from common.net import cli, server
from common.net.cli import version
from common.net.client import Client
from common.net.server import listen
from curator.cli import app as curator_command
from deploy.catalogue import KINDS, explained, registered
from issuer.cli import app as issuer_command
from local_agent import cli_services
from local_agent.cli import app as agent_command
from local_agent.client import HostClient, RefereeClient
from referee.cli import app as referee_command
from referee.service import app as service
from referee.service.referee import CuratorClient, Referee
from referee.service.runner import Follower, Runner
from tandem.cli import app as tandem_command
from tests.support import TINY, TOKEN, Bench, served, tiny
from tests.tiers import for_each

RUNNER = CliRunner()
SETS = [part for override in TINY for part in ("--set", override)]
TOKENS = {"TANDEM_ENROLMENT_TOKEN": "long-enough", "TANDEM_OPERATOR_TOKEN": "long-enough"}
KNOWN = ["--referee-key", "0" * 64]


def fails(command, arguments: list[str], status: int, *why: str, **environment: str) -> None:
    outcome = RUNNER.invoke(command, arguments, env=environment)
    assert outcome.exit_code == status, outcome.output
    assert outcome.stdout == ""
    assert len(outcome.stderr.strip().splitlines()) == 1, outcome.stderr
    assert all(words in outcome.stderr for words in why), outcome.stderr
    assert not isinstance(outcome.exception, TypeError | KeyError | ValueError | OSError)


@for_each(
    ("extra", "status", "why"),
    [
        (["nosuch"], 2, "no shipped scenario is called 'nosuch'"),
        (["nosuch.yaml"], 2, "there is no scenario nosuch.yaml"),
        (["ball", "--set", "agents.colour=red"], 2, "agents.colour"),
        (["ball", "--set", "colour"], 2, "KEY=VALUE"),
        (["ball", "--set", "alpha=[1"], 2, "not a YAML value"),
        (["ball", "--set", "curator.epsilon=0"], 2, "curator.epsilon"),
        (["ball", "--set", "agents.mechanism.epsilon=.nan"], 2, "epsilon"),
        (["ball", "--set", "agents.mechanism.name=magic"], 2, "no mechanism has the name 'magic'"),
        (["ball", "--set", "alpha=0.7"], 2, "alpha"),
        (["ball", "--set", "beta=1e-15"], 2, "beta"),
        (["ball", *SETS, "--set", "curator.kappa=0.005"], 1, "kappa n > 10"),
        (["ball", *SETS, "--set", "curator.epsilon=1e-9"], 1, "the budget is"),
        (["ball", *SETS, "--deployment", "cloud"], 2, "--deployment"),
        (["ball", *SETS, "--deployment", "http://127.0.0.1:9"], 1, "TANDEM_OPERATOR_TOKEN"),
    ],
)
def test_bad_scenarios(tmp_path, extra, status, why):
    fails(referee_command, ["run", "--json", "--seed", "1", "--output", str(tmp_path / "run"), *extra], status, why)


def test_a_folder_of_another_run(tmp_path):
    arguments = ["run", "--json", "ball", *SETS, "--set", "baselines=[]", "--output", str(tmp_path / "run")]
    assert RUNNER.invoke(referee_command, [*arguments, "--seed", "1"]).exit_code == 0
    again = RUNNER.invoke(referee_command, [*arguments, "--seed", "1"])
    assert json.loads(again.stdout)["status"] == "exhausted"
    fails(referee_command, [*arguments, "--seed", "2"], 1, "another seed")


def test_ports_peers_and_tokens(tmp_path, monkeypatch):
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        state = ["--state", str(tmp_path / "state"), "--port", port]
        fails(curator_command, ["serve", "ball", *SETS, *state, *KNOWN], 1, f"cannot listen on 127.0.0.1:{port}")
        fails(referee_command, ["serve", *state], 1, f"cannot listen on 127.0.0.1:{port}", **TOKENS)
    state = ["--state", str(tmp_path / "other"), "--port", "0"]
    fails(referee_command, ["serve", *state], 1, "TANDEM_ENROLMENT_TOKEN", TANDEM_ENROLMENT_TOKEN="short")
    fails(referee_command, ["serve", *state, "--database", "nosuch://x"], 1, "database", **TOKENS)
    fails(referee_command, ["serve", *state, "--curator", "nowhere"], 1, "http://", **TOKENS)


def test_a_token_that_is_no_longer_given_admits_nobody(tmp_path, monkeypatch):
    started: list[Referee] = []
    monkeypatch.setattr(server, "serve", lambda _, listener, *__: listener.close())  # and ends
    monkeypatch.setattr(service, "referee_app", lambda referee, *_: started.append(referee))
    for beside in (Follower, Runner):
        monkeypatch.setattr(beside, "start", lambda _: None)
    serve = ["serve", "--state", str(tmp_path), "--port", "0", "--curator", "http://127.0.0.1:9"]
    for given in ({"TANDEM_INDIVIDUAL_TOKEN": "individuals", "TANDEM_METRICS_TOKEN": "watching"}, {}):
        done = RUNNER.invoke(referee_command, serve, env={**TOKENS, **given})
        assert done.exit_code == 0, done.output
        with closing(started.pop()) as referee:
            known = {purpose for purpose, _ in referee.store.tokens()}
        assert known == {"enrolment", "operator", *(("individual", "metrics") if given else ())}


@for_each("token", ["with-ümlauts", "long-enough\udcff", "long-enough ", "long\tenough"])
def test_a_token_that_no_request_can_carry_is_refused_by_the_service(tmp_path, token):
    state = ["--state", str(tmp_path / "state"), "--port", "0"]
    fails(referee_command, ["serve", *state], 1, "TANDEM_OPERATOR_TOKEN", **{**TOKENS, "TANDEM_OPERATOR_TOKEN": token})
    fails(referee_command, ["serve", *state], 1, "TANDEM_METRICS_TOKEN", **TOKENS, TANDEM_METRICS_TOKEN=token)
    fails(referee_command, ["witness", *state], 1, "TANDEM_WITNESS_TOKEN", TANDEM_WITNESS_TOKEN=token)
    collect = ["collect", str(tmp_path / "members.yaml"), *state]
    fails(curator_command, collect, 1, "TANDEM_CONTRIBUTION_TOKEN", TANDEM_CONTRIBUTION_TOKEN=token)
    assert not any(tmp_path.iterdir())


def test_a_state_directory_that_is_not_there_is_not_shown_as_a_new_issuer(tmp_path):
    for place in (tmp_path / "mistyped", tmp_path):  # the second is a folder of something else
        fails(issuer_command, ["show", "--state", str(place)], 1, str(place), "issuer serve")
    assert not any(tmp_path.iterdir())


@for_each("url", ["http://host:99999", "http://::1:8000"])
def test_mistyped_addresses(tmp_path, url):
    """Each is refused in one line by every command that dials it, before anything else happens."""
    state, me = ["--state", str(tmp_path / "state")], tmp_path / "me.json"
    me.write_text('{"features": [0.1, 0.2], "label": 1}')
    run = ["run", "--json", "ball", *SETS, "--seed", "1", "--output", str(tmp_path / "run")]
    for command, arguments in (
        (referee_command, [*run, "--deployment", url]),
        (referee_command, ["runs", "--url", url]),
        (referee_command, ["cancel", "x", "--url", url]),
        (referee_command, ["serve", "--port", "0", *state, "--curator", url]),
        (referee_command, ["load-test", "--individuals", "24", "--url", url]),
        (curator_command, ["serve", "ball", *SETS, "--port", "0", *KNOWN, *state, "--witness", f"{url}/v1/heads/a"]),
        (curator_command, ["contribute", str(me), "--yes", "--curator-key", "00" * 32, *state, "--to", url]),
        (agent_command, ["answer", str(me), "--epsilon", "1", "--yes", "--token", "x", *state, "--referee", url]),
        (agent_command, ["host", "ball", *SETS, "--seed", "1", *state, "--referee", url]),
        (agent_command, ["relay", "--port", "0", "--referee", url]),
        (tandem_command, ["ui", "--port", "0", "--referee", url]),
    ):
        fails(command, arguments, 1, "is no address of a service", TANDEM_WITNESS_TOKEN="long-enough", **TOKENS)


def test_an_agent_without_a_referee_or_a_record(tmp_path):
    me, nowhere = tmp_path / "me.json", "cannot connect to http://127.0.0.1:9"
    dead = ["--token", "x", "--referee", "http://127.0.0.1:9", "--patience", "0.1", "--state", str(tmp_path / "state")]
    for content, why in (
        (b"{", "must hold"),
        (b"[]", "must hold"),
        (b'{"features": [1]}', "must hold"),
        (b'{"features": [1], "label": 1.5}', "must hold"),
        (b'{"features": ["x"], "label": 1}', "must hold"),
        (b'{"features": [NaN], "label": 1}', "NaN"),
        (b'{"features": [1e300], "label": 1}', "infinity"),
        (b'{"features": [[1]], "label": 1}', "belong together"),
        (b'{"features": [0.5], "label": 1}', nowhere),
        (b"\xff\xfe\x00", str(me)),
    ):
        me.write_bytes(content)
        fails(agent_command, ["answer", str(me), "--yes", *dead], 1, why)
    fails(agent_command, ["answer", str(tmp_path / "none.json"), *dead], 1, "cannot be read")
    fails(agent_command, ["answer", str(me), *dead, "--epsilon", "0"], 1, "--epsilon")
    fails(agent_command, ["host", "ball", *SETS, *dead], 1, nowhere)
    given = ["run", "ball", "--token", TOKEN, "--output", str(tmp_path / "run"), "--deployment"]
    fails(referee_command, [*given, "http://127.0.0.1:9"], 1, nowhere, "is the referee running there?")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with Bench(tmp_path_factory.mktemp("bench"), tiny("agents.count=600", "agents.batch=600")) as bench:
        bench.referee.registrar.allow("operator", "first-token")
        bench.referee.registrar.allow("operator", TOKEN)
        with served(bench.app()) as found:
            yield found


def test_a_wrong_token_or_key_ends_a_command_at_once_and_is_named_with_what_to_take(address, tmp_path):
    me, other = tmp_path / "me.json", Identity.create().public
    me.write_text('{"features": [0.5, 0.5], "label": 1}')
    named, state = f"the referee at {address}", ["--state", str(tmp_path / "s")]
    run = ["run", "ball", "--token", "wrong", "--output", str(tmp_path / "run"), "--deployment", address]
    fails(referee_command, run, 1, named)
    assert not (tmp_path / "run").exists(), "a run that was refused has left a folder"
    replaced = ["runs", "--url", address, "--token", "first-token"]
    fails(referee_command, replaced, 1, named, "valid operator token", "was replaced", "TANDEM_OPERATOR_TOKEN")
    answer, host = ["answer", str(me), "--yes", "--referee", address, *state], ["host", "ball", "--referee", address]
    fresh = ["--state", str(tmp_path / "fresh"), "--token", "wrong-token"]
    done = RUNNER.invoke(agent_command, [*answer, *fresh])  # after a warning of first contact
    assert (done.exit_code, named in done.stderr, "TANDEM_ENROLMENT_TOKEN" in done.stderr) == (1, True, True)
    for command in (answer, [*host, *state]):
        given = [*command, "--token", TOKEN, "--referee-key", other]
        fails(agent_command, given, 1, named, f"expected {other[:16]}...", "has pinned", "--state")


def test_a_host_goes_on_where_a_referee_that_was_put_back_numbers_its_people_anew(address, tmp_path, monkeypatch):
    clients: list[object] = []
    monkeypatch.setattr(cli_services, "answer_until", lambda _, client, finished: clients.append(client))
    known = tmp_path / "s" / "enrolment" / "claim.json"
    known.parent.mkdir(parents=True)
    known.write_text('{"agents": 5, "first": 7}')
    host = ["host", "ball", *SETS, "--agents", "5", "--seed", "1", "--referee", address, "--token", TOKEN]
    done = RUNNER.invoke(agent_command, [*host, "--state", str(tmp_path / "s")])
    assert (done.exit_code, "hosts 5 people from number" in done.stdout) == (0, True), done.output
    assert json.loads(known.read_bytes())["first"] != 7
    assert [type(client) for client in clients] == [HostClient]  # which takes questions that list millions


@for_each(("kind", "party"), [(CuratorClient, "curator"), (RefereeClient, "referee"), (Client, "service")])
def test_another_service_at_the_address_is_called_so(kind, party):
    transport = httpx.MockTransport(lambda request: httpx.Response(404, json={"detail": "Not Found"}))
    url = "http://elsewhere:8001"
    with closing(kind(url, transport=transport)) as client, pytest.raises(PeerMisbehaved) as caught:
        client.request("PUT", "/v1/runs/run")
    for words in (f"PUT {url}/v1/runs/run", "404 (Not Found)", f"is not the {party}", "check the address"):
        assert words in caught.value.detail


def test_what_is_in_the_way_of_a_run_folder_is_left_alone_and_named(tmp_path):
    folder, run = tmp_path / "run", ["run", "ball", *SETS, "--output"]
    fails(referee_command, [*run, str(folder), "--set", "curator.learner.clp=2"], 2, "clp")
    assert not folder.exists()
    folder.mkdir()
    (folder / "claim.json").write_text("{")
    fails(referee_command, [*run, str(folder)], 1, "cut off, edited")
    (folder / "claim.json").rename(folder / "thesis.txt")
    fails(referee_command, [*run, str(folder)], 1, "is not empty and no run folder")
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
    fails(referee_command, [*run, str(folder / "thesis.txt" / "run")], 1, "Not a directory")


@for_each("deployment", ["embedded", "processes"])
def test_a_sample_that_does_not_fit_claims_nothing(tmp_path, deployment):
    """So the scenario can be corrected and run in the same folder."""
    folder = tmp_path / "run"
    wrong = ["run", "ball", *SETS, "--deployment", deployment, "--output", str(folder), "--set", "curator.n=4000000000"]
    fails(referee_command, wrong, 2, "4,000,000,000 people")
    assert not folder.exists()


def test_state_lies_in_the_users_own_directory_wherever_a_party_is_started(tmp_path, monkeypatch):
    """A relative default was another budget in each working directory."""
    monkeypatch.chdir(tmp_path)
    home = user_state()
    fails(referee_command, ["serve", "--port", "0", "--database", "nosuch://x"], 1, "database", **TOKENS)
    witness = ["--witness", str(tmp_path / "nowhere" / "head")]
    outcome = RUNNER.invoke(curator_command, ["serve", "ball", *SETS, "--port", "0", *KNOWN, *witness])
    assert outcome.exit_code == 1, outcome.stderr
    assert (home / "referee").is_dir()
    assert (home / "curator").is_dir()
    assert not (tmp_path / "curator-state").exists()
    assert not (tmp_path / "referee-state").exists()
    for command in (referee_command, curator_command):
        told = " ".join(RUNNER.invoke(command, ["serve", "--help"], env={"COLUMNS": "300"}).stdout.split())
        assert "in this user's own: $XDG_STATE_HOME/tandem" in told


ROOT = Path(__file__).parents[1]
COMMANDS = [referee_command, curator_command, agent_command, issuer_command, tandem_command]


def test_a_shell_completes_commands():
    code = "from referee.cli import app; app(prog_name='referee')"
    asked = {"_REFEREE_COMPLETE": "complete_bash", "COMP_WORDS": "referee ch", "COMP_CWORD": "1"}
    environment = os.environ | asked | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["check"]


@for_each(
    ("arguments", "hint"),
    [
        (["rnu", "ball"], "Did you mean 'run'?"),
        (
            ["plan", "bal"],
            "no shipped scenario is called 'bal' (did you mean 'ball'?); there are: adaptation-",
        ),
        (["list", "learner"], "there is no kind 'learner' (did you mean 'learners'?) to list"),
        (["plan", "ball", "--set", "alhpa=0.1"], "alhpa: unknown key (did you mean 'alpha'?)"),
        (["plan", "ball", "--set", "protocol=learn-and-tets"], "(did you mean 'learn-and-test'?)"),
        (["plan", "ball", "--set", "agents.mechanism.name=wanrer"], "(did you mean 'warner'?)"),
    ],
)
def test_what_was_probably_meant(arguments, hint):
    done = RUNNER.invoke(referee_command, arguments)
    assert done.exit_code == 2
    assert hint in " ".join(done.stderr.split())


@for_each("command", COMMANDS)
def test_every_command_has_a_version_which_is_that_of_the_installed_package(command, monkeypatch):
    done = RUNNER.invoke(command, ["--version"], prog_name="it")
    assert (done.exit_code, done.stdout) == (0, f"it {version()}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == wire_version.DISTRIBUTION
    with monkeypatch.context() as patched:
        patched.setattr(wire_version, "DISTRIBUTION", "no-such-distribution")
        wire_version.release.cache_clear()
        assert version() == "from a checkout that is not installed"
    wire_version.release.cache_clear()


def test_all_is_listed_and_scenarios_with_what_they_say_of_themselves():
    lines = RUNNER.invoke(referee_command, ["list"]).stdout.splitlines()
    assert lines[0].startswith("scenarios: adaptation-few-labels, adult, ")
    assert [line.partition(":")[0] for line in lines[1 : 1 + len(KINDS)]] == list(KINDS)
    shown = " ".join(RUNNER.invoke(referee_command, ["list", "scenarios"]).stdout.split())
    assert all(f"{name} {scenarios.heading(name).title}" in shown for name in scenarios.names())


@for_each("kind", sorted(KINDS))
def test_each_kind_is_listed_with_a_sentence_for_each_name(kind):
    document = json.loads(RUNNER.invoke(referee_command, ["list", kind, "--json"]).stdout)
    assert list(document) == registered()[kind]
    assert document == explained(kind)
    assert all(document.values())
    assert not any("TandemError" in sentence for sentence in document.values())
    shown = RUNNER.invoke(referee_command, ["list", kind]).stdout
    assert [line.partition("  ")[0] for line in shown.splitlines()] == list(document)


def every_command() -> Iterator[tuple[str, list[str], typer.Typer]]:
    """Go through all commands, also those below another one."""
    for program, application in zip(("referee", "curator", "local-agent", "issuer", "tandem"), COMMANDS, strict=True):
        waiting: list[tuple[list[str], Any]] = [([], typer.main.get_command(application))]
        while waiting:
            path, command = waiting.pop()
            if path:
                yield " ".join((program, *path)), path, application
            waiting += [([*path, name], below) for name, below in getattr(command, "commands", {}).items()]


def test_mistyped_ports():
    """By every command that listens on one, before anything else is looked at."""
    listening = set()
    for (name, path, application), port in product(every_command(), ("70000", "-1", "eight")):
        outcome = RUNNER.invoke(application, [*path, "--port", port], env=TOKENS)
        assert outcome.exit_code == 2, (name, outcome.output)
        if "No such option: --port" not in outcome.stderr:
            assert "Invalid value for '--port'" in outcome.stderr, name
            listening.add(name)
    assert len(listening) >= 7


@for_each(("name", "path", "application"), [pytest.param(*c, id=c[0]) for c in every_command()])
def test_every_command_shows_an_example_of_itself_and_its_exit_statuses(name, path, application):
    shown = RUNNER.invoke(application, [*path, "--help"])
    words = " ".join(shown.stdout.split())
    assert shown.exit_code == 0
    example = words.partition("Example: ")[2]
    assert name in example.partition("Options:")[0]
    assert cli.EXIT_HELP in words


def test_the_page_about_commands_has_the_exit_statuses_that_are_defined():
    page = (ROOT / "docs" / "commands.md").read_text()
    rows = [
        line.strip("| ").split(" | ", 1) for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()
    ]
    assert {int(status): meaning for status, meaning in rows} == cli.EXIT_STATUSES


@for_each(
    ("raised", "status"),
    [
        *((BadScenario("x"), 2), (BadInput("x"), 1), (OSError("x"), 1), (KeyboardInterrupt(), 130)),
        *((BrokenPipeError("x"), 141), (None, 0)),
    ],
)
def test_commands_end_with_the_statuses_that_are_documented(raised, status, capsys):
    application = cli.application("Try it.")

    @application.command("do")
    @cli.fail_clearly
    def do() -> None:
        if raised is not None:
            raise raised

    done = RUNNER.invoke(application, ["do"])
    assert done.exit_code == status
    assert status in cli.EXIT_STATUSES


def test_a_command_of_which_nobody_reads_on_ends_in_silence():
    reading, writing = os.pipe()
    os.close(reading)
    command = [*python_module("referee.cli"), "list"]
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=python_environment(), check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@for_each("closed", [0, 1, 2])
def test_a_command_with_a_closed_stream_does_what_it_does_with_an_open_one(closed, tmp_path):
    """It looks for a terminal, and reads a folder in a process of its own, which takes what was written before."""
    terminal = [sys.executable, "-c", "from common.net import cli; cli.begin(); raise SystemExit(cli.has_terminal())"]
    audit = [*python_module("referee.cli"), "audit", str(tmp_path)]
    for command, status in (terminal, 0), (audit, 1):
        shell = ["sh", "-c", f'exec {closed}>&-; exec "$@"', "sh", *command]
        done = subprocess.run(shell, capture_output=True, env=python_environment(), check=False)
        assert (done.returncode, b"Traceback" in done.stdout + done.stderr) == (status, False), done.stderr
    assert done.stderr.startswith(b"" if closed == 2 else b"Not found: ")


@pytest.mark.slow
def test_a_party_that_cannot_start_says_why_also_below_a_deployment():
    """Its standard input is a pipe that a thread waits on; the last line of its complaint is what people see."""
    code = "from curator.cli import main; main()"
    asked = {**os.environ, "PYTHONPATH": str(ROOT), cli.ENDS_WITH_STDIN: "1"}
    arguments = [sys.executable, "-c", code, "serve", "ball", "--set", "alhpa=1"]
    with subprocess.Popen(arguments, env=asked, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as party:
        assert party.stderr is not None
        said = party.stderr.read()
        assert party.wait(60) == 2
    assert said == "Scenario not acceptable: alhpa: unknown key (did you mean 'alpha'?)\n"


def test_an_interrupt_while_a_command_is_loaded_ends_it_in_silence(tmp_path):
    """The first library that each loads interrupts it; a shell that has interrupts ignored keeps them so."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit(7)\n")
    asked = {**python_environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert sorted(scripts) == ["curator", "issuer", "local-agent", "referee", "tandem"]
    for number, entry in enumerate(scripts.values()):
        module, _, name = entry.partition(":")
        # Set in either case: a shell starts what runs in the background with interrupts ignored.
        begin = "import signal; signal.signal(signal.SIGINT, signal.{}); from {} import {}; {}()"
        started, ignoring = (begin.format(how, module, name, name) for how in ("default_int_handler", "SIG_IGN"))
        expected = {started: -signal.SIGINT} | ({ignoring: 7} if number == 0 else {})
        for asks, status in expected.items():
            done = subprocess.run([sys.executable, "-c", asks], capture_output=True, env=asked, check=False)
            assert (done.returncode, done.stdout, done.stderr) == (status, b"", b""), entry


def test_an_interrupt_while_options_are_looked_at_ends_a_command_in_silence(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(typer.main, "get_command_from_info", interrupted)
    with pytest.raises(SystemExit) as ended:
        referee_command(["list"])
    assert (ended.value.code, *capsys.readouterr()) == (130, "", "")
