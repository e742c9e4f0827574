"""What only an experiment can know: the true loss of an answer on the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from common.core.errors import BadScenario
from common.data.population import RecordSource, open_records
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import evaluate
from common.local.records import Records
from common.numerics.randomness import subseed
from common.scenario.scenario import Scenario, data_folder

MAX_PEOPLE = 1 << 21
"""Fresh simulated people on whom a hypothesis is judged: standard error below 0.00035."""
MAX_NUMBERS = 1 << 27
"""Features drawn to judge it, at most: fewer people where they have many."""
_BLOCK = 1 << 18


def can_judge(scenario: Scenario) -> bool:
    """Tell whether people of T may be looked at for the truth, and are at hand: an operator need not have them."""
    if scenario.people == "real" and not scenario.experiment:
        return False
    if scenario.target.distribution is not None:
        return True
    try:
        return data_folder(scenario) is not None
    except BadScenario:
        return False


def evaluation_source(scenario: Scenario, seed: int) -> RecordSource:
    """Return people of T to judge by: fresh ones that no party has seen if simulated, else the whole table."""
    simulated = scenario.target.distribution is not None
    size = min(MAX_PEOPLE, MAX_NUMBERS // scenario.target.dimension) if simulated else None
    return open_records(scenario.target, data_folder(scenario), subseed(seed, "truth"), size)


@dataclass(frozen=True)
class Judgement:
    """What a hypothesis is worth on the people of a record source.

    Attributes:
        loss: Share of all whom it predicts wrongly.
        on_negative, on_positive: Share of those with label -1 and +1 whom it predicts wrongly; None where nobody has
            the label. Where one label is rare, a small loss says little: a constant has it, too.
    """

    loss: float
    on_negative: float | None
    on_positive: float | None


def judge(hypothesis: Hypothesis, population: RecordSource) -> Judgement:
    """Return the losses of a hypothesis on the people of a record source."""
    people, wrong = {-1: 0, 1: 0}, {-1: 0, 1: 0}
    for records in _blocks(population):
        mistakes, labels = hypothesis.mistakes(records), hypothesis.labels(records)
        for label in people:
            holders = labels == label
            people[label] += int(np.count_nonzero(holders))
            wrong[label] += int(np.count_nonzero(mistakes[holders]))
    shares = {label: wrong[label] / people[label] if people[label] else None for label in people}
    return Judgement(sum(wrong.values()) / len(population), shares[-1], shares[1])


def loss(hypothesis: Hypothesis, population: RecordSource) -> float:
    """Return the 0/1 loss of a hypothesis on the people of a record source."""
    wrong = sum(int(np.count_nonzero(hypothesis.mistakes(records))) for records in _blocks(population))
    return wrong / len(population)


def squared_error(hypothesis: Hypothesis, population: RecordSource) -> float:
    """Return the mean of the squared losses (:data:`common.local.losses.Loss`) of a hypothesis on such people."""
    squared = sum(float(evaluate("squared", hypothesis, records).sum()) for records in _blocks(population))
    return squared / len(population)


def _blocks(population: RecordSource) -> Iterator[Records]:
    for begin in range(0, len(population), _BLOCK):
        yield population.records(np.arange(begin, min(begin + _BLOCK, len(population))))
