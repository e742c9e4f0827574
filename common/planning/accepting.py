"""Whether a scenario can be carried out, as far as its public numbers tell: every party asks this before it begins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from common.core.errors import BadInput, BadScenario
from common.core.values import explain
from common.planning.plan import resolve
from common.planning.problems.base import shortfalls
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.demands.base import demands_of, pattern_of


def accepted(asked: Scenario) -> ResolvedScenario:
    """Return the resolved scenario, if every party can do its part of it, whatever the people's records are.

    What only one party knows (the curator's learners, the referee's protocols) it checks by itself, before it begins;
    :func:`deploy.checking.checked` asks all of them.

    Raises
    ------
    BadScenario
        If nobody declares the protocol, agents cannot answer it by their mechanism, real people would have no
        privacy, the sizes are too small for what is promised, or a number at ``plan`` has no value.
    """
    try:
        pattern_of(asked.protocol, asked.alone)
    except BadInput as error:
        raise BadScenario(error.detail) from None
    check_real(asked)
    check_answers(asked)
    with in_range():
        if asked.problem is not None:
            short = shortfalls(asked, asked.problem)
            if short:
                raise BadScenario(
                    f"{'; '.join(short)}: the guarantee does not hold; take the plan's number or a larger beta"
                )
        return resolve(asked)


@contextmanager
def in_range() -> Iterator[None]:
    """Refuse a scenario from which an event, a query or an operation follows that is out of its own range.

    Raises
    ------
    BadScenario
        Naming the number and its range.
    """
    try:
        yield
    except ValidationError as error:
        raise BadScenario(f"what follows from these numbers is out of range: {error.title}.{explain(error)}") from None


def check_real(scenario: Scenario) -> None:
    """Refuse to ask real people, or to learn from them, without privacy.

    Raises
    ------
    BadScenario
        Saying which side has none.
    """
    curator, agents = scenario.curator, scenario.agents
    if scenario.people == "simulated":
        return
    if curator.epsilon is None:
        raise BadScenario("people are real: the curator needs an epsilon and a delta")
    if not math.isfinite(agents.mechanism.guarantee[0]):
        raise BadScenario(f"people are real: mechanism {agents.mechanism.name!r} gives them no privacy")
    if agents.dropout > 0:
        raise BadScenario("dropout is for simulated people only")


def check_answers(scenario: Scenario) -> None:
    """Refuse a mechanism that cannot randomize what the protocol asks agents for.

    Raises
    ------
    BadScenario
        Saying what is asked for.
    """
    wanted = demands_of(scenario.protocol).answers
    if wanted == "bit":
        _ = scenario.agents.bit_mechanism
    elif wanted == "value":
        _ = scenario.agents.value_mechanism
