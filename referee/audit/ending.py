"""What a run ends with: its result, what it cost, and the files beside the transcript."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from common.core import canonical
from common.core.errors import AuditFailed
from common.net.messages import Terms
from common.privacy.accountants.base import grouped
from common.privacy.budget import certify
from common.privacy.certificate import Certificate
from common.privacy.events import Event
from common.scenario.resolved import ResolvedScenario, parse_resolved
from common.statistics.intervals import Estimate
from referee.audit.certificates import recheck
from referee.audit.replay import Replay
from referee.audit.reports import Place
from referee.protocols.base import Outcome
from referee.runfolder import read_result, read_scenario
from referee.runs.results import result_document, rounds_of


def check_result(
    chosen: ResolvedScenario, published: dict[str, Any], outcome: Outcome | None, terms: Terms | None, replay: Replay
) -> list[dict[str, float]]:
    """Check that the signed result is what the transcript leads to, and return what each round found.

    A run that was cut off has no answer, and may tell less of its rounds; one of an earlier version tells nothing.

    Raises:
        AuditFailed: Naming the first part of the result that is another one.
    """
    if outcome is not None and terms is None:
        raise AuditFailed("a run ended by itself without the curator's terms")
    agents, answers = published["agents"], replay.answers
    asked = replay.asked + sum(int(b) - int(a) for e in replay.pending for _, a, b in e.body["parts"])
    if agents["asked"] != asked or agents["answered"] < answers:
        raise AuditFailed(f"{asked} agents were asked, {answers} answered, found {agents}")
    if outcome is not None and agents["answered"] != answers:
        raise AuditFailed(f"{answers} agents answered, found {agents['answered']}")
    lost = published["lost"]
    if lost["silent"] + sum(lost["declined"].values()) != max(0, asked - agents["answered"]):
        raise AuditFailed(f"{asked - agents['answered']} agents that were asked did not answer, found {lost}")
    rounds = rounds_of(note.numbers for note in replay.notes)
    published_rounds = rounds if outcome else rounds[: len(published.get("rounds", ()))]
    found = result_document(
        chosen,
        outcome,
        rounds=published_rounds,
        status=outcome.status if outcome else str(published["status"]),
        reason=outcome.reason if outcome else str(published["reason"]),
        terms=terms,
        agents=agents,
        lost=lost,
        enrolment=published["enrolment"],
        seconds={},
    )
    del found["seconds"]
    for name in sorted(found.keys() | published.keys()):
        if name not in found or canonical.encode(published.get(name)) != canonical.encode(found[name]):
            raise AuditFailed(f"the result's {name} is not what the transcript's answers lead to")
    return rounds


SHARES = (0.01, 0.05, 0.1)
"""The shares of liars for which an audit says what they could have moved."""


def moved_by_liars(outcome: Outcome | None) -> dict[float, Estimate]:
    """Return the answer's loss interval if a share of the answers is adversarial, by share.

    By :data:`SHARES`, and the one that the scenario assumes; nothing where the answers to one question are not what the
    estimate is made of.
    """
    if outcome is None or outcome.summary is None:
        return {}
    summary = outcome.summary
    return {
        share: summary.estimate(share) for share in sorted({*SHARES, summary.liars} - {0.0}) if share >= summary.liars
    }


def check_cost(events: list[Event], terms: Terms | None) -> Certificate | None:
    """Recompute what the declared events cost: at most what the curator promised.

    The accountants' certificate is then worked out again by other code (:mod:`referee.audit.certificates`), and
    returned. It is about these events as if they had been fixed beforehand: what a run that stopped by itself has spent
    is no guarantee, the promise is one.

    Raises:
        AuditFailed: If they cost more, or the two do not agree.
    """
    if terms is None or not terms.guarantee.private:
        return None
    epsilon, delta = terms.guarantee.pair
    certificate = certify(grouped(events), delta, epsilon)
    spent = math.inf if certificate is None else certificate.epsilon
    if certificate is None or spent > epsilon:
        raise AuditFailed(f"the declared events cost epsilon = {spent:g}, the curator promised {epsilon:g}")
    recheck(certificate.wire(), [event.wire() for event in events], epsilon, delta)
    return certificate


def check_files(folder: Path, chosen: ResolvedScenario, published: dict[str, Any], place: Place) -> None:
    """Check that the scenario's and the result's files say what was signed.

    Raises:
        AuditFailed: Naming the file that does not.
    """
    place.words = "scenario.yaml"
    if parse_resolved(read_scenario(folder)) != chosen:
        raise AuditFailed("scenario.yaml differs from the signed configuration")
    place.words = "result.json"
    stored = read_result(folder)
    for name, value in published.items():
        if canonical.encode(stored.get(name)) != canonical.encode(value):
            raise AuditFailed(f"result.json: {name} differs from the signed transcript")
