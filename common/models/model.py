"""A usable model: a released hypothesis, the public description of its table, and predictions for rows of it.

All of it is already public: the answer of a run, whose privacy cost was charged, and the scenario. So any computation
from it and from a user's own rows is post-processing, and costs no privacy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Floats, Singles
from common.core.errors import BadData, BadInput, BadMessage
from common.core.machine import works_after_fork
from common.core.values import Value
from common.data.examining import Notes
from common.data.loading import encode_piece, rows_of
from common.data.schema import Schema
from common.data.tables import Feature, Label, Number, places
from common.local.hypotheses.composed import Argmax, Relabelled
from common.local.hypotheses.hypothesis import AnyHypothesis, Hypothesis, Regressor, parse_hypothesis
from common.local.hypotheses.rules import Constant
from common.local.losses import Costs
from common.privacy.guarantee import PrivacyGuarantee
from common.scenario.scenario import Scenario
from common.statistics.intervals import Estimate

_MOST = 700.0  # log odds beyond this count as certainty


class Model(Value):
    """A hypothesis over the columns of a table.

    Attributes:
        scenario, title: The scenario of the run that learned it.
        table: How columns become features, and which column is the label.
        hypothesis: The released hypothesis.
        classes: The names of the negative and of the positive label.
        loss: The surrogate loss that was minimised, if the learner's settings name one.
        calibrated: A hypothesis whose margin is the log odds of the positive label in the population, as its agents
            recalibrated the model's score, or whose scores are those of several classes; None if they did not. The
            probabilities come from it, whatever the answer is, since the judging agents may prefer a constant.
        costs: Costs of mistakes by which the answer was judged; None: all mistakes cost the same.
        estimate: The estimate of its loss from the agents' answers, if they were asked.
        privacy: The guarantees of the run: for each person of the curator, and for each agent.
    """

    format: Literal["tandem-model"] = "tandem-model"
    version: Literal[1] = 1
    scenario: str = Field(max_length=64)
    title: str = ""
    table: Schema
    hypothesis: AnyHypothesis
    classes: tuple[str, str]
    loss: str | None = Field(default=None, max_length=64)
    calibrated: AnyHypothesis | None = Field(default=None, exclude_if=lambda calibrated: calibrated is None)
    costs: Costs | None = Field(default=None, exclude_if=lambda costs: costs is None)
    estimate: Estimate | None = None
    privacy: dict[str, PrivacyGuarantee] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for hypothesis in filter(None, (self.hypothesis, self.calibrated)):
            if hypothesis.min_features > self.table.dimension:
                raise ValueError(
                    f"the hypothesis needs {hypothesis.min_features} features, the table has {self.table.dimension}"
                )
        if self.classes[0] == self.classes[1]:
            raise ValueError("the two classes must have different names")
        return self

    @property
    def inputs(self) -> frozenset[int]:
        """The features that a prediction needs: all of them if rows are scaled down, since each affects the length.

        Raises:
            BadInput: If the length depends on the column that is predicted, which is unknown for a new row.
        """
        looked_at = {*self.hypothesis.inputs, *(self.calibrated.inputs if self.calibrated else ())}
        if not self.table.shortens:
            return frozenset(looked_at or (0,))  # a constant needs only the number of rows
        if self.hypothesis.min_features > max(looked_at, default=-1) + 1:
            raise BadInput(
                f"the table's norm = {self.table.norm:g} shortens rows together with the column that is predicted, "
                f"which a new row does not have: describe the table without norm"
            )
        return frozenset(range(self.table.dimension))

    def log_odds(self, features: AnyArray) -> Floats:
        """Return the log odds of the positive label, shape (n,), clipped to [-700, 700].

        Raises:
            BadInput: If no agents recalibrated the model's score, or a number is predicted.
        """
        if isinstance(self.hypothesis, Regressor) and self.calibrated is None:
            raise BadInput(
                f"{self.scenario}: no probabilities: no agents calibrated the model's score: it predicts a number, and "
                "probabilities and costs of mistakes are of labels"
            )
        if self.calibrated is None:
            raise BadInput(
                f"{self.scenario}: no probabilities: no agents calibrated the model's score, whose order alone has a "
                "meaning (a margin, decision_function). A run of protocol portfolio with portfolio.teach above 0 does"
            )
        if isinstance(self.calibrated, Argmax):
            raise BadInput(f"{self.scenario}: odds and costs of mistakes are of two labels, this model has several")
        return np.clip(self.calibrated.margins(features).astype(np.float64), -_MOST, _MOST)

    def probabilities(self, features: AnyArray) -> Floats:
        """Return the probability of the positive label, shape (n,), or those of several classes, shape (n, C).

        Raises as :meth:`log_odds` does if no agents recalibrated the model's score.
        """
        if isinstance(self.calibrated, Argmax):
            return self.calibrated.probabilities(features)
        return np.asarray(1.0 / (1.0 + np.exp(-self.log_odds(features))))

    def probabilities_by_class(self, features: AnyArray) -> Floats:
        """Return the probabilities of all classes, shape (n, C); of two classes, the negative one first."""
        probabilities = self.probabilities(features)
        return probabilities if probabilities.ndim == 2 else np.stack([1.0 - probabilities, probabilities], axis=1)

    def ranks(self, features: AnyArray) -> Floats:
        """Return a score for each of n rows, shape (n,), above 0 where the answer is the positive label.

        It is the answer's margin. If the answer is a constant and there is a calibrated score: the log probability of
        the positive label (never above 0), or for a positive constant minus that of the negative one (never below 0).
        """
        if isinstance(self.hypothesis, Constant) and self.calibrated is not None:
            sign = self.hypothesis.label
            return np.asarray(sign * np.logaddexp(0.0, sign * self.log_odds(features)))
        return self.hypothesis.margins(features).astype(np.float64)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that a row must have, in the order of the features."""
        return tuple(dict.fromkeys(self.table.places[number][0].column for number in sorted(self.inputs)))


def label_classes(label: Label | None) -> tuple[str, str]:
    """Return a table's names of its negative and its positive label: the first text of each, or the side of a bound."""
    if label is None:
        return "-1", "+1"
    if label.above is not None:
        return f"at most {label.above:g}", f"above {label.above:g}"
    return label.negative[0], label.positive[0]


def released(scenario: Scenario, result: Mapping[str, Any], task: int | None = None) -> Model:
    """Return the model that a run ended with.

    Args:
        result: The run's result document.
        task: For a run with several tasks, the number of the task, from 1; None: the run's answer, that of the last.

    Raises:
        BadInput: If there is no answer, it is no hypothesis, or the people are simulated, so that there are no columns.
    """
    outcome = result if task is None else _task(result, task)
    hypothesis = _hypothesis(scenario, outcome)
    source = scenario.target.table or scenario.source.table
    if source is None:
        raise BadInput(
            f"the people of scenario {scenario.name!r} are simulated: there are no columns to predict from (a run's "
            f"hypothesis predicts from features)"
        )
    table = Schema(features=source.features, label=source.label, norm=source.norm, layout=source.layout)
    estimate, guarantees = outcome.get("estimate"), result.get("privacy")
    privacy: Mapping[str, Any] = guarantees if isinstance(guarantees, Mapping) else {}
    try:
        return Model(
            scenario=scenario.name,
            title=scenario.title,
            table=table,
            hypothesis=hypothesis,
            classes=label_classes(table.label),
            loss=None if scenario.curator.learner is None else scenario.curator.learner.surrogate_loss,
            costs=scenario.agents.costs,
            calibrated=None if outcome.get("calibrated") is None else parse_hypothesis(outcome["calibrated"]),
            estimate=None if estimate is None else Estimate.parse(estimate),
            privacy={who: PrivacyGuarantee.parse(privacy[who]) for who in ("curator", "agent") if who in privacy},
        )
    except (BadMessage, ValueError) as error:
        raise BadInput(f"the answer does not fit the scenario's table: {error}") from None


def _task(result: Mapping[str, Any], task: int) -> Mapping[str, Any]:
    tasks = result.get("tasks")
    tasks = tasks if isinstance(tasks, list) else []
    if not 1 <= task <= len(tasks):
        raise BadInput(f"the run learned {len(tasks) or 'one thing and no'} tasks, found task {task}")
    outcome = tasks[task - 1]
    if not isinstance(outcome, Mapping):
        raise BadInput(f"the result of task {task} is damaged: it must be a mapping")
    return outcome


def _hypothesis(scenario: Scenario, outcome: Mapping[str, Any]) -> Hypothesis:
    answer = outcome.get("answer")
    if answer is None:
        raise BadInput(f"the run of scenario {scenario.name!r} ended without an answer: {outcome.get('reason', '')}")
    try:
        return parse_hypothesis(answer)
    except BadMessage as error:
        if scenario.problem is None:
            raise BadInput(f"the run's answer cannot be used: {error.detail}") from None
        raise BadInput(
            f"the answer of scenario {scenario.name!r} is no model: it solves the problem {scenario.problem.name!r}, "
            f"and there is nothing to predict"
        ) from None


class DataNote(UserWarning):
    """The warning that rows contain values that the table's description does not expect, and how they are handled."""


@dataclass(frozen=True)
class Predicted:
    """The predictions for n rows.

    Attributes:
        values: Shape (n,): texts as the table spells them, or numbers in the column's own unit.
        probabilities: As from :meth:`Model.probabilities`; None if they were not requested.
    """

    values: AnyArray
    probabilities: Floats | None
    notes: Notes


@works_after_fork
def predict(
    model: Model, data: Any, *, probabilities: bool = False, strict: bool = False, costs: Costs | None = None
) -> Predicted:
    """Return the predictions for rows.

    Args:
        data: A file's path, a frame of polars or pandas, or a list of mappings, with the model's columns; others,
            including the label, are ignored.
        probabilities: Whether to return those as well.
        strict: Refuse rows with values beyond their bounds, unlisted or missing, instead of counting these.
        costs: Predict the label with the lower expected cost by the probabilities, instead of the answer's label.

    Raises:
        BadData: If a file cannot be read, a column is missing, or a field of a number is not a number.
        BadInput: If the model gives no probabilities, or cannot be used on new rows.
    """
    notes, outputs, shares = Notes(), list[AnyArray](), list[Floats]()
    for features in _blocks(model, data, notes):
        outputs.append(predictions(model, features, costs))
        if probabilities:
            shares.append(model.probabilities(features))
    lines = notes.sentences(model.table)
    if strict and lines:
        raise BadData("; ".join(lines))
    return Predicted(np.concatenate(outputs), np.concatenate(shares) if probabilities else None, notes)


@works_after_fork
def features_of(model: Model, data: Any) -> Singles:
    """Return the features of rows, shape (n, ``model.table.dimension``), float32; features that it ignores are 0.

    Raises as :func:`predict` does.
    """
    return np.concatenate(list(_blocks(model, data)))


def _blocks(model: Model, data: Any, notes: Notes | None = None) -> Iterator[Singles]:
    """Yield the features of rows, block by block, with an empty block first; ``notes`` counts unexpected values."""
    inputs, columns = model.inputs, frozenset(model.columns)
    yield np.zeros((0, model.table.dimension), np.float32)
    try:
        for piece in rows_of(data, columns, model.table.layout):
            yield encode_piece(piece, model.table, inputs)
            if notes is not None:
                notes.add(piece, model.table, columns)
    except BadData as error:
        if "layout." not in error.detail:
            raise
        raise BadData(
            f"{error.detail}. Rows are read in the layout of the model's tables: write these in it, too"
        ) from None


def calibration(model: Model) -> str:
    """Return, in words, what the model's probabilities are and how accurate they are."""
    if isinstance(model.calibrated, Argmax):
        return (
            "probabilities of the classes: the softmax of scores that were fitted to the agents' answers, within the "
            "noise of their answers"
        )
    return (
        f"probability of {target_of(model).names[-1]!r}: that of a logistic fit to the agents' answers about a score, "
        f"within the noise of their answers"
    )


@dataclass(frozen=True)
class Target:
    """The column that is predicted, and its values.

    Attributes:
        names: Names of two labels, the negative one first, or of several classes by number; empty for a number.
        low, high: For a number: its public bounds, to which the predictions 0 and 1 correspond.
    """

    column: str
    names: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0


def target_of(model: Model) -> Target:
    """Return what a model predicts."""
    match model.hypothesis:
        case Relabelled(column=column):
            feature, place = model.table.places[column]
            if isinstance(feature, Number):
                middle = feature.low + 0.5 * (feature.high - feature.low)
                return Target(feature.column, (f"at most {middle:g}", f"above {middle:g}"))
            names = [group[0] for group in feature.groups]
            rest = [name for name in names if name != names[place]]
            return Target(feature.column, (rest[0] if len(rest) == 1 else f"not {names[place]}", names[place]))
        case Argmax(first=first, hypotheses=hypotheses):
            places = model.table.places[first : first + len(hypotheses)]
            feature = places[0][0]
            if isinstance(feature, Number) or any(other is not feature for other, _ in places):
                return Target("class", feature_names(model)[first:][: len(places)])
            return Target(feature.column, tuple(feature.groups[place][0] for _, place in places))
        case Regressor(response=response):
            feature, _ = model.table.places[response]
            bounds = (feature.low, feature.high) if isinstance(feature, Number) else (0.0, 1.0)
            return Target(feature.column, (), *bounds)
    label = model.table.label
    return Target("label" if label is None else label.column, model.classes)


def predictions(model: Model, features: Singles, costs: Costs | None = None) -> AnyArray:
    """Return the predictions for n rows of features: texts as the table spells them, or float64 in the column's unit.

    ``costs``: as in :func:`predict`.
    """
    hypothesis, outcome = model.hypothesis, target_of(model)
    if costs is not None:
        return np.asarray(outcome.names)[(model.log_odds(features) > costs.odds).astype(np.int64)]
    if not outcome.names:
        return outcome.low + (outcome.high - outcome.low) * hypothesis.values(features)
    if isinstance(hypothesis, Argmax):
        return np.asarray(outcome.names)[hypothesis.classes(features)]
    return np.asarray(outcome.names)[(hypothesis.predict(features) > 0).astype(np.int64)]


def class_names(features: Sequence[Feature], first: int) -> list[str]:
    """Return the names of the values of the category that begins with feature ``first``; empty if none does."""
    for feature, place in places(features)[first : first + 1]:
        if place == 0 and not isinstance(feature, Number):
            return [group[0] for group in feature.groups]
    return []


def feature_names(model: Model) -> tuple[str, ...]:
    """Return a name for each feature: the column for a number, ``column=value`` for a category."""
    return tuple(
        feature.column if isinstance(feature, Number) else f"{feature.column}={'/'.join(feature.groups[place])}"
        for feature, place in model.table.places
    )
