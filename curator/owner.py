"""What the curator keeps for its owner's eyes: its plan, when it released what, what was clipped, how its weights lie.

All of it is private, as the records are: no bound on anybody's privacy covers who reads it. It stands in the state
directory, readable by its owner alone, and is never sent. Nothing depends on it: a file that is lost or old changes no
answer, and one that cannot be written is a warning.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common.privacy.accountants import grouped
from common.privacy.events import Event
from common.scenario.resolved import ResolvedScenario
from curator.sample.reweighing import Reweighing

if TYPE_CHECKING:
    from common.data.examining import Notes

log = logging.getLogger("tandem")
OWNERS = "owner.json"
VERSION = 1
BINS = 40
"""Bars of the weights' histogram, at most."""


class OwnersFile:
    """The file in a state directory; written anew after each operation."""

    def __init__(
        self,
        folder: Path,
        scenario: ResolvedScenario,
        planned: Sequence[Event],
        read: Notes | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        section = scenario.curator
        self._path = folder / OWNERS
        self._clock = clock
        self._updates = -1
        table = scenario.source.table
        self._document: dict[str, Any] = {
            "version": VERSION,
            "scenario": scenario.name,
            "people": section.n,
            "simulated": scenario.people == "simulated",
            "epsilon": section.epsilon,
            "delta": section.delta,
            "rounds": section.rounds,
            "planned": [[event.wire(), count] for event, count in grouped(planned)],
            "times": _times(self._path),
            "read": None if read is None or table is None else {"rows": read.rows, **read.document()},
            "bounds": _bounds(scenario),
            "weights": None,
        }

    def keep(self, reweighing: Reweighing, operation: str | None = None) -> None:
        """Write how things stand, after an operation if one is named."""
        if operation is not None:
            self._document["times"][operation] = round(self._clock(), 1)
        if reweighing.updates != self._updates:
            self._updates = reweighing.updates
            self._document["weights"] = weights_of(reweighing)
        part = self._path.with_name(OWNERS + ".part")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(json.dumps(self._document))  # at once: dump() writes piece by piece
            os.replace(part, self._path)  # whole or not at all; it need not survive a power cut
        except OSError as error:
            log.warning("what the owner's console shows could not be written: %s", error)


def weights_of(reweighing: Reweighing) -> dict[str, Any]:
    """Return how the weights lie: of everybody together, and by their scores.

    A score is a sum of losses over all reweighs. A bin has its lowest and highest score as a mean loss in [0, 1], how
    many records have such a score, and their share of all the weight; a weight is in units of the mean one.
    """
    density, n = reweighing.density(), reweighing.n
    levels, people = density.histogram.levels, density.histogram.people
    relative = density.relative(levels)
    share = people * relative / float(np.sum(people * relative))
    most = max(1.0, reweighing.updates * reweighing.eta / density.eta)
    kappa = reweighing.kappa
    return {
        "updates": reweighing.updates,
        "kappa": kappa,
        "eta": reweighing.eta,
        "mean_score": float(np.average(levels, weights=people)) / most,
        "cap": None if kappa is None else 1.0 / kappa,
        "largest": float(np.max(share / people)) * n,
        "at_cap": 0 if kappa is None else int(np.sum(people[levels >= density.cut])),
        "density": density.acceptance * len(density) / n,
        "bins": [
            [*(levels[here[[0, -1]]] / most).tolist(), int(people[here].sum()), float(share[here].sum())]
            for here in _bars(levels)
        ],
    }


def _bars(levels: Any) -> list[Any]:
    low, high = int(levels[0]), int(levels[-1])
    width = max(1, -(-(high - low + 1) // BINS))
    bar = (levels - low) // width
    return [np.flatnonzero(bar == number) for number in np.unique(bar)]


def _bounds(scenario: ResolvedScenario) -> dict[str, list[float]]:
    """Return the public bounds of a table's numbers, by column: the narrowest where a column has several."""
    found: dict[str, list[float]] = {}
    for feature in () if scenario.source.table is None else scenario.source.table.features:
        if feature.kind == "number":
            low, high = found.get(feature.column, [feature.low, feature.high])
            found[feature.column] = [max(low, feature.low), min(high, feature.high)]
    return found


def _times(path: Path) -> dict[str, float]:
    try:
        written = json.loads(path.read_bytes())["times"]
        return {str(number): float(when) for number, when in written.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
