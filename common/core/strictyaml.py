"""Strict YAML, also for untrusted input: no duplicate keys, no tags, and limits on depth and size.

A document is validated event by event, without recursion, before PyYAML constructs values, which recurses without a
limit. A user's own files may contain aliases, within the same limits; files of another party's folder may not.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from common.core.canonical import DEEPEST, LONGEST_NUMBER

MOST = 1 << 18  # values in one document, counted as often as aliases repeat them
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's parser is eight times as fast
_TAGS = re.compile(r"^%TAG", re.MULTILINE)
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def load(text: str, *, aliases: bool = False) -> Any:
    """Parse one YAML document, which may use aliases and merge keys if ``aliases`` is true.

    Raises:
        yaml.YAMLError: If it is not YAML, a key is given twice, or a value is invalid (a number of hundreds of digits,
            a date that does not exist); if it has a tag, more than :data:`~common.core.canonical.DEEPEST` levels or
            more than :data:`MOST` values.
    """
    if tagged := _TAGS.search(text):  # libyaml compares each of these with all previous ones
        raise yaml.constructor.ConstructorError(None, None, f"the directive {tagged[0]} is not allowed")
    try:
        loader = _Loader(text)
        try:
            _Check(loader, aliases).document()
        finally:
            loader.dispose()
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, on a validated document
    except (ValueError, OverflowError) as error:  # a lone surrogate, or a date that does not exist
        raise yaml.constructor.ConstructorError(None, None, str(error)) from None


def place(text: str, path: Sequence[int | str]) -> tuple[int, int] | None:
    """Return the line and the column, from 1, of the deepest node of a document on a path of keys.

    Parts of the path that do not exist are skipped; None if the document has none of them.
    """
    load(text, aliases=True)  # refuses a document that is too deep before PyYAML recurses into it
    node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    mark: yaml.Mark | None = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == part:
                    mark, node = key.start_mark, value
                    break
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            mark = node.start_mark
    return None if mark is None else (mark.line + 1, mark.column + 1)


class _Part(NamedTuple):
    """A complete value: its number of values, its depth, and the text of a scalar."""

    size: int
    depth: int
    text: str


@dataclass
class _Open:  # a list or mapping whose end has not been read yet
    mark: Any
    names: set[str] | None  # of a mapping
    key: bool = False  # whether the next value belongs to a key
    size: int = 1
    depth: int = 1


class _Check:
    def __init__(self, loader: Any, aliases: bool) -> None:
        self._loader, self._aliases = loader, aliases
        self._anchors: dict[str, _Part] = {}
        self._open: list[_Open] = []
        self._count = 0

    def document(self) -> None:
        begun = False
        while not isinstance(event := self._loader.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                if begun:
                    raise _refusal("a second document begins", event)
                begun = True
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                closed = self._open.pop()
                self._put(_Part(closed.size, closed.depth, ""), closed.mark)
            elif isinstance(event, yaml.AliasEvent):
                self._put(self._alias(event), event)
            elif isinstance(event, yaml.ScalarEvent):
                self._put(self._scalar(event), event)

    def _begin(self, event: Any) -> None:
        _check_tag(event)
        if len(self._open) == DEEPEST:
            raise _refusal(f"nested more than {DEEPEST} levels deep", event)
        if self._open and self._open[-1].names is not None and not self._open[-1].key:
            raise _refusal("a list or mapping is a key", event)
        self._open.append(_Open(event, set() if isinstance(event, yaml.MappingStartEvent) else None))

    def _alias(self, event: Any) -> _Part:
        if not self._aliases:
            raise _refusal(f"the alias *{event.anchor} repeats a value, which is not allowed here", event)
        part = self._anchors.get(event.anchor)
        if part is None:
            raise _refusal(f"the alias *{event.anchor} names nothing that is complete before it", event)
        return part

    def _scalar(self, event: Any) -> _Part:
        _check_tag(event)
        tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag == _MERGE and not self._aliases:
            raise _refusal("a merge key << repeats values, which is not allowed here", event)
        if tag in _NUMBERS and len(event.value) > LONGEST_NUMBER:
            raise _refusal(f"a number has {len(event.value):,} characters, at most {LONGEST_NUMBER}", event)
        return _Part(1, 0, event.value)

    def _put(self, part: _Part, event: Any) -> None:
        self._count += part.size if isinstance(event, yaml.AliasEvent) else 1
        if self._count > MOST:
            raise _refusal(f"more than {MOST:,} values", event)
        if len(self._open) + part.depth > DEEPEST:
            raise _refusal(f"nested more than {DEEPEST} levels deep", event)
        if event.anchor is not None and not isinstance(event, yaml.AliasEvent):
            self._anchors[event.anchor] = part
        if not self._open:
            return
        parent = self._open[-1]
        parent.size += part.size
        parent.depth = max(parent.depth, 1 + part.depth)
        if parent.names is None:
            return
        if not parent.key:
            if part.depth:
                raise _refusal("a list or mapping is a key", event)
            if part.text in parent.names:
                raise _refusal(f"the key {part.text!r} is given twice", event)
            parent.names.add(part.text)
        parent.key = not parent.key


def _check_tag(event: Any) -> None:
    if event.tag is not None:
        raise _refusal(f"the tag {event.tag!r} is not allowed", event)


def _refusal(reason: str, event: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, reason, getattr(event, "start_mark", None))
