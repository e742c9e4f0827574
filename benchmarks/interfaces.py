"""Refuse use of a library's internals: its private names, a value's private state, integers as addresses.

    python -m benchmarks.interfaces          part of make check: a line for each place, and status 1 if there is any

A library's next version may change private parts without notice, and a wrong address crashes the process or worse.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("common", "curator", "issuer", "local_agent", "referee", "deploy", "scenarios", "tandem", "benchmarks")
DOCUMENTED = frozenset({"_asdict", "_exit", "_fields", "_make", "_replace"})
"""Names of Python's standard library that only look private."""
NO_OTHER_WAY = frozenset(
    {
        # scikit-learn has no public name for the fitted parts of some models, which an export needs.
        *("_fit_X", "_gamma", "_predictors", "_weights_not_none", "_y"),
        # Ray prints lost workers to standard output unless this is off.
        *("_private", "_worker_logs_enabled"),
    }
)
"""Private names that are used nevertheless, because the library has no public equivalent."""
ADDRESSES = frozenset({"CFUNCTYPE", "c_void_p", "from_address", "inttoptr"})
"""Names of functions that make a pointer from an integer."""
STATE = ("__dict__", "__pydantic_")
"""Prefixes of names by which code writes a value's state and bypasses its class."""


def trees() -> dict[str, ast.Module]:
    """Return the parsed files of the product and its benchmarks, by path."""
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text("utf-8")) for file in files}


def private(name: str) -> bool:
    """Return whether a name is private by its form: it begins with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a file itself defines: of classes, functions, attributes and slots."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Constant(value=str(name)) if private(name):
                yield name


def places(tree: ast.Module, own: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each place that uses a library's internals.

    Args:
        own: Private names that the project defines anywhere.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if any(map(private, alias.name.split("."))):
                        yield node.lineno, f"imports the private module {alias.name}"
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] not in PACKAGES:
                for part in (*module.split("."), *(alias.name for alias in names)):
                    if private(part) and part not in NO_OTHER_WAY:
                        yield node.lineno, f"imports {part}, which is private to {module}"
            case ast.Attribute(attr=name) if private(name) and name not in own | DOCUMENTED | NO_OTHER_WAY:
                yield node.lineno, f"uses {name}, which no file of the project defines"
            case ast.Attribute(attr=name) if name in ADDRESSES:
                yield node.lineno, f"computes with addresses ({name})"
            case ast.Call(func=ast.Attribute(attr="__setattr__"), args=[_, ast.Constant(value=str(name)), *_]):
                if name.startswith(STATE):
                    yield node.lineno, f"writes {name}"


def main() -> int:
    """Print the places found; return the exit status."""
    found = trees()
    own = frozenset(name for tree in found.values() for name in own_names(tree) if private(name))
    wrong = [f"{path}:{line}: {why}" for path, tree in found.items() for line, why in places(tree, own)]
    print("\n".join(wrong) or f"{len(found)} files lean on no private part of a library")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
