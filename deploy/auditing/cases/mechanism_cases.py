"""Every registered mechanism under audit, by itself: one answer, and a twin that was given twice the epsilon.

Mechanisms that plug-ins add are audited as well. A frequency oracle is asked under the public word that tells most.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BadInput
from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.mechanism import MECHANISMS, LocalRandomizer, Mechanism, parse_mechanism
from common.numerics.randomness import RandomSource
from common.privacy.auditing import Subject
from deploy.auditing.case import Case
from deploy.auditing.cases.agent_cases import separating

EPSILON, DELTA, RUNS = 1.0, 0.01, 100_000
DOMAIN = 4


def made(name: str, epsilon: float) -> LocalRandomizer:
    """Return the mechanism of that name with this epsilon; one without such a setting: an example.

    Up to epsilon 1 it is the example with the most noise, above that the one with the least.
    """
    kind = MECHANISMS[name]
    settings: dict[str, Any] = {"name": name, "epsilon": epsilon, "delta": DELTA, "calibration": "analytic"}
    known = {key: value for key, value in settings.items() if key in kind.model_fields}
    if "epsilon" in known:
        return parse_mechanism(known)
    examples = sorted(kind.example(), key=lambda mechanism: mechanism.guarantee)
    return examples[0 if epsilon <= EPSILON else -1]


def answered(mechanism: LocalRandomizer) -> Subject:
    """One answer a run, to a value in [0, 1] or an item."""

    def subject(given: float, runs: int, source: RandomSource) -> AnyArray:
        if isinstance(mechanism, Mechanism):
            return mechanism.randomize(np.full(runs, given), source)
        if not isinstance(mechanism, FrequencyOracle):
            raise BadInput(f"there is no question to audit {mechanism.name} with")
        word = public_words(separating(mechanism.name).public, np.zeros(1, dtype=np.int64))
        items = np.full(runs, given, dtype=np.uint64)
        return mechanism.randomize(items, DOMAIN, np.repeat(word, runs), source)

    return subject


def case(name: str) -> Case:
    """Return the case of a registered mechanism that claims privacy."""
    mechanism, twin = made(name, EPSILON), made(name, 2.0 * EPSILON)
    epsilon, delta = mechanism.guarantee
    inputs = (2, 1) if isinstance(mechanism, FrequencyOracle) else (1.0, 0.0)
    twins = {} if twin == mechanism else {"twice the epsilon": answered(twin)}
    least = 0.0 if delta else 0.8 * epsilon
    return Case(f"mechanism {name}", epsilon, inputs, answered(mechanism), RUNS, delta, twins, least)


def cases() -> list[Case]:
    """Return a case for every registered mechanism with a guarantee."""
    return [case(name) for name in MECHANISMS.names() if math.isfinite(made(name, EPSILON).guarantee[0])]
