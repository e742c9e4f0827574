"""A verdict states what an interval carries and no more; an end of an interval is rounded outward."""

from __future__ import annotations

import math
from typing import Any

import pytest

from common.core.errors import BadData
from common.statistics.intervals import certainty
from referee.view.run_view import run_view
from referee.view.values import Interval
from referee.view.wording import against, promise, share, verdict
from tests.support import tiny
from tests.tiers import for_each

ANSWER = {"kind": "linear", "weights": [1.0], "threshold": 0.0}
FOUND = {"value": 0.12, "low": 0.0801, "high": 0.1599, "confidence": 0.95}
WIDE = {"value": 0.034, "low": 0.0, "high": 0.395, "confidence": 0.95}


def result(**given: Any) -> dict[str, Any]:
    return {"status": "done", "reason": "why", "answer": ANSWER, "estimate": FOUND, "truth": None, **given}


@for_each(
    ("scenario", "document", "title", "tone"),
    [
        (("mode=realizable", "alpha=0.08", "accuracy.halt_below=2"), {}, "Error below 16% with 95% confidence", "good"),
        (("mode=agnostic",), {}, "Error 12%: between 8% and 16% with 95% confidence", "good"),
        (
            ("mode=agnostic",),
            {"estimate": WIDE},
            "Inconclusive: error between 0% and 39.5% with 95% confidence",
            "open",
        ),
        (
            ("mode=realizable", "alpha=0.05", "accuracy.halt_below=2"),
            {"status": "exhausted"},
            "Not shown to be below 10%: error between 8% and 16% with 95% confidence",
            "open",
        ),
        ((), {"status": "failed", "answer": None, "estimate": None}, "No answer: the run failed", "bad"),
        ((), {"tasks": [{"status": "done"}, {"status": "exhausted"}]}, "1 of 2 tasks have what was asked for", "open"),
    ],
)
def test_the_verdict(scenario, document, title, tone):
    found = verdict(tiny(*scenario), result(**document))
    assert (found.title, found.tone, found.detail) == (title, tone, "why")


SILENT = {"missing": 0.71, "most": 0.73, "gap": None, "matters": True,
          "estimate": {"value": 0.12, "low": 0.0216, "high": 0.77317, "confidence": 0.9},
          "left_out": {"value": 0.12, "low": 0.0, "high": 0.8811, "confidence": 0.95}}  # fmt: skip
HALTED = ("mode=realizable", "alpha=0.08", "accuracy.halt_below=2")


def test_a_verdict_where_some_are_silent_is_about_all_who_were_asked_and_counts_them_against_it():
    words = "up to 71.0% of the agents asked about it did not answer"
    could = f"{words}: were they to differ from those who did, the loss could be anywhere in [0.0216, 0.7732] with 90%"
    for scenario in (HALTED, ("mode=agnostic",)):
        found = verdict(tiny(*scenario), result(silent=SILENT))
        assert found.tone == "open"
        title = "Inconclusive: error between 0% and 88.2% with 95% confidence among all who were asked"
        assert found.title == title
        assert found.detail.startswith(f"why; {could} confidence; were answers left out because of what they say, in [")
    judged = verdict(tiny("mode=agnostic"), result(silent={**SILENT, "gap": 0.8}))
    assert "confidence, and exceed the best candidate's by up to 0.8000; were answers left out" in judged.detail
    few = {**SILENT, "matters": False}
    few["estimate"] = few["left_out"] = {**SILENT["estimate"], "high": 0.155, "confidence": 0.9}
    kept = verdict(tiny(*HALTED), result(silent=few))
    assert (kept.title, kept.tone) == ("Error below 16% with 90% confidence among all who were asked", "good")
    some = {**few, "matters": True, "left_out": {**SILENT["estimate"], "low": 0.05, "high": 0.161}}
    close = verdict(tiny(*HALTED), result(silent=some))
    between = "between 5% and 16.1% with 90% confidence among all who were asked"
    assert (close.title, close.tone) == (f"Not shown to be below 16%: error {between}", "open")
    told = verdict(tiny("mode=agnostic"), result(silent={**some, "matters": False}))
    assert (told.title, told.tone) == (f"Error 12%: {between}", "good")
    unknown = verdict(tiny(*HALTED), result(silent={**SILENT, "left_out": None}))
    assert unknown.title == "Inconclusive: error between 0% and 100% with 95% confidence among all who were asked"
    assert "were answers left out because of what they say, nothing is known" in unknown.detail
    assert "however they differ from those who did, the loss is in [0.0216, 0.1550] with 90% confidence" in kept.detail
    problem = verdict(tiny(), result(estimate=None, silent={**SILENT, "estimate": None}))
    assert problem.detail == f"why; {words}: the answer is about those who did, and may be another one for all"
    assert (problem.title, problem.tone) == ("The run has an answer; it depends on those who did not answer", "open")


def test_a_result_without_a_word_of_the_silent_is_not_taken_for_one_without_silent():
    agents = {"enrolled": 600, "asked": 600, "answered": 540}
    found = verdict(tiny(*HALTED), result(agents=agents))
    assert found.detail == "why; 60 of 600 agents asked did not answer: `referee audit` says what they could change"
    assert found.tone == "open"
    assert verdict(tiny(*HALTED), result(agents={**agents, "answered": 600})).detail == "why"


@for_each(
    ("confidence", "words"), [(0.95, "95%"), (0.999, "99.9%"), (0.9999999, "99.99%"), (0.5, "50%"), (0.99996, "99.99%")]
)
def test_no_confidence_is_rounded_up(confidence, words):
    assert certainty(confidence) == words
    assert (
        f"with {words} confidence"
        in verdict(tiny("mode=agnostic"), result(estimate={**FOUND, "confidence": confidence})).title
    )


@for_each("value", [0.0, 0.16, 0.07, 0.29, 0.1601, 1 / 3, 1.0])
def test_shares_are_rounded_outward_and_decimals_stay_what_they_are(value):
    low, high = (float(share(value, up=up).rstrip("%")) / 100 for up in (False, True))
    assert low <= value + 1e-12
    assert high >= value - 1e-12
    assert high - low <= 0.001 + 1e-12
    if value in (0.16, 0.07, 0.29):
        assert low == pytest.approx(high, abs=1e-15)


def test_an_interval_against_its_level():
    assert against(Interval(0.1, 0.05, 0.15), 0.16) == "below 0.16"
    assert against(Interval(0.3, 0.2, 0.4), 0.16) == "above 0.16"
    assert against(Interval(0.16, 0.1, 0.2), 0.16) == "0.16 is inside the interval"
    assert against(Interval(0.1, 0.05, 0.16), 0.16) == "0.16 is inside the interval"  # at the level is not below it
    assert against(Interval(0.1, 0.05, 0.15), None) == ""


@for_each("epsilon", [0.1, 0.5, 1.0, 8.0, 800.0])
def test_a_promise_in_plain_words_never_promises_more_than_its_formula(epsilon):
    given = {"epsilon": epsilon, "delta": 1e-4, "protects": "records", "neighbours": "one row", "covers": "run"}
    said = promise("each", given)
    factor = float(said.plain.partition("more than ")[2].partition(" times")[0].replace(",", ""))
    assert factor >= math.exp(min(epsilon, 690.0)) * (0.94 if epsilon > 13 else 1.0)
    assert f"({epsilon:g}, 0.0001)-differential privacy" == said.formula


def test_where_nothing_is_promised_no_formula_stands():
    none = {"epsilon": None, "delta": None, "protects": "records", "neighbours": "one row", "covers": "run"}
    assert promise("each", none).formula == "no guarantee"


def test_a_result_of_something_else_is_an_error_of_the_tree():
    with pytest.raises(BadData, match="cannot be read"):
        run_view(tiny(), {"status": "done"}, [])
