"""The findings of an audit, in words and as JSON, with a run's history, its witnesses, and who vouches for people."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common.core.plain import clock, plain
from common.core.terminal import console, styled
from common.log.receipts import StoredCheckpoint
from common.net.client import WitnessClient
from common.net.messages import Configuration
from common.statistics.intervals import Estimate, certainty
from referee.audit.audit import Audit
from referee.audit.history import History
from referee.audit.replay import ByIssuer, Vouching
from referee.runfolder import read_transcript
from referee.runs.percents import ends
from referee.view.wording import IF_NONE_LEFT_OUT, PROMISED

_OUT = console()
UNSIGNED = ("verdict", "truth", "all_runs", "seconds", "peak_memory_bytes", "report.html")
"""Unsigned contents of a run folder, beside the signed result: an experimenter's own findings."""
NAMED = 5  # most other runs that are named


def seen_by(url: str, folder: Path) -> tuple[list[StoredCheckpoint], tuple[str, ...]]:
    """Return a witness's checkpoints of the run in a folder, and the other runs of this referee that it has seen."""
    first = read_transcript(folder)[0]
    configuration = Configuration.parse(first.body["configuration"])
    with closing(WitnessClient(url, patience=10.0)) as witness:
        others = (seen.run for seen in witness.runs(configuration.referee))
        kept = witness.kept(configuration.referee, configuration.run)
        return kept, tuple(run for run in others if run != configuration.run)


def history_lines(history: History) -> Iterator[str]:
    """Yield what is known about a run's history, and what is not."""
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


def vouching_lines(vouching: Vouching) -> Iterator[str]:
    """Yield who vouches for whom; nothing if no issuer vouches and none was given."""
    if not vouching.issuers:
        return
    for fingerprint, found in vouching.issuers.items():
        known = "" if found.pinned else ", which may be anybody (give the keys that you know from elsewhere: --issuer),"
        yield f"issuer {fingerprint[:16]}...{known} vouches for {_people_of(found)}"
    alone = sum(vouching.hosts) + vouching.individuals
    if alone:
        of_referee = f"{_individuals(vouching.individuals)}, on the referee's word alone"
        parts = [of_referee] if vouching.individuals else []
        if vouching.hosts:
            several = f"{len(vouching.hosts):,} hosts" if len(vouching.hosts) > 1 else "a host"
            parts.append(f"{sum(vouching.hosts):,} people of {several}, on their host's word alone")
        yield f"no issuer vouches for {', and for '.join(parts)}"
    if vouching.strangers:
        yield f"{vouching.strangers:,} answers are of people without an issuer that is known from elsewhere"


def _people_of(found: ByIssuer) -> str:
    parts = [_individuals(found.individuals)] if found.individuals or not found.hosts else []
    parts += [f"{host.people:,} people of {plain(host.name)} (at most {host.most:,})" for host in found.hosts]
    return " and ".join(parts)


def _individuals(count: int) -> str:
    return f"{count:,} individual{'' if count == 1 else 's'}"


def _vouched_by(vouching: Vouching) -> dict[str, Any]:
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


def audit_document(found: Audit) -> dict[str, Any]:
    """Return what an audit found as JSON.

    ``worst_case`` is the interval for the loss over all people, however those who did not answer differ from those who
    did; ``left_out`` is the estimate for the case that answers were left out because of their content.
    """
    could = None if found.silent is None else found.silent.estimate
    return {
        "verified": True,
        **{name: getattr(found, name) for name in ("status", "entries", "operations", "reports", "answers")},
        "privacy": {who: promised.wire() for who, promised in found.promises.items()},
        "certificate": None if found.certificate is None else found.certificate.wire(),
        "other_runs": found.others,
        "pinned": dict(zip(("referee", "curator"), found.pinned, strict=True)),
        "participants": {"individuals": found.individuals, "hosts": list(found.hosts), **_vouched_by(found.vouching)},
        "history": {
            "began": found.history.began,
            "ended": found.history.ended,
            "witnesses": {key: asdict(sight) for key, sight in found.history.witnesses.items()},
            "promised": list(found.history.promised),
            "receipts": found.history.receipts,
            "other_runs_witnessed": list(found.history.others),
        },
        "liars": {f"{share:g}": could.wire() for share, could in found.liars.items()},
        "order_chosen_by": list(found.choosers),
        "missing": found.missing,
        "misbehaved": found.misbehaved,
        "worst_case": None if could is None else could.wire(),
        "left_out": None if found.left_out is None else found.left_out.wire(),
        "depends_on_silent": found.depends_on_silent,
        "not_covered": list(UNSIGNED),
    }


def _remaining(found: Audit) -> Iterator[str]:
    """Yield what signatures cannot show: whether participants are people, and what those who did not answer think."""
    people, what = sum(found.hosts) + found.individuals, "loss" if found.about_a_loss else "estimate"
    parts, vouching = [], found.vouching
    if found.hosts:
        most = found.hosts[0] / people
        several = f"{len(found.hosts):,} hosts" if len(found.hosts) > 1 else "a host"
        largest = f" (the largest for {most:.0%})" if len(found.hosts) > 1 else ""
        parts.append(f"{several} for {sum(found.hosts):,} people{largest}")
    if found.individuals:
        parts.append(f"{found.individuals:,} individuals")
    if parts:
        word = "" if vouching.issuers else "; that they are people is the word of the referee, and of each host"
        yield f"enrolled: {' and '.join(parts)}{word}"
    yield from vouching_lines(vouching)
    if found.choosers:
        yield f"the order in which agents were asked was chosen by {' and by '.join(found.choosers)}"
    yield from history_lines(found.history)
    if found.misbehaved:
        yield f"the run ended by the curator, which signed what this run does not take: {found.misbehaved}"
    if found.missing > 0.0:
        line = f"answers of up to {found.missing:.1%} of the agents asked are missing"
        could = None if found.silent is None else found.silent.estimate
        if could is not None:
            line += f": however those people differ from the others, the {what} is {_sure(could)}"
        if found.left_out is not None:
            line += f"; were their answers left out because of what they say, it is {_sure(found.left_out)}"
        yield line
    if found.depends_on_silent:
        yield "the result depends on those who did not answer: with all of them against it, it is not shown"
    if found.liars:
        losses = [f"{share:.0%}: {ends(could.low, could.high)}" for share, could in found.liars.items()]
        sure = certainty(min(could.confidence for could in found.liars.values()))
        yield f"{what} interval if so large a share of the answers counted are lies ({sure}): {', '.join(losses)}"


def _sure(found: Estimate) -> str:
    return f"{ends(found.low, found.high)} ({certainty(found.confidence)})"


def audit_lines(found: Audit) -> Iterator[str]:
    """Yield what an audit has verified, and what it cannot verify, sentence by sentence."""
    yield f"{found.entries} transcript entries: chain and signatures hold"
    yield f"{found.operations} curator operations, each signed for exactly its request"
    several = found.promises["agent"].covers == "answers"
    often = "no agent more often than the scenario allows" if several else "none twice"
    yield f"{found.answers:,} answers in {found.reports:,} signed reports, in the committed order, {often}"
    for other, agents in found.others.items():
        yield f"{agents:,} agents between were asked by run {other}, whose audit shows it"
    yield "the protocol, replayed on these answers, asks the same questions and ends with the same result"
    if found.shown:
        yield f"what that shows: {found.shown}{IF_NONE_LEFT_OUT if found.missing else ''}"
    yield from _remaining(found)
    if found.certificate is not None:
        yield "what the curator's declared events cost is within what it promised"
        yield f"their certificate ({found.certificate.accountant}) was worked out again by code of its own"
    for who, promised in found.promises.items():
        yield f"{PROMISED[who]}: {promised}"


def audit_table(run: Path, found: Audit) -> None:
    """Print the findings of an audit, and what no audit of a folder can find."""
    loose = [who for who, pinned in zip(("referee", "curator"), found.pinned, strict=True) if not pinned]
    if loose:
        options = " and ".join(f"--{who}-key" for who in loose)
        whose = f": the {' and the '.join(loose)} of this folder may be anybody"
        rest = f"{whose}; give {options} as you know it from elsewhere"
        _OUT.print(styled(("not pinned", "yellow"), (rest, "")), soft_wrap=True)
    _OUT.print(styled(("verified", "bold green"), (f" {run}: ended {found.status}", "")), soft_wrap=True)
    for line in audit_lines(found):
        _OUT.print(f"  {line}", soft_wrap=True)
    _OUT.print(f"  not covered, since it is not signed: {', '.join(UNSIGNED)}", style="dim", soft_wrap=True)
