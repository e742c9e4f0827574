"""What ``referee list`` shows; apart from everything that only runs need, so that it answers at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scenarios import Heading

_OUT = Console()


def listing(shipped: Sequence[Heading], registered: Mapping[str, Sequence[str]]) -> None:
    """Print all scenarios and what else is registered."""
    for scenario in shipped:
        _OUT.print(f"[bold]{scenario.name}[/bold]  {scenario.title}", soft_wrap=True)
        for paragraph in scenario.description.strip().split("\n\n"):
            text = Text(" ".join(paragraph.split()), style="dim")
            _OUT.print(Padding(text, (0, 0, 1, 2)))
    for noun, names in registered.items():
        _OUT.print(f"{noun}: " + ", ".join(names), highlight=False, soft_wrap=True)
    _OUT.print("Next: referee plan NAME (what it needs), referee run NAME (do it)", highlight=False)
