"""Tables of real records: how they are described in a scenario, read, and encoded by public rules alone.

Describing a table needs nothing; what reads one (:func:`load`, :func:`numbered`, :func:`encode`) is loaded when it is
first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.data.tables.schema import Schema, parse_schema, read_schema
from common.data.tables.source import Category, Label, Layout, Number, Selection, TableSource

if TYPE_CHECKING:
    from common.data.tables.loading import encode, load, numbered

__all__ = [
    "Category",
    "Label",
    "Layout",
    "Number",
    "Schema",
    "Selection",
    "TableSource",
    "encode",
    "load",
    "numbered",
    "parse_schema",
    "read_schema",
]


def __getattr__(name: str) -> Any:
    if name not in ("encode", "load", "numbered"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from common.data.tables import loading

    return getattr(loading, name)
