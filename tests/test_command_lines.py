"""Bad input to the three commands: exit status 1 or 2, one line on stderr that says why, nothing on stdout."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import scenarios
from common.core import version as wire_version
from common.core.durable import user_state
from common.core.errors import BadInput, BadScenario
from common.net import cli
from common.net.cli import version
from common.net.server import listen
from curator.cli import app as curator_command
from deploy.catalogue import KINDS, explained, registered
from issuer.cli import app as issuer_command
from local_agent.cli import app as agent_command
from referee.cli import app as referee_command
from referee.view import listing
from tandem.cli import app as tandem_command
from tandem.cli import app as ui_command
from tests.support import TINY
from tests.tiers import for_each

RUNNER = CliRunner()
SETS = [part for override in TINY for part in ("--set", override)]
TOKENS = {"TANDEM_ENROLMENT_TOKEN": "long-enough", "TANDEM_OPERATOR_TOKEN": "long-enough"}
KNOWN = ["--referee-key", "0" * 64]


def fails(command, arguments: list[str], status: int, why: str, **environment: str) -> None:
    outcome = RUNNER.invoke(command, arguments, env=environment)
    assert outcome.exit_code == status, outcome.output
    assert outcome.stdout == ""
    assert len(outcome.stderr.strip().splitlines()) == 1, outcome.stderr
    assert why in outcome.stderr
    assert not isinstance(outcome.exception, TypeError | KeyError | ValueError | OSError)


@for_each(
    ("extra", "status", "why"),
    [
        (["nosuch"], 2, "no shipped scenario is called 'nosuch'"),
        (["nosuch.yaml"], 2, "cannot read nosuch.yaml"),
        (["ball", "--set", "agents.colour=red"], 2, "agents.colour"),
        (["ball", "--set", "colour"], 2, "KEY=VALUE"),
        (["ball", "--set", "alpha=[1"], 2, "not a YAML value"),
        (["ball", "--set", "alpha.x=1"], 2, "not a mapping"),
        (["ball", "--set", "curator.epsilon=0"], 2, "curator.epsilon"),
        (["ball", "--set", "curator.epsilon=-1"], 2, "curator.epsilon"),
        (["ball", "--set", "agents.mechanism.epsilon=0"], 2, "epsilon"),
        (["ball", "--set", "agents.mechanism.epsilon=.nan"], 2, "epsilon"),
        (["ball", "--set", "agents.mechanism.name=magic"], 2, "no mechanism has the name 'magic'"),
        (["ball", "--set", "alpha=0.7"], 2, "alpha"),
        (["ball", *SETS, "--set", "curator.rounds=0"], 2, "curator.rounds"),
        (["ball", *SETS, "--set", "curator.n=-4"], 2, "curator.n"),
        (["ball", *SETS, "--set", "agents.count=0"], 2, "agents.count"),
        (["ball", *SETS, "--set", "curator.kappa=2"], 2, "curator.kappa"),
        (["ball", *SETS, "--set", "curator.eta=0"], 2, "curator.eta"),
        (["ball", *SETS, "--set", "curator.kappa=0.005"], 1, "kappa n > 10"),
        (["ball", *SETS, "--set", "curator.epsilon=1e-9"], 1, "the budget is"),
        (["ball", *SETS, "--set", "curator.learner.name=oracle"], 2, "oracle"),
        (["ball", *SETS, "--set", "protocol=gossip"], 2, "gossip"),
        (["ball", *SETS, "--deployment", "cloud"], 2, "--deployment"),
        (["ball", *SETS, "--deployment", "http://127.0.0.1:9"], 1, "TANDEM_OPERATOR_TOKEN"),
    ],
)
def test_bad_scenarios(tmp_path, extra, status, why):
    fails(referee_command, ["run", "--json", "--seed", "1", "--output", str(tmp_path / "run"), *extra], status, why)


def test_a_referee_that_is_not_there(tmp_path):
    arguments = ["run", "--json", "ball", *SETS, "--output", str(tmp_path), "--deployment", "http://127.0.0.1:9"]
    fails(referee_command, arguments, 1, "cannot connect to http://127.0.0.1:9", TANDEM_OPERATOR_TOKEN="long-enough")


def test_a_folder_of_another_run(tmp_path):
    arguments = ["run", "--json", "ball", *SETS, "--set", "baselines=[]", "--output", str(tmp_path / "run")]
    assert RUNNER.invoke(referee_command, [*arguments, "--seed", "1"]).exit_code == 0
    again = RUNNER.invoke(referee_command, [*arguments, "--seed", "1"])
    assert json.loads(again.stdout)["status"] == "exhausted"
    fails(referee_command, [*arguments, "--seed", "2"], 1, "another seed")
    audited = RUNNER.invoke(referee_command, ["audit", "--json", str(tmp_path / "run")])
    assert json.loads(audited.stdout)["verified"] is True


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    arguments = ["run", "--json", "ball", *SETS, "--output", str(tmp_path / "file" / "run")]
    fails(referee_command, arguments, 1, "Not a directory")


def test_an_audit_of_nothing_and_of_something_changed(tmp_path):
    fails(referee_command, ["audit", "--json", str(tmp_path)], 1, "is not a run folder")
    (tmp_path / "transcript.jsonl").write_text("{}\n")
    fails(referee_command, ["audit", "--json", str(tmp_path)], 1, "line 1")


TABLE = """
name: mine
title: My table
alpha: 0.2
divergence: {chi_squared: 2}
people: simulated
data: DATA
source: &people
  table:
    files: [people.csv]
    label: {column: renews, positive: ["yes"], negative: ["no"]}
    features: [{kind: number, column: visits, low: 0, high: 30}]
    norm: 1.0
target: *people
curator:
  n: 20
  epsilon: 600
  delta: 1.0e-4
  kappa: 0.9
  eta: 0.2
  rounds: 1
  learner: {name: sgd, loss: logistic, steps: 10, clip: 1.0, noise: 4.0, diameter: 1.0}
agents: {count: COUNT, mechanism: {name: warner, epsilon: 1}}
"""
GOOD = b"visits,renews\n" + b"".join(b"%d,%s\n" % (n % 30, (b"yes", b"no")[n % 2]) for n in range(40))
SPOILED: dict[str, tuple[bytes, str]] = {
    "truncated": (GOOD[:-3] + b'"', "people.csv"),
    "not UTF-8": (GOOD.replace(b"5,no", b"5,n\xff"), "people.csv"),
    "a number that is none": (GOOD.replace(b"\n7,", b"\nNaN,"), "visits"),
    "no number": (GOOD.replace(b"\n7,", b"\nseven,"), "visits"),
    "another label": (GOOD.replace(b"9,no", b"9,perhaps"), "renews"),
    "no such column": (GOOD.replace(b"visits", b"months"), "visits"),
    "empty": (b"", "people.csv"),
    "too few": (b"".join(GOOD.splitlines(keepends=True)[:9]), "people are wanted"),
}


@for_each("name", sorted(SPOILED))
def test_tables_that_cannot_be_used(tmp_path, name):
    content, why = SPOILED[name]
    (tmp_path / "people.csv").write_bytes(content)
    path = tmp_path / "mine.yaml"
    path.write_text(TABLE.replace("DATA", str(tmp_path)).replace("COUNT", "30"))
    fails(referee_command, ["run", "--json", str(path), "--output", str(tmp_path / "run")], 1, why)


def test_a_table_with_fewer_people_than_the_scenario_asks_for(tmp_path):
    (tmp_path / "people.csv").write_bytes(GOOD)
    path = tmp_path / "mine.yaml"
    path.write_text(TABLE.replace("DATA", str(tmp_path)).replace("COUNT", "50"))
    outcome = RUNNER.invoke(referee_command, ["run", "--json", str(path), "--output", str(tmp_path / "run")])
    assert outcome.exit_code == 1
    assert len(outcome.stderr.strip().splitlines()) == 1


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


@pytest.mark.parametrize("url", ["http://host:99999", "http://::1:8000"])
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
        (ui_command, ["ui", "--port", "0", "--referee", url]),
    ):
        fails(command, arguments, 1, "is no address of a service", TANDEM_WITNESS_TOKEN="long-enough", **TOKENS)


def test_mistyped_ports(tmp_path):
    for command, arguments in (
        (referee_command, ["serve"]),
        (referee_command, ["witness", "--state", str(tmp_path)]),
        (curator_command, ["serve", "ball"]),
        (curator_command, ["console", str(tmp_path)]),
        (agent_command, ["relay"]),
        (issuer_command, ["serve"]),
        (ui_command, ["ui"]),
    ):
        for port in ("70000", "-1", "eight"):
            outcome = RUNNER.invoke(command, [*arguments, "--port", port], env=TOKENS)
            assert outcome.exit_code == 2, (arguments, outcome.output)
            assert "Invalid value for '--port'" in outcome.stderr


def test_an_agent_without_a_referee_or_a_record(tmp_path):
    me = tmp_path / "me.json"
    dead = ["--token", "x", "--referee", "http://127.0.0.1:9", "--patience", "0.1", "--state", str(tmp_path / "state")]
    records = [
        ("{", "must hold"),
        ("[]", "must hold"),
        ('{"features": [1]}', "must hold"),
        ('{"features": [1], "label": 0}', "must hold"),
        ('{"features": [1], "label": 1.5}', "must hold"),
        ('{"features": [1], "label": "yes"}', "must hold"),
        ('{"features": ["x"], "label": 1}', "must hold"),
        ('{"features": [NaN], "label": 1}', "NaN"),
        ('{"features": [1e300], "label": 1}', "infinity"),
        ('{"features": [[1]], "label": 1}', "belong together"),
        ('{"features": [0.5], "label": 1}', "cannot connect to http://127.0.0.1:9"),
    ]
    for content, why in records:
        me.write_text(content)
        fails(agent_command, ["answer", str(me), "--yes", *dead], 1, why)
    me.write_bytes(b"\xff\xfe\x00")
    fails(agent_command, ["answer", str(me), "--yes", *dead], 1, str(me))
    fails(agent_command, ["answer", str(tmp_path / "none.json"), *dead], 1, "cannot be read")
    fails(agent_command, ["answer", str(me), *dead, "--epsilon", "0"], 1, "--epsilon")
    fails(agent_command, ["host", "ball", *SETS, *dead], 1, "cannot connect to")
    fails(agent_command, ["host", "ball", *SETS, *dead[:3], "nowhere", *dead[4:]], 1, "http://")


@for_each("command", [referee_command, curator_command, agent_command])
def test_usage_mistakes_are_status_2(command):
    for arguments in (["--nonsense"], ["nonsense"]):
        outcome = RUNNER.invoke(command, arguments)
        assert outcome.exit_code == 2
        assert outcome.stdout == ""


def test_lists_and_plans_are_documents_too():
    assert {"ball", "adult"} <= {
        found["name"] for found in json.loads(RUNNER.invoke(referee_command, ["list", "--json"]).stdout)
    }
    plan = json.loads(RUNNER.invoke(referee_command, ["plan", "ball", "--json"]).stdout)
    assert plan["scenario"] == "ball"


def test_a_folder_that_is_no_run_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    fails(referee_command, ["run", "ball", *SETS, "--output", str(tmp_path)], 1, "is not empty and no run folder")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_wrong_setting_claims_nothing_and_a_claim_that_was_cut_off_is_said_so(tmp_path):
    folder = tmp_path / "run"
    wrong = ["run", "ball", *SETS, "--output", str(folder), "--set", "curator.learner.clp=2"]
    fails(referee_command, wrong, 2, "clp")
    assert not folder.exists()
    folder.mkdir()
    (folder / "claim.json").write_text("{")
    fails(referee_command, ["run", "ball", *SETS, "--output", str(folder)], 1, "cut off, edited")


@pytest.mark.parametrize("deployment", ["embedded", "processes"])
def test_a_sample_that_does_not_fit_claims_nothing(tmp_path, deployment):
    """So the scenario can be corrected and run in the same folder."""
    folder = tmp_path / "run"
    wrong = ["run", "ball", *SETS, "--deployment", deployment, "--output", str(folder), "--set", "curator.n=4000000000"]
    fails(referee_command, wrong, 2, "4,000,000,000 people")
    assert not folder.exists()


@for_each("wrong", ["curator.learner.steps=many", "curator.learner.name=sdg", "protocol=gossip"])
def test_a_plan_refuses_what_a_run_would_refuse(wrong):
    fails(referee_command, ["plan", "ball", "--set", wrong], 2, wrong.rpartition("=")[2])


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


@for_each("command", COMMANDS)
def test_every_command_has_a_version(command):
    done = RUNNER.invoke(command, ["--version"], prog_name="it")
    assert (done.exit_code, done.stdout) == (0, f"it {version()}\n")


def test_the_version_is_that_of_the_installed_package(monkeypatch):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == wire_version.DISTRIBUTION
    monkeypatch.setattr(wire_version, "DISTRIBUTION", "no-such-distribution")
    wire_version.release.cache_clear()
    try:
        assert version() == "from a checkout that is not installed"
    finally:
        wire_version.release.cache_clear()


def test_a_shell_completes_commands():
    code = "from referee.cli import app; app(prog_name='referee')"
    asked = {
        "_REFEREE_COMPLETE": "complete_bash",
        "COMP_WORDS": "referee ch",
        "COMP_CWORD": "1",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout.split() == ["check"]


@for_each(
    ("arguments", "hint"),
    [
        (["rnu", "ball"], "Did you mean 'run'?"),
        (["plan", "bal"], "no shipped scenario is called 'bal' (did you mean 'ball'?); there are: adult"),
        (["list", "learner"], "there is no kind 'learner' (did you mean 'learners'?) to list"),
        (["plan", "ball", "--set", "alhpa=0.1"], "alhpa: unknown key (did you mean 'alpha'?)"),
        (["plan", "ball", "--set", "agents.bacth=3"], "agents.bacth: unknown key (did you mean 'batch'?)"),
        (["plan", "ball", "--set", "curator.learner.stesp=3"], "stesp: unknown key (did you mean 'steps'?)"),
        (["plan", "ball", "--set", "source.distribution.nmae=3"], "nmae: unknown key (did you mean 'name'?)"),
        (["plan", "ball", "--set", "protocol=learn-and-tets"], "(did you mean 'learn-and-test'?)"),
        (["plan", "ball", "--set", "curator.learner.name=sdg"], "(did you mean 'sgd'?)"),
        (["plan", "ball", "--set", "agents.mechanism.name=wanrer"], "(did you mean 'warner'?)"),
    ],
)
def test_what_was_probably_meant(arguments, hint):
    done = RUNNER.invoke(referee_command, arguments)
    assert done.exit_code == 2
    assert hint in " ".join(done.stderr.split())


def test_the_list_fits_a_screen(capsys, monkeypatch):
    monkeypatch.setattr(listing._OUT, "width", 100)
    done = RUNNER.invoke(referee_command, ["list"])
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + len(KINDS) + 2
    assert sum(1 + len(line) // 100 for line in lines) <= 24
    assert lines[0] == f"scenarios: {', '.join(scenarios.names())} ({len(scenarios.names())})"


@for_each("kind", sorted(KINDS))
def test_each_kind_is_listed_with_a_sentence_for_each_name(kind):
    document = json.loads(RUNNER.invoke(referee_command, ["list", kind, "--json"]).stdout)
    assert list(document) == registered()[kind]
    assert document == explained(kind)
    assert all(document.values())
    assert not any("TandemError" in sentence for sentence in document.values())
    shown = RUNNER.invoke(referee_command, ["list", kind]).stdout
    assert [line.partition("  ")[0] for line in shown.splitlines()] == list(document)


def test_scenarios_are_listed_with_all_that_they_say_of_themselves():
    shown = " ".join(RUNNER.invoke(referee_command, ["list", "scenarios"]).stdout.split())
    for name in scenarios.names():
        assert f"{name} {scenarios.heading(name).title}" in shown


def every_command() -> Iterator[tuple[str, list[str], typer.Typer]]:
    """Go through all commands, also those below another one."""
    for program, application in zip(("referee", "curator", "local-agent", "issuer", "tandem"), COMMANDS, strict=True):
        waiting: list[tuple[list[str], Any]] = [([], typer.main.get_command(application))]
        while waiting:
            path, command = waiting.pop()
            if path:
                yield " ".join((program, *path)), path, application
            waiting += [([*path, name], below) for name, below in getattr(command, "commands", {}).items()]


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
    [(BadScenario("x"), 2), (BadInput("x"), 1), (OSError("x"), 1), (KeyboardInterrupt(), 130), (None, 0)],
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
