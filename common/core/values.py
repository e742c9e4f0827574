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
        copy = super().model_copy(update=update, deep=deep)
        for name in vars(copy).keys() - type(self).model_fields.keys():
            del vars(copy)[name]
        return copy

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
        value = cls.parse(wire)
        value.check_types(wire)
        return value

    def check_types(self, wire: Any) -> None:
        """Raise BadMessage unless the JSON form that was parsed to this value equals that of :meth:`wire`.

        A field that :meth:`wire` omits at its default may be given.
        """
        difference = _difference(wire, self.wire(), self)
        if difference is not None:
            path, value = difference
            raise BadMessage(f"{type(self).__name__}: {path}: another type or form of a number, found {value!r:.60}")


class RunMessage(Value):
    """A message about a run, with the digest of its configuration."""

    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)


def _difference(wire: Any, form: Any, value: Any, path: str = "") -> tuple[str, Any] | None:
    """Return the path where a JSON value differs from the ``form`` of its parsed value, and the part."""
    if isinstance(wire, dict) and isinstance(form, dict):
        parts = [(each, *_member(form, value, name), f"{path}.{name}".lstrip(".")) for name, each in wire.items()]
    elif isinstance(wire, list | tuple) and isinstance(form, list) and len(wire) == len(form):
        if _SCALARS.issuperset(map(type, form)) and wire == form and list(map(type, wire)) == list(map(type, form)):
            return None  # a shortcut for long lists, such as the numbers of a model
        parts = [(each, form[place], value[place], f"{path}.{place}") for place, each in enumerate(wire)]
    else:
        # The text of a double beyond 2^53 may lack some of its digits, so numbers are compared as doubles.
        wire, form = (float(each) if type(each) is int else each for each in (wire, form))
        return None if type(wire) is type(form) and wire == form else (path, wire)
    return next(filter(None, (_difference(*part) for part in parts)), None)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _member(form: dict[str, Any], value: Any, name: str) -> tuple[Any, Any]:
    inner = getattr(value, name) if isinstance(value, Value) else value[name]
    left_out = list(inner) if isinstance(inner, tuple) else inner  # at its default
    return form.get(name, left_out), inner


_PLAIN = {"extra_forbidden": "unknown key", "missing": "must be given"}


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return the first problem of a validation error in one line; unknown keys are compared with those of ``model``."""
    errors = error.errors(include_url=False, include_context=False)
    first, paths = errors[0], [each["loc"] for each in errors]
    path = _field(first["loc"], paths)
    place = ".".join(str(part) for part in path)
    reason = _PLAIN.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    named = first["type"] == "value_error" and isinstance(first["input"], dict)  # the message names the field
    if not (first["type"] in _PLAIN or named):
        text = repr(first.get("input"))
        reason += f"{' (or plan)' * (path != first['loc'])}, found {text if len(text) <= 60 else text[:57] + '...'}"
    if first["type"] == "extra_forbidden" and model is not None:
        reason += nearest(first["loc"][-1], _keys(model, first["loc"][:-1]))
    rest = len({_field(each, paths) for each in paths}) - 1
    return (f"{place or 'value'}: " if place or not named else "") + reason + (f" (and {rest} more)" if rest else "")


_KIND = re.compile(r"(constrained-)?(int|float|str)|literal\['plan'\]")
"""pydantic's name, at the end of a path, for the one of a field's types that did not fit."""


def _field(path: tuple[int | str, ...], paths: Sequence[tuple[int | str, ...]]) -> tuple[int | str, ...]:
    """Return the path of a field that may be ``plan``, without the type that was tried; any other path unchanged."""
    of_plan = (*path[:-1], "literal['plan']") in paths
    return path[:-1] if of_plan and _KIND.fullmatch(str(path[-1])) else path


def _keys(model: type[BaseModel], path: Sequence[int | str]) -> set[str]:
    models = [model]
    for part in path:
        deeper = [kind.model_fields[str(part)].annotation for kind in models if str(part) in kind.model_fields]
        models = [kind for annotation in deeper for kind in _models(annotation)] or models
    return {name for kind in models for name in kind.model_fields}


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
