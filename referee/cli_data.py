"""Commands of ``referee`` about one's own data: look at it before a run."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from common.service.cli import fail_clearly

Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. --set data=DIRECTORY")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]


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

    Shows what a run would refuse (broken rows, no UTF-8, fields that are no number, 1.0 for 1), what it would take
    otherwise than meant (other case, one class only), and what would be clipped, unlisted or missing. Nothing is
    written and nothing is sent. Exit status 0: a run can read it; 1: something must be mended; 2: wrong scenario.

    Example: referee check my-scenario.yaml --side T
    """
    from common.core.errors import BadScenario
    from common.people.spec import locate
    from common.people.tables.examining import examine
    from common.scenario import loading
    from common.vocabulary.open_values import PLAN
    from referee.view import checks

    chosen = loading.load(scenario, sets)
    people, wanted = (chosen.source, chosen.curator.n) if side == "S" else (chosen.target, chosen.agents.count)
    if people.table is None or chosen.data is None:
        raise BadScenario(f"side {side} of {chosen.name} has simulated people: there is no table to check")
    found = examine(locate(chosen.data), people.table, None if wanted == PLAN else int(wanted))
    if as_json:
        typer.echo(json.dumps(checks.document(side, found)))
    else:
        for line in checks.lines(side, ", ".join(people.table.files), found):
            typer.echo(line)
    if not found.sound:
        raise typer.Exit(1)


def add_to(app: typer.Typer) -> None:
    """Give an application these commands."""
    app.command("check")(check_command)
