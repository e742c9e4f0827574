"""The command of a relay: ``local-agent relay``, which anybody may run but the referee."""

from __future__ import annotations

from typing import Annotated

import typer

from common.net.cli import TlsCa, TlsCert, TlsKey, end_with_stdin, fail_clearly, serving


@fail_clearly
def relay_command(
    referee: Annotated[
        str, typer.Option(help="Address of the one referee that it leads to.")
    ] = "http://127.0.0.1:8000",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8020,
    source: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address of this machine to dial the referee from.")
    ] = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Carry agents' requests to one referee, which then does not learn their addresses (RFC 9458).

    What is carried is encrypted between agent and referee: a relay can neither read nor change it, and keeps nothing.
    It is worth something only if it is not run by who runs the referee: together they know who asked what.

    Example: local-agent relay --referee https://referee.example:8000 --host 0.0.0.0
    """
    from common.net.oblivious.relay import relay_app
    from common.net.server import listen, serve

    end_with_stdin()
    tls = serving("relay", tls_cert, tls_key)
    with listen(host, port) as listener:
        serve(relay_app(referee, source), listener, "relay", tls)


def add_to(app: typer.Typer) -> None:
    """Give an application this command."""
    app.command("relay")(relay_command)
