"""Ask agents in which bin a calibrated score has them, and their label: what that tells of the score."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from common.local.hypotheses.composed import Recalibrated
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import ScoreCells
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.features import ScoreQuery
from common.statistics.curves import ScoreQuality, ScoreShares
from common.statistics.frequency import signed_shares
from referee.protocols.asking import ask_coded

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
