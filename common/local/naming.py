"""Names of a record's features and of its label, from which questions are put into words that a person understands.

The names come from the file of the record, if its author stated them, else from the scenario of the run. Names from a
scenario are untrusted text: they are truncated, and are shown in quotation marks.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Self

from pydantic import Field

from common.core.errors import BadMessage
from common.core.values import Value

LISTED = 6  # columns, or conditions, that one sentence names; of the others it states the number
LONGEST = 40  # characters of a name that are shown

Texts = Annotated[tuple[str, ...], Field(max_length=1 << 12)]


class Column(Value):
    """The column that a feature comes from: a number, clipped to its bounds and scaled to [0, 1], or a category (0, 1).

    Attributes:
        values: For a category: the texts for which the feature is 1. Empty for a number.
        low, high: For a number: its bounds.
    """

    column: str
    values: Texts = ()
    low: float = 0.0
    high: float = 1.0


class Names(Value):
    """The names of a record's features, in order, and of its label. Features without a name are called by their number.

    Attributes:
        features: One column for each feature; or empty.
        label: The column of the label; empty if it is unknown.
        positive, negative: The texts that mean the label +1, and those that mean -1.
        above: For a numeric label, instead of these texts: numbers above this one mean the label +1.
        shortened: Whether longer records were scaled down to a norm: a feature is then not the share of its bounds.
    """

    features: Annotated[tuple[Column, ...], Field(max_length=1 << 16)] = ()
    label: str = ""
    positive: Texts = ()
    negative: Texts = ()
    above: float | None = None
    shortened: bool = False

    @classmethod
    def of_table(cls, table: Any) -> Self:
        """Return the names that the JSON form of a table states (:class:`common.data.tables.TableSource`).

        It works without the code for tables, which an individual's agent does not load. BadMessage if it is no table.
        """
        try:
            label = table["label"]
            return cls.parse_signed(
                {
                    "features": [column for feature in _list(table["features"]) for column in _columns(feature)],
                    "label": label["column"],
                    "positive": label.get("positive", ()),
                    "negative": label.get("negative", ()),
                    "above": label.get("above"),
                    "shortened": table.get("norm") is not None,
                }
            )
        except (TypeError, KeyError, AttributeError):
            raise BadMessage("this describes no table of people") from None

    def among(self, features: Iterable[int]) -> str:
        """Return, in words, the columns that the given features come from, each once."""
        indices = list(features)
        if self.features or len(indices) < 2:
            return _join(dict.fromkeys(self._column(feature) for feature in indices))
        if indices == list(range(indices[0], indices[-1] + 1)):
            return f"numbers {indices[0] + 1} to {indices[-1] + 1} of your record"
        return f"numbers {_join(str(feature + 1) for feature in indices)} of your record"

    def true(self, feature: int, share: float = 0.0) -> str:
        """Return the condition that a feature is above ``share``, in [0, 1), in words: ``"plan" is "pro"``."""
        entry = self._entry(feature)
        if entry is None or (self.shortened and share > 0.0):
            return f"{self._column(feature)} is above {share:g}"
        if entry.values:
            return _equality(entry.column, entry.values)
        return f"{quoted(entry.column)} is above {entry.low + share * (entry.high - entry.low):g}"

    def factor(self, feature: int) -> str:
        """Return a feature as the factor of a product, in words: the column's number, or 1 or 0 for a category."""
        entry = self._entry(feature)
        return f"(1 if {self.true(feature)}, else 0)" if entry is not None and entry.values else self._column(feature)

    def conditions(self, features: Iterable[int], *more: str) -> str:
        """Return the conditions of :meth:`true` for the given features, and further conditions, as a list in words."""
        return _join([*(self.true(feature) for feature in features), *more])

    def _entry(self, feature: int) -> Column | None:
        return self.features[feature] if feature < len(self.features) else None

    def _column(self, feature: int) -> str:
        entry = self._entry(feature)
        return f"number {feature + 1} of your record" if entry is None else quoted(entry.column)

    @property
    def of_label(self) -> str:
        return quoted(self.label) if self.label else "the label of your record"

    def labelled(self, label: int) -> str:
        """Return what a label of -1 or +1 means, as a condition: ``"renews" is "yes"``."""
        if self.above is not None:
            return f"{self.of_label} is {'above ' if label > 0 else ''}{self.above:g}{'' if label > 0 else ' or less'}"
        texts = self.positive if label > 0 else self.negative
        return _equality(self.label, texts) if texts else f"{self.of_label} is {'+1' if label > 0 else '-1'}"


UNNAMED = Names()  # for a record whose columns are unknown


def quoted(text: str, most: int = LONGEST) -> str:
    """Return an untrusted name, truncated, in quotation marks; it contains none itself, so it cannot end them."""
    excerpt = text if len(text) <= most else text[:most] + "..."
    return '"' + excerpt.replace('"', "'") + '"'


def _equality(column: str, texts: tuple[str, ...]) -> str:
    return f"{quoted(column)} is {_join([quoted(text) for text in texts], 'or')}"


def _join(parts: Iterable[str], word: str = "and") -> str:
    items = list(parts)
    if not items:
        return "nothing"
    if len(items) > LISTED:
        return f"{', '.join(items[: LISTED - 1])} {word} {len(items) - LISTED + 1:,} others"
    return f" {word} ".join(filter(None, (", ".join(items[:-1]), items[-1])))


def _columns(feature: Any) -> list[dict[str, Any]]:
    if feature.get("kind") == "missing":
        return [{"column": feature["column"], "values": ["missing"]}]
    if "values" not in feature:
        return [{name: feature[name] for name in ("column", "low", "high")}]
    groups = ([value] if isinstance(value, str) else value for value in _list(feature["values"]))
    return [{"column": feature["column"], "values": group} for group in groups]


def _list(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise TypeError  # iterating a string gives characters, and a dict keys: neither is a list of entries
    return value
