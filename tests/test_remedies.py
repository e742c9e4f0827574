"""Every option that a message or a docstring of the product names is one that a command takes, and the one meant."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from curator.cli import app as curator
from issuer.cli import app as issuer
from local_agent.cli import app as local_agent
from referee.cli import app as referee
from tandem.cli import app as tandem

ROOT = Path(__file__).parents[1]
PARTIES = ("common", "curator", "issuer", "local_agent", "referee", "deploy", "tandem")
PROGRAMS = {"curator": curator, "issuer": issuer, "local-agent": local_agent, "referee": referee, "tandem": tandem}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
COMMAND = re.compile(rf"\b({'|'.join(PROGRAMS)}) ([a-z][a-z-]*)((?: [^\s.;:,()`]+)*)")
OTHERS = ("deploy/packaging/", "common/__init__.py")
"""Where options of other programs are named."""


def options(command: Any) -> Iterator[str]:
    """Yield the options of a command and of all below it."""
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from options(inner)


def texts() -> Iterator[tuple[str, str]]:
    """Yield the product's texts, each with its place; those in several pieces as one."""
    for path in (path for party in PARTIES for path in (ROOT / party).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name.startswith(OTHERS):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{name}:{node.lineno}", " ".join(node.value.split())


def test_every_option_that_the_product_names_exists():
    commands = {name: typer.main.get_command(app) for name, app in PROGRAMS.items()}
    known = {"--help", *(option for command in commands.values() for option in options(command))}
    unknown: list[str] = []
    for place, text in texts():
        unknown.extend(f"{place} {option}" for option in set(OPTION.findall(text)) - known)
        for program, command, rest in COMMAND.findall(text):
            found = getattr(commands[program], "commands", {}).get(command)
            if found is not None:
                wrong = set(OPTION.findall(rest)) - set(options(found)) - {"--help"}
                unknown.extend(f"{place} {program} {command} {option}" for option in wrong)
    assert not unknown
