"""The commands about a page: ``local-agent page`` writes one, and ``local-agent check-page`` verifies one."""

import math
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from common.core.errors import BadInput
from common.core.terminal import say, warn
from common.net.cli import TlsCa
from local_agent import cli_services as shared


@dataclass(frozen=True)
class PageOptions:
    """Options for the contents of a page, the parties that it talks to, and its signing key."""

    epsilon: Annotated[
        float, typer.Option(help="Lifetime privacy budget that the page suggests, of all answers together.", min=0.0)
    ] = 1.0
    texts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON file of texts in place of the page's own, also of columns.", dir_okay=False
        ),
    ] = None
    issuer: Annotated[
        str | None, typer.Option(metavar="URL", help="Issuer that vouches for people, of whom each has a code of it.")
    ] = None
    issuer_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The issuer's public keys (its issuer.json).", dir_okay=False)
    ] = None
    witness: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="A witness, which must have seen the history that the referee shows a person."
        ),
    ] = None
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Signing key of who makes the page; made if it is not there (default: page.key, in this user's own "
            "state directory).",
            dir_okay=False,
        ),
    ] = None


def page_command(
    *,
    scenario: Annotated[str, typer.Argument(help="Shipped scenario or YAML file, whose people are rows of a table.")],
    output: Annotated[Path, typer.Option(help="Folder of the page, new or empty.", file_okay=False)],
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    asking: shared.RefereeOptions,
    relay: shared.RelayOption = None,
    kinds: shared.QuestionOptions,
    page: PageOptions,
    tls_ca: TlsCa = None,
) -> None:
    """Write a page with which people answer in their browsers: static files, which anybody can serve or keep.

    People fill in a form of the scenario's columns, read what is asked and what it costs, and agree or not. The page
    talks to the referee, or the relay, and to issuer and witness where they are named. Whoever serves it could change
    it, and then reads the records: it should not be the referee. Each file is listed with its hash in manifest.json,
    which is signed.

    Example: local-agent page mine.yaml --referee https://referee.example:8000 --output page
    """
    from common.core.durable import make_folder, user_state
    from common.crypto.identity import Identity, check_public
    from common.crypto.vouching import read_issuer
    from common.protocols.base import pattern_of
    from common.scenario import loading
    from local_agent import page as pages
    from local_agent.policy import chosen_queries, shipped_queries

    if not 0.0 < page.epsilon < math.inf:
        raise BadInput(f"--epsilon must be positive and finite, found {page.epsilon}")
    if (page.issuer is None) != (page.issuer_key is None):
        raise BadInput("an issuer is known by its keys: give both --issuer and --issuer-key, or none")
    issuer = page.issuer and page.issuer_key and (page.issuer, read_issuer(page.issuer_key))
    key = asking.referee_key and check_public(asking.referee_key, "--referee-key")
    if key is None:
        with closing(shared.dial(asking.referee, relay, key, 10.0)) as client:
            key = client.key()
        warn(
            f"trusted at first contact: the referee at {asking.referee} has the key {key}, which the page pins. "
            "Compare it with the key that the referee's operator prints (referee key), or give that with --referee-key"
        )
    people = loading.described_people(scenario, sets)
    asked = pattern_of(people.protocol).kinds("agents") & shipped_queries()
    settings = pages.settings(
        people,
        referee=asking.referee,
        key=key,
        relay=relay,
        issuer=issuer or None,
        witness=page.witness,
        epsilon=page.epsilon,
        queries=chosen_queries(kinds.accept or (), kinds.refuse or (), asked),
        texts=pages.read_texts(page.texts),
    )
    place = (page.key or user_state() / "page.key").absolute()
    make_folder(place.parent, mode=0o700)
    signed = pages.write_page(output, settings, Identity.load_or_create(place))
    say(f"the page is in {output}: {len(signed.message['files'])} files, signed by {signed.key}")
    say("Serve the folder by https, or on localhost; people open it with their invitation behind a #")


def check_page_command(
    place: Annotated[str, typer.Argument(help="The folder of a page, or the address at which it is served.")],
    maker: Annotated[
        str | None, typer.Option(metavar="KEY", help="Public key of who made it, as they print it (default: any).")
    ] = None,
    tls_ca: TlsCa = None,
) -> None:
    """Compare a page with the list that its maker has signed: its own folder, or what a server sends to this device.

    A server could send somebody else another page. Who keeps the checked folder, and opens it on their own device, has
    excluded that.

    Example: local-agent check-page https://answers.example --maker 3b6a...
    """
    from common.crypto.identity import check_public
    from local_agent.page import check_page

    manifest, key = check_page(place, maker and check_public(maker, "--maker"))
    if maker is None:
        warn("no --maker was named: a page that was changed can be signed anew, with another key")
    say(f"each of {len(manifest.files)} files is as {key} has signed it")
    say(f"it asks about {manifest.title!r}, for the referee {manifest.referee_key} at {manifest.referee}")
