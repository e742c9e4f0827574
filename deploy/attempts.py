"""Work beside a run's answer, which it is compared with: what cannot be done is left out, and the reason is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import OperationalError

from common.core.errors import TandemError
from deploy.base import OnProgress

T = TypeVar("T")


class NoAnswer(Exception):
    """A comparison ran and came to nothing; says why."""


class Attempts:
    """Comparisons that are tried one after the other; none of them ends a run that has its answer.

    What is left out is what a scenario or a machine can cause: a sample that finds no room, missing data, a full disk,
    too little memory, a refusal, a run without an answer. A bug of our own is raised.

    Parameters
    ----------
    on_progress
        Called for each comparison that is left out.

    Attributes
    ----------
    left_out
        The reason for each comparison that was left out, by its name.
    """

    def __init__(self, on_progress: OnProgress) -> None:
        self._watch = on_progress
        self.left_out: dict[str, str] = {}

    def attempt(self, name: str, words: str, work: Callable[[], T]) -> T | None:
        """Return what the work finds out, or None where it cannot be done.

        Parameters
        ----------
        name
            Key in :attr:`left_out`.
        words
            The comparison as people read it.
        """
        try:
            return work()
        except (NoAnswer, TandemError, OSError, OperationalError, MemoryError) as error:
            self.left_out[name] = " ".join(str(error).split()) or type(error).__name__
            self._watch(f"{words} is left out: {self.left_out[name]}", {})
            return None
