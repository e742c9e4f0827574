"""Every protocol's sequence diagram, drawn from the pattern that enforces it.

    python -m referee.view.diagrams

The site publishes the output as a page of its reference.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator

from common.protocols.base import demands_of
from common.protocols.patterns import END, Alternation, Messages, Party, Pattern, Repetition, Sequence
from referee.protocols.base import PROTOCOLS, Protocol

_HEAD = ("sequenceDiagram", "    participant Curator", "    participant Referee", "    participant Agents")
_ANSWER: dict[Party, str] = {"curator": "Curator-->>Referee: release", "agents": "Agents-->>Referee: answers"}
_ARROW: dict[Party, str] = {"curator": "Referee->>Curator", "agents": "Referee->>Agents"}


def mermaid(pattern: Pattern) -> str:
    """Return a pattern as a Mermaid sequence diagram."""
    return "\n".join([*_HEAD, *(f"    {line}" for line in _lines(pattern))])


def _lines(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, Messages):
        sent = [(f"{_ARROW[party]}: {kind}", _ANSWER[party]) for party, kind in pattern.sent]
        together = _box("par every message leaves before any answer arrives", *sent, between="and")
        yield from together if len(sent) > 1 else sent[0]
    elif isinstance(pattern, Sequence):
        if pattern.then == Repetition(pattern.first):
            yield from _box("loop at least once", _lines(pattern.first))
        elif isinstance(pattern.then, Sequence) and pattern.then.first == Repetition(pattern.first):
            yield from _box("loop at least once", _lines(pattern.first))
            yield from _lines(pattern.then.then)
        else:
            yield from _lines(pattern.first)
            yield from _lines(pattern.then)
    elif isinstance(pattern, Repetition):
        yield from _box("loop any number of times", _lines(pattern.body))
    elif isinstance(pattern, Alternation):
        if pattern.right is END:
            yield from _box("opt", _lines(pattern.left))
        else:
            yield from _box("alt", _lines(pattern.left), _lines(pattern.right))


def _box(title: str, *parts: Iterable[str], between: str = "else") -> Iterator[str]:
    for place, part in enumerate(parts):
        yield between if place else title
        yield from (f"    {line}" for line in part)
    yield "end"


def page() -> str:
    """Return the page of all shipped protocols, as Markdown."""
    parts = [
        "# Protocols",
        "Made from each protocol's declared pattern: what is drawn here is what "
        "the driver enforces, live, in a replay and in an audit. Each agent asked gives one randomized answer. "
        "Names are those of the curator's operations (`common/operations`) and of the "
        "agents' queries (`common/local/queries`). In what `done` states, `alpha` and `beta` are the scenario's, "
        "`sure` is 1 - beta and `level` is accuracy.halt_below times alpha, beyond accuracy.best.",
    ]
    for name in PROTOCOLS.shipped():
        parts += [f"## {name}", *_described(name, PROTOCOLS[name])]
    return "\n\n".join(parts) + "\n"


def _described(name: str, protocol: type[Protocol]) -> Iterator[str]:
    yield (inspect.getdoc(protocol) or "").partition("\n\n")[0].replace("\n", " ")
    yield f"```mermaid\n{mermaid(protocol.pattern)}\n```"
    yield f"Where it ends `done`, it has shown this: {protocol.done}."
    alone = ", ".join(f"{side}: `{pattern}`" for side, pattern in demands_of(name).alone.items())
    if alone:
        yield f"A side alone: {alone}."


if __name__ == "__main__":
    sys.stdout.write(page())
