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
        runs = (entry.run for entry in witness.runs(configuration.referee))
        checkpoints = witness.kept(configuration.referee, configuration.run)
        return checkpoints, tuple(run for run in runs if run != configuration.run)


def history_lines(history: History) -> Iterator[str]:
    """Yield what is known about a run's history, and what is not."""
    if history.began is not None:
        ended = "" if history.ended is None else f", ended {clock(history.ended)}"
        yield f"began {clock(history.began)}{ended}, by the referee's clock"
    for key, sight in history.witnesses.items():
        extent = "to its end" if sight.entries == history.entries else f"up to entry {sight.entries}"
        yield f"witness {key[:16]}... has seen it from {clock(sight.first)} to {clock(sight.last)}, {extent}"
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
    for fingerprint, summary in vouching.issuers.items():
        note = (
            "" if summary.pinned else ", which may be anybody (give the keys that you know from elsewhere: --issuer),"
        )
        yield f"issuer {fingerprint[:16]}...{note} vouches for {_people_of(summary)}"
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


def _people_of(summary: ByIssuer) -> str:
    parts = [_individuals(summary.individuals)] if summary.individuals or not summary.hosts else []
    parts += [f"{host.people:,} people of {plain(host.name)} (at most {host.most:,})" for host in summary.hosts]
    return " and ".join(parts)


def _individuals(count: int) -> str:
    return f"{count:,} individual{'' if count == 1 else 's'}"


def _vouched_by(vouching: Vouching) -> dict[str, Any]:
    if not vouching.issuers:
        return {"vouched_by": "referee"}
    return {
        "vouched_by": {
            fingerprint: {
                "pinned": summary.pinned,
                "individuals": summary.individuals,
                "hosts": [{"name": host.name, "people": host.people, "at_most": host.most} for host in summary.hosts],
            }
            for fingerprint, summary in vouching.issuers.items()
        },
        "not_vouched": {"individuals": vouching.individuals, "hosts": list(vouching.hosts)},
        "answers_not_vouched": vouching.strangers,
    }


def audit_document(audit: Audit) -> dict[str, Any]:
    """Return what an audit found as JSON.

    ``worst_case`` is the interval for the loss over all people, however those who did not answer differ from those who
    did; ``left_out`` is the estimate for the case that answers were left out because of their content.
    """
    estimate = None if audit.silent is None else audit.silent.estimate
    return {
        "verified": True,
        **{name: getattr(audit, name) for name in ("status", "entries", "operations", "reports", "answers")},
        "privacy": {who: promised.wire() for who, promised in audit.promises.items()},
        "certificate": None if audit.certificate is None else audit.certificate.wire(),
        "other_runs": audit.others,
        "pinned": dict(zip(("referee", "curator"), audit.pinned, strict=True)),
        "participants": {"individuals": audit.individuals, "hosts": list(audit.hosts), **_vouched_by(audit.vouching)},
        "history": {
            "began": audit.history.began,
            "ended": audit.history.ended,
            "witnesses": {key: asdict(sight) for key, sight in audit.history.witnesses.items()},
            "promised": list(audit.history.promised),
            "receipts": audit.history.receipts,
            "other_runs_witnessed": list(audit.history.others),
        },
        "liars": {f"{share:g}": estimate.wire() for share, estimate in audit.liars.items()},
        "order_chosen_by": list(audit.choosers),
        "missing": audit.missing,
        "misbehaved": audit.misbehaved,
        "worst_case": None if estimate is None else estimate.wire(),
        "left_out": None if audit.left_out is None else audit.left_out.wire(),
        "depends_on_silent": audit.depends_on_silent,
        "not_covered": list(UNSIGNED),
    }


def _remaining(audit: Audit) -> Iterator[str]:
    """Yield what signatures cannot show: whether participants are people, and what those who did not answer think."""
    people, what = sum(audit.hosts) + audit.individuals, "loss" if audit.about_a_loss else "estimate"
    parts, vouching = [], audit.vouching
    if audit.hosts:
        most = audit.hosts[0] / people
        several = f"{len(audit.hosts):,} hosts" if len(audit.hosts) > 1 else "a host"
        largest = f" (the largest for {most:.0%})" if len(audit.hosts) > 1 else ""
        parts.append(f"{several} for {sum(audit.hosts):,} people{largest}")
    if audit.individuals:
        parts.append(f"{audit.individuals:,} individuals")
    if parts:
        word = "" if vouching.issuers else "; that they are people is the word of the referee, and of each host"
        yield f"enrolled: {' and '.join(parts)}{word}"
    yield from vouching_lines(vouching)
    if audit.choosers:
        yield f"the order in which agents were asked was chosen by {' and by '.join(audit.choosers)}"
    yield from history_lines(audit.history)
    if audit.misbehaved:
        yield f"the run ended by the curator, which signed what this run does not take: {audit.misbehaved}"
    if audit.missing > 0.0:
        line = f"answers of up to {audit.missing:.1%} of the agents asked are missing"
        estimate = None if audit.silent is None else audit.silent.estimate
        if estimate is not None:
            line += f": however those people differ from the others, the {what} is {_sure(estimate)}"
        if audit.left_out is not None:
            line += f"; were their answers left out because of what they say, it is {_sure(audit.left_out)}"
        yield line
    if audit.depends_on_silent:
        yield "the result depends on those who did not answer: with all of them against it, it is not shown"
    if audit.liars:
        losses = [f"{share:.0%}: {ends(estimate.low, estimate.high)}" for share, estimate in audit.liars.items()]
        confidence = certainty(min(estimate.confidence for estimate in audit.liars.values()))
        yield f"{what} interval if so large a share of the answers counted are lies ({confidence}): {', '.join(losses)}"


def _sure(estimate: Estimate) -> str:
    return f"{ends(estimate.low, estimate.high)} ({certainty(estimate.confidence)})"


def audit_lines(audit: Audit) -> Iterator[str]:
    """Yield what an audit has verified, and what it cannot verify, sentence by sentence."""
    yield f"{audit.entries} transcript entries: chain and signatures hold"
    yield f"{audit.operations} curator operations, each signed for exactly its request"
    several = audit.promises["agent"].covers == "answers"
    often = "no agent more often than the scenario allows" if several else "none twice"
    yield f"{audit.answers:,} answers in {audit.reports:,} signed reports, in the committed order, {often}"
    for other, agents in audit.others.items():
        yield f"{agents:,} agents between were asked by run {other}, whose audit shows it"
    yield "the protocol, replayed on these answers, asks the same questions and ends with the same result"
    if audit.conclusion:
        yield f"what that shows: {audit.conclusion}{IF_NONE_LEFT_OUT if audit.missing else ''}"
    yield from _remaining(audit)
    if audit.certificate is not None:
        yield "what the curator's declared events cost is within what it promised"
        yield f"their certificate ({audit.certificate.accountant}) was worked out again by code of its own"
    for who, promised in audit.promises.items():
        yield f"{PROMISED[who]}: {promised}"


def audit_table(run: Path, audit: Audit) -> None:
    """Print the findings of an audit, and what no audit of a folder can find."""
    loose = [who for who, pinned in zip(("referee", "curator"), audit.pinned, strict=True) if not pinned]
    if loose:
        options = " and ".join(f"--{who}-key" for who in loose)
        whose = f": the {' and the '.join(loose)} of this folder may be anybody"
        rest = f"{whose}; give {options} as you know it from elsewhere"
        _OUT.print(styled(("not pinned", "yellow"), (rest, "")), soft_wrap=True)
    _OUT.print(styled(("verified", "bold green"), (f" {run}: ended {audit.status}", "")), soft_wrap=True)
    for line in audit_lines(audit):
        _OUT.print(f"  {line}", soft_wrap=True)
    _OUT.print(f"  not covered, since it is not signed: {', '.join(UNSIGNED)}", style="dim", soft_wrap=True)
