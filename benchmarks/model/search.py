"""Go through all states that can be reached, the nearest first; find the shortest way to what does not hold.

``search`` visits each state once. What it returns is complete: no state within the size was left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.model.agents import agent_steps
from benchmarks.model.curator import curator_steps
from benchmarks.model.invariants import CAN_END, INVARIANTS, violated
from benchmarks.model.referee import referee_steps
from benchmarks.model.rules import SOUND, Rules, Size
from benchmarks.model.state import NOBODY, State, Step, canonical, initial

FAULTS = ("crash of a process", "crash of the curator", "crash of an agent", "the driver stands still")
"""Actions that need not happen: a run must be able to end without another one of them."""


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes:
        states, steps: How many different states there are, and how many steps lead from one to another.
        depth: The number of steps to the state that is farthest from the beginning.
        violated: The invariant that does not hold, None if all hold in all states.
        trace: The shortest way to a state in which it does not.
    """

    states: int
    steps: int
    depth: int
    violated: str | None = None
    trace: tuple[Step, ...] = ()

    def __str__(self) -> str:
        told = "\n".join(f"{number:3d}  {step}" for number, step in enumerate(self.trace, start=1))
        return f"{self.violated}: does not hold after\n{told}" if self.violated else f"{self.states:,} states"


def steps_from(state: State, size: Size, rules: Rules = SOUND) -> Iterator[tuple[Step, State]]:
    """Go through all that can happen next, with the state after it."""
    yield from referee_steps(state, size, rules)
    yield from curator_steps(state, rules)
    yield from agent_steps(state, size, rules)


def search(
    size: Size, rules: Rules = SOUND, *, watched: Iterable[str] = (*INVARIANTS, CAN_END), symmetry: bool = True
) -> Found:
    """Visit every state that can be reached, until an invariant does not hold.

    Args:
        watched: Which invariants are looked at.
        symmetry: Whether states that differ only in the numbers of equals count as one. The trace of a search without
            it has the same numbers for the same parties all along.
    """

    def same(state: State) -> State:
        return canonical(state, size.questions) if symmetry else state

    looked_at = frozenset(watched)
    first = same(initial(size))
    number = {first: 0}
    came: list[tuple[int, Step]] = [(NOBODY, Step("begin"))]
    before: list[list[int]] = [[]]
    ended: list[int] = []
    steps = depth = 0
    nearest = [first]
    while nearest:
        further: list[State] = []
        for state in nearest:
            here = number[state]
            wrong = violated(state, looked_at)
            if wrong is not None:
                return Found(len(number), steps, depth, wrong, _way(came, here))
            if state.result != NOBODY:
                ended.append(here)
            for step, left in steps_from(state, size, rules):
                steps += 1
                after = same(left)
                there = number.get(after)
                if there is None:
                    there = number[after] = len(number)
                    came.append((here, step))
                    before.append([])
                    further.append(after)
                if step.action not in FAULTS:
                    before[there].append(here)
        depth += bool(further)
        nearest = further
    stuck = _never_ending(before, ended) if CAN_END in looked_at else None
    if stuck is not None:
        return Found(len(number), steps, depth, CAN_END, _way(came, stuck))
    return Found(len(number), steps, depth)


def _never_ending(before: list[list[int]], ended: list[int]) -> int | None:
    """Return the nearest state from which no state is reached in which the run has ended."""
    can = bytearray(len(before))
    waiting = list(ended)
    for place in waiting:
        can[place] = 1
    while waiting:
        for place in before[waiting.pop()]:
            if not can[place]:
                can[place] = 1
                waiting.append(place)
    stuck = can.find(0)
    return None if stuck < 0 else stuck


def _way(came: list[tuple[int, Step]], place: int) -> tuple[Step, ...]:
    way = []
    while place:
        place, step = came[place]
        way.append(step)
    return tuple(reversed(way))
