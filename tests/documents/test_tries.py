"""A run that draws its own seed may miss its promise now and then, and no more often than that."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.documents.finishing import finish
from tests.documents.jobs import BETA, TRIES, Step, finished
from tests.documents.reading import ROOT
from tests.documents.running import Clone
from tests.documents.table import QUICK, SLOW

COUNTING = "echo tried >> tries; test $(wc -l < tries) -ge 2 && echo found || echo missed"


def tried(folder: Path) -> int:
    return len((folder / "tries").read_text().splitlines())


def test_what_draws_its_own_seed_may_miss_twice(tmp_path: Path) -> None:
    finish(Step(COUNTING, ("found",), tries=3), Clone(tmp_path), COUNTING)
    assert tried(tmp_path) == 2


def test_what_misses_each_time_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="does not show 'never'"):
        finish(Step(COUNTING, ("never",), tries=3), Clone(tmp_path), COUNTING)
    assert tried(tmp_path) == 3


def test_another_exit_status_is_no_bad_luck(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        finish(Step(f"{COUNTING}; exit 1", ("found",), tries=3), Clone(tmp_path), f"{COUNTING}; exit 1")
    assert tried(tmp_path) == 1


def test_only_a_run_without_a_seed_is_tried_again() -> None:
    tries = [finished(command).steps[0].tries for command in ("referee run ball", "referee run ball --seed 2")]
    assert tries == [TRIES, 1]
    assert Step("make demo").tries == 1


def test_all_tries_miss_less_often_than_once_in_a_million_runs() -> None:
    """Each misses with probability beta at most, which is the scenario's; a seed of its own makes it independent."""
    likely = [step for job in (*QUICK, *SLOW) for step in job.steps if step.chance]
    assert len(likely) > 10
    for step in likely:
        scenario = yaml.safe_load((ROOT / "scenarios" / f"{step.command.split()[2]}.yaml").read_text())
        assert scenario["beta"] <= BETA
        assert step.chance < 1e-6
    assert sum(step.chance for step in likely) < 1e-5
