"""A person's consent before their agent answers: who asks what, what could leave, what it costs, what is left."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.core.durable import sync_folder
from common.core.errors import BadData, BadInput, ConsentWithheld, PeerError, TandemError
from common.core.plain import in_columns, plain
from common.local.naming import quoted
from common.net.cli import has_terminal
from common.privacy.guarantee import best_guess, formula, in_words, of_agent
from common.privacy.rounding import stated
from local_agent.policy import CheckedQuestion, PersonalPolicy, own_slot

PURPOSE = 200  # characters of a run's title that are shown


@dataclass(frozen=True)
class Consent:
    """A request for consent: it shows a question that passed the agent's policy, asks the person, and logs both."""

    address: str
    policy: PersonalPolicy
    journal: ActivityLog
    show: Callable[[str], None]
    agree: Callable[[], bool]

    def __call__(self, question: CheckedQuestion, left: float) -> None:
        """Return if the person agrees; else raise ConsentWithheld, before the record is read or budget is spent.

        ``left`` is the remaining lifetime epsilon.
        """
        asked, (epsilon, delta) = question.assignment, question.mechanism.guarantee
        self.journal.write(
            "asked",
            run=asked.run,
            question=asked.question,
            referee=self.address,
            key=self.policy.referee,
            what=asked_of(question),
            purpose=question.purpose,
            what_could_leave=question.mechanism.leaves(question.query.domain),
            epsilon=epsilon,
            delta=delta,
            lifetime_epsilon=self.policy.epsilon,
            lifetime_left=left,
        )
        self.show(in_columns(sections(question, self.address, self.policy, left)))
        agreed = self.agree()
        self.journal.write("agreed" if agreed else "declined", run=asked.run, question=asked.question)
        if not agreed:
            raise ConsentWithheld("declined: nothing was answered and nothing is spent")


def asked_of(question: CheckedQuestion) -> str:
    """Return, in words, what a question asks of an individual, whose slot is the only one in it."""
    return question.query.asks(question.names, own_slot(question.assignment))


def _origin(question: CheckedQuestion) -> str:
    if question.own_names:
        return "These are the columns that your record was made for."
    if question.names.features:
        return "The columns are named as the referee names them: see that your record was made for this scenario."
    return "The scenario of the run names no columns."


def sections(question: CheckedQuestion, address: str, policy: PersonalPolicy, left: float) -> dict[str, str]:
    """Return a question in plain words for the person who is asked, as texts by their titles."""
    asked, mechanism = question.assignment, question.mechanism
    epsilon, delta = mechanism.guarantee
    promise, guess = of_agent(mechanism.guarantee), ""
    if promise.private:
        guess = (
            f" Somebody who held two records for equally likely to be yours, and sees the answer, guesses right with "
            f"probability {best_guess(epsilon, delta):.4g} at most (without it: 0.5)."
        )
    after = max(0.0, left - epsilon) if math.isfinite(epsilon) else 0.0
    spent = stated(policy.epsilon - left) if left < policy.epsilon else "nothing"
    return {
        "Who asks": f"the referee at {address}, in run {asked.run!r}, question {asked.question}; its key is "
        f"{policy.referee}, and this agent listens to no other",
        "Purpose": f"{quoted(question.purpose, PURPOSE)}, in the words of the referee",
        "What is asked": f"{asked_of(question)}. {_origin(question)}",
        "What could leave": f"{mechanism.leaves(question.query.domain)} Nothing else about your record leaves.",
        "What it costs": f"{formula(promise)}. {in_words(promise)}{guess}",
        "Lifetime budget": f"epsilon {policy.epsilon:g}; {spent} of it is spent so far. This answer spends "
        f"{stated(epsilon)}; {after:g} would be left for further answers. All answers together are protected by the "
        "sum of what they cost.",
        "Please note": "the referee learns whether you agree. Decide by what is asked and what it costs, not by what "
        "your record would answer.",
    }


def check_terminal(yes: bool) -> None:
    """Raise BadInput if consent is impossible, since there is neither a terminal nor ``--yes``."""
    if not yes and not has_terminal():
        raise BadInput(
            "cannot ask for consent, since there is no terminal: run this on a terminal, or agree beforehand, "
            "with --yes, to all questions that together cost at most --epsilon; nothing was sent and nothing is spent"
        )


NAME = "log.jsonl"  # the file in the agent's state directory


class ActivityLog:
    """An append-only file of JSON lines: a time in UTC, what happened, and facts about it.

    A line is on disk, readable by its owner only, when :meth:`write` returns. It never contains the record or the value
    computed from it, only the randomized answer that left the device.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._last: tuple[str, str] | None = None

    def write(self, event: str, **facts: Any) -> None:
        """Append one line; OSError if it cannot be stored, which also ends a request for consent."""
        entry = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, **facts}
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            size = os.fstat(descriptor).st_size
            # A line that a crash cut off remains separate.
            cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" * cut + json.dumps(entry).encode() + b"\n")
            os.fsync(descriptor)
            if size == 0:
                sync_folder(self._path.parent)
        finally:
            os.close(descriptor)

    def refused(self, error: TandemError) -> None:
        """Log why a question was not answered; a repeated reason is logged once, so a referee cannot fill the disk."""
        if not isinstance(error, PeerError | ConsentWithheld) and self._last != (error.problem, error.detail):
            self.write("refused", reason=error.problem, detail=error.detail)
            self._last = error.problem, error.detail


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the log of a state directory, oldest first, without lines cut off by a crash; BadData if there is none."""
    try:
        lines = (folder / NAME).read_bytes().splitlines()
    except FileNotFoundError:
        raise BadData(
            f"there is no log in {folder}: no agent has run with this state directory; name another with --state"
        ) from None
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def entry_in_words(entry: Mapping[str, Any]) -> str:
    """Return an entry as one line of text: the time, what happened, and the facts by name."""
    rest = {name: value for name, value in entry.items() if name not in ("time", "event")}
    facts = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in rest.items())
    return plain(f"{entry.get('time', 'no time')}  {entry.get('event', 'unknown')!s:<13} {facts}".rstrip())
