"""The verdict on a run: is its model better than what either side has alone, and by how much; it is stated here only.

``yes`` and ``no`` rest on an interval that holds together with all other statements of the run (where pairs are tested:
with the intervals of the others), with confidence 1 - beta; ``probably`` rests on a one-sided interval at 95% that
holds by itself, with a number of answers fixed beforehand. Otherwise the answer is ``cannot be told``, with about how
many agents would decide it, where that can be estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from common.core.errors import BadMessage
from common.core.plain import plain
from common.data.tables import Number
from common.local.hypotheses.composed import Argmax
from common.local.hypotheses.hypothesis import HYPOTHESES
from common.models.model import class_names, label_classes
from common.scenario.scenario import Scenario
from common.statistics.intervals import VAGUE, certainty
from referee.protocols.base import level_of, tested_loss
from referee.runs import percents
from referee.runs.percents import AS_IT_IS, PER_CENT, Unit

Tone = Literal["good", "open", "bad"]
"""``good``: the run shows what was asked for. ``open``: it has an answer, but shows less. ``bad``: no answer."""
Answer = Literal["yes", "probably", "cannot be told", "no"]
QUESTION = "Is the model better than what either side has alone?"
CONSTANT = "saying the same to everybody"
OF_CONSTANTS = f"Is the answer better than {CONSTANT}?"


@dataclass(frozen=True)
class Verdict:
    """What a run has shown.

    Attributes:
        detail: How the run ended.
        answer: To :data:`QUESTION`; None where the run's answer is no model, or there is none. Constants are among what
            either side has alone: it is "yes" only if ``constant`` is, and "no" for a model that is a constant.
        constant: To :data:`OF_CONSTANTS`; None where ``answer`` is. For a regression it is about the one number that
            the verdict names, which agents reported: another one may err less.
    """

    title: str
    detail: str
    tone: Tone
    answer: Answer | None = None
    sentences: tuple[str, ...] = ()
    constant: Answer | None = None

    @property
    def text(self) -> str:
        return " ".join(self.sentences) or f"{self.title}."

    def document(self) -> dict[str, Any]:
        question: dict[str, Any] = {"question": QUESTION, "answer": self.answer} if self.answer else {}
        if self.constant:
            question["constant"] = {"question": OF_CONSTANTS, "answer": self.constant}
        return {"title": self.title, **question, "text": self.text}


ENDED = {
    "done": "ended as planned",
    "exhausted": "ended with all rounds or agents used",
    "refused": "refused",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""How runs end, in words; the keys are the statuses of result documents."""
LOSSES = {"zero-one": "share of the population that the answer labels wrongly"}
"""The name of a loss on an axis; other losses go by their own names."""


def per_cent(scenario: Scenario) -> bool:
    """Tell whether the loss of a scenario is a share of people."""
    return scenario.agents.costs is None and scenario.agents.loss in LOSSES


def unit_of(scenario: Scenario) -> Unit:
    """Return the unit in which the losses of a scenario are printed."""
    costs = scenario.agents.costs
    return percents.of_costs(costs) if costs is not None else PER_CENT if per_cent(scenario) else AS_IT_IS


def measure_of(scenario: Scenario) -> str:
    """Return the name of a scenario's losses for the axis of a chart."""
    costs = scenario.agents.costs
    if costs is not None:
        return f"what a hundred people cost ({costs.text})"
    return LOSSES[scenario.agents.loss] if per_cent(scenario) else f"{tested_loss(scenario)} on the population"


def about_a_loss(result: Mapping[str, Any]) -> bool:
    """Tell whether the agents estimated the loss of a hypothesis, rather than something else about a problem."""
    solved = bool(result.get("truth")) and "correct" in result["truth"]
    return not solved and (result["answer"] or {}).get("kind") in HYPOTHESES.names()


def silent_in_words(result: Mapping[str, Any]) -> str:
    """Return what those who were asked and did not answer could change, as text; empty where everybody answered.

    A result that another party wrote may lack these numbers: then the text states that they are missing.
    """
    silent, agents = result.get("silent"), result.get("agents") or {"asked": 0, "answered": 0}
    if silent is None:
        count = agents["asked"] - agents["answered"]
        if count <= 0 or result["answer"] is None:
            return ""
        return (
            f"{count:,} of {agents['asked']:,} agents asked did not answer: `referee audit` says what they could change"
        )
    words = f"up to {silent['missing']:.1%} of the agents asked about it did not answer"
    estimate = silent["estimate"]
    if estimate is None:
        return f"{words}: the answer is about those who did, and may be another one for all"
    what = "loss" if about_a_loss(result) else "estimate"
    where, left_out = _sure_ends(estimate), silent["left_out"]
    worst = "nothing is known" if left_out is None else f"it is {_sure_ends(left_out)}"
    worst = f"; were answers left out because of what they say, {worst}"
    if not silent["matters"]:
        return f"{words}: however they differ from those who did, the {what} is {where}{worst}"
    gap = "" if silent["gap"] is None else f", and exceed its rival's by {percents.points(silent['gap'], up=True)}"
    return f"{words}: were they to differ from those who did, the {what} could be {where}{gap}{worst}"


def _sure_ends(interval: Mapping[str, float]) -> str:
    return f"{percents.ends(interval['low'], interval['high'])} with {certainty(interval['confidence'])} confidence"


def verdict(scenario: Scenario, result: Mapping[str, Any], labels: tuple[str, str] | None = None) -> Verdict:
    """Return what a run has shown; ``labels`` are the negative and the positive one, if not those of the table.

    Only what the intervals show is stated as a fact, with the people whom it is about.

    If people who were asked did not answer, a loss is about all who were asked, and those who did not answer count
    against it (:class:`referee.protocols.base.Nonresponse`, ``left_out``); a comparison is about those who answered.
    """
    silent, names = silent_in_words(result), LabelNames(scenario, labels)
    detail = str(result["reason"]) + (f"; {silent}" if silent else "")
    if result.get("comparison") and result["answer"] is not None:
        return _compared(names, result, detail, bool(silent))
    if not silent:
        return _verdict(names, result, detail)
    missing = result.get("silent") or {"left_out": None, "matters": True}
    about_all = result["estimate"] and (missing["left_out"] or {**result["estimate"], "low": 0.0, "high": 1.0})
    outcome = _verdict(names, {**result, "estimate": about_all}, detail, " among all who were asked")
    if outcome.tone == "bad" or not (missing["matters"] or result.get("pairs")):
        return outcome
    states_bound = not result.get("tasks") and about_all is not None and about_a_loss(result)
    title = outcome.title if states_bound else f"{outcome.title}; it depends on those who did not answer"
    return replace(outcome, tone="open", title=title)


def _verdict(names: LabelNames, result: Mapping[str, Any], detail: str, people: str = "") -> Verdict:
    if result["answer"] is None:
        status = str(result["status"])
        return Verdict(f"No answer: the run {'was ' * (status in ('refused', 'cancelled'))}{status}", detail, "bad")
    if result.get("tasks"):
        count, done = len(result["tasks"]), sum(task["status"] == "done" for task in result["tasks"])
        return Verdict(f"{done} of {count} tasks have what was asked for", detail, "good" if done == count else "open")
    if result["estimate"] is None or not about_a_loss(result):
        return Verdict("The run has an answer", detail, "good" if result["status"] == "done" else "open")
    return _tested(names, result, detail, people)


def _tested(names: LabelNames, result: Mapping[str, Any], detail: str, people: str) -> Verdict:
    """Return the verdict where agents reported the loss of one model, and of nothing else."""
    scenario = names.scenario
    estimate, level, in_per_cent = result["estimate"], level_of(scenario), per_cent(scenario)
    model, population = names.of(None, result["answer"]), _population(scenario) + people
    stated = _loss_sentence(scenario, model, estimate, population)
    confidence = f"with {certainty(estimate['confidence'])} confidence"
    bound = "" if level is None else percents.share(level) if in_per_cent else f"{level:g}"
    first, title = f"{stated}, {confidence}.", stated
    tone: Tone = "good"
    if level is not None and result["status"] == "done" and (not people or estimate["high"] < level):
        title = f"{model} {_verb(scenario)} less than {bound}{population}"
        first = f"A test shows {confidence} that {_lowered(title)}. The estimate is "
        first += percents.estimate(estimate, unit_of(scenario)) + ("." if estimate["high"] < level else _BEYOND)
    elif estimate["high"] - estimate["low"] > VAGUE:
        title, tone = f"Too few agents answered to tell how good {_lowered(model)} is", "open"
        between = f"{percents.ends(estimate['low'], estimate['high'], unit_of(scenario))}{unit_of(scenario).suffix}"
        first = f"{model} {_verb(scenario)} {between}{population}, {confidence}."
    elif level is not None:
        title, tone = f"{model} is not shown to be below {bound}: {stated.replace(model, 'it', 1)}", "open"
        first = f"{stated}, {confidence}; it is not shown to be below {bound}."
    answer, words = _of_constants(scenario, model, result)
    constant = answer
    if result.get("pairs"):
        answer, constant, words = _of_pairs(result["pairs"], among=people)
    return Verdict(title, detail, "open" if answer == "no" else tone, answer, (first, words), constant)


_BEYOND = (
    ": that interval is two-sided and holds for all rounds together, so it may reach beyond a level that the one-sided "
    "test has shown."
)


def _verb(scenario: Scenario) -> str:
    if scenario.agents.costs is not None:
        return "costs"
    return "errs on" if per_cent(scenario) else f"has a {tested_loss(scenario)} of"


def _population(scenario: Scenario) -> str:
    costs = scenario.agents.costs
    return f", where {costs.text}" if costs is not None else " of the population" * per_cent(scenario)


def _loss_sentence(scenario: Scenario, model: str, estimate: Mapping[str, float], population: str) -> str:
    """Return "The model errs on 28% of the population (21% to 36%)", without a full stop.

    In the first sentence of a verdict ``population`` says whom it is about, and what mistakes cost.
    """
    middle, _, rest = percents.estimate(estimate, unit_of(scenario)).partition(" (")
    return f"{model} {_verb(scenario)} {middle}{population} ({rest}"


def _of_pairs(pairs: Sequence[Mapping[str, Any]], among: str) -> tuple[Answer, Answer, str]:
    """Return how the model compares with its rivals (what agents alone learned, both constants), by agents' answers.

    If agents ran out before they were asked about all rivals, the model is not shown to be better.
    """
    ends = [(pair["rival"], pair["difference"]) for pair in pairs]
    words = "; ".join(
        f"{rival} {percents.signed(difference['low'], up=False)} to {percents.signed(difference['high'], up=True)}"
        for rival, difference in ends
    )
    confidence = certainty(ends[0][1]["confidence"])
    words = f"Its share of mistakes less that of its rivals, with {confidence} confidence together: {words}."
    if among:
        words = f"Among those who answered: {_lowered(words)}"
    constants = [pair for pair in pairs if is_constant(pair["hypothesis"])]
    constant = _pairs_answer([pair["difference"] for pair in constants])
    if constant == "yes" and {pair["hypothesis"].get("label") for pair in constants} != {-1, 1}:
        constant = "cannot be told"
        words += f" Too few agents were asked about {CONSTANT}, so whether it is better than that cannot be told."
    return max(_pairs_answer([difference for _, difference in ends]), constant, key=_ANSWERS.index), constant, words


def _pairs_answer(differences: Sequence[Mapping[str, float]]) -> Answer:
    if any(difference["low"] > 0.0 for difference in differences):
        return "no"
    return "yes" if all(difference["high"] < 0.0 for difference in differences) else "cannot be told"


_OF_TWO = frozenset(HYPOTHESES.names()) - {"argmax", "regressor", "onnx"}
"""Kinds of hypotheses that predict one of two labels."""


def _worse_than_half(scenario: Scenario, model: str, result: Mapping[str, Any]) -> str:
    """Return that an answer is worse than a constant if it errs on more than half; empty if that is not shown.

    With two labels the more frequent one errs on half of the people at most.
    """
    answer, estimate = result["answer"], result["estimate"]
    if is_constant(answer) or answer["kind"] not in _OF_TWO or not (per_cent(scenario) and estimate["low"] > 0.5):
        return ""
    return f"Saying the more frequent label to everybody errs on 50% at most, so {_lowered(model)} is not better."


def _of_constants(scenario: Scenario, model: str, result: Mapping[str, Any]) -> tuple[Answer, str]:
    if is_constant(result["answer"]):
        return "no", "The answer is a constant: it says the same of everybody."
    if half := _worse_than_half(scenario, model, result):
        return "no", half
    return "cannot be told", (
        "Nothing was asked about saying the same to everybody, so this run cannot tell whether the model is better."
    )


@dataclass(frozen=True)
class LabelNames:
    """The names of a run's candidates, with the labels of the scenario's own classes."""

    scenario: Scenario
    labels: tuple[str, str] | None = None

    def of(self, name: str | None, hypothesis: Mapping[str, Any]) -> str:
        """Return the subject of a sentence; ``name`` is a candidate's, None for a model without rivals."""
        if hypothesis.get("kind") == "constant":
            return f"Saying {self.label(hypothesis.get('label'))} to everybody"
        if (number := always(hypothesis)) is not None:
            return f"Saying {self.class_name(int(hypothesis['first']), number)} to everybody"
        if hypothesis.get("kind") == "regressor" and is_constant(hypothesis):
            return f"Saying {self.number(int(hypothesis['response']), float(hypothesis['intercept']))} to everybody"
        return "The curator's model alone" if name == "model" else "The model"

    def label(self, value: Any) -> str:
        table = self.scenario.target.table or self.scenario.source.table
        labels = self.labels or (label_classes(table.label) if table and table.label else None)
        if value not in (-1, 1) or labels is None:
            return plain(f"{value:+d}" if isinstance(value, int) else str(value))
        return f"'{plain(labels[value > 0])}'"

    def class_name(self, first: int, number: int) -> str:
        """Return the name of one of several classes: the table's, or else its number, from 1."""
        table = self.scenario.target.table or self.scenario.source.table
        names = [] if table is None else class_names(table.features, first)
        return f"'{plain(names[number])}'" if number < len(names) else f"class {number + 1}"

    def number(self, response: int, value: float) -> str:
        """Return a response in its column's own unit; for people without a table it is in [0, 1]."""
        table, value = self.scenario.target.table or self.scenario.source.table, min(max(value, 0.0), 1.0)
        feature = None if table is None else table.features[-1]
        if table is not None and isinstance(feature, Number) and response == table.dimension - 1:
            value = feature.low + value * (feature.high - feature.low)
        return f"{value:.4g}"


def always(hypothesis: Mapping[str, Any]) -> int | None:
    """Return the class that a hypothesis of several classes predicts for everybody; None if it does not."""
    try:
        return Argmax.parse(dict(hypothesis)).always if hypothesis.get("kind") == "argmax" else None
    except BadMessage:  # a result that another party wrote
        return None


def is_constant(hypothesis: Mapping[str, Any]) -> bool:
    """Tell whether a hypothesis predicts the same for everybody."""
    numbers = hypothesis["kind"] == "regressor" and not any(hypothesis["weights"])
    return numbers or hypothesis["kind"] == "constant" or always(hypothesis) is not None


def _lowered(subject: str) -> str:
    return subject[:1].lower() + subject[1:]


def _compared(names: LabelNames, result: Mapping[str, Any], detail: str, some_silent: bool) -> Verdict:
    """Return the verdict where agents judged two finalists: a model, and what one side has alone, its rival."""
    comparison, finalists = (
        result["comparison"],
        {str(candidate["name"]): candidate for candidate in result["candidates"]},
    )
    (name,) = finalists.keys() - {comparison["with"]}
    sides = [(names.of(each, finalists[each]["hypothesis"]), finalists[each]) for each in (name, comparison["with"])]
    (model, own), (rival, other) = sides
    answer = _answer(comparison)
    first = _loss_sentence(names.scenario, model, own["estimate"], _population(names.scenario))
    sentences = [f"Among those who answered: {_lowered(first)}." if some_silent else f"{first}."]
    if answer != "no" and is_constant(own["hypothesis"]):
        same, none = "The model says the same to everybody", "no agents can show it to be better than that."
        return Verdict(same, detail, "open", "no", (*sentences, f"{same}: {none}"), "no")
    sentences.append(_loss_sentence(names.scenario, rival, other["estimate"], "") + ".")
    sentences.append(_by_how_much(names, model, comparison, answer, result["agents"]["enrolled"]))
    if result["answer"] == other["hypothesis"]:
        sentences.append(f"So the answer is {_lowered(rival)}.")
    if is_constant(other["hypothesis"]) and answer in _OF_SOURCE:
        sentences.append(_OF_SOURCE[answer])
    title, constant, with_constant = _title(answer, model, _lowered(rival)), answer, result.get("constant")
    separate = not is_constant(other["hypothesis"])
    if separate:
        constant = _answer(with_constant) if with_constant else "cannot be told"
    elif with_constant:
        constant = max(answer, _answer(with_constant), key=_ANSWERS.index)
    subject = rival if answer == "no" else model
    half = "" if constant == "no" else _worse_than_half(names.scenario, subject, result)
    if half:
        constant, separate = "no", True
    if separate or constant != answer:
        than = CONSTANT if separate else _OTHER
        sentences += [half] if half else _constant_sentences(names, result, subject, constant, than)
        if _ANSWERS.index(constant) < _ANSWERS.index(answer):
            rest = (
                f"{_lowered(model)} is not better than that"
                if answer == "no"
                else _clause(answer, "it", _lowered(rival))
            )
            title = f"{_title(constant, subject, than)}; {rest}"
        else:
            title += f"; {_clause(constant, 'that' if answer == 'no' else 'it', than)}"
    title += ", among those who answered" * some_silent
    least = max(answer, constant, key=_ANSWERS.index)
    tone: Tone = "good" if least == "yes" and not some_silent else "open"
    return Verdict(title, detail, tone, least, tuple(sentences), constant)


_ANSWERS: tuple[Answer, ...] = ("yes", "probably", "cannot be told", "no")


def _title(answer: Answer, model: str, than: str) -> str:
    if answer == "cannot be told":
        return f"It cannot be told whether {_lowered(model)} is better than {than}"
    return _clause(answer, model, than)


def _clause(answer: Answer, model: str, than: str) -> str:
    if answer == "cannot be told":
        return f"whether {model} is better than {than} cannot be told"
    return f"{model} is {_BETTER[answer]} than {than}"


_BETTER = {"yes": "better", "probably": "probably better", "no": "not better"}


# Than the rival, which was chosen as the best constant by its posterior, and may not be.
_OTHER = "saying something else to everybody"


def _constant_sentences(
    names: LabelNames, result: Mapping[str, Any], model: str, answer: Answer, than: str
) -> list[str]:
    comparison = result.get("constant")
    if not comparison:
        return [f"Nothing was asked about {than}, so whether {_lowered(model)} is better than that cannot be told."]
    constant = names.of(None, comparison["hypothesis"])
    first = _loss_sentence(names.scenario, constant, comparison["estimate"], "") + "."
    return [first, _by_how_much(names, model, comparison, answer, result["agents"]["enrolled"], f" than {than}")]


_OF_SOURCE = {
    "no": "The curator's people do not help here: they are too few, or too different from the population.",
    "cannot be told": "So it is open whether the curator's people help.",
}
"""What a constant as rival, which was not learned from the curator's people, shows about these people."""


def _answer(comparison: Mapping[str, Any]) -> Answer:
    if comparison["difference"]["high"] < 0.0:
        return "yes"
    if comparison["difference"]["low"] > 0.0:
        return "no"
    return "probably" if comparison["probably"]["high"] < 0.0 else "cannot be told"


def _by_how_much(
    names: LabelNames, model: str, comparison: Mapping[str, Any], answer: Answer, enrolled: int, than: str = ""
) -> str:
    points, difference = partial(percents.points, unit=unit_of(names.scenario)), comparison["difference"]
    low, high, confidence = (
        difference["low"],
        difference["high"],
        f"with {certainty(difference['confidence'])} confidence",
    )
    if answer == "yes":
        return f"{model} is better{than}, by {points(-high, up=False)} to {points(-low, up=True)}, {confidence}."
    if answer == "no":
        return f"{model} is worse{than}, by {points(low, up=False)} to {points(high, up=True)}, {confidence}."
    more = (comparison["agents"] or 0) - enrolled
    settle = f"; about {percents.rounded_up(more)} more agents would settle it" if more > 0 else ""
    if answer == "probably":
        return f"{model} is probably better{than}: {_one_sided(comparison['probably'], points)}{settle}."
    shares = names.scenario.agents.costs is not None or per_cent(names.scenario)
    subject = f"it {_verb(names.scenario)}" if shares else f"its {tested_loss(names.scenario)} is"
    between = (
        f"{subject} {points(max(0.0, -low), up=True)} less to {points(max(0.0, high), up=True)} more, {confidence}"
    )
    if comparison["likely"]["high"] < 0.0:
        between += f" ({_one_sided(comparison['likely'], points, 'less, ')})"
    return f"Whether {_lowered(model)} is better{than} cannot be told: {between}{settle}."


def _one_sided(bound: Mapping[str, float], points: Callable[..., str], hardly: str = "") -> str:
    """Return by how much at least, or ``hardly`` if the bound rounds to 0."""
    least = points(-bound["high"], up=False)
    by = hardly if least.startswith("0 ") else f"by {least} or more, "
    return f"{by}with {certainty(bound['confidence'])} confidence, one-sided, by itself"
