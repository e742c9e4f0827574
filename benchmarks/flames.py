"""Flame graphs of the rounds of jobs of :mod:`benchmarks.rounds`, as services.

    python -m benchmarks.flames [JOB ...] [--rounds 200]

Draws a picture of each job into ``docs/pictures``, by default of ``a1`` and ``b2``, in two minutes. py-spy must be on
the path (``pip install py-spy``); no other command needs it. Only the driver's exchanges with the curator and with
agents are drawn, so no start and no compilation. A frame is as wide as the share of samples in it or below it, waiting
for the disk included; those below half a percent are left out.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from benchmarks.rounds import JOBS

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
ROOT = "Execution._exchange"
LEAST = 0.005
WIDTH, HEIGHT, CHARACTER = 1200, 16, 6.2  # pixels: of the picture, of a frame, of a character at 10 pixels
SKIPPED = re.compile(r"<listcomp>|<lambda>|Split\.timed|contextlib|functools|_now")


@dataclass
class Frame:
    """A function with the samples in it or below it, and the functions that it called."""

    samples: int = 0
    calls: dict[str, Frame] = field(default_factory=dict)


def read(stacks: Path) -> Frame:
    """Return the frames below :data:`ROOT`. A line of the file is a stack of functions, and how often it was seen."""
    root = Frame()
    for line in stacks.read_text("utf-8").splitlines():
        stack, _, count = line.rpartition(" ")
        functions = stack.split(";")
        begin = next((at for at, name in enumerate(functions) if name.startswith(ROOT)), None)
        if begin is None:
            continue
        frame = root
        frame.samples += int(count)
        for function in functions[begin + 1 :]:
            if SKIPPED.search(function):
                continue
            name = re.sub(r":\d+\)$", ")", function)
            frame = frame.calls.setdefault(name, Frame())
            frame.samples += int(count)
    return root


def drawn(frame: Frame, name: str, left: float, depth: int, whole: int) -> Iterator[tuple[int, str]]:
    """Yield the depth and the SVG of a frame and of those below it, the widest first."""
    share = frame.samples / whole
    if share < LEAST:
        return
    width, top = share * WIDTH, 40 + depth * HEIGHT
    hue = 10 + sum(map(ord, name.partition("(")[2])) % 45  # one colour for each file
    shown = name if len(name) * CHARACTER < width else name.partition(" ")[0][: int(width / CHARACTER)]
    yield (
        depth,
        f'<g><title>{escape(name)}: {share:.1%}</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" '
        f'height="{HEIGHT - 1}" fill="hsl({hue},80%,70%)"/>'
        f'<text x="{left + 3:.1f}" y="{top + 11}">{escape(shown)}</text></g>',
    )
    for called, below in sorted(frame.calls.items(), key=lambda item: -item[1].samples):
        yield from drawn(below, called, left, depth + 1, whole)
        left += below.samples / whole * WIDTH


def draw(stacks: Path, title: str, output: Path) -> None:
    """Write the flame graph of a file of stacks."""
    root = read(stacks)
    if not root.samples:
        raise SystemExit(f"no sample is in {ROOT}: let it run for more rounds")
    frames = list(drawn(root, ROOT, 0.0, 0, root.samples))
    height = 50 + (max(depth for depth, _ in frames) + 1) * HEIGHT
    begin = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="monospace" font-size="10">'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="{WIDTH / 2}" y="24" font-size="15" text-anchor="middle">{escape(title)}</text>'
    )
    output.write_text("\n".join([begin, *(text for _, text in frames), "</svg>"]) + "\n", "utf-8")
    print(f"{output.name}: {root.samples:,} samples, {len(frames)} frames")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}")
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    sampler = shutil.which("py-spy")
    if sampler is None:
        print("py-spy is not installed, so nothing is drawn: pip install py-spy")
        return
    for job in given.jobs or ("a1", "b2"):
        with tempfile.TemporaryDirectory(prefix="flames-") as folder:
            stacks = Path(folder) / "stacks"
            record = [
                sampler,
                "record",
                "--function",
                "--rate",
                "400",
                "--format",
                "raw",
                "--output",
                str(stacks),
                "--",
            ]
            rounds = ["-m", "benchmarks.rounds", job, "--here", "service", "--rounds", str(given.rounds)]
            subprocess.run([*record, sys.executable, *rounds], stdout=subprocess.DEVNULL, check=True)
            draw(stacks, f"{job} as a service: shares of a round's time", PICTURES / f"rounds-{job}.svg")


if __name__ == "__main__":
    main()
