"""The base of all value types in messages and files: frozen, no unknown fields, finite, with a canonical form."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

from common.core import canonical
from common.core.errors import BadMessage
from common.core.plain import nearest

DIGEST = r"^[0-9a-f]{64}$"  # pattern of a SHA-256, in hex
RUN = r"^[0-9a-zA-Z_-]{1,64}$"  # pattern of the name of a run
MAX_PLACE = 1 << 31  # bound on an index in a request: no transcript or list of checkpoints is as long
Number = Annotated[int, Field(ge=0, lt=1 << 31)]  # number of a question in its run


def _exact(number: int) -> int | str:
    return number if number <= canonical.EXACT else str(number)


Word = Annotated[int, PlainSerializer(_exact, when_used="json")]
"""A whole number of up to 64 bits; its JSON form is a string of digits if a double might not be exact.

Each field states its own bounds, since bounds given here would replace them.
"""


class Value(BaseModel):
    """A frozen value that refuses unknown fields, NaN and infinities; values are equal if their contents are."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=False, ser_json_inf_nan="constants"
    )

    def wire(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the fields in ``update``; cached properties are not copied."""
        found = super().model_copy(update=update, deep=deep)
        for name in vars(found).keys() - type(self).model_fields.keys():
            del vars(found)[name]
        return found

    def fingerprint(self) -> str:
        """Return the SHA-256 of the canonical JSON form, in hex."""
        return canonical.digest(self.wire())

    @classmethod
    def parse(cls, wire: Any) -> Self:
        """Validate a JSON form in full; BadMessage names the first wrong field and the reason."""
        try:
            return cls.model_validate(wire)
        except ValidationError as error:
            raise BadMessage(f"{cls.__name__}: {explain(error, cls)}") from None

    @classmethod
    def parse_signed(cls, wire: Any) -> Self:
        """Parse a value that a party has signed: as :meth:`parse`, but each field must have its exact JSON type.

        A scenario may give a number as a text, a message may not (docs/wire.md, "Types").
        """
        found = cls.parse(wire)
        found.check_types(wire)
        return found

    def check_types(self, wire: Any) -> None:
        """Raise BadMessage unless the JSON form that was parsed to this value equals that of :meth:`wire`.

        A field that :meth:`wire` omits at its default may be given.
        """
        other = _unlike(wire, self.wire(), self)
        if other is not None:
            path, given = other
            raise BadMessage(f"{type(self).__name__}: {path}: another type or form of a number, found {given!r:.60}")


class RunMessage(Value):
    """A message about a run, with the digest of its configuration."""

    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)


def _unlike(given: Any, own: Any, value: Any, path: str = "") -> tuple[str, Any] | None:
    """Return the path where a JSON value differs from the ``own`` form of its parsed value, and what is given there."""
    if isinstance(given, dict) and isinstance(own, dict):
        parts = [(f"{path}.{name}".lstrip("."), each, *_inner(own, value, name)) for name, each in given.items()]
    elif isinstance(given, list | tuple) and isinstance(own, list) and len(given) == len(own):
        if _SCALARS.issuperset(map(type, own)) and given == own and list(map(type, given)) == list(map(type, own)):
            return None  # a shortcut for long lists, such as the numbers of a model
        parts = [(f"{path}.{place}", each, own[place], value[place]) for place, each in enumerate(given)]
    else:
        # The text of a double beyond 2^53 may lack some of its digits, so numbers are compared as doubles.
        given, own = (float(each) if type(each) is int else each for each in (given, own))
        return None if type(given) is type(own) and given == own else (path, given)
    return next(filter(None, (_unlike(each, its, inner, where) for where, each, its, inner in parts)), None)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _inner(own: dict[str, Any], value: Any, name: str) -> tuple[Any, Any]:
    inner = getattr(value, name) if isinstance(value, Value) else value[name]
    left_out = list(inner) if isinstance(inner, tuple) else inner  # at its default
    return own.get(name, left_out), inner


_PLAIN = {"extra_forbidden": "unknown key", "missing": "must be given"}


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return the first problem of a validation error in one line; unknown keys are compared with those of ``model``."""
    found = error.errors(include_url=False, include_context=False)
    first, paths = found[0], [each["loc"] for each in found]
    path = _field(first["loc"], paths)
    where = ".".join(str(part) for part in path)
    reason = _PLAIN.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    whole = first["type"] == "value_error" and isinstance(first["input"], dict)  # the message names the field
    if not (first["type"] in _PLAIN or whole):
        given = repr(first.get("input"))
        reason += f"{' (or plan)' * (path != first['loc'])}, found {given if len(given) <= 60 else given[:57] + '...'}"
    if first["type"] == "extra_forbidden" and model is not None:
        reason += nearest(first["loc"][-1], _keys(model, first["loc"][:-1]))
    more = len({_field(each, paths) for each in paths}) - 1
    return (f"{where or 'value'}: " if where or not whole else "") + reason + (f" (and {more} more)" if more else "")


_KIND = re.compile(r"(constrained-)?(int|float|str)|literal\['plan'\]")
"""pydantic's name, at the end of a path, for the one of a field's types that did not fit."""


def _field(path: tuple[int | str, ...], paths: Sequence[tuple[int | str, ...]]) -> tuple[int | str, ...]:
    """Return the path of a field that may be ``plan``, without the type that was tried; any other path unchanged."""
    of_plan = (*path[:-1], "literal['plan']") in paths
    return path[:-1] if of_plan and _KIND.fullmatch(str(path[-1])) else path


def _keys(model: type[BaseModel], path: Sequence[int | str]) -> set[str]:
    found = [model]
    for part in path:
        deeper = [one.model_fields[str(part)].annotation for one in found if str(part) in one.model_fields]
        found = [one for annotation in deeper for one in _models(annotation)] or found
    return {name for one in found for name in one.model_fields}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def run_name(text: object) -> str:
    """Return the name of a run; BadMessage if it is not valid."""
    if not isinstance(text, str) or re.fullmatch(RUN.strip("^$"), text) is None:
        raise BadMessage("a run's name has 1 to 64 letters, digits, '_' or '-'")
    return text


FromPlan = Literal["plan"]
PLAN: FromPlan = "plan"


def left_open(setting: Any) -> bool:
    """Return whether a setting, as written, is ``plan``, or is a mapping with a value that is."""
    return bool(setting == PLAN) or (isinstance(setting, dict) and PLAN in setting.values())


def anything_open(value: BaseModel) -> bool:
    """Return whether a field of a value is ``plan``."""
    return any(getattr(value, name) == PLAN for name in type(value).model_fields)


def may_be_open(annotation: Any) -> bool:
    """Return whether a field of this type may be ``plan``, or be a value with a field that may."""
    parts = (annotation, *get_args(annotation))
    models = [kind for kind in parts if isinstance(kind, type) and issubclass(kind, BaseModel)]
    inner = [field.annotation for kind in models for field in kind.model_fields.values()]
    return any(FromPlan in (one, *get_args(one)) for one in (annotation, *inner))
