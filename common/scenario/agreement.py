"""What parties must have alike: the public sample, and the digest of what a curator agrees to."""

from __future__ import annotations

from pathlib import Path

from common.core import canonical
from common.data.population import locate, open_public
from common.local.records import Records
from common.numerics.randomness import subseed
from common.scenario.scenario import Scenario


def data_folder(scenario: Scenario) -> Path | None:
    """Return the directory of the scenario's table files, as :func:`common.data.population.locate` finds it."""
    return None if scenario.data is None else locate(scenario.data)


def public_sample(scenario: Scenario, seed: int) -> Records | None:
    """Return the scenario's public sample for the run's seed, None if it has none; every party gets the same.

    Raises
    ------
    BadScenario, BadData
        If it cannot be read.
    """
    if scenario.public is None:
        return None
    return open_public(scenario.public, data_folder(scenario), subseed(seed, "public"))


def policy_digest(scenario: Scenario) -> str:
    """Return the SHA-256 of what a curator agrees to: where its people and the public ones come from, its section."""
    wire = scenario.wire()
    return canonical.digest({part: wire[part] for part in ("people", "source", "public", "curator")})
