"""Templates and static files of pages, with autoescaping: the frame that all share, and those of each page."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import BaseLoader, ChoiceLoader, Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from common.core.plain import command, plain

KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_FILES = resources.files(__name__.rpartition(".")[0])
_SHARED = ("face.css", "ui.css", "ui.js")


def style() -> str:
    """Return the style sheet that all pages share."""
    return (_FILES / "static" / "face.css").read_text("utf-8")


def bare(loader: BaseLoader) -> Environment:
    """Return templates with autoescaping on for all of them, and every text in visible characters of one line.

    ``command(word, ...)`` in a template is a command as a shell reads it back (:func:`common.core.plain.command`).
    """
    made = Environment(
        loader=loader, autoescape=True, finalize=_shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals["command"] = _command
    # Jinja's own raises an error for what is no UTF-8, as a folder's name or a peer's text may be.
    made.filters["urlencode"] = lambda text: quote(text, errors="replace")
    made.filters["count"] = lambda value: f"{value:,}"
    return made


class Pages:
    """The pages of one server.

    Parameters
    ----------
    files
        The package of its own: a folder ``templates``, and perhaps one of ``static`` files.
    static
        Names of its own static files.
    nav
        What leads to its pages: key, address, words.
    around
        Templates and filters that it shares with others; by default those of :func:`bare`.
    """

    def __init__(
        self,
        files: Traversable,
        nav: tuple[tuple[str, str, str], ...],
        *,
        static: tuple[str, ...] = (),
        around: Callable[[], Environment] = lambda: bare(FunctionLoader(lambda name: None)),
    ) -> None:
        self._files = files
        self._nav = nav
        self._around = around
        shared = {name: (_FILES / "static" / name).read_bytes() for name in _SHARED}
        self.static = {**shared, **{name: (files / "static" / name).read_bytes() for name in static}}
        self._made: Environment | None = None

    @property
    def environment(self) -> Environment:
        """The templates: its own, the shared frame, and those around them."""
        if self._made is None:
            outer = self._around()
            loaders = [FunctionLoader(_reader(place)) for place in (self._files, _FILES)]
            self._made = outer.overlay(loader=ChoiceLoader([*loaders, *([outer.loader] if outer.loader else [])]))
            self._made.globals = {**outer.globals, "asset": self._asset, "nav": self._nav}
        return self._made

    def __call__(self, template: str, /, **values: Any) -> str:
        """Return a page, or a part of one."""
        return self.environment.get_template(template).render(**values)

    @cache  # noqa: B019 - one for each server of a process
    def _asset(self, name: str) -> str:
        """Return the address of a static file; another content has another address, so that a browser may keep it."""
        return f"/static/{name}?v={hashlib.sha256(self.static[name]).hexdigest()[:12]}"


def _reader(files: Traversable) -> Callable[[str], str | None]:
    def read(name: str) -> str | None:
        found = files / "templates" / name
        return found.read_text("utf-8") if found.is_file() else None

    return read


def _command(*words: str | Path) -> Markup:
    """Return a command for a page: whole, however long it is."""
    return Markup(escape(command(*words)))  # noqa: S704 - escaped in this line


def _shown(value: Any) -> Any:
    """Return what a template shows, perhaps a stranger's text, in visible characters of one line."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value
