"""Diagrams show the patterns, and the page in the documentation is what the patterns give."""

from pathlib import Path

from common.protocols.patterns import agents, curator, many, maybe, sequence, some, together
from referee.view.diagrams import mermaid, page


def test_every_part_of_a_pattern_is_drawn():
    pattern = sequence(
        together(curator("count"), agents("item")),
        some(agents("loss")),
        maybe(curator("reweigh")),
        many(agents("code")),
    )
    lines = [line.strip() for line in mermaid(pattern).splitlines()]
    assert lines[4:] == [
        "par every message leaves before any answer arrives",
        "R->>A: item",
        "A-->>R: one randomized answer each",
        "and",
        "R->>C: count",
        "C-->>R: its release",
        "end",
        "loop at least once",
        "R->>A: loss",
        "A-->>R: one randomized answer each",
        "end",
        "opt",
        "R->>C: reweigh",
        "C-->>R: its release",
        "end",
        "loop any number of times",
        "R->>A: code",
        "A-->>R: one randomized answer each",
        "end",
    ]


def test_the_page_is_up_to_date():
    found = (Path(__file__).parents[3] / "docs" / "protocols.md").read_text("utf-8")
    assert found == page(), "run: python -m referee.view.diagrams > docs/protocols.md"
