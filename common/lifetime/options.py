"""Options of the commands that charge people: where, and whether at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Ledger = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="Directory of the ledger of people over all runs (default: in this user's state directory)."
    ),
]
LedgerWitness = Annotated[
    list[str] | None,
    typer.Option(
        "--ledger-witness",
        metavar="PLACE",
        envvar="TANDEM_LEDGER_WITNESS",
        help="Where the heads of the ledger of people go, too, so that an older copy of it is noticed: a file on "
        "another disk, or http://HOST:PORT/v1/heads/NAME of a referee witness (token in TANDEM_WITNESS_TOKEN).",
    ),
]
Ephemeral = Annotated[bool, typer.Option("--ephemeral", help="Charge nobody: for experiments on public records only.")]
