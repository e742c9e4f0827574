"""``referee audit``: whether a run folder is what its parties have signed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from common.core.terminal import deliver_json, warn
from common.net.cli import AsJson, Large, TlsCa, fail_clearly, grouped, read_within_limits


@dataclass(frozen=True)
class KeyOptions:
    """Keys that are known from elsewhere than from the folder."""

    referee_key: Annotated[str | None, typer.Option(help="The referee's key, if you know it from elsewhere.")] = None
    curator_key: Annotated[str | None, typer.Option(help="The curator's key, if you know it from elsewhere.")] = None
    issuer: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Public keys of an issuer, if you know them from elsewhere: who vouches. Repeatable."
        ),
    ] = None


@dataclass(frozen=True)
class HistoryOptions:
    """What others hold of the run's history."""

    witness: Annotated[
        str | None, typer.Option(metavar="URL", help="A witness, asked whether it has seen another history of the run.")
    ] = None
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", help="An agent's receipt, or a directory of them: each must be among the reports."
        ),
    ] = None
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="A checkpoint that local-agent check has kept, or a directory: each must be of this run.",
        ),
    ] = None


@fail_clearly
@grouped
def audit_command(
    *,
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    keys: KeyOptions,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Fail where a key is not given, a witness has not seen the end, or no issuer vouches for a "
            "participant; status 3 where the result depends on those who did not answer.",
        ),
    ] = False,
    others: HistoryOptions,
    as_json: AsJson = False,
    tls_ca: TlsCa = None,
    large: Large = False,
) -> None:
    """Verify a run folder: chain, signatures, order, answers, replay, privacy cost; offline, unless a witness is asked.

    What remains possible is printed, too: whose keys are not known from elsewhere, who vouches for people, and
    what the answer is worth however those who kept silent differ from those who answered.

    Exit status 0: the folder is whole, its transcript leads to its result, and the keys, receipts, checkpoints and
    witness that were given agree with it; 1: something of this is not so, or not given although --strict takes it;
    3: with --strict, all of this is so, but the result depends on those who did not answer.

    Example: referee audit runs/ball-20260101-120000
    """
    read_within_limits(large)
    from common.crypto.vouching import read_issuer
    from referee.audit.audit import audit
    from referee.audit.history import checkpoints_at, receipts_at
    from referee.view import show
    from referee.view.witnesses import SeenByWitness, seen_by

    seen = SeenByWitness([], ()) if others.witness is None else seen_by(others.witness, run)
    receipts = receipts_at(others.receipt or ())
    shown = checkpoints_at(others.checkpoint or ())
    issuers = [read_issuer(path) for path in keys.issuer or ()]
    evidence: dict[str, Any] = {"receipts": receipts, "seen": seen.kept, "shown": shown, "issuers": issuers}
    found = audit(run, keys.referee_key, keys.curator_key, strict=strict, large=large, **evidence)
    found = replace(found, history=replace(found.history, others=seen.others))
    if as_json:
        deliver_json(show.audit_document(found))
    else:
        show.audit_table(run, found)
    if strict and found.depends_on_silent:
        warn(
            f"Verified, but it depends on the silent: up to {found.missing:.1%} of those asked did not answer. "
            "With all of them against it the result is not shown: take the interval for them, or ask more people"
        )
        raise typer.Exit(3)


def add_to(app: typer.Typer) -> None:
    """Give an application this command."""
    app.command("audit")(audit_command)
