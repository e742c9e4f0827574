"""YAML as it is meant: a mapping that names a key twice is an error, not a choice of the last."""

from __future__ import annotations

from typing import Any

import yaml


def load(text: str) -> Any:
    """Parse one YAML document.

    Raises
    ------
    yaml.YAMLError
        If it is not YAML, or a key is given twice.
    """
    tree = yaml.compose(text, Loader=yaml.SafeLoader)
    if tree is not None:
        _check(tree, set())
    return yaml.safe_load(text)


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
