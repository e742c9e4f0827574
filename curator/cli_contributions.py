"""The commands by which people's records come to a curator: ``curator collect``, ``invite`` and ``contribute``."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.core.errors import BadData, BadInput
from common.core.terminal import say, say_lines
from common.net.cli import TlsCa, TlsCert, TlsKey, end_with_stdin, fail_clearly, grouped, has_terminal, serving

if TYPE_CHECKING:
    from curator.contributions.fields import Fields
    from curator.contributions.messages import Offer

TOKEN = "TANDEM_CONTRIBUTION_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable: what contributors must show, unless they have an invitation code, which stands there, too."""


@fail_clearly
def collect_command(
    scenario: Annotated[str, typer.Argument(help="YAML file whose source table has contributed: true.")],
    state: Annotated[Path, typer.Option(help="The curator's state directory; curator serve takes the same.")],
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8002,
    most: Annotated[
        int | None, typer.Option(help="Contributions that are kept at most (default: curator.n).", min=1)
    ] = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Collect the records that people give this curator, until it is stopped; curator serve then begins the run.

    Who contributes shows an invitation code (curator invite), which is good for one record, or the token in
    TANDEM_CONTRIBUTION_TOKEN, whose holders may give any number; a hash of it is kept, so that later starts need not
    give it. Records come sealed (HPKE) and are kept so. Until the run begins everybody can have theirs deleted.

    Example: TANDEM_CONTRIBUTION_TOKEN=... curator collect FILE.yaml --state /srv/curator
    """
    from common.net.server import listen, serve
    from common.scenario import loading
    from common.scenario.accepting import accepted
    from curator.contributions.app import collecting_app
    from curator.contributions.opening import collecting
    from curator.service.startup import check_policy

    end_with_stdin()
    tls = serving("curator", tls_cert, tls_key)
    chosen = accepted(loading.load(scenario, sets))
    check_policy(chosen)
    token = os.environ.get(TOKEN) or None
    if token is not None and len(token) < 8:
        raise BadInput(f"{TOKEN} must have at least 8 characters")
    with listen(host, port) as listener, collecting(state.absolute(), chosen, most=most, token=token) as collection:
        if not collection.admits_people:
            raise BadInput(
                f"no contributor is admitted: make invitation codes first (curator invite --state {state}), or set "
                f"{TOKEN} in the environment at the first start, with at least 8 characters"
            )
        kept, withdrawn = collection.counts()
        say(f"contributors give --curator-key {collection.curator}")
        say(f"{kept} of {chosen.curator.n} records are here, {withdrawn} were withdrawn")
        serve(collecting_app(collection), listener, "curator", tls)


@fail_clearly
def invite_command(
    state: Annotated[Path, typer.Option(help="The curator's state directory; curator collect takes the same.")],
    count: Annotated[int, typer.Option(help="How many people to invite.", min=1, max=1_000_000)] = 1,
) -> None:
    """Print invitation codes, one a line, each good for one record; they are not shown again, only hashes are kept.

    Give each person one, who contributes with it in the place of the token. A holder of one cannot take the places of
    others. It works while the curator collects, too.

    Example: curator invite --count 500 --state /srv/curator
    """
    from curator.contributions.opening import invited

    for code in invited(state.absolute(), count):
        say(code)


@dataclass(frozen=True)
class CollectingCuratorOptions:
    """The curator that collects: its address, its key, and how long it may be away."""

    to: Annotated[str, typer.Option(help="Address of the curator that collects.")] = "http://127.0.0.1:8002"
    curator_key: Annotated[
        str | None,
        typer.Option(
            help="The curator's public key, as you have it from the curator: the record is sealed to it alone. "
            "Needed once."
        ),
    ] = None
    patience: Annotated[float, typer.Option(help="Seconds to keep trying while the curator is away.")] = 60.0


@fail_clearly
@grouped
def contribute_command(
    *,
    record: Annotated[
        Path | None, typer.Argument(help='JSON file of your fields by column: {"age": 39, ...}; null: not known.')
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="One field, in the place of the file's. Repeatable."),
    ] = None,
    curator: CollectingCuratorOptions,
    state: Annotated[
        Path | None,
        typer.Option(help="State directory: your key and receipts (default: contributor, in this user's own)."),
    ] = None,
    token: Annotated[
        str, typer.Option(envvar=TOKEN, help="Your invitation code, or the contribution token.", show_default=False)
    ] = "",
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Have the record deleted, which is possible until the run begins.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Agree beforehand, for scripts.")] = False,
    tls_ca: TlsCa = None,
) -> None:
    """Give your record to a curator that you trust: sealed to its key, once, deletable until its run begins.

    Shows what would be sent, to whom, and what the curator promises, and asks. If something fails, the same command
    with the same --state sends the same again; the curator takes it once. Exit status 1 if you say no.

    Example: curator contribute me.json --to http://127.0.0.1:8002 --curator-key KEY
    """
    from common.core.durable import user_state
    from curator.contributions.contributor import CollectorClient, Contributor, described

    folder = (state or user_state() / "contributor").absolute()
    if withdraw and (record is not None or field):
        raise typer.BadParameter("--withdraw takes no record")
    fields = {} if withdraw else _fields(record, field or [])
    if not (withdraw or yes or has_terminal()):
        raise BadInput(
            "cannot ask for consent, since there is no terminal: run this on a terminal, or agree beforehand, "
            "with --yes; nothing was sent"
        )
    with closing(CollectorClient(curator.to, patience=curator.patience)) as client:
        person = Contributor(folder, curator.curator_key)
        if withdraw:
            receipt = person.withdraw(client, token)
            say(f"contribution {receipt.message['contribution']} is deleted; the receipt is in {folder}")
            return

        def agree(offer: Offer, texts: Fields) -> bool:
            say_lines(described(offer, texts, person.curator, curator.to))
            return yes or typer.confirm("Give this record?")

        receipt = person.contribute(fields, client, token, agree)
    say(f"contribution {receipt.message['contribution']} is kept by the curator; the receipt is in {folder}")


def _fields(record: Path | None, given: list[str]) -> dict[str, Any]:
    """Return the fields of a file, and those that options give."""
    if record is None and not given:
        raise typer.BadParameter("give a JSON file with the record, or its fields with --field COLUMN=VALUE")
    try:
        tree = {} if record is None else json.loads(record.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise BadData(f"{record} cannot be read as JSON") from None
    if not isinstance(tree, dict):
        raise BadData(f'{record} must hold the person\'s fields by column, {{"age": 39, ...}}')
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise typer.BadParameter("--field wants COLUMN=VALUE")
        tree[name] = value
    return tree


def add_to(app: typer.Typer) -> None:
    """Give an application these commands."""
    app.command("collect")(collect_command)
    app.command("invite")(invite_command)
    app.command("contribute")(contribute_command)
