"""docs/extending.md quotes the files of the example package as they are.

``python -m tests.plugins.test_extending_page`` writes them into the page anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.plugins.installing import EXAMPLE

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
MARK = re.compile(r"<!-- file: (\S+) -->\n(?:\n```\w+\n.*?\n```\n)?", re.DOTALL)


def quoted(page: str) -> str:
    """Return the page with every marked file as it is."""

    def block(mark: re.Match[str]) -> str:
        name = mark.group(1)
        text = (EXAMPLE / name).read_text("utf-8")
        return f"<!-- file: {name} -->\n\n```{Path(name).suffix.removeprefix('.').replace('py', 'python')}\n{text}```\n"

    return MARK.sub(block, page)


def test_the_page_quotes_the_files_as_they_are() -> None:
    page = PAGE.read_text("utf-8")
    assert page == quoted(page), "run: python -m tests.plugins.test_extending_page"


def test_every_file_of_the_package_is_on_the_page() -> None:
    files = {str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*.py")} | {"pyproject.toml"}
    assert files - {"tandem_example_plugins/__init__.py"} == set(MARK.findall(PAGE.read_text("utf-8")))


if __name__ == "__main__":
    PAGE.write_text(quoted(PAGE.read_text("utf-8")), "utf-8")
