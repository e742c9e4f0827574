"""What ``referee init`` asks about two tables, where no option has said it. No question shows what a field holds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from common.core.errors import BadMessage, BadScenario
from common.core.plain import nearest
from common.data.tables.source import Category, Feature, Label, Number

_Told = TypeVar("_Told", Label, Number, Category)
WARNING = (
    "Bounds and categories become public with the scenario. Give what is known without the data (ages are 18 to 90, a "
    "form has three boxes): the least and greatest value of your own table would tell everybody about two people."
)


class Ask(Protocol):
    """Puts a question to somebody and returns the answer; raises where nobody is there to answer."""

    def __call__(self, question: str) -> str:
        """Return the answer."""


@dataclass(frozen=True)
class Given:
    """What options say; empty where they do not."""

    label: str = ""
    positive: str = ""
    negative: str = ""
    bounds: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    id_column: str = ""


def label_of(given: Given, names: Sequence[str], ask: Ask) -> Label:
    """Return the label: its column, and the texts that mean yes and no.

    Raises
    ------
    BadScenario
        If there is no such column, or a text means both.
    """
    column = given.label or ask("Which column is to be predicted (--label)?")
    _known(column, names, "--label")
    positive = given.positive or ask(f"Which texts of {column!r} mean yes, with commas between them (--positive)?")
    negative = given.negative or ask(f"Which texts of {column!r} mean no (--negative)?")
    both = {"positive": list(texts(positive)), "negative": list(texts(negative))}
    return _parsed("--positive and --negative", Label, column=column, **both)


def id_of(given: Given, names: Sequence[str], label: str) -> str | None:
    """Return the column that says who is who, None if no option names one.

    Raises
    ------
    BadScenario
        If there is no such column, or it is the label.
    """
    if not given.id_column:
        return None
    _known(given.id_column, names, "--id")
    if given.id_column == label:
        raise BadScenario(f"--id {given.id_column}: this column is the label, and cannot say who is who")
    return given.id_column


def features_of(given: Given, names: Sequence[str], label: str, ask: Ask) -> tuple[Feature, ...]:
    """Return the features in the order of the columns: those of the options, or if there are none, column by column.

    Raises
    ------
    BadScenario
        If a column is unknown, is the label, or is given twice; if bounds are no two numbers; if nothing is left.
    """
    said: list[Feature] = [*(number(text) for text in given.bounds), *(category(text) for text in given.categories)]
    columns = [feature.column for feature in said]
    for column in columns:
        _known(column, names, "--bounds or --categories")
        if column == label or columns.count(column) > 1:
            why = "is the label" if column == label else "is given twice"
            raise BadScenario(f"column {column!r} {why}: each column is the label or one kind of feature")
    if given.id_column in columns:
        raise BadScenario(f"column {given.id_column!r} says who is who (--id), and is never learned from")
    found = said or list(_asked([name for name in names if name not in (label, given.id_column)], ask))
    if not found:
        raise BadScenario("no column is a feature: give --bounds COLUMN=LOW:HIGH or --categories COLUMN=VALUE,VALUE")
    return tuple(sorted(found, key=lambda feature: names.index(feature.column)))


def _asked(names: Sequence[str], ask: Ask) -> Iterator[Feature]:
    for name in names:
        kind = ask(f"Column {name!r}: number, category, or skip (n, c, s)?").strip().lower()[:1]
        if kind == "n":
            yield number(f"{name}={ask(f'Public bounds of {name!r}, LOW:HIGH?')}")
        elif kind == "c":
            yield category(f"{name}={ask(f'Public values of {name!r}, with commas between them?')}")
        elif kind != "s":
            raise BadScenario(f"column {name!r} must be a number (n), a category (c) or skipped (s)")


def number(text: str) -> Number:
    """Return a feature from ``COLUMN=LOW:HIGH``."""
    column, _, bounds = text.rpartition("=")
    low, _, high = bounds.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = math.nan, math.nan
    if not (column and all(map(math.isfinite, ends))):
        raise BadScenario(f"--bounds wants COLUMN=LOW:HIGH with two finite numbers, as age=18:90, found {text!r}")
    return _parsed(f"--bounds {text}", Number, column=column, low=ends[0], high=ends[1])


def category(text: str) -> Category:
    """Return a feature from ``COLUMN=VALUE,VALUE``."""
    column, _, values = text.partition("=")
    listed = tuple(texts(values))
    if not (column and listed):
        raise BadScenario(f"--categories wants COLUMN=VALUE,VALUE, as sex=f,m, found {text!r}")
    return _parsed(f"--categories {text}", Category, column=column, values=list(listed))


def texts(text: str) -> Iterator[str]:
    """Yield what stands between commas, without spaces around it."""
    return (part.strip() for part in text.split(",") if part.strip())


def _known(column: str, names: Collection[str], option: str) -> None:
    if column not in names:
        there = f"there are {', '.join(names)}"
        raise BadScenario(f"{option}: both tables must have column {column!r}{nearest(column, names)}; {there}")


def _parsed(option: str, kind: type[_Told], **fields: object) -> _Told:
    try:
        return kind.parse(fields)
    except BadMessage as error:
        raise BadScenario(f"{option}: {error.detail}") from None
