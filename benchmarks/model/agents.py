"""What agents can do next: answer whatever they are asked, by an honest referee or another one, and say it again."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model.rules import Rules, Size
from benchmarks.model.state import Agent, State, Step

Steps = Iterator[tuple[Step, State]]


def agent_steps(state: State, size: Size, rules: Rules) -> Steps:
    """Go through all that the agents can do next.

    Every agent may be asked every question at any time: an agent's one answer must not rest on the referee's honesty.
    """
    for place, agent in enumerate(state.agents):
        for question in range(size.questions + size.rogue):
            answered = _answered(agent, question, rules)
            if answered is not None:
                yield Step("answer", place, (question,)), state.with_agent(place, answered)
        if agent.stored and agent.stored not in agent.sent:
            yield Step("send the report", place), state.with_agent(place, _sent(agent, agent.stored))
        if agent.pending:
            late = agent._replace(stored=agent.pending, pending=())
            yield Step("store what was sent", place), state.with_agent(place, late)
        stored = agent.stored if rules.remembers else ()
        if agent.crashes and (stored, ()) != (agent.stored, agent.pending):
            crashed = agent._replace(stored=stored, pending=(), crashes=agent.crashes - 1)
            yield Step("crash of an agent", place), state.with_agent(place, crashed)


def _answered(agent: Agent, question: int, rules: Rules) -> Agent | None:
    if agent.pending or (agent.stored and (rules.answers_once or agent.stored[0] == question)):
        return None  # the same question gets the stored report, another one is refused
    answer = question, agent.draws
    if agent.draws > 1:
        return None
    drawn = agent._replace(draws=agent.draws + 1)
    if not rules.stored_before_report:
        return _sent(drawn, answer)._replace(pending=answer)
    return drawn._replace(stored=answer)


def _sent(agent: Agent, answer: tuple[int, ...]) -> Agent:
    question, drawn = answer
    return agent._replace(sent=tuple(sorted({*agent.sent, (question, drawn)})))
