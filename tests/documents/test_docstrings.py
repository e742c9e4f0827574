"""The parameters and attributes that a docstring explains, and the names that it refers to, are those of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.documents.reading import ROOT

PACKAGES = ("common", "curator", "issuer", "local_agent", "referee", "deploy", "tandem", "benchmarks")
Function = ast.FunctionDef | ast.AsyncFunctionDef
ROLE = re.compile(r":(?:class|func|meth|data|attr|mod):`~?(\.?)([\w.]+)`")


def explained(docstring: str, section: str) -> list[str]:
    """Return the names that a section of a numpy docstring explains."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", f"{docstring}\n", re.MULTILINE | re.DOTALL)
    names = re.findall(r"^([\w*][\w*, ]*)(?: :.*)?$", found[1], re.MULTILINE) if found else []
    return [name.strip().lstrip("*") for line in names for name in line.split(",")]


def parameters(function: Function) -> set[str]:
    """Return the names of a function's parameters."""
    given = function.args
    rest = [argument for argument in (given.vararg, given.kwarg) if argument]
    return {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)}


def wrong(tree: ast.AST) -> Iterator[str]:
    """Yield the parameters that are explained and that no signature has."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            having = parameters(node)
        elif isinstance(node, ast.ClassDef):
            makers = [item for item in node.body if isinstance(item, Function) and item.name == "__init__"]
            if not makers:  # made by a dataclass, by pydantic, or by the class above
                continue
            having = parameters(makers[-1])  # others are its overloads
        else:
            continue
        for name in explained(ast.get_docstring(node) or "", "Parameters"):
            if name not in having:
                yield f"{node.name}: {name}"


def unheld(tree: ast.AST) -> Iterator[str]:
    """Yield the attributes that a dataclass explains and does not have; one with a base may have them from there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.bases and _is_dataclass(node):
            names = explained(ast.get_docstring(node) or "", "Attributes")
            yield from (f"{node.name}: {name}" for name in names if name not in defined(node.body))


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(ast.unparse(decorator).startswith("dataclass") for decorator in node.decorator_list)


def defined(body: list[ast.stmt]) -> set[str]:
    """Return the names that the statements of a module or a class define."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.If):  # TYPE_CHECKING
            found |= defined(node.body)
    return found


@cache
def _classes() -> dict[str, tuple[set[str], set[str]]]:
    """Return what each class defines, and the names of its bases; classes of one name are taken together."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                own, bases = found.setdefault(node.name, (set(), set()))
                own |= defined(node.body)
                own |= {
                    each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and _is_self(each.value)
                }
                bases |= {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    return found


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _held(name: str) -> set[str]:
    """Return the names that a class and its bases define."""
    own, bases = _classes().get(name, (set(), set()))
    return own.union(*(_held(base) for base in bases - {name}))


def unresolved(text: str) -> Iterator[str]:
    """Yield the names that docstrings refer to, as ``:meth:`Class.method```, and that are not there.

    Names that begin with a package are followed by ``test_paths`` up to their module, and here behind it.
    """
    tree = ast.parse(text)
    here = defined(tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            here |= defined(node.body) | _held(node.name)
    for relative, name in ROLE.findall(text):
        before, _, last = name.rpartition(".")
        owner = before.rpartition(".")[2]
        if owner in _classes():
            known = last in _held(owner)
        else:
            known = relative == "." or name in here or name.split(".")[0] in PACKAGES
        if not known:
            yield name


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_explain_what_is_there(package: str) -> None:
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if names := [*wrong(tree), *unheld(tree), *unresolved(path.read_text("utf-8"))]:
            found[path.relative_to(ROOT).as_posix()] = names
    assert found == {}


FUNCTION = '''
def f(a, *b):
    """Do.

    Parameters
    ----------
    a, b
        Here.
    c
        Not.
    """
'''
VALUE = '''
@dataclass
class A:
    """Hold.

    Attributes
    ----------
    a
        Here.
    c
        Not.
    """

    a: int
'''
REFERENCES = '''
class A:
    """See :meth:`b`, :meth:`c`, :meth:`Registry.names`, :meth:`Registry.nothing`, :data:`HERE`, :data:`NOWHERE`."""

    def b(self): ...

HERE = 1
'''


@pytest.mark.slow
def test_a_name_that_is_not_there_is_noticed() -> None:
    assert list(wrong(ast.parse(FUNCTION))) == ["f: c"]
    assert list(unheld(ast.parse(VALUE))) == ["A: c"]
    assert list(unresolved(REFERENCES)) == ["c", "Registry.nothing", "NOWHERE"]
