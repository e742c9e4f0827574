"""Record the five-minute tutorial of docs/index.md as its commands print it: an asciinema cast, and an SVG that plays.

    python -m benchmarks.recording [--output DIR]

It takes a minute or two. The commands run in a folder of their own, with a ledger of people of their own. Pauses are
cut to two seconds, lines that come at once follow each other by a twelfth of one, and what a command has printed stands
for three. ``asciinema play docs/pictures/tutorial.cast`` plays the cast.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COMMANDS = (
    "python make_people.py .",
    "referee init testers.csv customers.csv --label renews --positive yes --negative no --bounds visits=0:30 "
    "--bounds months=0:60 --categories plan=basic,family,pro --id member --epsilon 2 --agent-epsilon 2 --yes "
    "--output mine.yaml",
    "referee plan mine.yaml",
    "referee run mine.yaml --output runs/mine --yes",
    "referee audit runs/mine",
)
TITLE = "From two files to an audited answer"
WIDTH, HEIGHT = 110, 26
PAUSE, SCROLL, READING = 2.0, 0.08, 3.0
"""Seconds: the longest pause kept, the shortest between two lines, and how long a command's output stays visible."""
CHAR, LINE, EDGE = 7.3, 17, 14
"""Pixels: the width of a character, the height of a line, the margin."""


class Printed(NamedTuple):
    """A line, and the second at which it was printed."""

    at: float
    text: str


def printed(folder: Path) -> Iterator[Printed]:
    """Run the commands in a folder and yield their output as it comes; CalledProcessError if one fails."""
    source = ROOT / "examples" / "own_data" / "make_people.py"
    (folder / source.name).write_text(source.read_text("utf-8"), "utf-8")
    kept = {"XDG_STATE_HOME": str(folder / "state"), "COLUMNS": str(WIDTH), "PYTHONUNBUFFERED": "1"}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown, before = 0.0, time.monotonic()
    for command in COMMANDS:
        yield Printed(shown, f"$ {command}")
        started = subprocess.Popen(
            shlex.split(command),
            cwd=folder,
            env={**os.environ, **kept},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert started.stdout is not None
        for line in started.stdout:
            shown += min(max(time.monotonic() - before, SCROLL), PAUSE)
            before = time.monotonic()
            yield Printed(shown, line.rstrip("\n"))
        if started.wait():
            raise subprocess.CalledProcessError(started.returncode, command)
        shown += READING


def broken(lines: list[Printed]) -> list[Printed]:
    """Return the lines as a terminal of this width shows them."""
    return [
        Printed(line.at, line.text[begin : begin + WIDTH])
        for line in lines
        for begin in range(0, max(len(line.text), 1), WIDTH)
    ]


def cast(lines: list[Printed]) -> str:
    """Return the recording as an asciinema cast, version 2."""
    head = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": TITLE}
    events = ([round(line.at, 3), "o", f"{line.text}\r\n"] for line in lines)
    return "".join(f"{json.dumps(one)}\n" for one in (head, *events))


def picture(lines: list[Printed], title: str = TITLE) -> str:
    """Return an SVG in which the lines appear at the times when they were printed, and scroll like on a screen."""
    length = lines[-1].at + 2 * READING
    moves = {0.0: 0} | {line.at: max(0, place + 1 - HEIGHT) for place, line in enumerate(lines)}
    scroll = "".join(f"{at / length:.3%}{{transform:translateY({-rows * LINE}px)}}" for at, rows in moves.items())
    style = "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#d6dae0;white-space:pre}.c{fill:#8fd3a6}"
    style += f"g g,text{{animation:{length:.1f}s step-end infinite}}g g{{animation-name:s}}@keyframes s{{{scroll}}}"
    style += "@media(prefers-reduced-motion){g g,text{animation-play-state:paused;animation-delay:-999s}}"
    rows = []
    for place, line in enumerate(lines):
        style += f"@keyframes l{place}{{0%{{opacity:0}}{line.at / length:.3%}{{opacity:1}}}}" if line.at else ""
        name = f' style="animation-name:l{place}"' if line.at else ""
        kind = ' class="c"' if line.text.startswith("$ ") else ""
        rows.append(f'<text{kind}{name} x="{EDGE}" y="{EDGE + LINE * place + 12}">{escape(line.text)}</text>')
    wide, high = WIDTH * CHAR + 2 * EDGE, HEIGHT * LINE + 2 * EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" width="{wide:.0f}" role="img">'
        f"<title>{title}</title><style>{style}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="#16191d"/><clipPath id="w"><rect x="0" y="{EDGE}" '
        f'width="{wide:.0f}" height="{HEIGHT * LINE}"/></clipPath>'
        f'<g clip-path="url(#w)"><g>{"".join(rows)}</g></g></svg>\n'
    )


def main() -> int:
    """Record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "pictures")
    output = parser.parse_args().output
    with tempfile.TemporaryDirectory(prefix="recording-") as folder:
        lines = broken(list(printed(Path(folder))))
    output.mkdir(parents=True, exist_ok=True)
    for name, text in (("tutorial.cast", cast(lines)), ("tutorial.svg", picture(lines))):
        (output / name).write_text(text, "utf-8")
        print(f"{name}: {len(lines)} lines, {lines[-1].at:.0f} seconds, {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
