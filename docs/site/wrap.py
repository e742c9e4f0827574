"""Wrap the text of the Markdown pages at one width; code, tables, headings, quotes and pictures stay as they are.

python docs/site/wrap.py            # wrap all pages anew
python docs/site/wrap.py --check    # exit status 1, and the names of those that would change
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 120
NOT = ("CHANGELOG.md", "docs/reference/")
"""The changelog counts lines; the pages of reference are written by the site."""
ITEM = re.compile(r"( *(?:[*-]|\d+\.) +)(?=\S)")
AS_IT_IS = re.compile(r" *(?:[|#>]|!\[.*\)$|<)")
PIECE = re.compile(r"(?:`[^`]*`|\S)+")
"""A piece is not broken: a word, or code between backquotes with what is joined to it."""
MARK = re.compile(r"(?:[*+-]|\d+[.)]|[#>|=<].*|```.*|:::.*)$")
"""What begins something else at the beginning of a line, and therefore never stands there."""


def wrapped(text: str) -> str:
    """Return a page with its paragraphs and list items wrapped."""
    return "\n".join(_lines(text.splitlines())) + "\n"


def _lines(lines: list[str]) -> Iterator[str]:
    words: list[str] = []
    first = rest = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        code = line.startswith("```") or (line.startswith("    ") and (not at or not lines[at - 1].strip()))
        item = ITEM.match(line)
        if code or item or not line.strip() or AS_IT_IS.match(line):
            yield from _filled(words, first, rest)
            words = []
        if code:
            end = _end_of_code(lines, at)
            yield from lines[at:end]
            at = end
            continue
        if not line.strip() or AS_IT_IS.match(line):
            yield line.rstrip()
        else:
            if item:
                first, rest = item[1], " " * len(item[1])
            elif not words:
                first = rest = " " * (len(line) - len(line.lstrip()))
            words.append(line[len(item[1]) :] if item else line)
        at += 1
    yield from _filled(words, first, rest)


def _end_of_code(lines: list[str], at: int) -> int:
    """Return the line after a block of code: after its fence, or after the last line that is indented."""
    if lines[at].startswith("```"):
        return next(i for i in range(at + 1, len(lines)) if lines[i].startswith("```")) + 1
    end = at
    while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return end


def _filled(lines: list[str], first: str, rest: str) -> Iterator[str]:
    """Yield the lines of one paragraph, filled as far as the width allows."""
    pieces = PIECE.findall(" ".join(line.strip() for line in lines))
    while pieces:
        length, count = len(first) + len(pieces[0]), 1
        while count < len(pieces) and length + 1 + len(pieces[count]) <= WIDTH:
            length += 1 + len(pieces[count])
            count += 1
        while 1 < count < len(pieces) and MARK.match(pieces[count]):
            count -= 1
        yield first + " ".join(pieces[:count])
        pieces, first = pieces[count:], rest


def pages() -> list[Path]:
    """Return the Markdown files that people write."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    return sorted(path for path in found if not path.relative_to(ROOT).as_posix().startswith(NOT))


def main() -> int:
    """Wrap, or check."""
    changed = [path for path in pages() if wrapped(path.read_text("utf-8")) != path.read_text("utf-8")]
    for path in changed:
        if "--check" in sys.argv:
            sys.stdout.write(f"{path.relative_to(ROOT)}: not wrapped at {WIDTH}: python docs/site/wrap.py\n")
        else:
            path.write_text(wrapped(path.read_text("utf-8")), "utf-8")
    return int(bool(changed) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
