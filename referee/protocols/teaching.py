"""Teaching: agents report residuals of a model's probabilities, which recalibrate it, and survey its quality."""

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
from common.statistics.calibration import QUARTER, Belief, CellShares, Prior, Reported, WithinBins
from common.statistics.curves import ScoreQuality, ScoreShares, bins_for
from common.statistics.frequency import signed_shares
from common.statistics.intervals import tally
from referee.protocols.asking import ask, ask_coded


@dataclass(frozen=True)
class PortfolioPlan:
    """The numbers of a resolved scenario that a portfolio uses.

    Attributes:
        alpha, beta: The gap that the run aims at, and the chance that one of its statements is wrong.
        roles: How many agents report their label, teach in each round, and judge.
        margins: mu of the curator's noisy count of its people by score and label; 0 if there is none.
        noise: The excess loss that noise may cause in a private model of n people: :func:`private_excess`.
        surveys: Whether some agents are surveyed if there are many: not for several classes, nor for regression.
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
        """Return the scenario's plan; BadScenario if agents are too few for a role, or do not answer with bits."""
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
        """The ln(odds) of +1 above which predicting +1 costs less."""
        return 0.0 if self.costs is None else self.costs.odds

    def constant(self, share: float) -> int:
        """Return which constant prediction costs less if this share of people has label +1: 0 for -1, 1 for +1."""
        miss, false_alarm = (1.0, 1.0) if self.costs is None else self.costs.weights
        return int(share * miss > (1.0 - share) * false_alarm)


_STEEPEST, _FARTHEST = 1.0, 0.6
"""Prior standard deviations, on the sample itself, of ln(slope) and of the ln(odds) at the median score. The prior of
any model expects its score to be about the logarithm of the odds."""
_UNUSUAL = 1.0
"""Standard deviation of ln(slope) in the prior by the usual distance of ln(odds) from their median, for a model whose
noise may cost :data:`common.scenario.fitting.QUIET`."""
_TAUGHT, _UNTAUGHT, _FAR = (0.0, 0.3), (0.25, 0.45), 0.5
"""Mean and standard deviation of how much smaller ln(slope) is in the population than in the sample, where agents teach
the slope, and where they do not; the scale of the distance of the ln(odds) from the sample's.

A score that was learned from some people is less informative about others. Where agents teach the slope, they report
how much less, so the prior subtracts nothing."""
_BINS = 8
_BEYOND = 1e9  # a cut that no score reaches


def mean_answer(mechanism: BitMechanism, answers: Answers) -> tuple[float, float]:
    """Return an unbiased estimate of the mean of the values, which are in [0, 1], and the variance of this estimate.

    The variance is not 0 even if answers have no noise and are all equal: one more answer might differ.
    """
    total, count = tally(mechanism, answers.values)
    if count == 0:
        return 0.5, 1.0
    mean = (total / count - (1.0 - mechanism.truth)) / (2.0 * mechanism.truth - 1.0)
    return mean, max(mechanism.variance(min(max(mean, 0.0), 1.0)), 1.0 / (count + 1)) / count


@dataclass(frozen=True)
class Taught:
    """What agents taught: ln(odds) = slope * score + intercept, and the index of the rival: constant -1, +1 or model.

    ``own`` has slope and intercept for the curator's people; ``cuts`` of the score divide these people into bins;
    ``few`` is the posterior from the teachers' answers, where agents are few.
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
    """A posterior of a model's odds where agents are too few for a survey: the judges' answers update it.

    Attributes:
        belief: The posterior from a prior with doubt (:meth:`Prior.doubted`) and the teachers' answers.
        within, masses: How people are distributed by the model's score.
        cut: The score above which the taught model predicts +1.
        rival: The score above which its rival predicts +1.
        weights: What a miss and a false alarm count.
    """

    belief: Belief
    within: WithinBins
    masses: Floats
    cut: float
    rival: float
    weights: tuple[float, float]

    def judged(self, plan: PortfolioPlan, answers: Sequence[Answers]) -> tuple[float, float]:
        """Return slope and intercept after the judges of the taught model, and of its rival, have answered.

        Their answers about losses are public by then, so this asks no agent and spends no budget. The answers are
        informative about the slope, which agents who taught an intercept alone have not reported.
        """
        belief = self.belief
        for cut, judges in zip((self.cut, self.rival), answers, strict=True):
            belief = belief.judged(self.within, self.masses, cut, mean_answer(plan.mechanism, judges), self.weights)
        return belief.expected(self.within, self.masses, (self.cut, plan.cut))


def teach(
    plan: PortfolioPlan, model: Hypothesis, share: tuple[float, float], *, alone: bool = True
) -> Generator[Any, Any, Taught]:
    """Ask the curator for shares of its people by score and label, then agents for residuals, in rounds.

    If further directions are taught (``alone`` is false), this asks a third of the teachers.
    """
    fine = ScoreCells(hypothesis=model, cuts=calibration.FINE_CUTS)
    fractions = (yield from ask(Margins(cells=fine, mu=plan.margins))).fractions.reshape(fine.bins, 2)
    noise = math.sqrt(2.0) / (plan.n * plan.margins)  # standard deviation of the noise on one share
    people = calibration.denoised(fractions.sum(axis=1), 2.0 * noise**2)
    scores = calibration.middles(fine.cuts)
    cuts = calibration.coarser(people, _BINS)
    cells = _cell_shares(fractions, WithinBins.of(people, cuts, scores), noise, plan.n)
    within, masses = cells.within, cells.masses
    center = float(scores[int(np.searchsorted(np.cumsum(people), 0.5))])
    spread = math.sqrt(max(float(ordered_sum(people * (scores - center) ** 2)), 1e-6))
    sample_odds = calibration.of_sample(cells, beforehand(center, spread, plan.noise))
    own = calibration.octave_quarter(round(sample_odds.step)), sample_odds.intercept
    flatter, steep = _TAUGHT if plan.roles.both else _UNTAUGHT
    prior = sample_odds.transferred(flatter, steep, _FAR)
    reports = [Reported(*share)]
    belief = Belief.of_others(prior.doubted() if plan.roles.both else prior.logarithm()).posterior(
        within, masses, reports[0]
    )
    teachers = plan.roles.teachers if alone else plan.roles.teachers // _TURNS
    for number in range(TEACHINGS):
        slope, intercept = belief.best()
        options: dict[str, Any] = {"hypothesis": model, "slope": slope, "intercept": intercept}
        both = plan.roles.both
        first = math.ceil(FIRST * teachers) if both else teachers
        asked = [(ResidualQuery(**options), first)]
        if both:
            asked.append((ResidualQuery(**options, center=center), teachers - first))
        for query, count in asked:
            mean, variance = mean_answer(plan.mechanism, (yield AskAgents(query, count)))
            reports.append(Reported(2.0 * mean - 1.0, 4.0 * variance, slope, intercept, query.center))
            belief = belief.posterior(within, masses, reports[-1])
        yield Progress(f"round {number + 1}: {teachers:,} agents teach the model", {})
    slope, intercept = belief.expected(within, masses)
    weights, cut = (1.0, 1.0), 0.0
    if plan.costs is not None:
        weights, cut = plan.costs.weights, (plan.cut - own[1]) / own[0]
    alone_at = (_BEYOND, -_BEYOND, cut)
    posterior = belief.losses(within, masses, alone_at, weights)
    errs = zip(weights, (share[0], 1.0 - share[0]), strict=True)
    label_losses = [(weight * mean, weight * weight * share[1]) for weight, mean in errs]
    losses = [_together(*pair) for pair in zip(posterior[:2], label_losses, strict=True)] + [posterior[2][0]]
    rival = min(range(3), key=losses.__getitem__)
    chance = within.means(slope, np.array([intercept]))[0]
    bins = bins_for(plan.roles.surveyed * (2.0 * plan.mechanism.truth - 1.0) ** 2)
    ends = tuple(fine.cuts[end] for end in calibration.coarser(people, bins - 1)) if bins > 2 else ()
    thresholds = (plan.cut - intercept) / slope, alone_at[rival]
    few = None
    if alone and not plan.roles.surveyed and plan.loss == "zero-one":
        for place, reported in enumerate(reports if not plan.roles.both else ()):
            belief = (belief if place else Belief.of_others(prior.doubted())).posterior(within, masses, reported)
        few = TaughtByFew(belief, within, masses, *thresholds, weights)
    return Taught(slope, intercept, rival, float((masses * np.minimum(chance, 1.0 - chance)).sum()), own, ends, few)


def _cell_shares(fractions: Floats, within: WithinBins, noise: float, people: int) -> CellShares:
    """Merge shares of fine cells into coarse ones; ``noise`` is the deviation on a fine share."""
    shares = np.add.reduceat(fractions, list(within.starts), axis=0)
    merged = np.diff([*within.starts, len(fractions)])
    return CellShares(shares, np.asarray(merged * noise**2), people, within)


def _together(posterior: tuple[float, float], reported: tuple[float, float]) -> float:
    """Return a constant's loss from its posterior mean and deviation, and from a report with its variance.

    The posterior takes T's scores from the sample; the report needs no scores.
    """
    deviation = max(posterior[1], 2.0**-20)
    precise, other = 1.0 / (deviation * deviation), 1.0 / reported[1]
    return (posterior[0] * precise + reported[0] * other) / (precise + other)


def beforehand(center: float, spread: float, noise: float) -> Prior:
    """Return the prior of a model's calibration from its scores alone: their median, and their spread around it.

    If a score were the ln(odds), the slope would be 1. If it were the ln(odds) plus independent noise, the slope would
    be the part of its variance due to the ln(odds), (usual/spread)^2. The prior is the product of both Gaussian
    densities of ln(slope), which is Gaussian; the more ``noise`` the model may have, the more the second one counts.
    """
    here, noisy = _STEEPEST**-2, noise / QUIET * _UNUSUAL**-2
    flatter = 2.0 * float(log(np.array(min(1.0, USUAL / spread)))) * noisy / (here + noisy)
    return Prior(
        flatter / QUARTER, center * float(exp(np.array(flatter))), 1.0 / math.sqrt(here + noisy), _FARTHEST, center
    )


_TURNS = 3  # rounds in which directions are taught; they take two thirds of the teachers
_ALONG = 0.3  # prior standard deviation of what a direction adds to ln(odds)


def turned(plan: PortfolioPlan, model: Linear, directions: Directions, bend: float) -> Generator[Any, Any, Linear]:
    """Have agents teach further directions u_j, and the intercept, of a model whose score is ln(odds).

    In the sample u_j has mean 0 and variance 1. The mean of min(p, 1 - p) |u_j| is approximated by ``bend``, the mean
    of min(p, 1 - p), times sqrt(2/pi), the mean modulus of a Gaussian. Each round asks for residuals at the present
    model and updates the Gaussian posterior of each coefficient. Errors of these assumptions change how fast the rounds
    converge, not where to.
    """
    rows, offsets = np.array(directions.rows), np.array(directions.offsets)
    size = len(rows) + 1
    each = (TEACHINGS * (plan.roles.teachers - plan.roles.teachers // _TURNS)) // (_TURNS * size)
    mean, precision = np.zeros(size), np.full(size, 1.0 / _ALONG**2)
    moved = model
    for number in range(_TURNS):
        options: dict[str, Any] = {"hypothesis": moved, "slope": 1.0, "intercept": 0.0}
        asked = [ResidualQuery(**options)]
        pairs = zip(directions.rows, directions.offsets, strict=True)
        asked += [ResidualQuery(**options, direction=row, center=b) for row, b in pairs]
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


def suited(directions: Directions | None, model: Hypothesis) -> Directions | None:
    """Return the directions if they are over the same features as a half-space, else None."""
    if directions is None or not isinstance(model, Linear) or len(directions.rows[0]) != len(model.weights):
        return None
    return directions


_APART = 0.05  # cuts of the log odds nearer than this to that of the costs are left out


def surveyed(
    calibrated: Hypothesis,
    cuts: Sequence[float],
    cut: float,
    agents: tuple[BitMechanism, int],
    public: int,
    beta: float,
) -> Generator[Any, Any, ScoreQuality]:
    """Survey fresh agents, one bit each; return how good a calibrated score is on T.

    Args:
        calibrated: Its margin is the logarithm of the odds of +1.
        cuts: Where bins of the log odds may end; one ends at ``cut``, above which +1 is predicted.
        agents, public: Their mechanism and their number; public randomness of the questions.
        beta: The chance that the joint statements fail (:class:`common.statistics.curves.ScoreQuality`).
    """
    ends = sorted({cut, *(other for other in cuts if abs(other - cut) > _APART)})
    cells = cells_of(calibrated, ends)
    mechanism, count = agents
    asked = yield from ask_coded(ScoreQuery(cells=cells, public=public), count)
    shares = signed_shares(asked, mechanism)[: cells.items].reshape(cells.bins, 2)
    answered = sum(len(answers.values) for _, answers in asked)
    return ScoreShares(shares, answered, 1.0 / (2.0 * mechanism.truth - 1.0)).quality(ends, cut, beta)


def cells_of(calibrated: Hypothesis, ends: Sequence[float]) -> ScoreCells:
    """Return the bins of a calibrated score; for a recalibrated one, the same bins on the score inside it."""
    if isinstance(calibrated, Recalibrated):
        inner, slope, intercept = calibrated.hypothesis, calibrated.slope, calibrated.intercepts[0]
        return ScoreCells(hypothesis=inner, cuts=tuple((end - intercept) / slope for end in ends))
    return ScoreCells(hypothesis=calibrated, cuts=tuple(ends))
