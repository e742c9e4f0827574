"""Which protocol a fit runs, and how often the curator learns: what fits the numbers of people, if not told."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars

from common.core.errors import BadFit
from common.data.tables import Number, Schema
from common.data.tables.loading import numbers_and_wrong
from common.data.tables.texts import canonical_texts
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.planning.fitting import ACCURACY, Advice, advice
from common.protocols import portfolio
from common.scenario.scenario import parse
from common.statistics.intervals import Estimate
from referee.protocols.base import Judged
from tandem.estimators.shared.running import refusing

FIT, REWEIGH, PORTFOLIO, ONCE = "fit", "subsample-test-reweigh", "portfolio", "learn-and-test"
_REWEIGHED = {"rounds": 3, "kappa": 0.3, "eta": 0.3, "alpha": 0.1}
_JUDGED = {"rounds": 1, "kappa": portfolio.DENSITY, "eta": portfolio.STEP, "alpha": ACCURACY["portfolio"]}
_LEARNT = {**_JUDGED, "alpha": ACCURACY["learn-and-test"]}
DEFAULTS: Mapping[str, Mapping[str, float]] = {REWEIGH: _REWEIGHED, PORTFOLIO: _JUDGED, ONCE: _LEARNT}
"""By protocol."""


class CannotHelpWarning(UserWarning):
    """So few people cannot add anything: the agents cannot judge, or the curator's model may be noise alone."""


class PrivateClippingWarning(CannotHelpWarning):
    """Most values of a column are beyond its public bounds: for the keeper of the records alone."""


MOST = 0.5
"""Share of a column's values beyond its bounds from which on a fit warns: fewer may be tails, cut off by intention."""


@dataclass(frozen=True)
class Choice:
    """What a fit runs.

    Attributes
    ----------
    protocol
        Its name.
    rounds
        How often the curator learns.
    kappa, eta, alpha
        As the scenario has them.
    portfolio
        Settings of a portfolio that are not its usual ones; None: all are.
    """

    protocol: str
    rounds: int
    kappa: float
    eta: float
    alpha: float
    portfolio: dict[str, Any] | None


UNDECIDED = Choice(ONCE, 1, _LEARNT["kappa"], _LEARNT["eta"], _LEARNT["alpha"], None)
"""What stands in a scenario whose numbers are read to find out what fits."""


def advised(tree: Mapping[str, Any]) -> Advice:
    """Return what fits the numbers of a scenario; which protocol it names is no matter.

    Raises
    ------
    BadFit
        If one of its values is wrong.
    """
    with refusing():
        scenario = parse({**tree, "protocol": ONCE, "portfolio": None})
        found = advice(scenario, int(scenario.curator.n), int(scenario.agents.count))
    if found is None:
        raise AssertionError("a classifier's mistakes can be judged")
    return found


def chosen(
    protocol: str, mode: str, given: Mapping[str, float | None], found: Advice, *, counted: bool = True
) -> Choice:
    """Return what a fit runs: what is given, the protocol's defaults for the rest.

    Parameters
    ----------
    protocol
        ``fit``: the one that is advised.
    mode
        ``realizable`` is for reweighing alone.
    given
        ``rounds``, ``kappa``, ``eta`` and ``alpha``, each a number or None.
    found
        What fits.
    counted
        Whether the learner's plan leaves a part of the budget to the counts that repairs take; if not, what fits is
        judged without any.

    Raises
    ------
    BadFit
        If there is no such protocol, or these do not go together.
    """
    if protocol not in (FIT, *DEFAULTS):
        raise BadFit(f"protocol must be {', '.join((FIT, *DEFAULTS))}, found {protocol!r}")
    name = found.protocol if protocol == FIT else protocol
    if mode == "realizable" and name != REWEIGH:
        raise BadFit(f"mode='realizable' is for protocol={REWEIGH!r}, found protocol={protocol!r}: give that")
    numbers = {**DEFAULTS[name], **({"rounds": found.rounds if counted else 1} if protocol == FIT else {})}
    numbers |= {key: value for key, value in given.items() if value is not None}
    rounds = int(numbers["rounds"])
    if rounds > 1 and name == ONCE:
        raise BadFit(f"rounds = {rounds}: agents are too few to tell models apart, so the curator learns once")
    plain = name == PORTFOLIO and protocol == FIT and rounds == 1 and (found.repair == 0.0 or not counted)
    settings = {"repair": 0.0} if plain else None
    return Choice(name, rounds, numbers["kappa"], numbers["eta"], numbers["alpha"], settings)


def judged(result: Mapping[str, Any]) -> tuple[Judged, ...]:
    """Return the candidates of a run's result document, none if it judged none."""
    return tuple(
        Judged(one["name"], parse_hypothesis(one["hypothesis"]), Estimate.parse(one["estimate"]), int(one["asked"]))
        for one in result.get("candidates", ())
    )


def warn_of_clipping(sides: Mapping[str, polars.DataFrame], schema: Schema) -> None:
    """Say, before anything is spent, of which columns the public bounds clip :data:`MOST` of the values or more.

    The shares are computed from people's records without any noise. The warning is for their keeper alone, in the
    process that has them, and no file or message of a run holds it.

    Parameters
    ----------
    sides
        The people of each side, by the side's name in a sentence.
    """
    bounds: dict[str, tuple[float, float]] = {}
    for feature in schema.features:
        if isinstance(feature, Number):
            low, high = bounds.get(feature.column, (-math.inf, math.inf))
            bounds[feature.column] = max(low, feature.low), min(high, feature.high)
    found = []
    for side, frame in sides.items():
        for column, (low, high) in bounds.items():
            values = frame[column]
            if values.dtype.is_numeric():
                numbers = values.to_numpy()
            else:
                numbers, _ = numbers_and_wrong(canonical_texts(values, column).fill_null(""), schema.layout)
            share = np.count_nonzero((numbers < low) | (numbers > high)) / max(1, len(numbers))
            if share >= MOST:
                found.append(
                    (share, f"{share:.1%} of the {side}'s values of {column!r} are beyond {low:g} .. {high:g}")
                )
    if found:
        more = f", and at least {MOST:.0%} of {len(found) - 1} further columns" if len(found) > 1 else ""
        warnings.warn(
            f"{max(found)[1]}{more}: they are clipped to their bounds, so that people differ little. Give bounds= in "
            "the units of the columns, from what is publicly known. This share is private: it is for the keeper of the "
            "records alone, so neither pass it on nor choose bounds by it",
            PrivateClippingWarning,
            stacklevel=5,
        )


def warn(found: Advice) -> None:
    """Say, before anything is spent, who cannot help."""
    for words in found.warnings:
        warnings.warn(words, CannotHelpWarning, stacklevel=4)
