"""Questions of ``referee init``: a wrong answer is asked for again, ``<`` goes back, and names of columns are read.

What a column is called says what it probably holds; no field is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol, TypeVar

from common.core.errors import BadScenario
from common.core.terminal import say

_Found = TypeVar("_Found")
BACK = "<"
"""Typed in the place of an answer: the question before it is asked again."""


class Ask(Protocol):
    """Put a question to a person and return the answer, or the default; raises where there is neither."""

    def __call__(self, question: str, default: str | None = None) -> str: ...


class _Again(Exception):
    """Somebody goes back."""


class Wizard:
    """Puts questions until each has an answer that is taken."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._answers: list[str] = []
        self._next = 0

    def through(self, questions: Callable[[Ask], _Found]) -> _Found:
        """Return what a function makes of the answers to its questions, each put with the function it is given.

        It is called again after a wrong answer, and after ``<``; what was answered before is not asked again. A
        BadScenario that comes before any answer is raised.
        """
        while True:
            self._next = 0
            try:
                return questions(self._answer)
            except _Again:
                del self._answers[-1:]
            except BadScenario as error:
                if not self._answers:
                    raise
                del self._answers[-1]
                say(f"{error.detail} ({BACK} goes back)")

    def _answer(self, question: str, default: str | None = None) -> str:
        if self._next == len(self._answers):
            answer = self._ask(question, default)
            if answer.strip() == BACK:
                raise _Again
            self._answers.append(answer)
        self._next += 1
        return self._answers[self._next - 1]


_WORDS = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])")
_IDS = frozenset(("id", "ids", "uuid", "guid", "nr", "no", "key", "ssn", "iban", "pk", "email", "phone", "number"))
_DATES = frozenset(("date", "datum", "time", "timestamp", "birthday", "birthdate", "dob", "at"))
_NAMES = frozenset(("name", "surname", "address", "street", "url", "title"))
_PROSE = frozenset(("note", "notes", "comment", "comments", "text", "description", "remark", "remarks", "message"))
_KINDS = {"an id": _IDS, "a date": _DATES, "free text": _NAMES | _PROSE}


def looks_like(column: str) -> str | None:
    """Return what a column is by its name: ``an id``, ``a date``, ``free text``; None where its name says neither.

    The last word of the name decides: ``customer_id`` and ``createdAt``, but not ``idle`` or ``name_length``.
    """
    words = [word.lower() for word in _WORDS.findall(column)]
    return next((kind for kind, known in _KINDS.items() if words and words[-1] in known), None)
