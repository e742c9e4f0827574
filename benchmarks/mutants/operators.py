"""Mutations of one source file: small changes that a test should notice, at the place where they are made."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {
    "ceil": "floor", "floor": "ceil", "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum",
    "up": "down", "down": "up", "any": "all", "all": "any", "log1p": "log", "expm1": "exp", "sf": "cdf", "cdf": "sf",
}  # fmt: skip
"""Functions that are called in each other's place."""
GUARDS = ("min", "max", "minimum", "maximum", "clip", "nan_to_num", "up", "down", "nextafter")
"""Functions in whose place their first, or last, argument is taken."""
SIZES = (
    "draws",
    "steps",
    "count",
    "iterations",
    "queries",
    "noise",
    "sigma",
    "scale",
    "clip",
    "epsilon",
    "mu",
    "delta",
)
"""Names of numbers of which a mutant takes twice, or half, as much."""
SILENT = ("room", "__repr__")
"""Functions that decide neither what is computed nor what it costs."""


@dataclass(frozen=True)
class Mutation:
    """One change of a file.

    Attributes:
        function: Qualified name of the function that it is in; "" at the level of the module.
        line, text: Where it is: the number of the first line, and what stands there.
        kind: Name of the operator.
        change: What becomes what, in short.
        begin, end, new: The bytes of the source that ``new`` replaces.
        number: Counts mutations that all of this describes alike.
    """

    function: str
    line: int
    text: str
    kind: str
    change: str
    begin: int
    end: int
    new: str
    number: int = 0

    def key(self, area: str, name: str) -> str:
        """Return what stays the same if the file moves, or if lines are added above."""
        parts = (area, name, self.function, self.text, self.change, str(self.number))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def applied(self, source: str) -> str:
        """Return the mutant."""
        data = source.encode()
        return (data[: self.begin] + self.new.encode() + data[self.end :]).decode()


class _Walk:
    """All mutations of one file, in the order of the source."""

    def __init__(self, source: str, *, ordered: bool) -> None:
        self._source = source
        self._ordered = ordered
        self._lines = source.encode().splitlines(keepends=True)
        self._functions: list[str] = []

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self._lines:
            starts.append(starts[-1] + len(line))
        return starts

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        if node.end_lineno is None or node.end_col_offset is None:
            raise AssertionError("parsed nodes have places")
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _made(self, node: ast.expr | ast.stmt, kind: str, new: str, end: ast.stmt | None = None) -> Mutation:
        begin, stop = self._span(node)
        stop = stop if end is None else self._span(end)[1]
        old = " ".join(self._source.encode()[begin:stop].decode().split())
        text = self._lines[node.lineno - 1].decode().strip()
        change = f"{old} -> {' '.join(new.split())}"
        return Mutation(".".join(self._functions), node.lineno, text, kind, change, begin, stop, new)

    def _replaced(self, node: ast.expr, kind: str, new: ast.expr) -> Mutation:
        text = ast.unparse(ast.fix_missing_locations(new))
        simple = isinstance(new, ast.Name | ast.Attribute | ast.Call) or (
            isinstance(new, ast.Constant) and not isinstance(node, ast.Constant)
        )
        return self._made(node, kind, text if simple else f"({text})")

    # Statements -----------------------------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> Iterator[Mutation]:
        """Mutate a block of statements."""
        for place, statement in enumerate(statements):
            if place + 1 < len(statements):
                yield from self._exchanged(statement, statements[place + 1])
            yield from self._statement(statement)

    def _exchanged(self, first: ast.stmt, second: ast.stmt) -> Iterator[Mutation]:
        plain = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)
        if not (self._ordered and self._functions and isinstance(first, plain) and isinstance(second, plain)):
            return
        if _is_docstring(first) or _bound(first) & _read(second) or _bound(second) & (_read(first) | _bound(first)):
            return
        calls = all(any(isinstance(node, ast.Call) for node in ast.walk(side)) for side in (first, second))
        effects = [side for side in (first, second) if isinstance(side, ast.Expr) and not _is_append(side)]
        if calls and effects:
            yield self._made(first, "order", f"{ast.unparse(second)}; {ast.unparse(first)}", end=second)

    def _statement(self, node: ast.stmt) -> Iterator[Mutation]:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                if node.name in SILENT or any("overload" in ast.unparse(d) for d in node.decorator_list):
                    return
                self._functions.append(node.name)
                body = node.body
                if isinstance(node, ast.ClassDef):  # settings' defaults and limits are choices, not computations
                    body = [inner for inner in body if not isinstance(inner, ast.AnnAssign)]
                yield from self.block(body)
                self._functions.pop()
            case ast.Raise():
                yield self._made(node, "refusal", "pass")
            case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Assert():
                return
            case ast.Expr(value=ast.Call()):
                yield self._made(node, "call", "pass")
                yield from self._expression(node.value)
            case ast.Return(value=ast.expr() as value):
                yield from self._expression(value)
            case ast.AnnAssign():
                if node.value is not None:
                    yield from self._expression(node.value)
            case ast.AugAssign():
                if type(node.op) in ARITHMETIC:
                    new = copy.deepcopy(node)
                    new.op = ARITHMETIC[type(node.op)]()
                    yield self._made(node, "arithmetic", ast.unparse(new))
                yield from self._expression(node.value)
            case ast.If() | ast.While():
                if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
                    yield self._replaced(node.test, "condition", ast.UnaryOp(ast.Not(), node.test))
                yield from self._expression(node.test)
                yield from self.block(node.body)
                yield from self.block(node.orelse)
            case _:
                for name, value in ast.iter_fields(node):
                    if isinstance(value, ast.expr) and name != "target":
                        yield from self._expression(value)
                    elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                        yield from self.block(value)
                    elif isinstance(value, list) and name in ("handlers", "cases", "items"):
                        yield from self._parts(value)

    def _parts(self, parts: list[ast.AST]) -> Iterator[Mutation]:
        for part in parts:
            match part:
                case ast.ExceptHandler(body=body) | ast.match_case(body=body):
                    yield from self.block(body)
                case ast.withitem(context_expr=expression):
                    yield from self._expression(expression)

    # Expressions ----------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.expr) -> Iterator[Mutation]:
        if isinstance(node, ast.JoinedStr | ast.Lambda) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Field", "TypeVar")
        ):
            return
        yield from self._here(node)
        called = node.func if isinstance(node, ast.Call) else None
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Call(args=[*others, ast.Constant(value=1)]) if _is_first_of(node):
                    for inner in others:  # another number, drawn behind the only one that is looked at, changes nothing
                        yield from self._expression(inner)
                case ast.Attribute(value=owner) if child is called:  # a method is no number
                    yield from self._expression(owner)
                case ast.Name() if child is called:
                    continue
                case ast.expr():
                    yield from self._expression(child)
                case ast.keyword(value=value):
                    yield from self._expression(value)
                case ast.comprehension():
                    for inner in (child.iter, *child.ifs):
                        yield from self._expression(inner)

    def _here(self, node: ast.expr) -> Iterator[Mutation]:
        match node:
            case ast.Compare(ops=ops):
                for place, operator in enumerate(ops):
                    if type(operator) in COMPARISONS:
                        new = copy.deepcopy(node)
                        new.ops[place] = COMPARISONS[type(operator)]()
                        yield self._replaced(node, "comparison", new)
            case ast.BinOp(op=operator) if type(operator) in ARITHMETIC and not _is_no_number(node):
                yield self._replaced(node, "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(operator)](), node.right))
            case ast.BoolOp(op=operator):
                other = ast.Or() if isinstance(operator, ast.And) else ast.And()
                yield self._replaced(node, "boolean", ast.BoolOp(other, node.values))
            case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
                yield self._replaced(node, "sign", operand)
            case ast.Constant(value=bool(value)):
                yield self._replaced(node, "constant", ast.Constant(not value))
            case ast.Constant(value=int(value)):
                yield self._replaced(node, "constant", ast.Constant(value + 1))
                if value > 0:
                    yield self._replaced(node, "constant", ast.Constant(value - 1))
            case ast.Constant(value=float(value)):
                for other_value in (2.0 * value, 0.5 * value) if value else (1.0,):
                    yield self._replaced(node, "constant", ast.Constant(other_value))
            case ast.Attribute(attr="inf"):
                yield self._replaced(node, "rounding", ast.UnaryOp(ast.USub(), node))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                yield self._replaced(node, "condition", ast.IfExp(test, orelse, body))
            case ast.Call():
                yield from self._call(node)
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()) if name in SIZES:
                yield self._replaced(node, "size", ast.BinOp(ast.Constant(2), ast.Mult(), node))
                half = ast.FloorDiv() if name in ("draws", "steps", "count", "iterations", "queries") else ast.Div()
                yield self._replaced(node, "size", ast.BinOp(node, half, ast.Constant(2)))

    def _call(self, node: ast.Call) -> Iterator[Mutation]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in NAMES:
            new = copy.deepcopy(node)
            if isinstance(new.func, ast.Attribute):
                new.func.attr = NAMES[name]
            elif isinstance(new.func, ast.Name) and name in ("min", "max", "any", "all"):
                new.func.id = NAMES[name]
            if ast.dump(new) != ast.dump(node):
                yield self._replaced(node, "exchange", new)
        if name in GUARDS and node.args and not any(isinstance(a, ast.Starred | ast.GeneratorExp) for a in node.args):
            for kept in node.args[: 2 if name[:3] in ("min", "max") else 1]:
                if len(node.args) > 1 or name in ("up", "down", "nan_to_num"):
                    yield self._replaced(node, "guard", kept)
        if name == "range" and node.args:
            new, last = copy.deepcopy(node), min(len(node.args) - 1, 1)
            new.args[last] = ast.BinOp(node.args[last], ast.Sub(), ast.Constant(1))
            yield self._replaced(node, "range", new)


def _is_first_of(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0


def _is_append(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") == "append"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_no_number(node: ast.BinOp) -> bool:
    """Say whether it may be a union of types, or puts texts or paths together."""
    sides = (node.left, node.right)
    texts = (isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str) for side in sides)
    return (isinstance(node.op, ast.BitOr) and isinstance(node.right, ast.Name | ast.Attribute)) or any(texts)


def _bound(node: ast.stmt) -> set[str]:
    stored = (ast.unparse(n) for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Store))
    return {name.partition("[")[0] for name in stored}


def _read(node: ast.stmt) -> set[str]:
    return {ast.unparse(n) for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Load)}


def mutations(source: str, *, ordered: bool = False) -> list[Mutation]:
    """Return all mutations of a source, in its order.

    Args:
        ordered: Exchange adjacent statements, too, neither of which needs what the other one binds.
    """
    kept: list[Mutation] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for found in _Walk(source, ordered=ordered).block(ast.parse(source).body):
        alike = (found.function, found.text, found.change)
        kept.append(
            Mutation(
                found.function, found.line, found.text, found.kind, found.change, found.begin, found.end, found.new,
                seen[alike],
            )
        )  # fmt: skip
        seen[alike] += 1
    return kept
