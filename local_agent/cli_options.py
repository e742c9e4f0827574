"""What several commands of an agent share: options, how a referee is dialled, and the loop of polls."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.core.errors import (
    BadInput,
    BrokenLedger,
    Forged,
    RolledBack,
    TandemError,
)
from common.core.terminal import warn
from common.net.cli import (
    REFEREE_KEY,
)

if TYPE_CHECKING:
    from local_agent.client import RefereeClient
    from local_agent.host import Host


_BETWEEN_POLLS = 0.02
"""Seconds between two polls, if the referee names no longer time."""
_AFTER_ERROR = 0.5
"""Seconds to wait before asking a referee again whose question was refused."""

log = logging.getLogger("tandem.agent")

Referee = Annotated[str, typer.Option("--referee", help="Address of the referee.")]
TokenOption = Annotated[str, typer.Option(envvar="TANDEM_ENROLMENT_TOKEN", help="Enrolment token.", show_default=False)]
IndividualToken = Annotated[
    str,
    typer.Option(
        envvar=["TANDEM_INDIVIDUAL_TOKEN", "TANDEM_ENROLMENT_TOKEN"], help="Enrolment token.", show_default=False
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--referee-key",
        envvar=REFEREE_KEY,
        help="The referee's public key, as its operator prints it (referee key). Without it the one met first is "
        "trusted for ever, with a warning.",
    ),
]

AcceptOption = Annotated[
    list[str] | None,
    typer.Option("--accept", metavar="KIND", help="Accept this kind of question, and no other; may be repeated."),
]
RefuseOption = Annotated[
    list[str] | None,
    typer.Option("--refuse", metavar="KIND", help="Do not accept this kind of question; may be repeated."),
]
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
    """The referee: its address, its key, and how long it may be away."""

    referee: Referee = "http://127.0.0.1:8000"
    referee_key: KeyOption = None


@dataclass(frozen=True)
class QuestionOptions:
    """Which kinds of questions are accepted."""

    accept: AcceptOption = None
    refuse: RefuseOption = None


def dial(referee: str, relay: str | None, key: str | None, patience: float) -> RefereeClient:
    """Return the referee as it is dialled: directly, or through a relay and in no other way.

    Raises:
        BadInput: If there is a relay, and no key of the referee: a relay could name its own as the referee's.
    """
    from local_agent.client import RefereeClient, RelayedClient

    if relay is None:
        return RefereeClient(referee, patience=patience)
    if key is None:
        raise BadInput("through a relay the referee's key cannot be learned safely: name it with --referee-key")
    return RelayedClient(relay, key, patience=patience)


def pin_key(state: Path, given: str | None, client: RefereeClient) -> str:
    """Return the referee's key: the given one, the one written before, or at first contact, with a warning, that met.

    Raises:
        BadInput: If the given one is no public key, or another one than was written before.
        Forged: If the referee at the address has another key: nothing that it says would be accepted.
    """
    from common.core.durable import claim
    from common.crypto.identity import check_public
    from local_agent.policy import PINNED

    known = pinned_key(state) if given is None else check_public(given, "--referee-key")
    served = client.key()
    if known is None:
        warn(
            f"trusted at first contact: the referee at {client.url} has the key {served}, which this agent obeys from "
            f"now on. Compare it with the key that the referee's operator prints (referee key), or give that with "
            f"--referee-key"
        )
    key = str(claim(state / "referee", {"referee": known or served})["referee"])
    if served != key:
        raise Forged(f"the referee at {client.url} has the key {served[:16]}..., expected {key[:16]}..., {PINNED}")
    return key


def pinned_key(state: Path) -> str | None:
    """Return the referee's key that a state directory is pinned to; None if there is none."""
    from common.core.durable import claimed

    found = claimed(state / "referee").get("referee")
    return None if found is None else str(found)


def answer_until(
    connection: Host,
    client: RefereeClient,
    finished: Callable[[], bool],
    refused: Callable[[TandemError], None] = lambda error: None,
) -> None:
    """Poll and answer until all is finished; what may pass is tried again.

    Args:
        refused: Called with each problem that the referee or this agent raises.

    Raises:
        TandemError: A copy of this folder is at work, an individual has declined, or the referee is full.
        OSError: An individual's answer cannot be stored.
    """
    while not finished():
        try:
            busy = connection.step()
        except TandemError as error:
            refused(error)
            ended = isinstance(error, (BrokenLedger, RolledBack))  # another copy of this folder is at work
            if ended or error.status == 503 or (connection.declined and connection.individual):
                raise
            log.warning("%s: %s", error.title, error.words)
            time.sleep(_AFTER_ERROR)
        except OSError as error:
            if connection.individual:
                raise  # the person is told, and starts it again
            # A disk that is full or read-only comes back; what was not stored has not left.
            log.warning("nothing can be stored at present: %s", error)
            time.sleep(_AFTER_ERROR)
        else:
            time.sleep(0.0 if busy else max(_BETWEEN_POLLS, client.pause))
