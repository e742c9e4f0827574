"""Recognise the people of a table again in a later run, without storing any of their records.

A person is recognised from their row as it was given: all columns of the file or frame, before bounds, fills, filters
and splits.

Each cell becomes 64 bits of a pseudorandom function with the ledger's secret key. Numbers are compared to six
significant digits and texts without case and outer spaces, so that the dtype or format does not matter. Two rows are
compared by *sums* of their cells' digests:

- on all columns, in any order, and on all columns of the table that has fewer;
- on the columns whose names are in both tables;
- on all columns but one, as a column may have changed, and on those whose values agree, with any names, if they are
  half of either table's columns. This counts only if far more rows agree than by chance (:func:`_beyond_chance`),
  since rows of few columns look alike. If columns are matched, a digest is combined with its column, so that rows of
  zeros and ones are distinguished, too.

Two different multisets of cells have the same sum with probability 2^-64; they then count as one person, which errs on
the side of privacy. Rows that were changed in most columns at once (by rounding to three digits, say) are not
recognised; only an identifier recognises these.

If an *id column* is named, only it decides: the same id is the same person, another id is another person.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from common.core.arrays import AnyArray, Floats, Indices, Words
from common.core.errors import BadData
from common.data.files import cached_pieces, columns_of, is_typed, pieces, plain, resolve
from common.data.loading import is_file, is_frame
from common.data.tables import Layout, TableSource

if TYPE_CHECKING:
    import polars

DIGITS = 6  # significant digits to which numbers are compared
SKETCH = 512  # number of distinct values of a column that are compared with those of another one
ALIKE = 0.25  # columns without names are matched if their values overlap by this share
PAIRS = 10_000  # most pairs of columns without names whose values are compared
_EXACT = 2.0**53  # whole numbers below are exact as doubles; larger ones are compared as texts
_TRUTHS = {"true": "1", "false": "0"}


@dataclass(frozen=True, repr=False, eq=False)
class People:
    """The people of a table as digests with a secret key.

    Attributes:
        cells: Shape (n, d): the digest of each cell. About 8 n d bytes in memory and on disk.
        names: Shape (d,): the digest of each column's name; 0 if it has none.
        id_name: The digest of the name of the id column, which is one of ``names``; 0 if none was named.
        files: Digests of the uncompressed contents of the files that the rows come from, whichever rows are read.
    """

    cells: Words
    names: Words
    id_name: int = 0
    files: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.cells)

    def encoded(self) -> bytes:
        buffer = io.BytesIO()
        np.savez(buffer, cells=self.cells, names=self.names)
        return zlib.compress(buffer.getvalue(), 1)

    @classmethod
    def decoded(cls, content: bytes, id_name: int, files: Sequence[str]) -> People:
        with np.load(io.BytesIO(zlib.decompress(content)), allow_pickle=False) as arrays:
            return cls(arrays["cells"], arrays["names"], id_name, tuple(files))

    def ids(self, name: int) -> Words | None:
        place = np.flatnonzero(self.names == np.uint64(name)) if name else np.empty(0, dtype=np.int64)
        return np.asarray(self.cells[:, place[0]]) if place.size == 1 else None


class Digester:
    """Computes digests with a secret key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        block = hashlib.blake2b(key=key, digest_size=32, person=b"tandem numbers").digest()
        # ECB of blocks that are one number each is a pseudorandom function of the number, as needed.
        self._cipher = Cipher(algorithms.AES(block), modes.ECB())  # noqa: S305

    def people(
        self,
        frames: Iterable[polars.DataFrame],
        files: Sequence[Path] = (),
        *,
        named: bool = True,
        id_column: str | None = None,
    ) -> People:
        """Return the people of a table that is given in pieces; BadData if an id is missing, or two rows have the same.

        BadData also if there is no column. A missing field is null or the empty text; ``named``: the columns have
        meaningful names.
        """
        place = ", ".join(path.name for path in files) + ": " if files else ""
        columns: list[str] = []
        parts = []
        for frame in frames:
            columns = frame.columns
            if not columns:
                raise BadData(
                    f"{place}no column but the label's is there exactly once, so no person could be recognised in a "
                    "further run: rename columns that are there twice"
                )
            parts.append(np.stack([self.cells(frame[name]) for name in columns], axis=1))
        cells = np.concatenate(parts) if parts else np.empty((0, 0), dtype=np.uint64)
        names = np.array([self.name(name) if named or name == id_column else 0 for name in columns], dtype=np.uint64)
        who = People(
            cells, names, 0 if id_column is None else self.name(id_column), tuple(self.file(path) for path in files)
        )
        if id_column is not None:
            self._check_ids(who, id_column, place)
        return who

    def people_of(self, table: TableSource, folder: Path) -> People:
        """Return the people of all rows of a table's files; raises as :meth:`people`, and if a file is unreadable."""
        paths = [resolve(folder / file) for file in table.files]
        return self.people(rows_of_files(paths, table), paths, id_column=table.id)

    def _check_ids(self, people: People, column: str, place: str) -> None:
        ids = people.ids(people.id_name)
        label = f"{place}column {column!r} is the id of people"
        if (people.names == np.uint64(people.id_name)).sum() > 1:
            raise BadData(f"{label}, and another column has its name but for capitals or spaces: rename that one")
        if ids is None:
            raise BadData(f"{place}the table has no column {column!r}, which is named as the id of its people")
        if np.any(ids == np.uint64(self._text(""))):
            raise BadData(f"{label}, and is empty in some rows: fill it")
        if len(np.unique(ids)) < len(ids):
            raise BadData(
                f"{label}, and some rows have the same one (numbers with a fraction are compared to six digits, texts "
                "without capitals): what is promised holds for one row a person, so keep one row of each, and put a "
                "letter before numbers of more digits"
            )

    def cells(self, texts: polars.Series) -> Words:
        import polars

        from common.data.columns import canonical_texts

        folded = canonical_texts(texts).fill_null("").str.to_lowercase().replace(_TRUTHS)
        numbers = folded.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy()
        digests = np.empty(len(folded), dtype=np.uint64)
        plain_numbers = np.isfinite(numbers) & (np.abs(numbers) < _EXACT)
        digests[plain_numbers] = self._numbers(numbers[plain_numbers])
        if not plain_numbers.all():
            rest = folded.filter(polars.Series(~plain_numbers))
            hashes = {text: self._text(text) for text in rest.unique()}
            digests[~plain_numbers] = np.fromiter((hashes[text] for text in rest), dtype=np.uint64, count=len(rest))
        return digests

    def name(self, column: str) -> int:
        return self._hashed(column.strip().casefold().encode(), b"tandem column") | 1

    def file(self, path: Path) -> str:
        state = hashlib.blake2b(digest_size=16, key=self._key, person=b"tandem file")
        with plain(resolve(path)) as opened:
            while block := opened.read(1 << 20):
                state.update(block)
        return state.hexdigest()

    def _text(self, text: str) -> int:
        return self._hashed(text.encode(), b"tandem text")

    def _hashed(self, content: bytes, purpose: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(content, digest_size=8, key=self._key, person=purpose).digest(), "little")

    def _numbers(self, numbers: Floats) -> Words:
        blocks = np.zeros((len(numbers), 2), dtype="<i8")
        blocks[:, 0], blocks[:, 1] = decimals(numbers)
        encryptor = self._cipher.encryptor()
        encrypted = encryptor.update(blocks.tobytes()) + encryptor.finalize()
        return np.frombuffer(encrypted, dtype="<u8").reshape(-1, 2)[:, 0].astype(np.uint64)


def decimals(numbers: Floats) -> tuple[Indices, Indices]:
    """Return k and e, shape (n,), of numbers k 10^e to six significant digits (whole ones: all digits); 0 gives 0."""
    sizes = np.abs(numbers)
    places = np.zeros(len(numbers), dtype=np.int64)
    np.floor(np.log10(sizes, where=sizes > 0, out=np.zeros_like(sizes)), out=sizes)
    places[:] = sizes.astype(np.int64) - (DIGITS - 1)
    # 10^-e overflows for subnormal numbers, so scale in two steps.
    first = np.clip(-places, -300, 300)
    scaled = np.rint(numbers * 10.0**first * 10.0 ** (-places - first)).astype(np.int64)
    long = np.abs(scaled) >= 10**DIGITS
    scaled[long], places[long] = np.rint(scaled[long] / 10).astype(np.int64), places[long] + 1
    short = (np.abs(scaled) < 10 ** (DIGITS - 1)) & (scaled != 0)
    scaled[short], places[short] = scaled[short] * 10, places[short] - 1
    integral = (np.abs(numbers) >= 10**DIGITS) & (np.rint(numbers) == numbers)
    scaled[integral], places[integral] = numbers[integral].astype(np.int64), 0
    places[scaled == 0] = 0
    return scaled, places


def recognised(reference: People, people: People) -> AnyArray:
    """Return for each of these people whether they are among those known before, shape (n,), bool."""
    if set(reference.files) & set(people.files):
        return np.ones(len(people), dtype=np.bool_)
    ids = _both_ids(reference, people)
    if ids is not None:
        return _among(ids[1], ids[0])
    inside = np.zeros(len(people), dtype=np.bool_)
    for before, now, surely in _compared(reference, people):
        agree = _among(now, before)
        if surely or _beyond_chance(before, now, int(agree.sum())):
            inside |= agree
        if inside.all():
            break
    return inside


def _among(digests: Words, reference: Words) -> AnyArray:
    import polars

    return polars.Series(digests).is_in(polars.Series(reference).implode()).to_numpy().astype(np.bool_)


def _beyond_chance(before: Words, now: Words, agreeing: int) -> bool:
    """Return whether more rows agree than would if no person were in both tables.

    Two rows of different people are assumed to agree as often as two rows of one table. At least ten rows (or half of a
    small table) must agree, and more than four times the expected number.
    """
    if agreeing < min(10, -(-min(len(before), len(now)) // 2)):
        return False
    pairs = 0.0
    for sums in (before, now):
        counts = np.unique(sums, return_counts=True)[1].astype(np.float64)
        pairs = max(pairs, (1.0 + float((counts * (counts - 1.0)).sum())) / (len(sums) * max(1, len(sums) - 1)))
    expected = len(now) * min(1.0, len(before) * pairs)
    return agreeing > 4.0 * expected


def by_id(reference: People, people: People) -> bool:
    """Return whether an id column decides which of these people are known."""
    return _both_ids(reference, people) is not None


def _both_ids(reference: People, people: People) -> tuple[Words, Words] | None:
    for name in (people.id_name, reference.id_name):
        before, now = reference.ids(name), people.ids(name)
        if before is not None and now is not None:
            return before, now
    return None


def _sums(cells: Words) -> Words:
    return np.asarray(cells.sum(axis=1, dtype=np.uint64))


def _placed(cells: Words) -> Words:
    words = np.random.Generator(np.random.Philox(0)).integers(0, 2**64, cells.shape[1], dtype=np.uint64)
    return np.asarray(cells * (words | np.uint64(1)))


def _compared(reference: People, people: People) -> Iterator[tuple[Words, Words, bool]]:
    """Yield the rows' sums over some columns of both tables, and whether every agreement counts, or only many do."""
    d, e = reference.cells.shape[1], people.cells.shape[1]
    if d == e:
        yield _sums(reference.cells), _sums(people.cells), True
    shared = np.intersect1d(reference.names[reference.names > 0], people.names) if d and e else ()
    yield from _named(reference, people)
    if len(shared) < min(d, e):  # names do not identify all columns
        yield from _without_one(reference.cells, people.cells)
        yield from _by_places(reference.cells, people.cells)
    yield from _by_totals(reference.cells, people.cells)
    yield from _by_values(reference.cells, people.cells)


def _named(reference: People, people: People) -> Iterator[tuple[Words, Words, bool]]:
    """Compare on the columns that both tables name, and on all of these but one, if they are half of either table's."""
    if not (reference.names.all() and people.names.all()):
        return
    shared, first, second = np.intersect1d(reference.names, people.names, return_indices=True)
    least = -(-min(len(reference.names), len(people.names)) // 2)
    if len(shared) < max(1, least):
        return
    one, other = _placed(reference.cells[:, first]), _placed(people.cells[:, second])
    before, now = _sums(one), _sums(other)
    yield before, now, len(shared) == min(len(reference.names), len(people.names))
    if len(shared) > max(1, least):
        for place in range(len(shared)):
            yield before - one[:, place], now - other[:, place], False


def _without_one(one: Words, other: Words) -> Iterator[tuple[Words, Words, bool]]:
    d, e = one.shape[1], other.shape[1]
    if abs(d - e) > 1 or max(d, e) < 2:
        return
    if d == e:
        one, other = _placed(one), _placed(other)
    before, now = _sums(one), _sums(other)
    for place in range(max(d, e)):
        yield before - one[:, place] if d >= e else before, now - other[:, place] if e >= d else now, d != e


def _by_places(one: Words, other: Words) -> Iterator[tuple[Words, Words, bool]]:
    """Compare all columns of the table with fewer with each run of as many adjacent columns of the other one."""
    d, e = one.shape[1], other.shape[1]
    fewer, more = min(d, e), abs(d - e)
    for first in range(more + 1 if fewer and more else 0):
        window = slice(first, first + fewer)
        before, now = one[:, window] if d > e else one, other[:, window] if e > d else other
        yield _sums(_placed(before)), _sums(_placed(now)), first in (0, more)


def _by_totals(one: Words, other: Words) -> Iterator[tuple[Words, Words, bool]]:
    """Compare on the columns with the same values over all rows, in any order, if that is unique in each table."""
    unique = [
        np.unique(cells.sum(axis=0, dtype=np.uint64), return_index=True, return_counts=True) for cells in (one, other)
    ]
    (first, places, _), (second, other_places, _) = ([part[each[2] == 1] for part in each] for each in unique)
    _, left, right = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    yield from _matched(one, other, dict(zip(places[left].tolist(), other_places[right].tolist(), strict=True)))


def _by_values(one: Words, other: Words) -> Iterator[tuple[Words, Words, bool]]:
    """Compare on the columns whose values agree, each matched with the one that it agrees with most.

    If there are very many columns, only those with the same index, counted from the first or the last, are compared.
    """
    d, e = one.shape[1], other.shape[1]
    places = list(product(range(d), range(e)))
    if d * e > PAIRS:
        places = [(at, at) for at in range(min(d, e))] + [(d - at, e - at) for at in range(1, min(d, e) + 1)]
    sketches = [_sketch(one[:, at]) for at in range(d)], [_sketch(other[:, at]) for at in range(e)]
    scores = [(_overlap(sketches[0][i], sketches[1][j]), i, j) for i, j in places]
    matched: dict[int, int] = {}
    for score, i, j in sorted(scores, reverse=True):
        if score >= ALIKE and i not in matched and j not in matched.values():
            matched[i] = j
    yield from _matched(one, other, matched)


def _matched(one: Words, other: Words, columns: dict[int, int]) -> Iterator[tuple[Words, Words, bool]]:
    if columns and 2 * len(columns) >= min(one.shape[1], other.shape[1]):
        before, now = one[:, list(columns)], other[:, list(columns.values())]
        yield _sums(_placed(before)), _sums(_placed(now)), False


def _sketch(column: Words) -> tuple[Words, Floats]:
    values, counts = np.unique(column, return_counts=True)
    return values[:SKETCH], counts[:SKETCH].astype(np.float64)


def _overlap(one: tuple[Words, Floats], other: tuple[Words, Floats]) -> float:
    """Return the share of the rows with small digests whose values both columns have, in the table with fewer."""
    ends = [values[-1] for values, _ in (one, other) if len(values) == SKETCH]
    least = min(ends, default=np.uint64(2**64 - 1))
    first, second = one[0] <= least, other[0] <= least
    _, left, right = np.intersect1d(one[0][first], other[0][second], assume_unique=True, return_indices=True)
    shared = np.minimum(one[1][first][left], other[1][second][right]).sum()
    return float(shared / max(1.0, min(one[1][first].sum(), other[1][second].sum())))


def rows_of_files(paths: Sequence[Path], table: TableSource) -> Iterator[polars.DataFrame]:
    """Yield all rows of a table's files, with all columns but the label, which does not identify people.

    Columns that are not in all files, are twice in one, or have values without a text (such as lists) are left out.
    """
    shared: set[str] = set()
    for number, path in enumerate(paths):
        names = columns_of(path, table.layout)
        unique = {name for name in names if names.count(name) == 1}
        shared = unique if number == 0 else shared & unique
    shared -= {table.label.column}
    columns = frozenset(shared)
    for path in paths:
        columns &= _readable(path, table.layout, columns)
    for path in paths:
        yield from (piece.frame for piece in cached_pieces(path, table.layout, columns))


def _readable(path: Path, layout: Layout, names: frozenset[str]) -> frozenset[str]:
    import polars

    def reads(columns: frozenset[str]) -> bool:
        try:
            for _ in pieces(path, layout, columns):
                if not is_typed(path):
                    break  # every field of a text file has a text
        except (BadData, polars.exceptions.PolarsError):
            return False
        return True

    return names if reads(names) else frozenset(name for name in names if reads(frozenset({name}))) or names


def rows_of_data(data: Any, label: str | None, layout: Layout) -> tuple[polars.DataFrame, bool]:
    """Return all rows of a file, a frame or an array of shape (n, d), and whether its columns have names.

    The label (None: not a column) is left out, as are columns that occur twice or have values without a text.
    """
    import polars

    if is_file(data):
        path, names = Path(data), columns_of(Path(data), layout)
        usable = _readable(path, layout, frozenset(name for name in names if names.count(name) == 1 and name != label))
        return polars.concat([piece.frame for piece in pieces(path, layout, usable)]), True
    if is_frame(data):
        names = list(data.columns)
        columns = {str(name): data[name] for name in names if names.count(name) == 1 and name != label}
        return _texts(columns), all(isinstance(name, str) for name in names)
    matrix = np.asarray(data)
    return _texts({f"x{at}": matrix[:, at] for at in range(matrix.shape[1])}), False


def _texts(columns: dict[str, Any]) -> polars.DataFrame:
    import polars

    from common.data.columns import canonical_texts

    series = []
    for name, column in columns.items():
        try:
            series.append(canonical_texts(column, name))
        except BadData:
            continue
    return polars.DataFrame(series)
