"""``curator``: the command of whoever holds the private sample. It imports what it needs when it is run."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.core.terminal import deliver_json, say, warn
from common.net.cli import (
    REFEREE_KEY,
    AsJson,
    LedgerOptions,
    ServiceTlsOptions,
    TlsCa,
    TlsClientCa,
    application,
    begin,
    end_with_stdin,
    fail_clearly,
    grouped,
    serving,
)
from curator import cli_contributions as contributions

if TYPE_CHECKING:
    from common.log.witness import Witness

app = application(
    "The curator: holds the records of the people who trust it, and answers within a fixed privacy budget."
)


State = Annotated[Path, typer.Option(help="The curator's state directory.", exists=True, file_okay=False)]
Witnesses = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PLACE",
        help="Where the ledger's head goes too: a file on another disk, or http://HOST:PORT/v1/heads/NAME of a referee "
        "witness (token in TANDEM_WITNESS_TOKEN).",
    ),
]


@dataclass(frozen=True)
class ObeyedRefereeOptions:
    """Which referee a curator obeys."""

    referee_key: Annotated[
        str | None,
        typer.Option(
            envvar=REFEREE_KEY,
            help="Public key of the one referee to obey, as its operator prints it (referee key). Needed until a run "
            "has opened; from then on the ledger holds it.",
        ),
    ] = None
    trust_first_contact: Annotated[
        bool,
        typer.Option(
            "--trust-first-contact",
            help="Without a key: obey the first referee that opens a run. Any client that reaches the port can be it.",
        ),
    ] = False


FIRST_CONTACT = (
    "this curator trusts at first contact: the first referee that opens a run has its whole budget, and any client "
    "that reaches its port can be that one. To name the referee, give --referee-key"
)


@dataclass(frozen=True)
class CuratorStateOptions:
    """Where a curator's state lies, the seed it is bound to, and where its ledger's head goes."""

    state: Annotated[
        Path | None,
        typer.Option(
            help="State directory: ledger, weights, keys. One budget each (default: curator, in this user's own: "
            "$XDG_STATE_HOME/tandem, else ~/.local/state/tandem)."
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(help="Seed of simulated people and their noise.", min=0)] = None
    witness: Witnesses = None


@dataclass(frozen=True)
class CuratorTlsOptions(ServiceTlsOptions):
    """How a curator speaks TLS, and to whom."""

    tls_client_ca: TlsClientCa = None


@app.command("serve")
@fail_clearly
@grouped
def serve_command(
    *,
    scenario: Annotated[str, typer.Argument(help="Shipped scenario or YAML file; its curator section is the policy.")],
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8001,
    place: CuratorStateOptions,
    obeyed: ObeyedRefereeOptions,
    charged: LedgerOptions,
    tls: CuratorTlsOptions,
    tls_ca: TlsCa = None,
) -> None:
    """Serve a private sample: draw or load it, check the budget, listen.

    Example: curator serve ball --seed 1 --state /tmp/curator --port 8001 --referee-key KEY
    """
    from common.core.durable import user_state
    from common.lifetime.charging import Charging
    from common.net.app import metrics_token
    from common.net.server import listen, serve
    from common.scenario import loading
    from common.scenario.accepting import accepted
    from curator.contributions.opening import after_the_beginning
    from curator.service.app import curator_app
    from curator.service.startup import open_curator, referee_of

    end_with_stdin()
    context = serving("curator", tls.tls_cert, tls.tls_key, tls.tls_client_ca)
    state = (place.state or user_state() / "curator").absolute()
    chosen = accepted(loading.load(scenario, sets))
    referee = referee_of(state, obeyed.referee_key, trust_first_contact=obeyed.trust_first_contact)
    if referee is None:
        warn(FIRST_CONTACT)
    with (
        listen(host, port) as listener,
        closing(
            open_curator(
                chosen,
                state,
                place.seed,
                referee,
                lambda text: say(text, error=True),
                witnesses=_witnesses(place.witness),
                charging=Charging(charged.ledger, charged.ephemeral, charged.witnesses),
            )
        ) as curator,
        ExitStack() as opened,
    ):
        table, collection = chosen.source.table, None
        if table is not None and table.contributed:
            collection = opened.enter_context(closing(after_the_beginning(state, chosen)))
        serve(curator_app(curator, metrics_token(), collection), listener, "curator", context)


contributions.add_to(app)


@app.command("console")
@fail_clearly
def console_command(
    state: State,
    host: Annotated[str, typer.Option(help="Address of this machine to listen on: 127.0.0.1 or ::1.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8101,
) -> None:
    """Serve the owner's page about a state directory, also while the curator serves: budget, weights, what was clipped.

    Everything on it is private and no guarantee covers it: publish nothing of it. The directory is only read.

    Example: curator console --state /srv/curator
    """
    from curator.console import serve_console

    end_with_stdin()
    serve_console(state, host, port)


@app.command("backup")
@fail_clearly
def backup_command(copy: Annotated[Path, typer.Argument(help="A new directory for the copy.")], state: State) -> None:
    """Copy the ledger and the keys, also while the curator serves. The copy holds its secrets: guard it as well.

    Example: curator backup /mnt/other/copy-1 --state /srv/curator
    """
    from curator.state.copies import backup

    head = backup(state, copy)
    say(f"{copy} holds the ledger's {head.entries} entries")


@app.command("restore")
@fail_clearly
def restore_command(
    copy: Annotated[Path, typer.Argument(help="A directory that curator backup has made.")],
    state: Annotated[
        Path, typer.Option(help="The curator's state directory: the one that was copied, or a new one, which is made.")
    ],
    witness: Witnesses = None,
    close: Annotated[
        bool, typer.Option("--close", help="Take also a copy that may be old; the whole budget then counts as spent.")
    ] = False,
    tls_ca: TlsCa = None,
) -> None:
    """Put a copy in the place of a ledger that was lost. It must be the newest: what it does not know of was spent.

    Example: curator restore /mnt/other/copy-1 --state /srv/curator
    """
    from curator.state.copies import check_copy, known_to_people, restore

    check_copy(copy)
    head = restore(copy, state, [*_witnesses(witness), *known_to_people(copy)], close=close)
    say(f"{state} holds the ledger's {head.entries} entries again" + (": nothing more is released" * close))


looking = application(
    "Look at a curator's ledger: verify it, show what was charged.\n\n"
    "Example: curator ledger verify --state /srv/curator"
)
app.add_typer(looking, name="ledger")


@looking.command("verify")
@fail_clearly
def verify_command(state: State, witness: Witnesses = None, as_json: AsJson = False, tls_ca: TlsCa = None) -> None:
    """Check the ledger's chain, its head, and what witnesses have seen.

    Example: curator ledger verify --state /srv/curator
    """
    from curator.state.ledger import verify_ledger

    found = verify_ledger(state, _witnesses(witness))
    if as_json:
        deliver_json(found)
        return
    say(f"verified {state}: {found['entries']} entries, head {found['hash']}")
    say(f"agreed by {', '.join(found['agreed'])}")
    if found["closed"]:
        say(f"closed: {found['closed']}")


@looking.command("show")
@fail_clearly
def show_command(state: State, as_json: AsJson = False) -> None:
    """List what was charged and released, oldest first, without what was released.

    Example: curator ledger show --state /srv/curator
    """
    from curator.state.ledger import listed

    entries = listed(state)
    if as_json:
        deliver_json(entries)
        return
    for entry in entries:
        rest = ", ".join(f"{name} {value}" for name, value in entry.items() if name not in ("entry", "kind"))
        say(f"{entry['entry']:>6}  {entry['kind']:<8} {rest}")


def _witnesses(places: list[str] | None) -> list[Witness]:
    from common.net.client import witness_at

    return [witness_at(place) for place in places or []]


def main() -> None:
    """Run the command."""
    begin()
    app()


if __name__ == "__main__":
    main()
