"""A first scenario as YAML with explanations: the comment above each key is in ``first_scenario.yaml``."""

import math
import textwrap
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import yaml

from common.core import strictyaml
from common.scenario.fitting import Advice

_INDENT = "  "
_EXPLAINED = strictyaml.load((resources.files(__package__) / "first_scenario.yaml").read_text("utf-8"))
"""The comment above each key of a first scenario."""


class _Quoted(str):
    """A text from a table: always quoted, so that YAML reads ``no`` as a text and ``1`` not as a number."""


class _Dumper(yaml.SafeDumper):
    """Writes texts from tables in quotes, and writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)


def scenario_text(tree: Mapping[str, Any], advice: Advice) -> str:
    """Return a scenario as commented YAML."""
    head = [
        "A first scenario, written by `referee init` from public numbers: no record was looked at, rows were counted.",
        "All keys: docs/scenarios.md. What fits so many people (`referee plan` says it again):",
        *(f"  {sentence}." for sentence in advice.sentences),
        *(f"  Warning: {warning}." for warning in advice.warnings),
    ]
    return "\n".join([*(line for text in head for line in _comment(text, 0)), *_mapping(tree, "", 0)]) + "\n"


def _mapping(tree: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
    for key, value in tree.items():
        here = f"{path}.{key}" if path else key
        if here in _EXPLAINED:
            yield from _comment(_EXPLAINED[here], depth)
        yield from _entry(key, value, here, depth)


def _entry(key: str, value: Any, here: str, depth: int) -> Iterator[str]:
    indent = _INDENT * depth
    nested = isinstance(value, Mapping) and any(isinstance(inner, Mapping | list) for inner in value.values())
    if nested or here == "curator.learner":
        yield f"{indent}{key}:"
        yield from _mapping(value, here, depth + 1)
    elif here.endswith(".features"):
        yield f"{indent}{key}:"
        for feature in value:
            yield f"{indent}{_INDENT}- {_flow(feature, quote=True)}"
    else:
        yield f"{indent}{key}: {_flow(value, quote='.table.' in here)}"


def _flow(value: Any, *, quote: bool) -> str:
    how: dict[str, Any] = {"default_flow_style": True, "allow_unicode": True, "width": math.inf, "sort_keys": False}
    text: str = yaml.dump(_marked(value) if quote else value, Dumper=_Dumper, **how)
    return text.removesuffix("...\n").strip("\n")  # other blanks may belong to the value, such as a no-break space


def _marked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: item if key == "kind" else _marked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(item) for item in value]
    return _Quoted(value) if isinstance(value, str) else value


def _comment(text: str, depth: int) -> Iterator[str]:
    lead = f"{_INDENT * depth}# {'  ' if text.startswith('  ') else ''}"
    wrapper = textwrap.TextWrapper(115, lead, lead, break_long_words=False, break_on_hyphens=False)
    yield from wrapper.wrap(" ".join(text.split()))
