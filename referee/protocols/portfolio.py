"""A portfolio: private models, their repairs by what agents say, and constants; fresh agents judge them all."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.composed import recalibrated
from common.local.hypotheses.hypothesis import Hypothesis, plain_kinds
from common.local.hypotheses.rules import Constant
from common.local.losses import TILT_PARTS, Loss, ScoreCells, Tilt
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.features import MomentQuery, ScoreQuery
from common.local.queries.query import Answers, AskAgents, LossQuery, SoleErrorQuery
from common.local.records import number_of
from common.operations.operation import Learn, Margins, Rake
from common.privacy.budget import sampling_schedule
from common.protocols.base import Progress, pattern_of
from common.protocols.portfolio import Portfolio, compares, judges, label_reporters
from common.protocols.portfolio import candidates as candidates_of
from common.scenario.scenario import ResolvedScenario
from common.statistics import calibration
from common.statistics.calibration import Calibration, CellShares, Prior, ReportedShare, calibrate, forecast, posterior
from common.statistics.frequency import signed_shares
from common.statistics.intervals import certainty, tally
from common.statistics.race import Race
from referee.protocols.asking import ask, ask_coded, at_once
from referee.protocols.base import PROTOCOLS, JudgedCandidate, Outcome, Protocol, Script
from referee.protocols.local import averages, discriminant

_FIRST = 4  # part of the judges who answer in the first heat


@dataclass(frozen=True)
class PortfolioPlan:
    """The numbers of a resolved scenario that a portfolio uses.

    Attributes:
        alpha, beta: The gap at which judges stop, and the chance that the stated one is wrong.
        reporting, alone, repairing, judging: Agents who tell their label, who learn alone, who recalibrate each model,
            and who judge.
        n, kappa, eta: The curator's people, and the density and step of their weights.
        margins: Epsilon of each of the curator's counts; 0 if there are none.
        moments: What agents who learn alone are asked; None if there are none.
    """

    settings: Portfolio
    rounds: int
    alpha: float
    beta: float
    loss: Loss
    mechanism: BitMechanism
    reporting: int
    alone: int
    repairing: int
    judging: int
    n: int
    kappa: float | None
    eta: float
    margins: float
    moments: MomentQuery | None

    @classmethod
    def of(cls, scenario: ResolvedScenario) -> PortfolioPlan:
        """Return the scenario's; BadScenario if there are too few agents for a role, or they cannot play it."""
        settings, curator, target = scenario.portfolio or Portfolio(), scenario.curator, scenario.target
        count, rounds = scenario.agents.count, curator.rounds
        judging, reporting = judges(count, settings), label_reporters(count, settings)
        alone = math.floor(settings.alone * (count - judging))
        repairing = (count - judging - reporting - alone) // rounds
        mechanism = scenario.agents.bit_mechanism
        silent = reporting < 1 or (settings.recalibrates and repairing < 1) or (settings.alone > 0.0 and alone < 1)
        if silent or judging < candidates_of(rounds, settings):
            raise BadScenario(
                f"agents.count: {count} agents are too few for a portfolio of {rounds} models: some tell their label, "
                "some recalibrate each model, and each candidate has a judge"
            )
        if alone and not math.isfinite(target.norm):
            raise BadScenario("portfolio.alone: averages of agents need records of bounded norm: give the target one")
        moments = MomentQuery(dimension=target.dimension, bound=target.coordinate, norm=target.norm) if alone else None
        margins = scenario.planned_margins
        return cls(
            settings=settings,
            rounds=rounds,
            alpha=scenario.alpha,
            beta=scenario.beta,
            loss=scenario.agents.loss,
            mechanism=mechanism,
            reporting=reporting,
            alone=alone,
            repairing=repairing,
            judging=judging,
            n=curator.n,
            kappa=curator.kappa,
            eta=curator.eta,
            margins=margins[0].epsilon if margins else 0.0,
            moments=moments,
        )

    @property
    def pairs(self) -> bool:
        return compares(self.mechanism, self.settings) and self.loss == "zero-one"

    def deviation(self, reweighs: int) -> float:
        """Return about the standard deviation of the noise on a share that is counted after so many reweighs."""
        bound = 1.0 / self.n
        if reweighs and self.kappa is not None:
            bound = sampling_schedule(self.n, self.kappa, self.eta, 1, reweighs)[0]
        return math.sqrt(2.0) * 2.0 * bound / self.margins


@PROTOCOLS.register("portfolio")
class PortfolioProtocol(Protocol):
    """Learn, repair, judge. The answer is, up to a stated gap, the best of everything that was tried.

    docs/portfolio.md has each step. Agents say their label, the curator learns, other agents recalibrate its model,
    from what they say of its score (:mod:`common.statistics.calibration`), the weights are raked and it learns again;
    agents who were not asked before judge all models, their recalibrations and both constants, in heats from which
    leaves who is shown to be worse (:class:`common.statistics.race.Race`: theorem and proof).

    ``done``: the answer's loss on T exceeds that of the best candidate by at most alpha, with probability 1 - beta over
    the judges, whatever S, T, the models and the repairs are. ``exhausted``: the same for the gap that is stated.
    """

    title = "Portfolio"
    done = (
        "with probability {sure} at least, over which agents judge and over their noise, the answer's loss on T "
        "exceeds that of the best candidate by {alpha} at most, among those who answer; no level is tested, and both "
        "losses may be large"
    )
    pattern = pattern_of("portfolio")
    small = ("protocol=portfolio", "curator.rounds=2", "portfolio.alone=0.2")

    def asks(self, scenario: ResolvedScenario) -> frozenset[str]:
        settings, agents = scenario.portfolio or Portfolio(), scenario.agents
        asked = {
            "loss": True,
            "moment": settings.alone > 0.0,
            "score": settings.recalibrates,
            "sole-error": compares(agents.bit_mechanism, settings) and agents.loss == "zero-one",
        }
        return frozenset(kind for kind in asked if asked[kind])

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = PortfolioPlan.of(scenario)
        settings, rounds = plan.settings, plan.rounds
        candidates: list[tuple[str, Hypothesis]] = [("constant -1", _MINUS), ("constant +1", _PLUS)]
        reports = yield AskAgents(LossQuery(hypothesis=_PLUS, loss=plan.loss), plan.reporting)
        labels = _share(plan, reports)
        yield Progress(f"{plan.reporting:,} agents reported their label: a share of {labels[0]:.3f} has +1", {})
        if plan.moments is not None:
            answers = yield AskAgents(plan.moments, at_once(plan.alone))
            yield Progress(f"{answers.asked:,} agents reported a moment of their record: a model of theirs alone", {})
            alone = discriminant(*averages(plan.moments, answers, plan.mechanism))
            candidates.append(("agents alone", alone))
        ratios = (1.0, 1.0)
        if settings.recalibrates or settings.raking:
            shares = (yield from ask(Margins(cells=_BY_LABEL, epsilon=plan.margins))).fractions.tolist()
            held = 0.5 * (shares[1] + shares[3] + 1.0 - shares[0] - shares[2])
            ratios = calibration.label_ratios(*labels, held, plan.deviation(0))
        if settings.raking:
            parts = calibration.rake(np.array(ratios * 2), np.ones(4), plan.eta, TILT_PARTS)
            yield from ask(Rake(tilt=Tilt(cells=_BY_LABEL, parts=tuple(parts))))
        beliefs: dict[int, tuple[float, float]] = {}
        for t in range(1, rounds + 1):
            hypothesis = (yield from ask(Learn(round=t))).hypothesis
            candidates.append(("model" if t == 1 else f"model {t}, raked by scores", hypothesis))
            if hypothesis.kind not in plain_kinds() or isinstance(hypothesis, Constant):
                yield Progress(f"round {t}: a model of kind {hypothesis.kind} has no score to repair", {})
                break
            if not settings.recalibrates:
                break
            public += _APART
            reweighs = int(settings.raking) + t - 1
            shift = 0.0 if reweighs else math.log(ratios[1] / ratios[0])
            found = yield from _survey(plan, hypothesis, reweighs, public, labels, shift)
            beliefs |= dict(enumerate(found.losses, len(candidates) - 1))
            try:
                repaired = recalibrated(hypothesis, found.fit.slope, found.fit.intercepts, settings.groups)
            except BadMessage:  # the curator's weights are so large that no multiple of them can be sent
                yield Progress(f"round {t}: the model's weights are too large to be recalibrated", {})
            else:
                candidates.append((f"{candidates[-1][0]}, recalibrated", repaired))
                yield Progress(f"round {t}: {plan.repairing:,} agents recalibrate the model", {})
            if t < rounds:
                yield from ask(Rake(tilt=found.tilt(plan.eta)))
        return (yield from _judge(plan, candidates, beliefs, reports))


_MINUS, _PLUS = Constant(label=-1), Constant(label=1)
_CURVE = 0.02  # standard deviation of a loss from what a logistic curve says of it, even if the curve is the best one
_APART = 1 << 32  # public randomness of one round's questions is so far from the next one's
_MODEL = Prior(steep=0.5, far=0.3)
"""What is believed of any model on its own sample: its score is about the logarithm of the odds."""
_STEEP, _FAR = 0.35, 0.5
"""Standard deviations, beforehand, of the population's ln(slope) and intercept from those of the sample."""


def _share(plan: PortfolioPlan, reports: Answers) -> tuple[float, float]:
    mechanism = plan.mechanism
    ones, summary = tally(mechanism, reports.values)
    if summary == 0:
        return 0.5, 1.0
    positive = 1.0 - (ones / summary - (1.0 - mechanism.truth)) / (2.0 * mechanism.truth - 1.0)
    return positive, math.sqrt(mechanism.variance(min(max(positive, 0.0), 1.0)) / summary)


_BY_LABEL = ScoreCells(hypothesis=_PLUS, cuts=(0.0,))
"""Everybody's score is on one side of 0, so that the items are the labels."""


@dataclass(frozen=True, eq=False)
class _Found:
    """What agents and curator reported about a model's score."""

    cells: ScoreCells
    shares: Floats
    sample: Floats
    scores: Floats
    fit: Calibration
    precision: float
    losses: tuple[tuple[float, float], ...]

    def tilt(self, eta: float) -> Tilt:
        wanted = calibration.smoothed(self.shares, self.sample, self.scores, self.fit, self.precision)
        parts = calibration.rake(wanted.ravel(), self.sample.ravel(), eta, TILT_PARTS)
        return Tilt(cells=self.cells, parts=tuple(parts))


def _survey(
    plan: PortfolioPlan, hypothesis: Hypothesis, reweighs: int, public: int, labels: tuple[float, float], shift: float
) -> Generator[Any, Any, _Found]:
    """Ask the curator for shares of scores in its people as they weigh now, choose bins, and ask agents for theirs."""
    settings = plan.settings
    fine = ScoreCells(hypothesis=hypothesis, cuts=calibration.FINE_CUTS, groups=settings.groups)
    reports = (yield from ask(Margins(cells=fine, epsilon=plan.margins))).fractions
    known = reports.reshape(number_of(settings.groups), fine.bins, 2)
    people = calibration.project_to_simplex(known.sum(axis=(0, 2)), 1.0)
    mechanism = plan.mechanism
    clear = (2.0 * mechanism.truth - 1.0) ** 2
    most = min(settings.bins, max(2, math.isqrt(int(plan.repairing * clear)) // 8))
    chosen = calibration.coarser(people, most)
    cells = ScoreCells(hypothesis=hypothesis, cuts=tuple(fine.cuts[cut] for cut in chosen), groups=settings.groups)
    within = calibration.Within.of(people, chosen, calibration.middles(fine.cuts))
    sample = np.add.reduceat(known, list(within.starts), axis=1)
    asked = yield from ask_coded(ScoreQuery(cells=cells, public=public), plan.repairing)
    shares = signed_shares(asked, mechanism)[: cells.items].reshape(sample.shape)
    summary = sum(len(answers.values) for _, answers in asked)
    precision = max(1.0, summary * clear)
    merged = np.diff([*within.starts, fine.bins])
    variances = merged * plan.deviation(reweighs) ** 2 + np.maximum(sample, 0.0).mean(axis=(0, 2)) / plan.n
    held = CellShares(sample, np.asarray(1.0 / variances), within)
    reported = CellShares(shares, np.full(len(within.starts), precision), within)
    prior = posterior(held, _MODEL).shifted(shift, _STEEP, _FAR)
    masses = reported.masses(held.together.sum(axis=1))
    fit = calibrate(reported, prior, ReportedShare(*labels), masses)
    losses: list[tuple[float, float]] = []
    if len(fit.intercepts) == 1:
        cuts = (0.0, -fit.intercepts[0] / fit.slope)
        losses = forecast(reported, prior, ReportedShare(*labels), masses, cuts)
    return _Found(cells, shares, sample, within.middles, fit, precision, tuple(losses))


def _judge(
    plan: PortfolioPlan,
    candidates: list[tuple[str, Hypothesis]],
    beliefs: dict[int, tuple[float, float]],
    reports: Answers,
) -> Script:
    """Have fresh agents judge the candidates in heats, until the gap is at most alpha or nobody is left to ask.

    An answer about one constant is the mirror image of one about the other, so both are judged by one question.
    """
    mechanism = plan.mechanism
    questions = len(candidates) - 1
    race = Race(mechanism, len(candidates), 1.0 - plan.beta, plan.alpha, plan.judging // questions, mirrored=(0, 1))
    for k, (mean, deviation) in beliefs.items():
        if k < len(candidates):  # a repair that could not be sent is none
            race.believe(k, mean, math.hypot(deviation, _CURVE))
    race.add(1, *tally(mechanism, reports.values))
    race.eliminate()
    judging = left = plan.judging
    heat = 0
    while race.gap > plan.alpha:
        asked = _questions(plan, candidates, race)
        heat += 1
        # The first heat hears a quarter of the judges, each later one half as many as were heard before.
        share = max(judging // _FIRST, (judging - left) // 2)
        each = min(max(share // len(asked), 1), left // len(asked))
        if each == 0:
            break
        answers = []
        for query, _ in asked:
            answers.append((yield AskAgents(query, each)))
        reached = sum(answer.asked for answer in answers)
        left -= reached
        bits = {about: answer.values for (_, about), answer in zip(asked, answers, strict=True)}
        if isinstance(asked[0][0], SoleErrorQuery):
            first, second = bits
            race.compare(first, second, bits[first], bits[second])
        else:
            race.update(bits)
        race.eliminate()
        yield Progress(
            f"heat {heat}: {len(race.running)} of {len(candidates)} left, {candidates[race.winner][0]!r} leads",
            {"asked": judging - left, "gap": race.gap, **race.estimates[race.winner].wire()},
        )
        if reached == 0:
            break
    return _ended(plan, candidates, race)


def _questions(
    plan: PortfolioPlan, candidates: list[tuple[str, Hypothesis]], race: Race
) -> list[tuple[LossQuery | SoleErrorQuery, int]]:
    """Return what the next heat asks, and which candidate each question is about.

    While more than two are left, their losses: one answer about a candidate counts against all others. Of the last two
    it may be where only one of them errs, if one loss is not the mirror image of the other: as many questions, each
    about a rarer event (:func:`common.statistics.intervals.bounds`, :func:`common.protocols.portfolio.compares`).
    """
    running = race.running
    if plan.pairs and len(running) == 2 and set(running) != {0, 1}:
        (i, first), (j, second) = ((k, candidates[k][1]) for k in running)
        sides = ((first, second, i), (second, first, j))
        return [(SoleErrorQuery(hypothesis=one, other=other), k) for one, other, k in sides]
    asked = [k for k in running if k > 1] + ([1] if {0, 1} & set(running) else [])
    return [(LossQuery(hypothesis=candidates[k][1], loss=plan.loss), k) for k in asked]


def _ended(plan: PortfolioPlan, candidates: list[tuple[str, Hypothesis]], race: Race) -> Outcome:
    judged = tuple(
        JudgedCandidate(name, hypothesis, race.estimates[k], race.counts[k])
        for k, (name, hypothesis) in enumerate(candidates)
    )
    name, answer = candidates[race.winner]
    sure, estimate = race.gap <= plan.alpha, race.estimates[race.winner]
    most = f"within {math.ceil(race.gap * 1e4) / 1e4:.4f} of the best" if race.gap else "the best"
    shown = f"shown with {certainty(1.0 - plan.beta)} confidence to be {most}"
    least = f"; {race.answers:,} judges tell no finer, alpha is {plan.alpha:g}: enlarge agents.count"
    reason = f"{name!r} is {shown} of {len(candidates)} candidates{'' if sure else least}"
    status: Literal["done", "exhausted"] = "done" if sure else "exhausted"
    return Outcome(status, plan.rounds, answer, estimate, reason, judged=judged, gap=race.gap)
