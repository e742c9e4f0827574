"""A model in the terms of its table: weights per unit of each column, conditions on values, the class that wins.

A half-space over features x_j = (v_j - low_j)/(high_j - low_j) is a half-space over the columns' values v_j, within
their bounds. A row that is scaled by a factor s has the features of a row with the values low_j + s (v_j - low_j).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from common.data.tables import Number
from common.local.hypotheses.composed import Argmax, Recalibrated, Relabelled
from common.local.hypotheses.hypothesis import Hypothesis, Linear, Network, Regressor
from common.local.hypotheses.rules import LEAF, Conjunction, Constant, Parity, Stump, Trees
from common.models.model import Model, feature_names, target_of

MAX_LINES = 60  # lines of trees that are shown; the JSON document has all of them


@dataclass(frozen=True)
class Term:
    """The term of one feature in a sum.

    Attributes:
        value: The value of a category for which the term is added; None for a number.
        effect: Added if the row has that value, or for each unit of the number.
        weight: The weight of the feature: for a number, the difference between its bounds ``low`` and ``high``.
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
    """Return <w, x> + intercept over features as a sum over columns, multiplied by ``unit``."""
    terms = []
    for weight, (feature, place) in zip(weights, model.table.places, strict=False):
        if isinstance(feature, Number):
            slope = weight / (feature.high - feature.low)
            intercept -= slope * feature.low
            terms.append(Term(feature.column, None, unit * slope, unit * weight, feature.low, feature.high))
        else:
            terms.append(Term(feature.column, "/".join(feature.groups[place]), unit * weight, unit * weight))
    return Sum(unit * intercept, tuple(terms))


def linear_terms(model: Model) -> Sum | None:
    """Return the margin of a half-space, or the prediction of a regression, over columns; None for other kinds."""
    hypothesis = model.hypothesis
    if isinstance(hypothesis, Relabelled):
        hypothesis = hypothesis.hypothesis
    if isinstance(hypothesis, Regressor):
        return _regression(hypothesis, model)
    if isinstance(hypothesis, Linear):
        return sum_over_columns(model, hypothesis.weights, -hypothesis.threshold)
    return None


def _regression(regressor: Regressor, model: Model) -> Sum:
    outcome = target_of(model)
    total = sum_over_columns(model, regressor.weights, regressor.intercept, outcome.high - outcome.low)
    return Sum(total.intercept + outcome.low, total.terms)


def lines(model: Model) -> list[str]:
    """Return the model in words, as lines of text; all of it follows from the answer and the scenario."""
    outcome = target_of(model)
    summary = f"predicts {outcome.column}: "
    summary += " or ".join(outcome.names) if outcome.names else f"a number in {outcome.low:g} .. {outcome.high:g}"
    lines = [summary, *_lines(model.hypothesis, model)]
    if model.table.shortens and model.hypothesis.inputs:
        lines.append(
            f"Rows whose features are longer than {model.table.norm:g} are shortened by a factor s < 1 first: a number "
            f"v then counts as low + s (v - low), low its lower bound, and a category as s instead of 1."
        )
    return lines


def _lines(hypothesis: Hypothesis, model: Model) -> list[str]:
    outcome = target_of(model)
    negative, positive = outcome.names if len(outcome.names) == 2 else ("-1", "+1")
    match hypothesis:
        case Linear():
            clipped = f"{positive} where this sum is above 0, else {negative} (numbers are clipped to their bounds):"
            return [clipped, *_score(hypothesis, model)]
        case Regressor():
            total = _regression(hypothesis, model)
            return [f"{outcome.column} is this sum, clipped to {outcome.low:g} .. {outcome.high:g}:", *_table(total)]
        case Network():
            activations = [(f"unit {number + 1}", weight) for number, weight in enumerate(hypothesis.output)]
            lines = [f"{positive} where this sum of hidden units' z/(1 + |z|) is above 0, else {negative}:"]
            lines += [f"  {name}  {value:+.4g}" for name, value in [("intercept", -hypothesis.threshold), *activations]]
            for number, (weights, threshold) in enumerate(zip(hypothesis.hidden, hypothesis.thresholds, strict=True)):
                lines += [f"z of unit {number + 1}:", *_table(sum_over_columns(model, weights, -threshold))]
            return lines[: 10 * MAX_LINES]
        case Relabelled():
            return _lines(hypothesis.hypothesis, model)
        case Recalibrated():
            return _recalibrated(hypothesis, model, negative, positive)
        case Argmax():
            lines = ["The class whose score is greatest, the first of several:"]
            for name, scored in zip(outcome.names, hypothesis.hypotheses, strict=True):
                lines += [f"score of {name}:", *_score(scored, model)]
            return lines[: 10 * MAX_LINES]
        case Constant():
            return [f"{positive if hypothesis.label > 0 else negative} for every row."]
        case Stump():
            above, below = (positive, negative) if hypothesis.sign > 0 else (negative, positive)
            return [f"{above} where {question(model, hypothesis.feature, hypothesis.threshold)}, else {below}."]
        case Parity(features=()):
            return [f"{negative} for every row."]
        case Conjunction() | Parity():
            quantifier = "all of these" if isinstance(hypothesis, Conjunction) else "an odd number of these"
            questions = [f"  {question(model, feature, 0.5)}" for feature in hypothesis.features]
            return [f"{positive} where {quantifier} hold, else {negative}:", *questions]
        case Trees():
            return _trees(hypothesis, model, negative, positive)
    columns = list(dict.fromkeys(model.table.places[number][0].column for number in hypothesis.inputs))
    return [f"A model of kind {hypothesis.kind!r}, which looks at {', '.join(columns) or 'no column'}."]


def _score(hypothesis: Hypothesis, model: Model) -> list[str]:
    if isinstance(hypothesis, Linear):
        return _table(sum_over_columns(model, hypothesis.weights, -hypothesis.threshold))
    return [f"  {line}" for line in _lines(hypothesis, model)]


def _table(total: Sum) -> list[str]:
    rows = [("intercept", f"{total.intercept:+.4g}", "")]
    for term in total.terms:
        if term.value is None:
            detail = f"over {term.low:g} .. {term.high:g}: {term.weight:+.4g}"
            rows.append((f"{term.column}, a unit", f"{term.effect:+.4g}", detail))
        else:
            rows.append((f"{term.column} = {term.value}", f"{term.effect:+.4g}", ""))
    width, wide = (max(len(row[place]) for row in rows) for place in (0, 1))
    return [f"  {name:<{width}}  {effect:>{wide}}  {rest}".rstrip() for name, effect, rest in rows]


def _recalibrated(hypothesis: Recalibrated, model: Model, negative: str, positive: str) -> list[str]:
    groups = zip(hypothesis.groups, hypothesis.intercepts, strict=False)
    less = "" if model.costs is None else f" less {model.costs.odds:+.4g}, above which {positive} costs less"
    return [
        f"{positive} where {hypothesis.slope:.4g} times a score plus an intercept is above 0, else {negative}: the log "
        f"odds of {positive}{less}, as fitted to the answers of the population's agents.",
        *(f"  intercept where {question(model, group, 0.5)}: {intercept:+.4g}" for group, intercept in groups),
        f"  intercept{' of all others' if hypothesis.groups else ''}: {hypothesis.intercepts[-1]:+.4g}",
        "The score:",
        *_score(hypothesis.hypothesis, model),
    ]


def _trees(hypothesis: Trees, model: Model, negative: str, positive: str) -> list[str]:
    trees, nodes = len(hypothesis.roots), len(hypothesis.feature)
    lines = [
        f"{positive} where {hypothesis.base:+.4g} and the values of all trees add up to more than 0, else {negative} "
        f"({trees:,} tree{'s' if trees > 1 else ''} of {nodes:,} nodes):"
    ]
    for number, root in enumerate(hypothesis.roots, start=1):
        pending = [(root, 1, "")]
        lines.append(f"  tree {number}")
        while pending and len(lines) <= MAX_LINES:
            node, depth, begin = pending.pop()
            indent = "  " * (depth + 1)
            if hypothesis.feature[node] == LEAF:
                lines.append(f"{indent}{begin}{hypothesis.threshold[node]:+.4g}")
                continue
            lines.append(f"{indent}{begin}{question(model, hypothesis.feature[node], hypothesis.threshold[node])}?")
            pending += [(hypothesis.left[node], depth + 1, "no: "), (hypothesis.right[node], depth + 1, "yes: ")]
        if len(lines) > MAX_LINES:
            return [*lines[:MAX_LINES], "  ... (all of it is in the JSON document)"]
    return lines


def question(model: Model, number: int, threshold: float) -> str:
    """Return the condition x_j > threshold in terms of the column's own value, for rows that are not scaled down."""
    feature, place = model.table.places[number]
    if isinstance(feature, Number):
        return f"{feature.column} > {feature.low + threshold * (feature.high - feature.low):.6g}"
    if threshold >= 1.0 or threshold < 0.0:
        return f"{feature_names(model)[number]} > {threshold:g}"
    return f"{feature.column} is {' or '.join(feature.groups[place])}"
