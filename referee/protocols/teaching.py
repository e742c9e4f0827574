"""Teaching: agents tell how far a model's probabilities are from their labels, and how good these are in the end."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.local.hypotheses.composed import Recalibrated
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.losses import Costs, Loss, ScoreCells
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.features import ScoreQuery
from common.local.queries.query import Answers, AskAgents
from common.local.queries.residuals import ResidualQuery
from common.numerics.elementary import exp, log, ordered_sum
from common.operations.operation import Directions, Margins
from common.protocols.base import Progress, demands_of
from common.protocols.portfolio import FIRST, TEACHINGS, Portfolio, Roles
from common.scenario.fitting import QUIET, USUAL, private_excess
from common.scenario.scenario import ResolvedScenario
from common.statistics import calibration
from common.statistics.calibration import QUARTER, Belief, CellShares, Prior, Reported, Within
from common.statistics.curves import ScoreQuality, ScoreShares, bins_for
from common.statistics.frequency import signed_shares
from common.statistics.intervals import tally
from referee.protocols.asking import ask, ask_coded


@dataclass(frozen=True)
class PortfolioPlan:
    """The numbers of a resolved scenario that a portfolio uses.

    Attributes:
        alpha, beta: The gap that is aimed at, and the chance that something that is stated is wrong.
        roles: How many agents tell their label, teach in each round, and judge.
        margins: mu of the curator's count of its people; 0 if there is none.
        noise: What the noise of a private model of so many people may cost: :func:`private_excess`.
        surveys: Whether some agents are surveyed, where they are many: not about several classes, or numbers.
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
    noise: float
    surveys: bool

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
        curator = scenario.curator
        return cls(
            alpha=scenario.alpha,
            beta=scenario.beta,
            loss=scenario.agents.loss,
            bound=scenario.agents.bound,
            costs=scenario.agents.costs,
            mechanism=scenario.agents.bit_mechanism,
            settings=settings,
            roles=roles,
            n=curator.n,
            margins=scenario.margins_mu,
            noise=private_excess(curator.n, curator.epsilon, curator.delta, scenario.source.dimension),
            surveys=demands_of(scenario.protocol).counts,
        )

    @property
    def count(self) -> int:
        roles = self.roles
        return roles.labels + TEACHINGS * roles.teachers + roles.testers + roles.judges + roles.surveyed

    @property
    def cut(self) -> float:
        """The logarithm of the odds of +1 above which +1 costs less."""
        return 0.0 if self.costs is None else self.costs.odds

    def constant(self, share: float) -> int:
        """Return which constant costs less where a share has +1: 0 for -1, 1 for +1."""
        miss, false_alarm = (1.0, 1.0) if self.costs is None else self.costs.weights
        return int(share * miss > (1.0 - share) * false_alarm)


_STEEPEST, _FARTHEST = 1.0, 0.6
"""Standard deviations, beforehand, of ln(slope) and of the ln(odds) at the median score on the sample itself: of any
model the score is believed to be about the logarithm of the odds."""
_UNUSUAL = 1.0
"""The standard deviation of the ln(slope) by how far ln(odds) usually are from their median, of a model whose noise may
cost :data:`common.scenario.fitting.QUIET`."""
_TAUGHT, _UNTAUGHT, _FAR = (0.0, 0.3), (0.25, 0.45), 0.5
"""By how much the population's ln(slope) is less than the sample's on average, and its standard deviation from that,
where agents teach the slope, and where they do not; the scale of how far the ln(odds) are from the sample's.

A score that was learned from some people tells less of others. Where agents teach the slope they tell how much less, so
nothing is taken off beforehand."""
_BINS = 8
_BEYOND = 1e9  # a cut that no score reaches


def mean_answer(mechanism: BitMechanism, answers: Answers) -> tuple[float, float]:
    """Return the mean of the values, in [0, 1], as it is estimated without bias, and the variance of that.

    Where answers have no noise and all are alike the variance is not 0: one more answer might differ.
    """
    total, count = tally(mechanism, answers.values)
    if count == 0:
        return 0.5, 1.0
    mean = (total / count - (1.0 - mechanism.truth)) / (2.0 * mechanism.truth - 1.0)
    return mean, max(mechanism.variance(min(max(mean, 0.0), 1.0)), 1.0 / (count + 1)) / count


@dataclass(frozen=True)
class Taught:
    """What agents taught: ln(odds) = slope * score + intercept; which of both constants and the model is the rival.

    ``own`` are slope and intercept of the curator's people; ``cuts`` of the score divide these into bins; ``few`` is
    what they told, where they are few.
    """

    slope: float
    intercept: float
    rival: int
    bend: float = 0.25
    own: tuple[float, float] = (1.0, 0.0)
    cuts: tuple[float, ...] = ()
    few: TaughtByFew | None = None


@dataclass(frozen=True, eq=False)
class TaughtByFew:
    """What agents told of a model's odds where they are too few for a survey of them: their judges tell more.

    Attributes:
        belief: From a prior that is in doubt, and what those who taught it told.
        within, masses: How people lie by its score.
        cut: The score above which the taught model predicts +1.
        rival: The same of its rival.
        weights: What a miss and a false alarm count.
    """

    belief: Belief
    within: Within
    masses: Floats
    cut: float
    rival: float
    weights: tuple[float, float]

    def judged(self, plan: PortfolioPlan, answers: Sequence[Answers]) -> tuple[float, float]:
        """Return slope and intercept after judges of the taught model, and of its rival, have answered.

        What they say of losses is public by then: nobody is asked, and nothing is spent. It tells the slope, of which
        those who taught an intercept alone have told nothing.
        """
        belief = self.belief
        for cut, judges in zip((self.cut, self.rival), answers, strict=True):
            belief = belief.judged(self.within, self.masses, cut, mean_answer(plan.mechanism, judges), self.weights)
        return belief.expected(self.within, self.masses, (self.cut, plan.cut))


def teach(
    plan: PortfolioPlan, model: Hypothesis, share: tuple[float, float], *, alone: bool = True
) -> Generator[Any, Any, Taught]:
    """Ask the curator for shares of scores and labels among its people, then agents for residuals, in rounds.

    Where further directions are taught, not ``alone``, a third of those who teach are asked here.
    """
    fine = ScoreCells(hypothesis=model, cuts=calibration.FINE_CUTS)
    known = (yield from ask(Margins(cells=fine, mu=plan.margins))).fractions.reshape(fine.bins, 2)
    noise = math.sqrt(2.0) / (plan.n * plan.margins)  # the standard deviation of that on one share
    people = calibration.denoised(known.sum(axis=1), 2.0 * noise**2)
    scores = calibration.middles(fine.cuts)
    cuts = calibration.coarser(people, _BINS)
    held = _cell_shares(known, Within.of(people, cuts, scores), noise, plan.n)
    within, masses = held.within, held.masses
    center = float(scores[int(np.searchsorted(np.cumsum(people), 0.5))])
    spread = math.sqrt(max(float(ordered_sum(people * (scores - center) ** 2)), 1e-6))
    sample_odds = calibration.of_sample(held, beforehand(center, spread, plan.noise))
    own = calibration.octave_quarter(round(sample_odds.step)), sample_odds.intercept
    flatter, steep = _TAUGHT if plan.roles.both else _UNTAUGHT
    prior = sample_odds.transferred(flatter, steep, _FAR)
    reports = [Reported(*share)]
    belief = Belief.of_others(prior.doubted() if plan.roles.both else prior.logarithm()).given(
        within, masses, reports[0]
    )
    teachers = plan.roles.teachers if alone else plan.roles.teachers // _TURNS
    for number in range(TEACHINGS):
        slope, intercept = belief.best()
        about: dict[str, Any] = {"hypothesis": model, "slope": slope, "intercept": intercept}
        both = plan.roles.both
        first = math.ceil(FIRST * teachers) if both else teachers
        asked = [(ResidualQuery(**about), first)]
        if both:
            asked.append((ResidualQuery(**about, center=center), teachers - first))
        for query, count in asked:
            mean, variance = mean_answer(plan.mechanism, (yield AskAgents(query, count)))
            reports.append(Reported(2.0 * mean - 1.0, 4.0 * variance, slope, intercept, query.center))
            belief = belief.given(within, masses, reports[-1])
        yield Progress(f"round {number + 1}: {teachers:,} agents teach the model", {})
    slope, intercept = belief.expected(within, masses)
    weights, cut = (1.0, 1.0), 0.0
    if plan.costs is not None:
        weights, cut = plan.costs.weights, (plan.cut - own[1]) / own[0]
    alone_at = (_BEYOND, -_BEYOND, cut)
    posterior = belief.losses(within, masses, alone_at, weights)
    errs = zip(weights, (share[0], 1.0 - share[0]), strict=True)
    given = [(weight * mean, weight * weight * share[1]) for weight, mean in errs]
    losses = [_together(*of) for of in zip(posterior[:2], given, strict=True)] + [posterior[2][0]]
    rival = min(range(3), key=losses.__getitem__)
    chance = within.means(slope, np.array([intercept]))[0]
    bins = bins_for(plan.roles.surveyed * (2.0 * plan.mechanism.truth - 1.0) ** 2)
    ends = tuple(fine.cuts[end] for end in calibration.coarser(people, bins - 1)) if bins > 2 else ()
    at = (plan.cut - intercept) / slope, alone_at[rival]
    few = None
    if alone and not plan.roles.surveyed and plan.loss == "zero-one":
        for place, reported in enumerate(reports if not plan.roles.both else ()):
            belief = (belief if place else Belief.of_others(prior.doubted())).given(within, masses, reported)
        few = TaughtByFew(belief, within, masses, *at, weights)
    return Taught(slope, intercept, rival, float((masses * np.minimum(chance, 1.0 - chance)).sum()), own, ends, few)


def _cell_shares(known: Floats, within: Within, noise: float, people: int) -> CellShares:
    """Return the shares of coarser cells of a sample of so many ``people``; noise is of one share of ``known``."""
    shares = np.add.reduceat(known, list(within.starts), axis=0)
    merged = np.diff([*within.starts, len(known)])
    return CellShares(shares, np.asarray(merged * noise**2), people, within)


def _together(posterior: tuple[float, float], reported: tuple[float, float]) -> float:
    """Return a constant's loss from its posterior mean and deviation, and from a report with its variance.

    The belief has T's scores from the sample; the report needs no scores.
    """
    deviation = max(posterior[1], 2.0**-20)
    precise, other = 1.0 / (deviation * deviation), 1.0 / reported[1]
    return (posterior[0] * precise + reported[0] * other) / (precise + other)


def beforehand(center: float, spread: float, noise: float) -> Prior:
    """Return what is posterior of a model by its scores alone: their median, and how far they are from it.

    Were a score the ln(odds), the slope would be 1. Were it the ln(odds) plus independent noise, the slope would be the
    part of its variance that the ln(odds) have, (usual/spread)^2. Both are posterior, the second the more so the more
    ``noise`` the model may have: the product of both Gaussian densities of ln(slope) is Gaussian.
    """
    here, noisy = _STEEPEST**-2, noise / QUIET * _UNUSUAL**-2
    flatter = 2.0 * float(log(np.array(min(1.0, USUAL / spread)))) * noisy / (here + noisy)
    return Prior(
        flatter / QUARTER, center * float(exp(np.array(flatter))), 1.0 / math.sqrt(here + noisy), _FARTHEST, center
    )


_TURNS = 3  # where directions are taught, that takes two thirds of those who teach
_ALONG = 0.3  # standard deviation, beforehand, of what a direction adds to ln(odds)


def turned(plan: PortfolioPlan, model: Linear, found: Directions, bend: float) -> Generator[Any, Any, Linear]:
    """Have agents teach further directions u_j, and the intercept, of a model whose score is ln(odds).

    In the sample u_j is 0 on average and of variance 1, so the mean of min(p, 1 - p) |u_j| is taken to be sqrt(2/pi),
    that of a Gaussian's modulus, times ``bend``, the mean of min(p, 1 - p). Round by round residuals are asked for at
    the present model, and what is believed of each coefficient, Gaussian, is moved by them. Errors of these assumptions
    change the pace, not the end.
    """
    rows, offsets = np.array(found.rows), np.array(found.offsets)
    size = len(rows) + 1
    each = (TEACHINGS * (plan.roles.teachers - plan.roles.teachers // _TURNS)) // (_TURNS * size)
    mean, precision = np.zeros(size), np.full(size, 1.0 / _ALONG**2)
    moved = model
    for number in range(_TURNS):
        about: dict[str, Any] = {"hypothesis": moved, "slope": 1.0, "intercept": 0.0}
        asked = [ResidualQuery(**about)]
        pairs = zip(found.rows, found.offsets, strict=True)
        asked += [ResidualQuery(**about, direction=row, center=b) for row, b in pairs]
        for j, query in enumerate(asked):
            reported, variance = mean_answer(plan.mechanism, (yield AskAgents(query, each)))
            here = bend if j == 0 else _MODULUS * bend
            precision[j] += here * here / (4.0 * variance)
            mean[j] += here * (2.0 * reported - 1.0) / (4.0 * variance) / precision[j]
        along = mean[1:]
        weights = tuple((np.array(model.weights) + ordered_sum((along[:, None] * rows).T)).tolist())
        threshold = model.threshold + math.fsum((along * offsets).tolist()) - float(mean[0])
        moved = Linear.parse({"weights": weights, "threshold": threshold})
        yield Progress(f"round {number + 1}: {each * size:,} agents teach {size - 1} directions", {})
    return moved


_MODULUS = 0.7978845608028654  # sqrt(2/pi)


def suited(found: Directions | None, model: Hypothesis) -> Directions | None:
    """Return the directions if they are about the features that a half-space is about."""
    if found is None or not isinstance(model, Linear) or len(found.rows[0]) != len(model.weights):
        return None
    return found


_APART = 0.05  # cuts of the log odds that are nearer to that of the costs are left out


def surveyed(
    calibrated: Hypothesis,
    cuts: Sequence[float],
    cut: float,
    agents: tuple[BitMechanism, int],
    public: int,
    beta: float,
) -> Generator[Any, Any, ScoreQuality]:
    """Ask fresh agents, as many as there are in ``agents`` beside their mechanism, one bit each.

    Args:
        calibrated: Whose margin is the logarithm of the odds of +1.
        cuts: Where bins of the log odds may end; one ends at ``cut``, above which +1 is predicted.
        public: Public randomness of the questions.
        beta: The chance that what holds together does not (:class:`common.statistics.curves.ScoreQuality`).
    """
    ends = sorted({cut, *(other for other in cuts if abs(other - cut) > _APART)})
    cells = cells_of(calibrated, ends)
    mechanism, count = agents
    asked = yield from ask_coded(ScoreQuery(cells=cells, public=public), count)
    shares = signed_shares(asked, mechanism)[: cells.items].reshape(cells.bins, 2)
    answered = sum(len(answers.values) for _, answers in asked)
    return ScoreShares(shares, answered, 1.0 / (2.0 * mechanism.truth - 1.0)).quality(ends, cut, beta)


def cells_of(calibrated: Hypothesis, ends: Sequence[float]) -> ScoreCells:
    """Return the bins of a calibrated score; of a recalibrated one those of the score inside it, which are the same."""
    if isinstance(calibrated, Recalibrated):
        inner, slope, intercept = calibrated.hypothesis, calibrated.slope, calibrated.intercepts[0]
        return ScoreCells(hypothesis=inner, cuts=tuple((end - intercept) / slope for end in ends))
    return ScoreCells(hypothesis=calibrated, cuts=tuple(ends))
