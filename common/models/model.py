"""A usable model: what was released, and the public description of the table that it is about.

Everything in it is public already: the answer of a run, whose privacy was paid for, and the scenario. So whatever is
computed from it and from somebody's own rows is post-processing, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from common.core.errors import BadInput, BadMessage
from common.core.values import Value
from common.data.population import PopulationSpec
from common.data.schema import Schema
from common.data.tables import Label
from common.local.hypotheses.hypothesis import AnyHypothesis, Hypothesis, parse_hypothesis
from common.privacy.guarantee import PrivacyGuarantee
from common.scenario.scenario import Scenario
from common.statistics.intervals import Estimate


class Model(Value):
    """A hypothesis over the columns of a table.

    Attributes:
        scenario, title: What it was learned in.
        table: How columns become features, and which column is the label.
        hypothesis: What was released.
        classes: What the negative and the positive label are called.
        loss: The surrogate loss that was minimised, where the learner's settings name one: the probabilities of a model
            are those of logistic regression only where it is ``logistic``.
        estimate: What the agents' answers say about it, if they were asked.
        privacy: What the run promised: to each person of the curator, to each agent.
    """

    format: Literal["tandem-model"] = "tandem-model"
    version: Literal[1] = 1
    scenario: str = Field(max_length=64)
    title: str = ""
    table: Schema
    hypothesis: AnyHypothesis
    classes: tuple[str, str]
    loss: str | None = Field(default=None, max_length=64)
    estimate: Estimate | None = None
    privacy: dict[str, PrivacyGuarantee] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.hypothesis.min_features > self.table.dimension:
            raise ValueError(
                f"the hypothesis needs {self.hypothesis.min_features} features, the table has {self.table.dimension}"
            )
        if self.classes[0] == self.classes[1]:
            raise ValueError("the two classes must have different names")
        return self

    @property
    def inputs(self) -> frozenset[int]:
        """The features that a prediction needs: all where rows are shortened, since each has a part in the length.

        Raises:
            BadInput: If rows are shortened together with what is to be predicted: of a new row that is unknown.
        """
        looked_at = self.hypothesis.inputs
        if not self.table.shortens:
            return frozenset(looked_at or (0,))  # of a constant, only how many rows there are
        if self.hypothesis.min_features > max(looked_at, default=-1) + 1:
            raise BadInput(
                f"the table's norm = {self.table.norm:g} shortens rows together with the column that is predicted, "
                f"which a new row does not have: describe the table without norm"
            )
        return frozenset(range(self.table.dimension))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that a row must have, in the order of the features."""
        needed = self.inputs
        first, names = 0, []
        for feature in self.table.features:
            if not needed.isdisjoint(range(first, first + feature.width)):
                names.append(feature.column)
            first += feature.width
        return tuple(dict.fromkeys(names))


def label_classes(label: Label | None) -> tuple[str, str]:
    """Return what a table calls its negative and its positive label: the first text of each, or the side of a bound."""
    if label is None:
        return "-1", "+1"
    if label.above is not None:
        return f"at most {label.above:g}", f"above {label.above:g}"
    return label.negative[0], label.positive[0]


def released(scenario: Scenario, result: Mapping[str, Any], task: int | None = None) -> Model:
    """Return the model that a run ended with.

    Args:
        result: The run's result document.
        task: Of a run that learned several things, which one, from 1; None: its answer, that of the last.

    Raises:
        BadInput: If there is no answer, it is no hypothesis, or the people are simulated, so that there are no columns.
    """
    ended = result if task is None else _task(result, task)
    hypothesis = _hypothesis(scenario, ended)
    table = _table(scenario.target) or _table(scenario.source)
    if table is None:
        raise BadInput(
            f"the people of scenario {scenario.name!r} are simulated: there are no columns to predict from (a run's "
            f"hypothesis predicts from features)"
        )
    estimate, found = ended.get("estimate"), result.get("privacy")
    privacy: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    try:
        return Model(
            scenario=scenario.name,
            title=scenario.title,
            table=table,
            hypothesis=hypothesis,
            classes=label_classes(table.label),
            loss=None if scenario.curator.learner is None else scenario.curator.learner.surrogate_loss,
            estimate=None if estimate is None else Estimate.parse(estimate),
            privacy={who: PrivacyGuarantee.parse(privacy[who]) for who in ("curator", "agent") if who in privacy},
        )
    except ValueError as error:
        raise BadInput(f"the answer does not fit the scenario's table: {error}") from None


def _task(result: Mapping[str, Any], task: int) -> Mapping[str, Any]:
    tasks = result.get("tasks")
    tasks = tasks if isinstance(tasks, list) else []
    if not 1 <= task <= len(tasks):
        raise BadInput(f"the run learned {len(tasks) or 'one thing and no'} tasks, found task {task}")
    found = tasks[task - 1]
    if not isinstance(found, Mapping):
        raise BadInput(f"the result of task {task} is damaged: it must be a mapping")
    return found


def _hypothesis(scenario: Scenario, ended: Mapping[str, Any]) -> Hypothesis:
    answer = ended.get("answer")
    if answer is None:
        raise BadInput(f"the run of scenario {scenario.name!r} ended without an answer: {ended.get('reason', '')}")
    try:
        return parse_hypothesis(answer)
    except BadMessage as error:
        if scenario.problem is None:
            raise BadInput(f"the run's answer cannot be used: {error.detail}") from None
        raise BadInput(
            f"the answer of scenario {scenario.name!r} is no model: it solves the problem {scenario.problem.name!r}, "
            f"and there is nothing to predict"
        ) from None


def _table(people: PopulationSpec) -> Schema | None:
    table = people.table
    if table is None:
        return None
    return Schema(features=table.features, label=table.label, norm=table.norm, layout=table.layout)
