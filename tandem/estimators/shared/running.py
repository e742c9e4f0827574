"""One fit as a run of the embedded deployment: parties with their own states and budgets; then nothing is left.

The people's records go to the parties as Parquet files in a temporary folder of mode 0700, which is deleted when the
fit ends, however it ends short of a kill. Where there is room it is in memory (``/dev/shm``), so that no disk has them;
else it is below ``TMPDIR``.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars

from common.core.errors import BadFit, BadInput, BudgetExceeded, FitFailed
from common.lifetime.charging import Charging, GivenPeople, Side
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario, parse
from curator.learners.base import parse_learner
from deploy.base import Finished
from deploy.checking import acceptable_of
from deploy.embedded import Embedded
from tandem.estimators.shared.learners import check_model

SOURCE, TARGET, PUBLIC = "source.parquet", "target.parquet", "public.parquet"
"""Files of the curator's people, of the population's, and of those whose records are public."""

_MEMORY = Path("/dev/shm")  # noqa: S108  # the folder made in it is the owner's alone
_ROOM = 64 << 20
"""Bytes that the parties' states may need beside the records."""

log = logging.getLogger("tandem")


@contextmanager
def refusing() -> Iterator[None]:
    """Translate what the project refuses into :class:`BadFit`, which is a ValueError."""
    try:
        yield
    except BadFit:
        raise
    except (BadInput, BudgetExceeded) as error:
        raise BadFit(error.detail) from None


def settled(tree: Mapping[str, Any]) -> ResolvedScenario:
    """Return the resolved scenario, after everything that can be checked without a record.

    Raises
    ------
    BadFit
        If a value is wrong, the learner guarantees nothing, or no noise fits the budget.
    """
    with refusing():
        n = int(parse(dict(tree)).curator.n)

        def with_people(people: int) -> Scenario:
            return parse({**tree, "curator": {**tree["curator"], "n": people}})

        chosen = acceptable_of(with_people, n, f"n_samples={n} for the curator is too few")
        if chosen.people == "real":
            check_model(parse_learner(chosen.curator.settings), chosen.source.dimension)
    return chosen


def run(
    chosen: ResolvedScenario,
    tables: Mapping[str, polars.DataFrame],
    seed: int | None,
    given: Mapping[Side, GivenPeople] = MappingProxyType({}),
) -> Finished:
    """Carry out a settled scenario on the tables that it names, by file name.

    Parameters
    ----------
    given
        The people of each side as they were handed over, by which they are recognised in other runs.

    Raises
    ------
    BadFit
        If a record is not acceptable: found before any operation.
    FitFailed
        If the run ended without an answer.
    """
    size = sum(int(frame.estimated_size()) for frame in tables.values())
    with tempfile.TemporaryDirectory(prefix="tandem-fit-", dir=_place(size)) as folder:
        for name, frame in tables.items():
            frame.write_parquet(Path(folder) / name)
        with refusing():
            here = chosen.model_copy(update={"data": folder})
            charging = Charging(given=given)
            finished = Embedded(Path(folder) / "state", charging).run(
                here, seed, "fit", lambda text, _: log.info("%s", text)
            )
    if finished.result["answer"] is None:
        raise FitFailed(f"the run was {finished.result['status']}: {finished.result['reason']}")
    return finished


def _place(size: int) -> Path | None:
    """Return the file system in memory if it has room for records of this size and the parties' states."""
    try:
        roomy = shutil.disk_usage(_MEMORY).free > 4 * size + _ROOM
    except OSError:
        return None
    return _MEMORY if roomy and os.access(_MEMORY, os.W_OK) else None
