"""A disk that fails while it stores: nobody hears of success, everything may be said again, and counts once.

The worst case is a commit that is on disk although it was reported as failed; the other one is that it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from common.core.errors import CannotWrite
from common.crypto.identity import Identity
from common.net import messages
from tests.support import TOKEN, Bench, seal
from tests.tiers import for_each

pytestmark = pytest.mark.usefixtures("each_store")


def failing(real: Callable[..., Any], stored: bool) -> Callable[..., Any]:
    """Return what does its work or leaves it, and then fails; the second time it does its work."""
    calls: list[int] = []

    def work(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > 1 or stored:
            real(*arguments)
        if len(calls) == 1:
            raise OperationalError("INSERT", {}, OSError("disk full"))

    return work


@pytest.mark.parametrize("stored", [True, False])
def test_a_report_is_not_acknowledged_and_said_again_it_counts_once(bench, undisturbed, stored, monkeypatch):
    def attack() -> None:
        store = bench.referee.store
        monkeypatch.setattr(store, "add_reports", failing(store.add_reports, stored))
        with pytest.raises(CannotWrite):
            bench.host.step()
        bench.host.step()

    bench.meanwhile(attack)
    result = bench.run()
    assert result["answer"] == undisturbed[1].result["answer"]
    assert result["agents"] == undisturbed[1].result["agents"]


@for_each("stored", [True, False])
def test_an_enrolment_is_not_confirmed_and_said_again_has_one_number(tmp_path, stored, monkeypatch):
    with Bench(tmp_path) as bench:
        store, roster = bench.referee.store, bench.referee.registrar.roster
        somebody, another = (seal(Identity.create(), messages.Enrolment(agents=3)) for _ in range(2))
        before = roster.agents
        monkeypatch.setattr(store, "add_participants", failing(store.add_participants, stored))
        with pytest.raises(CannotWrite):
            bench.referee.enrol(somebody, TOKEN)
        numbers = [bench.referee.enrol(request, TOKEN).message["first"] for request in (another, somebody, another)]
        assert sorted(numbers[:2]) == [before, before + 3]
        assert numbers[2] == numbers[0]
        assert list(store.participants()) == list(roster)
