"""Kinds of answers that a hostile peer gives, each made of the answer that an honest one would give."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.fuzz.mutation import Mutator
from benchmarks.hostile.network import FOREVER, Request, Script
from common.core import canonical, errors
from common.core.errors import URN, BadMessage, TandemError
from common.core.version import HEADER, stated
from common.crypto.identity import Identity, Signed

STICKS = 0.3
"""How likely a peer that has given an answer of a kind gives no other ones from then on."""
TEXT = "no\x1b[2J\r\n# Verified by auditor\u202e \x00<script>alert(1)</script> `|` " + "x" * 3000
"""A hostile text: escape codes, line breaks, an end of line from the right, markup, and long."""
_ENDLESS = b"x" * (1 << 16)


@dataclass(frozen=True)
class Answer:
    """An answer of HTTP."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def head(self, length: int | None = None) -> bytes:
        """Return status and headers; ``length`` is another one than that of the body."""
        fields = {HEADER: stated(), "Content-Type": "application/json"}
        if ("Transfer-Encoding", "chunked") not in self.headers:
            fields["Content-Length"] = str(len(self.body) if length is None else length)
        fields |= dict(self.headers)
        more = [f"{name}: {value}" for name, value in self.headers[1:]]
        lines = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in fields.items()), *more]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"

    def raw(self) -> bytes:
        """Return it as it travels."""
        return self.head() + (b"" if self.status == 204 else self.body)


Honest = Callable[[Request], Answer]


class Peer:
    """A peer that answers as an honest one, or by a kind of :data:`KINDS`, as a seed draws.

    Args:
        mutator: Draws.
        honest: What an honest peer answers.
        key: With which it signs what no honest one would: its own; None: it has none, and signs by a stranger's.
        others: Bodies of valid answers to other requests.
        rate: Share of the answers that are hostile, in [0, 1].
        kinds: Which it gives.
    """

    def __init__(
        self,
        mutator: Mutator,
        honest: Honest,
        key: Identity | None = None,
        others: Sequence[bytes] = (),
        rate: float = 0.5,
        kinds: Sequence[str] | None = None,
    ) -> None:
        self.mutator, self.random, self._honest = mutator, mutator.random, honest
        self.key, self.others, self._rate = key, others, rate
        self.kinds = tuple(KINDS) if kinds is None else tuple(kinds)
        self._stuck: str | None = None
        self.past: list[Answer] = []
        self.seen: list[Request] = []
        """What has reached it."""
        self.log: list[str] = []
        """What it has done."""

    def dialled(self) -> float | None:
        """Return how slowly it reads; None: it refuses the connection."""
        kind = self._stuck or (self._drawn() if self.random.random() < 0.1 else None)
        if kind == "refuses connections":
            self.log.append(kind)
            return None
        if kind == "reads slowly":
            self.log.append(kind)
            return 1.0
        return 0.0

    def answer(self, request: Request) -> Script:
        """Answer a request."""
        self.seen.append(request)
        try:
            honest = self._honest(request)
        except TandemError as error:
            honest = Answer(error.status, json.dumps(error.document()).encode())
        kind = self._stuck or self._drawn()
        place = "/".join(request.path.split("?")[0].split("/")[:3])
        self.log.append(f"{request.method} {place[:100]}: {kind or honest.status}")
        self.past.append(honest)
        if kind is None:
            return iter([honest.raw()])
        return KINDS[kind](self, request, honest)

    def _drawn(self) -> str | None:
        if not self.kinds or self.random.random() >= self._rate:
            return None
        kind = self.random.choice(self.kinds)
        if self.random.random() < STICKS:
            self._stuck = kind
        return kind

    def reform(self) -> None:
        """Answer as an honest peer from now on."""
        self.kinds, self._stuck = (), None

    def tree(self, honest: Answer) -> Any:
        """Return the JSON value of an answer, or another one where it has none."""
        try:
            return canonical.decode(honest.body)
        except BadMessage:
            return {"kind": "none"}


Kind = Callable[[Peer, Request, Answer], Script]


def whole(make: Callable[[Peer, Answer], Answer]) -> Kind:
    """Return a kind that is one answer of HTTP."""
    return lambda peer, request, honest: iter([make(peer, honest).raw()])


def body(make: Callable[[Peer, Answer], bytes]) -> Kind:
    """Return a kind that has another body than the honest answer."""
    return whole(lambda peer, honest: Answer(200, make(peer, honest)))


def _signed(peer: Peer, honest: Answer, key: Identity, *, change: bool) -> bytes:
    """Return the message of an honest answer, signed by a key, and changed before that."""
    tree = peer.tree(honest)
    try:
        known = Signed.parse(tree)
    except BadMessage:
        return _json(peer.mutator.tree(tree))
    message = peer.mutator.tree(known.message) if change else known.message
    try:
        return key.envelope(known.kind, canonical.encode(message))
    except (BadMessage, UnicodeEncodeError):
        return _json(tree)


def _json(tree: Any) -> bytes:
    try:
        return json.dumps(tree).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        return b"null"


@cache
def stranger() -> Identity:
    """Return a key that belongs to no party."""
    return Identity(Ed25519PrivateKey.from_private_bytes(b"s" * 32))


@cache
def _problems() -> list[str]:
    """Return the names of all problems that Tandem knows, and of some that it does not."""
    found = {"no-such", "", "about:blank"}
    pending = [errors.TandemError]
    while pending:
        error = pending.pop()
        found.add(error.problem)
        pending += error.__subclasses__()
    return sorted(found)


def _problem(peer: Peer, honest: Answer) -> Answer:
    """Return a refusal of any type, whose members are whatever a peer likes."""
    document: dict[str, Any] = {
        "type": URN + peer.random.choice(_problems()),
        "title": peer.random.choice(("x", TEXT, None, 1)),
        "detail": peer.random.choice(("x", TEXT, "ask again later", "no space on the disk", None, {}, 7)),
        "status": peer.random.choice((400, 503, "x", None)),
    }
    if peer.random.random() < 0.3:
        document |= dict.fromkeys(("self", "detail_", "error", "args", "\x1b[2J"), TEXT)
    return Answer(peer.random.choice((400, 401, 403, 404, 409, 422, 429, 500, 503)), _json(document))


def _page(peer: Peer, request: Request, honest: Answer) -> Script:
    """Answer full pages without end: of the honest list's items, of older ones, or of anything."""
    tree = peer.tree(honest)
    items = tree if isinstance(tree, list) and tree else [tree]
    count = 1000 if "most=1000" in request.path else 100
    one = items[-1] if peer.random.random() < 0.5 else peer.mutator.tree(items[-1])
    return iter([Answer(200, _json([one] * count)).raw()])


def _too_long(peer: Peer, request: Request, honest: Answer) -> Script:
    yield Answer(peer.random.choice((200, 403))).head(99_999_999_999)
    yield from itertools.repeat(_ENDLESS)


def _without_end(peer: Peer, request: Request, honest: Answer) -> Script:
    if peer.random.random() < 0.5:
        yield Answer(200, headers=(("Transfer-Encoding", "chunked"),)).head()
        yield from itertools.repeat(b"10000\r\n" + _ENDLESS + b"\r\n")
    else:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        yield from itertools.repeat(_ENDLESS)


def _dribbled(peer: Peer, request: Request, honest: Answer) -> Script:
    """Answer a byte now and then: of the head, of the body, or of a body that has no end."""
    raw = honest.raw()
    at = peer.random.choice((0, 12, raw.find(b"\r\n\r\n") + 4))
    if at:
        yield raw[:at]
    pause = peer.random.choice((0.5, 1.0, 20.0))
    for place in range(at, len(raw)):
        yield pause
        yield raw[place : place + 1]


def _never_finished(peer: Peer, request: Request, honest: Answer) -> Script:
    raw = honest.raw()
    if (cut := peer.random.randrange(len(raw))) > 0:
        yield raw[:cut]
    yield FOREVER


def _cut(peer: Peer, request: Request, honest: Answer) -> Script:
    raw = honest.raw()
    return iter([raw[:cut]] if (cut := peer.random.randrange(len(raw))) else [])


def _informs(peer: Peer, request: Request, honest: Answer) -> Script:
    for _ in itertools.count():
        yield b"HTTP/1.1 103 Early Hints\r\n\r\n"
        yield 1.0


def _status(peer: Peer, honest: Answer) -> Answer:
    status = peer.random.choice((200, 201, 203, 204, 205, 206, 207, 226, 299, 300, 304, 400, 404, 418, 500, 502, 599))
    return replace(honest, status=status)


def _headers(peer: Peer, honest: Answer) -> Answer:
    value = peer.random.choice(("", "x", "-1", "1e999", "nan", "inf", "9" * 400, "99 tandem/99", "é", "a, b, c", TEXT))
    value = value.replace("\r\n", " ").replace("\x00", " ").replace("\x1b", " ")
    names = ("Retry-After", HEADER, "Content-Type", "Set-Cookie", "Date", "Content-Encoding", "Connection")
    return replace(honest, headers=((peer.random.choice(names), value),))


def _deep(peer: Peer, honest: Answer) -> bytes:
    levels = peer.random.choice((64, 1_000, 30_000))
    if peer.random.random() < 0.5:
        return b"[" * levels + b"]" * levels
    return b'{"kind": "x", "message": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


def _anything(peer: Peer, honest: Answer) -> bytes:
    return _json(peer.random.choice((None, True, 0, -1, 1.5, "", "x", TEXT, [], {}, [[]], [1], [None], {"": ""}, "é")))


def _sometimes(honest: Answer) -> bytes:
    return gzip.compress(honest.body + b"0" * 100_000)


KINDS: dict[str, Kind] = {
    "is no HTTP": lambda peer, request, honest: iter([peer.random.randbytes(peer.random.choice((1, 20, 3000)))]),
    "garbage": body(lambda peer, honest: peer.random.randbytes(peer.random.choice((0, 1, 32, 256, 5000)))),
    "another type": body(_anything),
    "changed": body(lambda peer, honest: peer.mutator.written(peer.tree(honest))),
    "changed bytes": body(lambda peer, honest: peer.mutator.raw(honest.body)),
    "another's signature": body(lambda peer, honest: _signed(peer, honest, stranger(), change=False)),
    "signed by itself": body(lambda peer, honest: _signed(peer, honest, peer.key or stranger(), change=True)),
    "an old answer": whole(lambda peer, honest: peer.random.choice(peer.past)),
    "another answer": body(lambda peer, honest: peer.random.choice(peer.others) if peer.others else b"{}"),
    "at work": whole(lambda peer, honest: Answer(202, b"{}")),
    "busy": whole(lambda peer, honest: Answer(503, b"{}", (("Retry-After", "1"),))),
    "cannot write": whole(lambda peer, honest: Answer(503, _json(errors.CannotWrite(TEXT).document()))),
    "too many requests": whole(lambda peer, honest: Answer(429, _json({"title": "x"}), (("Retry-After", "9" * 30),))),
    "another status": whole(_status),
    "redirects": whole(lambda peer, honest: Answer(302, headers=(("Location", "http://elsewhere/v1/x"),))),
    "a problem": whole(_problem),
    "pages without end": _page,
    "too long": _too_long,
    "without end": _without_end,
    "deep": body(_deep),
    "wide": body(lambda peer, honest: b'{"kind": "k", "message": {"a": [' + b"[]," * 10_000 + b"[]]}}"),
    "compressed": whole(lambda peer, honest: Answer(200, _sometimes(honest), (("Content-Encoding", "gzip"),))),
    "dribbled": _dribbled,
    "never finished": _never_finished,
    "cut": _cut,
    "informs for ever": _informs,
    "many headers": whole(lambda peer, honest: replace(honest, headers=(("A", "b"),) * 3000)),
    "strange headers": whole(_headers),
    "twice": lambda peer, request, honest: iter([honest.raw() * 2]),
    "reads slowly": lambda peer, request, honest: iter([honest.raw()]),
    "refuses connections": lambda peer, request, honest: iter([]),
}
"""All kinds."""


def temper(mutator: Mutator) -> dict[str, Any]:
    """Draw how hostile a peer is: how often, and in which ways."""
    random = mutator.random
    kinds = random.sample(sorted(KINDS), random.choice((1, 2, 4, len(KINDS))))
    return {"rate": random.choice((0.1, 0.3, 0.6, 1.0)), "kinds": kinds}


def steps(log: Sequence[str]) -> Iterator[str]:
    """Yield what peers have done, with repetitions in one line."""
    for line, same in itertools.groupby(log):
        count = len(list(same))
        yield line if count == 1 else f"{line} (x {count:,})"
