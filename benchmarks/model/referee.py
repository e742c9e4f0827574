"""What the referee's processes can do next: drive the run, and take reports, each with what it remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.model.rules import Rules, Size
from benchmarks.model.state import CLOSED, NOBODY, OPEN, UNKNOWN, Process, Report, State, Step

Steps = Iterator[tuple[Step, State]]
"""What can happen next, and the state after it."""


def referee_steps(state: State, size: Size, rules: Rules) -> Steps:
    """Go through all that the processes can do next."""
    for place, process in enumerate(state.processes):
        yield from _reports(state, place, process, size, rules)
        if len(process.pending) < len(Report._fields):  # else the lock on what it knows is held
            yield from _lease(state, place, process, rules)
            if process.fence:
                yield from _drive(state, place, process, size, rules)
            refreshed = _refreshed(state, process)
            if refreshed != process:
                yield Step("refresh", place), state.with_process(place, refreshed)
        started = restarted(state, process.crashes - 1)
        if process.crashes and started._replace(crashes=process.crashes) != process:
            yield Step("crash of a process", place), state.with_process(place, started)
    yield from _time(state, rules)


def restarted(state: State, crashes: int) -> Process:
    """Return a process that has just been started: it knows what is stored of open questions."""
    seen = tuple(OPEN if status == OPEN else UNKNOWN for status in state.questions)
    known = tuple(sorted((r.question, r.agent) for r in state.reports if seen[r.question] == OPEN))
    return Process(0, 0, len(state.reports), known, seen, True, (), crashes)


# The lease ------------------------------------------------------------------------------------------------------------


def _lease(state: State, place: int, process: Process, rules: Rules) -> Steps:
    own = rules.lease_ends and process.fresh and state.holder == place
    drives = process.fence == state.token and process.fence > 0  # it has the newest token, and drives on
    if (state.holder == NOBODY or own) and not drives and state.result == NOBODY:
        driving = process._replace(fence=state.token + 1, step=len(state.replies), fresh=False, pending=())
        taken = state._replace(token=state.token + 1, holder=place)
        yield Step("take the lease", place), taken.with_process(place, driving)


def _time(state: State, rules: Rules) -> Steps:
    if state.holder == NOBODY or not rules.lease_ends:
        return
    drives = state.processes[state.holder].fence == state.token
    if not drives:
        yield Step("the lease runs out"), state._replace(holder=NOBODY)
    elif state.pauses:
        yield Step("the driver stands still"), state._replace(holder=NOBODY, pauses=state.pauses - 1)


# Driving --------------------------------------------------------------------------------------------------------------


def _drive(state: State, place: int, process: Process, size: Size, rules: Rules) -> Steps:
    """Let a process that believes that it drives do the next thing of the step that it is at."""
    step = process.step
    if step < size.operations:
        if state.requested <= step:
            yield Step("ask the curator", place, (step,)), state._replace(requested=step + 1)
        for operation, value in state.releases:
            if operation == step:
                yield from _write(state, place, rules, Step("store the release", place, (step,)), _reply(step, value))
        return
    question = step - size.operations
    if question >= size.questions:
        if state.result == NOBODY:
            yield from _write(state, place, rules, Step("end the run", place), _end)
        return
    if state.questions[question] == UNKNOWN:
        yield from _write(state, place, rules, Step("open the question", place, (question,)), _opening(question))
        return
    if state.questions[question] == OPEN:
        heard = sum(q == question for q, _ in process.known)
        closing = _closing(question, None if rules.counts_what_is_stored else heard)
        yield from _write(state, place, rules, Step("close the question", place, (question,)), closing)
        return
    answers = state.counted[question]
    yield from _write(state, place, rules, Step("store the answers", place, (question,)), _reply(step, answers))


Change = Callable[[State, int], State | None]
"""What a transaction of the driver's does, and what its process remembers then; None if a row of that key is there."""


def _write(state: State, place: int, rules: Rules, step: Step, change: Change) -> Steps:
    """Write as the driver: in one transaction with a look at the token, which the real code does."""
    process = state.processes[place]
    replaced = process.fence != state.token
    if rules.fenced and replaced and not process.pending:
        yield Step("learn of the replacement", place), state.with_process(place, process._replace(fence=0))
        return
    if rules.fenced and not rules.fenced_inside and not process.pending:
        looked = process._replace(pending=(process.fence,))
        yield Step("look at the token", place), state.with_process(place, looked)
        return
    done = change(state.with_process(place, process._replace(pending=())), place)
    if done is None:
        yield step, state.with_process(place, process._replace(step=len(state.replies), pending=()))
    else:
        yield step, done._replace(stale=state.stale or replaced)


def _reply(step: int, value: int) -> Change:
    def change(state: State, place: int) -> State | None:
        if len(state.replies) != step:
            return None  # the transcript has an entry of that index
        process = state.processes[place]
        return state._replace(replies=(*state.replies, value)).with_process(place, process._replace(step=step + 1))

    return change


def _opening(question: int) -> Change:
    def change(state: State, place: int) -> State:
        process = state.processes[place]
        opened = state._replace(questions=_with(state.questions, question, OPEN))
        return opened.with_process(place, process._replace(seen=_with(process.seen, question, OPEN)))

    return change


def _closing(question: int, heard: int | None) -> Change:
    def change(state: State, place: int) -> State:
        stored = sum(report.question == question for report in state.reports)
        process = state.processes[place]
        closed = state._replace(
            questions=_with(state.questions, question, CLOSED),
            counted=_with(state.counted, question, stored if heard is None else heard),
        )
        return closed.with_process(place, process._replace(seen=_with(process.seen, question, CLOSED)))

    return change


def _end(state: State, place: int) -> State:
    return state._replace(result=sum(state.counted))


# Reports --------------------------------------------------------------------------------------------------------------


def _reports(state: State, place: int, process: Process, size: Size, rules: Rules) -> Steps:
    for number, agent in enumerate(state.agents):
        for question, answer in agent.sent:
            if question >= size.questions or state.questions[question] == UNKNOWN:
                continue  # there is no such question: refused, and nothing changed
            step = Step("take a report", place, (number, question, answer))
            after = _taken(state, place, Report(question, number, answer), size, rules)
            if after is not None and after != state:
                yield step, after
    if len(process.pending) == len(Report._fields):
        report = Report(*process.pending)
        rest = state.with_process(place, process._replace(pending=()))
        yield Step("store what was promised", place), _stored(rest, place, report, rules)


def _taken(state: State, place: int, report: Report, size: Size, rules: Rules) -> State | None:
    process = state.processes[place]
    if process.pending:
        return None
    if process.seen[report.question] == UNKNOWN:
        process = _found(state, process, report.question)
    if not _judged(state, process, report, size):
        return _answered(state.with_process(place, process), process, report)
    # From here on it is one transaction, in which nobody else stores reports or closes questions.
    if rules.looks_whether_open:
        process = process._replace(seen=_still_open(state, process.seen))
    process = _learned(state, process) if rules.learns else process._replace(newest=len(state.reports))
    state = state.with_process(place, process)
    if not _judged(state, process, report, size):
        return _answered(state, process, report)
    if not rules.stored_before_receipt:
        return _answered(_promised(state, place, report), process, report, acknowledged=True)
    return _promised(state, place, report) if not rules.in_a_turn else _stored(state, place, report, rules)


def _judged(state: State, process: Process, report: Report, size: Size) -> bool:
    """Tell whether a report is to be stored, by what a process remembers."""
    asked = report.agent % size.questions == report.question
    known = (report.question, report.agent) in process.known
    return asked and not known and process.seen[report.question] == OPEN


def _answered(state: State, process: Process, report: Report, *, acknowledged: bool = False) -> State:
    """Send a receipt for a report that is stored already; any other is refused."""
    known = (report.question, report.agent) in process.known
    if not acknowledged and not (known and report in state.reports):
        return state
    agent = state.agents[report.agent]
    receipts = tuple(sorted({*agent.receipts, (report.question, report.answer)}))
    return state.with_agent(report.agent, agent._replace(receipts=receipts))


def _promised(state: State, place: int, report: Report) -> State:
    return state.with_process(place, state.processes[place]._replace(pending=tuple(report)))


def _stored(state: State, place: int, report: Report, rules: Rules) -> State:
    process = state.processes[place]
    if rules.numbered and len(state.reports) != process.newest:
        return state  # the number is taken
    known = tuple(sorted({*process.known, (report.question, report.agent)}))
    process = process._replace(newest=len(state.reports) + 1, known=known)
    stored = state._replace(reports=(*state.reports, report)).with_process(place, process)
    return _answered(stored, process, report)


# What a process learns ------------------------------------------------------------------------------------------------


def _found(state: State, process: Process, question: int) -> Process:
    """Return a process that has read a question, and the reports on it, from the database."""
    known = {*process.known, *((r.question, r.agent) for r in state.reports if r.question == question)}
    seen = _with(process.seen, question, state.questions[question])
    return process._replace(seen=seen, known=tuple(sorted(known)))


def _learned(state: State, process: Process) -> Process:
    """Return a process that has read the reports after the newest that it knew, on questions that it remembers."""
    new = ((r.question, r.agent) for r in state.reports[process.newest :] if process.seen[r.question] != UNKNOWN)
    return process._replace(newest=len(state.reports), known=tuple(sorted({*process.known, *new})))


def _still_open(state: State, seen: tuple[int, ...]) -> tuple[int, ...]:
    both = zip(seen, state.questions, strict=True)
    return tuple(CLOSED if mine == OPEN and stored == CLOSED else mine for mine, stored in both)


def _refreshed(state: State, process: Process) -> Process:
    process = _learned(state, process._replace(seen=_still_open(state, process.seen)))
    for question, status in enumerate(state.questions):
        if status == OPEN and process.seen[question] == UNKNOWN:
            process = _found(state, process, question)
    return process


def _with(numbers: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*numbers[:place], number, *numbers[place + 1 :])
