"""Plans for the page: a shipped scenario with a few numbers changed, rated by a traffic light with reasons."""

import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

import scenarios
from common.core.errors import BadScenario, TandemError
from common.core.plain import plain
from common.net.app import Service
from common.privacy.guarantee import PrivacyGuarantee
from common.scenario import loading
from deploy.checking import checked, refusal
from referee.runs.verdict import Tone
from referee.view.show import MEANINGS, figure, plans
from referee.view.wording import PROMISED
from tandem.ui.pages import page

MAX_KEPT = 64  # most plans in the cache
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,12})?(e-?[0-9]{1,2})?|plan")


@dataclass(frozen=True)
class Field:
    """A number of a scenario that the form may change.

    Attributes:
        low, high: Ends of its slider, which is logarithmic; other numbers can be typed.
        open: Whether it may be ``plan``.
    """

    key: str
    name: str
    low: float
    high: float
    open: bool = False
    whole: bool = False


FIELDS = (
    Field("curator.epsilon", "Epsilon of each person of the curator", 0.05, 10.0),
    Field("agents.mechanism.epsilon", "Epsilon of each agent's answer", 0.05, 10.0),
    Field("curator.n", "People of the curator", 100, 1e9, open=True, whole=True),
    Field("agents.count", "Agents", 100, 1e9, open=True, whole=True),
    Field("curator.rounds", "Rounds at most", 1, 1000, open=True, whole=True),
    Field("alpha", "Error that is aimed at (alpha)", 0.01, 0.4),
)


@dataclass(frozen=True)
class PlanChoice:
    """What to plan: a shipped scenario, and the numbers from the form."""

    scenario: str
    numbers: tuple[tuple[str, str], ...]

    @property
    def options(self) -> tuple[str, ...]:
        """The options of ``referee plan`` that give the same numbers."""
        return tuple(word for key, text in self.numbers for word in ("--set", f"{key}={text}"))

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Self:
        """Parse a query; numbers that it does not have stay those of the scenario. ``BadScenario`` for a wrong one."""
        name = query.get("scenario", "ball")
        if name not in scenarios.names():
            raise BadScenario(f"there is no shipped scenario {name!r}")
        numbers = {field.key: text for field in FIELDS if (text := query.get(field.key, "").strip())}
        for field in FIELDS:
            if _NUMBER.fullmatch(numbers.get(field.key, "0")) is None:
                what = "a number, or plan" if field.open else "a number, such as 0.5"
                raise BadScenario(f"'{field.name}' must be {what}, found {numbers[field.key]!r}", key=field.key)
        defaults = _default_numbers(name)
        return cls(name, tuple((key, text) for key, text in numbers.items() if text != defaults.get(key, "None")))


@dataclass(frozen=True)
class PlanView:
    """The displayed values of a plan.

    Attributes:
        tone, title: The traffic light, and its meaning.
        reasons: Why it is not green; empty if it is.
        needed: Numbers of people: which people, by the paper's bounds, by the tight ones.
        detectable: The differences of losses that can be detected, in sentences.
        rows: Every number: its name, by the paper, by the tight bounds, and the source of the latter.
    """

    tone: Tone
    title: str
    reasons: tuple[str, ...] = ()
    needed: tuple[tuple[str, str, str], ...] = ()
    detectable: tuple[str, ...] = ()
    rows: tuple[tuple[str, str, str, str], ...] = ()
    promises: tuple[str, ...] = ()


def form(choice: PlanChoice, typed: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the fields that the scenario has: ``field``, ``value``, and the position of the ``slider`` in [0, 1].

    ``typed`` is the user's input, even if it is wrong.
    """
    defaults, values, fields = _default_numbers(choice.scenario), {**dict(choice.numbers), **(typed or {})}, []
    for field in FIELDS:
        if field.key in defaults:
            value = values.get(field.key, defaults[field.key])
            try:
                slider = math.log(float(value) / field.low) / math.log(field.high / field.low)
            except ValueError:
                slider = 0.5
            fields.append({"field": field, "value": value, "slider": min(1.0, max(0.0, slider))})
    return fields


def plan_view(choice: PlanChoice) -> PlanView:
    """Return the plan; if the scenario cannot be planned, return the reason in the same form."""
    try:
        scenario = loading.load(choice.scenario, [f"{key}={text}" for key, text in choice.numbers])
        refused = refusal(checked(scenario))
        document = plans(scenario)
    except TandemError as error:
        return _refused(error.detail)
    advice = document["advice"] or {"warnings": [], "sentences": []}
    warnings = advice["warnings"]
    if refused:
        light: tuple[Tone, str, Any] = ("bad", "A run of it is refused", [refused.detail, *warnings])
    elif warnings:
        light = ("bad", "One of the two sides cannot help", warnings)
    elif document["violations"]:
        light = ("open", f"It runs, and violates a bound of its choice ({scenario.bounds})", document["violations"])
    else:
        light = ("good", f"It keeps every bound of its choice ({scenario.bounds})", ())
    rows = {row["name"]: row for row in document["rows"]}
    people = {"n": "People of the curator", "agents": "Agents at most"}
    return PlanView(
        light[0],
        light[1],
        tuple(plain(reason) for reason in light[2]),
        tuple((words, *_paper_and_tight(rows[name])) for name, words in people.items() if name in rows),
        tuple(plain(sentence) for sentence in dict.fromkeys([document["forecast"], *advice["sentences"]]) if sentence),
        tuple((MEANINGS.get(name, name), *_paper_and_tight(row), row["tight_source"]) for name, row in rows.items()),
        tuple(f"{PROMISED[who]}: {PrivacyGuarantee.parse(wire)}" for who, wire in document["privacy"].items()),
    )


def _refused(why: str) -> PlanView:
    return PlanView("bad", "This cannot be planned", (plain(why),))


class Planner:
    """Computes plans one after the other, and caches the last ones."""

    def __init__(self, work: Callable[[PlanChoice], PlanView] = plan_view) -> None:
        self._work = work
        self._changed = threading.Condition()
        self._done: dict[PlanChoice, PlanView] = {}
        self._next: PlanChoice | None = None
        self._busy = False

    def look(self, choice: PlanChoice, patience: float) -> PlanView | None:
        """Return a plan; None if it is not ready within ``patience`` seconds; it is then computed in the background."""
        with self._changed:
            if choice not in self._done:
                self._next = choice
                if not self._busy:
                    self._busy = True
                    threading.Thread(target=self._go_on, daemon=True, name="planner").start()
                self._changed.wait_for(lambda: choice in self._done, patience)
            return self._done.get(choice)

    def _go_on(self) -> None:
        while True:
            with self._changed:
                choice, self._next = self._next, None
                if choice is None:
                    self._busy = False
                    return
            try:
                view = self._done.get(choice) or self._work(choice)
            except BaseException as error:  # noqa: BLE001 - the waiting page shows it; the thread must not stop
                view = _refused(f"a fault of the planner: {error!r}")
            with self._changed:
                while len(self._done) >= MAX_KEPT:
                    del self._done[next(iter(self._done))]
                self._done[choice] = view
                self._changed.notify_all()


def _default_numbers(scenario: str) -> dict[str, str]:
    tree, values = loading.load(scenario).wire(), {}
    for field in FIELDS:
        value: Any = tree
        for part in field.key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            values[field.key] = f"{value:g}" if isinstance(value, float) else str(value)
    return values


def _paper_and_tight(row: Mapping[str, Any]) -> tuple[str, str]:
    return figure(row["paper"]), figure(row["tight"])


PATIENCE = 1.5  # seconds that the page waits for its plan before it is shown without it


def add_plans(app: Service, planner: Planner) -> None:
    """Add the page of plans to the service."""

    def plan_values(request: Request) -> dict[str, Any]:
        choice = PlanChoice.from_query(request.query_params)
        query = urlencode({"scenario": choice.scenario, **dict(choice.numbers)})
        return {"wanted": choice, "plan": planner.look(choice, PATIENCE), "query": query}

    @app.get("/plan")
    def plan(request: Request) -> Response:
        try:
            values, typed, field, status = plan_values(request), {}, "", 200
        except BadScenario as error:  # the form keeps its input, and names the field
            typed = {key: text for key, text in request.query_params.items() if text.strip()}
            name = typed.get("scenario", "")
            choice = PlanChoice(name if name in scenarios.names() else "ball", ())
            values = {"wanted": choice, "plan": _refused(error.detail), "query": ""}
            field, status = str(error.members.get("key", "scenario")), 422
        heading = scenarios.heading(values["wanted"].scenario)
        more = {"names": scenarios.names(), "title": heading.title, "fields": form(values["wanted"], typed)}
        return HTMLResponse(page("plan.html", here="plan", wrong=field, **values, **more), status)

    @app.get("/plan/part")
    def part(request: Request) -> Response:
        try:
            values = plan_values(request)
        except BadScenario as error:  # the user is still typing: the form stays, and shows the error
            values = {"wanted": None, "plan": _refused(error.detail)}
        return HTMLResponse(page("plan_part.html", **values))
