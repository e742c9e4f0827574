"""``curator``: the command for the holder of the private sample. It imports modules only when they are needed."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.core.errors import BadData, BadInput
from common.core.terminal import deliver_json, say, say_lines, warn
from common.net import cli as shared
from common.net.cli import AsJson, ServiceTlsOptions, TlsCa, application, end_with_stdin, has_terminal, serving

if TYPE_CHECKING:
    from common.log.witness import Witness
    from curator.contributions.messages import Fields, Offer

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
    """Which referee a curator obeys, and who may ask what its run leaves open."""

    referee_key: Annotated[
        str | None,
        typer.Option(
            envvar=shared.REFEREE_KEY,
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
    consumer_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Public key of who may ask the stream of labels that a run opens, as tandem consumer-key prints it. "
            "Repeatable.",
        ),
    ] = None


FIRST_CONTACT = (
    "this curator trusts at first contact: the first referee that opens a run has its whole budget, and any client "
    "that reaches its port can be that one. To name the referee, give --referee-key"
)


@dataclass(frozen=True)
class CuratorStateOptions:
    """Where a curator's state lies, the seed it is bound to, where its ledger's head goes, and classes of one's own."""

    state: Annotated[
        Path | None,
        typer.Option(
            help="State directory: ledger, weights, keys. One budget each (default: curator, in this user's own: "
            "$XDG_STATE_HOME/tandem, else ~/.local/state/tandem)."
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(help="Seed of simulated people and their noise.", min=0)] = None
    witness: Witnesses = None
    classifier: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE.py:CLASS",
            help="A teacher's class of your own, own:NAME in the scenario. Its code sees records, and runs as the "
            "curator does. Repeatable; also in TANDEM_CLASSIFIERS, separated by spaces.",
        ),
    ] = None


@dataclass(frozen=True)
class CuratorTlsOptions(ServiceTlsOptions):
    """How a curator speaks TLS, and to whom."""

    tls_client_ca: shared.TlsClientCa = None


@app.command("serve")
def serve_command(
    *,
    scenario: Annotated[str, typer.Argument(help="Shipped scenario or YAML file; its curator section is the policy.")],
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8001,
    state_options: CuratorStateOptions,
    referee_options: ObeyedRefereeOptions,
    ledger_options: shared.LedgerOptions,
    tls: CuratorTlsOptions,
    tls_ca: TlsCa = None,
) -> None:
    """Serve a private sample: draw or load it, check the budget, listen.

    Example: curator serve ball --seed 1 --state /tmp/curator --port 8001 --referee-key KEY
    """
    from common.core.durable import user_state
    from common.crypto.identity import check_public
    from common.lifetime.charging import Charging
    from common.net.server import listen, serve
    from common.net.tokens import metrics_token
    from common.scenario import loading
    from common.scenario.accepting import accepted
    from curator.app import curator_app
    from curator.contributions.collection import serving_collection
    from curator.learners.foreign import name_classifier
    from curator.startup import open_curator, referee_of

    end_with_stdin()
    context = serving("curator", tls, tls.tls_client_ca)
    state = (state_options.state or user_state() / "curator").absolute()
    for definition in state_options.classifier or ():
        name_classifier(definition)
    resolved = accepted(loading.load(scenario, sets))
    referee = referee_of(state, referee_options.referee_key, trust_first_contact=referee_options.trust_first_contact)
    consumers = frozenset(check_public(key, "--consumer-key") for key in referee_options.consumer_key or ())
    if referee is None:
        warn(FIRST_CONTACT)
    with (
        listen(host, port) as listener,
        closing(
            open_curator(
                resolved,
                state,
                state_options.seed,
                referee,
                lambda text: say(text, error=True),
                witnesses=_witnesses(state_options.witness),
                charging=Charging(ledger_options.ledger, ledger_options.ephemeral, ledger_options.witnesses),
            )
        ) as curator,
        ExitStack() as resources,
    ):
        curator.consumers = consumers
        if consumers:
            say(f"consumers give --curator-key {curator.key}")
        table, collection = resolved.source.table, None
        if table is not None and table.contributed:
            collection = resources.enter_context(closing(serving_collection(state, resolved)))
        serve(curator_app(curator, metrics_token(), collection), listener, "curator", context)


TOKEN = "TANDEM_CONTRIBUTION_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token that contributors must show, or with a contributor's invitation code."""


@app.command("collect")
def collect_command(
    *,
    scenario: Annotated[str, typer.Argument(help="YAML file whose source table has contributed: true.")],
    state: Annotated[Path, typer.Option(help="The curator's state directory; curator serve takes the same.")],
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8002,
    most: Annotated[
        int | None, typer.Option(help="Contributions that are kept at most (default: curator.n).", min=1)
    ] = None,
    tls: ServiceTlsOptions,
) -> None:
    """Collect the records that people give this curator, until it is stopped; curator serve then begins the run.

    Who contributes shows an invitation code (curator invite), which is good for one record, or the token in
    TANDEM_CONTRIBUTION_TOKEN, whose holders may give any number; a hash of it is kept, so that later starts need not
    give it. Records come sealed (HPKE) and are kept so. Until the run begins everybody can have theirs deleted.

    Example: TANDEM_CONTRIBUTION_TOKEN=... curator collect FILE.yaml --state /srv/curator
    """
    from common.net.server import listen, serve
    from common.net.tokens import checked_token
    from common.scenario import loading
    from common.scenario.accepting import accepted
    from curator.contributions.collection import collecting, collecting_app
    from curator.startup import check_policy

    end_with_stdin()
    context = serving("curator", tls)
    token = os.environ.get(TOKEN) or None
    if token is not None and len(checked_token(TOKEN, token)) < 8:
        raise BadInput(f"{TOKEN} must have at least 8 characters")
    resolved = accepted(loading.load(scenario, sets))
    check_policy(resolved)
    with listen(host, port) as listener, collecting(state.absolute(), resolved, most=most, token=token) as collection:
        if not collection.admits_people:
            raise BadInput(
                f"no contributor is admitted: make invitation codes first (curator invite --state {state}), or set "
                f"{TOKEN} in the environment at the first start, with at least 8 characters"
            )
        stored, withdrawn = collection.counts()
        say(f"contributors give --curator-key {collection.curator}")
        say(f"{stored} of {resolved.curator.n} records are here, {withdrawn} were withdrawn")
        serve(collecting_app(collection), listener, "curator", context)


@app.command("invite")
def invite_command(
    state: Annotated[Path, typer.Option(help="The curator's state directory; curator collect takes the same.")],
    count: Annotated[int, typer.Option(help="How many people to invite.", min=1, max=1_000_000)] = 1,
) -> None:
    """Print invitation codes, one a line, each good for one record; they are not shown again, only hashes are kept.

    Give each person one, who contributes with it in the place of the token. A holder of one cannot take the places of
    others. It works while the curator collects, too.

    Example: curator invite --count 500 --state /srv/curator
    """
    from curator.contributions.collection import new_invitations

    for code in new_invitations(state.absolute(), count):
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


@app.command("contribute")
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
    from curator.contributions.contributor import CollectorClient, Contributor, description

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
            say_lines(description(offer, texts, person.curator, curator.to))
            return yes or typer.confirm("Give this record?")

        receipt = person.contribute(fields, client, token, agree)
    say(f"contribution {receipt.message['contribution']} is kept by the curator; the receipt is in {folder}")


def _fields(record: Path | None, assignments: list[str]) -> dict[str, Any]:
    if record is None and not assignments:
        raise typer.BadParameter("give a JSON file with the record, or its fields with --field COLUMN=VALUE")
    try:
        tree = {} if record is None else json.loads(record.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise BadData(f"{record} cannot be read as JSON") from None
    if not isinstance(tree, dict):
        raise BadData(f'{record} must hold the person\'s fields by column, {{"age": 39, ...}}')
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter("--field wants COLUMN=VALUE")
        tree[name] = value
    return tree


@app.command("console")
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
def backup_command(copy: Annotated[Path, typer.Argument(help="A new directory for the copy.")], state: State) -> None:
    """Copy the ledger and the keys, also while the curator serves. The copy holds its secrets: guard it as well.

    Example: curator backup /mnt/other/copy-1 --state /srv/curator
    """
    from curator.ledger import backup

    head = backup(state, copy)
    say(f"{copy} holds the ledger's {head.entries} entries")


@app.command("restore")
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
    from curator.ledger import check_copy, people_witnesses, restore

    check_copy(copy)
    head = restore(copy, state, [*_witnesses(witness), *people_witnesses(copy)], close=close)
    say(f"{state} holds the ledger's {head.entries} entries again" + (": nothing more is released" * close))


looking = application(
    "Look at a curator's ledger: verify it, show what was charged.\n\n"
    "Example: curator ledger verify --state /srv/curator"
)
app.add_typer(looking, name="ledger")


@looking.command("verify")
def verify_command(state: State, witness: Witnesses = None, as_json: AsJson = False, tls_ca: TlsCa = None) -> None:
    """Check the ledger's chain, its head, and what witnesses have seen.

    Example: curator ledger verify --state /srv/curator
    """
    from curator.ledger import verify_ledger

    report = verify_ledger(state, _witnesses(witness))
    if as_json:
        deliver_json(report)
        return
    say(f"verified {state}: {report['entries']} entries, head {report['hash']}")
    say(f"agreed by {', '.join(report['agreed'])}")
    if report["closed"]:
        say(f"closed: {report['closed']}")


@looking.command("show")
def show_command(state: State, as_json: AsJson = False) -> None:
    """List what was charged and released, oldest first, without what was released.

    Example: curator ledger show --state /srv/curator
    """
    from curator.ledger import entry_summaries

    entries = entry_summaries(state)
    if as_json:
        deliver_json(entries)
        return
    for entry in entries:
        rest = ", ".join(f"{name} {value}" for name, value in entry.items() if name not in ("entry", "kind"))
        say(f"{entry['entry']:>6}  {entry['kind']:<8} {rest}")


def _witnesses(places: list[str] | None) -> list[Witness]:
    from common.net.client import witness_at

    return [witness_at(place) for place in places or []]


main = app  # for the entry point (tandem.commands)


if __name__ == "__main__":
    main()
