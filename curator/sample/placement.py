"""The sample of a scenario: refuse what does not fit, and bring its people to where they are kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from common.core.durable import claim_people, durable_key, hold
from common.core.machine import processors
from common.data.population import RecordSource
from common.local.records import Records
from common.scenario.scenario import ResolvedScenario, data_folder
from curator.sample.base import LocalSample, Sample
from curator.sample.source import OnProgress, RecordLayout, Source, Work, in_blocks

if TYPE_CHECKING:
    from common.data.examining import Notes
    from common.data.population import Contributed


def check_sample(scenario: ResolvedScenario, folder: Path, work: Work = in_blocks) -> None:
    """Refuse the sample of a resolved scenario if it does not fit, before any work; see :meth:`Source.check`."""
    _source(scenario, folder, 0).check(work)


def open_sample(
    scenario: ResolvedScenario,
    folder: Path,
    seed: int,
    on_progress: OnProgress,
    identify: Callable[[RecordSource], None] | None = None,
    counted: Callable[[Notes], None] | None = None,
    contributed: Contributed | None = None,
) -> Sample:
    """Return the sample of a resolved scenario, to be closed; a state directory in use or about others is refused.

    Args:
        folder: The curator's state directory.
        seed: Public seed that decides who the people are. A durable secret of the directory decides the slots of real
            ones.
        identify: Called with the people, before their records are kept.
        counted, contributed: As for :func:`common.data.population.open_records`.
    """
    secret = durable_key(folder / "order.key") if scenario.people == "real" else None
    source = _source(scenario, folder, seed, secret, contributed)
    population = source.population(counted)
    if contributed is None:  # the ledger says which contributions there were
        claim_people(folder, population.fingerprint())
    if identify is not None:
        identify(population)
    storage, n = scenario.curator.storage, source.size
    with ExitStack() as opened:
        if storage.place == "disk":
            opened.callback(hold(source.folder).close)
        if storage.workers == 0:
            rows = source.rows(population, 0, n, processors(), on_progress)
            sample: Sample = LocalSample([rows])
        else:
            from curator.sample.cluster import open_cluster  # an optional dependency stands behind it

            sample = open_cluster(source, population, on_progress)
        sample.opened.push(opened.pop_all())
    return sample


def layout_of(scenario: ResolvedScenario) -> RecordLayout:
    """Return how the sample of a resolved scenario will be laid out; no table is read."""
    if scenario.source.table is None:
        return (source := _source(scenario, Path(), 0)).layout(source.population())
    features = np.zeros((1, scenario.source.dimension), dtype=np.float32)
    return RecordLayout.of(scenario.curator.storage, scenario.source, Records(features, np.ones(1, dtype=np.int8)))


def _source(
    scenario: ResolvedScenario,
    folder: Path,
    seed: int,
    order: bytes | None = None,
    contributed: Contributed | None = None,
) -> Source:
    table = scenario.source.table
    data = None if table is not None and table.contributed else data_folder(scenario)
    return Source(scenario, seed, (folder / "rows").absolute(), data and data.absolute(), order, contributed)
