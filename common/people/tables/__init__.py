"""Tables of real records: how they are described in a scenario, read, and encoded by public rules alone."""

from common.people.tables.loading import encode, load
from common.people.tables.schema import Schema, parse_schema, read_schema
from common.people.tables.source import Category, Label, Layout, Number, Selection, TableSource

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
    "parse_schema",
    "read_schema",
]
