"""Build backend (PEP 517): setuptools, except that a wheel holds everything below the one package ``tandem``.

In the checkout the packages are side by side and import each other as ``from common import ...``; an editable install
and a source distribution leave that as it is. Installed under those names they would collide with others' packages
``common`` or ``deploy``. So a wheel is built from a copy in which they are ``tandem.common``, ``tandem.deploy``, ...,
and in which only import statements are rewritten (docs/decisions.md, "A wheel puts everything below one name").
"""

import ast
import contextlib
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from setuptools import build_meta

build_editable = build_meta.build_editable
build_sdist = build_meta.build_sdist
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable

ROOT = "tandem"  # the package that all others go below

_FROM = re.compile(rb"from\s+")


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel from a staged copy; see PEP 517."""
    target = str(Path(wheel_directory).absolute())
    with tempfile.TemporaryDirectory() as folder:
        stage(Path.cwd(), Path(folder))
        with contextlib.chdir(folder):
            return str(build_meta.build_wheel(target, config_settings))


def stage(source: Path, target: Path) -> None:
    """Copy a checkout's packages below ``target / ROOT``, and the files that describe them beside it.

    ValueError if ``ROOT`` already has a package with one of these names, or an import cannot be rewritten.
    """
    text = (source / "pyproject.toml").read_text("utf-8")
    described = tomllib.loads(text)
    packages = owned(source, described)
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source / ROOT, target / ROOT, ignore=skip)
    for name in sorted(packages - {ROOT}):
        if (target / ROOT / name).exists():
            raise ValueError(f"{ROOT}/{name} and {name} would be one package in a wheel")
        shutil.copytree(source / name, target / ROOT / name, ignore=skip)
    for path in target.rglob("*.py"):
        path.write_bytes(rewritten(path.read_bytes(), packages - {ROOT}))
    project = described["project"]
    for name in (project["readme"], *project["license-files"]):
        shutil.copy(source / name, target / name)
    (target / "pyproject.toml").write_text(_entry_points(text, project, packages - {ROOT}), "utf-8")


def owned(source: Path, described: dict[str, Any]) -> set[str]:
    """Return the top-level packages of a checkout that its ``pyproject.toml`` includes."""
    patterns = described["tool"]["setuptools"]["packages"]["find"]["include"]
    folders = (path.parent.name for path in source.glob("*/__init__.py"))
    return {name for name in folders if any(fnmatch(name, pattern) for pattern in patterns)}


def rewritten(code: bytes, packages: Iterable[str]) -> bytes:
    """Return a module's source with the absolute imports of some top-level packages going through :data:`ROOT`.

    ``from common.x import y`` becomes ``from tandem.common.x import y``; ``import common`` becomes
    ``import tandem.common as common``. ValueError for ``import common.x``: it binds ``common``, which no single
    statement does for a package below another.
    """
    lines = code.split(b"\n")
    for line, column, old, new in sorted(_edits(ast.parse(code), lines, frozenset(packages)), reverse=True):
        row = lines[line]
        if not row.startswith(old, column):
            raise ValueError(f"line {line + 1}: expected {old!r} at byte {column}: write the import in one line")
        lines[line] = row[:column] + new + row[column + len(old) :]
    return b"\n".join(lines)


def _edits(tree: ast.Module, lines: list[bytes], packages: frozenset[str]) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield each change as its line (from 0), the byte offset in it, the old text and the new one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            if node.module.partition(".")[0] in packages:
                after = _FROM.match(lines[node.lineno - 1], node.col_offset)
                column = after.end() if after else node.col_offset
                yield node.lineno - 1, column, node.module.encode(), f"{ROOT}.{node.module}".encode()
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in packages:
                    if "." in alias.name and alias.asname is None:
                        raise ValueError(f"line {alias.lineno}: import {alias.name} as a name, or from its package")
                    new = f"{ROOT}.{alias.name}" + ("" if alias.asname else f" as {alias.name}")
                    yield alias.lineno - 1, alias.col_offset, alias.name.encode(), new.encode()


def _entry_points(text: str, project: dict[str, Any], packages: set[str]) -> str:
    """Return ``pyproject.toml`` with the modules of its commands and plug-ins below :data:`ROOT`."""

    def references(project: dict[str, Any]) -> set[str]:
        groups = (project.get("scripts", {}), *project.get("entry-points", {}).values())
        return {
            ref for group in groups for ref in group.values() if ref.partition(":")[0].partition(".")[0] in packages
        }

    for reference in references(project):
        text = text.replace(f'"{reference}"', f'"{ROOT}.{reference}"')
    if references(tomllib.loads(text)["project"]):
        raise ValueError("pyproject.toml: write entry points as plain strings in double quotes")
    return text
