"""The pictures of the house in the documents are what the imports say, and there is no circle in it."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.house import PACKAGES, PICTURES, ROOT, arrows, circles, floors, needed, picture

A_DOZEN = 12
SHELVES = {"common/vocabulary/demands", "common/vocabulary/hypotheses", "common/vocabulary/learners"}
"""Rooms whose files are all of one kind: a registered class each, beside the ``base`` that says what the kind is."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_in_the_documents_are_true(name):
    drawn = picture(arrows(ROOT, PICTURES[name]))
    assert (ROOT / "docs" / "pictures" / f"{name}.svg").read_text("utf-8") == drawn, "run python -m benchmarks.house"


@pytest.mark.slow
def test_there_is_no_circle_of_rooms():
    for packages in PICTURES.values():
        assert circles(arrows(ROOT, packages)) == set()


def test_a_circle_and_what_a_longer_way_implies_are_seen(tmp_path):
    sources = {
        "common/core.py": "import common.core",
        "common/wire.py": "from common.core import a",
        "common/people.py": "from common import wire\nfrom common.core import b",
        "curator/app.py": "def f():\n    from common import people, core\n    import referee.app",
        "referee/app.py": "import curator.app",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    graph = arrows(tmp_path, PACKAGES)
    assert circles(graph) == {("curator", "referee"), ("referee", "curator")}
    assert needed(graph) - circles(graph) == {
        ("common.people", "common.wire"),
        ("common.wire", "common.core"),
        ("curator", "common.people"),
    }
    assert [row[0] for row in floors(graph)[:3]] == ["common.core", "common.wire", "common.people"]


def test_no_room_holds_more_than_a_dozen_files_but_shelves():
    held = Counter(
        str(file.parent.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if file.name != "__init__.py"
    )
    large = {room for room, files in held.items() if files > A_DOZEN}
    assert large <= SHELVES
    assert all((ROOT / shelf / "base.py").exists() for shelf in SHELVES)
