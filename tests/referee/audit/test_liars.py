"""Agents who lie, in real runs: what they move without ``agents.liars``, what it bears, and what the audit prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import BadScenario
from common.scenario.resolved import ResolvedScenario
from common.statistics.intervals import Estimate
from local_agent.hosted.answers import answer_together
from referee.audit.audit import audit
from referee.protocols.base import protocol_of
from referee.protocols.driver import check_beginning
from referee.view.wording import ends_in_words
from tests.referee.audit.test_what_remains import said
from tests.support import Bench, leave_folder, small, tiny

CHOSEN = ("protocol=learn-and-test", "agents.count=6000", "curator.rounds=1", "agents.mechanism.epsilon=3")
SHARE = 0.1


def answered(folder: Path, monkeypatch: pytest.MonkeyPatch, chosen: ResolvedScenario, say: int | None) -> Path:
    """Leave a run in which every tenth slot's agent says 0, or 1, whatever it is asked; nobody lies for None."""

    def lie(*what: Any) -> Any:
        found = answer_together(*what)
        if say is not None:
            found[what[4] % round(1 / SHARE) == 0] = say
        return found

    with monkeypatch.context() as lying, Bench(folder / "state", chosen) as bench:
        lying.setattr("local_agent.hosted.population.answer_together", lie)
        bench.run()
        return leave_folder(folder / "run", chosen, 1, bench.finished())


def interval(run: Path) -> Estimate:
    return Estimate.parse(json.loads((run / "result.json").read_text())["estimate"])


@pytest.mark.slow
@pytest.mark.parametrize("say", [0, 1])
def test_a_tenth_who_all_say_the_same_move_the_interval_and_a_robust_run_bears_them(tmp_path, monkeypatch, say):
    plain, bearing = tiny(*CHOSEN), tiny(*CHOSEN, f"agents.liars={SHARE}")
    honest = interval(answered(tmp_path / "honest", monkeypatch, plain, None))
    run = answered(tmp_path / "plain", monkeypatch, plain, say)
    moved = interval(run)
    assert moved.low > honest.value if say else moved.high < honest.value
    found = audit(run).liars
    assert list(found) == [0.01, 0.05, 0.1]
    assert found[SHARE].low <= honest.value <= found[SHARE].high
    assert found[0.01].low >= found[0.05].low >= found[0.1].low
    robust = answered(tmp_path / "bearing", monkeypatch, bearing, say)
    assert interval(robust).low <= honest.low
    assert interval(robust).high >= honest.high
    assert audit(robust).liars == {SHARE: interval(robust)}


def test_what_liars_could_have_moved_is_printed(tmp_path, monkeypatch):
    run = answered(tmp_path, monkeypatch, tiny(*CHOSEN), None)
    found = audit(run).liars[0.05]
    code, output = said(run)
    assert code == 0
    assert "loss interval if so large a share of the answers counted are lies (95%): 1%: [" in output
    assert f"5%: {ends_in_words(found.low, found.high)}" in output


@pytest.mark.slow
def test_liars_have_a_run_halt_on_a_bad_hypothesis_unless_it_bears_them(tmp_path, monkeypatch):
    """Subsample-Test-Reweigh: the first hypothesis errs on 40% and the level is 37%; a tenth of the agents say 0."""
    levels = ("agents.count=20000", "agents.mechanism.epsilon=3", "alpha=0.1", "accuracy.reweigh_above=3.55",
              "accuracy.halt_below=3.7")  # fmt: skip
    ends = {}
    for name, chosen, say in (
        ("honest", tiny(*levels), None),
        ("misled", tiny(*levels), 0),
        ("bearing", tiny(*levels, f"agents.liars={SHARE}"), 0),
    ):
        found = audit(answered(tmp_path / name, monkeypatch, chosen, say))
        ends[name] = (found.status, found.rounds[0])
    assert [status for status, _ in ends.values()] == ["exhausted", "done", "exhausted"]
    assert ends["misled"][1]["high"] < ends["honest"][1]["value"]
    assert ends["bearing"][1]["low"] < ends["honest"][1]["value"] < ends["bearing"][1]["high"]


def test_a_test_of_fixed_size_bears_none_and_is_refused_before_the_curator_is_asked():
    with pytest.raises(BadScenario, match="only a sequential test bears liars"):
        check_beginning(tiny("agents.liars=0.01", "agents.test=fixed"))


def test_a_protocol_without_such_intervals_refuses_them():
    with pytest.raises(BadScenario, match=r"agents.liars: portfolio has no intervals"):
        protocol_of(small("portfolio", "agents.liars=0.01"))
