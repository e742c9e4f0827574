"""Classifiers of a curator's own operator, each a class in a Python file, without an installed package.

Whoever starts the curator names them, by ``curator serve --classifier NAME=FILE.py:CLASS`` or in the environment
variable ``TANDEM_CLASSIFIERS``; a scenario, which may come from others, has the name ``own:NAME`` only, and nothing of
it names a file. What leaves of a teacher are its votes, to which the aggregation adds noise; so the guarantee holds for
any class whose object is a function of what ``fit`` was given, of its parameters and of its seed. It does not hold for
one that keeps something from one object to the next. And the code runs as the curator does: it sees records, and
nothing stops it from writing them to a file or to a network. Name only a class that you would let read the records.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from common.core.errors import BadInput

VARIABLE = "TANDEM_CLASSIFIERS"
_NAMED: dict[str, type[Any]] = {}


def name_classifier(text: str) -> None:
    """Load the class that ``NAME=FILE.py:CLASS`` names; BadInput if there is none with ``fit`` and ``predict``."""
    name, equals, place = text.partition("=")
    file, colon, kind = place.rpartition(":")
    if not (equals and colon and name.isidentifier() and kind.isidentifier()):
        raise BadInput(f"a classifier of your own is NAME=FILE.py:CLASS, found {text[:80]!r}")
    _NAMED[name] = _loaded(Path(file), kind)


def _loaded(file: Path, kind: str) -> type[Any]:
    spec = importlib.util.spec_from_file_location(f"own_classifiers_{len(_NAMED)}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadInput(f"{file} is no Python file: give NAME=FILE.py:CLASS")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the operator's own code
        raise BadInput(f"{file} cannot be loaded: {type(error).__name__}: {error}") from None
    found = getattr(module, kind, None)
    if not (
        isinstance(found, type) and callable(getattr(found, "fit", None)) and callable(getattr(found, "predict", None))
    ):
        raise BadInput(f"{file} has no class {kind} with fit(features, classes) and predict(features)")
    return found


@cache
def _of_environment() -> None:
    for text in os.environ.get(VARIABLE, "").split():
        name_classifier(text)


def is_here(name: str) -> bool:
    """Tell whether this process has a class of that name."""
    _of_environment()
    return name in _NAMED


def unnamed(name: str) -> str:
    """Return that this process has no class of that name, and the remedy."""
    return f"no class is named {name} here: give curator serve --classifier {name}=FILE.py:CLASS"


def make(name: str, parameters: dict[str, Any], seed: int) -> Any:
    """Return a new object of the class, with ``random_state`` as its seed if it takes that; ValueError if it fails."""
    if not is_here(name):
        raise ValueError(unnamed(name))
    kind = _NAMED[name]
    seeded = "random_state" in inspect.signature(kind).parameters and "random_state" not in parameters
    try:
        return kind(**parameters, **({"random_state": seed} if seeded else {}))
    except Exception as error:  # noqa: BLE001 - as above; no record has been seen
        raise ValueError(f"own:{name} cannot be made: {type(error).__name__}: {error}") from None
