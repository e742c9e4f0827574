"""YAML as it is meant, also from a stranger: no key twice, no tags, and nothing deep, large or endless.

The document is read event by event, without recursion: PyYAML's own loaders recurse for each level, in C without a
limit, and an alias (``*name``) makes a few lines stand for gigabytes. Files of one's own may hold aliases, within the
same limits; a file of another party's folder may not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from common.core.canonical import DEEPEST, LONGEST_NUMBER

MOST = 1 << 18
"""Values in one document, each as often as aliases repeat it."""
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, where PyYAML was built with it: eight times as fast."""
_TAGS = re.compile(r"^%TAG", re.MULTILINE)
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def load(text: str, *, aliases: bool = False) -> Any:
    """Parse one YAML document.

    Args:
        aliases: Whether the document may use aliases and merge keys.

    Raises:
        yaml.YAMLError: If it is not YAML, a key is given twice, or a value is none: a number of hundreds of digits, a
            date that no calendar has; if it holds a tag, an alias that it may not hold, more than
            :data:`~common.core.canonical.DEEPEST` levels or more than :data:`MOST` values.
    """
    if tagged := _TAGS.search(text):  # libyaml compares each of these with all before it
        raise yaml.constructor.ConstructorError(None, None, f"the directive {tagged[0]} is not allowed")
    try:
        loader = _Loader(text)
    except ValueError as error:  # a lone surrogate
        raise yaml.YAMLError(str(error)) from None
    try:
        return _Reading(loader, aliases).document()
    except (ValueError, OverflowError) as error:  # a loader's own errors are none of these
        raise yaml.constructor.ConstructorError(None, None, str(error)) from None
    finally:
        loader.dispose()


def place(text: str, path: Sequence[int | str]) -> tuple[int, int] | None:
    """Return the line and the column, from 1, of the deepest node of a document that a path of keys leads to.

    Parts of the path that no mapping or list has are passed over; None if the document has none of them.
    """
    load(text, aliases=True)  # what is too deep is refused before PyYAML recurses into it
    node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    found: yaml.Mark | None = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == part:
                    found, node = key.start_mark, value
                    break
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            found = node.start_mark
    return None if found is None else (found.line + 1, found.column + 1)


@dataclass(frozen=True)
class _Part:  # a complete value: for how many values it stands, and how deep it is
    value: Any
    size: int = 1
    depth: int = 0
    merges: bool = False


@dataclass
class _Open:  # a list or mapping whose end has not come yet
    mark: Any
    anchor: str | None
    mapping: bool
    items: list[Any] = field(default_factory=list)
    own: dict[Any, Any] = field(default_factory=dict)
    merged: dict[Any, Any] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    key: _Part | None = None
    size: int = 1
    depth: int = 1

    def part(self) -> _Part:
        return _Part({**self.merged, **self.own} if self.mapping else self.items, self.size, self.depth)


class _Reading:
    def __init__(self, loader: Any, aliases: bool) -> None:
        self._loader = loader
        self._aliases = aliases
        self._anchors: dict[str, _Part] = {}
        self._open: list[_Open] = []
        self._count = 0
        self._found: Any = None

    def document(self) -> Any:
        begun = False
        while True:
            event = self._loader.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return self._found
            if isinstance(event, yaml.DocumentStartEvent):
                if begun:
                    raise _refused("a second document begins", event)
                begun = True
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                closed = self._open.pop()
                self._put(closed.part(), closed.anchor, closed.mark)
            elif isinstance(event, yaml.AliasEvent):
                self._put(self._alias(event), None, event)
            elif isinstance(event, yaml.ScalarEvent):
                self._put(self._scalar(event), event.anchor, event)

    def _begin(self, event: Any) -> None:
        _check_tag(event)
        if len(self._open) == DEEPEST:
            raise _refused(f"nested more than {DEEPEST} levels deep", event)
        if self._open and self._open[-1].mapping and self._open[-1].key is None:
            raise _refused("a list or mapping is a key", event)
        self._open.append(_Open(event, event.anchor, isinstance(event, yaml.MappingStartEvent)))

    def _alias(self, event: Any) -> _Part:
        if not self._aliases:
            raise _refused(f"the alias *{event.anchor} repeats a value, which is not allowed here", event)
        found = self._anchors.get(event.anchor)
        if found is None:
            raise _refused(f"the alias *{event.anchor} names nothing that is complete before it", event)
        return found

    def _scalar(self, event: Any) -> _Part:
        _check_tag(event)
        tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag == _MERGE and event.implicit[0]:
            return _Part("<<", merges=True)
        if tag in _NUMBERS and len(event.value) > LONGEST_NUMBER:
            raise _refused(f"a number has {len(event.value):,} characters, at most {LONGEST_NUMBER}", event)
        make = self._loader.yaml_constructors.get(tag)
        if make is None:
            raise _refused(f"{event.value!r} is no value", event)
        return _Part(make(self._loader, yaml.ScalarNode(tag, event.value, event.start_mark)))

    def _put(self, part: _Part, anchor: str | None, event: Any) -> None:
        self._count += part.size if isinstance(event, yaml.AliasEvent) else 1
        if self._count > MOST:
            raise _refused(f"more than {MOST:,} values", event)
        if len(self._open) + part.depth > DEEPEST:
            raise _refused(f"nested more than {DEEPEST} levels deep", event)
        if anchor is not None:
            self._anchors[anchor] = part
        if not self._open:
            self._found = part.value
            return
        into = self._open[-1]
        into.size += part.size
        into.depth = max(into.depth, 1 + part.depth)
        if not into.mapping:
            into.items.append(part.value)
        elif into.key is None:
            self._put_key(into, part, event)
        elif into.key.merges:
            self._merge(into, part, event)
            into.key = None
        else:
            into.own[into.key.value], into.key = part.value, None

    def _put_key(self, into: _Open, part: _Part, event: Any) -> None:
        if part.depth:
            raise _refused("a list or mapping is a key", event)
        if part.merges and not self._aliases:
            raise _refused("a merge key << repeats values, which is not allowed here", event)
        name = str(part.value) if isinstance(event, yaml.AliasEvent) else event.value
        if name in into.names:
            raise _refused(f"the key {name!r} is given twice", event)
        into.names.add(name)
        into.key = part

    def _merge(self, into: _Open, part: _Part, event: Any) -> None:
        several = part.value if isinstance(part.value, list) else [part.value]
        for one in reversed(several):
            if not isinstance(one, dict):
                raise _refused("a merge key << takes a mapping or a list of them", event)
            into.merged.update(one)


def _check_tag(event: Any) -> None:
    if event.tag is not None:
        raise _refused(f"the tag {event.tag!r} is not allowed", event)


def _refused(why: str, event: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, why, getattr(event, "start_mark", None))
