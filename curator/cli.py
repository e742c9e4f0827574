"""``curator``: the command of whoever holds the private sample. It imports what it needs when it is run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from common.service.cli import application, end_with_stdin, fail_clearly

app = application(
    "The curator: holds the records of the people who trust it, and answers within a fixed privacy budget."
)


@app.callback()
def main_callback() -> None:
    """Hold the records of the people who trust the curator, and answer within a fixed privacy budget."""


@app.command("serve")
@fail_clearly
def serve_command(
    scenario: Annotated[str, typer.Argument(help="Shipped scenario or YAML file; its curator section is the policy.")],
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    state: Annotated[Path, typer.Option(help="State directory: ledger, weights, keys. One budget each.")] = Path(
        "curator-state"
    ),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8001,
    seed: Annotated[int | None, typer.Option(help="Seed of simulated people and their noise.", min=0)] = None,
    referee_key: Annotated[
        str | None,
        typer.Option(help="Public key of the one referee to obey (default: the first to open a run)."),
    ] = None,
) -> None:
    """Serve a private sample: draw or load it, check the budget, listen.

    Example: curator serve ball --seed 1 --state /tmp/curator --port 8001
    """
    from common.planning.plan import resolve
    from common.scenario import loading
    from common.service.app import listen, serve
    from curator.service.app import curator_app
    from curator.service.startup import open_curator

    end_with_stdin()
    chosen = resolve(loading.load(scenario, sets))
    with (
        listen(host, port) as listener,
        closing(open_curator(chosen, state, seed, referee_key, lambda text: typer.echo(text, err=True))) as curator,
    ):
        serve(curator_app(curator), listener, "curator")


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
