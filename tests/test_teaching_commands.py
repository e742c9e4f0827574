"""Commands that teach: versions, completion, what was probably meant, a list that fits a screen."""

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
from common.core.errors import BadInput, BadScenario
from common.core.plain import nearest
from common.net import cli
from common.net.cli import version
from curator.cli import app as curator_command
from deploy.catalogue import KINDS, explained, registered
from issuer.cli import app as issuer_command
from local_agent.cli import app as agent_command
from referee.cli import app as referee_command
from referee.view import listing
from tandem.cli import app as tandem_command
from tests.tiers import for_each

RUNNER = CliRunner()
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


def test_a_name_like_no_other_gets_no_hint():
    assert nearest("xyz", ["ball", "sparse"]) == ""


@for_each("name", [7, None, ["ball"], "ball" * 10**6])
def test_what_is_no_name_is_compared_with_nothing(name):
    assert nearest(name, ["ball"]) == ""


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


def test_commands_below_commands_are_gone_through_too():
    names = {name for name, _, _ in every_command()}
    assert {"curator ledger", "curator ledger verify", "referee run", "local-agent log"} <= names
    assert len(names) >= 27


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
