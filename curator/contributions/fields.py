"""What a person contributes: the fields of their own row, as texts, checked, and as long as everybody else's.

A table's rules make the best of whatever a file holds: they clip numbers, and count unlisted values as none. A person
who is asked can be told instead, so a contribution is refused where a file would have been mended. What passes becomes
the same record, to the bit, as a row with the same texts. Sealed, all records of an offer have one length, which
follows from the offer: the length of a ciphertext would otherwise tell, say, which plan somebody has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from common.core import canonical
from common.core.errors import BadData, BadMessage
from common.data import spelling
from common.data.tables import Category, Feature, Number, TableSource, record_of, text_of

MAX_NUMBER = 32
"""Characters of a number: a double needs at most 24."""
_BLOCK = 256

Fields = dict[str, str]
"""Texts by column, empty where a value is not known."""


def checked(fields: Mapping[str, Any], table: TableSource) -> Fields:
    """Return a person's fields as the texts that they would be in a file: those that the table describes, no others.

    A field that means a listed value is written as it is listed, so that its length is one of the offer's.

    Args:
        fields: As for :func:`common.data.tables.record_of`.
        table: The table of the offer.

    Raises:
        BadData: As that function, and if a number is beyond its public bounds or too long, or a value is none of those
            listed. Messages name columns, never what a field holds.
    """
    record_of(fields, table)
    texts = {name: _as_listed(name, text_of(name, fields[name]), table) for name in sorted(table.columns)}
    for feature in table.features:
        text = texts[feature.column]
        if spelling.canonical(text) not in table.layout.missing_texts:
            _check(feature, text, table)
    if table.label.above is not None and len(texts[table.label.column]) > MAX_NUMBER:
        raise BadData(f"field {table.label.column!r}: a number has at most {MAX_NUMBER} characters")
    return texts


def written(fields: Fields, table: TableSource) -> bytes:
    """Return checked fields as what is sealed: canonical JSON, filled up to the length of all records of the table."""
    return canonical.encode(fields).ljust(length(table), b" ")


def read(plaintext: bytes, table: TableSource) -> Fields:
    """Return the fields that :func:`written` has written."""
    try:
        tree = canonical.decode(plaintext)
        if isinstance(tree, dict) and tree.keys() == table.columns:
            fields = checked(tree, table)
            if written(fields, table) == plaintext:
                return fields
    except (BadData, BadMessage):
        pass
    raise BadData(
        "the sealed record is none that the offer's table describes: nothing of it was kept. Before it seals one, "
        '"curator contribute" says which field is wrong'
    )


def length(table: TableSource) -> int:
    """Return how many bytes every record of a table has before it is sealed, by its public description alone."""
    longest = {name: max(_texts(name, table), key=_room) for name in table.columns}
    return -(-len(canonical.encode(longest)) // _BLOCK) * _BLOCK


def _room(text: str) -> int:
    return len(canonical.encode(text))


def _texts(column: str, table: TableSource) -> Iterator[str]:
    yield from ("", *table.layout.missing, *_listed(column, table))
    numbers = any(isinstance(feature, Number) and feature.column == column for feature in table.features)
    if numbers or table.label.column == column:
        yield "0" * MAX_NUMBER


def _listed(column: str, table: TableSource) -> tuple[str, ...]:
    listed: list[str] = []
    for feature in table.features:
        if isinstance(feature, Category) and feature.column == column:
            listed += [text for group in feature.groups for text in group]
    if table.label.column == column:
        listed += [*table.label.positive, *table.label.negative]
    return tuple(dict.fromkeys(listed))


def _as_listed(column: str, text: str, table: TableSource) -> str:
    missing = table.layout.missing
    known = spelling.as_listed(text, _listed(column, table), missing)
    return next((one for one in missing if spelling.canonical(one) == spelling.canonical(known)), known)


def _check(feature: Feature, text: str, table: TableSource) -> None:
    if isinstance(feature, Number):
        if len(text) > MAX_NUMBER:
            raise BadData(f"field {feature.column!r}: a number has at most {MAX_NUMBER} characters")
        if not feature.low <= float(text) <= feature.high:
            raise BadData(
                f"field {feature.column!r} is beyond the public bounds {feature.low:g} to {feature.high:g}: give the "
                f"nearer bound if that is what you mean"
            )
        return
    of_column = (other for other in table.features if isinstance(other, Category) and other.column == feature.column)
    listed = [text for other in of_column for group in other.groups for text in group]
    if text not in listed:
        raise BadData(
            f"field {feature.column!r} must be one of {', '.join(json.dumps(each) for each in listed)}, or null where "
            f"none of them is true"
        )
