"""A state of the model: what is on the parties' disks, what they have in memory, and what was ever sent.

A message that was sent can arrive at any time, never, or again and again: loss, delay, reordering and duplication need
no actions of their own (Lamport 2002, "Specifying Systems", 5.1). So what was sent is also a record of all that left.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.model.rules import Size

UNKNOWN, OPEN, CLOSED = 0, 1, 2
"""What there is of a question: nothing (of it in a process's memory); it takes answers; it takes no more."""
NOBODY = -1


class Report(NamedTuple):
    """A stored report; its number is its place in the list."""

    question: int
    agent: int
    answer: int


class Process(NamedTuple):
    """The memory of a process of the referee.

    Attributes:
        fence: The token of its lease, 0 if it does not drive.
        step: The step of the protocol that it is at while it drives.
        newest: The number of the newest report that it knows.
        known: Question and agent of each report that it knows, sorted.
        seen: What it remembers of each question.
        fresh: Whether it has just been started: it may take up a lease of its name.
        pending: What a broken rule has left half done.
        crashes: How often it may still crash.
    """

    fence: int
    step: int
    newest: int
    known: tuple[tuple[int, int], ...]
    seen: tuple[int, ...]
    fresh: bool
    pending: tuple[int, ...]
    crashes: int


class Agent(NamedTuple):
    """An individual.

    Attributes:
        stored: Question and answer on its disk, or nothing.
        sent, receipts: All reports that have left, and all receipts that were sent for them: question and answer,
            sorted.
        pending: What a broken rule has left half done.
        draws: How often it has drawn noise.
        crashes: How often it may still crash.
    """

    stored: tuple[int, ...]
    sent: tuple[tuple[int, int], ...]
    receipts: tuple[tuple[int, int], ...]
    pending: tuple[int, ...]
    draws: int
    crashes: int


class State(NamedTuple):
    """All there is.

    Attributes:
        token, holder: The lease in the referee's database; nobody holds one that has run out.
        replies: What is stored as the reply to each step of the protocol, in order: a release's value, or a count of
            answers.
        questions, counted: What there is of each question in the database, and how many answers were counted when it
            was closed.
        reports: The numbered list of reports.
        result: How many answers the run's result counts; ``NOBODY`` before its end.
        stale: Whether a driver has written that had been replaced.
        processes, agents: The processes of the referee, and the agents.
        charged, results: The curator's ledger: operations, and operations with values.
        working: The operation that the curator carries out, in memory.
        requested: How many operations were ever asked for.
        releases: All releases that have left: operations with values, sorted.
        draws: How often the curator has drawn noise that is not derived from its secret and history.
        unpaid: The operation that a broken curator has released, and will charge.
        curator_crashes, pauses: How many of these there may still be.
    """

    token: int
    holder: int
    replies: tuple[int, ...]
    questions: tuple[int, ...]
    counted: tuple[int, ...]
    reports: tuple[Report, ...]
    result: int
    stale: bool
    processes: tuple[Process, ...]
    agents: tuple[Agent, ...]
    charged: tuple[int, ...]
    results: tuple[tuple[int, int], ...]
    working: int
    requested: int
    releases: tuple[tuple[int, int], ...]
    draws: int
    unpaid: int
    curator_crashes: int
    pauses: int

    def with_process(self, place: int, process: Process) -> State:
        """Return the state in which a process remembers something else."""
        return self._replace(processes=(*self.processes[:place], process, *self.processes[place + 1 :]))

    def with_agent(self, place: int, agent: Agent) -> State:
        """Return the state in which an agent is another one."""
        return self._replace(agents=(*self.agents[:place], agent, *self.agents[place + 1 :]))


class Step(NamedTuple):
    """One thing that happens: the name of the action, who does it, and what with."""

    action: str
    who: int = NOBODY
    what: tuple[int, ...] = ()

    def __str__(self) -> str:
        about = [str(self.who)] * (self.who != NOBODY) + [str(number) for number in self.what]
        return f"{self.action}({', '.join(about)})"


def initial(size: Size) -> State:
    """Return the state in which all are enrolled, the curator has agreed, and nothing was done."""
    process = Process(0, 0, 0, (), (UNKNOWN,) * size.questions, True, (), size.crashes)
    agent = Agent((), (), (), (), 0, size.crashes)
    return State(
        token=0,
        holder=NOBODY,
        replies=(),
        questions=(UNKNOWN,) * size.questions,
        counted=(0,) * size.questions,
        reports=(),
        result=NOBODY,
        stale=False,
        processes=(process,) * size.processes,
        agents=(agent,) * size.agents,
        charged=(),
        results=(),
        working=NOBODY,
        requested=0,
        releases=(),
        draws=0,
        unpaid=NOBODY,
        curator_crashes=size.crashes,
        pauses=size.pauses,
    )


def canonical(state: State, questions: int) -> State:
    """Return a state that differs from this one only in the numbers of processes, and of agents who are asked together.

    States that differ in nothing else have, for most of them, the same one; so only that is looked at further.
    """
    order = sorted(
        range(len(state.processes)), key=lambda place: (state.processes[place], state.holder == place), reverse=True
    )
    if order != sorted(order):
        holder = order.index(state.holder) if state.holder != NOBODY else NOBODY
        state = state._replace(processes=tuple(state.processes[place] for place in order), holder=holder)
    places = {report.agent: place for place, report in enumerate(state.reports)}
    new = list(range(len(state.agents)))
    for question in range(questions):
        group = range(question, len(new), questions)
        ranked = sorted(group, key=lambda place: (state.agents[place], places.get(place, NOBODY)), reverse=True)
        for place, old in zip(group, ranked, strict=True):
            new[old] = place
    if new == sorted(new):
        return state
    agents = list(state.agents)
    for old, place in enumerate(new):
        agents[place] = state.agents[old]
    renamed = []
    for process in state.processes:
        pending = process.pending
        if len(pending) == len(Report._fields):
            pending = pending[0], new[pending[1]], pending[2]
        known = tuple(sorted((question, new[agent]) for question, agent in process.known))
        renamed.append(process._replace(known=known, pending=pending))
    return state._replace(
        agents=tuple(agents),
        reports=tuple(Report(r.question, new[r.agent], r.answer) for r in state.reports),
        processes=tuple(renamed),
    )
