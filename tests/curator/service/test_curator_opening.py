"""What a curator plans before it starts, whom it tells that it starts, and what a closed ledger still says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario, BudgetExceeded
from common.local.records import Records
from common.log.ledger import CLOSED
from curator.learners.base import parse_learner
from curator.sample.base import LocalSample
from curator.service.curator import Curator, planned_events
from curator.service.startup import open_curator
from curator.state.copies import backup, restore
from tests.curator.service.requests import LEARN
from tests.support import Bench, tiny


def sample(n: int) -> LocalSample:
    return LocalSample.of(Records(np.zeros((n, 8), dtype=np.float32), np.ones(n, dtype=np.int8)))


class Attending:
    """Stands for the people in the ledger over all runs: keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.charged: list[str] = []

    def attach(self, journal: Any, *, seen: Any, opened: bool) -> None:
        self.told.append(opened)

    def charge(self, party: str, digest: str) -> tuple[None, None]:
        self.charged.append(digest)
        return None, None


def test_a_learner_that_reweighs_nothing_is_planned_for_at_the_greatest_bound_in_every_round():
    learner = parse_learner(tiny().curator.learner)
    assert planned_events(learner, None, 1200, None, 0.2, 3) == [learner.event(1.0)] * 3


def test_real_people_are_not_met_without_a_budget(tmp_path):
    chosen = tiny("curator.epsilon=null", "curator.delta=null").model_copy(update={"people": "real"})
    with pytest.raises(BadScenario, match="needs an epsilon and a delta"):
        Curator(chosen, sample(chosen.curator.n), tmp_path)


def test_a_curator_whose_budget_counts_as_spent_charges_its_people_nothing(tmp_path):
    with Bench(tmp_path / "bench") as bench:
        bench.open()
        agreed = bench.referee.configuration("run")
    for closed in (True, False):
        account: Any = Attending()
        curator = Curator(tiny(), sample(1200), tmp_path / f"{closed}", seed=1, account=account)
        if closed:
            curator._directory.journal.append(CLOSED, {"why": "an older copy was put back"})
            with pytest.raises(BudgetExceeded, match="an older copy was put back") as refused:
                curator.open_run(agreed)
            epsilon = curator.guarantee.pair[0]
            assert refused.value.members == {"spent": epsilon, "requested": epsilon, "budget": epsilon}
        else:
            curator.open_run(agreed)
        curator.close()
        assert len(account.charged) == (not closed)


def test_the_ledger_of_people_is_told_whether_the_budget_belongs_to_a_run(tmp_path):
    # Of an opened run it must know already; people of one that is not opened must have budget left.
    with Bench(tmp_path / "bench") as bench:
        bench.open()
        agreed = bench.referee.configuration("run")
    for opened in (False, True):
        account: Any = Attending()
        curator = Curator(tiny(), sample(1200), tmp_path / "own", seed=1, account=account)
        curator.open_run(agreed)
        curator.close()
        assert account.told == [opened]


def test_a_closed_ledger_counts_the_whole_budget_as_spent_and_no_more(tmp_path):
    with Bench(tmp_path / "bench") as bench:
        bench.open()
        folder, copy = bench.folder / "curator", tmp_path / "copy"
        backup(folder, copy)
        bench.perform(0, LEARN)
        bench.curator.close()
        restore(copy, folder, close=True)
        bench.use(open_curator(tiny(), folder, 1, None))
        with pytest.raises(BudgetExceeded, match=r"\(epsilon 60, .* counts as spent") as refused:
            bench.perform(0, LEARN)
    said = refused.value.document()
    assert [said[name] for name in ("spent", "requested", "budget")] == [60.0, 60.0, 60.0]


def test_a_curator_of_simulated_people_may_have_no_budget_and_says_so(tmp_path):
    chosen = tiny("curator.epsilon=null", "curator.delta=null")
    curator = Curator(chosen, sample(1200), tmp_path, seed=1)
    assert curator.guarantee.pair == (math.inf, 1.0)
    curator.close()
