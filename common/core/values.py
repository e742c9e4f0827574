"""The base of every value type that travels: frozen, closed (no unknown fields), finite, with a canonical form."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from common.core import canonical
from common.core.errors import BadMessage


class Value(BaseModel):
    """A frozen value: unknown fields, NaN and infinities are refused; equality is by content."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=False, ser_json_inf_nan="constants"
    )

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        return self.model_dump(mode="json")

    def fingerprint(self) -> str:
        """Return the SHA-256 of the canonical JSON form, in hex."""
        return canonical.digest(self.wire())

    @classmethod
    def parse(cls, wire: Any) -> Self:
        """Validate a JSON form in full.

        Raises
        ------
        BadMessage
            Naming the first field that is wrong and why.
        """
        try:
            return cls.model_validate(wire)
        except ValidationError as error:
            raise BadMessage(f"{cls.__name__}: {explain(error)}") from None


_PLAIN = {"extra_forbidden": "unknown key", "missing": "must be given"}


def explain(error: ValidationError) -> str:
    """Say the first problem of a validation error in one line, without echoing long inputs."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "value"
    plain = _PLAIN.get(first["type"])
    said = plain or f"{first['msg']}, found {_short(first.get('input'))}"
    more = error.error_count() - 1
    return f"{where}: {said}" + (f" (and {more} more)" if more else "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
