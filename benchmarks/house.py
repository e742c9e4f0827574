"""Measure and draw the code structure ("house"): sizes, and the imports (arrows) between packages ("rooms").

    python -m benchmarks.house                     # print the counts: files, lines, folders, class names, functions
    python -m benchmarks.house --list              # with the names of what is too small, too long or defined twice
    python -m benchmarks.house --draw              # write docs/pictures/house*.svg anew
    python -m benchmarks.house --check             # exit status 1 if a picture is not what the imports say
    python -m benchmarks.house --tree DIR          # another checkout; with --output FILE.svg one picture of its rooms

A room is a package or a module directly below ``common``, or a party as a whole; in the pictures of one party, a room
is a package or module directly below it. A room is one floor (layer) above the highest room that it imports. Arrows
that follow from others are not drawn; an arrow in an import cycle is red.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("common", "curator", "issuer", "local_agent", "referee", "deploy", "tandem")
PICTURES = {"house": PACKAGES, "house-curator": ("curator",), "house-referee": ("referee",)}
DATA = ("scenarios",)
"""Packages of the product without code of their own."""
SMALL_FILE, LONG_FUNCTION, MANY_PARAMETERS = 60, 60, 10
BOX, GAP, FLOOR = (112, 30), 18, 74

Arrows = Mapping[str, frozenset[str]]
"""The rooms that each room imports."""


def imports(root: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield (importing module, imported name) for every import in one of the project's packages, also in functions."""
    for path in sorted((root / package).rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from ((module, f"{node.module}.{alias.name}") for alias in node.names)


def arrows(root: Path, packages: tuple[str, ...]) -> Arrows:
    """Return which room imports which; a command may import a deployment, which does not count as an arrow."""
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
    """Return the arrows that are part of an import cycle."""
    return {(here, there) for here in graph for there in graph[here] if reaches(graph, there, here)}


def floors(graph: Arrows) -> list[list[str]]:
    """Return the rooms by floor, from the lowest layer up; rooms in an import cycle are on one floor."""
    bad, height = circles(graph), dict.fromkeys(graph, 0)
    for _ in graph:
        for here in graph:
            below = [height[there] for there in graph[here] if (here, there) not in bad]
            height[here] = max([height[here], *(1 + level for level in below)])
    return [sorted(room for room in graph if height[room] == level) for level in range(max(height.values()) + 1)]


def needed(graph: Arrows) -> set[tuple[str, str]]:
    """Return the transitive reduction: the arrows that no longer path implies, and those in a cycle."""
    bad = circles(graph)
    return bad | {
        (here, there)
        for here in graph
        for there in graph[here]
        if not any(way != there and (here, way) not in bad and reaches(graph, way, there) for way in graph[here])
    }


def picture(graph: Arrows) -> str:
    """Return the SVG: the lowest layer at the bottom, arrows from the importing room down to the imported one."""
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


@dataclass(frozen=True)
class Counts:
    """Counts of the code; lists name the places that may need attention.

    Attributes:
        files, lines: Numbers for the product: without tests, benchmarks and documents.
        lines_of_tests: Number of lines of tests.
        folders: Folders that hold product files.
        small: Product files of at most 60 lines, ``__init__`` apart.
        long, wide: Product functions with more than 60 lines, with more than 10 parameters.
        classes: Names of classes that the product defines more than once.
    """

    files: int
    lines: int
    lines_of_tests: int
    folders: int
    small: list[str]
    long: list[str]
    wide: list[str]
    classes: list[str]


def counts(root: Path) -> Counts:
    """Count files, lines, folders, functions and class names of a checkout."""
    files = [path for package in (*PACKAGES, *DATA) for path in sorted((root / package).rglob("*.py"))]
    sizes = {path: len(path.read_text("utf-8").splitlines()) for path in files}
    long, wide = [], []
    classes: dict[str, list[str]] = defaultdict(list)
    for path in files:
        name = str(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                parameters = len([one for one in every if one.arg not in ("self", "cls")])
                if lines > LONG_FUNCTION:
                    long.append(f"{name}:{node.lineno} {node.name}, {lines} lines")
                if parameters > MANY_PARAMETERS:
                    wide.append(f"{name}:{node.lineno} {node.name}, {parameters} parameters")
    return Counts(
        files=len(files),
        lines=sum(sizes.values()),
        lines_of_tests=sum(len(path.read_text("utf-8").splitlines()) for path in (root / "tests").rglob("*.py")),
        folders=len({path.parent for path in files}),
        small=[
            f"{path.relative_to(root)}, {size} lines"
            for path, size in sizes.items()
            if size <= SMALL_FILE and path.name != "__init__.py"
        ],
        long=long,
        wide=wide,
        classes=[f"{name}: {', '.join(where)}" for name, where in sorted(classes.items()) if len(where) > 1],
    )


def show(found: Counts, names: bool) -> None:
    """Print counts, one per line, with names if requested."""
    for title, value in (
        ("product files", found.files),
        ("product lines", found.lines),
        ("test lines", found.lines_of_tests),
        ("folders of the product", found.folders),
        (f"files of {SMALL_FILE} lines or fewer", found.small),
        (f"functions above {LONG_FUNCTION} lines", found.long),
        (f"functions with more than {MANY_PARAMETERS} parameters", found.wide),
        ("class names defined more than once", found.classes),
    ):
        print(f"{title:42}{len(value) if isinstance(value, list) else value:>8,}")
        if names and isinstance(value, list):
            print(*(f"    {line}" for line in value), sep="\n")


def main() -> int:
    """Print the counts, write the pictures, or compare them."""
    parser = argparse.ArgumentParser(description="Measure the house, and draw it from its imports.")
    parser.add_argument("--list", action="store_true", help="name what is too small, too long or defined twice")
    parser.add_argument("--draw", action="store_true", help="write the pictures anew")
    parser.add_argument("--check", action="store_true", help="compare with the pictures that are there")
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout (this one)")
    parser.add_argument("--output", type=Path, help="draw all rooms of the tree into this one file")
    chosen = parser.parse_args()
    if chosen.output:
        chosen.output.write_text(picture(arrows(chosen.tree, PACKAGES)), "utf-8")
        return 0
    if not (chosen.draw or chosen.check):
        show(counts(chosen.tree), chosen.list)
        return 0
    stale = 0
    for name, packages in PICTURES.items():
        path, drawn = ROOT / "docs" / "pictures" / f"{name}.svg", picture(arrows(chosen.tree, packages))
        if not chosen.check:
            path.write_text(drawn, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != drawn:
            print(
                f"{path.relative_to(ROOT)} is not what the imports say: python -m benchmarks.house --draw",
                file=sys.stderr,
            )
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
