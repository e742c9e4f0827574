"""YAML as it is meant: a mapping that names a key twice is an error, not a choice of the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, where PyYAML was built with it: eight times as fast."""


def load(text: str) -> Any:
    """Parse one YAML document.

    Raises
    ------
    yaml.YAMLError
        If it is not YAML, a key is given twice, or a value is none: a number of thousands of digits, a date that no
        calendar has.
    """
    loader = _Loader(text)
    try:
        tree = loader.get_single_node()
        if tree is None:
            return None
        _check(tree, set())
        return loader.construct_document(tree)
    except (ValueError, OverflowError, RecursionError) as error:  # a loader's own errors are none of these
        raise yaml.constructor.ConstructorError(None, None, str(error)) from None
    finally:
        loader.dispose()


def place(text: str, path: Sequence[int | str]) -> tuple[int, int] | None:
    """Return the line and the column, from 1, of the deepest node of a document that a path of keys leads to.

    Parts of the path that no mapping or list has are passed over; None if the document has none of them.
    """
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


def _check(node: yaml.Node, known: set[int]) -> None:
    """Refuse repeated keys, in every mapping once (an alias may stand in many places)."""
    if id(node) in known:
        return
    known.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check(item, known)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} is given twice", key.start_mark)
            seen.add(name)
            _check(value, known)
