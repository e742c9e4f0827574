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
class WantedPlan:
    """What to plan: a shipped scenario, and the numbers from the form."""

    scenario: str
    numbers: tuple[tuple[str, str], ...]

    @property
    def options(self) -> tuple[str, ...]:
        """The options of ``referee plan`` that give the same numbers."""
        return tuple(word for key, text in self.numbers for word in ("--set", f"{key}={text}"))

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Parse a query; numbers that it does not have stay those of the scenario. ``BadScenario`` for a wrong one."""
        name = query.get("scenario", "ball")
        if name not in scenarios.names():
            raise BadScenario(f"there is no shipped scenario {name!r}")
        given = {field.key: text for field in FIELDS if (text := query.get(field.key, "").strip())}
        for field in FIELDS:
            if _NUMBER.fullmatch(given.get(field.key, "0")) is None:
                what = "a number, or plan" if field.open else "a number, such as 0.5"
                raise BadScenario(f"'{field.name}' must be {what}, found {given[field.key]!r}", key=field.key)
        own = _own(name)
        return cls(name, tuple((key, text) for key, text in given.items() if text != own.get(key, "None")))


@dataclass(frozen=True)
class Planned:
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


def form(wanted: WantedPlan, typed: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the fields that the scenario has: ``field``, ``value``, and the position of the ``slider`` in [0, 1].

    ``typed`` is the user's input, even if it is wrong.
    """
    own, given, found = _own(wanted.scenario), {**dict(wanted.numbers), **(typed or {})}, []
    for field in FIELDS:
        if field.key in own:
            value = given.get(field.key, own[field.key])
            try:
                slider = math.log(float(value) / field.low) / math.log(field.high / field.low)
            except ValueError:
                slider = 0.5
            found.append({"field": field, "value": value, "slider": min(1.0, max(0.0, slider))})
    return found


def planned(wanted: WantedPlan) -> Planned:
    """Return the plan; if the scenario cannot be planned, return the reason in the same form."""
    try:
        chosen = loading.load(wanted.scenario, [f"{key}={text}" for key, text in wanted.numbers])
        refused = refusal(checked(chosen))
        document = plans(chosen)
    except TandemError as error:
        return _refused(error.detail)
    advice = document["advice"] or {"warnings": [], "sentences": []}
    warnings = advice["warnings"]
    if refused:
        light: tuple[Tone, str, Any] = ("bad", "A run of it is refused", [refused.detail, *warnings])
    elif warnings:
        light = ("bad", "One of the two sides cannot help", warnings)
    elif document["violations"]:
        light = ("open", f"It runs, and violates a bound of its choice ({chosen.bounds})", document["violations"])
    else:
        light = ("good", f"It keeps every bound of its choice ({chosen.bounds})", ())
    rows = {row["name"]: row for row in document["rows"]}
    people = {"n": "People of the curator", "agents": "Agents at most"}
    return Planned(
        light[0],
        light[1],
        tuple(plain(reason) for reason in light[2]),
        tuple((words, *_both(rows[name])) for name, words in people.items() if name in rows),
        tuple(plain(sentence) for sentence in dict.fromkeys([document["forecast"], *advice["sentences"]]) if sentence),
        tuple((MEANINGS.get(name, name), *_both(row), row["tight_source"]) for name, row in rows.items()),
        tuple(f"{PROMISED[who]}: {PrivacyGuarantee.parse(found)}" for who, found in document["privacy"].items()),
    )


def _refused(why: str) -> Planned:
    return Planned("bad", "This cannot be planned", (plain(why),))


class Planner:
    """Computes plans one after the other, and caches the last ones."""

    def __init__(self, work: Callable[[WantedPlan], Planned] = planned) -> None:
        self._work = work
        self._changed = threading.Condition()
        self._done: dict[WantedPlan, Planned] = {}
        self._next: WantedPlan | None = None
        self._busy = False

    def look(self, wanted: WantedPlan, patience: float) -> Planned | None:
        """Return a plan; None if it is not ready within ``patience`` seconds; it is then computed in the background."""
        with self._changed:
            if wanted not in self._done:
                self._next = wanted
                if not self._busy:
                    self._busy = True
                    threading.Thread(target=self._go_on, daemon=True, name="planner").start()
                self._changed.wait_for(lambda: wanted in self._done, patience)
            return self._done.get(wanted)

    def _go_on(self) -> None:
        while True:
            with self._changed:
                wanted, self._next = self._next, None
                if wanted is None:
                    self._busy = False
                    return
            try:
                found = self._done.get(wanted) or self._work(wanted)
            except BaseException as error:  # noqa: BLE001 - the waiting page shows it; the thread must not stop
                found = _refused(f"a fault of the planner: {error!r}")
            with self._changed:
                while len(self._done) >= MAX_KEPT:
                    del self._done[next(iter(self._done))]
                self._done[wanted] = found
                self._changed.notify_all()


def _own(scenario: str) -> dict[str, str]:
    tree, found = loading.load(scenario).wire(), {}
    for field in FIELDS:
        value: Any = tree
        for part in field.key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            found[field.key] = f"{value:g}" if isinstance(value, float) else str(value)
    return found


def _both(row: Mapping[str, Any]) -> tuple[str, str]:
    return figure(row["paper"]), figure(row["tight"])


PATIENCE = 1.5  # seconds that the page waits for its plan before it is shown without it


def add_plans(app: Service, planner: Planner) -> None:
    """Add the page of plans to the service."""

    def shown(request: Request) -> dict[str, Any]:
        wanted = WantedPlan.of(request.query_params)
        query = urlencode({"scenario": wanted.scenario, **dict(wanted.numbers)})
        return {"wanted": wanted, "plan": planner.look(wanted, PATIENCE), "query": query}

    @app.get("/plan")
    def plan(request: Request) -> Response:
        try:
            found, typed, wrong, status = shown(request), {}, "", 200
        except BadScenario as error:  # the form keeps its input, and names the field
            typed = {key: text for key, text in request.query_params.items() if text.strip()}
            name = typed.get("scenario", "")
            wanted = WantedPlan(name if name in scenarios.names() else "ball", ())
            found = {"wanted": wanted, "plan": _refused(error.detail), "query": ""}
            wrong, status = str(error.members.get("key", "scenario")), 422
        chosen = scenarios.heading(found["wanted"].scenario)
        more = {"names": scenarios.names(), "title": chosen.title, "fields": form(found["wanted"], typed)}
        return HTMLResponse(page("plan.html", here="plan", wrong=wrong, **found, **more), status)

    @app.get("/plan/part")
    def part(request: Request) -> Response:
        try:
            found = shown(request)
        except BadScenario as error:  # the user is still typing: the form stays, and shows the error
            found = {"wanted": None, "plan": _refused(error.detail)}
        return HTMLResponse(page("plan_part.html", **found))
