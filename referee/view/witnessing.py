"""What is known of a run's history, in words: its times, its witnesses, the receipts that were compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from common.log.receipts import StoredCheckpoint
from common.net.witness_client import WitnessClient
from common.wire.messages import Configuration
from referee.audit.history import History
from referee.state.runfolder import read_transcript

NAMED = 5
"""How many other runs are named, at most."""


class Seen(NamedTuple):
    """What a witness has seen of a run, and of which other runs of the same referee it has seen something."""

    kept: list[StoredCheckpoint]
    others: tuple[str, ...]


def seen_by(url: str, folder: Path) -> Seen:
    """Ask a witness for all that it has seen of the run in a folder, and which others of this referee it has seen.

    Raises
    ------
    AuditFailed
        If the folder's transcript cannot be read.
    PeerError
        If the witness does not answer.
    """
    first = read_transcript(folder)[0]
    configuration = Configuration.parse(first.body["configuration"])
    with closing(WitnessClient(url, patience=10.0)) as witness:
        others = (seen.run for seen in witness.runs(configuration.referee))
        return Seen(
            witness.kept(configuration.referee, configuration.run),
            tuple(run for run in others if run != configuration.run),
        )


def history_lines(history: History) -> Iterator[str]:
    """Yield what is known of a run's history, and what is not."""
    if history.began is not None:
        ended = "" if history.ended is None else f", ended {clock(history.ended)}"
        yield f"began {clock(history.began)}{ended}, by the referee's clock"
    for key, sight in history.witnesses.items():
        whole = "to its end" if sight.entries == history.entries else f"up to entry {sight.entries}"
        yield f"witness {key[:16]}... has seen it from {clock(sight.first)} to {clock(sight.last)}, {whole}"
    for key in history.unseen:
        yield f"witness {key[:16]}... was to see it, and nothing here shows that it saw the end: ask it (--witness URL)"
    if not history.witnesses and not history.promised:
        yield "no witness has seen this history: the referee could show others another one"
    if history.others:
        names, rest = ", ".join(history.others[:NAMED]), len(history.others) - NAMED
        more = f" and {rest:,} more" if rest > 0 else ""
        yield (
            f"the witness has seen {len(history.others):,} other runs of this referee ({names}{more}): one that was "
            "given up because somebody did not like its order would be among them"
        )
    if history.receipts:
        what = "receipt: its report is" if history.receipts == 1 else "receipts: their reports are all"
        yield f"compared with {history.receipts:,} {what} there"


def clock(seconds: int) -> str:
    """Return a time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
