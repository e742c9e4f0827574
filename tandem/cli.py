"""``tandem``: the command to look at runs on a local web page, and for consumers of streams that runs leave open.

Each subcommand imports what it needs itself, so that none waits for the imports of another.
"""

from pathlib import Path
from typing import Annotated

import typer

from common.core.terminal import deliver_json, say
from common.net.cli import AsJson, TlsCa, application, end_with_stdin

app = application(
    "Look at runs in a browser: what ran, what it cost in privacy, whether to trust the number; ask a curator's stream."
    "\n\n"
    "Start with: tandem ui, then open the address that it prints"
)


@app.command("ui")
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
    """Serve a page about runs to browsers of this machine: run folders, a referee's runs, plans, and new runs.

    Open the address that is printed: it holds a key, since other users of this machine can reach the port as well.
    Of run folders nothing but the public files is read. A new run is about two tables that you choose; they are read
    on this machine only.

    Example: tandem ui --runs runs
    """
    from tandem.ui.app import serve_ui

    end_with_stdin()
    serve_ui(runs, referee, token, host, port)


ConsumerKeyFile = Annotated[
    Path | None, typer.Option("--key", help="File of your key, made if there is none (default: in this user's own).")
]


@app.command("consumer-key")
def consumer_key_command(key: ConsumerKeyFile = None) -> None:
    """Print the public key with which you ask a curator's stream; its operator names it (curator serve --consumer-key).

    Example: tandem consumer-key
    """
    from tandem.stream import consumer_key

    say(consumer_key(key))


@app.command("ask")
def ask_command(
    points: Annotated[
        Path,
        typer.Argument(
            help="CSV file, one public point a line, its features as numbers; - is the standard input.", allow_dash=True
        ),
    ],
    curator_key: Annotated[str, typer.Option(help="The curator's public key, as its operator has it.")],
    curator: Annotated[str, typer.Option(help="Address of the curator.")] = "http://127.0.0.1:8001",
    key: ConsumerKeyFile = None,
    patience: Annotated[float, typer.Option(help="Seconds to keep trying while the curator is away.")] = 60.0,
    as_json: AsJson = False,
    tls_ca: TlsCa = None,
) -> None:
    """Ask a curator's stream the classes of public points, one after the other; print one line each.

    A line has the class, or "unstable", and how many more unstable answers there may be. The same point again gets the
    same answer and uses nothing up. Exit status 1 if the stream is used up.

    Example: tandem ask points.csv --curator http://127.0.0.1:8001 --curator-key KEY
    """
    from tandem.stream import LabelStream, read_points

    values = read_points(points)
    with LabelStream(curator, curator_key=curator_key, key=key, patience=patience) as stream:
        for point in values:
            reply = stream.ask(point)
            if as_json:
                deliver_json(reply._asdict())
            else:
                label = "unstable" if reply.label is None else reply.label
                say(f"{label}  ({reply.unstable_left} unstable answers and {reply.questions_left} questions are left)")


main = app  # of the entry point (tandem.commands)


if __name__ == "__main__":
    main()
