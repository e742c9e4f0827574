"""Commands of ``referee`` about one's own data: describe it, and look at it before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from common.core.errors import BadScenario
from common.service.cli import fail_clearly
from common.service.terminal import ask, deliver, say, say_command

Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. --set data=DIRECTORY")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]


@fail_clearly
def init_command(
    source: Annotated[Path, typer.Argument(metavar="S", help="Table of the curator's people: .csv, .parquet, .npz.")],
    target: Annotated[Path, typer.Argument(metavar="T", help="Table of the agents' people, with the same columns.")],
    label: Annotated[str, typer.Option(help="The column to predict.")] = "",
    positive: Annotated[str, typer.Option(metavar="TEXT,...", help="Its texts that mean yes.")] = "",
    negative: Annotated[str, typer.Option(metavar="TEXT,...", help="Its texts that mean no.")] = "",
    bounds: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=LOW:HIGH", help="A number and its public bounds; repeat it.")
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE,...", help="A category and its public values; repeat it.")
    ] = None,
    id_column: Annotated[
        str,
        typer.Option(
            "--id", metavar="COLUMN", help="A column that says who is who, by which further runs know people."
        ),
    ] = "",
    epsilon: Annotated[float, typer.Option(help="Privacy of S for the whole run; smaller is more private.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="Its delta (default: a power of ten, at most 1/(10 n)).")] = None,
    agent_epsilon: Annotated[float, typer.Option(help="Privacy of each agent's one answer.")] = 1.0,
    separator: Annotated[str, typer.Option(help="Between the fields of a text file.")] = ",",
    name: Annotated[str, typer.Option(help="Of the scenario (default: of the file S).")] = "",
    output: Annotated[Path | None, typer.Option(help="Write here (default: NAME.yaml).", dir_okay=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; what no option says is an error.")] = False,
) -> None:
    """Write a first scenario for two tables of your own: asks for what no option says, and explains each key.

    It reads the names of the columns and counts rows; bounds and categories are asked for, never taken from the data.
    Exit status 0: written; 1: a table cannot be read; 2: an option is wrong, or the file is there already.

    Example: referee init testers.csv customers.csv --label renews --positive yes --negative no --bounds visits=0:30
    """
    from referee.view import asking
    from referee.view.starting import described, write

    given = asking.Given(label, positive, negative, tuple(bounds or ()), tuple(categories or ()), id_column)
    budgets = (epsilon, delta, agent_epsilon)
    start = described(source, target, given, budgets, separator, name, _nobody if yes else _somebody)
    written = write(start, output or Path(f"{start.name}.yaml"))
    say(f"{written}: {start.n:,} people trust the curator, {start.agents:,} their own device")
    say("Next, of which the second is for the keeper of the data alone:")
    for command in ("plan", "check", "run"):
        say_command("referee", command, written, lead="  ")


def _somebody(question: str) -> str:
    return ask(question)


def _nobody(question: str) -> str:
    raise BadScenario(f"--yes, and no option says it: {question}")


@fail_clearly
def check_command(
    scenario: Annotated[str, typer.Argument(help="A YAML file, or a shipped scenario with --set data=DIRECTORY.")],
    sets: Sets = None,
    side: Annotated[
        Literal["S", "T"], typer.Option(help="Whose table: S, the curator's people, or T, the agents'.")
    ] = "S",
    as_json: AsJson = False,
) -> None:
    """Check a table against its scenario, for the keeper of its records alone: the output is private.

    Shows what a run would refuse (broken rows, no UTF-8, fields that are no number), what it would take
    otherwise than meant (other case, one class only), and what would be clipped, unlisted or missing. Nothing is
    written and nothing is sent. Exit status 0: a run can read it; 1: something must be mended; 2: wrong scenario.

    Example: referee check my-scenario.yaml --side T
    """
    from common.people.spec import locate
    from common.people.tables.input.examining import examine
    from common.scenario import loading
    from common.vocabulary.open_values import PLAN
    from referee.view import checks

    chosen = loading.load(scenario, sets)
    people, wanted = (chosen.source, chosen.curator.n) if side == "S" else (chosen.target, chosen.agents.count)
    if people.table is not None and people.table.contributed:
        raise BadScenario(f"side {side} of {chosen.name} contributes: each record is checked before it is sent")
    if people.table is None or chosen.data is None:
        raise BadScenario(f"side {side} of {chosen.name} has simulated people: there is no table to check")
    found = examine(locate(chosen.data), people.table, None if wanted == PLAN else int(wanted))
    if as_json:
        deliver(json.dumps(checks.document(side, found)))
    else:
        for line in checks.lines(side, ", ".join(people.table.files), found):
            say(line)
    if not found.sound:
        raise typer.Exit(1)


def add_to(app: typer.Typer) -> None:
    """Give an application these commands."""
    app.command("init")(init_command)
    app.command("check")(check_command)
