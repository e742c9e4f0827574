"""``local-agent check``: whether what left this device is counted as it was sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.core.errors import (
    BadData,
    BadInput,
    PeerUnavailable,
)
from common.core.terminal import deliver_json, say, warn
from common.net.cli import (
    TlsCa,
    fail_clearly,
    grouped,
)

if TYPE_CHECKING:
    from local_agent.person.checking import ReportCheck
    from local_agent.person.receipts import HeldReceipt

from local_agent.cli_options import Referee, RelayOption, dial, pinned_key


@dataclass(frozen=True)
class CheckOptions:
    """Who is asked about the receipts, and for how long."""

    referee: Referee = "http://127.0.0.1:8000"
    witness: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A witness, which must have seen the history that the referee shows."),
    ] = None
    within: Annotated[
        float | None,
        typer.Option(
            help="Seconds after a report was sent, by this device's clock, in which the referee must show it, and the "
            "witness have seen that (default: a day).",
            min=0.0,
            max=1e9,
        ),
    ] = None
    relay: RelayOption = None
    patience: Annotated[
        float,
        typer.Option(help="Seconds to keep trying while the referee is away; each report may take ten more.", min=0.0),
    ] = 10.0


@fail_clearly
@grouped
def check_command(
    *,
    asked: CheckOptions,
    state: Annotated[
        Path | None, typer.Option(help="State directory of the agent or host (default: agent, in this user's own).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line a report.")] = False,
    tls_ca: TlsCa = None,
) -> None:
    """Check that what left this device is counted as it was sent: the referee must prove it, for every receipt.

    A receipt is the referee's signed word that it has stored a report. If what the referee shows does not hold that
    report, the receipt proves that it was left out: hand it to whoever audits the run (referee audit --receipt).

    The newest checkpoint of each run stays in the state directory: the history that is shown the next time must begin
    with it. Without --witness the referee could show others another history, in which the report is not.

    Exit status 0: every report is counted as it was sent, in a history that the referee has signed and, with --witness,
    that the witness confirms; 1: a report is left out or changed, another history is shown, the time of --within is
    over, or it could not be checked; 3: nothing is wrong so far, but a report is not shown yet, and the time of
    --within is not over; 4: a report is counted, in a history that the witness does not confirm yet, and the time of
    --within is not over.

    Example: local-agent check --referee http://127.0.0.1:8000 --witness http://127.0.0.1:8010
    """
    from common.core.durable import user_state
    from common.crypto.identity import Identity
    from common.net.witness_client import WitnessClient
    from local_agent.person import checking
    from local_agent.person.receipts import held_receipts, seen_checkpoint

    relay, witness, patience = asked.relay, asked.witness, asked.patience
    if relay is not None and witness is not None:
        raise BadInput("--witness would be asked past --relay, from this device's address: give one of the two")
    state, within = (
        (state or user_state() / "agent").absolute(),
        checking.WITHIN if asked.within is None else asked.within,
    )
    receipts = list(held_receipts(state))
    key, identity = pinned_key(state), Identity.load_or_create(state / "identity.key")
    if key is None:
        raise BadData(f"{state} has no pinned referee: name another directory with --state")
    with closing(dial(asked.referee, relay, key, patience)) as client, ExitStack() as opened:
        seen = None
        if witness is not None:
            seen = checking.Remembered(opened.enter_context(closing(WitnessClient(witness, patience=patience))))

        def checked(each: HeldReceipt) -> checking.ReportCheck:
            known = seen_checkpoint(state, each.run)
            return _keep_seen(state, checking.check(each, identity, client, key, seen, known, within=within))

        found = _in_time(receipts, checked, patience, client.url)
    _tell(found, within, as_json=as_json, witnessed=witness is not None)


def _tell(found: Sequence[ReportCheck], within: float, *, as_json: bool, witnessed: bool) -> None:
    """Print what became of the reports; the exit status says the worst of it."""
    from local_agent.person import checking

    for finding in found:
        if as_json:
            deliver_json(finding.document())
        else:
            say(checking.in_words(finding, within))
    if not witnessed:
        warn(
            "no witness was asked: that the referee shows others another history, without these reports, cannot be "
            "excluded. Name one that neither referee nor curator runs, with --witness URL"
        )
    if status := checking.exit_status(found):
        warn(checking.summary(found))
        raise typer.Exit(status)


def _keep_seen(state: Path, finding: ReportCheck) -> ReportCheck:
    """Store the checkpoint that was shown; where it is of another history, beside the one that is kept."""
    from local_agent.person.checking import OTHER
    from local_agent.person.receipts import store_seen

    if finding.shown is None:
        return finding
    path = store_seen(state, finding.held.run, finding.shown, other=finding.status == OTHER)
    if finding.status != OTHER:
        return finding
    return replace(finding, why=f"{finding.why}; both are kept, the other one in {path}")


def _in_time(
    receipts: Sequence[HeldReceipt], check: Callable[[HeldReceipt], ReportCheck], patience: float, url: str
) -> list[ReportCheck]:
    """Return what became of each report.

    Raises:
        PeerUnavailable: If that takes longer than the patience, and ten seconds a report.
    """
    from common.net.transport import Overdue, time_limit
    from local_agent.person.checking import SECONDS

    most = patience + SECONDS * len(receipts)
    try:
        with time_limit(most):
            return [check(each) for each in receipts]
    except Overdue:
        raise PeerUnavailable(
            f"{url} and the witness have not answered about {len(receipts):,} reports in {most:,.0f} s: ask "
            "who runs them, or give a longer --patience"
        ) from None


def add_to(app: typer.Typer) -> None:
    """Give an application this command."""
    app.command("check")(check_command)
