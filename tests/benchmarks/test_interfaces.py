"""The inside of a library is seen wherever it is used, and the project uses none."""

import ast

import pytest

from benchmarks.interfaces import main, places

INSIDE = [
    "import nacl._sodium",
    "from ray import _raylet",
    "from uvicorn._types import Scope",
    "transport._ssl_protocol",
    "builder.inttoptr(word, kind)",
    "ctypes.CFUNCTYPE(ctypes.c_int)(address)",
    "object.__setattr__(value, '__dict__', fields)",
    "object.__setattr__(value, '__pydantic_fields_set__', names)",
]
OUTSIDE = [
    "import nacl.bindings",
    "self._own",
    "row._replace(a=1)",
    "from common.core import _thing",
    "x.__init__",
    "os._exit(1)",
]


@pytest.mark.parametrize("source", INSIDE)
def test_the_inside_of_a_library_is_seen(source):
    assert len(list(places(ast.parse(source), frozenset({"_own"})))) >= 1


def test_what_is_public_or_our_own_is_not_refused():
    assert [list(places(ast.parse(source), frozenset({"_own"}))) for source in OUTSIDE] == [[]] * len(OUTSIDE)


def test_the_project_uses_none(capsys):
    assert main() == 0, capsys.readouterr().out
