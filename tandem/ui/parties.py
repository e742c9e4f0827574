"""What each party sees of a run, step by step, for somebody who is new to the hybrid model.

Everything is read from the transcript. A step is one message, or the questions (the answers) about one query, which a
sequential test asks in several batches. The words are those of the page, ``templates/parties.html``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from common.core import canonical
from common.core.errors import BadData, TandemError
from common.core.plain import plain
from common.local.mechanisms.mechanism import Warner
from common.log.transcript import AnyEntry
from common.net.messages import Configuration
from common.scenario.scenario import ResolvedScenario, parse_resolved
from deploy.catalogue import explained
from referee.view.run_view import PROMISED, SIMULATED
from referee.view.wording import promise


@dataclass(frozen=True)
class RunStep:
    """One step of a run: from whom to whom it goes, its entries, and what the page says of it with its own words."""

    kind: str
    title: str
    way: str
    entries: tuple[int, ...]
    says: dict[str, Any]


@dataclass(frozen=True)
class Story:
    """All steps of a run, and what a reader must know before believing a promise in them (empty if nothing)."""

    steps: tuple[RunStep, ...]
    notice: str


def story(entries: Sequence[AnyEntry]) -> Story:
    """Return what each party sees of a run; ``BadData`` if the entries are none that an honest referee writes."""
    try:
        scenario = parse_resolved(Configuration.parse(entries[0].body["configuration"]).scenario)
        notice = f"People are {SIMULATED}." if scenario.people == "simulated" else ""
        return Story(tuple(_steps(entries, scenario)), notice)
    except (TandemError, LookupError, TypeError, ValueError, AttributeError) as error:
        sentence = error.detail if isinstance(error, TandemError) else repr(error)
        raise BadData(f"the transcript is not one that an honest referee writes ({sentence}); verify it") from None


def _steps(entries: Sequence[AnyEntry], scenario: ResolvedScenario) -> Iterator[RunStep]:
    query, promised = "", ""
    for asking, found in groupby(entries, lambda entry: entry.kind in ("question", "answers")):
        if not asking:
            for entry in found:
                if entry.kind == "terms":
                    promised = promise(PROMISED["curator"], entry.body["terms"]["message"]["guarantee"]).plain
                if entry.kind != "beacon":
                    yield _STEPS[entry.kind](entry, promised)
            continue
        batches: dict[str, list[AnyEntry]] = {}
        for entry in found:
            if entry.kind == "question":
                query = canonical.encode(entry.body["query"]).decode()
            batches.setdefault(query, []).append(entry)
        for each in batches.values():
            yield _question([entry for entry in each if entry.kind == "question"])
            if answers := [entry for entry in each if entry.kind == "answers"]:
                yield _answers(answers, scenario)


def _configuration(entry: AnyEntry, promised: str) -> RunStep:
    way = "from the referee to the curator and, with each question, to the agents"
    agents = int(entry.body["participants"]["agents"])
    return RunStep(entry.kind, "The rules of the run", way, (entry.index,), {"agents": agents})


def _terms(entry: AnyEntry, promised: str) -> RunStep:
    message = entry.body["terms"]["message"]
    formula = promise(PROMISED["curator"], message["guarantee"]).formula
    says = {"people": int(message["n"]), "formula": formula, "promise": promised}
    return RunStep(entry.kind, "The curator's terms", "from the curator to the referee", (entry.index,), says)


def _operation(entry: AnyEntry, promised: str) -> RunStep:
    request, release = (entry.body[name]["message"] for name in ("request", "release"))
    kind, cost = str(request["operation"]["kind"]), release["result"]["event"]["kind"]
    released = [
        f"a {name} of kind {value['kind']}" if isinstance(value, dict) and "kind" in value else name
        for name, value in release["result"].items()
        if name != "event"
    ]
    says = {"asked": explained("operations").get(kind, kind), "cost": cost, "result": ", ".join(released)}
    says["promise"] = promised
    way = "from the referee to the curator, and back"
    return RunStep(entry.kind, f"The curator's work: {kind}", way, (entry.index,), says)


def _question(entries: Sequence[AnyEntry]) -> RunStep:
    asked = sum(int(stop) - int(start) for entry in entries for _, start, stop in entry.body["parts"])
    kind = str(entries[0].body["query"]["kind"])
    says = {"asked": asked, "batches": len(entries), "query": explained("queries").get(kind, kind)}
    numbers = tuple(entry.index for entry in entries)
    return RunStep("question", f"A question to {asked:,} agents", "from the referee to the agents", numbers, says)


def _answers(entries: Sequence[AnyEntry], scenario: ResolvedScenario) -> RunStep:
    asked, answered = (sum(int(entry.body[name]) for entry in entries) for name in ("asked", "answered"))
    mechanism, guarantee = scenario.agents.mechanism, scenario.agents.guarantee
    says = {
        "answered": answered,
        "missing": asked - answered,
        "truth": mechanism.truth if isinstance(mechanism, Warner) else None,
        "mechanism": mechanism.name,
        "epsilon": guarantee.epsilon,
        "promise": promise(PROMISED["agent"], guarantee.wire()).plain,
    }
    numbers = tuple(entry.index for entry in entries)
    return RunStep("answers", f"The answers of {answered:,} agents", "from the agents to the referee", numbers, says)


def _result(entry: AnyEntry, promised: str) -> RunStep:
    found = entry.body["result"]
    title, says = f"The result: {plain(str(found['status']))}", {"reason": plain(str(found["reason"]))}
    return RunStep(entry.kind, title, "from the referee to everybody", (entry.index,), says)


_STEPS = {"configuration": _configuration, "terms": _terms, "operation": _operation, "result": _result}
