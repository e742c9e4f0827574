"""What a documented command is run as: steps in a shell, what they must show, values for ``DIRECTORY`` and the like."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from referee.runs.verdict import ENDED
from tests.documents.running import Clone, Done
from tests.support import public_data

Value = str | Callable[[Clone], str]

BETA = 0.05
"""The probability with which a run of a shipped scenario may miss what it promises, at most."""
TRIES = 5
"""So often a printed run that draws its own seed may be run until it shows what the documents say."""


@dataclass(frozen=True)
class Step:
    """A printed command, run.

    Attributes:
        command: Exactly as it is printed.
        shows: Regular expressions that its output has to match, taken as one line.
        values: What is put where the document says ``DIRECTORY`` and the like.
        varies: Parts of printed output that may differ from one machine or run to another; all else must be as printed.
        until: It goes on by itself: the next step begins as soon as it says this, or at once if this is empty.
        typed: What a person types on the terminal on which it runs; empty: there is no terminal.
        check: A closer look at what it left.
        tries: How often it is run at most until it shows what it must: more than once where it draws a new seed each
            time, since a run keeps its promise with probability 1 - beta, not always.
    """

    command: str
    shows: tuple[str, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    status: int = 0
    varies: str | None = None
    until: str | None = None
    typed: str = ""
    check: Callable[[Clone, Done], None] | None = None
    seconds: float = 400.0
    tries: int = 1

    @property
    def chance(self) -> float:
        """Return the probability with which it misses each time, at most: tries draw independent seeds."""
        return BETA**self.tries if self.tries > 1 else 0.0

    def line(self, clone: Clone) -> str:
        """Return the command with values for what stands for something."""
        text = self.command
        for name, value in self.values.items():
            assert name in text
            text = text.replace(name, value if isinstance(value, str) else value(clone))
        return text


@dataclass(frozen=True)
class Job:
    """Steps that are run in order, in one copy of the project and one environment.

    Attributes:
        prepare: Provides the files and services that a reader has by then, while the steps run.
        ports: Ports that it needs, since the document names them.
        needs: A program that not every environment has.
        alone: It changes the copy, which then serves nothing else.
        thorough: It takes long and is a variant of another one: the thorough tests run it.
    """

    steps: tuple[Step, ...]
    prepare: Callable[[Clone], AbstractContextManager[None]] = lambda clone: nullcontext()
    ports: tuple[int, ...] = ()
    needs: str | None = None
    alone: bool = False
    thorough: bool = False

    @property
    def name(self) -> str:
        return " ; ".join(step.command for step in self.steps)[:80]


def job(command: str, *shows: str, **rest: Any) -> Job:
    """Return the job of one command; ``rest`` is of its step, and of itself."""
    own = {name: rest.pop(name) for name in ("prepare", "needs", "alone", "thorough") if name in rest}
    return Job((Step(command, shows, **rest),), **own)


def sequence(*steps: Step, **rest: Any) -> Job:
    return Job(steps, **rest)


def finished(command: str, *shows: str, status: str = "done", **rest: Any) -> Job:
    """Return the job of a run that must end with its result: one of several, if it draws its own seed."""
    tries = 1 if "--seed" in command else TRIES
    words = "|".join(ENDED[one] for one in status.strip("()").split("|"))
    return job(command, f"the run ({words}): ", "Verify it: referee audit runs/", *shows, tries=tries, **rest)


newest = Clone.newest_run


def data(name: str = "") -> Callable[[Clone], str]:
    return lambda clone: str(public_data(name))


def result(clone: Clone) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((clone.folder / newest(clone) / "result.json").read_text())
    return document
