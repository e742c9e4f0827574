"""A model in the words of its table: weights a unit of each column, questions about values, which class wins.

A half-space over features x_j = (v_j - low_j)/(high_j - low_j) is one over the columns' own values v_j: a unit of v_j
adds w_j/(high_j - low_j) to the margin, and the intercept takes what the low bounds leave, -b - sum_j w_j low_j/(high_j
- low_j). It holds within the bounds, beyond which values are clipped. A row that is shortened by a factor s has the
features s x_j, which a column with the value low_j + s (v_j - low_j) would have: the same sum, of these values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

from common.core.values import Value
from common.data.tables import Number
from common.local.hypotheses.composed import Argmax, Recalibrated, Relabelled
from common.local.hypotheses.linear import Linear, Regressor
from common.local.hypotheses.rules import Conjunction, Constant, Parity, Stump
from common.local.hypotheses.trees import LEAF, Trees
from common.models.model import Model
from common.models.predict import feature_at, feature_names, target_of

MAX_LINES = 60
"""Lines of trees that are shown; the JSON document has all."""


@dataclass(frozen=True)
class Term:
    """What one feature adds to a sum.

    Attributes:
        column: Its column.
        value: The value of a category for which it is added; None for a number.
        effect: Added where the row has that value, or for each unit of the number.
        weight: Of the feature: for a number, what is added from ``low`` to ``high``.
        low, high: Bounds of a number.
    """

    column: str
    value: str | None
    effect: float
    weight: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Sum:
    """A sum over columns in their own units: ``intercept`` plus the terms, in the order of the features."""

    intercept: float
    terms: tuple[Term, ...]


def sum_over_columns(model: Model, weights: Sequence[float], intercept: float, unit: float = 1.0) -> Sum:
    """Return <w, x> + intercept over features as a sum over columns, in ``unit`` times the number for 1."""
    terms = []
    for number, weight in enumerate(weights):
        feature, place = feature_at(model, number)
        if isinstance(feature, Number):
            slope = weight / (feature.high - feature.low)
            intercept -= slope * feature.low
            terms.append(Term(feature.column, None, unit * slope, unit * weight, feature.low, feature.high))
        else:
            terms.append(Term(feature.column, "/".join(feature.groups[place]), unit * weight, unit * weight))
    return Sum(unit * intercept, tuple(terms))


def linear_terms(model: Model) -> Sum | None:
    """Return the margin of a half-space, or the prediction of a regression, over columns; None for other kinds."""
    found = model.hypothesis
    if isinstance(found, Relabelled):
        found = found.hypothesis
    if isinstance(found, Linear):
        return sum_over_columns(model, found.weights, -found.threshold)
    if isinstance(found, Regressor):
        outcome = target_of(model)
        total = sum_over_columns(model, found.weights, found.intercept, outcome.high - outcome.low)
        return Sum(total.intercept + outcome.low, total.terms)
    return None


def lines(model: Model) -> list[str]:
    """Return the model in words, a line each; nothing in it is not in the answer and the scenario."""
    outcome = target_of(model)
    about = f"predicts {outcome.column}: "
    about += " or ".join(outcome.names) if outcome.names else f"a number in {outcome.low:g} .. {outcome.high:g}"
    shown = [about, *_lines(model.hypothesis, model)]
    if model.table.shortens and model.hypothesis.inputs:
        shown.append(
            f"Rows whose features are longer than {model.table.norm:g} are shortened by a factor s < 1 first: a number "
            f"v then counts as low + s (v - low), low its lower bound, and a category as s instead of 1."
        )
    return shown


@singledispatch
def _lines(hypothesis: Value, model: Model) -> list[str]:
    seen = list(dict.fromkeys(feature_at(model, number)[0].column for number in getattr(hypothesis, "inputs", ())))
    return [f"A model of kind {getattr(hypothesis, 'kind', '?')!r}, which looks at {', '.join(seen) or 'no column'}."]


def _positive(model: Model) -> tuple[str, str]:
    names = target_of(model).names
    return (names[0], names[1]) if len(names) == 2 else ("-1", "+1")


def _table(total: Sum) -> list[str]:
    rows = [("intercept", f"{total.intercept:+.4g}", "")]
    for term in total.terms:
        if term.value is None:
            rows.append(
                (
                    f"{term.column}, a unit",
                    f"{term.effect:+.4g}",
                    f"over {term.low:g} .. {term.high:g}: {term.weight:+.4g}",
                )
            )
        else:
            rows.append((f"{term.column} = {term.value}", f"{term.effect:+.4g}", ""))
    width, wide = (max(len(row[place]) for row in rows) for place in (0, 1))
    return [f"  {name:<{width}}  {effect:>{wide}}  {rest}".rstrip() for name, effect, rest in rows]


@_lines.register
def _(hypothesis: Linear, model: Model) -> list[str]:
    total = sum_over_columns(model, hypothesis.weights, -hypothesis.threshold)
    negative, positive = _positive(model)
    return [
        f"{positive} where this sum is above 0, else {negative} (numbers are clipped to their bounds):",
        *_table(total),
    ]


@_lines.register
def _(hypothesis: Regressor, model: Model) -> list[str]:
    total = linear_terms(model)
    outcome = target_of(model)
    if total is None:
        raise AssertionError("a regression is linear")
    return [f"{outcome.column} is this sum, clipped to {outcome.low:g} .. {outcome.high:g}:", *_table(total)]


@_lines.register
def _(hypothesis: Relabelled, model: Model) -> list[str]:
    return _lines(hypothesis.hypothesis, model)


@_lines.register
def _(hypothesis: Recalibrated, model: Model) -> list[str]:
    negative, positive = _positive(model)
    shown = [
        f"{positive} where {hypothesis.slope:.4g} times a score plus an intercept is above 0, else {negative}: the log "
        f"odds of {positive}, as fitted to the answers of the population's agents.",
        *(
            f"  intercept where {question(model, group, 0.5)}: {intercept:+.4g}"
            for group, intercept in zip(hypothesis.groups, hypothesis.intercepts, strict=False)
        ),
        f"  intercept{' of all others' if hypothesis.groups else ''}: {hypothesis.intercepts[-1]:+.4g}",
    ]
    if isinstance(hypothesis.hypothesis, Linear):
        plane = hypothesis.hypothesis
        return [*shown, "The score:", *_table(sum_over_columns(model, plane.weights, -plane.threshold))]
    return [*shown, "The score:", *(f"  {line}" for line in _lines(hypothesis.hypothesis, model))]


@_lines.register
def _(hypothesis: Argmax, model: Model) -> list[str]:
    shown = ["The class whose score is greatest, the first of several:"]
    for name, scored in zip(target_of(model).names, hypothesis.hypotheses, strict=True):
        if isinstance(scored, Linear):
            shown += [f"score of {name}:", *_table(sum_over_columns(model, scored.weights, -scored.threshold))]
        else:
            shown += [f"score of {name}:", *(f"  {line}" for line in _lines(scored, model))]
    return shown[: 10 * MAX_LINES]


@_lines.register
def _(hypothesis: Constant, model: Model) -> list[str]:
    return [f"{_positive(model)[hypothesis.label > 0]} for every row."]


@_lines.register
def _(hypothesis: Stump, model: Model) -> list[str]:
    negative, positive = _positive(model)
    above, below = (positive, negative) if hypothesis.sign > 0 else (negative, positive)
    return [f"{above} where {question(model, hypothesis.feature, hypothesis.threshold)}, else {below}."]


@_lines.register
def _(hypothesis: Conjunction, model: Model) -> list[str]:
    negative, positive = _positive(model)
    asked = [f"  {question(model, feature, 0.5)}" for feature in hypothesis.features]
    return [f"{positive} where all of these hold, else {negative}:", *asked]


@_lines.register
def _(hypothesis: Parity, model: Model) -> list[str]:
    negative, positive = _positive(model)
    if not hypothesis.features:
        return [f"{negative} for every row."]
    asked = [f"  {question(model, feature, 0.5)}" for feature in hypothesis.features]
    return [f"{positive} where an odd number of these hold, else {negative}:", *asked]


@_lines.register
def _(hypothesis: Trees, model: Model) -> list[str]:
    negative, positive = _positive(model)
    trees, nodes = len(hypothesis.roots), len(hypothesis.feature)
    shown = [
        f"{positive} where {hypothesis.base:+.4g} and the values of all trees add up to more than 0, else {negative} "
        f"({trees:,} tree{'s' if trees > 1 else ''} of {nodes:,} nodes):"
    ]
    for number, root in enumerate(hypothesis.roots, start=1):
        pending = [(root, 1, "")]
        shown.append(f"  tree {number}")
        while pending and len(shown) <= MAX_LINES:
            node, depth, begin = pending.pop()
            if hypothesis.feature[node] == LEAF:
                shown.append(f"{'  ' * depth}  {begin}{hypothesis.threshold[node]:+.4g}")
                continue
            asked = question(model, hypothesis.feature[node], hypothesis.threshold[node])
            shown.append(f"{'  ' * depth}  {begin}{asked}?")
            pending += [(hypothesis.left[node], depth + 1, "no: "), (hypothesis.right[node], depth + 1, "yes: ")]
        if len(shown) > MAX_LINES:
            return [*shown[:MAX_LINES], "  ... (all of it is in the JSON document)"]
    return shown


def question(model: Model, number: int, threshold: float) -> str:
    """Return what x_j > threshold asks of a column's own value, of rows that are not shortened."""
    feature, place = feature_at(model, number)
    if isinstance(feature, Number):
        return f"{feature.column} > {feature.low + threshold * (feature.high - feature.low):.6g}"
    if threshold >= 1.0 or threshold < 0.0:
        return f"{feature_names(model)[number]} > {threshold:g}"
    return f"{feature.column} is {' or '.join(feature.groups[place])}"
