"""Checks of a table for its owner before a run: everything that its public description does not expect.

Counts are computed from people's records, and are as private as these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BadData
from common.data.files import Piece, columns_of, pieces
from common.data.loading import numbers_and_wrong, with_labels
from common.data.schema import Schema
from common.data.spelling import NUMBER
from common.data.tables import Category, Label, Layout, Missing, Number, TableSource
from common.local.naming import LONGEST

if TYPE_CHECKING:
    import polars

Severity = Literal["stops", "mistake", "note"]
_EXAMPLES = 5  # lines that are named for each finding


@dataclass(frozen=True)
class TableFinding:
    """A finding that the description does not expect.

    Attributes:
        kind: Such as ``broken-row``, ``no-column``, ``label``, ``too-few``, ``clipped`` or ``missing``.
        severity: ``stops``: a run refuses the table. ``mistake``: it runs, but probably not on what was meant.
            ``note``: the public rules handle it.
        file, column: Where it is; None if it is about all files, or about no column.
        count: Number of affected rows, or of the things found.
        lines: Line numbers in the file of the first of them (row numbers in files whose fields have types).
        what, remedy: What was found, and what to do, in words.
    """

    kind: str
    severity: Severity
    file: str | None
    column: str | None
    count: int
    lines: tuple[int, ...]
    what: str
    remedy: str


@dataclass
class Examined:
    """The result of examining a table.

    Attributes:
        rows: Number of rows that were read, without broken ones.
        kept: Number of rows that ``where`` keeps. A selection is not applied, since its coins belong to the run.
        positive, negative: Numbers of these with each label.
    """

    rows: int = 0
    kept: int = 0
    positive: int = 0
    negative: int = 0
    findings: list[TableFinding] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether a run would read this table as it was probably meant: there are only notes."""
        return all(finding.severity == "note" for finding in self.findings)

    def add(
        self, kind: str, severity: Severity, file: str | None, column: str | None, count: int, what: str, remedy: str
    ) -> None:
        self.findings.append(TableFinding(kind, severity, file, column, count, (), what, remedy))


def examine(data: Path, source: TableSource, people: int | None = None) -> Examined:
    """Read all files of a table in a directory; ``people`` is the number that the scenario needs, if it states one."""
    report, tallies = Examined(), _Tallies(source)
    for file in source.files:
        _examine_file(data / file, source, report, tallies)
    report.findings.extend(tallies.findings())
    for column in tallies.alike() if report.kept > 1 else ():
        what = "all rows have the same value: nothing can be learned from this column here"
        remedy = "leave the column out if that is publicly known of S: what a model makes of other values in T is noise"
        report.add("constant", "note", None, column, report.kept, what, remedy)
    if bool(report.positive) != bool(report.negative):
        remedy = "check label.positive and label.negative; nothing can be learned from one class"
        what = f"every label is {'positive' if report.positive else 'negative'}"
        report.add("one-class", "mistake", None, source.label.column, report.kept, what, remedy)
    unread = any(finding.kind == "unreadable" for finding in report.findings)
    if people is not None and report.kept < people and not unread:
        what = f"{report.kept:,} rows fit where the scenario wants {people:,} people"
        remedy = "lower curator.n (source) or agents.count (target) to a public number of people that you know"
        report.add("too-few", "stops", None, None, report.kept, what, remedy)
    return report


def _examine_file(path: Path, source: TableSource, report: Examined, tallies: _Tallies) -> None:
    try:
        names = columns_of(path, source.layout)
        present = frozenset(_columns(path.name, names, source, report))
        for piece in _readable(path, source, present, report):
            report.rows += len(piece.frame)
            kept = np.ones(len(piece.frame), dtype=bool)
            for column in (name for name in source.where if name in present):
                fits = piece.frame[column].is_in(source.where_texts(column)).to_numpy()
                tallies.add("left-out", piece, column, ~fits)
                kept &= fits
            for column in sorted(source.selection.bounded & present if source.selection else ()):
                of_number = any(isinstance(f, Number) and f.column == column for f in source.features)
                wrong = numbers_and_wrong(piece.frame[column], source.layout)[1]
                tallies.add("no-number", piece, column, wrong & ~kept if of_number else wrong)  # kept rows: below
            rows = np.flatnonzero(kept)
            chosen = Piece(piece.file, piece.frame[rows], piece.lines[rows])
            report.kept += len(rows)
            for column in dict.fromkeys(feature.column for feature in source.features):
                if column in present:
                    tallies.feature(chosen, column)
                    if column not in source.where:
                        tallies.vary(chosen.frame[column], column)
            positive, negative = tallies.labels(chosen, source.label)
            report.positive, report.negative = report.positive + positive, report.negative + negative
    except BadData as error:
        remedy = "nothing after this place was read: fix it, and check again"
        report.add("unreadable", "stops", path.name, None, 1, error.detail.removeprefix(f"{path.name}: "), remedy)


def _columns(file: str, names: list[str], source: TableSource, report: Examined) -> Iterator[str]:
    for name in sorted(source.columns):
        times = names.count(name)
        if times == 1:
            yield name
            continue
        kind = "column-twice" if times else "no-column"
        alike = [other for other in names if other.casefold() == name.casefold() and other != name]
        what = f"the column is there {times} times" if times else "the file has no such column"
        remedy = "rename all but the one that is meant" if times else "fix the header, or the scenario"
        if alike and not times:
            remedy += f"; the header has {alike[0]!r}"
        report.add(kind, "stops", file, name, times, what, remedy)
    folded = {name: name.strip().casefold() for name in names}  # as common.lifetime.recognition compares names
    id_name = None if source.id is None else source.id.strip().casefold()
    if id_name is not None and id_name not in folded.values():
        remedy = "name the column that says who is who as id, in the scenario, or leave id out"
        report.add(
            "no-column", "stops", file, source.id, 0, "the file has no such column, which is the people's id", remedy
        )
    spare = [name for name in folded if name not in source.columns and folded[name] != id_name]
    if spare:
        what = f"columns that the scenario does not use: {', '.join(spare)}"
        report.add("unused-column", "note", file, None, len(spare), what, "nothing: they are left alone")


def _readable(path: Path, source: TableSource, present: frozenset[str], report: Examined) -> Iterator[Piece]:
    flaws: list[str] = []
    if not present:
        return
    try:
        yield from pieces(path, source.layout, present, lambda flaw: flaws.append(flaw.detail))
    finally:
        if flaws:
            more = f" (and {len(flaws) - 1:,} more such rows)" if len(flaws) > 1 else ""
            remedy = "a separator inside a field needs quotes around the field; a run refuses the whole file"
            what = flaws[0].removeprefix(f"{path.name}: ") + more
            report.add("broken-row", "stops", path.name, None, len(flaws), what, remedy)


class _Tallies:
    """Counts by kind, file and column, over the pieces of all files."""

    def __init__(self, schema: Schema | TableSource) -> None:
        self._features, self._layout = schema.features, schema.layout
        self._label = schema.label
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self._texts: dict[tuple[str, str, str], dict[str, None]] = {}
        self._values: dict[str, set[str]] = {}
        self._lines: dict[tuple[str, str, str], list[int]] = {}

    def feature(self, piece: Piece, column: str) -> None:
        texts, features = piece.frame[column], [f for f in self._features if f.column == column]
        absent = texts.is_in(self._layout.missing_texts).to_numpy()
        ranges = [f for f in features if isinstance(f, Number)]
        if ranges:
            numbers, wrong = numbers_and_wrong(texts, self._layout)
            self.add("no-number", piece, column, wrong)
            low, high = max(f.low for f in ranges), min(f.high for f in ranges)
            self.add("clipped", piece, column, (numbers < low) | (numbers > high))
        groups = [group for f in features if isinstance(f, Category) for group in f.texts(self._layout)]
        listed = [text for group in groups for text in group]
        if listed:
            declared = texts.is_in(listed).to_numpy()
            alike = ~absent & _looks_like(texts, listed)
            self.add("look-alike", piece, column, alike)
            self.add("unlisted", piece, column, ~absent & ~alike & ~declared)
            absent = absent & ~declared
        self.add("missing", piece, column, absent)

    def labels(self, piece: Piece, label: Label) -> tuple[int, int]:
        """Examine the labels of the rows that are kept; return the numbers of positive and negative ones."""
        if label.column not in piece.frame.columns:
            return 0, 0
        positive, negative = with_labels(piece.frame[label.column], label, self._layout)
        self.add("label", piece, label.column, ~positive & ~negative)
        return int(positive.sum()), int(negative.sum())

    def add(self, kind: str, piece: Piece, column: str, rows: AnyArray) -> None:
        positions, places = np.flatnonzero(rows), (kind, piece.file, column)
        if positions.size:
            self.counts[places] += int(positions.size)
            lines = self._lines.setdefault(places, [])
            lines.extend(int(line) for line in piece.lines[positions[: _EXAMPLES - len(lines)]])
            texts = self._texts.setdefault(places, {})
            if kind in _SHOWN and len(texts) < _TRIED:
                texts.update(dict.fromkeys(piece.frame[column].gather(positions[:_TRIED].tolist()).to_list()))

    def vary(self, texts: polars.Series, column: str) -> None:
        """Record a column's values until two different ones are found."""
        values = self._values.setdefault(column, set())
        if len(values) < 2:
            values.update(texts.unique().head(2).to_list())

    def alike(self) -> list[str]:
        return [column for column, values in self._values.items() if len(values) == 1]

    def findings(self) -> Iterator[TableFinding]:
        for (kind, file, column), count in self.counts.items():
            severity, what, remedy = _MEANINGS[kind]
            lines = tuple(self._lines[kind, file, column])
            texts = list(self._texts[kind, file, column])
            if kind == "missing" and any(isinstance(f, Missing) and f.column == column for f in self._features):
                what, remedy = f"{what}; a feature of its own is 1 there", "nothing: the scenario counts with it"
            if texts:
                what = f"{_quoted(texts[0])} {what}"
                remedy = self._remedy(kind, column, texts) or remedy
            yield TableFinding(kind, severity, file, column, count, lines, what, remedy)

    def _remedy(self, kind: str, column: str, texts: list[str]) -> str | None:
        """Return what to change so that these texts are read as they were probably meant; None if unknown."""
        first = texts[0]
        if kind == "no-number" or (kind == "label" and self._label is not None and self._label.above is not None):
            return _number_remedy(texts, self._layout)
        if kind == "label" and self._label is not None:
            sides = {"positive": self._label.positive, "negative": self._label.negative}
            near = [(side, text) for side, listed in sides.items() for text in listed if _bare(text) == _bare(first)]
            if near:
                side, text = near[0]
                return f"{_quoted(first)} is {_quoted(text)} in another spelling: add it to label.{side}"
            return None
        categories = [f for f in self._features if isinstance(f, Category) and f.column == column]
        listed = [text for f in categories for group in f.groups for text in group]
        near_text = next((text for text in listed if _bare(text) == _bare(first)), first)
        return f"write it as the scenario does, or list both as one value: values: [[{near_text}, {first}]]"


_SHOWN = ("no-number", "label", "look-alike")  # findings that show a field to the table's owner
_TRIED = 200  # fields of one finding that are examined for a remedy
_CODES = frozenset(
    ("", "na", "n/a", "n.a.", "nd", "nan", "nil", "null", "none", "missing", "unknown", "k.a.", "#n/a", "-", "--", ".")
)
"""Texts that often stand for a missing value, in lower case."""
_WAYS: tuple[tuple[str, dict[str, str]], ...] = (
    ("a thousands separator: add `thousands: ','`", {"thousands": ","}),
    ("spaces between thousands: add `thousands: ' '`", {"thousands": " "}),
    ("a decimal comma: add `decimal: ','`", {"decimal": ","}),
    ('a thousands separator: add `thousands: "\'"`', {"thousands": "'"}),
    ("a thousands separator: add `thousands: '_'`", {"thousands": "_"}),
    ("a thousands separator: add `thousands: '.'`", {"thousands": ".", "decimal": ","}),
)


def _number_remedy(texts: list[str], layout: Layout) -> str | None:
    codes = [text for text in texts if text.casefold() in _CODES]
    if codes and codes[0] == texts[0]:
        markers = ", ".join(f"'{text}'" for text in dict.fromkeys((*layout.missing, *codes)))
        return f"{_quoted(codes[0])} stands for a missing value, if that is meant: add `missing: [{markers}]` to layout"
    numbers = [text for text in texts if text not in codes]
    for words, changed in _WAYS:
        way = Layout.parse(layout.wire() | {"thousands": None, "decimal": "."} | changed)
        if all(NUMBER.fullmatch(way.point(text)) for text in numbers):
            return f"{_quoted(numbers[0])} has {words} to layout"
    bare = numbers[0].strip("%$\u20ac\u00a3 ") if numbers else ""
    if numbers and bare != numbers[0] and NUMBER.fullmatch(layout.point(bare)):
        return f"{_quoted(numbers[0])} has a unit beside its number: write the number alone"
    return None


def _quoted(text: str) -> str:
    return repr(text if len(text) <= LONGEST else text[:LONGEST] + "...") if text else "an empty field"


def _bare(text: str) -> str:
    return "".join(text.casefold().split())


def _looks_like(texts: polars.Series, listed: list[str]) -> AnyArray:
    bare_texts = {_bare(text) for text in listed}
    return texts.is_in([text for text in texts.unique() if text not in listed and _bare(text) in bare_texts]).to_numpy()


_MEANINGS: dict[str, tuple[Severity, str, str]] = {
    "left-out": ("note", "rows that the conditions of where leave out", "nothing, if that is meant"),
    "no-number": (
        "stops", "is neither a finite number nor missing",
        "fix these fields, or list the text that stands for a missing one in layout.missing",
    ),
    "clipped": (
        "note", "numbers beyond the public bounds, which count as the nearest bound",
        "look for a wrong unit. Other bounds must come from what is publicly known, never from this count",
    ),
    "look-alike": (
        "mistake", "differs from a listed value in case or spaces alone, and counts as not listed: zeros",
        "write it as the scenario does, or list both spellings as one value",
    ),
    "unlisted": (
        "note", "none of the listed values: zeros in all features of the column",
        "list what is publicly known to exist, never what this table holds",
    ),
    "missing": (
        "note",
        "without a value: a number counts as fill, or the middle of its bounds, a category as none of the values",
        "a public default can be given as fill; {kind: missing, column: ...} gives it a feature of its own",
    ),
    "label": (
        "stops", "is no label that the scenario declares",
        "fix these rows, declare the label, or leave them out with where",
    ),
}  # fmt: skip


class Notes:
    """Counts over all ``rows`` that were read, by kind and column.

    They count numbers beyond their bounds (``clipped``), texts that are not among the listed values (``unlisted``),
    and fields without a value (``missing``).
    """

    def __init__(self) -> None:
        self.rows = 0
        self._counts: dict[str, Counter[str]] = {kind: Counter() for kind in ("clipped", "unlisted", "missing")}

    def add(self, piece: Piece, schema: Schema | TableSource, columns: Collection[str]) -> None:
        self.rows += len(piece.frame)
        tallies = _Tallies(schema)
        for column in columns:
            tallies.feature(piece, column)
        for (kind, _, column), count in tallies.counts.items():
            if kind in _NOTED:
                self._counts[_NOTED[kind]][column] += count

    def sentences(self, schema: Schema) -> list[str]:
        """Return one line for each column and kind with a positive count."""
        lines = []
        for column in dict.fromkeys(schema.columns):
            bounds = [f for f in schema.features if isinstance(f, Number) and f.column == column]
            clipped, unlisted, missing = (self._share(counts[column]) for counts in self._counts.values())
            if clipped:
                low, high = max(f.low for f in bounds), min(f.high for f in bounds)
                lines.append(f"{column}: {clipped} beyond {low:g} .. {high:g}, clipped to these bounds")
            if unlisted:
                lines.append(f"{column}: {unlisted} none of the listed values, counted as none")
            if missing:
                what = f"counted as {bounds[0].default:g}" if bounds else "counted as none of the listed values"
                if any(isinstance(f, Missing) and f.column == column for f in schema.features):
                    what += ", and by a feature of its own"
                lines.append(f"{column}: {missing} without a value, {what}")
        return lines

    def mostly_clipped(self) -> dict[str, int]:
        """Return the number of clipped rows for each column in which at least half of the rows are clipped."""
        return {column: count for column, count in self._counts["clipped"].items() if 2 * count >= self.rows}

    def document(self) -> dict[str, dict[str, int]]:
        """Return the counts that are not 0, for JSON."""
        return {kind: dict(counts) for kind, counts in self._counts.items()}

    def _share(self, count: int) -> str:
        return f"{count:,} of {self.rows:,} row{'s' if self.rows != 1 else ''}" if count else ""


_NOTED = {"clipped": "clipped", "unlisted": "unlisted", "look-alike": "unlisted", "missing": "missing"}
