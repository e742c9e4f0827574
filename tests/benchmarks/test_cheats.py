"""What docs/audit-evidence.md shows is what the audit prints: every cheat is played, and every line compared."""

from __future__ import annotations

import re

import pytest

from benchmarks.cheats.__main__ import lines, played
from benchmarks.cheats.playing import CHEATS
from tests.documents.reading import ROOT

PAGE = (ROOT / "docs" / "audit-evidence.md").read_text()
SHOWN = {block.split("\n", 1)[0]: block.splitlines() for block in re.findall(r"```\n=== (.*?)\n```", PAGE, re.DOTALL)}


def test_the_page_shows_every_cheat():
    assert list(SHOWN) == list(CHEATS)


FIRST = ("dropped reports", "a fork")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.thorough) for name in CHEATS]
)
def test_every_line_of_the_page_is_printed_in_its_order(name):
    printed = list(lines(played(name)))
    assert printed[0] == f"=== {name}"
    at = 0
    for line in SHOWN[name][1:]:
        assert line in printed[at:], f"not printed after {printed[at - 1]!r}: {line!r}"
        at = printed.index(line, at) + 1
    statuses = [line for line in printed if line.startswith("--- ")]
    assert statuses == [line for line in SHOWN[name] if line.startswith("--- ")]
