"""Shared parts of an agent's commands: options, connecting to a referee, and the polling loop."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.core.errors import BadInput, BrokenLedger, Forged, RolledBack, TandemError
from common.core.terminal import say, warn
from common.net.cli import REFEREE_KEY, AllowOrigin, LedgerOptions, ServiceTlsOptions, TlsCa, end_with_stdin, serving

if TYPE_CHECKING:
    from local_agent.client import RefereeClient
    from local_agent.host import Host


_BETWEEN_POLLS = 0.02  # seconds between two polls, unless the referee asks for a longer pause
_AFTER_ERROR = 0.5  # seconds to wait after an error before the next poll
_AT_MOST = 30.0  # upper limit of that wait, which doubles while the same error repeats

log = logging.getLogger("tandem.agent")

State = Annotated[
    Path | None, typer.Option(help="State directory of the agent or host (default: agent, in this user's own).")
]
Referee = Annotated[str, typer.Option("--referee", help="Address of the referee.")]
RelayOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Ask through this relay (local-agent relay), and in no other way, so that the referee does not learn from "
        "where; --referee is not dialled, and its key must be known.",
    ),
]


@dataclass(frozen=True)
class RefereeOptions:
    """Options for the referee: its address and its public key."""

    referee: Referee = "http://127.0.0.1:8000"
    referee_key: Annotated[
        str | None,
        typer.Option(
            envvar=REFEREE_KEY,
            help="The referee's public key, as its operator prints it (referee key). Without it the one met first is "
            "trusted for ever, with a warning.",
        ),
    ] = None


@dataclass(frozen=True)
class QuestionOptions:
    """Options for the kinds of questions that are accepted."""

    accept: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Accept this kind of question, and no other; may be repeated."),
    ] = None
    refuse: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Do not accept this kind of question; may be repeated.")
    ] = None


def own_state(path: Path | None, name: str = "agent") -> Path:
    """Return a state directory: the given one, or the one called ``name`` in the user's state directory."""
    from common.core.durable import user_state

    return (path or user_state() / name).absolute()


def dial(referee: str, relay: str | None, key: str | None, patience: float) -> RefereeClient:
    """Return a client of the referee that connects directly or, if a relay is given, only through the relay.

    BadInput if there is a relay and no key: a relay could name its own key as the referee's.
    """
    from local_agent.client import RefereeClient, RelayedClient

    if relay is None:
        return RefereeClient(referee, patience=patience)
    if key is None:
        raise BadInput("through a relay the referee's key cannot be learned safely: name it with --referee-key")
    return RelayedClient(relay, key, patience=patience)


def pin_key(state: Path, public: str | None, client: RefereeClient) -> str:
    """Pin the referee's key and return it: the given or stored one or, at first contact, the served one with a warning.

    BadInput if the given key is no public key, or differs from the stored one. Forged if the referee at the address
    has another key: no message of it would be accepted.
    """
    from common.core.durable import claim
    from common.crypto.identity import check_public
    from local_agent.policy import PINNED

    pinned = pinned_key(state) if public is None else check_public(public, "--referee-key")
    served = client.key()
    if pinned is None:
        warn(
            f"trusted at first contact: the referee at {client.url} has the key {served}, which this agent obeys from "
            f"now on. Compare it with the key that the referee's operator prints (referee key), or give that with "
            f"--referee-key"
        )
    key = str(claim(state / "referee", {"referee": pinned or served})["referee"])
    if served != key:
        raise Forged(f"the referee at {client.url} has the key {served[:16]}..., expected {key[:16]}..., {PINNED}")
    return key


def pinned_key(state: Path) -> str | None:
    """Return the referee's key that is pinned in a state directory; None if there is none."""
    from common.core.durable import claimed

    key = claimed(state / "referee").get("referee")
    return None if key is None else str(key)


def answer_until(
    connection: Host,
    client: RefereeClient,
    finished: Callable[[], bool],
    refused: Callable[[TandemError], None] = lambda error: None,
) -> None:
    """Poll and answer until ``finished``; retry after transient errors, and pass each error to ``refused``.

    An error that repeats, as after a token was changed, is logged once, and the wait between retries grows.

    TandemError if another copy of this folder is in use, an individual has declined, or the referee was unavailable for
    as long as the client's patience. OSError if an individual's answer cannot be stored.
    """
    last, pause = "", _AFTER_ERROR
    while not finished():
        try:
            busy = connection.step()
        except TandemError as error:
            refused(error)
            ended = isinstance(error, (BrokenLedger, RolledBack))  # another copy of this folder is in use
            # For a host, its own ledgers and witnesses may be unavailable instead of the referee: retry these.
            exhausted = connection.individual or time.monotonic() - connection.polled >= client.patience
            if ended or (error.status == 503 and exhausted) or (connection.declined and connection.individual):
                raise
            again = error.words == last and not connection.declined  # each declined question is logged
            last, pause = error.words, min(2.0 * pause, _AT_MOST) if again else _AFTER_ERROR
            if not again:
                log.warning("%s: %s", error.title, error.words)
            time.sleep(pause)
        except OSError as error:
            if connection.individual:
                raise  # the person sees the error and restarts
            # A disk that is full or read-only may recover; an answer that was not stored was not sent.
            log.warning("nothing can be stored at present: %s", error)
            time.sleep(_AFTER_ERROR)
        else:
            last = ""
            time.sleep(0.0 if busy else max(_BETWEEN_POLLS, client.pause))


@dataclass(frozen=True)
class PeopleOptions:
    """Options for the people that a host simulates or reads."""

    scenario: Annotated[
        str, typer.Argument(help="Shipped scenario or YAML file; its target section says who they are.")
    ]
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None
    agents: Annotated[
        int | None, typer.Option(help="How many people to host (default: as the scenario says).", min=1)
    ] = None
    seed: Annotated[int | None, typer.Option(help="Seed of simulated people.", min=0)] = None
    workers: Annotated[
        int, typer.Option(help="Ray workers that draw simulated people and evaluate questions.", min=0)
    ] = 0


@dataclass(frozen=True)
class HostStateOptions:
    """Options for a host's state directory, grant, witnesses and metrics."""

    state: Annotated[
        Path | None,
        typer.Option(help="State directory: key, and who has answered (default: agents, in this user's own)."),
    ] = None
    grant: Annotated[
        Path | None,
        typer.Option(help="An issuer's grant for this host (issuer grant); it is kept in the state directory."),
    ] = None
    witness: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE",
            help="Where the head of this host's questions goes before each answer, so that a copy of its folder is "
            "refused: a file on another disk, or http://HOST:PORT/v1/heads/NAME of a referee witness (token in "
            "TANDEM_WITNESS_TOKEN). Repeatable; later starts must name it.",
        ),
    ] = None
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Show metrics on 127.0.0.1 at this port, 0 any free one (default: nowhere).", min=0, max=65535
        ),
    ] = None


def host_command(
    *,
    people: PeopleOptions,
    token: Annotated[str, typer.Option(envvar="TANDEM_ENROLMENT_TOKEN", help="Enrolment token.", show_default=False)],
    asking: RefereeOptions,
    patience: Annotated[float, typer.Option(help="Seconds to keep trying while the referee is away.")] = 3600.0,
    kinds: QuestionOptions,
    place: HostStateOptions,
    charged: LedgerOptions,
    tls_ca: TlsCa = None,
) -> None:
    """Host a population: enrol, poll, answer; until interrupted.

    Example: TANDEM_ENROLMENT_TOKEN=... local-agent host ball --seed 1 --referee http://127.0.0.1:8000
    """
    from common.core.durable import CLAIM, make_folder, write_durably
    from common.lifetime.charging import Charging
    from common.net.client import witness_at
    from common.scenario import loading
    from common.scenario.accepting import accepted
    from local_agent.client import HostClient
    from local_agent.host import Host
    from local_agent.hosted.population import open_population
    from local_agent.metrics import exposed
    from local_agent.person.credential import keep_grant
    from local_agent.policy import ALL_QUERIES, chosen_queries

    end_with_stdin()
    state = own_state(place.state, "agents")
    chosen = accepted(loading.load(people.scenario, people.sets))
    queries = chosen_queries(kinds.accept or (), kinds.refuse or (), ALL_QUERIES)
    with closing(HostClient(asking.referee, patience=patience)) as client:
        key = pin_key(state, asking.referee_key, client)
        charging = Charging(charged.ledger, charged.ephemeral, charged.witnesses)
        places = [witness_at(where) for where in place.witness or ()]
        population = open_population(
            chosen, state, people.seed, key, people.agents, people.workers, charging, queries, places
        )
        if place.grant is not None:
            keep_grant(state, population.identity, place.grant, len(population))
        with closing(Host(population, client, key)) as connection:
            enrolled = connection.enrol(token)
            # Not binding, since a referee that was restored may number them anew: it records that they are enrolled.
            make_folder(state / "enrolment")
            numbers = json.dumps({"agents": enrolled.agents, "first": enrolled.first})
            write_durably(state / "enrolment" / CLAIM, numbers.encode())
            say(f"local-agent hosts {enrolled.agents} people from number {enrolled.first}")
            if population.spent is not None:
                say(f"over all runs of these people, with the next one: {population.spent}")
            with exposed(connection, chosen.agents.mechanism.guarantee[0], place.metrics_port) as port:
                if port is not None:
                    say(f"local-agent shows metrics on http://127.0.0.1:{port}/metrics")
                answer_until(connection, client, lambda: False)


def relay_command(
    *,
    referee: Annotated[
        str, typer.Option(help="Address of the one referee that it leads to.")
    ] = "http://127.0.0.1:8000",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 8020,
    source: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address of this machine to dial the referee from.")
    ] = None,
    allow_origin: AllowOrigin = None,
    tls: ServiceTlsOptions,
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
    context = serving("relay", tls)
    with listen(host, port) as listener:
        serve(relay_app(referee, source, origins=allow_origin or ()), listener, "relay", context)
