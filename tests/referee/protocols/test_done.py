"""What ``done`` states: for each protocol what its theorem has and no more, in its own numbers."""

from __future__ import annotations

from deploy.simulation import conduct
from referee.protocols.base import ABLATIONS, PROTOCOLS, Protocol, halts, level_of, shown_by
from referee.view import show
from referee.view.pages import report
from referee.view.run_view import run_view
from referee.view.wording import verdict
from tests.support import Bench, small, tiny
from tests.tiers import for_each

TESTED = ("the agents' test has rejected that the loss on T is", "or more among those who answer")


def test_every_shipped_protocol_has_a_statement_of_its_own_and_about_those_who_answer():
    for name in PROTOCOLS.shipped():
        assert PROTOCOLS[name].done != Protocol.done, name
        shown = shown_by(PROTOCOLS[name].example()[0])
        assert "{" not in shown
        assert ("those who answer" in shown) == ("ends exhausted" not in shown), name


def test_a_side_that_is_left_alone_claims_nothing_of_the_whole():
    assert {alone.done for alone in ABLATIONS.values()} == {Protocol.done}
    for alone in ABLATIONS.values():
        for example in alone.example():
            assert shown_by(example) == Protocol.done


@for_each("name", PROTOCOLS.shipped())
def test_a_level_is_named_only_where_one_is_tested(name):
    chosen = PROTOCOLS[name].example()[0]
    assert all(words in shown_by(chosen) for words in TESTED) == halts(chosen)
    if name in ("learn-and-test", "model-agnostic", "portfolio"):
        assert "no level is tested" in shown_by(chosen)


def test_a_protocol_that_declares_no_test_of_a_level_has_none_whatever_else_it_demands(monkeypatch):
    """As a protocol of another package, whose demands are the usual ones."""
    chosen, result = tiny(), {"status": "done", "reason": "why", "answer": {"kind": "linear"}, "truth": None,
                              "estimate": {"value": 0.4, "low": 0.35, "high": 0.45, "confidence": 0.95}}  # fmt: skip
    assert "below" in verdict(chosen, result).title
    monkeypatch.setattr(PROTOCOLS[chosen.protocol], "tests_level", False)
    assert level_of(chosen) is None
    assert verdict(chosen, result).title == "Error 40%: between 35% and 45% with 95% confidence"


def test_numbers_are_the_scenarios_own_and_lies_are_a_share_of_the_first_answers():
    shown = shown_by(tiny("alpha=0.1", "accuracy.halt_below=3.7", "beta=0.01"))
    assert "the loss on T is 0.37 or more" in shown
    assert "with probability 0.01 at most" in shown
    lying = shown_by(tiny("agents.liars=0.1"))
    assert lying.endswith("; if of the first n answers, for every n, at most 0.1 n are lies")
    assert "0.05 at most" in shown_by(small("portfolio", "alpha=0.05", "beta=0.02"))
    assert "with probability 0.98 at least" in shown_by(small("portfolio", "alpha=0.05", "beta=0.02"))


def test_learn_and_test_ends_done_whatever_the_loss_is_and_nothing_that_is_printed_claims_a_level(tmp_path, capsys):
    """Its model errs on .4 and twice alpha is .2: as many agents answered as were wanted, and that is all."""
    chosen = tiny("protocol=learn-and-test", "agents.count=4000", "curator.rounds=1", "agents.mechanism.epsilon=3",
                  "alpha=0.1", "accuracy.halt_below=2", "accuracy.reweigh_above=1.5")  # fmt: skip
    with Bench(tmp_path, chosen) as bench:
        result = {**bench.run(), "truth": None, "peak_memory_bytes": 0, "run": "run"}
    assert result["status"] == "done"
    assert result["estimate"]["low"] > 0.2
    assert level_of(chosen) is None
    view = run_view(chosen, result, result["rounds"])
    show.result(result, simulated=True, shown=shown_by(chosen))
    printed = " ".join(capsys.readouterr().out.split())
    for words in (view.verdict.title, view.verdict.detail, report([view]), printed):
        assert "below 0.2" not in words
        assert "below 20%" not in words
    assert dict(view.facts)["what is shown"] == shown_by(chosen)
    assert "no level is tested" in printed


def test_a_gap_is_printed_with_its_probability_and_never_rounded_down():
    chosen = small("portfolio")
    outcome = conduct(chosen, 1, lambda *a: None)
    assert outcome.gap is not None
    assert " with 95% confidence to be " in outcome.reason
    assert "confidence" not in outcome.formerly
    if outcome.gap:
        assert float(outcome.reason.partition("within ")[2].partition(" of")[0]) >= outcome.gap
