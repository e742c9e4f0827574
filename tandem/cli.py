"""``tandem``: the command for who looks at runs, on a page of this machine.

Each command imports what it needs itself, so that none waits for what another one needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from common.net.cli import TlsCa, application, begin, end_with_stdin, fail_clearly

app = application(
    "Look at runs in a browser: what ran, what it cost in privacy, whether to trust the number.\n\n"
    "Start with: tandem ui, then open the address that it prints"
)


@app.command("ui")
@fail_clearly
def ui_command(
    runs: Annotated[Path, typer.Option(help="Directory of run folders, or one run folder.")] = Path("runs"),
    referee: Annotated[str, typer.Option(metavar="URL", help="A referee that runs: its runs are shown live.")] = "",
    token: Annotated[
        str,
        typer.Option(
            envvar="TANDEM_OPERATOR_TOKEN",
            help="Operator token, for --referee. It stays in this process and is in no page.",
            show_default=False,
        ),
    ] = "",
    host: Annotated[str, typer.Option(help="Address of this machine to listen on: 127.0.0.1 or ::1.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8100,
    tls_ca: TlsCa = None,
) -> None:
    """Serve a page about runs to browsers of this machine: run folders, the runs of a referee, plans.

    Open the address that is printed: it holds a key, since other users of this machine can reach the port as well.
    Nothing but the public files of a run folder is read.

    Example: tandem ui --runs runs
    """
    from tandem.ui.app import serve_ui

    end_with_stdin()
    serve_ui(runs, referee, token, host, port)


def main() -> None:
    """Run the command."""
    begin()
    app()


if __name__ == "__main__":
    main()
