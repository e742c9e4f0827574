"""Portfolio of several classes: agents teach a model the odds of each class, and judge it and every constant."""

import math
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.composed import Argmax, recalibrated
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.queries.query import Answers, AskAgents, LossQuery
from common.local.queries.residuals import ClassResidualQuery
from common.operations.operation import Learn
from common.protocols.base import Progress, pattern_of
from common.protocols.portfolio import FIRST, TEACHINGS
from common.scenario.scenario import ResolvedScenario
from common.statistics.class_odds import ClassOdds, ClassReport, halves, shares_of
from referee.protocols.asking import ask
from referee.protocols.base import PROTOCOLS, Script
from referee.protocols.portfolio import PortfolioProtocol, ReportedConstant, judge
from referee.protocols.teaching import PortfolioPlan, mean_answer


@PROTOCOLS.register("portfolio-classes")
class PortfolioClasses(PortfolioProtocol):
    """The portfolio for several classes in place of two labels: docs/portfolio.md, "Several classes".

    A person's class is in one-hot columns after the features. Agents report whether they are of a class, which gives
    the constants. The curator learns a score for each class; in three rounds other agents report how far the total
    probability of half of the classes is from whether theirs is one of them, and by how much the model's score of their
    class exceeds its expectation; intercepts and slope on T follow (:mod:`common.statistics.class_odds`). Agents who
    were not asked before judge the taught model and its rival by whether it names another class than theirs. The rival
    is the original model or a constant: the one with the least expected loss.

    That is a loss in [0, 1] of one record, so the theorem of the portfolio holds for it unchanged.
    """

    pattern = pattern_of("portfolio-classes")
    small: ClassVar[tuple[str, ...]] = (
        "protocol=portfolio-classes",
        "curator.rounds=1",
        "curator.learner={name: discriminant, norm: 1.0, mu: 1.0, classes: {first: 5, count: 3}}",
    )

    def asks(self, scenario: ResolvedScenario) -> frozenset[str]:
        return frozenset({"loss", "class-residual"})

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = _plan(scenario)
        first, count = scenario.curator.settings.class_columns
        each, more = divmod(plan.roles.labels, count)
        reported, reports = [], []
        for number in range(count):
            query = LossQuery(hypothesis=Argmax.constant(first, count, number))
            answers = yield AskAgents(query, each + (number < more))
            mean, variance = mean_answer(plan.mechanism, answers)
            reported.append((1.0 - mean, variance))
            reports.append(ReportedConstant(f"constant {number + 1}", query.hypothesis, answers.values, answers.asked))
        words = ", ".join(f"{share:.3f}" for share, _ in reported)
        yield Progress(f"{plan.roles.labels:,} agents reported their class: shares of {words}", {})
        learned = yield from ask(Learn(round=1))
        model = learned.hypothesis
        constants = [(constant.name, constant.hypothesis) for constant in reports]
        most = max(range(count), key=lambda c: reported[c][0])
        taught: tuple[str, Hypothesis] = ("model", model)
        rival: tuple[str, Hypothesis] = constants[most]
        calibrated: Argmax | None = None
        if not plan.roles.teachers:
            yield Progress("no agent teaches: all others judge", {})
        elif not isinstance(model, Argmax) or learned.scores is None or len(learned.scores.shares) != count:
            yield Progress("the release does not say how the model's scores lie, so it cannot be taught", {})
        else:
            shares = shares_of(learned.scores.shares, reported)
            odds = ClassOdds.of_sample(learned.scores, shares)
            own, errors = odds.mistakes(), 1.0 - shares
            if plan.roles.testers:
                tested = yield AskAgents(LossQuery(hypothesis=model), plan.roles.testers)
                own, variance = mean_answer(plan.mechanism, tested)
                odds = odds.posterior([odds.right(1.0 - own, variance)])
                yield Progress(f"{plan.roles.testers:,} agents reported whether the model errs: {own:.3f} of them", {})
            best = int(errors.argmin())
            rival = taught if own <= errors[best] else constants[best]
            try:
                odds = yield from _teach(plan, model, odds)
                calibrated = moved(model, odds)
                taught = ("model, recalibrated", calibrated)
            except BadMessage:  # the weights are so large that no multiple of them can be sent
                yield Progress("the model's weights are too large to be recalibrated", {})
                rival = constants[best]
        outcome, judgements = yield from judge(plan, taught, rival, reports)
        if calibrated is not None and isinstance(model, Argmax):
            with suppress(BadMessage):  # a steeper model may need weights that are too large
                calibrated = moved(model, _after(plan, odds, judgements, own=rival[1] == model))
        return replace(outcome, calibrated=calibrated)


def _plan(scenario: ResolvedScenario) -> PortfolioPlan:
    plan = PortfolioPlan.of(scenario)
    first, count = scenario.curator.settings.class_columns
    if not count:
        raise BadScenario(
            "curator.learner: portfolio-classes learns several classes: give a learner that does, such as "
            "discriminant, with the columns in which they stand (classes: {first: ..., count: ...})"
        )
    for side, people in (("source", scenario.source), ("target", scenario.target)):
        if people.dimension < first + count:
            raise BadScenario(
                f"curator.learner.classes: {count} classes from feature {first} on need {first + count} features, the "
                f"{side} people have {people.dimension}"
            )
    if plan.costs is not None:
        raise BadScenario("agents.costs: a miss and a false alarm are of two labels: leave costs out")
    roles = plan.roles.of_classes
    questions = len(halves(count)) + int(roles.both)
    if roles.labels < count or 0 < roles.teachers < questions:
        raise BadScenario(
            f"agents.count: {scenario.agents.count} agents are too few to tell of {count} classes: there must be some "
            f"for each of {count} questions about their class, and of {questions} in each round of teaching"
        )
    return replace(plan, roles=roles)


def _after(plan: PortfolioPlan, odds: ClassOdds, reported: Sequence[Answers], *, own: bool) -> ClassOdds:
    """Return the odds after judges reported how often the taught model errs, and the original one if ``own``.

    The probabilities follow these reports; the classes that the answer names stay as they were judged.
    """
    errors = [mean_answer(plan.mechanism, answers) for answers in reported]
    reports = [odds.right(1.0 - errors[0][0], errors[0][1], odds.scores)]
    if own:
        reports.append(odds.right(1.0 - errors[1][0], errors[1][1]))
    return odds.beside(odds.posterior(reports))


_Question = tuple[tuple[int, ...], int]  # the classes that it is about, and the number of agents


def _teach(plan: PortfolioPlan, model: Argmax, odds: ClassOdds) -> Generator[Any, Any, ClassOdds]:
    """Ask agents for residuals, in rounds: of sets of classes, and also of the slope where agents are many."""
    sets = halves(len(model.hypotheses))
    for number in range(TEACHINGS):
        current, reports = moved(model, odds), []
        for chosen, count in _questions(plan, sets):
            query = ClassResidualQuery(hypothesis=current, chosen=chosen)
            mean, variance = mean_answer(plan.mechanism, (yield AskAgents(query, count)))
            reports.append(ClassReport(2.0 * mean - 1.0, 4.0 * variance, *odds.asked(chosen)))
        odds = odds.posterior(reports)
        yield Progress(f"round {number + 1}: {plan.roles.teachers:,} agents teach the model", {})
    return odds


def _questions(plan: PortfolioPlan, sets: list[tuple[int, ...]]) -> list[_Question]:
    teachers = plan.roles.teachers
    along = teachers - max(len(sets), math.ceil(FIRST * teachers)) if plan.roles.both else 0
    each, more = divmod(teachers - along, len(sets))
    questions: list[_Question] = [(chosen, each + (number < more)) for number, chosen in enumerate(sets)]
    return [*questions, ((), along)] if along else questions


def moved(model: Argmax, odds: ClassOdds) -> Argmax:
    """Return the model with the estimated slope and intercepts; BadMessage if its numbers become too large."""
    scored = [
        recalibrated(hypothesis, odds.slope, (float(intercept),))
        for hypothesis, intercept in zip(model.hypotheses, odds.intercepts, strict=True)
    ]
    return Argmax.parse({"first": model.first, "hypotheses": [hypothesis.wire() for hypothesis in scored]})
