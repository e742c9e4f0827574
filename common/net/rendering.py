"""Templates of pages and reports: autoescaping is on, and every text is shown in visible characters of one line."""

from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from common.core.plain import command, plain

SHARED = __name__.rpartition(".")[0]
"""The package with the templates and static files that all pages share."""


def style() -> str:
    """Return the style sheet that all pages share."""
    return (resources.files(SHARED) / "static" / "face.css").read_text("utf-8")


def page_environment(package: str = SHARED) -> Environment:
    """Return the environment that loads the templates of a package."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["command"] = lambda *words: Markup(escape(command(*words)))  # noqa: S704 - escaped in this line
    # Jinja's own filter raises an error for text that is not UTF-8, such as a folder's name or a peer's text.
    environment.filters["urlencode"] = lambda text: quote(text, errors="replace")
    environment.filters["count"] = lambda value: f"{value:,}"
    environment.filters["pair"] = lambda value: (value, value)
    environment.filters["lines"] = lambda text: Markup("\n").join(plain(line) for line in str(text).split("\n"))
    return environment


def _finalize(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value
