"""A portfolio: private models, their repairs by what agents say, and constants; fresh agents judge them all."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.core.arrays import Floats
from common.planning.portfolio import judges
from common.privacy.rounding import down
from common.scenario.portfolio import Portfolio
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.statistics import bins, raking
from common.statistics.calibration import Calibration, calibrate
from common.statistics.codes import signed_shares
from common.statistics.intervals import tally
from common.statistics.race import Race
from common.vocabulary.cells import TILT_PARTS, ScoreCells, Tilt
from common.vocabulary.demands.base import pattern_of
from common.vocabulary.groups import number_of
from common.vocabulary.hypotheses.base import Hypothesis, plain_kinds
from common.vocabulary.hypotheses.constant import Constant
from common.vocabulary.hypotheses.recalibrated import recalibrated
from common.vocabulary.operations.learn import Learn
from common.vocabulary.operations.margins import Margins
from common.vocabulary.operations.rake import Rake
from common.vocabulary.queries.loss import LossQuery
from common.vocabulary.queries.score import ScoreQuery
from common.vocabulary.steps import AskAgents, Progress
from referee.protocols.asking import ask, ask_coded
from referee.protocols.base import PROTOCOLS, Judged, Outcome, Protocol, Script
from referee.protocols.examples import small_ball

_FIRST = 4
"""Part of the judges who answer in the first heat."""


@PROTOCOLS.register("portfolio")
class PortfolioProtocol(Protocol):
    """Learn, repair, judge. The answer is, up to a stated gap, the best of everything that was tried.

    1. The curator learns a model of its sample, privately.
    2. Some of the agents say in which bin of the model's score they are, and their label: one bit each, of a Hadamard
       code. What they say recalibrates the model: a threshold, or an intercept for each public group
       (:mod:`common.statistics.calibration`). The curator pays only for the counts by which bins are chosen.
    3. The curator's weights are raked until its sample has the agents' shares (:mod:`common.statistics.raking`), and it
       learns again; and so on for ``curator.rounds``.
    4. Agents who were not asked before judge all models, their recalibrations and both constants, in heats from which
       leaves who is shown to be worse (:class:`common.statistics.race.Race`: theorem and proof).

    ``done``: the answer's loss on T exceeds that of the best candidate by at most alpha, with probability 1 - beta over
    the judges, whatever S, T, the models and the repairs are. ``exhausted``: the same for the gap that is stated.
    """

    title = "Portfolio"
    pattern = pattern_of("portfolio")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return a small scenario about a ball."""
        return (small_ball("protocol=portfolio", "curator.rounds=2"),)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Learn and repair ``curator.rounds`` times, then judge."""
        settings, rounds = scenario.portfolio or Portfolio(), scenario.curator.rounds
        judging = judges(scenario.agents.count, settings)
        repairing = (scenario.agents.count - judging) // rounds
        candidates: list[tuple[str, Hypothesis]] = [
            (f"constant {label:+d}", Constant(label=label)) for label in (-1, 1)
        ]
        for t in range(1, rounds + 1):
            hypothesis = (yield from ask(Learn(round=t))).hypothesis
            candidates.append(("model" if t == 1 else f"raked model {t}", hypothesis))
            if hypothesis.kind not in plain_kinds() or isinstance(hypothesis, Constant):
                yield Progress(f"round {t}: a model of kind {hypothesis.kind} has no score to repair", {})
                break
            found = yield from _survey(scenario, settings, hypothesis, repairing, public + t * _APART)
            repaired = recalibrated(hypothesis, found.fit.slope, found.fit.intercepts, settings.groups)
            candidates.append((f"{candidates[-1][0]}, recalibrated", repaired))
            yield Progress(f"round {t}: {repairing:,} agents recalibrate the model", {})
            if t < rounds:
                yield from ask(Rake(tilt=found.tilt(scenario.curator.eta)))
        return (yield from _judge(scenario, candidates, judging))


_APART = 1 << 32
"""Public randomness of one round's questions is so far from the next one's."""


@dataclass(frozen=True, eq=False)
class _Found:
    """What agents and curator said about a model's score."""

    cells: ScoreCells
    shares: Floats
    sample: Floats
    scores: Floats
    fit: Calibration
    precision: float

    def tilt(self, eta: float) -> Tilt:
        """Return the factors that take the sample's shares to those of T."""
        wanted = raking.smoothed(self.shares, self.sample, self.scores, self.fit, self.precision)
        parts = raking.tilts(wanted.ravel(), self.sample.ravel(), eta, TILT_PARTS)
        return Tilt(cells=self.cells, parts=tuple(parts))


def _survey(
    scenario: ResolvedScenario, settings: Portfolio, hypothesis: Hypothesis, count: int, public: int
) -> Generator[Any, Any, _Found]:
    """Have the curator count its people by score, choose bins, and have agents say where they are."""
    fine = ScoreCells(hypothesis=hypothesis, cuts=bins.FINE_CUTS, groups=settings.groups)
    epsilon = down(scenario.margins_epsilon / scenario.curator.rounds)
    counts = (yield from ask(Margins(cells=fine, epsilon=epsilon))).counts
    counted = np.array(counts, dtype=np.float64).reshape(number_of(settings.groups), fine.bins, 2)
    people = counted.sum(axis=(0, 2))
    chosen = bins.coarser(people, settings.bins)
    cells = ScoreCells(hypothesis=hypothesis, cuts=tuple(fine.cuts[cut] for cut in chosen), groups=settings.groups)
    scores = bins.means(people, chosen, bins.middles(fine.cuts))
    edges = np.array([0, *(cut + 1 for cut in chosen)])
    sample = np.add.reduceat(counted, edges, axis=1) / scenario.curator.n
    mechanism = scenario.agents.bit_mechanism
    asked = yield from ask_coded(ScoreQuery(cells=cells, public=public), count)
    shares = signed_shares(asked, mechanism)[: cells.items].reshape(sample.shape)
    heard = sum(len(answers.values) for _, answers in asked)
    precision = max(1.0, heard * (2.0 * mechanism.truth - 1.0) ** 2)
    return _Found(cells, shares, sample, scores, calibrate(shares, scores, precision), precision)


def _judge(scenario: ResolvedScenario, candidates: list[tuple[str, Hypothesis]], judging: int) -> Script:
    """Have fresh agents judge the candidates in heats, until the gap is at most alpha or nobody is left to ask."""
    mechanism = scenario.agents.bit_mechanism
    race = Race(mechanism, len(candidates), 1.0 - scenario.beta)
    left, heat = judging, 0
    while race.gap > scenario.alpha and left >= len(race.running):
        heat += 1
        # The first heat hears a quarter of the judges; each later one half as many again as were heard about each.
        each = max(judging // (_FIRST * len(candidates)), max(race.counts) // 2, 1)
        each = min(each, left // len(race.running))
        reached = 0
        for k in race.running:
            answers = yield AskAgents(LossQuery(hypothesis=candidates[k][1], loss=scenario.agents.loss), each)
            reached += answers.asked
            race.add(k, *tally(mechanism, answers.values))
        left -= reached
        race.eliminate()
        yield Progress(
            f"heat {heat}: {len(race.running)} of {len(candidates)} left, {candidates[race.winner][0]!r} leads",
            {"asked": judging - left, "gap": race.gap, **race.estimates[race.winner].wire()},
        )
        if reached == 0:
            break
    return _ended(scenario, candidates, race)


def _ended(scenario: ResolvedScenario, candidates: list[tuple[str, Hypothesis]], race: Race) -> Outcome:
    judged = tuple(
        Judged(name, hypothesis, race.estimates[k], race.counts[k]) for k, (name, hypothesis) in enumerate(candidates)
    )
    name, answer = candidates[race.winner]
    sure = race.gap <= scenario.alpha
    reason = f"{name!r} is shown to be within {race.gap:.4f} of the best of {len(candidates)} candidates"
    if not sure:
        reason += f"; {sum(race.counts):,} judges tell no finer, alpha is {scenario.alpha:g}: enlarge agents.count"
    rounds = scenario.curator.rounds
    return Outcome(
        "done" if sure else "exhausted",
        rounds,
        answer,
        race.estimates[race.winner],
        reason,
        judged=judged,
        gap=race.gap,
    )
