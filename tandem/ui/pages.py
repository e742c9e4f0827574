"""HTML of the local page: templates of its own around those of a report, all of them with autoescaping."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, FunctionLoader

from referee.view.face import pages as face

_FILES = resources.files(__name__.rpartition(".")[0])
KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_OWN = ("ui.css", "ui.js", "verify.js")


@cache
def static() -> dict[str, bytes]:
    """Return the static files by name: style sheets and scripts, all of this package."""
    own = {name: (_FILES / "static" / name).read_bytes() for name in _OWN if (_FILES / "static" / name).is_file()}
    return {"face.css": face.style().encode(), **own}


@cache
def environment() -> Environment:
    """Return the templates: ours, and a report's, with the same filters and the same escaping."""
    shared = face.environment()
    if shared.loader is None:
        raise TypeError("a report's templates have no loader")  # they always have
    made = shared.overlay(loader=ChoiceLoader([FunctionLoader(_template), shared.loader]))
    made.globals = {**shared.globals, "asset": _asset}
    return made


def page(template: str, /, **values: Any) -> str:
    """Return a page, or a part of one."""
    return environment().get_template(template).render(**values)


def _template(name: str) -> str | None:
    found = _FILES / "templates" / name
    return found.read_text("utf-8") if found.is_file() else None


def _asset(name: str) -> str:
    """Return the address of a static file; another content has another address, so that a browser may keep it."""
    return f"/static/{name}?v={hashlib.sha256(static()[name]).hexdigest()[:12]}"
