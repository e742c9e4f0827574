"""Whether two tables can have a row in common: one person is protected on one side only."""

from __future__ import annotations

from common.people.tables.source import Selection, TableSource


def apart(one: TableSource, other: TableSource) -> bool:
    """Tell whether no row can be in both, by their descriptions alone, whatever the files hold.

    True if they read no file together; or if they read files in the same layout, and a column must have values for one
    that it must not have for the other; or if they read the same files in the same layout, one keeps those who were
    never asked, the other volunteers, and both toss the same coins.
    A changed field may move a row from one to the other. It is never in both.
    """
    if not one.plain_names & other.plain_names:
        return True
    if one.layout != other.layout:  # a name may stand for two columns, and a text for two values
        return False
    for column in one.where.keys() & other.where.keys():
        if not set(one.where_texts(column)) & set(other.where_texts(column)):
            return True
    return one.files == other.files and _complementary(one.selection, other.selection)


def _complementary(one: Selection | None, other: Selection | None) -> bool:
    if one is None or other is None:
        return False
    return one.keep != other.keep and (one.seed, one.unasked) == (other.seed, other.unasked)
