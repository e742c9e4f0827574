"""YAML as it is meant: a mapping that names a key twice is an error, not a choice of the last."""

from __future__ import annotations

from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, where PyYAML was built with it: eight times as fast."""


def load(text: str) -> Any:
    """Parse one YAML document.

    Raises
    ------
    yaml.YAMLError
        If it is not YAML, or a key is given twice.
    """
    loader = _Loader(text)
    try:
        tree = loader.get_single_node()
        if tree is None:
            return None
        _check(tree, set())
        return loader.construct_document(tree)
    finally:
        loader.dispose()


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
