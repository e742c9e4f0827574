"""Before anything is charged, a learner is asked about its view, and then about the noise that it would draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario, PolicyRefused
from common.local.records import Records
from common.operations.learning import Learn
from curator.learners.base import Sizes
from curator.operations import LearnHandler, Standing


class Judge:
    """Stands for a learner: keeps what it is asked, and refuses what it is told to."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.asked: list[Any] = []

    def check(self, dtype: Any, features: int) -> None:
        self.asked.append((dtype, features))
        if self.refuses == "view":
            raise BadScenario("such a view cannot be learned from")

    def check_noise(self, sizes: Sizes) -> None:
        self.asked.append(sizes)
        if self.refuses == "noise":
            raise BadScenario("so much noise cannot be drawn")


def check(learner: Any, public: Records | None = None) -> None:
    kind = np.dtype(np.float32)
    standing = Standing(
        people=10, dimension=3, dtype=kind, tv_bound=1.0, learner=learner, previous=None, public=public,
        check_room=lambda weighing: None,
    )  # fmt: skip
    LearnHandler().check(Learn(round=1), standing)


@pytest.mark.parametrize("count", [None, 2])
def test_the_learner_is_told_how_many_people_there_are_on_either_side(count):
    public = None if count is None else Records(np.zeros((count, 3), np.float32), np.ones(count, np.int8))
    learner = Judge()
    check(learner, public)
    assert learner.asked == [(np.dtype(np.float32), 3), Sizes(10, count or 0, 3, 4)]


@pytest.mark.parametrize(("refuses", "asked"), [("view", 1), ("noise", 2)])
def test_what_it_refuses_is_refused_and_a_view_that_it_refuses_has_no_noise_to_count(refuses, asked):
    learner = Judge(refuses)
    with pytest.raises(PolicyRefused, match="such a view" if refuses == "view" else "so much noise"):
        check(learner)
    assert len(learner.asked) == asked
