"""Portfolio: a private model, what agents teach it, and what either side has alone, judged by the population."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.composed import above, recalibrated
from common.local.hypotheses.hypothesis import Hypothesis, Linear, plain_kinds
from common.local.hypotheses.rules import Constant
from common.local.losses import Costs, Loss, ScoreCells
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.features import ResidualQuery
from common.local.queries.query import Answers, AskAgents, LossQuery
from common.operations.operation import Directions, Learn, Margins
from common.protocols.base import Progress, pattern_of
from common.protocols.portfolio import FIRST, TEACHINGS, Portfolio, Roles, enrolled
from common.scenario.scenario import ResolvedScenario
from common.statistics import calibration, finalists
from common.statistics.calibration import Belief, CellShares, Prior, Reported, Within
from common.statistics.curves import bins_for
from common.statistics.finalists import SHARES, Difference, Ones
from common.statistics.intervals import certainty, tally
from referee.protocols.asking import ask
from referee.protocols.base import PROTOCOLS, Comparison, JudgedCandidate, Outcome, Protocol, Script
from referee.protocols.survey import surveyed


@dataclass(frozen=True)
class PortfolioPlan:
    """The numbers of a resolved scenario that a portfolio uses.

    Attributes:
        alpha, beta: The gap that is aimed at, and the chance that something that is stated is wrong.
        roles: How many agents tell their label, teach in each round, and judge.
        n: The curator's people.
        margins: Epsilon of the curator's count of its people; 0 if there is none.
    """

    alpha: float
    beta: float
    loss: Loss
    bound: float
    costs: Costs | None
    mechanism: BitMechanism
    settings: Portfolio
    roles: Roles
    n: int
    margins: float

    @classmethod
    def of(cls, scenario: ResolvedScenario) -> Self:
        """Return the scenario's; BadScenario if there are too few agents for a role, or they cannot play it."""
        settings, count = scenario.portfolio or Portfolio(), scenario.agents.count
        roles = Roles.of(count, settings)
        if roles.labels < 1 or roles.judges < 2 or (settings.teach and roles.teachers < 1):
            raise BadScenario(
                f"agents.count: {count} agents are too few for a portfolio: some tell their label, some teach the "
                "model, and each of two finalists has a judge"
            )
        margins = scenario.planned_margins
        return cls(
            alpha=scenario.alpha,
            beta=scenario.beta,
            loss=scenario.agents.loss,
            bound=scenario.agents.bound,
            costs=scenario.agents.costs,
            mechanism=scenario.agents.bit_mechanism,
            settings=settings,
            roles=roles,
            n=scenario.curator.n,
            margins=margins[0].epsilon if margins else 0.0,
        )

    @property
    def cut(self) -> float:
        """The logarithm of the odds of +1 above which +1 costs less."""
        return 0.0 if self.costs is None else self.costs.odds

    def constant(self, share: float) -> int:
        """Return which constant costs less where a share has +1: 0 for -1, 1 for +1."""
        miss, false_alarm = (1.0, 1.0) if self.costs is None else self.costs.weights
        return int(share * miss > (1.0 - share) * false_alarm)


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
            further = _suited(learned.directions, model)
            found = yield from _teach(plan, model, share, alone=further is None)
            try:
                if plan.costs is not None:
                    own = recalibrated(model, found.own[0], (found.own[1] - plan.cut,))
                    alone[2] = ("model", own)
                rival = alone[found.rival]
                name, odds = "model, recalibrated", recalibrated(model, found.slope, (found.intercept,))
                if isinstance(odds, Linear) and further is not None:
                    name, odds = "model, taught", (yield from _turn(plan, odds, further, found.bend))
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
_MODEL = Prior(steep=0.5, far=0.3)
"""What is believed of any model on its own sample: its score is about the logarithm of the odds."""
_STEEP, _FAR = 0.3, 0.7
"""Standard deviations, beforehand, of the population's ln(slope) and intercept from those of the sample."""
_BINS = 8
_BEYOND = 1e9  # a cut that no score reaches


def mean_answer(mechanism: BitMechanism, answers: Answers) -> tuple[float, float]:
    """Return the mean of the values, in [0, 1], as it is estimated without bias, and the variance of that."""
    total, count = tally(mechanism, answers.values)
    if count == 0:
        return 0.5, 1.0
    mean = (total / count - (1.0 - mechanism.truth)) / (2.0 * mechanism.truth - 1.0)
    return mean, mechanism.variance(min(max(mean, 0.0), 1.0)) / count


@dataclass(frozen=True)
class _Taught:
    """What agents taught: ln(odds) = slope * score + intercept; which of both constants and the model is the rival.

    ``own`` are slope and intercept of the curator's people; ``cuts`` of the score divide these into bins.
    """

    slope: float
    intercept: float
    rival: int
    bend: float = 0.25
    own: tuple[float, float] = (1.0, 0.0)
    cuts: tuple[float, ...] = ()


def _teach(
    plan: PortfolioPlan, model: Hypothesis, share: tuple[float, float], *, alone: bool = True
) -> Generator[Any, Any, _Taught]:
    """Ask the curator for shares of scores and labels among its people, then agents for residuals, in two rounds.

    Where further directions are taught, not ``alone``, a third of those who teach are asked here.
    """
    fine = ScoreCells(hypothesis=model, cuts=calibration.FINE_CUTS)
    known = (yield from ask(Margins(cells=fine, epsilon=plan.margins))).fractions.reshape(fine.bins, 2)
    people = calibration.project_to_simplex(known.sum(axis=1), 1.0)
    scores = calibration.middles(fine.cuts)
    cuts = calibration.coarser(people, _BINS)
    within = Within.of(people, cuts, scores)
    sample = np.add.reduceat(known, list(within.starts), axis=0)
    merged = np.diff([*within.starts, fine.bins])
    noise = math.sqrt(2.0) * 2.0 / (plan.n * plan.margins)  # about the standard deviation of the noise on one share
    variances = merged * noise**2 + np.maximum(sample, 0.0).mean(axis=1) / plan.n
    held = CellShares(sample, np.asarray(1.0 / variances), within)
    masses = held.masses
    sample_odds = calibration.of_sample(held, _MODEL)
    own = calibration.octave_quarter(round(sample_odds.step)), sample_odds.intercept
    prior = sample_odds.widened(_STEEP, _FAR)
    belief = Belief(prior.logarithm()).given(within, masses, Reported(*share))
    center = float(scores[int(np.searchsorted(np.cumsum(people), 0.5))])
    spread = math.sqrt(max(float(people @ (scores - center) ** 2), 1e-6))
    teachers = plan.roles.teachers if alone else plan.roles.teachers // _TURNS
    for number in range(TEACHINGS):
        slope, intercept = belief.best()
        about: dict[str, Any] = {"hypothesis": model, "slope": slope, "intercept": intercept}
        both = plan.roles.both
        first = math.ceil(FIRST * teachers) if both else teachers
        asked = [(ResidualQuery(**about), first)]
        if both:
            asked.append((ResidualQuery(**about, center=center, spread=spread), teachers - first))
        for query, count in asked:
            mean, variance = mean_answer(plan.mechanism, (yield AskAgents(query, count)))
            reported = Reported(2.0 * mean - 1.0, 4.0 * variance, slope, intercept, query.center, query.spread)
            belief = belief.given(within, masses, reported)
        yield Progress(f"round {number + 1}: {teachers:,} agents teach the model", {})
    slope, intercept = belief.best()
    weights, cut = (1.0, 1.0), 0.0
    if plan.costs is not None:
        weights, cut = plan.costs.weights, (plan.cut - own[1]) / own[0]
    losses = belief.losses(within, masses, (_BEYOND, -_BEYOND, cut), weights)
    rival = min(range(3), key=lambda k: losses[k][0])
    chance = within.means(slope, np.array([intercept]))[0]
    bins = bins_for(plan.roles.surveyed * (2.0 * plan.mechanism.truth - 1.0) ** 2)
    ends = tuple(fine.cuts[end] for end in calibration.coarser(people, bins - 1)) if bins > 2 else ()
    return _Taught(slope, intercept, rival, float((masses * chance * (1.0 - chance)).sum()), own, ends)


_TURNS = 3  # where directions are taught, that takes two thirds of those who teach
_ALONG = 0.5  # standard deviation, beforehand, of what a direction adds to ln(odds)


def _turn(plan: PortfolioPlan, model: Linear, found: Directions, bend: float) -> Generator[Any, Any, Linear]:
    """Have agents teach further directions u_j, and the intercept, of a model whose score is ln(odds).

    In the sample they are uncorrelated and of variance 1, so the mean of p (1 - p) u_j^2 is taken to be ``bend``, that
    of p (1 - p). Round by round the gradient is asked for at the present model, and what is believed of each
    coefficient, Gaussian, is moved by it. Errors of these assumptions change the pace, not the end.
    """
    rows, offsets = np.array(found.rows), np.array(found.offsets)
    size = len(rows) + 1
    each = (TEACHINGS * (plan.roles.teachers - plan.roles.teachers // _TURNS)) // (_TURNS * size)
    mean, precision = np.zeros(size), np.full(size, 1.0 / _ALONG**2)
    turned = model
    for number in range(_TURNS):
        about: dict[str, Any] = {"hypothesis": turned, "slope": 1.0, "intercept": 0.0}
        asked = [ResidualQuery(**about)]
        asked += [ResidualQuery(**about, direction=row, center=b, spread=_WIDE) for row, b in _pairs(found)]
        for j, query in enumerate(asked):
            reported, variance = mean_answer(plan.mechanism, (yield AskAgents(query, each)))
            units = 2.0 if j == 0 else 2.0 * _WIDE
            slope, noise = units * (reported - 0.5), units * units * variance
            precision[j] += bend * bend / noise
            mean[j] += bend * slope / noise / precision[j]
        along = mean[1:]
        turned = Linear.parse(
            {
                "weights": tuple((np.array(model.weights) + _together(along, rows)).tolist()),
                "threshold": model.threshold + math.fsum((along * offsets).tolist()) - float(mean[0]),
            }
        )
        yield Progress(f"round {number + 1}: {each * size:,} agents teach {size - 1} directions", {})
    return turned


_WIDE = 1.0  # deviations from the middle at which an instrument is cut off


def _suited(found: Directions | None, model: Hypothesis) -> Directions | None:
    """Return the directions if they are about the features that a half-space is about."""
    if found is None or not isinstance(model, Linear) or len(found.rows[0]) != len(model.weights):
        return None
    return found


def _pairs(found: Directions) -> Iterator[tuple[tuple[float, ...], float]]:
    return zip(found.rows, found.offsets, strict=True)


def _together(along: Floats, rows: Floats) -> Floats:
    """Return the sum of the rows by their coefficients, one after the other: alike on every machine."""
    total = np.zeros(rows.shape[1])
    for coefficient, row in zip(along, rows, strict=True):
        total = total + coefficient * row
    return total


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
