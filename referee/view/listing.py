"""What ``referee list`` shows; apart from everything that only runs need, so that it answers at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.padding import Padding

from common.core.terminal import console, styled
from scenarios import Heading

_OUT = console()


def overview(shipped: Sequence[str], registered: Mapping[str, Sequence[str]]) -> None:
    """Print what there is: a line for each kind, with names and how many they are."""
    for noun, names in {"scenarios": shipped, **registered}.items():
        _OUT.print(f"{noun}: {', '.join(names)} ({len(names)})", soft_wrap=True)
    _OUT.print("More of one kind: referee list scenarios, referee list learners, ...")
    _OUT.print("Next: referee plan NAME (what it needs), referee run NAME (do it)")


def scenarios(shipped: Sequence[Heading]) -> None:
    """Print all scenarios with what each shows."""
    for scenario in shipped:
        _OUT.print(styled((scenario.name, "bold"), (f"  {scenario.title}", "")), soft_wrap=True)
        for paragraph in scenario.description.strip().split("\n\n"):
            text = styled((" ".join(paragraph.split()), "dim"))
            _OUT.print(Padding(text, (0, 0, 1, 2)))


def entries(explained: Mapping[str, str]) -> None:
    """Print the names of one kind, each with a sentence."""
    for name, sentence in explained.items():
        _OUT.print(styled((name, "bold"), (f"  {sentence}", "")), soft_wrap=True)
