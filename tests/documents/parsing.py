"""Find out whether a printed command would be understood, without running it: it exists, and takes these options."""

import argparse
import re
import runpy
import shlex
import sys
import tomllib
from functools import cache
from itertools import pairwise
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from common.scenario import loading
from curator.cli import app as curator
from deploy.checking import checked
from issuer.cli import app as issuer
from local_agent.cli import app as local_agent
from referee.cli import app as referee
from tandem.cli import app as tandem
from tests.documents.reading import ROOT

APPS = {"referee": referee, "curator": curator, "local-agent": local_agent, "issuer": issuer, "tandem": tandem}


class _Understood(Exception):
    """A benchmark has parsed its options, and would begin its work now."""


def understood(command: str) -> None:
    """Fail where a command does not exist or does not take what it is given.

    Usage in brackets is taken with everything that is optional: ``[--runs 100]`` as ``--runs 100``.
    """
    usage = command if command.startswith("pip ") else re.sub(r"[\[\]]|(?<= )\.\.\.(?=[\] ])", "", command)
    words = shlex.split(usage)
    while re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        del words[0]
    program = words[0].rpartition("/")[2]
    if program in APPS:
        _of_ours(command, program, words[1:])
    elif program == "python" and words[1] == "-m":
        _of_a_module(words[2], words[3:])
    elif program == "pip":
        _of_an_extra(words[-1])
    else:
        pytest.fail(f"nobody knows how to parse {command!r}")


def named_only(command: str) -> bool:
    """Tell whether text only names a command that exists, as ``referee audit`` does, and is none to be typed."""
    words = command.split()
    return len(words) == 2 and words[0] in APPS and words[1] in _commands(words[0])


def options() -> set[str]:
    found = {
        option
        for program in APPS
        for command in _commands(program)
        for option in re.findall(r"--[a-z][\w-]*", _help(program, command))
    }
    for source in (ROOT / "benchmarks").rglob("*.py"):
        found |= set(re.findall(r'add_argument\("(--[\w-]+)"', source.read_text()))
    return found


def examples() -> list[str]:
    helps = [_help(program, command) for program in APPS for command in _commands(program)]
    return [
        " ".join(found.split())
        for text in helps
        for found in re.findall(r"Example: (.+?)\s*(?:╭|\n\n)", text, re.DOTALL)
    ]


@cache
def _help(program: str, *words: str) -> str:
    """Return what ``--help`` says behind these words; it fails where they are no command with these options."""
    done = CliRunner().invoke(APPS[program], [*words, "--help"], env={"COLUMNS": "200"})
    if done.exit_code != 0:
        pytest.fail(f"{program} {' '.join(words)}: {done.output}")
    return done.output


@cache
def _commands(program: str) -> tuple[str, ...]:
    return tuple(re.findall(r"^(?:│|  ) ?([a-z][a-z-]*)  +\S", _help(program), re.MULTILINE))


def _of_ours(command: str, program: str, words: list[str]) -> None:
    if not words or words[0] not in _commands(program):
        pytest.fail(f"{command!r}: {program} has {', '.join(_commands(program))}")
    _help(program, *words)
    if words[0] in ("run", "plan", "host", "serve") and words[1:2] and words[1] in loading.shipped():
        sets = [value for option, value in pairwise(words) if option == "--set" and "..." not in value]
        checked(loading.load(words[1], sets))


def _of_a_module(module: str, words: list[str]) -> None:
    def parse(parser: argparse.ArgumentParser, *rest: object) -> None:
        known = parser.parse_known_args(words)[1]
        if known:
            pytest.fail(f"python -m {module} does not take {known}")
        raise _Understood

    # The module is begun as ``python -m`` begins it, up to the moment when it has its options.
    imported = {name: sys.modules.pop(name, None) for name in (module, f"{module}.__main__")}  # by other tests
    with patch.object(argparse.ArgumentParser, "parse_args", parse), patch.object(sys, "argv", [module, *words]):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except _Understood:
            return
        except SystemExit as error:
            pytest.fail(f"python -m {module} {' '.join(words)}: {error}")
        finally:
            sys.modules.update({name: found for name, found in imported.items() if found is not None})
    pytest.fail(f"python -m {module} takes no options, and ran: give it a row that runs it")


def _of_an_extra(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, extra = re.fullmatch(r"([\w-]+)\[(\w+)\]", package).groups()
    assert name == project["name"]
    assert extra in project["optional-dependencies"]
