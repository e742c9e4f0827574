"""Open a curator on a scenario: claim its state directory, bring its people, check its budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from common.messages import policy_digest
from common.people import open_crowd
from common.randomness import subseed
from common.scenario import Scenario, data_folder
from common.state import claim, claim_people
from curator.curator import Curator
from curator.sample.local import LocalSample


def open_curator(scenario: Scenario, folder: Path, seed: int | None, referee: str | None) -> Curator:
    """Return the curator of a resolved scenario.

    Parameters
    ----------
    scenario
        Resolved (no value is left at ``plan``).
    folder
        Its state directory; bound to the policy and the seed at the first start.
    seed
        Seed of simulated people; None uses the one of the first start (0 then). Ignored where people are real.
    referee
        The referee's key to pin, or None.
    """
    simulated = scenario.people == "simulated"
    facts = claim(folder, {"policy": policy_digest(scenario), "seed": seed if simulated else None})
    seed = facts["seed"] if facts["seed"] is not None else 0
    n = int(scenario.curator.n)
    crowd = open_crowd(scenario.source, data_folder(scenario), subseed(seed, "source"), n)
    claim_people(folder, crowd.fingerprint())
    sample = LocalSample.of(crowd.records(np.arange(n)))
    return Curator(scenario, sample, folder, seed=seed if simulated else None, referee=referee)
