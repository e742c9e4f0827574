"""What a referee's process reports to monitoring: metrics, and what it needs to be ready."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from common.net.batching import Grouped
from common.net.monitoring import Check, Family, MetricSample, by_label, disk, free_bytes, gauge
from referee.service.referee import Referee
from referee.service.runner import Runner

STATES = ("waiting", "running", "cancelling", "done", "exhausted", "refused", "failed", "cancelled")
"""States of runs, which are told also where no run is in them."""


def of_referee(referee: Referee) -> list[Family]:
    """Return the metrics of a referee."""
    return [*_of_runs(referee), *_of_agents(referee), *_of_witnesses(referee), *_of_state(referee)]


def of_groups(groups: Sequence[Grouped[Any, Any]]) -> list[Family]:
    """Return the metrics of what is worked on in groups: reports are committed so, each group in one transaction."""
    seconds = [sample for group in groups for sample in group.seconds.samples()]
    sizes = [sample for group in groups for sample in group.sizes.samples()]
    waiting = {group.name: float(group.waiting) for group in groups}
    return [
        Family("tandem_group_seconds", "histogram", "Seconds of work on one group, its commit included.", seconds),
        Family("tandem_group_items", "histogram", "Requests in one group.", sizes),
        by_label("gauge", "tandem_queue_length", "Requests that wait for a group.", "kind", waiting),
    ]


def _of_runs(referee: Referee) -> list[Family]:
    runs = referee.store.runs()
    states = Counter(dict.fromkeys(STATES, 0))
    states.update(run.status for run in runs)
    now, silent, agents = time.monotonic(), [], []
    for run in (run for run in runs if run.result is None):
        found = referee.agents(run.run)
        declined = sum(found["declined"].values())
        counts = {"asked": found["asked"], "answered": found["answered"], "declined": declined}
        agents += [MetricSample(count, {"run": run.run, "state": state}) for state, count in counts.items()]
        if run.run in referee.progressed:
            silent.append(MetricSample(now - referee.progressed[run.run], {"run": run.run}))
    waits = "Seconds since a run under way last made progress: how old what it waits for is."
    return [
        by_label("gauge", "tandem_runs", "Runs by state.", "state", states),
        Family("tandem_run_seconds_since_progress", "gauge", waits, silent),
        Family(
            "tandem_run_agents", "gauge", "Agents of closed questions of runs under way; asked ones of all.", agents
        ),
    ]


def _of_agents(referee: Referee) -> list[Family]:
    enrolment = [
        gauge(f"tandem_enrolment_{name}", f"Enrolment: {name.replace('_', ' ')}.", count)
        for name, count in referee.registrar.enrolled().items()
    ]
    rejected = dict(referee.collection.rejected)
    accepted = [MetricSample(referee.collection.accepted)]
    return [
        gauge("tandem_agents_enrolled", "Agents that are enrolled.", referee.registrar.roster.agents),
        *enrolment,
        Family("tandem_reports_accepted_total", "counter", "Reports that were stored here.", accepted),
        by_label("counter", "tandem_reports_rejected_total", "Reports refused, by reason.", "reason", rejected),
    ]


def _of_witnesses(referee: Referee) -> list[Family]:
    standing = referee.checkpoints.standing
    answers = {place: float(not found.problem) for place, found in standing.items()}
    misbehaved = {place: float(found.misbehaved) for place, found in standing.items()}
    wrong = "Answers that no witness gives: such a witness is passed over, and asked again."
    return [
        by_label(
            "gauge", "tandem_witness_answers", "Whether a witness kept what it was sent last.", "witness", answers
        ),
        by_label("counter", "tandem_witness_misbehaved_total", wrong, "witness", misbehaved),
    ]


def _of_state(referee: Referee) -> list[Family]:
    store, fence = referee.store, referee.store.fence
    left = store.lease_left()
    return [
        Family("tandem_commits_total", "counter", "Transactions committed.", [MetricSample(store.commits())]),
        gauge("tandem_lease_held", "Whether this process drives the runs.", float(fence is not None)),
        gauge("tandem_lease_seconds_left", "Seconds until the lease ends, of any holder.", left),
        gauge("tandem_fence", "The fencing token of this process, while it drives.", fence),
        gauge("tandem_disk_free_bytes", "Bytes left for the state directory.", free_bytes(referee.folder)),
        gauge("tandem_database_bytes", "Bytes of the database on disk.", store.bytes()),
    ]


TAKING_OVER = 3.0
"""Lengths of a lease in which another process may take over what one has left, or the first one begins."""


def checks(referee: Referee, runner: Runner) -> dict[str, Check]:
    """Return the checks of a referee's process.

    Only a process that drives, or would, needs a driver: one that takes requests alone (``--role ingest``) keeps what
    agents report until somebody drives again, so that taking it out of service would lose answers.
    """
    began = time.monotonic()

    def database() -> str | None:
        referee.store.check_writable()
        return None

    def driver() -> str | None:
        if not runner.started or referee.store.fence is not None:
            return None
        patience = TAKING_OVER * referee.lease
        left = referee.store.lease_left()
        if time.monotonic() - began < patience or (left is not None and left > -patience):
            return None
        return f"no process has held the lease for {patience:g} seconds"

    return {"disk": lambda: disk(referee.folder), "database": database, "driver": driver}
