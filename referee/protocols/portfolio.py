"""Portfolio: a private model, what agents teach it, and what either side has alone, judged by the population."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from common.core.errors import BadMessage
from common.local.hypotheses.composed import above, recalibrated
from common.local.hypotheses.hypothesis import Hypothesis, Linear, plain_kinds
from common.local.hypotheses.rules import Constant
from common.local.queries.query import Answers, AskAgents, LossQuery
from common.operations.operation import Learn
from common.protocols.base import Progress, pattern_of
from common.protocols.portfolio import Portfolio, Roles, enrolled
from common.scenario.scenario import ResolvedScenario
from common.statistics import finalists
from common.statistics.finalists import SHARES, Difference, Ones
from common.statistics.intervals import certainty
from referee.protocols.asking import ask
from referee.protocols.base import PROTOCOLS, Comparison, JudgedCandidate, Outcome, Protocol, Script
from referee.protocols.teaching import PortfolioPlan, mean_answer, suited, surveyed, teach, turned


@PROTOCOLS.register("portfolio")
class PortfolioProtocol(Protocol):
    """Learn, teach, judge. The answer is better than what either side has alone, up to a stated gap.

    docs/portfolio.md has each step. The curator learns one model. Agents tell their label; then others teach the
    model: they tell how far its probabilities are from their labels (:mod:`common.statistics.calibration`). Of what
    either side has alone, the model as it was and both constants, the one that is believed to be best is the rival.
    Agents who were not asked before judge the taught model and the rival, their number fixed beforehand
    (:mod:`common.statistics.finalists`: theorem and proof).

    ``done``: the answer's loss on T exceeds that of the rival by at most alpha, with probability 1 - beta over the
    judges, whatever S, T, the models and what was taught are. ``exhausted``: the same for the gap that is stated.
    """

    title = "Portfolio"
    done = (
        "with probability {sure} at least, over which agents judge and over their noise, the answer's loss on T "
        "exceeds that of its rival, which is what one side has alone, by {alpha} at most, among those who answer; no "
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
        share = mean_answer(plan.mechanism, reports)
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
            found = yield from teach(plan, model, share, alone=further is None)
            try:
                if plan.costs is not None:
                    own = recalibrated(model, found.own[0], (found.own[1] - plan.cut,))
                    alone[2] = ("model", own)
                rival = alone[found.rival]
                name, odds = "model, recalibrated", recalibrated(model, found.slope, (found.intercept,))
                if isinstance(odds, Linear) and further is not None:
                    name, odds = "model, taught", (yield from turned(plan, odds, further, found.bend))
                taught, calibrated = (name, odds if plan.costs is None else above(odds, plan.cut)), odds
            except BadMessage:  # the weights are so large that no multiple of them can be sent
                yield Progress("the model's weights are too large to be recalibrated", {})
                rival = alone[plan.constant(share[0])]
        quality = None
        if calibrated is not None and plan.roles.surveyed:
            cuts = tuple(found.slope * score + found.intercept for score in found.cuts)
            asked = plan.mechanism, plan.roles.surveyed
            quality = yield from surveyed(calibrated, cuts, plan.cut, asked, public, plan.beta)
            yield Progress(f"{quality.agents:,} agents tell in which bin the score has them, and their label", {})
        outcome = yield from judge(plan, taught, rival)
        return replace(outcome, calibrated=calibrated, quality=quality)


_MINUS, _PLUS = Constant(label=-1), Constant(label=1)


def judge(plan: PortfolioPlan, answer: tuple[str, Hypothesis], rival: tuple[str, Hypothesis]) -> Script:
    """Have fresh agents judge both finalists; the rival is the answer only if it is shown to be better."""
    half, reported = plan.roles.judges // 2, []
    for (_, hypothesis), count in ((answer, plan.roles.judges - half), (rival, half)):
        query = LossQuery(hypothesis=hypothesis, loss=plan.loss, bound=plan.bound, costs=plan.costs)
        reported.append((yield AskAgents(query, count)))
    return _ended(plan, (answer, rival), reported)


def _ended(plan: PortfolioPlan, finalists_: tuple[tuple[str, Hypothesis], ...], reported: list[Answers]) -> Outcome:
    mechanism, beta = plan.mechanism, plan.beta
    confidence = 1.0 - beta
    ones = [Ones(int(answers.values.sum(dtype=np.int64)), len(answers.values)) for answers in reported]
    estimates = [
        finalists.estimated(mechanism, of, SHARES[name] * beta, confidence)
        for of, name in zip(ones, ("answer", "alone"), strict=True)
    ]
    found = Difference.of(mechanism, reported[0].values, reported[1].values)
    low, high = found.low(SHARES["worse"] * beta), found.high(SHARES["gap"] * beta)
    worse = low > 0.0
    judged = tuple(
        JudgedCandidate(name, hypothesis, estimate, of.asked)
        for (name, hypothesis), estimate, of in zip(finalists_, estimates, reported, strict=True)
    )
    gap = 0.0 if worse else max(0.0, high)
    (name, answer), (other, _) = reversed(finalists_) if worse else finalists_
    needed = finalists.settling(mechanism, found, beta)
    comparison = Comparison(
        rival=finalists_[1][0],
        value=found.value,
        low=low,
        high=high,
        confidence=confidence,
        likely=found.bounds(1.0 - finalists.LIKELY),
        probable=found.bounds(1.0 - finalists.PROBABLE),
        agents=None if needed is None else enrolled(needed, plan.settings),
    )
    sure = gap <= plan.alpha
    status: Literal["done", "exhausted"] = "done" if sure else "exhausted"
    most = f"at most {math.ceil(gap * 1e4) / 1e4:.4f} worse than {other!r}" if gap else f"better than {other!r}"
    reason = f"{name!r} is shown with {certainty(confidence)} confidence to be {most}"
    return Outcome(status, 1, answer, estimates[int(worse)], reason, judged=judged, gap=gap, comparison=comparison)
