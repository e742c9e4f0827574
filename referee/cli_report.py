"""The command ``referee report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from common.core.terminal import say
from common.net.cli import Large, fail_clearly, read_within_limits


@fail_clearly
def report_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write here (default: report.html in the run folder; of several runs, here).", dir_okay=False
        ),
    ] = None,
    large: Large = False,
) -> None:
    """Write one self-contained HTML page about finished runs: the verdict first; of several runs, a comparison.

    Nothing but the folders' public files is read. The same folders give the same page.

    Example: referee report runs/ball-20260101-120000
    """
    read_within_limits(large)
    from referee.view.face.pages import write_report
    from referee.view.face.reading import view_of

    views = [view_of(run) for run in runs]
    file = output or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    write_report(file, views)
    for view in views:
        say(f"{view.name}: {view.verdict.title}")
    say(f"{file}: open it in a browser")


def add_to(app: typer.Typer) -> None:
    """Give an application this command."""
    app.command("report")(report_command)
