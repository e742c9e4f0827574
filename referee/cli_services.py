"""The commands of what runs for long: ``referee serve``, ``referee witness``, and their keys and backups."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.core.machine import python_environment, python_module
from common.core.terminal import say, say_command, say_lines, warn
from common.core.threads import Supervised
from common.net.cli import ENDS_WITH_STDIN, AllowOrigin, ClientTlsOptions, ServiceTlsOptions, end_with_stdin, serving

if TYPE_CHECKING:
    from common.net.client import WitnessClient
    from referee.collection.enrolment import Caps
    from referee.service.referee import Referee
    from referee.store import RefereeStore

PURPOSES = ("enrolment", "operator", "individual")  # what tokens of the environment admit to


@dataclass(frozen=True)
class StateOptions:
    """Where a referee's state lies, and what it shares with other processes on it."""

    state: Annotated[
        Path | None,
        typer.Option(
            help="State directory: key and database (default: referee, in this user's own: $XDG_STATE_HOME/tandem, "
            "else ~/.local/state/tandem)."
        ),
    ] = None
    database: Annotated[
        str | None,
        typer.Option(
            envvar="TANDEM_DATABASE",
            help="sqlite:///FILE or postgresql+psycopg://... (default: SQLite in the state directory).",
        ),
    ] = None
    role: Annotated[
        str,
        typer.Option(
            help="Of several processes on one database, one drives the runs: both (takes requests, and drives when no "
            "other does) or ingest (takes requests only)."
        ),
    ] = "both"
    key: Annotated[
        Path | None,
        typer.Option(help="File of the signing key, which all processes share (default: in the state directory)."),
    ] = None
    lease: Annotated[
        float,
        typer.Option(help="Seconds after which another process drives if this one does not renew its lease.", min=0.5),
    ] = 10.0

    @property
    def folder(self) -> Path:
        from common.core.durable import user_state

        return (self.state or user_state() / "referee").absolute()


@dataclass(frozen=True)
class EnrolmentOptions:
    """Who may enrol, and how many."""

    max_individuals: Annotated[
        int | None,
        typer.Option(
            help="Individuals' keys that may enrol (default: 100,000, which one token can admit; 10,000,000 with "
            "--issuer, as each then shows a credential).",
            min=0,
        ),
    ] = None
    max_hosts: Annotated[int, typer.Option(help="Population hosts that may enrol.", min=0)] = 1_000
    people_per_host: Annotated[int, typer.Option(help="People that one host may bring.", min=1)] = 100_000_000
    issuer: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Public keys of an issuer (its issuer.json): participants must show its credential or grant. "
            "Repeatable; alike for all processes.",
        ),
    ] = None

    def caps(self) -> Caps:
        """Return how many may enrol; more individuals where an issuer vouches for each."""
        from referee.collection.enrolment import UNVOUCHED, USUAL, Caps

        individuals = self.max_individuals
        if individuals is None:
            individuals = USUAL.individuals if self.issuer else UNVOUCHED
        return Caps(individuals, self.max_hosts, self.people_per_host)


@dataclass(frozen=True)
class CuratorOptions:
    """The curator, and how long a run waits for it."""

    curator: Annotated[str, typer.Option(help="Address of the curator.")] = "http://127.0.0.1:8001"
    patience: Annotated[
        float,
        typer.Option(
            help="Seconds after which a run fails whose curator is away and has not agreed to it yet; later it says "
            "that it waits.",
            min=0,
        ),
    ] = 300.0
    curator_patience: Annotated[
        float,
        typer.Option(help="Seconds for which a run waits for one answer of the curator, and then fails.", min=1.0),
    ] = 86_400.0


@dataclass(frozen=True)
class WitnessOptions:
    """The witnesses of every run."""

    witness: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL", help="A witness of every run (referee witness); its token: TANDEM_WITNESS_TOKEN. Repeatable."
        ),
    ] = None
    beacon: Annotated[
        bool,
        typer.Option("--beacon", help="Have what the witnesses sign take part in the order in which agents are asked."),
    ] = False

    def clients(self) -> list[WitnessClient]:
        """Return a client of each witness; BadInput if the beacon is asked for and no witness is named."""
        from common.core.errors import BadInput
        from common.net.client import WITNESS_TOKEN, WitnessClient

        if self.beacon and not self.witness:
            raise BadInput("--beacon takes the words of witnesses, and there are none: name them with --witness URL")
        return [WitnessClient(url, os.environ.get(WITNESS_TOKEN, "")) for url in self.witness or ()]


def serve_command(
    *,
    curator: CuratorOptions,
    place: StateOptions,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8000,
    enrolment: EnrolmentOptions,
    allow_origin: AllowOrigin = None,
    page: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Serve a page of the runs, too (tandem ui), to browsers of this machine; its address is printed.",
            min=0,
            max=65535,
        ),
    ] = None,
    witnesses: WitnessOptions,
    tls: ServiceTlsOptions,
    tls_client: ClientTlsOptions,
) -> None:
    """Serve: enrol agents, take runs, drive them; a run that a crash cut off is taken up at once.

    Tokens are read from the environment, and only their hashes are kept: TANDEM_ENROLMENT_TOKEN (population hosts, also
    individuals), TANDEM_OPERATOR_TOKEN (referee run --deployment URL), and, if individuals are to have one that admits
    no hosts, TANDEM_INDIVIDUAL_TOKEN. One that was given at an earlier start, and no longer is, admits nobody.

    Example: TANDEM_ENROLMENT_TOKEN=... TANDEM_OPERATOR_TOKEN=... referee serve --curator http://127.0.0.1:8001
    """
    from common.net.server import listen, serve
    from common.net.tls import dialled_host, host_port
    from referee.service.app import referee_app
    from referee.service.runner import Follower, Runner

    end_with_stdin()
    context = serving("referee", tls)
    if place.role not in ("both", "ingest"):
        raise typer.BadParameter(f"the role is both or ingest, found {place.role!r}")
    tokens = _tokens()
    with ExitStack() as unless_it_starts:
        listener = unless_it_starts.enter_context(listen(host, port))
        referee = _referee(curator, place, enrolment, witnesses)
        unless_it_starts.callback(referee.close)
        for purpose in (*PURPOSES, "metrics"):  # one that is not given any more admits nobody
            referee.registrar.allow(purpose, tokens.get(purpose))
        # The runner is at work until the process ends: nothing may be closed under it, or its run would fail.
        unless_it_starts.pop_all()
    say(f"curators and agents give --referee-key {referee.identity.public}")
    follower = Follower(referee)
    follower.start()
    runner = Runner(referee)
    if place.role == "both":
        runner.start()
    with ExitStack() as beside:
        if page is not None:
            here = host_port(dialled_host(host), listener.getsockname()[1])
            own = f"{'http' if context is None else 'https'}://{here}"
            beside.enter_context(page_beside(own, tokens["operator"], page))
        serve(referee_app(referee, runner, [follower.threads], allow_origin or ()), listener, "referee", context)
    runner.stop()


def _tokens() -> dict[str, str]:
    from common.net.tokens import metrics_token

    needed = [purpose for purpose in PURPOSES if purpose != "individual" or os.environ.get("TANDEM_INDIVIDUAL_TOKEN")]
    tokens = {purpose: _token(purpose) for purpose in needed}
    if token := metrics_token():
        tokens["metrics"] = token
    return tokens


def _token(purpose: str) -> str:
    """Return a token of the environment; BadInput if it is missing, too short, or no client can send it."""
    from common.core.errors import BadInput
    from common.net.tokens import checked_token

    name = f"TANDEM_{purpose.upper()}_TOKEN"
    if len(token := os.environ.get(name, "")) < 8:
        raise BadInput(f"{name} must be set in the environment, with at least 8 characters")
    return checked_token(name, token)


def _referee(
    curator: CuratorOptions, place: StateOptions, enrolment: EnrolmentOptions, witnesses: WitnessOptions
) -> Referee:
    from common.crypto.vouching import read_issuer
    from referee.service.referee import CuratorClient, Referee, RefereeSettings

    client = CuratorClient(curator.curator, patience=curator.patience)
    client.works = max(client.works, curator.curator_patience)
    client.bind()
    referee = Referee(
        place.folder,
        client,
        witnesses=witnesses.clients(),
        beacon=witnesses.beacon,
        settings=RefereeSettings(place.database, place.key, place.lease, curator.curator_patience),
        caps=enrolment.caps(),
        issuers=[read_issuer(path) for path in enrolment.issuer or ()],
    )
    client.identity = referee.identity
    return referee


State = Annotated[
    Path | None, typer.Option(help="The referee's state directory (default: referee, in this user's own).")
]
KeyFile = Annotated[Path | None, typer.Option(help="File of the signing key (default: in the state directory).")]
Database = Annotated[
    str | None, typer.Option(envvar="TANDEM_DATABASE", help="Its database (default: SQLite in the state directory).")
]


def key_command(state: State = None, key: KeyFile = None) -> None:
    """Print the referee's public key, which curators and agents are given; one is made if there is none yet.

    A curator that is started with it (--referee-key, or TANDEM_REFEREE_KEY) obeys this referee and no other one. It is
    public; hand it over by a way on which nobody else can exchange it.

    Example: referee key --state /srv/referee
    """
    say(_public_key(_state(state), key))


def _state(path: Path | None) -> Path:
    from common.core.durable import make_folder, user_state

    folder = (path or user_state() / "referee").absolute()
    make_folder(folder, mode=0o700)
    return folder


def _public_key(state: Path, key: Path | None) -> str:
    from common.crypto.identity import Identity

    return Identity.load_or_create(key or state / "identity.key").public


@contextmanager
def _stored(path: Path | None, database: str | None, key: Path | None) -> Iterator[tuple[RefereeStore, str]]:
    """Open the database of a referee, which may serve at the same time; gives it with the referee's public key.

    It warns where it makes one: the referee that was meant may have another.
    """
    from common.core.database import sqlite_url
    from referee.store import DATABASE, RefereeStore

    state = _state(path)
    public = _public_key(state, key)
    is_new = not database and not (state / DATABASE).exists()
    with closing(RefereeStore(database or sqlite_url(state / DATABASE))) as store:
        store.check_owner(public)
        if is_new:
            warn(
                f"{state / DATABASE} is new: codes in it are good for a referee that is started with it; for one that "
                "serves already, name its state directory (--state) or its database (--database)"
            )
        yield store, public


def invite_command(
    count: Annotated[int, typer.Option(help="How many people to invite.", min=1, max=100_000)] = 1,
    page: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the page in which people answer: print links to it.")
    ] = None,
    referee: Annotated[
        str | None, typer.Option(metavar="URL", help="Address under which agents reach this referee, for the links.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the links, and a sheet of QR codes to print.", file_okay=False)
    ] = None,
    state: State = None,
    database: Database = None,
    key: KeyFile = None,
) -> None:
    """Make invitation codes, each good for one agent's enrolment; they are not shown again, only hashes are kept.

    Give each person one, who enrols with it in the place of the token: the first key that enrols with a code is the
    only one that ever does. Without --page the codes are printed, one a line; with it, links that hold the code and the
    referee's key in the fragment, on a terminal with QR codes. It works while the referee serves, too.

    Example: referee invite --count 50 --page https://people.example/ --referee https://referee.example --output sheet
    """
    from common.net.origins import origin_of
    from referee.collection.enrolment import create_invitations

    if page is None or referee is None:
        if page or referee or output:
            raise typer.BadParameter("links need --page and --referee, and --output is for links")
        with _stored(state, database, key) as (store, _):
            for code in create_invitations(store, count):
                say(code)
        return
    from referee.view.invitations import SHEET, check_output, check_page, link, terminal_qr, write_sheet

    page, address = check_page(page, referee)
    if output is not None:
        check_output(output)
    with _stored(state, database, key) as (store, public):
        codes = create_invitations(store, count)
    links = [link(page, address, public, code) for code in codes]
    if output is not None:
        write_sheet(output, page, codes, links)
        say(f"print {output / SHEET}, one piece for each of {count:,} people; the folder lets its readers take part")
    else:
        for each in links:
            say(each)
            if sys.stdout.isatty():
                say_lines(terminal_qr(each))
    say(f"the referee must be started with --allow-origin {origin_of(page)}", error=True)


def invitations_command(state: State = None, database: Database = None, key: KeyFile = None) -> None:
    """Print how many invitation codes there are, and how many are used.

    Example: referee invitations --state /srv/referee
    """
    with _stored(state, database, key) as (store, _):
        total, used = store.count_invitations()
    say(f"{total:,} invitation codes, {used:,} used")


def witness_command(
    *,
    state: Annotated[Path, typer.Option(help="Directory of what it keeps, on another machine than theirs.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8010,
    allow_origin: AllowOrigin = None,
    tls: ServiceTlsOptions,
) -> None:
    """Keep the heads of curators' ledgers and the checkpoints of referees' runs, so that nobody can go back in silence.

    The token in TANDEM_WITNESS_TOKEN admits those who put something. A curator names its witness with --witness
    http://HOST:PORT/v1/heads/NAME; the NAME belongs to the first curator that uses it. A referee names it with
    --witness http://HOST:PORT; what it keeps of a run anybody may read (referee audit RUN --witness http://HOST:PORT).

    Example: TANDEM_WITNESS_TOKEN=... referee witness --state /var/lib/witness
    """
    from common.net.server import listen, serve
    from referee.service.witness import witness_app

    end_with_stdin()
    token = _token("witness")
    context = serving("witness", tls)
    with listen(host, port) as listener:
        serve(witness_app(state, token, allow_origin or ()), listener, "witness", context)


def certificates_command(
    folder: Annotated[Path, typer.Argument(help="Directory of the authority and of all parties' certificates.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="[PARTY=]NAME",
            help="A further name or address under which services, or one of them (curator, referee, witness), are "
            "dialled. Repeatable.",
        ),
    ] = None,
    days: Annotated[int, typer.Option(help="Days for which new certificates hold.", min=1, max=3650)] = 397,
) -> None:
    """Make an authority of one's own, and certificates for TLS 1.3 between all parties of a deployment.

    Each party is given its directory of these, and nothing else: curator, referee, witness, monitor (reads the
    curator's metrics), public (agents, hosts, operators: the authority's certificate). authority stays here.
    The same command again renews what ends within 30 days or is to have other names, and leaves the rest as it is.

    Example: referee certificates tls --host curator=203.0.113.1 --host referee=203.0.113.2
    """
    from common.net.certificates import make_all, names_of

    for file in make_all(folder, names_of(hosts or ()), days=days):
        say(f"{'made' if file.fresh else 'kept'} {file.path}, which holds until {file.ends:%Y-%m-%d}")
    say(f"hand each party its directory of {folder}; {folder / 'authority'} stays here, with its key")


def backup_command(
    copy: Annotated[Path, typer.Argument(help="A new directory for the copy.")],
    state: Annotated[Path, typer.Option(help="The referee's state directory.", exists=True, file_okay=False)],
    key: Annotated[Path | None, typer.Option(help="File of the signing key (default: in the state directory).")] = None,
) -> None:
    """Copy a referee's SQLite database and key, also while it serves. The copy holds its secret key: guard it as well.

    Example: referee backup /mnt/other/referee-1 --state /srv/referee
    """
    from referee.store import backup

    backup(state, copy, key)
    say_command("referee", "serve", "--state", copy, lead=f"{copy} is a state directory to start from: ")


_ENDING = 5.0  # seconds that the page beside has to end


@contextmanager
def page_beside(url: str, token: str, port: int) -> Iterator[None]:
    """Serve ``tandem ui`` for this referee until the block ends, or this process does, however that happens.

    It is a process of its own on this machine's loopback, so that no reader takes time from agents. It asks over HTTP
    what the operator's token may ask, cannot touch the database, and no agent's address leads to it. It prints its
    address, with the key that opens it, on this process's standard output. A page that ends by itself is started again,
    with another key.

    Args:
        url: Where the referee listens.
        token: The operator's: handed over in the environment, which other users of the machine cannot read.
        port: Of 127.0.0.1; 0 takes any free one.
    """
    command = [*python_module("tandem.cli"), "ui", "--referee", url, "--port", str(port)]
    environment = {**python_environment(), "TANDEM_OPERATOR_TOKEN": token, ENDS_WITH_STDIN: "1"}
    ending, lock = threading.Event(), threading.Lock()
    processes: list[subprocess.Popen[bytes]] = []

    def serve() -> None:
        with lock:
            if ending.is_set():
                return
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)  # noqa: S603 - our interpreter
            processes[:] = [process]
        status = process.wait()
        if not ending.wait(_ENDING):  # what ends the page from a terminal ends this process, too
            raise ChildProcessError(f"the page has ended with exit status {status}")

    Supervised("page").start(serve)
    try:
        yield
    finally:
        with lock:
            ending.set()
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(_ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


COMMANDS = (
    serve_command,
    key_command,
    invite_command,
    invitations_command,
    witness_command,
    certificates_command,
    backup_command,
)
