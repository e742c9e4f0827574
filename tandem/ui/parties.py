"""What each party sees of a run, step by step, in words for somebody who is new to the hybrid model.

Everything is read from the transcript: who sent which message, what left a party, what it kept, and what anybody could
learn about a person from it. A step is one message, or the questions (the answers) about one query, which a
sequential test asks in several batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from common.core import canonical
from common.core.errors import BadData, TandemError
from common.core.plain import plain
from common.local.mechanisms.warner import Warner
from common.log.transcript import AnyEntry
from common.net.messages import Configuration
from common.scenario.resolved import parse_resolved
from deploy.catalogue import explained
from referee.view.run_view import PROMISED, SIMULATED
from referee.view.wording import promise

_SAMPLE = "the records of its people, exactly as they were"


class PartyStep(NamedTuple):
    """A party in one step: what it does, what leaves it, and what it keeps; empty where there is nothing."""

    does: str
    leaves: str = ""
    keeps: str = ""


_IDLE_AGENT = PartyStep("It has no part in this.", keeps="its record")


@dataclass(frozen=True)
class RunStep:
    """One step of a run.

    Attributes:
        way: From whom to whom.
        parties: The curator, the referee, and each agent.
        learned: What could be learned from it about a person, and by whom.
        entries: The transcript's entries of the step.
    """

    title: str
    way: str
    parties: tuple[PartyStep, PartyStep, PartyStep]
    learned: str
    entries: tuple[int, ...]


@dataclass(frozen=True)
class Story:
    """All steps of a run, and what a reader must know before believing a promise in them (empty if nothing)."""

    steps: tuple[RunStep, ...]
    notice: str


def story(entries: Sequence[AnyEntry]) -> Story:
    """Return what each party sees of a run; ``BadData`` if the entries are none that an honest referee writes."""
    try:
        telling = _Telling(entries)
        return Story(tuple(telling.steps()), telling.notice)
    except (TandemError, LookupError, TypeError, ValueError, AttributeError) as error:
        sentence = error.detail if isinstance(error, TandemError) else repr(error)
        raise BadData(f"the transcript is not one that an honest referee writes ({sentence}); verify it") from None


class _Telling:
    def __init__(self, entries: Sequence[AnyEntry]) -> None:
        self._entries = entries
        self._scenario = parse_resolved(Configuration.parse(entries[0].body["configuration"]).scenario)
        self._operations = explained("operations")
        self._queries = explained("queries")
        self._promise = ""
        self.notice = f"People are {SIMULATED}." if self._scenario.people == "simulated" else ""

    def steps(self) -> Iterator[RunStep]:
        tell = {
            "configuration": self._configuration,
            "terms": self._terms,
            "operation": self._operation,
            "result": self._result,
        }
        query = ""
        for asking, found in groupby(self._entries, lambda entry: entry.kind in ("question", "answers")):
            if not asking:
                yield from (tell[entry.kind](entry) for entry in found if entry.kind != "beacon")
                continue
            batches: dict[str, list[AnyEntry]] = {}
            for entry in found:
                if entry.kind == "question":
                    query = canonical.encode(entry.body["query"]).decode()
                batches.setdefault(query, []).append(entry)
            for each in batches.values():
                yield self._question([entry for entry in each if entry.kind == "question"])
                if answers := [entry for entry in each if entry.kind == "answers"]:
                    yield self._answers(answers)

    def _configuration(self, entry: AnyEntry) -> RunStep:
        agents = int(entry.body["participants"]["agents"])
        return RunStep(
            "The rules of the run",
            "from the referee to the curator and, with each question, to the agents",
            (
                PartyStep("It reads the rules and checks them against its own: people, budget, noise.", "", _SAMPLE),
                PartyStep(
                    f"It has the scenario and {agents:,} enrolled agents. It draws the random order in which agents "
                    "will be asked, and publishes a commitment to it: it cannot choose agents by their answers later.",
                    "the scenario, its key, and the commitment to the order",
                    "the seed of the order, until the run ends",
                ),
                PartyStep("It is enrolled, and waits. It has sent nothing but its enrolment.", "", "its record"),
            ),
            "Nothing about any person: no record was touched. That a person takes part is public.",
            (entry.index,),
        )

    def _terms(self, entry: AnyEntry) -> RunStep:
        message = entry.body["terms"]["message"]
        sentence = promise(PROMISED["curator"], message["guarantee"])
        self._promise = sentence.plain
        return RunStep(
            "The curator's terms",
            "from the curator to the referee",
            (
                PartyStep(
                    f"It agrees: it has {int(message['n']):,} people, and promises each of them {sentence.formula} for "
                    "all that it will release in this run, for any operations. The charge is in its ledger already.",
                    "the number of its people, its promise, and the head of its ledger",
                    _SAMPLE,
                ),
                PartyStep("It stores the signed terms, and holds the curator to them."),
                _IDLE_AGENT,
            ),
            f"Of the curator's people only their number, which is public. What the promise means: {sentence.plain}",
            (entry.index,),
        )

    def _operation(self, entry: AnyEntry) -> RunStep:
        request, release = (entry.body[name]["message"] for name in ("request", "release"))
        kind, event = str(request["operation"]["kind"]), release["result"]["event"]
        asked = self._operations.get(kind, kind)
        result = {name: value for name, value in release["result"].items() if name != "event"}
        silent = event["kind"] == "none"
        released = "that the operation is done, and nothing else" if silent else f"the result: {_named(result)}"
        keeps = f"{_SAMPLE}; its weights of them" + ("" if silent else "; the randomness of its noise")
        learned = (
            "Nothing about any person: what the curator answers would be the same for all records."
            if silent
            else f"What is in the result, with noise that hides each person. {self._promise}"
        )
        if event["kind"] == "non-private":
            learned = "Perhaps much: this operation is declared as not private."
        return RunStep(
            f"The curator's work: {kind}",
            "from the referee to the curator, and back",
            (
                PartyStep(
                    f'The request: "{asked}" It checks it against its rules and budget, writes the charge down, runs, '
                    "stores the result, and only then releases it.",
                    released,
                    keeps,
                ),
                PartyStep("It asks, verifies the signed release, and writes both down.", "the request"),
                _IDLE_AGENT,
            ),
            learned,
            (entry.index,),
        )

    def _question(self, entries: Sequence[AnyEntry]) -> RunStep:
        asked = sum(int(stop) - int(start) for entry in entries for _, start, stop in entry.body["parts"])
        kind = str(entries[0].body["query"]["kind"])
        batches = "" if len(entries) == 1 else f", in {len(entries)} batches, until the test could tell"
        return RunStep(
            f"A question to {asked:,} agents",
            "from the referee to the agents",
            (
                PartyStep("It has no part in this, and cannot reach an agent.", "", _SAMPLE),
                PartyStep(
                    f"It asks the next {asked:,} agents of the committed order{batches}.",
                    f"the question: {self._queries.get(kind, kind)}",
                ),
                PartyStep(
                    "It checks the question before it touches its record: is it the pinned referee's, of a kind that "
                    "it accepts, within its lifetime budget, the only one in this run? A question is data, never code.",
                    "",
                    "its record",
                ),
            ),
            "The agents learn what the question holds, such as the model that the curator released. No party learns "
            "anything about an agent yet.",
            tuple(entry.index for entry in entries),
        )

    def _answers(self, entries: Sequence[AnyEntry]) -> RunStep:
        asked, answered = (sum(int(entry.body[name]) for entry in entries) for name in ("asked", "answered"))
        sentence = promise(PROMISED["agent"], self._scenario.agents.guarantee.wire())
        missing = f" {asked - answered:,} of those asked did not answer." if asked > answered else ""
        return RunStep(
            f"The answers of {answered:,} agents",
            "from the agents to the referee",
            (
                PartyStep("It has no part in this, and never sees an answer.", "", _SAMPLE),
                PartyStep(
                    "It checks each signature, and adds the answers up. Chance in one answer hides a person; in a sum "
                    f"of {answered:,} it can be corrected for, and the referee says how well that is known.{missing}",
                    "",
                    "the signed answers, beside the transcript, which holds their root",
                ),
                PartyStep(
                    f"It works the true value out, and randomizes it on its own device{self._randomized()}. It writes "
                    "down what that cost before it sends it.",
                    "one randomized answer, signed",
                    "its record, the true value, and whether the answer was true",
                ),
            ),
            f"Of one agent, what its promise allows: {sentence.plain} Of all together: the share, with an interval.",
            tuple(entry.index for entry in entries),
        )

    def _result(self, entry: AnyEntry) -> RunStep:
        found = entry.body["result"]
        return RunStep(
            f"The result: {plain(str(found['status']))}",
            "from the referee to everybody",
            (
                PartyStep("Its part has ended; its budget for these people is spent.", "", _SAMPLE),
                PartyStep(
                    f"It ends the run: {plain(str(found['reason']))}. It publishes the seed of its order, so that "
                    "anybody can check which agents it asked, and when.",
                    "the answer, its estimate with an interval, and the seed of the order",
                ),
                PartyStep("If it has answered, it answers no further question in its life.", "", "its record"),
            ),
            "Nothing new: the result follows from what was released before, and an audit works it out again.",
            (entry.index,),
        )

    def _randomized(self) -> str:
        mechanism = self._scenario.agents.mechanism
        if isinstance(mechanism, Warner):
            truth = mechanism.truth
            return f": it tells the truth with probability {truth:.3f}, and the contrary with {1 - truth:.3f}"
        return f" ({mechanism.name}, epsilon = {self._scenario.agents.guarantee.epsilon})"


def _named(result: dict[str, Any]) -> str:
    return ", ".join(
        f"a {name} of kind {value['kind']}" if isinstance(value, dict) and "kind" in value else name
        for name, value in result.items()
    )
