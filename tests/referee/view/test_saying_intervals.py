"""What agents' answers show, in words: a lucky mean of a few is no loss, and the first round is never reweighed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.local.answers import Answers, AskAgents
from common.local.hypotheses.rules import Constant
from common.operations.learning import Learn, Learned
from common.protocols.steps import AskCurator
from deploy.experiment import reading
from referee.protocols.base import Outcome
from referee.protocols.subsample_test_reweigh import RoundsPlan, run_rounds
from referee.view import show
from referee.view.pages import report
from referee.view.run_view import run_view
from referee.view.wording import interval_in_words, judged_in_words
from tests.support import Bench, tiny

LUCKY = {"value": 0.034, "low": 0.0, "high": 0.395, "confidence": 0.95}
CLEAR = {"value": 0.034, "low": 0.02, "high": 0.05, "confidence": 0.95}
FEW = "too few agents answered about it to tell"


def test_an_interval_that_says_nothing_is_said_so_and_its_lucky_middle_is_not_named():
    assert interval_in_words(LUCKY) == f"somewhere from 0.0000 to 0.3950: {FEW}"
    assert interval_in_words(CLEAR) == "0.0340, in 0.0200 to 0.0500"
    assert (
        judged_in_words({"estimate": LUCKY, "asked": 1_234}) == f"somewhere from 0.0000 to 0.3950: {FEW}, 1,234 agents"
    )
    assert judged_in_words({"estimate": CLEAR, "asked": 1_234}) == "0.0340, in 0.0200 to 0.0500, 1,234 agents"


@pytest.mark.parametrize("found", [LUCKY, CLEAR])
def test_progress_result_and_report_all_say_so(found, tmp_path, capsys, monkeypatch):
    for name in ("_OUT", "_ERR"):
        monkeypatch.setattr(getattr(show, name), "_width", 300)
    chosen = tiny()
    with Bench(tmp_path / "state", chosen) as bench:
        result = {**bench.run(), "truth": None, "run": str(tmp_path), "peak_memory_bytes": 0, "estimate": found}
    rounds = {"round": 1.0, "rounds": 3.0, "asked": 10.0, **{key: found[key] for key in ("value", "low", "high")}}
    with show.live(chosen, 5, tmp_path, quiet=False) as on_progress:
        on_progress("round 1", rounds)
    live = capsys.readouterr().err
    show.result({**result, "seconds": {"total": 0.0}}, simulated=True)
    final = capsys.readouterr().out
    page = report([run_view(chosen, {**result, "seconds": {"total": 0.0}}, [rounds])])
    for told in (live, final, page):
        assert (FEW in told) == (found is LUCKY)
        assert ("0.0340" in told) == (found is CLEAR)


def after_three_rounds(*, first_is_best: bool) -> Outcome:
    """Return how an agnostic run ends whose first model is told to err on a third, the others on half, or not so."""
    script = run_rounds(RoundsPlan.of(tiny("mode=agnostic", "curator.rounds=3", "agents.count=9000")), None, 1, 3)
    number = 0
    reply: Any = None
    while True:
        try:
            step = script.send(reply)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        reply = None
        if isinstance(step, AskCurator) and isinstance(step.operation, Learn):
            number, reply = number + 1, Learned(hypothesis=Constant(label=1))
        elif isinstance(step, AskAgents):
            ones = np.zeros(step.count, dtype=np.uint8)
            ones[:: 3 if (number == 1) == first_is_best else 2] = 1
            reply = Answers(step.count, ones, np.arange(step.count))


def test_an_answer_of_the_first_round_is_never_said_to_be_reweighed():
    outcome = after_three_rounds(first_is_best=True)
    assert outcome.reason == "all 3 rounds were used; the answer is the first round's, which nothing had reweighed"
    assert after_three_rounds(first_is_best=False).reason == "all 3 rounds were used"
    better: dict[str, dict[str, float | str]] = {"curator-only": {"loss_on_target": 0.2, "note": ""}}
    told = reading(tiny(), {"iterations": 3, "status": "exhausted", "reason": outcome.reason}, 0.1, better)
    assert "reweigh" not in told
