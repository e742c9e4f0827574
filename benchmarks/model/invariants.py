"""What must hold in every state, by name."""

from __future__ import annotations

from collections.abc import Callable, Container

from benchmarks.model.state import CLOSED, NOBODY, State


def _one_answer(state: State) -> bool:
    return all(len(agent.sent) <= 1 for agent in state.agents)


def _spent_before_sent(state: State) -> bool:
    return all(sent == agent.stored for agent in state.agents for sent in agent.sent)


def _charged_once(state: State) -> bool:
    return len(set(state.charged)) == len(state.charged)


def _released_once(state: State) -> bool:
    return len({operation for operation, _ in state.releases}) == len(state.releases)


def _charged_first(state: State) -> bool:
    return all(operation in state.charged for operation, _ in state.releases)


def _stored_first(state: State) -> bool:
    return all(release in state.results for release in state.releases)


def _acknowledged_is_stored(state: State) -> bool:
    stored = {(r.agent, r.question, r.answer) for r in state.reports}
    return all((place, *receipt) in stored for place, agent in enumerate(state.agents) for receipt in agent.receipts)


def _stored_once(state: State) -> bool:
    return len({(r.question, r.agent) for r in state.reports}) == len(state.reports)


def _counted_is_stored(state: State) -> bool:
    return state.result in (NOBODY, len(state.reports))


def _closed_takes_nothing(state: State) -> bool:
    return all(
        status != CLOSED or counted == sum(r.question == question for r in state.reports)
        for question, (status, counted) in enumerate(zip(state.questions, state.counted, strict=True))
    )


def _one_driver(state: State) -> bool:
    return not state.stale


INVARIANTS: dict[str, Callable[[State], bool]] = {
    "nobody answers twice": _one_answer,
    "an answer is stored before it is sent": _spent_before_sent,
    "nothing is charged twice": _charged_once,
    "nothing is released in two ways": _released_once,
    "a charge comes before its release": _charged_first,
    "a release is stored before it leaves": _stored_first,
    "what was acknowledged is stored": _acknowledged_is_stored,
    "nobody is stored twice": _stored_once,
    "after a question is closed nothing is taken": _closed_takes_nothing,
    "what is counted is what is stored": _counted_is_stored,
    "only the driver of the newest lease writes": _one_driver,
}
CAN_END = "the run can still end without a further fault"
"""Beside these: from every state, by what is no fault, a state is reached in which the run has ended."""


def violated(state: State, watched: Container[str] = INVARIANTS) -> str | None:
    """Return the first of the watched invariants that does not hold in a state."""
    for name, holds in INVARIANTS.items():
        if name in watched and not holds(state):
            return name
    return None
