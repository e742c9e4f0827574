"""Find words that the field does not use, in names and in texts that users read.

    python -m benchmarks.words            # exit status 1, and a line each, if one is found
    python -m benchmarks.words --count    # how often each occurs

An engineer searches for the field's words: "retry", "verify", "aggregate", "timeout". It checks all names that the
product defines and all of its strings except docstrings. No name may be a mere participle, such as ``found``.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.house import DATA, PACKAGES, ROOT

INSTEAD = {
    "believed": "trusted, or posterior",
    "climbed": "root_from_inclusion_proof",
    "heard": "received",
    "heed": "check",
    "manners": "options",
    "mend": "fix",
    "mended": "fixed",
    "nobody": "no one of a named role: 'no agent', 'cannot connect'",
    "said": "stated, sent, or signed",
    "tellers": "reporters",
    "told": "given, sent, or configured",
    "whoever": "any, with the role",
}
"""Words that names and messages do not use, and what to write instead."""
NOUNS = frozenset(("away", "found", "given", "made", "shown", "taken", "wanted"))
"""Names that no variable and no parameter has: they say how a value came about, and not what it is."""
VERDICT = "cannot be told"  # a possible verdict on a run (referee/runs/verdict.py)


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, name) for every name that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, text) for every string of a module except docstrings and labels of randomness."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):  # a label of randomness is part of what a seed determines
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "derive":
            alone |= {id(argument) for argument in node.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def found(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, word, where) for every word of the list that a file has in a name or a text."""
    tree = ast.parse(path.read_text("utf-8"))
    for line, name in names(tree):
        if name in NOUNS:
            yield line, name, name
        parts = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
        yield from ((line, part, name) for part in parts if part in INSTEAD)
    for line, text in texts(tree):
        parts = re.findall(r"[a-z]+", text.lower().replace(VERDICT, ""))
        yield from ((line, part, text.strip()) for part in parts if part in INSTEAD)


def main() -> int:
    """Print the words found; return the exit status."""
    parser = argparse.ArgumentParser(description="Find words that the field does not use.")
    parser.add_argument("--count", action="store_true", help="count instead of listing")
    chosen = parser.parse_args()
    every = [
        (path, *one)
        for package in (*PACKAGES, *DATA)
        for path in sorted((ROOT / package).rglob("*.py"))
        for one in found(path)
    ]
    if chosen.count:
        for word, times in Counter(word for _, _, word, _ in every).most_common():
            print(f"{times:5} {word}")
        return 0
    for path, line, word, where in every:
        instead = INSTEAD.get(word, "the noun of the value")
        print(f"{path.relative_to(ROOT)}:{line}: {word!r} in {where[:80]!r}: write {instead}", file=sys.stderr)
    return int(bool(every))


if __name__ == "__main__":
    sys.exit(main())
