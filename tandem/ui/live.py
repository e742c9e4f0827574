"""Pages about the runs of a running referee, with the progress of their tests; its answers are kept in memory."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from common.core.errors import BadData, NotFound, PeerMisbehaved, TandemError, Unauthorized
from common.core.values import RUN
from common.crypto.identity import Signed
from common.net.app import Service
from common.net.messages import Terms
from common.net.pages import Rules, tagged
from common.privacy.guarantee import PrivacyGuarantee
from common.scenario.scenario import ResolvedScenario, parse_resolved
from deploy.remote import OperatorClient
from referee.runs.results import promises, rounds_of
from referee.runs.verdict import ENDED
from referee.view.show import in_time
from referee.view.wording import RunView, lost, run_view, view_so_far
from tandem.ui.pages import fields_of, page

RunName = Annotated[str, Path(pattern=RUN)]
ROUNDS_SHOWN = 12  # newest rounds in the table of an unfinished run; its chart has all of them


def referee_values(referee: RefereeWatch) -> dict[str, Any]:
    """Return the values for the list of a referee's runs."""
    runs, problem = referee.runs()
    return {"referee": referee.url, "runs": runs, "problem": problem}


def add_live(app: Service, referee: RefereeWatch, rules: Rules) -> None:
    """Add the pages about a running referee to the service."""

    def run_values(run: str) -> dict[str, Any]:
        state = referee.look(run)
        view = state.view()
        status = ENDED.get(state.status, state.status)
        verdict = "" if view is None else f" {view.verdict.text}"
        return {
            "run": state,
            "view": view,
            "tests": state.tests,
            "left": state.time_left(referee.now()),
            "announcement": "The referee does not answer." if state.problem else f"{status}.{verdict}",
            "referee": referee.url,
            "most": ROUNDS_SHOWN,
            "token": rules.form_token,
        }

    @app.get("/referee-runs")
    def runs(request: Request) -> Response:
        return tagged(request, page("live_runs.html", **referee_values(referee)))

    @app.get("/referee/{run}")
    def one(run: RunName) -> Response:
        return HTMLResponse(page("live.html", here="runs", **run_values(run)))

    @app.get("/referee/{run}/part")
    def part(request: Request, run: RunName) -> Response:
        return tagged(request, page("live_part.html", **run_values(run)))

    @app.post("/referee/{run}/cancel")
    async def cancel(request: Request, run: RunName) -> Response:
        await fields_of(request, rules)
        await run_in_threadpool(referee.cancel, run)
        return RedirectResponse(f"/referee/{run}", 303)


Numbers = Mapping[str, float]
_PLAIN = 20.0  # log-evidence beyond which an e-value is shown as a power of ten


def shown_tests(scenario: ResolvedScenario, rounds: Sequence[Numbers], now: Numbers | None) -> list[dict[str, Any]]:
    """Return the tests of a run in order, of ended rounds and of the current one; only tests that may stop early.

    Each has ``sides`` ("below" first, then "above"), the e-value that decides (``needed``), the ``most`` answers after
    which it has decided, and a ``verdict``: "not yet" or "undecided" (the agents ran out) if there is no decision.
    """
    low, high = scenario.levels
    under_test = [(f"round {numbers['round']:.0f}", numbers, "undecided") for numbers in rounds if "round" in numbers]
    under_test += [] if now is None else [("round under way", now, "not yet")]
    tests = []
    for name, numbers, none in under_test:
        if "tested_needed" not in numbers or not all(map(math.isfinite, numbers.values())):
            continue
        needed, below, above = (numbers.get(f"tested_{key}", 0.0) for key in ("needed", "below", "above"))
        sides = [_side(f"below {high:g}", below, needed), _side(f"above {low:g}", above, needed)]
        tests.append(
            {
                "name": name,
                "sides": sides,
                "needed": e_value(needed),
                "low": f"{low:g}",
                "high": f"{high:g}",
                "answers": int(numbers.get("tested_answers", 0)),
                "most": int(numbers.get("tested_worst_case", 0)),
                "asked": int(numbers.get("asked", 0)),
                "verdict": next((side["words"] for side in sides if side["share"] >= 1.0), none),
            }
        )
    return tests


def _side(words: str, log_value: float, needed: float) -> dict[str, Any]:
    """Return the evidence for a verdict: its e-value, and the log of that as a share of the log of the needed one."""
    share = min(1.0, max(0.0, log_value / needed if needed > 0.0 else 0.0))
    # The percentage is rounded down, so that it is 100% only if the level is reached.
    return {"words": words, "value": e_value(log_value), "share": share, "percent": f"{math.floor(100.0 * share)}%"}


def e_value(log_value: float) -> str:
    """Format exp(``log_value``) with three digits, or as a power of ten if it is very large or small."""
    if abs(log_value) <= _PLAIN:
        return f"{math.exp(log_value):,.0f}" if log_value > math.log(1e3) else f"{math.exp(log_value):.3g}"
    return f"10^{log_value / math.log(10.0):.1f}"


FRESH = 0.5  # seconds for which an answer of the referee is reused for further pages


@dataclass
class WatchedRun:
    """A run as its referee last described it.

    Attributes:
        notes: The numbers of its progress notes, and when each was received (seconds of a monotonic clock).
        problem: Why the last request to the referee failed; empty if it succeeded.
        asked_at: Time of the last request, by the monotonic clock.
    """

    run: str
    status: str = ""
    waits_for: str = ""
    text: str = ""
    agents: dict[str, int] = field(default_factory=dict)
    declined: dict[str, int] = field(default_factory=dict)
    notes: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    test: dict[str, float] | None = None
    result: dict[str, Any] | None = None
    scenario: ResolvedScenario | None = None
    promised: dict[str, PrivacyGuarantee] = field(default_factory=dict)
    problem: str = ""
    asked_at: float = -math.inf

    @property
    def ended(self) -> bool:
        return self.result is not None

    @property
    def left_out(self) -> list[str]:
        """Sentences on how many agents declined, and why, and how many have not answered."""
        if self.result is not None:
            return lost(self.result)
        silent = self.agents.get("asked", 0) - self.agents.get("answered", 0) - sum(self.declined.values())
        sentences = lost({"lost": {"silent": 0, "declined": self.declined}})
        return [*sentences, f"{silent:,} have not answered (yet)"] if silent > 0 else sentences

    def view(self) -> RunView | None:
        """Return the view of the run; None before it has begun."""
        if self.scenario is None or not self.agents:
            return None
        if self.result is not None:
            return run_view(self.scenario, self.result, self.result.get("rounds", []))
        rounds = rounds_of(numbers for _, numbers in self.notes)
        return view_so_far(self.scenario, rounds, self.agents, self.promised, self.status)

    @property
    def tests(self) -> list[dict[str, Any]]:
        """The state of the rounds' tests, newest last; for ended rounds the final state."""
        ended = [numbers for _, numbers in self.notes]
        return [] if self.scenario is None else shown_tests(self.scenario, ended, None if self.ended else self.test)

    def time_left(self, now: float) -> str:
        """Return the time that the rest takes at most, as text, by the pace of the rounds seen so far."""
        rounds = [(when, numbers) for when, numbers in self.notes if "round" in numbers and "rounds" in numbers]
        if self.ended or len(rounds) < 2:
            return ""
        (first, first_numbers), (last, last_numbers) = rounds[0], rounds[-1]
        count = last_numbers["round"] - first_numbers["round"]
        if count <= 0 or last <= first:
            return ""
        pace = (last - first) / count
        left = max(0.0, (last_numbers["rounds"] - last_numbers["round"]) * pace - (now - last))
        return f"about {in_time(pace)} a round; {in_time(left)} more if all rounds are needed"


class RefereeWatch:
    """Requests the runs of one referee, and keeps its answers; ``clock`` is a monotonic clock in seconds."""

    def __init__(self, client: OperatorClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self.now = clock
        self._lock = threading.Lock()
        self._runs: dict[str, WatchedRun] = {}
        self._lines: list[dict[str, Any]] = []
        self._listed_at, self._problem = -math.inf, ""

    @property
    def url(self) -> str:
        return self._client.url

    def runs(self) -> tuple[list[dict[str, Any]], str]:
        """Return all runs, unfinished ones first, then newest first; and why the referee is unavailable, if it is."""
        with self._lock:
            if self.now() - self._listed_at >= FRESH:
                try:
                    self._lines, self._problem = self._client.runs(), ""
                except TandemError as error:
                    self._problem = _why(error)
                self._listed_at = self.now()
            newest = list(reversed(self._lines))
            return sorted(newest, key=lambda line: line["status"] in ENDED), self._problem

    def look(self, run: str) -> WatchedRun:
        """Return the state of a run, or the last known one if the referee is unavailable; ``NotFound`` if unknown."""
        with self._lock:
            watched = self._runs.get(run) or WatchedRun(run)
            if not watched.ended and self.now() - watched.asked_at >= FRESH:
                try:
                    self._ask(watched)
                    watched.problem = ""
                except NotFound:
                    raise
                except TandemError as error:
                    watched.problem = _why(error)
                watched.asked_at = self.now()
            self._runs[run] = watched
            return watched

    def cancel(self, run: str) -> None:
        self._client.ask_to_cancel(run)
        with self._lock:
            self._runs.pop(run, None)
            self._listed_at = -math.inf

    def _ask(self, watched: WatchedRun) -> None:
        if watched.scenario is None:
            self._load_terms(watched)
        # A restarted referee lists its rounds anew, perhaps at other positions.
        first = 0 if watched.problem else len(watched.notes)
        state = self._client.state(watched.run, first)
        referee_values = self._client.standing(watched.run)
        try:
            sentences = [
                (str(note["text"]), {k: float(v) for k, v in note["numbers"].items()}) for note in state["progress"]
            ]
            result = state["result"]
            watched.status, watched.waits_for = str(state["status"]), str(referee_values["waits_for"])
            watched.agents = {name: int(referee_values[name]) for name in ("enrolled", "asked", "answered")}
            test = referee_values.get("test")
            watched.test = None if test is None else {str(name): float(value) for name, value in test.items()}
            watched.declined = {str(reason): int(count) for reason, count in referee_values["declined"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise PeerMisbehaved(f"what {self.url} says of run {watched.run!r} is not the state of a run") from None
        now, times = self.now(), {numbers.get("round"): when for when, numbers in watched.notes}
        timed = [(times.get(numbers["round"], now) if "round" in numbers else now, numbers) for _, numbers in sentences]
        watched.notes = watched.notes[:first] + timed
        watched.text = sentences[-1][0] if sentences else watched.text
        if result is not None and watched.scenario is None:
            self._load_terms(watched)
        watched.result = result

    def _load_terms(self, watched: WatchedRun) -> None:
        try:
            configuration = self._client.configuration(watched.run)
        except NotFound:
            return
        second = self._client.entries(watched.run, 1, 1)
        if second:  # the terms, or a result if the curator did not agree
            signed = [Signed.parse(entry.body["terms"]) for entry in second if entry.kind == "terms"]
            watched.scenario = parse_resolved(configuration.scenario)
            watched.promised = promises(watched.scenario, Terms.parse(signed[0].message) if signed else None)


def _why(error: TandemError) -> str:
    if isinstance(error, Unauthorized):
        return "the referee does not take the operator's token: start `tandem ui` with its TANDEM_OPERATOR_TOKEN"
    if isinstance(error, BadData):
        return f"what the referee says cannot be shown: {error.detail}"
    return error.detail
