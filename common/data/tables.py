"""The public description of a table (files, columns, bounds), and one person's record by the rules of its rows.

Fields become features by the same arithmetic in double precision for many rows and for one person's record, so that
results are equal in every bit. Only NumPy is needed.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from math import prod
from posixpath import normpath
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from common.core.arrays import Floats, Singles
from common.core.errors import BadData
from common.core.values import Value, Word
from common.data.spelling import NUMBER, NoText, canonical, look_alikes, matching, plain_text
from common.local.records import Records

Tokens = tuple[str, ...]
Encoding = Literal["utf-8", "utf-16", "latin-1", "windows-1250", "windows-1251", "windows-1252", "gb18030"]


def _marks(decimal: str, thousands: str | None) -> str:
    spaces = " \u00a0\u202f"
    return {None: f".{spaces}" if decimal == "," else "", " ": spaces, "'": "'\u2019"}.get(thousands, thousands or "")


@cache
def _local_number(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """Return the pattern of a number: sign, whole digits with marks between groups of three, fraction, exponent."""
    marks = _marks(decimal, thousands)
    grouped = rf"[0-9]{{1,3}}(?P<mark>[{re.escape(marks)}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*|" if marks else ""
    fraction = rf"(?:{re.escape(decimal)}(?P<fraction>[0-9]*))?"
    return re.compile(rf"(?P<sign>[+-]?)(?P<whole>{grouped}[0-9]*){fraction}(?P<exponent>(?:[eE][+-]?[0-9]+)?)")


class Layout(Value):
    """How the text files are written.

    ``columns`` are the names of the columns if the files have no header line, or contain a matrix. Lines that begin
    with ``comment``, and blank ones, are skipped. ``missing`` are texts that mean "not known", as empty fields do; like
    all listed texts, they are compared with fields as canonical texts (:mod:`common.data.spelling`).

    ``decimal`` and ``thousands`` state how texts write numbers: with a decimal comma and without ``thousands``, points
    or spaces between groups of three digits are thousands separators. ``encoding`` is that of text files.
    """

    columns: Tokens = ()
    separator: str = Field(default=",", min_length=1, max_length=1)
    skip_lines: int = Field(default=0, ge=0)
    comment: str | None = Field(default=None, min_length=1)
    missing: Tokens = ("", "?")
    # Defaults are excluded, so that digests remain the same as before these fields existed.
    decimal: Literal[".", ","] = Field(default=".", exclude_if=lambda mark: mark == ".")
    thousands: Literal[",", ".", " ", "'", "_"] | None = Field(default=None, exclude_if=lambda mark: mark is None)
    encoding: Encoding = Field(default="utf-8", exclude_if=lambda name: name == "utf-8")

    @model_validator(mode="after")
    def _two_marks(self) -> Self:
        if self.thousands == self.decimal:
            raise ValueError(f"decimal and thousands must differ, found {self.decimal!r} for both")
        return self

    @field_validator("columns")
    @classmethod
    def _distinct(cls, columns: Tokens) -> Tokens:
        if len(set(columns)) < len(columns):
            raise ValueError("column names must differ from each other")
        return columns

    @property
    def missing_texts(self) -> Tokens:
        return tuple(dict.fromkeys(map(self.canonical, ("", *self.missing))))

    @property
    def plain(self) -> bool:
        """Whether texts write numbers with a point and without thousands."""
        return self.decimal == "." and self.thousands is None

    @property
    def marks(self) -> str | None:
        """The characters allowed between groups of three digits; None if numbers are plain."""
        return None if self.plain else _marks(self.decimal, self.thousands)

    def canonical(self, text: str) -> str:
        """Return the canonical text of a text that is written in this layout."""
        return canonical(self.point(text))

    def point(self, text: str) -> str:
        """Return a text with a decimal point and without thousands separators if it is a number; else unchanged."""
        if self.plain:
            return text
        match = _local_number(self.decimal, self.thousands).fullmatch(text.strip())
        if match is None or not (match["whole"] or match["fraction"]):
            return text
        digits = "".join(filter(str.isdigit, match["whole"]))
        return f"{match['sign']}{digits}.{match['fraction'] or ''}{match['exponent']}"

    def meanings(self, groups: Iterable[Tokens]) -> tuple[Tokens, ...]:
        """Return the canonical texts for each group of texts that are listed as one value."""
        return matching([tuple(map(self.point, group)) for group in groups], tuple(map(self.point, self.missing)))


class Number(Value):
    """One feature: (x - low)/(high - low), clipped to [0, 1] by *public* bounds; that of ``fill`` for no x.

    ``fill`` is in [low, high]: a public default, never an average of the data; by default the middle of the bounds.
    """

    width: ClassVar[int] = 1

    kind: Literal["number"] = "number"
    column: str
    low: float
    high: float
    fill: float | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} must be below high = {self.high}")
        if math.isinf(self.high - self.low):
            raise ValueError(
                f"low = {self.low} and high = {self.high} are farther apart than any number: take nearer ones"
            )
        if self.fill is not None and not self.low <= self.fill <= self.high:
            raise ValueError(f"fill = {self.fill} must be between low = {self.low} and high = {self.high}")
        return self

    @property
    def default(self) -> float:
        """The value that replaces a missing number: ``fill``, or the middle of the bounds."""
        return self.low + 0.5 * (self.high - self.low) if self.fill is None else self.fill


class Category(Value):
    """One 0/1 feature per public value; all zeros where the field is missing or its value is not listed.

    Each value is a text, or a list of texts that count as the same value.
    """

    kind: Literal["category"] = "category"
    column: str
    values: tuple[str | Tokens, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        listed = [text for group in self.groups for text in group]
        if len(set(listed)) < len(listed):
            raise ValueError(f"a value of column {self.column!r} is listed twice")
        _check_spellings(self.column, self.groups)
        return self

    @cached_property
    def groups(self) -> tuple[Tokens, ...]:
        return tuple((value,) if isinstance(value, str) else value for value in self.values)

    def texts(self, layout: Layout) -> tuple[Tokens, ...]:
        return layout.meanings(self.groups)

    @property
    def width(self) -> int:
        return len(self.values)


class Missing(Value):
    """One 0/1 feature: 1 where the field is missing. It stands beside a number or a category of the same column."""

    width: ClassVar[int] = 1

    kind: Literal["missing"] = "missing"
    column: str

    @property
    def groups(self) -> tuple[Tokens, ...]:
        """Its only value, in the form of a category's values."""
        return (("missing",),)

    def texts(self, layout: Layout) -> tuple[Tokens, ...]:
        return (layout.missing_texts,)


Feature = Annotated[Number | Category | Missing, Field(discriminator="kind")]


class Label(Value):
    """Which fields of a column mean +1 and which -1; any other is an error.

    The texts ``positive`` mean +1 and ``negative`` -1. Alternatively, numbers above ``above`` mean +1, all others -1.
    """

    column: str
    positive: Tokens = ()
    negative: Tokens = ()
    above: float | None = None

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        if self.above is None and not (self.positive and self.negative):
            raise ValueError("give the texts that are positive and those that are negative, or a number to be above")
        if self.above is not None and (self.positive or self.negative):
            raise ValueError("give either positive and negative texts, or a number to be above, not both")
        if set(self.positive) & set(self.negative):
            raise ValueError("a label cannot be both positive and negative")
        _check_spellings(self.column, (self.positive, self.negative))
        return self

    def texts(self, layout: Layout) -> tuple[Tokens, Tokens]:
        """Return the canonical texts that mean +1, and those that mean -1."""
        positive, negative = layout.meanings((self.positive, self.negative))
        return positive, negative


class Reluctance(Value):
    """People for whom a condition holds volunteer ``factor`` times as readily.

    The condition is that a column's field is among ``values``, or that ``above`` < number <= ``below`` (either may be
    omitted); it does not hold if the field is missing.
    """

    column: str
    values: Tokens = ()
    above: float | None = None
    below: float | None = None
    factor: float = Field(gt=0, le=1)

    def texts(self, layout: Layout) -> Tokens:
        return layout.meanings((self.values,))[0]

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if bool(self.values) == (self.above is not None or self.below is not None):
            raise ValueError("give either values, or above and/or below")
        return self


class Selection(Value):
    """A documented selection bias that makes a biased sample and a fair population out of one table.

    A share ``unasked`` of the people, chosen at random, is never asked: they are a fair sample of the population
    (``keep: population``). Each of the others volunteers (``keep: volunteers``) with probability

        p(person) = willing * product of the factors of the conditions that hold.

    So with T the distribution of the population and S that of the volunteers, dT/dS = E_T[p]/p: bounded weights on
    record and label together. The coins are functions of ``seed`` and the row number only; two sources with the same
    files and ``seed``, one keeping volunteers and one the population, have no person in common.
    """

    keep: Literal["volunteers", "population"]
    seed: Word = Field(ge=0)
    unasked: float = Field(default=0.5, gt=0, lt=1)
    willing: float = Field(default=1.0, gt=0, le=1)
    unless: tuple[Reluctance, ...] = ()

    @property
    def bounded(self) -> frozenset[str]:
        """Names of the columns whose numbers a condition compares."""
        return frozenset(condition.column for condition in self.unless if not condition.values)

    @property
    def supremum(self) -> float:
        """Public bound on D_inf = sup dT/dS <= p_max/p_min, for every population."""
        return 1.0 / prod(condition.factor for condition in self.unless)

    @property
    def chi_squared(self) -> float:
        """Public bound on X = E_T[p] E_T[1/p] <= (r + 1)^2/(4 r), r = p_max/p_min (Kantorovich)."""
        ratio = self.supremum
        return (ratio + 1.0) ** 2 / (4.0 * ratio)


def check_missing(
    features: Sequence[Feature], label: Label | None, layout: Layout, where: Mapping[str, Tokens] | None = None
) -> None:
    """Raise ValueError if a listed value is also a missing one in another spelling.

    Also raise it if ``kind: missing`` is the only feature of a column, since any text could be in that column.
    """
    columns = {feature.column for feature in features if not isinstance(feature, Missing)}
    for feature in features:
        if isinstance(feature, Category):
            _check_spellings(feature.column, feature.groups, layout.missing)
        elif feature.column not in columns:
            raise ValueError(
                f"column {feature.column!r}: kind: missing stands beside a number or a category of the same column; "
                f"add one, as in {{kind: number, column: {feature.column}, low: 0, high: 1}}"
            )
    if label is not None:
        _check_spellings(label.column, (label.positive, label.negative), layout.missing)
    for column, values in (where or {}).items():
        _check_spellings(column, (values,), layout.missing)


def _check_spellings(column: str, groups: Sequence[Tokens], missing: Tokens = ()) -> None:
    alike = look_alikes(groups, missing)
    if alike is not None:
        one, other = map(json.dumps, alike)
        raise ValueError(
            f"column {column!r}: {one} and {other} are one value in two spellings, and cannot have two meanings: list "
            f"one of them, or both as one value, as in [[{one}, {other}]]"
        )


class TableSource(Value):
    """Public description of a table of real records: bounds and value lists are constants, not computed.

    Each record becomes one feature vector by rules that depend on that record only. The number of rows in the files is
    public; the number of rows that are kept is not (:func:`common.data.population.placed`).

    Attributes:
        files: Names relative to the scenario's ``data`` directory, read in this order; a file that does not exist is
            searched for with ``.xz`` or ``.gz`` appended to its name.
        where: Keep only rows whose column has one of the listed values. Not allowed if people contribute.
        norm: If given, longer feature vectors are scaled down to this L2 norm.
        contributed: Instead of ``files``: each row was given to the curator by a person for this run.
        id: The column that identifies people, by which they are recognised in further runs
            (:mod:`common.lifetime.recognition`); it is stored as a keyed digest, and neither learned from nor released.
    """

    files: Tokens = ()
    layout: Layout = Layout()
    label: Label
    features: tuple[Feature, ...] = Field(min_length=1)
    where: dict[str, Tokens] = Field(default_factory=dict)
    norm: float | None = Field(default=None, gt=0)
    selection: Selection | None = None
    contributed: bool = Field(default=False, exclude_if=lambda contributed: not contributed)
    id: str | None = Field(default=None, min_length=1, exclude_if=lambda column: column is None)

    @model_validator(mode="after")
    def _from_somewhere(self) -> Self:
        if bool(self.files) == self.contributed:
            raise ValueError("give either files, or contributed: true")
        if self.id is not None and (
            self.contributed or self.id in {item.column for item in (*self.features, self.label)}
        ):
            raise ValueError(
                f"id = {self.id!r} says who is who and is never released: it can be neither a feature nor the label, "
                f"nor be given where people contribute, who are known by their keys"
            )
        if self.contributed and self.selection is not None:
            raise ValueError("selection chooses among the rows of files: leave it out where people contribute")
        check_missing(self.features, self.label, self.layout, self.where)
        if self.contributed and not self.layout.plain:
            raise ValueError("decimal and thousands are about files: leave them out where people contribute")
        if self.contributed and self.where:
            columns = ", ".join(sorted(self.where))
            raise ValueError(
                f"where chooses among the rows of files, found a condition on {columns} where people contribute: the "
                f"answer to a contribution would tell its carrier whether the condition holds; leave where out, and "
                f"ask only people for whom it holds"
            )
        return self

    @field_validator("files")
    @classmethod
    def _each_once(cls, files: Tokens) -> Tokens:
        if len(set(map(_plain_name, files))) < len(files):
            raise ValueError("a file is named twice: each person in it would count twice")
        return files

    @property
    def dimension(self) -> int:
        return sum(feature.width for feature in self.features)

    @property
    def norm_bound(self) -> float:
        """Public bound on the L2 norm of a feature vector."""
        return self.norm or math.sqrt(self.dimension)

    @property
    def coordinate_bound(self) -> float:
        return min(1.0, self.norm_bound)

    @property
    def plain_names(self) -> frozenset[str]:
        """The names of the files without the suffix of a compression."""
        return frozenset(map(_plain_name, self.files))

    def where_texts(self, column: str) -> Tokens:
        """Return the canonical texts of a column of ``where`` for which rows are kept."""
        return self.layout.meanings((self.where[column],))[0]

    @property
    def conditions(self) -> frozenset[str]:
        """Names of the columns that determine which rows are kept."""
        unless = self.selection.unless if self.selection else ()
        return frozenset(self.where) | frozenset(item.column for item in unless)

    def columns_of(self, first: int, count: int) -> frozenset[str]:
        """Return the names of the columns that features ``first``, ..., ``first + count - 1`` come from."""
        return frozenset(feature.column for feature, _ in places(self.features)[first : first + count])

    @property
    def columns(self) -> frozenset[str]:
        """Names of all columns that are read."""
        return frozenset(item.column for item in (*self.features, self.label)) | self.conditions


def _plain_name(file: str) -> str:
    return normpath(file).removesuffix(".xz").removesuffix(".gz")


def places(features: Iterable[Feature]) -> list[tuple[Feature, int]]:
    """Return, for each feature in order, what it is made from, and its index among the features from there."""
    return [(feature, place) for feature in features for place in range(feature.width)]


def scaled(numbers: Floats, feature: Number) -> Floats:
    """Return (x - low)/(high - low), clipped to [0, 1], of any shape; NaN (missing) is replaced by the default."""
    span = feature.high - feature.low
    clipped = np.clip((numbers - feature.low) / span, 0.0, 1.0)
    return np.nan_to_num(clipped, nan=(feature.default - feature.low) / span)


def longest(norm: float) -> float:
    """Return the length to which rows are scaled down, since rounding to float32 can lengthen them by a share 2^-24."""
    return norm * (1.0 - 2.0**-23)


def shortened(matrix: Floats, norm: float | None) -> Singles:
    """Return rows, shape (n, d), as float32, each with L2 norm at most ``norm`` if that is given."""
    if norm is not None:
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        matrix = matrix * np.minimum(1.0, longest(norm) / np.maximum(lengths, norm / 2))
    return matrix.astype(np.float32)


def disjoint(one: TableSource, other: TableSource) -> bool:
    """Return whether no row can be in both tables, by their descriptions alone, for any contents of the files.

    True if they have no file in common; or if the layouts are equal, and a column of ``where`` has no value that both
    keep; or if files and layouts are equal, one keeps the people who were never asked and the other the volunteers, and
    both use the same coins.
    """
    if not one.plain_names & other.plain_names:
        return True
    if one.layout != other.layout:  # a name may mean two columns, and a text two values
        return False
    for column in one.where.keys() & other.where.keys():
        if not set(one.where_texts(column)) & set(other.where_texts(column)):
            return True
    ours, theirs = one.selection, other.selection
    if one.files != other.files or ours is None or theirs is None:
        return False
    return ours.keep != theirs.keep and (ours.seed, ours.unasked) == (theirs.seed, theirs.unasked)


def record_of(fields: Mapping[str, Any], source: TableSource) -> Records:
    """Return the record of one person, equal in every bit to the record of a table's row with the same fields.

    Args:
        fields: By the names of the table's columns: numbers, texts, booleans, dates; None, NaN, or a text that is
            missing by the layout, if a value is not known.
        source: The table. Its ``selection``, which selects rows of a file, is ignored.

    Raises:
        BadData: If a field is absent, a number is not finite or not a number, the label is missing or undeclared, or
            ``where`` does not keep the person. Messages name columns, never the contents of a field.
    """
    absent = sorted(_needed_columns(source) - fields.keys())
    if absent:
        raise BadData(f"the record has no field {absent[0]!r}; it needs {', '.join(sorted(_needed_columns(source)))}")
    texts = {name: _text(name, fields[name], source.layout) for name in _needed_columns(source)}
    for name, values in source.where.items():
        if texts[name] not in source.where_texts(name):
            raise BadData(f"field {name!r}: the scenario asks people only with one of {', '.join(values)}")
    layout = source.layout
    numbers: list[float] = []
    for feature in source.features:
        text = texts[feature.column]
        if isinstance(feature, Number):
            numbers.append(float(scaled(np.array(_number(feature.column, text, layout)), feature)))
        else:
            numbers.extend(text in group for group in feature.texts(layout))
    features: Singles = shortened(np.array([numbers], dtype=np.float64), source.norm)
    return Records(features, np.array([_label(source.label, texts, layout)], dtype=np.int8)).check()


def text_of(name: str, value: Any) -> str:
    """Return a field as its text in a file, without surrounding spaces; empty if the value is missing."""
    try:
        return plain_text(value).strip()
    except NoText as error:
        raise BadData(f"field {name!r} must be a number, a text, a boolean or null, found {error}") from None


def _text(name: str, value: Any, layout: Layout) -> str:
    text = text_of(name, value)
    return layout.canonical(text) if isinstance(value, str) else canonical(text)


def _needed_columns(source: TableSource) -> set[str]:
    return {item.column for item in (*source.features, source.label)} | source.where.keys()


def _number(column: str, text: str, layout: Layout) -> float:
    if text in layout.missing_texts:
        return math.nan
    number = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise BadData(f"field {column!r} must be a finite number")
    return number


def _label(label: Label, texts: Mapping[str, str], layout: Layout) -> int:
    text = texts[label.column]
    if label.above is not None:
        number = _number(label.column, text, layout)
        if math.isnan(number):
            raise BadData(f"field {label.column!r}: the label is missing")
        return 1 if number > label.above else -1
    positive, negative = label.texts(layout)
    if text not in (*positive, *negative):
        named = ", ".join((*label.positive, *label.negative))
        raise BadData(f"field {label.column!r}: the label must be one of {named}")
    return 1 if text in positive else -1
