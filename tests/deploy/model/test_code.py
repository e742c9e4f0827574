"""Each action of the model is carried by functions of the code that exist, and the page has them all."""

from __future__ import annotations

import ast
import random
from pathlib import Path

from deploy.model.code import CODE, NOBODYS, table
from deploy.model.rules import Size
from deploy.model.search import steps_from
from deploy.model.state import initial

ROOT = Path(__file__).parents[3]


def test_each_function_that_carries_an_action_exists():
    for file, name in (place for places in CODE.values() for place in places):
        found: list[ast.stmt] = ast.parse((ROOT / file).read_text("utf-8")).body
        for part in name.split("."):
            (node,) = [n for n in found if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == part]
            found = node.body


def test_every_action_that_happens_has_its_row():
    size, chosen, actions = Size(agents=1), random.Random(1), set()
    for _ in range(100):
        state = initial(size)
        while steps := list(steps_from(state, size)):
            step, state = chosen.choice(steps)
            actions.add(step.action)
            if len(state.replies) == size.steps and chosen.random() < 0.1:
                break
    assert actions == {*CODE, *NOBODYS} - {"crash of an agent"}  # it changes nothing while no rule is broken


def test_the_page_prints_the_table():
    assert table() in (ROOT / "docs" / "model.md").read_text("utf-8")
