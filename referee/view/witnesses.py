"""In words and as JSON: a run's history, witnesses and receipts, and who vouches for its participants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from common.core.plain import plain
from common.log.receipts import StoredCheckpoint
from common.net.client import WitnessClient
from common.net.messages import Configuration
from referee.audit.agents import ByIssuer, Vouching
from referee.audit.history import History
from referee.runfolder import read_transcript

NAMED = 5
"""How many other runs are named, at most."""


class SeenByWitness(NamedTuple):
    """What a witness has seen of a run, and of which other runs of the same referee it has seen something."""

    kept: list[StoredCheckpoint]
    others: tuple[str, ...]


def seen_by(url: str, folder: Path) -> SeenByWitness:
    """Ask a witness for all that it has seen of the run in a folder, and which others of this referee it has seen.

    Raises:
        AuditFailed: If the folder's transcript cannot be read.
        PeerError: If the witness does not answer.
    """
    first = read_transcript(folder)[0]
    configuration = Configuration.parse(first.body["configuration"])
    with closing(WitnessClient(url, patience=10.0)) as witness:
        others = (seen.run for seen in witness.runs(configuration.referee))
        return SeenByWitness(
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


def vouching_lines(vouching: Vouching) -> Iterator[str]:
    """Yield who vouches for whom; nothing where no issuer does and none was given."""
    if not vouching.issuers:
        return
    for fingerprint, found in vouching.issuers.items():
        known = "" if found.pinned else ", which may be anybody (give the keys that you know from elsewhere: --issuer),"
        yield f"issuer {fingerprint[:16]}...{known} vouches for {_people_of(found)}"
    alone = sum(vouching.hosts) + vouching.individuals
    if alone:
        parts = []
        if vouching.individuals:
            parts.append(f"{_individuals(vouching.individuals)}, on the referee's word alone")
        if vouching.hosts:
            several = f"{len(vouching.hosts):,} hosts" if len(vouching.hosts) > 1 else "a host"
            parts.append(f"{sum(vouching.hosts):,} people of {several}, on their host's word alone")
        yield f"no issuer vouches for {', and for '.join(parts)}"
    if vouching.strangers:
        yield f"{vouching.strangers:,} answers are of people without an issuer that is known from elsewhere"


def _people_of(found: ByIssuer) -> str:
    parts = []
    if found.individuals or not found.hosts:
        parts.append(_individuals(found.individuals))
    parts += [f"{host.people:,} people of {plain(host.name)} (at most {host.most:,})" for host in found.hosts]
    return " and ".join(parts)


def _individuals(count: int) -> str:
    return f"{count:,} individual{'' if count == 1 else 's'}"


def vouching_document(vouching: Vouching) -> dict[str, Any]:
    """Return who vouches for whom as JSON: ``vouched_by`` is the referee alone where no issuer does."""
    if not vouching.issuers:
        return {"vouched_by": "referee"}
    return {
        "vouched_by": {
            fingerprint: {
                "pinned": found.pinned,
                "individuals": found.individuals,
                "hosts": [{"name": host.name, "people": host.people, "at_most": host.most} for host in found.hosts],
            }
            for fingerprint, found in vouching.issuers.items()
        },
        "not_vouched": {"individuals": vouching.individuals, "hosts": list(vouching.hosts)},
        "answers_not_vouched": vouching.strangers,
    }
