"""Audit a run folder offline: recompute whatever can be recomputed, and trust no party's statement about it.

Checked: the hash chain and the referee's signature of every entry; the committed order and who was asked; each report's
signature, its assignment and that no agent answered twice; the counts and roots of every batch; the curator's signature
on its terms and each release, and that its ledger only ever grew; the protocol's questions, message pattern and result,
by replay; the privacy cost, from the declared events; the result document and the scenario's file; that checkpoints,
witnesses and available receipts are about this very transcript; for which participants an issuer vouches.

No audit sees reports that the referee discarded before it signed anything about them, or who owns the keys in the
transcript (compare them with keys known from elsewhere). The only error raised is ``AuditFailed``.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from common.core import canonical
from common.core.errors import AuditFailed
from common.crypto.identity import Signed
from common.crypto.vouching import IssuerKey
from common.log.receipts import ROUND, StoredCheckpoint
from common.log.transcript import StoredEntry
from common.net.messages import Configuration, Terms
from common.operations.operation import Reweigh, parse_operation
from common.privacy.accountants import grouped
from common.privacy.budget import Certificate, certify
from common.privacy.events import Event, parts_of
from common.privacy.guarantee import PrivacyGuarantee
from common.scenario.scenario import ResolvedScenario, parse_resolved
from common.statistics.intervals import Estimate
from referee.audit.certificates import recheck
from referee.audit.history import History, check_history, check_reports
from referee.audit.replay import Agents, Replay, ReplayPosition, Vouchers, Vouching
from referee.protocols.base import Nonresponse, Outcome, shown_by
from referee.runfolder import open_file, read_file, read_result, read_scenario, read_transcript
from referee.runs.curator import check_terms
from referee.runs.ordering import ALL, BOTH, OrderEntropy, check_beacon
from referee.runs.results import promises, result_document, rounds_of


@dataclass(frozen=True)
class Audit:
    """What an audit found: how much was checked, and what the run promises.

    Attributes:
        certificate: The certificate of the curator's declared events, which cost no more than it promised.
        others, individuals, hosts, choosers: As :class:`referee.audit.replay.Agents` has them.
        pinned: Whether the referee's and the curator's keys were known from elsewhere.
        secret_order: Whether the order had to be secret beforehand: people are real, or others contributed to it.
        missing, misbehaved: As :class:`referee.audit.replay.Replay` has them.
        shown: What a run that ended ``done`` has shown (:func:`referee.protocols.base.shown_by`).
        about_a_loss: Whether the estimate is of a loss, and not of something else about a problem.
        silent: What those who did not answer could change; None where everybody answered.
        left_out: The estimate of the loss if their answers were left out because of what they say; None where it is not
            known which answers the estimate is computed from.
        liars: The estimate of the loss if shares of the answers are lies (:func:`moved_by_liars`).
    """

    entries: int
    reports: int
    answers: int
    operations: int
    status: str
    promises: dict[str, PrivacyGuarantee]
    certificate: Certificate | None
    others: dict[str, int] = field(default_factory=dict)
    rounds: tuple[dict[str, float], ...] = ()
    pinned: tuple[bool, bool] = field(default=(False, False), compare=False)
    individuals: int = 0
    hosts: tuple[int, ...] = ()
    choosers: tuple[str, ...] = ()
    secret_order: bool = False
    missing: float = 0.0
    misbehaved: str = ""
    conclusion: str = ""
    about_a_loss: bool = True
    silent: Nonresponse | None = None
    left_out: Estimate | None = None
    liars: dict[float, Estimate] = field(default_factory=dict)
    history: History = field(default_factory=History, compare=False)
    vouching: Vouching = field(default_factory=Vouching, compare=False)
    real: bool = False

    @property
    def depends_on_silent(self) -> bool:
        """Whether the run no longer shows its result if those who did not answer count against it."""
        return self.silent is not None and self.silent.matters


def audit(
    folder: Path,
    referee_key: str | None = None,
    curator_key: str | None = None,
    *,
    strict: bool = False,
    receipts: Sequence[Signed] = (),
    witness_checkpoints: Sequence[StoredCheckpoint] = (),
    agent_checkpoints: Sequence[StoredCheckpoint] = (),
    issuers: Sequence[IssuerKey] = (),
    large: bool = False,
) -> Audit:
    """Audit a run folder.

    Args:
        folder: As :mod:`referee.runfolder` writes it.
        referee_key, curator_key, issuers: Public keys known from elsewhere; by default those that the folder names.
        strict: Whether to fail where one of these keys is not given (whoever writes a folder from end to end has keys
            for it), where a witness that the transcript names has not seen its end, where one party alone may have
            chosen the order in which real people were asked, and where real people have answered for whom no issuer
            vouches. Whether the result depends on those who did not answer is no failure:
            :attr:`Audit.depends_on_silent`.
        receipts, witness_checkpoints, agent_checkpoints: Documents of agents and of a witness about this
            run (:func:`referee.audit.history.check_history`).
        large: Whether the folder's files may be larger than what 512 MiB of memory hold.
    """
    entries = read_transcript(folder, referee_key, large=large)
    agreed = any(entry.kind == "terms" for entry in entries)
    missing = [name for name, key in (("referee", referee_key), ("curator", curator_key)) if key is None]
    if strict and (referee_key is None or (agreed and curator_key is None)):
        raise AuditFailed(
            f"a strict audit takes the key of the {' and of the '.join(missing)}, known from elsewhere than from this "
            "folder (--referee-key, --curator-key): a referee that invents a run signs it with keys of its own"
        )
    place = ReplayPosition("the configuration")
    with place.named_in_failures():
        result = _audit(
            folder,
            entries,
            (referee_key, curator_key),
            place,
            (receipts, witness_checkpoints, agent_checkpoints),
            issuers,
            large,
        )
    if strict:
        _check_strict(result)
    return result


def _check_strict(result: Audit) -> None:
    if result.history.unseen:
        raise AuditFailed(
            f"the run was to be witnessed by {result.history.unseen[0][:16]}..., and nothing here shows that this "
            "witness has seen the transcript to its end: ask it (--witness URL)"
        )
    if result.choosers not in ((), (BOTH,), (ALL,)) and result.secret_order:
        raise AuditFailed(
            f"the order in which agents were asked was chosen by {' and by '.join(result.choosers)}: a strict audit "
            f"takes one by {BOTH} alone, with a beacon or without. Of an order that was there before this run, audit "
            "the run that began it"
        )
    if result.real and result.vouching.strangers:
        raise AuditFailed(
            f"{result.vouching.strangers:,} answers are of people for whom no issuer vouches that is known from "
            "elsewhere (--issuer FILE): that there are such people is the word of the referee, or of their host"
        )


def _audit(
    folder: Path,
    entries: list[StoredEntry],
    keys: tuple[str | None, str | None],
    place: ReplayPosition,
    evidence: tuple[Sequence[Signed], Sequence[StoredCheckpoint], Sequence[StoredCheckpoint]],
    issuers: Sequence[IssuerKey],
    large: bool,
) -> Audit:
    first, last = entries[0], entries[-1]
    configuration = _configuration(entries)
    chosen = parse_resolved(configuration.scenario)
    agents = Agents(configuration, first.body["participants"], read_file(folder, "participants", large=large), place)
    stated = first.body.get("vouchers")
    with open_file(folder, "vouchers", large=large) if stated and stated["count"] else nullcontext() as file:
        vouchers = Vouchers(agents.roster, stated, file, issuers, place)
    place.words = "the curator's terms"
    terms, curator = _terms(entries, configuration, keys[1])
    entropy = _order_entropy(entries, configuration, terms, curator)
    agents.open(configuration, last.body["order"], entropy)
    published = last.body["result"]
    head = None if terms is None else terms.ledger.head

    def reports(question: int) -> AbstractContextManager[BufferedIOBase]:
        return open_file(folder, f"reports/{question}.reports", large=large)

    replay = Replay(configuration, chosen, curator, head, agents, entries, reports, place)
    outcome = replay.run(cut_off=published["status"] not in ("done", "exhausted"))
    place.words = "the result"
    rounds = check_result(chosen, published, outcome, terms, replay)
    place.words = "the privacy cost"
    certificate = check_cost(replay.events, terms)
    check_files(folder, chosen, published, place)
    place.words = "the run's history"
    history = check_history(folder, entries, configuration, *evidence)
    check_reports(folder, entries)
    return Audit(
        *(len(entries), replay.reports, replay.answers, replay.operations),
        str(published["status"]),
        promises(chosen, terms),
        certificate,
        agents.others,
        tuple(rounds),
        pinned=(keys[0] is not None, keys[1] is not None or terms is None),
        individuals=agents.individuals,
        hosts=agents.hosts,
        choosers=agents.choosers,
        secret_order=entropy.text is not None or chosen.people == "real",
        missing=replay.missing,
        misbehaved=replay.misbehaved,
        conclusion=shown_by(chosen, outcome.gap if outcome else None) if published["status"] == "done" else "",
        about_a_loss=chosen.problem is None,
        silent=None if outcome is None else outcome.silent,
        left_out=None if outcome is None or outcome.summary is None else outcome.summary.left_out(),
        liars=moved_by_liars(outcome),
        history=history,
        vouching=vouchers.summary(replay.answers_of),
        real=chosen.people == "real",
    )


def _configuration(entries: Sequence[StoredEntry]) -> Configuration:
    kinds = [entry.kind for entry in entries]
    if kinds[0] != "configuration" or kinds[-1] != "result":
        raise AuditFailed(f"a finished run goes from configuration to result, found {kinds[0]} to {kinds[-1]}")
    for number, kind in enumerate(kinds[1:-1], start=2):
        due = ("terms",) if number == 2 else ("operation", "question", "answers", *(("beacon",) if number == 3 else ()))
        if kind not in due:
            raise AuditFailed(f"transcript line {number}: a {kind!r} does not belong here")
    configuration = Configuration.parse(entries[0].body["configuration"])
    if configuration.referee != entries[0].body["referee"]:
        raise AuditFailed("the configuration names another referee than the transcript")
    return configuration


def _terms(
    entries: list[StoredEntry], configuration: Configuration, curator_key: str | None
) -> tuple[Terms | None, str | None]:
    """Return the curator's terms, and the key that signed them; (None, None) if no curator agreed to the run."""
    entry = next((e for e in entries if e.kind == "terms"), None)
    if entry is None:
        return None, None
    signed = Signed.parse(entry.body["terms"])
    if curator_key not in (None, signed.key):
        raise AuditFailed(f"another curator signed the terms: {signed.key[:16]}...")
    return check_terms(signed, configuration), signed.key


def _order_entropy(
    entries: list[StoredEntry], configuration: Configuration, terms: Terms | None, curator: str | None
) -> OrderEntropy:
    """Return other parties' contributions to the order; a beacon must come before anything else is asked.

    A run that ended before its beacon has asked no agent.
    """
    entry = next((each for each in entries[2:3] if each.kind == "beacon"), None)
    if (entry is not None) != bool(configuration.beacon) and (entry is not None or len(entries) > 3):
        raise AuditFailed("the run's configuration names a beacon, and the transcript has another one or none")
    if entry is None or terms is None or curator is None:
        return OrderEntropy(None if terms is None else terms.share)
    entropy = check_beacon(entry.body, configuration, terms, curator)
    if not StoredCheckpoint.parse(entry.body["words"]).verified().covers(entries[:ROUND]):
        raise AuditFailed("the beacon's words are about another beginning of the run")
    return entropy


def check_result(
    chosen: ResolvedScenario, published: dict[str, Any], outcome: Outcome | None, terms: Terms | None, replay: Replay
) -> list[dict[str, float]]:
    """Check that the signed result is what the transcript leads to, and return what each round found.

    A run that was cut off has no answer, and may report fewer of its rounds.
    """
    if outcome is not None and terms is None:
        raise AuditFailed("a run ended by itself without the curator's terms")
    agents, answers, lost = published["agents"], replay.answers, published["lost"]
    pending = [("again" in e.body, int(b) - int(a)) for e in replay.pending for _, a, b in e.body["parts"]]
    asked = replay.asked + sum(count for _, count in pending)
    people = replay.people + sum(count for again, count in pending if not again)
    stated = people if chosen.agents.answers > 1 else None
    if (agents["asked"], agents.get("people")) != (asked, stated) or agents["answered"] < answers:
        raise AuditFailed(f"{people} agents were asked for {asked} answers, {answers} came, found {agents}")
    if outcome is not None and agents["answered"] != answers:
        raise AuditFailed(f"{answers} agents answered, found {agents['answered']}")
    if lost["silent"] + sum(lost["declined"].values()) != max(0, asked - agents["answered"]):
        raise AuditFailed(f"{asked - agents['answered']} agents that were asked did not answer, found {lost}")
    rounds = rounds_of(note.numbers for note in replay.notes)
    expected = result_document(
        chosen,
        outcome,
        rounds=rounds if outcome else rounds[: len(published.get("rounds", ()))],
        status=outcome.status if outcome else str(published["status"]),
        reason=outcome.reason if outcome else str(published["reason"]),
        terms=terms,
        agents=agents,
        lost=lost,
        enrolment=published["enrolment"],
        seconds={},
    )
    del expected["seconds"]
    for name in sorted(expected.keys() | published.keys()):
        same = canonical.same if name in _HYPOTHESES else canonical.alike
        if name not in expected or not same(published.get(name), expected[name]):
            raise AuditFailed(f"the result's {name} is not what the transcript's answers lead to")
    return rounds


_HYPOTHESES = ("answer", "calibrated")  # compared to the last digit; everything else is about them


SHARES = (0.01, 0.05, 0.1)  # the shares of liars for which an audit says what they could have moved


def moved_by_liars(outcome: Outcome | None) -> dict[float, Estimate]:
    """Return the answer's loss interval if a share of the answers is adversarial, for several shares.

    The shares are :data:`SHARES` and the one that the scenario assumes; the result is empty where it is not known which
    answers the estimate is computed from.
    """
    if outcome is None or outcome.summary is None:
        return {}
    summary = outcome.summary
    return {
        share: summary.estimate(share) for share in sorted({*SHARES, summary.liars} - {0.0}) if share >= summary.liars
    }


def check_cost(events: list[Event], terms: Terms | None) -> Certificate | None:
    """Recompute what the declared events cost, and check that it is at most what the curator promised.

    Other code then recomputes the accountants' certificate (:mod:`referee.audit.certificates`), which is returned. It
    is about these events as if they had been fixed beforehand: what an adaptively stopped run has spent is no
    guarantee, the promise is one.
    """
    if terms is None or not terms.guarantee.private:
        return None
    epsilon, delta = terms.guarantee.pair
    certificate = certify(grouped(events), delta, epsilon)
    spent = math.inf if certificate is None else certificate.epsilon
    if certificate is None or spent > epsilon:
        raise AuditFailed(f"the declared events cost epsilon = {spent:g}, the curator promised {epsilon:g}")
    recheck(certificate.wire(), [part.wire() for event in events for part in parts_of(event)], epsilon, delta)
    return certificate


def check_files(folder: Path, chosen: ResolvedScenario, published: dict[str, Any], place: ReplayPosition) -> None:
    """Check that the files of the scenario and the result contain what was signed."""
    place.words = "scenario.yaml"
    if parse_resolved(read_scenario(folder)) != chosen:
        raise AuditFailed("scenario.yaml differs from the signed configuration")
    place.words = "result.json"
    stored = read_result(folder)
    for name, value in published.items():
        if not canonical.same(stored.get(name), value):
            raise AuditFailed(f"result.json: {name} differs from the signed transcript")


def reweighs_of(run: Path) -> list[Reweigh]:
    """Return the reweighs of a run's curator, in order; AuditFailed or BadData if its folder passes no audit."""
    audit(run)
    bodies = [entry.body for entry in read_transcript(run) if entry.kind == "operation"]
    operations = [parse_operation(body["request"]["message"]["operation"]) for body in bodies]
    return [operation for operation in operations if isinstance(operation, Reweigh)]
