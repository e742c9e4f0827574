"""Values that a scenario may leave open: the word ``plan`` stands for them until planning fills them in."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel

FromPlan = Literal["plan"]
PLAN: FromPlan = "plan"


def left_open(setting: Any) -> bool:
    """Tell whether a setting as it is written is at ``plan``, or is a mapping of which a value is."""
    return bool(setting == PLAN) or (isinstance(setting, dict) and PLAN in setting.values())


def anything_open(value: BaseModel) -> bool:
    """Tell whether a field of a value is at ``plan``."""
    return any(getattr(value, name) == PLAN for name in type(value).model_fields)


def may_be_open(annotation: Any) -> bool:
    """Tell whether a field of this type may be at ``plan``, or be a value of which a field may."""
    return _admits(annotation) or any(
        _admits(field.annotation)
        for kind in _parts(annotation)
        if isinstance(kind, type) and issubclass(kind, BaseModel)
        for field in kind.model_fields.values()
    )


def _admits(annotation: Any) -> bool:
    return FromPlan in _parts(annotation)


def _parts(annotation: Any) -> list[Any]:
    """Return the types of a union; the type itself if it is none."""
    return [annotation, *get_args(annotation)]
