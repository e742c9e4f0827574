"""Tables of real records: how they are described in a scenario, read, and encoded by public rules alone."""

from common.tables.loading import encode, load
from common.tables.source import Category, Label, Layout, Number, Selection, TableSource

__all__ = ["Category", "Label", "Layout", "Number", "Selection", "TableSource", "encode", "load"]
