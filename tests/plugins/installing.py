"""Install a package as its wheel would be: unpacked, with its metadata beside it. Takes no index, and milliseconds."""

import shutil
import tomllib
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins"


def install(source: Path, target: Path) -> None:
    """Put the packages that a ``pyproject.toml`` names into a directory, and what installers leave there about them."""
    described = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))
    project = described["project"]
    for package in described["tool"]["setuptools"]["packages"]:
        shutil.copytree(source / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    leave(target, project["name"], project["version"], metadata, project["entry-points"])


def leave(target: Path, name: str, version: str, metadata: str, groups: dict[str, dict[str, str]]) -> None:
    """Write the ``.dist-info`` of a package with these entry points."""
    folder = target / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(metadata, "utf-8")
    (folder / "INSTALLER").write_text("pip\n", "utf-8")
    lines = [
        [f"[{group}]", *(f"{entry} = {value}" for entry, value in found.items()), ""] for group, found in groups.items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(line for part in lines for line in part), "utf-8")
