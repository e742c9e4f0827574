"""Questions on a terminal: those of ``referee init``, and the confirmation of ``referee run`` before it spends budgets.

After a wrong answer the question is asked again, and ``<`` goes back. A column's name suggests what it holds; no field
of a table is read for that.
"""

import re
from collections.abc import Callable
from typing import Protocol, TypeVar

import typer

from common.core.errors import BadInput, BadScenario
from common.core.terminal import say
from common.net.cli import has_terminal
from common.privacy.rounding import stated
from common.scenario.fitting import noise_alone
from common.scenario.forecasting import forecast
from common.scenario.scenario import ResolvedScenario

T = TypeVar("T")
BACK = "<"
"""Typed instead of an answer to return to the previous question."""


class Ask(Protocol):
    """Ask a person a question and return the answer, or the default; raise if there is neither."""

    def __call__(self, question: str, default: str | None = None) -> str: ...


class _BackRequested(Exception):
    """The user wants to go back."""


class Wizard:
    """Asks questions until each has a valid answer."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._answers: list[str] = []
        self._next = 0

    def through(self, questions: Callable[[Ask], T]) -> T:
        """Return the result of a function that asks questions with the :class:`Ask` that it is given.

        The function is called again after a wrong answer, and after ``<``; earlier questions keep their answers and are
        not asked again. A BadScenario before the first answer is raised.
        """
        while True:
            self._next = 0
            try:
                return questions(self._answer)
            except _BackRequested:
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
                raise _BackRequested
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
    """Return what a column's name suggests that it holds: ``an id``, ``a date``, ``free text``; None if none of these.

    The last word of the name decides: ``customer_id`` and ``createdAt`` match, ``idle`` and ``name_length`` do not.
    """
    words = [word.lower() for word in _WORDS.findall(column)]
    return next((kind for kind, endings in _KINDS.items() if words and words[-1] in endings), None)


def check_spending(chosen: ResolvedScenario, *, yes: bool, anyway: bool) -> None:
    """Ask whether to spend real people's budgets; BadInput if they are not to be spent. Experiments are not asked.

    ``yes``: the user agreed beforehand; ``anyway``: spend even if the forecast is that noise alone would decide.
    """
    if chosen.people == "simulated" or chosen.experiment:
        return
    n, agents = int(chosen.curator.n), int(chosen.agents.count)
    why = noise_alone(chosen, n, agents)
    if why is not None and not anyway:
        raise BadInput(
            f"noise alone would decide, and these people have their budget only once: {why}. Nothing was charged; "
            f"--anyway spends it all the same"
        )
    if yes:
        return
    if not has_terminal():
        raise BadInput(
            "cannot ask whether to spend real people's budgets, since there is no terminal: run this on a terminal, or "
            "agree beforehand, with --yes; nothing was charged"
        )
    for line in (*_budgets(chosen, n, agents), forecast(chosen, agents) or "There is no forecast of what it will show"):
        say(f"{line}.", error=True)
    if not typer.confirm("Spend this?", err=True):
        raise BadInput("not confirmed: nothing was charged")


def _budgets(chosen: ResolvedScenario, n: int, agents: int) -> tuple[str, ...]:
    curator, mechanism = chosen.curator, chosen.agents.mechanism
    if curator.epsilon is None:
        promised = "no privacy: epsilon is null"
    else:
        promised = f"epsilon {stated(curator.epsilon)}, delta {stated(curator.delta or 0.0)} for the whole run"
    epsilon, delta = mechanism.guarantee
    of_agents = f"epsilon {stated(epsilon)}" + (f", delta {stated(delta)}" if delta else "")
    return (
        f"Their budget: {n:,} people who trust the curator: {promised}",
        f"Their budget: up to {agents:,} people who trust their own device: {of_agents} for each answer",
    )
