"""Bugs that somebody could write, each put in the place of the real code: histories must find every one."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.histories.faults import Faults
from benchmarks.histories.history import History, play
from benchmarks.histories.world import world
from common.core import database
from common.core import durable as state
from common.core.database import alone
from common.core.errors import CannotWrite
from common.net.messages import StoredRelease
from common.numerics.randomness import RandomSource
from curator.ledger import Ledger
from local_agent.answers import answer_together
from local_agent.hosted import questions
from local_agent.hosted.population import Population
from local_agent.person import agent
from local_agent.person.agent import Agent
from referee.collection.collection import ReportCollection
from referee.collection.judging import Claim
from referee.collection.questions import OpenQuestion, OpenQuestions
from referee.runs import execution
from referee.store import RefereeStore
from referee.tables import LEASING, ReportRef, Tables

Bug = Callable[[pytest.MonkeyPatch], None]


def acknowledges_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """A full disk is no reason to refuse: the receipt leaves."""
    real = ReportCollection.accept
    patch.setattr(
        ReportCollection,
        "accept",
        lambda self, claims: [None if isinstance(problem, CannotWrite) else problem for problem in real(self, claims)],
    )


def gives_receipts_for_what_it_refused(patch: pytest.MonkeyPatch) -> None:
    """A receipt for every report that came and that its sender signed."""
    real = ReportCollection.accept
    patch.setattr(
        ReportCollection,
        "accept",
        lambda self, claims: [
            None if isinstance(claim, Claim) else problem
            for claim, problem in zip(claims, real(self, claims), strict=True)
        ],
    )


def agent_draws_again_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    """The noise is fresh each time, and what is on disk is not looked at."""
    patch.setattr(agent, "noise_for", lambda *what: RandomSource(os.urandom(32), simulated=False))
    patch.setattr(Agent, "_read", lambda self: [])


def host_draws_again_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    """The host reads no stored report, and its noise is fresh each time."""
    patch.setattr(questions, "report", lambda *what: None)
    patch.setattr(Population, "_check_fresh", lambda *what: None)

    real: Any = answer_together

    def answer(*what: Any) -> Any:
        return real(*what[:5], RandomSource(os.urandom(32), simulated=True))

    patch.setattr("local_agent.hosted.population.answer_together", answer)


def curator_forgets_what_it_has_charged(patch: pytest.MonkeyPatch) -> None:
    """A request that comes again is charged again."""
    patch.setattr(Ledger, "find", lambda self, operation: None)


def curator_releases_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """The result is in memory alone when it leaves."""

    def finish(self: Ledger, operation: str, result: Any) -> None:
        charge = self._charges[operation]
        charge.result, charge.entries = json.loads(json.dumps(result)), len(self.journal.chain)

    patch.setattr(Ledger, "finish", finish)


def referee_counts_one_answer_too_many(patch: pytest.MonkeyPatch) -> None:
    """The count is kept apart from the reports."""
    real = RefereeStore.answered
    patch.setattr(RefereeStore, "answered", lambda self, run: real(self, run) + 1)


def referee_loses_the_last_report(patch: pytest.MonkeyPatch) -> None:
    """The answers are added up without the last report that was stored."""
    real = RefereeStore.reports
    patch.setattr(RefereeStore, "reports", lambda self, question: list(real(self, question))[:-1])


def referee_forgets_replies_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    """What was recorded of a step is not found again."""
    patch.setattr(RefereeStore, "reply_entry", lambda self, run, step: None)


def nobody_looks_at_the_lease(patch: pytest.MonkeyPatch) -> None:
    """A driver that was replaced goes on writing."""

    @contextmanager
    def driving(self: Tables, turn: int = LEASING) -> Iterator[Any]:
        with self._engine.begin() as connection:
            alone(connection, turn)
            yield connection

    patch.setattr(Tables, "_driving", driving)
    patch.setattr(Tables, "check_driving", lambda self: None)


def process_learns_numbers_and_not_who(patch: pytest.MonkeyPatch) -> None:
    """What the other process has stored is counted on, and not looked at: whoever asks twice is stored twice."""

    def learn(self: OpenQuestions, taken: Sequence[ReportRef], still_open: Any) -> None:
        self.newest = max([self.newest, *(report.number for report in taken)])

    patch.setattr(OpenQuestions, "learn", learn)


def takes_reports_after_the_question_is_closed(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether a question still takes answers."""
    patch.setattr(OpenQuestion, "open", property(lambda self: True, lambda self, still: None), raising=False)


def believes_any_release(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether the curator has signed it, and for which request."""
    patch.setattr(execution, "check_release", lambda signed, request, digest, key: StoredRelease.parse(signed.message))


def agent_writes_and_does_not_synchronise(patch: pytest.MonkeyPatch) -> None:
    """What is written is in the operating system's memory; the file is put in its place all the same."""

    def write(path: Path, content: bytes, *, mode: int = 0o644) -> None:
        part = path.with_name(path.name + ".part")
        part.write_bytes(content)
        os.replace(part, path)
        state.sync_folder(path.parent)

    patch.setattr(agent, "write_durably", write)


def host_renames_and_does_not_synchronise_the_folder(patch: pytest.MonkeyPatch) -> None:
    """What the file holds is on the disk, and that it is there is not."""

    def write(path: Path, content: bytes, *, mode: int = 0o644) -> None:
        part = path.with_name(path.name + ".part")
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)

    patch.setattr(questions, "write_durably", write)


def database_does_not_synchronise(patch: pytest.MonkeyPatch) -> None:
    """A commit returns before it is on the disk, as SQLite's write-ahead log does by default in other programs."""
    real = database._make_durable

    def durable(journal: str, connection: Any, record: Any) -> None:
        real(journal, connection, record)
        connection.execute("PRAGMA synchronous=NORMAL")

    patch.setattr(database, "_make_durable", durable)


BUGS: tuple[Bug, ...] = (
    curator_forgets_what_it_has_charged,
    acknowledges_before_it_is_stored,
    gives_receipts_for_what_it_refused,
    agent_draws_again_after_a_crash,
    host_draws_again_after_a_crash,
    curator_releases_before_it_is_stored,
    referee_counts_one_answer_too_many,
    referee_loses_the_last_report,
    referee_forgets_replies_after_a_crash,
    nobody_looks_at_the_lease,
    process_learns_numbers_and_not_who,
    takes_reports_after_the_question_is_closed,
    believes_any_release,
    agent_writes_and_does_not_synchronise,
    host_renames_and_does_not_synchronise_the_folder,
    database_does_not_synchronise,
)


def found_within(bug: Bug, count: int, first: int = 0) -> History | None:
    """Return the first of so many histories, from a seed on, in which something does not hold because of a bug."""
    with world(Faults(0)):
        pass  # what all histories begin with is prepared without the bug
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        return next((history for seed in range(first, first + count) if (history := play(seed)).broken), None)
