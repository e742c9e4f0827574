"""HTML of the local page: templates of its own around those of a report, in the frame of every page."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from common.net.page.pages import Pages
from referee.view.face import pages as face

NAV = (("runs", "/", "Runs"), ("plan", "/plan", "Plan"))


@cache
def pages() -> Pages:
    """Return the pages: ours, and a report's, with the same filters and the same escaping."""
    files = resources.files(__name__.rpartition(".")[0])
    return Pages(files, NAV, static=("verify.js",), around=face.environment)


def page(template: str, /, **values: Any) -> str:
    """Return a page, or a part of one."""
    return pages()(template, **values)
