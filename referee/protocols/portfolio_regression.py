"""Portfolio of a regression: agents teach it where its predictions are too high or too flat, and judge it."""

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.hypothesis import Hypothesis, Regressor
from common.local.queries.query import AskAgents
from common.local.queries.residuals import ResponseResidualQuery
from common.operations.operation import Learn
from common.protocols.base import Progress, pattern_of
from common.protocols.portfolio import FIRST, TEACHINGS, Roles
from common.scenario.scenario import ResolvedScenario
from common.statistics.lines import Line, plain
from referee.protocols.asking import ask
from referee.protocols.base import PROTOCOLS, Script
from referee.protocols.portfolio import PortfolioProtocol, judge
from referee.protocols.teaching import PortfolioPlan, mean_answer

ENOUGH = 530
"""If so many agents teach in each round, some of them report the slope; fewer report the offset alone."""


@PROTOCOLS.register("portfolio-regression")
class PortfolioRegression(PortfolioProtocol):
    """The portfolio for a number in place of a label: docs/portfolio.md, "A number in the place of a label".

    The response is the last feature, in [0, 1] by its public bounds. Agents report it, which gives a constant. The
    curator learns a regression; in three rounds other agents report their residual, or its product with the distance of
    the prediction from the middle. Offset and slope on T follow from these (:mod:`common.statistics.lines`). Agents who
    were not asked before judge the taught model and its rival by the squared loss, or by its part of a public bound
    (agents.bound). The rival is the original model or the constant: the one with the smaller expected loss.

    The theorem of the portfolio holds for any loss in [0, 1] for which an agent's bit is 1 with probability (1 - p) +
    (2p - 1) loss, so it holds for this one. Where residuals exceed the square root of the bound, it is about the
    squared loss clipped there.
    """

    done = (
        "with probability {sure} at least, over which agents judge and over their noise, the answer's squared loss on "
        "T, as a part of the bound, exceeds that of its rival, which is what one side has alone, by {gap} at most, "
        "among those who answer; no level is tested, and both losses may be large"
    )
    pattern = pattern_of("portfolio-regression")
    small = (
        "protocol=portfolio-regression",
        "curator.rounds=1",
        "curator.learner={name: sgd, loss: squared, steps: 2000, clip: 2.0, noise: 2.0, diameter: 4.0}",
        "agents.loss=squared",
    )

    def asks(self, scenario: ResolvedScenario) -> frozenset[str]:
        return frozenset({"loss", "response-residual"})

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan, response = _plan(scenario), scenario.source.dimension - 1
        if plan.loss != "squared" or scenario.curator.settings.surrogate_loss != "squared":
            raise BadScenario(
                "portfolio-regression predicts a number: set agents.loss to squared, and take a learner of that loss, "
                "such as least-squares"
            )
        query = ResponseResidualQuery(hypothesis=_constant(0.5, response), reach=0.5)
        reports = yield AskAgents(query, plan.roles.labels)
        apart, _ = plain(*mean_answer(plan.mechanism, reports), 0.5)
        middle = min(1.0, max(0.0, 0.5 + apart))
        yield Progress(f"{reports.asked:,} agents reported their response: {middle:.3f} of its bounds on average", {})
        model = (yield from ask(Learn(round=1))).hypothesis
        alone = [("constant", _constant(middle, response)), ("model", model)]
        taught: tuple[str, Hypothesis] = alone[1]
        rival = alone[0]
        if plan.roles.teachers and isinstance(model, Regressor):
            try:
                line = yield from _teach(plan, model)
                # A model that is not better than the constant by itself is no rival.
                of_model, of_constant = line.excess(line.center, line.spread), line.excess(middle, 0.0)
                rival = alone[int(of_model <= of_constant)]
                taught = ("model, recalibrated", model.recalibrated(*line.recalibration))
            except BadMessage:  # the weights are so large that no multiple of them can be sent
                yield Progress("the model's weights are too large to be recalibrated", {})
                rival = alone[0]
        return (yield from judge(plan, taught, rival))[0]


_TELL = 10
"""One in so many teachers reports the response instead: the mean is half of what is to be learned."""


def _plan(scenario: ResolvedScenario) -> PortfolioPlan:
    plan = PortfolioPlan.of(scenario)
    fewer = plan.roles.teachers // _TELL
    labels, teachers = plan.roles.labels + TEACHINGS * fewer, plan.roles.teachers - fewer
    return replace(plan, roles=Roles(labels, teachers, plan.roles.unsurveyed.judges, plan.roles.both))


def _constant(value: float, response: int) -> Regressor:
    return Regressor(weights=(0.0,), intercept=value, response=response)


_UNKNOWN = 0.5, 0.125
"""Center and spread of the predictions of a model that does not state them: spread over half of the bounds."""


def _teach(plan: PortfolioPlan, model: Regressor) -> Generator[Any, Any, Line]:
    """Ask agents for residuals, in rounds; if the model states how its predictions lie, also for their slope."""
    known = model.center is not None and model.spread is not None
    line = Line.of_sample(*((model.center, model.spread) if known else _UNKNOWN))  # type: ignore[arg-type]
    reach = math.sqrt(min(1.0, plan.bound))
    for number in range(TEACHINGS):
        slope, intercept = line.recalibration
        current = model.recalibrated(slope, intercept)
        both = known and plan.roles.teachers >= ENOUGH
        first = math.ceil(FIRST * plan.roles.teachers) if both else plan.roles.teachers
        asked = [(ResponseResidualQuery(hypothesis=current, reach=reach), first)]
        if both:
            middle = {"center": slope * line.center + intercept, "spread": slope * line.spread}
            asked.append(
                (ResponseResidualQuery(hypothesis=current, reach=reach, **middle), plan.roles.teachers - first)
            )
        updated = line
        for query, count in asked:
            mean, variance = plain(*mean_answer(plan.mechanism, (yield AskAgents(query, count))), reach)
            updated = updated.posterior(mean, variance, query.spread is not None)
        line = updated
        yield Progress(f"round {number + 1}: {plan.roles.teachers:,} agents teach the model", {})
    return line
