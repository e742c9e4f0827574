"""Message patterns: which messages may go to whom, in which order, as a regular expression over a protocol's messages.

A pattern is a value; :meth:`Pattern.after` is its Brzozowski derivative. An illegal message raises
:class:`~common.core.errors.PatternViolation` and does not change the pattern.

    curator("learn") + many(agents("loss")) + maybe(curator("reweigh"))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from common.core.errors import PatternViolation

Party = Literal["curator", "agents"]
Sent = tuple[tuple[Party, str], ...]  # messages that leave at once: the kind of each, and its party; sorted


class Pattern(ABC):
    """A set of legal message sequences."""

    @property
    def may_end(self) -> bool:
        return False

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return tuple(part for part in vars(self).values() if isinstance(part, Pattern))

    def kinds(self, party: Party) -> frozenset[str]:
        """Return the kinds of messages that a party may ever get."""
        return frozenset().union(*(part.kinds(party) for part in self.parts))

    @abstractmethod
    def _derive(self, sent: Sent) -> Pattern:
        """Return what may follow after these messages (:data:`NOTHING` if they are illegal here)."""

    def expected(self) -> frozenset[str]:
        """Return the messages that are legal now, as "party kind"."""
        return frozenset().union(*(part.expected() for part in self.parts))

    def after(self, *messages: tuple[Party, str]) -> Pattern:
        sent = tuple(sorted(messages))
        rest = self._derive(sent)
        if rest is NOTHING:
            legal = ", ".join(sorted(self.expected())) or "nothing (the protocol has ended)"
            raise PatternViolation(f"message {_in_words(sent)} is not legal here; legal: {legal}")
        return rest

    def end(self) -> None:
        if not self.may_end:
            raise PatternViolation(f"the protocol may not end here; expected: {', '.join(sorted(self.expected()))}")

    def __add__(self, other: Pattern) -> Pattern:
        if self is NOTHING or other is NOTHING:
            return NOTHING
        if self is END:
            return other
        return self if other is END else Sequence(self, other)

    def __or__(self, other: Pattern) -> Pattern:
        if self is NOTHING or self == other:
            return other
        return self if other is NOTHING else Alternation(self, other)


class _Impossible(Pattern):
    def _derive(self, sent: Sent) -> Pattern:
        return NOTHING

    def __str__(self) -> str:
        return "nothing"


class _End(_Impossible):
    may_end = True

    def __str__(self) -> str:
        return "end"


NOTHING: Pattern = _Impossible()
END: Pattern = _End()


@dataclass(frozen=True)
class Messages(Pattern):
    """Exactly these messages, at once."""

    sent: Sent

    def kinds(self, party: Party) -> frozenset[str]:
        return frozenset(kind for recipient, kind in self.sent if recipient == party)

    def _derive(self, sent: Sent) -> Pattern:
        return END if sent == self.sent else NOTHING

    def expected(self) -> frozenset[str]:
        return frozenset({_in_words(self.sent)})

    def __str__(self) -> str:
        return " & ".join(f"{party}:{kind}" for party, kind in self.sent)


@dataclass(frozen=True)
class Sequence(Pattern):
    """The first pattern, and then the second."""

    first: Pattern
    then: Pattern

    @property
    def may_end(self) -> bool:
        return self.first.may_end and self.then.may_end

    def _derive(self, sent: Sent) -> Pattern:
        derivative = self.first._derive(sent) + self.then
        return derivative | self.then._derive(sent) if self.first.may_end else derivative

    def expected(self) -> frozenset[str]:
        return self.first.expected() | (self.then.expected() if self.first.may_end else frozenset())

    def __str__(self) -> str:
        return f"{self.first} {self.then}"


@dataclass(frozen=True)
class Alternation(Pattern):
    """One pattern or the other."""

    left: Pattern
    right: Pattern

    @property
    def may_end(self) -> bool:
        return self.left.may_end or self.right.may_end

    def _derive(self, sent: Sent) -> Pattern:
        return self.left._derive(sent) | self.right._derive(sent)

    def __str__(self) -> str:
        return f"({self.left} | {self.right})"


@dataclass(frozen=True)
class Repetition(Pattern):
    """The body any number of times, possibly none."""

    body: Pattern
    may_end = True

    def _derive(self, sent: Sent) -> Pattern:
        return self.body._derive(sent) + self

    def __str__(self) -> str:
        return f"({self.body})*"


many = Repetition


def _in_words(sent: Sent) -> str:
    return " at once with ".join(f"{kind!r} to the {party}" for party, kind in sent)


def curator(kind: str) -> Pattern:
    """Return the pattern of one operation of the curator."""
    return Messages((("curator", kind),))


def agents(kind: str) -> Pattern:
    """Return the pattern of one question to a batch of agents."""
    return Messages((("agents", kind),))


def together(*parts: Pattern) -> Pattern:
    """Return the pattern of single messages that leave at once, in one step: none may depend on another's answer."""
    return Messages(tuple(sorted(message for part in parts if isinstance(part, Messages) for message in part.sent)))


def sequence(*parts: Pattern) -> Pattern:
    """Return the pattern of all parts, in this order."""
    return reduce(lambda left, right: left + right, parts, END)


def maybe(body: Pattern) -> Pattern:
    """Return the pattern of the body, once or not at all."""
    return body | END


def some(body: Pattern) -> Pattern:
    """Return the pattern of the body, at least once."""
    return body + Repetition(body)
