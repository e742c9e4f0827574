"""Draw the house: rooms on their floors and the arrows of imports between them, read from the sources.

    python -m benchmarks.house                     # write docs/pictures/house*.svg anew
    python -m benchmarks.house --check             # exit status 1 if a picture is not what the imports say
    python -m benchmarks.house --tree DIR --output FILE.svg   # another checkout, one picture of all its rooms

A room is a package or a module directly below ``common``, or a party as a whole; in the pictures of one party, a room
is what lies directly below it. A room stands one floor above the highest room that it imports. Only arrows that others
do not imply are drawn; an arrow that closes a circle is red.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("common", "curator", "issuer", "local_agent", "referee", "deploy", "tandem")
PICTURES = {"house": PACKAGES, "house-curator": ("curator",), "house-referee": ("referee",)}
BOX, GAP, FLOOR = (112, 30), 18, 74

Arrows = Mapping[str, frozenset[str]]
"""The rooms that each room imports."""


def imports(root: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield (importing module, imported name) for every import of one of the house's packages, wherever it stands."""
    for path in sorted((root / package).rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from ((module, f"{node.module}.{alias.name}") for alias in node.names)


def arrows(root: Path, packages: tuple[str, ...]) -> Arrows:
    """Return which room imports which; a command may know a deployment, which is no arrow of the house."""
    inside = len(packages) == 1

    def room(name: str) -> str | None:
        parts = name.split(".")
        if parts[0] not in packages:
            return None
        return ".".join(parts[:2]) if parts[0] == "common" or inside else parts[0]

    found: dict[str, set[str]] = defaultdict(set)
    for module, name in (pair for package in packages for pair in imports(root, package)):
        here, there = room(module), room(name)
        if here is None or there is None or here == there:
            continue
        if not (module.endswith(".cli") and there == "deploy"):
            found[here].add(there)
            found.setdefault(there, set())
    return {here: frozenset(found[here]) for here in sorted(found)}


def reaches(graph: Arrows, here: str, there: str) -> bool:
    """Return whether ``there`` can be reached from ``here`` over at least one arrow."""
    seen, open_rooms = set(), list(graph[here])
    while open_rooms:
        room = open_rooms.pop()
        if room == there:
            return True
        if room not in seen:
            seen.add(room)
            open_rooms.extend(graph[room])
    return False


def circles(graph: Arrows) -> set[tuple[str, str]]:
    """Return the arrows that lie on a circle."""
    return {(here, there) for here in graph for there in graph[here] if reaches(graph, there, here)}


def floors(graph: Arrows) -> list[list[str]]:
    """Return the rooms by floor, from the ground up; rooms on a circle stand side by side."""
    bad, height = circles(graph), dict.fromkeys(graph, 0)
    for _ in graph:
        for here in graph:
            below = [height[there] for there in graph[here] if (here, there) not in bad]
            height[here] = max([height[here], *(1 + level for level in below)])
    return [sorted(room for room in graph if height[room] == level) for level in range(max(height.values()) + 1)]


def needed(graph: Arrows) -> set[tuple[str, str]]:
    """Return the arrows that no longer way implies, and those on a circle."""
    bad = circles(graph)
    return bad | {
        (here, there)
        for here in graph
        for there in graph[here]
        if not any(way != there and (here, way) not in bad and reaches(graph, way, there) for way in graph[here])
    }


def picture(graph: Arrows) -> str:
    """Return the SVG: ground floor at the bottom, arrows from who imports down to what is imported."""
    rows, bad = floors(graph), circles(graph)
    width = max(len(row) for row in rows) * (BOX[0] + GAP) + GAP
    height = len(rows) * FLOOR + GAP
    at: dict[str, tuple[float, float]] = {}
    for level, row in enumerate(rows):
        left = (width - len(row) * (BOX[0] + GAP) + GAP) / 2
        for place, room in enumerate(row):
            at[room] = (left + place * (BOX[0] + GAP), height - (level + 1) * FLOOR + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#667"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for here, there in sorted(needed(graph)):
        (x, y), (u, v) = at[here], at[there]
        colour = "#c22" if (here, there) in bad else "#99a"
        lines.append(
            f'<path d="M{x + BOX[0] / 2:.0f} {y + BOX[1]:.0f} L{u + BOX[0] / 2:.0f} {v:.0f}" stroke="{colour}" '
            f'fill="none" marker-end="url(#tip)"><title>{here} imports {there}</title></path>'
        )
    for room, (x, y) in sorted(at.items()):
        fill = "#eef4ff" if room.startswith("common") else "#fff6e5"
        lines.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX[0]}" height="{BOX[1]}" rx="4" fill="{fill}" stroke="#345"/>'
            f'<text x="{x + BOX[0] / 2:.0f}" y="{y + 19:.0f}" text-anchor="middle">{room.split(".")[-1]}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    """Write the pictures, or compare them."""
    parser = argparse.ArgumentParser(description="Draw the house from its imports.")
    parser.add_argument("--check", action="store_true", help="compare with the pictures that are there")
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout (this one)")
    parser.add_argument("--output", type=Path, help="draw all rooms of the tree into this one file")
    chosen = parser.parse_args()
    if chosen.output:
        chosen.output.write_text(picture(arrows(chosen.tree, PACKAGES)), "utf-8")
        return 0
    stale = 0
    for name, packages in PICTURES.items():
        path, drawn = ROOT / "docs" / "pictures" / f"{name}.svg", picture(arrows(chosen.tree, packages))
        if not chosen.check:
            path.write_text(drawn, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != drawn:
            print(f"{path.relative_to(ROOT)} is not what the imports say: python -m benchmarks.house", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
