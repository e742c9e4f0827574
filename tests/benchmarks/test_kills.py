"""Runs under fire: parties are killed, and what was acknowledged is stored and counted."""

from __future__ import annotations

import random

import pytest

from benchmarks.kills.once import EVERYBODY, once


@pytest.mark.slow
def test_parties_are_killed_at_work_and_nothing_acknowledged_is_lost(tmp_path):
    found = once(tmp_path, None, random.Random(3), 3, (0.1, 2.0))
    assert len(found.kills) == 3
    assert found.wrong == []
    assert found.acknowledged == found.stored == found.counted == EVERYBODY
