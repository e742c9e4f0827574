"""Which tests can reach a file, nearest first: by imports, registries and names."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from benchmarks.mutants.targets import OTHER_TIERS, PACKAGES


class Imports:
    """Who imports whom in a tree, by reading it; nothing is run.

    A module that makes a registry counts as one that imports every module below its package.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        paths = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
        self._names = {self._name(path): path for path in paths}
        self._importers: dict[Path, set[Path]] = {path: set() for path in paths}
        self._texts = {path: path.read_text() for path in paths}
        for path in paths:
            for name in self._imported(path):
                found = self._names.get(name)
                if found is not None and found != path:
                    self._importers[found].add(path)

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self._root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _imported(self, path: Path) -> Iterator[str]:
        for node in ast.walk(ast.parse(self._texts[path])):
            match node:
                case ast.Import(names=names):
                    yield from (alias.name for alias in names)
                case ast.ImportFrom(module=str(module), level=0, names=names):
                    yield module
                    yield from (f"{module}.{alias.name}" for alias in names)
                case ast.Call(args=[_, ast.Name(id="__name__"), *_], keywords=given) if all(
                    keyword.arg != "alone" for keyword in given
                ):  # a registry: it loads its whole package
                    here = self._name(path).rpartition(".")[0]
                    yield from (name for name in self._names if name.startswith(f"{here}."))

    def importers(self, path: Path) -> dict[Path, int]:
        """Return every file that reaches this one, with the number of imports between them."""
        found = {path: 0}
        queue = deque([path])
        while queue:
            here = queue.popleft()
            for importer in self._importers[here]:
                if importer not in found:
                    found[importer] = found[here] + 1
                    queue.append(importer)
        return found

    def tests(self, path: Path) -> list[Path]:
        """Return the fast tier's test files that reach a file, the likeliest to notice first.

        First those that are named for the file and the contract suite of its folder, then those that name it or what it
        registers, then those of its folder, then by the number of imports between. A test is of the folder that its own
        folder mirrors, and of those below.
        """
        names = (path.stem, path.stem.replace("_", "-"))  # as a module, and as it is registered
        folder = self._root / "tests" / path.parent.relative_to(self._root)

        def rank(test: Path) -> tuple[bool, int, int, str]:
            beside = folder.is_relative_to(test.parent) and len(test.parent.relative_to(self._root).parts) > 2
            owner = beside and (path.stem in test.stem or test.stem.endswith("_contract"))
            named = any(name in self._texts[test] for name in names)
            return not owner, -(2 * named + beside), found[test], str(test)

        found = self.importers(path)
        tests = [p for p in found if p.name.startswith("test_") and not self._elsewhere(p)]
        return sorted(tests, key=rank)

    def _elsewhere(self, test: Path) -> bool:
        return test.relative_to(self._root).as_posix().startswith(OTHER_TIERS)
