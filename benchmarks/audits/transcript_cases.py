"""A referee's protocol under audit, from its beginning to its end: all parties in one process, two neighbouring files.

Nobody is malicious but whoever chose the replaced row. Curator, referee and hosted people exchange signed messages
and keep their states on disk, as in every deployment in one process; what is judged is the transcript that is left.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.audits.curator_cases import Uncapped
from benchmarks.audits.subjects import state_folder
from common.core.arrays import AnyArray
from common.local.hypotheses.rules import Stump
from common.local.records import Records
from common.log.transcript import read
from common.numerics.randomness import RandomSource
from common.privacy.auditing import Subject
from common.privacy.budget import cost
from common.scenario.scenario import ResolvedScenario, parse_resolved
from curator import engine
from curator.curator import planned_events
from curator.learners.base import parse_learner
from curator.sample.reweighing import Reweighing
from deploy.auditing import Case
from deploy.deployment import Embedded

AUDITED = {
    "operations learn": ("a protocol's transcript",),
}
"""The cases here of each way to use people, and of each operation."""

Row = tuple[int, int]
"""Two features, 0 or 1; everybody's label is +1."""

REPLACED: tuple[Row, Row] = ((1, 0), (0, 1))
"""The one row that differs: on either file another of the two features gives its label. On all other rows both do."""

N, KAPPA, ETA, ROUNDS = 1000, 0.5, 7.0, 3
"""A reweigh that is wrong about one row alone gives it half of all weight, where nothing caps it: e^7 against 999."""
DELTA = 0.01
LEARNER = {"name": "exponential", "hypotheses": "stumps", "draws": 160, "epsilon": 0.2, "low": 0.25, "high": 0.75}
SETTINGS = {**LEARNER, "cells": 2}


def write(folder: Path, replaced: Row) -> None:
    """Write the curator's file and that of the people who test, which is the same on both sides."""
    for name, rows in (("source", [(1, 1)] * (N - 1) + [replaced]), ("target", [(1, 1)] * ROUNDS)):
        lines = ["a,b,label", *(f"{a},{b},yes" for a, b in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def scenario(data: Path, claim: float) -> ResolvedScenario:
    """Return Subsample-Test-Reweigh on these files: each round learns, asks one person and reweighs, whatever comes."""
    features = [{"kind": "number", "column": column, "low": 0, "high": 1} for column in ("a", "b")]
    label = {"column": "label", "positive": ["yes"], "negative": ["no"]}
    source, target = (
        {"table": {"files": [f"{side}.csv"], "features": features, "label": label}} for side in ("source", "target")
    )
    limits = {"epsilon": claim, "delta": DELTA, "kappa": KAPPA, "eta": ETA, "rounds": ROUNDS}
    return parse_resolved(
        {
            "name": "audit",
            "title": "A whole run under audit",
            "alpha": 0.1,
            "mode": "agnostic",
            "people": "simulated",
            "data": str(data),
            "divergence": {"chi_squared": 2.0},
            "source": source,
            "target": target,
            "curator": {"n": N, **limits, "learner": SETTINGS},
            "agents": {"count": ROUNDS, "mechanism": {"name": "warner", "epsilon": 1.0}},
        }
    )


def releases(transcript: str) -> int:
    """Count in a transcript the rounds whose hypothesis is right about the first of the rows that may be replaced."""
    row, found = Records(np.array(REPLACED[:1], dtype=np.float32), np.ones(1, dtype=np.int8)), 0
    for entry in read(transcript.encode().splitlines(keepends=True)):
        result = entry.body["release"]["message"]["result"] if entry.kind == "operation" else {}
        if "hypothesis" in result:
            found += int(Stump.parse(result["hypothesis"]).predict(row.features)[0] > 0)
    return found


def transcripts(claim: float, weights: type[Reweighing]) -> Subject:
    """A run of the protocol a run, with fresh parties: what its transcript says."""

    def subject(replaced: Row, runs: int, source: RandomSource) -> AnyArray:
        found = np.empty(runs)
        with state_folder() as data, patch.object(engine, "Reweighing", weights):
            write(Path(data), replaced)
            chosen = scenario(Path(data), claim)
            for run in range(runs):
                seed = int(source.derive(run).integers(1 << 62, 1)[0])
                with state_folder() as state:
                    finished = Embedded(Path(state)).run(chosen, seed, "audit", lambda *_: None)
                found[run] = releases(finished.transcript)
        return found

    return subject


def cases() -> list[Case]:
    """Return the one case; the claim is the epsilon that the curator publishes in its terms."""
    claim = cost([(event, 1) for event in planned_events(parse_learner(SETTINGS), N, KAPPA, ETA, ROUNDS)], DELTA)
    twins = {"no cap": transcripts(claim, Uncapped)}
    return [Case("a protocol's transcript", claim, REPLACED, transcripts(claim, Reweighing), 26, DELTA, twins=twins)]
