"""Shipped scenarios (YAML), read as package data."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

import yaml

_FILES = resources.files(__name__)
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where PyYAML was compiled with libyaml."""


class Heading(NamedTuple):
    """What a scenario says of itself."""

    name: str
    title: str
    description: str


def names() -> list[str]:
    """Return the names of the shipped scenarios, sorted."""
    return sorted(file.name.removesuffix(".yaml") for file in _FILES.iterdir() if file.name.endswith(".yaml"))


def text(name: str) -> str:
    """Return a shipped scenario's YAML."""
    return (_FILES / f"{name}.yaml").read_text("utf-8")


def heading(name: str) -> Heading:
    """Return what a shipped scenario says of itself, without validating the rest of it."""
    tree = yaml.load(text(name), _LOADER)  # noqa: S506 - either loader is a safe one, and the file is our own
    return Heading(tree["name"], tree["title"], tree.get("description", ""))
