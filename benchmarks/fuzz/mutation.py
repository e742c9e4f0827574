"""Valid inputs, changed a little: in their tree, so that most changes get past the parser, or in their bytes."""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

MAX_BYTES = 1 << 16
"""Bytes of an input, at most: what is longer is cut."""
_EDITS = 4
"""Changes of one input, at most."""

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 255, 256, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 53) + 1,
    (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 63), -(1 << 64), 10**400, 0.0, -0.0, 0.1, 0.5, 1.0, 1e-300, 5e-324, 1e308,
    -1e308, 1.5e16, float("nan"), float("inf"), float("-inf"), "", " ", "0", "1", "-1", "1e999", "nan", "plan", "null",
    "\x00", "\ud800", "é", "\u202e", "a" * 300, "0" * 64, "f" * 64, "0" * 128, "../../etc/passwd", "=1+1", "%s%n",
    "AAAA", "AAAAAA==", "====", [], {}, [[]], [None], {"": None}, {"kind": "linear"}, {"kind": []}, {"name": "warner"},
    {"a": {"a": {"a": {"a": {}}}}}, [0] * 100,
)  # fmt: skip
"""Values at the edges of what a field may be, and beyond."""


def deep(levels: int) -> Any:
    """Return lists in lists."""
    found: Any = []
    for _ in range(levels):
        found = [found]
    return found


class Mutator:
    """Changes inputs, the same ones for the same seed.

    Args:
        seed: Of all choices.
        words: Values that are put in the place of others, beside :data:`STRANGE`: those of other valid inputs.
    """

    def __init__(self, seed: int | str, words: Sequence[Any] = ()) -> None:
        self.random = random.Random(seed)
        self._words = list(words)

    def tree(self, value: Any) -> Any:
        """Return a changed copy of a JSON tree."""
        found = copy.deepcopy(value)
        for _ in range(self.random.randint(1, _EDITS)):
            found = self._edit(found)
        if self.random.random() < 0.01:  # last, since no edit goes that deep
            return deep(self.random.choice((5, 31, 32, 33, 500)))
        return found

    def written(self, value: Any) -> bytes:
        """Return a changed tree as JSON text, in one of the ways in which it may be written; seldom changed again."""
        tree = self.tree(value)
        ways: dict[str, Any] = {"ensure_ascii": self.random.random() < 0.5, "sort_keys": self.random.random() < 0.7}
        if self.random.random() < 0.8:
            ways["separators"] = (",", ":")
        try:
            text = json.dumps(tree, **ways)
        except (TypeError, ValueError, RecursionError):
            text = json.dumps(value)
        raw = text.encode("utf-8", "surrogatepass")
        return self.raw(raw) if self.random.random() < 0.1 else raw[:MAX_BYTES]

    def raw(self, data: bytes) -> bytes:
        """Return changed bytes."""
        found = bytearray(data)
        for _ in range(self.random.randint(1, _EDITS)):
            at = self.random.randrange(len(found) + 1)
            match self.random.randrange(8):
                case 0 if found:
                    found[at % len(found)] ^= 1 << self.random.randrange(8)
                case 1:
                    found[at:at] = self.random.randbytes(self.random.choice((1, 2, 4, 8, 64)))
                case 2:
                    del found[at : at + self.random.choice((1, 2, 8, 100, len(found)))]
                case 3:
                    found[at:at] = found[: self.random.randrange(len(found) + 1)]
                case 4:
                    found[at : at + 1] = bytes([self.random.choice((0, 9, 10, 13, 34, 44, 58, 91, 93, 123, 125, 255))])
                case 5:
                    found[at : at + 8] = self.random.choice((b"\x00", b"\xff")) * 8
                case 6:
                    found[at:at] = self.random.choice((b"[" * 3000, b'{"a":' * 2000, b"9" * 5000, b"\xed\xa0\x80"))
                case _:
                    del found[at:]
            found = found[:MAX_BYTES]
        return bytes(found)

    def _edit(self, tree: Any) -> Any:
        paths = list(_paths(tree))
        holder, key = self.random.choice(paths) if paths else (None, None)
        if holder is None or self.random.random() < 0.01:
            return self._value()
        match self.random.randrange(8):
            case 0 | 1 | 2:
                holder[key] = self._like(holder[key])
            case 3:
                del holder[key]
            case 4 if isinstance(holder, dict):
                holder[self.random.choice(("", "kind", "extra", str(key).upper(), "\x00"))] = self._value()
            case 4:
                holder.insert(key, copy.deepcopy(holder[key]))
            case 5:
                other, name = self.random.choice(paths)
                holder[key] = copy.deepcopy(other[name]) if not _within(other[name], holder) else self._value()
            case 6:
                holder[key] = [holder[key]]
            case _:
                holder[key] = self._value()
        return tree

    def _value(self) -> Any:
        pool = self._words if self._words and self.random.random() < 0.4 else STRANGE
        return copy.deepcopy(self.random.choice(pool))

    def _like(self, value: Any) -> Any:
        """Return another value of the same type, near the old one if there is one."""
        try:
            return self._near(value)
        except (ValueError, OverflowError):
            return self._value()

    def _near(self, value: Any) -> Any:
        if isinstance(value, bool) or value is None:
            return self._value()
        if isinstance(value, int):
            return value + self.random.choice((-1, 1, 2, -value, -2 * value, 1 << 31, 1 << 32, 1 << 63))
        if isinstance(value, float):
            return self.random.choice((-value, value * 2, value / 3, value + 1e-9, value * 1e300, int(value % 1e9)))
        if isinstance(value, str):
            return self._text(value)
        return self._value()

    def _text(self, text: str) -> str:
        at = self.random.randrange(len(text) + 1)
        match self.random.randrange(6):
            case 0:
                return text[:at]
            case 1:
                return text[:at] + self.random.choice("\x00é\ud800=A/ \n") + text[at:]
            case 2:
                return text[:at] + self.random.choice("0123456789abcdefgzAZ_-") + text[at + 1 :]
            case 3:
                return text * 2
            case 4:
                return base64.b64encode(self.random.randbytes(self.random.choice((1, 3, 4, 8, 400)))).decode()
            case _:
                return text.swapcase()


def _paths(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Go through all places of a tree, as (list or mapping, index or key)."""
    inner: Any = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inner):
        yield tree, key
        yield from _paths(value)


def _within(inner: Any, outer: Any) -> bool:
    """Tell whether one part of a tree holds another one: put there, it would hold itself."""
    return inner is outer or any(_within(inner[key], outer) for key in _keys(inner))


def _keys(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
