"""What the curator can do next: charge, carry out, store, release."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model.rules import Rules
from benchmarks.model.state import NOBODY, State, Step

Steps = Iterator[tuple[Step, State]]


def curator_steps(state: State, rules: Rules) -> Steps:
    """Go through all that the curator can do next, with each request that was ever sent to it."""
    if state.working == NOBODY:
        for operation in range(state.requested):
            yield from _take(state, operation, rules)
    else:
        yield Step("carry out", NOBODY, (state.working,)), _carried_out(state, rules)
    if state.unpaid != NOBODY:
        paid = state._replace(charged=(*state.charged, state.unpaid), unpaid=NOBODY)
        yield Step("charge what was released", NOBODY, (state.unpaid,)), paid
    if state.curator_crashes and (state.working, state.unpaid) != (NOBODY, NOBODY):
        crashed = state._replace(working=NOBODY, unpaid=NOBODY, curator_crashes=state.curator_crashes - 1)
        yield Step("crash of the curator"), crashed


def _take(state: State, operation: int, rules: Rules) -> Steps:
    results, unfinished = dict(state.results), state.charged[len(state.results) :]
    again = Step("repeat the release", NOBODY, (operation,))
    if operation in results and not rules.charged_once and state.charged.count(operation) < 2:
        charged = state._replace(charged=(*state.charged, operation), results=(*state.results, state.results[-1]))
        yield Step("charge", NOBODY, (operation,)), charged
    elif operation in results:
        value, draws = results[operation], state.draws
        if not rules.released_once and draws < 2:
            value, draws = draws + 1, draws + 1
        left = tuple(sorted({*state.releases, (operation, value)}))
        if left != state.releases:
            yield again, state._replace(releases=left, draws=draws)
    elif operation in unfinished:
        if rules.carried_on:
            yield Step("take up the charge", NOBODY, (operation,)), state._replace(working=operation)
    elif not unfinished and state.unpaid == NOBODY:
        if rules.charged_before_release:
            charged = state._replace(charged=(*state.charged, operation), working=operation)
            yield Step("charge", NOBODY, (operation,)), charged
        elif (operation, 0) not in state.releases:
            early = tuple(sorted({*state.releases, (operation, 0)}))
            yield Step("release", NOBODY, (operation,)), state._replace(releases=early, unpaid=operation)


def _carried_out(state: State, rules: Rules) -> State:
    """Store what an operation releases: a function of the durable secret and the history, here always 0."""
    operation = state.working
    if not rules.stored_before_release and (operation, 0) not in state.releases:
        return state._replace(releases=tuple(sorted({*state.releases, (operation, 0)})))
    return state._replace(results=(*state.results, (operation, 0)), working=NOBODY)
