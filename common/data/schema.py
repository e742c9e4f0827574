"""Schema files: the public description of a table in one place, for scenarios and estimators.

::

    features:
      - {kind: number, column: visits, low: 0, high: 30, fill: 3}
      - {kind: category, column: plan, values: [basic, family]}
    label: {column: renews, positive: ["yes"], negative: ["no"]}
    norm: 1.5
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import Field, model_validator

from common.core import strictyaml
from common.core.errors import BadData, BadMessage, BadScenario, NotFound
from common.core.folder import SCHEMA, read
from common.core.values import Value
from common.data.tables import Feature, Label, Layout, TableSource, check_missing, longest, places


class Schema(Value):
    """A table's public description without its files; fields are those of :class:`~common.data.tables.TableSource`.

    ``label`` is None if labels are given in another way.
    """

    features: tuple[Feature, ...] = Field(min_length=1)
    label: Label | None = None
    norm: float | None = Field(default=None, gt=0)
    layout: Layout = Layout()
    id: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _unambiguous(self) -> Self:
        check_missing(self.features, self.label, self.layout)
        return self

    @property
    def dimension(self) -> int:
        return sum(feature.width for feature in self.features)

    @cached_property
    def places(self) -> list[tuple[Feature, int]]:
        """What each feature is made from, and its index among the features from there (:func:`.tables.places`)."""
        return places(self.features)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that features come from, each once, in the order of the features."""
        return tuple(dict.fromkeys(feature.column for feature in self.features))

    @property
    def shortens(self) -> bool:
        """Whether a row can exceed the norm, given that each number or column of categories has a norm of at most 1."""
        return self.norm is not None and longest(self.norm) < math.sqrt(len(self.features))

    def source(self, *files: str) -> TableSource:
        """Return the description of a table with these files; BadScenario if the schema has no label."""
        if self.label is None:
            raise BadScenario("the schema has no label: say which column is to be predicted")
        return TableSource(
            files=files, label=self.label, features=self.features, norm=self.norm, layout=self.layout, id=self.id
        )


def parse_schema(tree: Any) -> Schema:
    """Validate a schema from its YAML tree; BadScenario names the first unknown key or wrong value."""
    if not isinstance(tree, Mapping):
        raise BadScenario(f"a schema must be a mapping of keys, found {type(tree).__name__}")
    try:
        return Schema.parse(dict(tree))
    except BadMessage as error:
        raise BadScenario(error.detail) from None


def read_schema(path: str | Path) -> Schema:
    """Read a schema file; BadScenario names the file and the error."""
    path = Path(path)
    try:
        return parse_schema(strictyaml.load(read(path, SCHEMA).decode("utf-8"), aliases=True))
    except (NotFound, BadData) as error:
        wrong = f": cannot be read: {error.detail}"
    except UnicodeDecodeError:
        wrong = ": cannot be read: it is not UTF-8 text"
    except yaml.YAMLError as error:
        wrong = f" is not YAML: {' '.join(str(error).split())}"
    except BadScenario as error:
        wrong = f": {error.detail}"
    raise BadScenario(f"schema {path.name}{wrong}")


def described(table: Any, folders: Sequence[Path]) -> Any:
    """Return a scenario's tree of a table with its key ``schema`` replaced by the contents of the file that it names.

    Other keys of the table override those of the file. The file is searched for in the folders in this order;
    BadScenario if it is in none. A table without ``schema`` is returned unchanged.
    """
    if not isinstance(table, dict) or "schema" not in table:
        return table
    name = table["schema"]
    if not isinstance(name, str) or not name:
        raise BadScenario(f"table.schema must be the name of a YAML file, found {name!r}")
    places = [folder / name for folder in folders]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        tried = ", ".join(str(place.parent) for place in places)
        raise BadScenario(f"table.schema: there is no file {name} in {tried}")
    schema = {key: value for key, value in read_schema(path).wire().items() if value is not None}
    return schema | {key: value for key, value in table.items() if key != "schema"}
