"""Portfolio: a private model, what agents teach it, and what either side has alone, judged by the population."""

import math
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from common.core.arrays import Bits
from common.core.errors import BadMessage
from common.local.hypotheses.composed import above, recalibrated
from common.local.hypotheses.hypothesis import Hypothesis, Linear, plain_kinds
from common.local.hypotheses.rules import Constant
from common.local.queries.query import Answers, AskAgents, LossQuery
from common.operations.operation import Learn
from common.protocols.base import Progress, pattern_of
from common.protocols.portfolio import Portfolio, Roles, enrolled
from common.scenario.fitting import taught_within, vague_probabilities
from common.scenario.scenario import ResolvedScenario
from common.statistics import finalists
from common.statistics.finalists import OF_CONSTANTS, SHARES, BinomialCount, Difference, ToBestConstant, ToConstant
from common.statistics.intervals import Estimate, certainty
from referee.protocols.asking import ask
from referee.protocols.base import (
    PROTOCOLS,
    BestConstant,
    Comparison,
    JudgedCandidate,
    Outcome,
    Protocol,
    Script,
    difference_in_words,
)
from referee.protocols.teaching import PortfolioPlan, mean_answer, suited, surveyed, teach, turned


@PROTOCOLS.register("portfolio")
class PortfolioProtocol(Protocol):
    """The curator learns, agents correct the model, others test it: no worse than either side alone, up to a gap.

    docs/portfolio.md has each step. The curator learns one model. Some agents report their label; then others teach the
    model: they report how far its probabilities are from their labels (:mod:`common.statistics.calibration`). The rival
    is the best, by the posterior, of what either side has alone: the original model and both constants. Agents who were
    not asked before judge the taught model and the rival; their number is fixed beforehand
    (:mod:`common.statistics.finalists`: theorem and proof).

    ``done``: the answer's loss on T exceeds that of the rival by at most alpha, with probability 1 - beta over the
    judges, whatever S, T, the models and what was taught are. ``exhausted``: the same for the gap that is stated.
    """

    done = (
        "with probability {sure} at least, over which agents judge and over their noise, the answer's loss on T "
        "exceeds that of its rival, which is what one side has alone, by {gap} at most, among those who answer; no "
        "level is tested, and both losses may be large"
    )
    pattern = pattern_of("portfolio")
    small: ClassVar[tuple[str, ...]] = ("protocol=portfolio", "curator.rounds=1")

    def asks(self, scenario: ResolvedScenario) -> frozenset[str]:
        settings = scenario.portfolio or Portfolio()
        surveys = Roles.of(scenario.agents.count, settings).surveyed > 0
        asked = {"loss": True, "residual": settings.teach > 0.0, "score": surveys}
        return frozenset(kind for kind in asked if asked[kind])

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = PortfolioPlan.of(scenario)
        reports = yield AskAgents(LossQuery(hypothesis=_MINUS), plan.roles.labels)
        share, constants = mean_answer(plan.mechanism, reports), _both(plan, reports)
        yield Progress(f"{reports.asked:,} agents reported their label: a share of {share[0]:.3f} has +1", {})
        learned = yield from ask(Learn(round=1, directions=plan.roles.directions))
        model = learned.hypothesis
        alone = [("constant -1", _MINUS), ("constant +1", _PLUS), ("model", model)]
        rival = alone[2] if plan.margins else alone[plan.constant(share[0])]
        taught: tuple[str, Hypothesis] = alone[2]
        calibrated: Hypothesis | None = None
        if not plan.margins:
            yield Progress("no agent teaches: all others judge", {})
        elif model.kind not in plain_kinds() or isinstance(model, Constant):
            yield Progress(f"a model of kind {model.kind} has no score, so it cannot be taught", {})
            rival = alone[plan.constant(share[0])]
        else:
            further = suited(learned.directions, model)
            fit = yield from teach(plan, model, share, alone=further is None)
            try:
                if plan.costs is not None:
                    own = recalibrated(model, fit.own[0], (fit.own[1] - plan.cut,))
                    alone[2] = ("model", own)
                rival = alone[fit.rival]
                name, odds = "model, recalibrated", recalibrated(model, fit.slope, (fit.intercept,))
                if isinstance(odds, Linear) and further is not None:
                    name, odds = "model, taught", (yield from turned(plan, odds, further, fit.bend))
                taught, calibrated = (name, odds if plan.costs is None else above(odds, plan.cut)), odds
            except BadMessage:  # the weights are so large that no multiple of them can be sent
                yield Progress("the model's weights are too large to be recalibrated", {})
                rival = alone[plan.constant(share[0])]
        quality = None
        if calibrated is not None and plan.roles.surveyed:
            cuts = tuple(fit.slope * score + fit.intercept for score in fit.cuts)
            asked = plan.mechanism, plan.roles.surveyed
            quality = yield from surveyed(calibrated, cuts, plan.cut, asked, public, plan.beta)
            yield Progress(f"{quality.agents:,} agents tell in which bin the score has them, and their label", {})
        outcome, answers = yield from judge(plan, taught, rival, constants)
        if calibrated is not None and fit.few is not None:
            slope, intercept = fit.few.judged(plan, answers)
            with suppress(BadMessage):  # a steeper line may need weights that are too large
                calibrated = recalibrated(model, slope, (intercept,))
        vague = None if calibrated is None else _vague(scenario, plan)
        reason = outcome.reason if vague is None else f"{outcome.reason}. {vague}"
        return replace(outcome, reason=reason, calibrated=calibrated, quality=quality)


def _vague(scenario: ResolvedScenario, plan: PortfolioPlan) -> str | None:
    people, curator = (plan.n, scenario.agents.count), scenario.curator
    taught = taught_within(plan.mechanism, plan.roles)
    return vague_probabilities(people, (curator.epsilon, curator.delta), scenario.source.dimension, taught)


_MINUS, _PLUS = Constant(label=-1), Constant(label=1)


@dataclass(frozen=True)
class ReportedConstant:
    """A constant, and bits of ``asked`` agents who reported whether it errs; a mistake of it costs ``weight``."""

    name: str
    hypothesis: Hypothesis
    bits: Bits
    asked: int
    weight: float = 1.0


def _both(plan: PortfolioPlan, reports: Answers) -> list[ReportedConstant]:
    """Return both constants with the bits of agents who reported their label: where -1 errs, +1 does not."""
    if plan.loss != "zero-one":
        return []
    weights = (1.0, 1.0) if plan.costs is None else plan.costs.weights
    bits = (reports.values, np.asarray(1 - reports.values, dtype=reports.values.dtype))
    return [
        ReportedConstant(f"constant {constant.label:+d}", constant, values, reports.asked, weight)
        for constant, values, weight in zip((_MINUS, _PLUS), bits, weights, strict=True)
    ]


def judge(
    plan: PortfolioPlan,
    answer: tuple[str, Hypothesis],
    rival: tuple[str, Hypothesis],
    constants: Sequence[ReportedConstant] = (),
) -> Generator[Any, Any, tuple[Outcome, list[Answers]]]:
    """Have fresh agents judge both finalists; the rival is the answer only if it is shown to be better.

    The answer is also compared with the best of the reported constants other than the rival: the rival was chosen as
    the best of them by its posterior, and may not be. Return the outcome and the judges' answers about either finalist.
    """
    half, reported = plan.roles.judges // 2, []
    for (_, hypothesis), count in ((answer, plan.roles.judges - half), (rival, half)):
        query = LossQuery(hypothesis=hypothesis, loss=plan.loss, bound=plan.bound, costs=plan.costs)
        reported.append((yield AskAgents(query, count)))
    outcome = _ended(plan, (answer, rival), reported)
    rest = [constant for constant in constants if constant.hypothesis != rival[1]]
    if not rest or (len(rest) < len(constants) and outcome.answer == rival[1]):
        return outcome, reported
    chosen = len(rest) < len(constants)
    return replace(outcome, constant=_best_constant(plan, outcome, reported, rest, chosen)), reported


def _best_constant(
    plan: PortfolioPlan,
    outcome: Outcome,
    reported: Sequence[Answers],
    constants: Sequence[ReportedConstant],
    chosen: bool,
) -> BestConstant:
    """Compare the answer with the best constant, by the taught model's judges and the reports about the constants.

    ``chosen``: one more constant is the rival. With two labels its judges' bits also show how often the other one errs.

    If the rival is the answer, the interval of the difference shows that it is better than the taught model: the bounds
    then follow from both intervals, and there are none that hold by themselves.
    """
    beta, between, ones = plan.beta, outcome.comparison, _ones(reported[0].values)
    excess = ToBestConstant(
        [ToConstant(plan.mechanism, ones, _ones(constant.bits), constant.weight) for constant in constants],
        chosen=chosen,
    )
    if chosen and plan.costs is None and isinstance(constants[0].hypothesis, Constant):
        answers, rivals = (answers.values for answers in reported)
        excess = ToBestConstant([Difference.of(plan.mechanism, answers, np.asarray(1 - rivals, dtype=rivals.dtype))])
    low, high = excess.low(OF_CONSTANTS["constant better"] * beta), excess.high(OF_CONSTANTS["constant"] * beta)
    times = excess.times_settling(OF_CONSTANTS["constant"] * beta)
    alone = [_constant_loss(plan, constant, OF_CONSTANTS["constant alone"] / len(constants)) for constant in constants]
    constant, loss = min(zip(constants, alone, strict=True), key=lambda pair: pair[1].value)
    comparison = _compared(
        plan, constant.name, excess, (low, high), None if times is None else math.ceil(plan.count * times)
    )
    if between is not None and between.low > 0.0:
        less = max(-1.0, excess.value - between.value), max(-1.0, low - between.high)
        comparison = replace(comparison.vague, value=less[0], low=less[1], high=high)
    return BestConstant(JudgedCandidate(constant.name, constant.hypothesis, loss, constant.asked), comparison)


def _compared(
    plan: PortfolioPlan,
    rival: str,
    difference: Difference | ToBestConstant,
    ends: tuple[float, float],
    agents: int | None,
) -> Comparison:
    misses = (1.0 - finalists.LIKELY, 1.0 - finalists.PROBABLE)
    likely, probable = ((difference.low(miss), difference.high(miss)) for miss in misses)
    return Comparison(rival, difference.value, *ends, 1.0 - plan.beta, likely, probable, agents)


def _ones(bits: Bits) -> BinomialCount:
    return BinomialCount(int(bits.sum(dtype=np.int64)), len(bits))


def _constant_loss(plan: PortfolioPlan, constant: ReportedConstant, share: float) -> Estimate:
    """Return a constant's loss, with its weight per mistake; its interval fails with that share of beta."""
    estimate = finalists.estimated(plan.mechanism, _ones(constant.bits), share * plan.beta, 1.0 - plan.beta)
    ends = {end: constant.weight * getattr(estimate, end) for end in ("value", "low", "high")}
    return estimate.model_copy(update=ends)


def _ended(plan: PortfolioPlan, finalists_: tuple[tuple[str, Hypothesis], ...], reported: list[Answers]) -> Outcome:
    mechanism, beta, confidence = plan.mechanism, plan.beta, 1.0 - plan.beta
    ones = [_ones(answers.values) for answers in reported]
    estimates = [
        finalists.estimated(mechanism, counts, SHARES[name] * beta, confidence)
        for counts, name in zip(ones, ("answer", "alone"), strict=True)
    ]
    difference = Difference.of(mechanism, reported[0].values, reported[1].values)
    low, high = difference.low(SHARES["worse"] * beta), difference.high(SHARES["gap"] * beta)
    worse = low > 0.0
    judged = tuple(
        JudgedCandidate(name, hypothesis, estimate, answers.asked)
        for (name, hypothesis), estimate, answers in zip(finalists_, estimates, reported, strict=True)
    )
    gap = 0.0 if worse else max(0.0, high)
    (name, answer), (other, _) = reversed(finalists_) if worse else finalists_
    needed = finalists.settling(mechanism, difference, beta)
    agents = None if needed is None else enrolled(needed, plan.settings, surveys=plan.surveys)
    comparison = _compared(plan, finalists_[1][0], difference, (low, high), agents)
    status: Literal["done", "exhausted"] = "done" if gap <= plan.alpha else "exhausted"
    most = f"at most {difference_in_words(plan.loss, plan.costs, gap)} worse than" if gap else "better than"
    reason = f"{name!r} is shown with {certainty(confidence)} confidence to be {most} {other!r}"
    return Outcome(status, 1, answer, estimates[int(worse)], reason, judged=judged, gap=gap, comparison=comparison)
