"""The house is drawn, counted and worded as its tools say; the inside of a library is seen wherever it is used."""

import ast
from pathlib import Path

from benchmarks.house import PACKAGES, arrows, circles, counts, floors, needed
from benchmarks.interfaces import places
from benchmarks.words import found


def write(folder: Path, sources: dict[str, str]) -> None:
    for path, text in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_a_circle_and_what_a_longer_way_implies_are_seen(tmp_path):
    sources = {
        "common/core.py": "import common.core",
        "common/wire.py": "from common.core import a",
        "common/people.py": "from common import wire\nfrom common.core import b",
        "curator/app.py": "def f():\n    from common import people, core\n    import referee.app",
        "referee/app.py": "import curator.app",
    }
    write(tmp_path, sources)
    graph = arrows(tmp_path, PACKAGES)
    assert circles(graph) == {("curator", "referee"), ("referee", "curator")}
    assert needed(graph) - circles(graph) == {
        ("common.people", "common.wire"),
        ("common.wire", "common.core"),
        ("curator", "common.people"),
    }
    assert [row[0] for row in floors(graph)[:3]] == ["common.core", "common.wire", "common.people"]


def test_the_house_is_counted(tmp_path):
    method = "    def f(self, a, b, c, d, e, f, g, h, i, j, *, k):\n" + "        a = 1\n" * 60
    sources = {
        "common/core/a.py": "class A:\n" + method,
        "common/core/__init__.py": "",
        "curator/b.py": "class A:\n    x = 1\n\n\nclass B:\n    x = 1\n",
        "tests/c.py": "x = 1\n",
    }
    write(tmp_path, sources)
    found = counts(tmp_path)
    assert (found.files, found.lines, found.lines_of_tests, found.folders) == (3, 62 + 6, 1, 2)
    assert found.small == ["curator/b.py, 6 lines"]
    assert found.long == ["common/core/a.py:2 f, 61 lines"]
    assert found.wide == ["common/core/a.py:2 f, 11 parameters"]
    assert found.classes == ["A: common/core/a.py, curator/b.py"]


def test_words_of_the_list_are_found_in_names_and_texts_alone(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        'def told(heard):\n    """Nobody is told."""\n'
        '    log(f"whoever {heard} asks", source.derive("said"))\n    isSaid = 1\n'
        "    found_rows, found = [], 2\n"
    )
    refused = [(1, "told"), (1, "heard"), (4, "said"), (5, "found"), (3, "whoever")]
    assert [(line, word) for line, word, _ in found(file)] == refused


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


def test_the_inside_of_a_library_is_seen_and_what_is_public_or_our_own_is_not_refused():
    seen = {source: any(places(ast.parse(source), frozenset({"_own"}))) for source in (*INSIDE, *OUTSIDE)}
    assert seen == dict.fromkeys(INSIDE, True) | dict.fromkeys(OUTSIDE, False)
