"""Model-agnostic private learning: the curator labels public points and transfers what they tell, the agents test."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from common.core.errors import BadScenario, PeerMisbehaved
from common.scenario.scenario import Scenario
from common.vocabulary.operations import Label
from common.vocabulary.queries.loss import LossQuery
from common.vocabulary.steps import AskCurator, Progress
from referee.protocols.asking import at_once, estimate_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, learned
from referee.protocols.examples import small_ball
from referee.protocols.patterns import agents, curator, sequence


@PROTOCOLS.register("model-agnostic")
class ModelAgnosticProtocol(Protocol):
    """Algorithms 2 and 3 of Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (2018), and a test.

    The curator's teachers label all public points, privately, and its student learns from the labels. What the student
    is worth for the population is then a question to fresh agents: the estimate is of one hypothesis, chosen before any
    of them answered. ``exhausted`` if fewer agents than ``agents.count`` were there to be asked.
    """

    title = "Model-agnostic private learning"
    pattern = sequence(curator("label"), agents("loss"))

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return a small scenario about a ball."""
        learner = {
            "name": "model-agnostic",
            "protects": "labels",
            "chunks": 60,
            "teacher": {"classifier": "RidgeClassifier"},
            "student": {"classifier": "RidgeClassifier"},
            "aggregation": {"name": "gnmax", "noise": 10.0},
            "queries": 4,
        }
        return (small_ball("protocol=model-agnostic", f"curator.learner={json.dumps(learner)}"),)

    def script(self, scenario: Scenario, public: int) -> Script:
        """Have all points labelled, transfer, then estimate the loss on T."""
        queries = scenario.curator.settings.get("queries")
        if type(queries) is not int:
            raise BadScenario("model-agnostic needs the learner of that name, and its number of queries")
        release = yield AskCurator(Label(count=queries, transfer=True))
        labels, hypothesis = said(release, queries, _labels(scenario)), learned(release)
        told = sum(label is not None for label in labels)
        yield Progress("labelled", {"points": queries, "answered": told, "unanswered": queries - told})
        wanted = at_once(int(scenario.agents.count))
        loss = LossQuery(hypothesis=hypothesis, loss=scenario.agents.loss)
        found = yield from estimate_mean(loss, scenario, wanted, 1)
        yield Progress("tested", {"round": 1, "rounds": 1, "asked": found.asked, **found.estimate.wire()})
        words = f"{told:,} of {queries:,} public points were labelled, {found.asked:,} agents tested the student"
        if release.get("protects") == "labels":
            words += "; the curator protects labels only"
        return Outcome("done" if found.asked == wanted else "exhausted", 1, hypothesis, found.estimate, words)


def _labels(scenario: Scenario) -> Collection[int]:
    """Return what can be said of a point: a label, or the number of a class."""
    classes = scenario.curator.settings.get("classes")
    return range(classes["count"]) if isinstance(classes, dict) and type(classes.get("count")) is int else (-1, 1)


def said(release: dict[str, Any], count: int, known: Collection[int] = (-1, 1)) -> list[int | None]:
    """Return the labels in the curator's reply: each one of those that are known, or None where none is said.

    Raises
    ------
    PeerMisbehaved
        If there are not so many, or others.
    """
    labels = release.get("labels")
    if not isinstance(labels, list) or len(labels) != count:
        raise PeerMisbehaved(f"the curator released no {count} labels")
    if any(label is not None and (type(label) is not int or label not in known) for label in labels):
        raise PeerMisbehaved(f"the curator released labels other than null and the {len(known)} that are known")
    return labels
