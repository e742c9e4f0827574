"""The verdict on a run: one answer to one question, no more than the intervals show, in the words of the scenario."""

from __future__ import annotations

from typing import Any

from common.local.losses import Costs
from common.scenario import loading
from common.scenario.scenario import Scenario, parse
from common.statistics.intervals import certainty
from referee.protocols import base
from referee.runs.percents import AS_IT_IS, ends, estimate_or_vague, exact, of_costs, points, rounded_up
from referee.runs.verdict import ENDED, OF_CONSTANTS, QUESTION, measure_of, unit_of, verdict
from referee.view.wording import judged_in_words
from tests.support import small, tiny

ANSWER = {"kind": "linear", "weights": [1.0], "threshold": 0.0}
RAISED = {**ANSWER, "threshold": 1.0}
FOUND = {"value": 0.12, "low": 0.0801, "high": 0.1599, "confidence": 0.95}
WIDE = {"value": 0.034, "low": 0.0, "high": 0.395, "confidence": 0.95}
HALTED = ("mode=realizable", "alpha=0.08", "accuracy.halt_below=2")
AGNOSTIC = ("mode=agnostic",)
UNASKED = " Nothing was asked about saying the same to everybody, so this run cannot tell whether the model is better."


def result(**given: Any) -> dict[str, Any]:
    return {"status": "done", "reason": "why", "answer": ANSWER, "estimate": FOUND, "truth": None, **given}


def estimate(value: float, low: float, high: float, confidence: float = 0.95) -> dict[str, float]:
    return {"value": value, "low": low, "high": high, "confidence": confidence}


def constant(label: int) -> dict[str, Any]:
    return {"kind": "constant", "label": label}


SAID_NO, SAID_YES = estimate(0.35, 0.31, 0.39), estimate(0.65, 0.61, 0.69)
TAUGHT = ("model, recalibrated", RAISED, estimate(0.28, 0.21, 0.36))


def compared(
    low: float,
    high: float,
    probably: float = 0.3,
    *,
    likely: float = 0.2,
    agents: int | None = None,
    rival: tuple[str, dict[str, Any], dict[str, float]] = ("constant -1", constant(-1), SAID_NO),
    model: tuple[str, dict[str, Any], dict[str, float]] = TAUGHT,
    **given: Any,
) -> dict[str, Any]:
    """Return the result of a portfolio that judged a model and its rival."""
    one_sided = {
        name: {"low": -1.0, "high": bound, "confidence": confidence}
        for name, bound, confidence in (("probably", probably, 0.95), ("likely", likely, 0.75))
    }
    comparison = {"with": rival[0], "difference": estimate(-0.07, low, high), **one_sided, "agents": agents}
    tried = [{"name": of[0], "hypothesis": of[1], "estimate": of[2], "asked": 900} for of in (model, rival)]
    answer = rival if low > 0.0 else model
    counts = {"enrolled": 20_272, "asked": 15_405, "answered": 15_405}
    found = {"answer": answer[1], "estimate": answer[2], "candidates": tried, "comparison": comparison}
    return result(**found, agents=counts, **{"gap": 0.2} | given)


def own() -> Scenario:
    """A scenario of a table, whose label is yes or no."""
    return loading.load("adult")


def test_a_model_is_compared_with_the_best_of_what_either_side_has_alone():
    first = (
        "The model errs on 28% of the population (21% to 36%). Saying '<=50K' to everybody errs on 35% (31% to 39%)."
    )
    than, open_, doubt = "better than saying '<=50K' to everybody", "cannot be told", "So it is open whether"
    for document, answer, tone, title, last in (
        (compared(-0.16, -0.01, -0.03, agents=9_000), "yes", "good", f"The model is {than}",
         "The model is better, by 1 point to 16 points, with 95% confidence."),
        (compared(-0.16, 0.02, -0.011, agents=26_100), "probably", "open", f"The model is probably {than}",
         "The model is probably better: by 1.1 points or more, with 95% confidence, one-sided, by itself; about 5,900 "
         "more agents would settle it."),
        (compared(-0.16, 0.02, -0.0004, agents=26_100), "probably", "open", f"The model is probably {than}",
         "The model is probably better: with 95% confidence, one-sided, by itself; about 5,900 more agents would "
         "settle it."),
        (compared(-0.16, 0.05, 0.01, likely=-0.0004), open_, "open", f"It cannot be told whether the model is {than}",
         "Whether the model is better cannot be told: it errs on 16 points less to 5 points more, with 95% confidence "
         f"(less, with 75% confidence, one-sided, by itself). {doubt} the curator's people help."),
        (compared(-0.16, 0.05, 0.01, agents=41_000), open_, "open", f"It cannot be told whether the model is {than}",
         "Whether the model is better cannot be told: it errs on 16 points less to 5 points more, with 95% confidence; "
         f"about 21,000 more agents would settle it. {doubt} the curator's people help."),
        (compared(-0.16, 0.05, 0.01, likely=-0.02), open_, "open", f"It cannot be told whether the model is {than}",
         "Whether the model is better cannot be told: it errs on 16 points less to 5 points more, with 95% confidence "
         f"(by 2 points or more, with 75% confidence, one-sided, by itself). {doubt} the curator's people help."),
        (compared(0.02, 0.05), "no", "open", f"The model is not {than}",
         "The model is worse, by 2 points to 5 points, with 95% confidence. So the answer is saying '<=50K' to "
         "everybody. The curator's people do not help here: they are too few, or too different from the population."),
    ):  # fmt: skip
        found = verdict(own(), document)
        assert (found.answer, found.tone, found.title) == (answer, tone, title)
        assert found.text == f"{first} {last}"
        of_constants = {"question": OF_CONSTANTS, "answer": answer}
        said = {"title": title, "question": QUESTION, "answer": answer, "constant": of_constants, "text": found.text}
        assert found.document() == said


def test_a_constant_is_named_with_the_label_of_the_scenario_or_of_who_fits():
    both = {"rival": ("constant +1", constant(1), SAID_YES)}
    assert "saying '>50K' to everybody" in verdict(own(), compared(-0.2, 0.1, **both)).title
    assert "saying +1 to everybody" in verdict(small("portfolio"), compared(-0.2, 0.1, **both)).title
    assert "saying 'leaves' to everybody" in verdict(own(), compared(-0.2, 0.1, **both), ("stays", "leaves")).title


def test_the_curator_s_own_model_is_called_so():
    alone = ("model", ANSWER, estimate(0.4, 0.3, 0.5))
    found = verdict(own(), compared(-0.2, -0.1, model=alone))
    assert found.title == "The curator's model alone is better than saying '<=50K' to everybody"
    found = verdict(own(), compared(0.1, 0.2, rival=alone))
    assert "So the answer is the curator's model alone. Nothing was asked about saying the same" in found.text


def told(low: float, high: float, probably: float = 0.3) -> dict[str, Any]:
    """Return how an answer compares with the best constant, of which agents told."""
    known = compared(low, high, probably, agents=26_100)["comparison"]
    return {**known, "hypothesis": constant(-1), "estimate": SAID_NO, "asked": 700}


def test_beside_the_curator_s_model_it_is_told_whether_the_answer_beats_saying_the_same_to_everybody():
    alone, same = ("model", ANSWER, estimate(0.4, 0.3, 0.5)), "saying the same to everybody"
    better, open_, worse = (-0.2, -0.1), (-0.2, 0.1), (0.1, 0.2)
    model, curator, errs = "The model is better than", "the curator's model alone", "'<=50K' to everybody errs on 35%"
    for rival, beside, answers, tone, title, last in (
        (better, told(*better), ("yes", "yes"), "good", f"{model} {curator}; it is better than {same}",
         f"{model} {same}, by 10 points to 20 points, with 95% confidence."),
        (better, told(*open_), ("cannot be told", "cannot be told"), "open",
         f"{model} {curator}; whether it is better than {same} cannot be told",
         "it errs on 20 points less to 10 points more, with 95% confidence; about 5,900 more agents would settle it."),
        (open_, told(*better), ("cannot be told", "yes"), "open",
         f"{model} {same}; whether it is better than {curator} cannot be told",
         f"{model} {same}, by 10 points to 20 points, with 95% confidence."),
        (better, told(*open_, -0.01), ("probably", "probably"), "open",
         f"{model} {curator}; it is probably better than {same}",
         f"The model is probably better than {same}: by 1 point or more, with 95% confidence, one-sided, by itself; "
         "about 5,900 more agents would settle it."),
        (better, told(*worse), ("no", "no"), "open", f"{model} {curator}; it is not better than {same}",
         f"The model is worse than {same}, by 10 points to 20 points, with 95% confidence."),
        (worse, told(*better), ("no", "yes"), "open",
         f"The curator's model alone is better than {same}; the model is not better than that",
         f"The curator's model alone is better than {same}, by 10 points to 20 points, with 95% confidence."),
        (worse, told(*worse), ("no", "no"), "open",
         f"The model is not better than {curator}; that is not better than {same}",
         f"The curator's model alone is worse than {same}, by 10 points to 20 points, with 95% confidence."),
        (better, None, ("cannot be told", "cannot be told"), "open",
         f"{model} {curator}; whether it is better than {same} cannot be told",
         f"Nothing was asked about {same}, so whether the model is better than that cannot be told."),
    ):  # fmt: skip
        found = verdict(own(), compared(*rival, rival=alone, constant=beside))
        assert ((found.answer, found.constant), found.tone, found.title) == (answers, tone, title)
        assert found.text.endswith(last)
        assert (errs in found.text) == (beside is not None)


def test_an_answer_that_errs_on_more_than_half_is_not_better_than_saying_the_same_to_everybody():
    """Also where too few told of the constants: it was open then, of a model that errs on 80%, as its rival does."""
    alone, same = ("model", ANSWER, estimate(0.82, 0.72, 0.92)), "saying the same to everybody"
    model = ("model, recalibrated", RAISED, estimate(0.8, 0.7, 0.9))
    half = "Saying the more frequent label to everybody errs on 50% at most, so the model is not better."
    for beside in (told(-0.3, 0.5), None):
        found = verdict(own(), compared(-0.1, 0.1, rival=alone, model=model, constant=beside))
        assert (found.answer, found.constant, found.tone) == ("no", "no", "open")
        curator = "It cannot be told whether the model is better than the curator's model alone"
        assert found.title == f"{curator}; it is not better than {same}"
        assert found.text.endswith(half)
        assert found.text.count("to everybody") == 1
    found = verdict(own(), compared(0.01, 0.1, rival=alone, model=model, constant=told(-0.3, 0.5)))
    assert found.title == f"The model is not better than the curator's model alone; that is not better than {same}"
    assert found.text.endswith("errs on 50% at most, so the curator's model alone is not better.")
    found = verdict(own(), compared(-0.2, 0.1, model=model, constant=told(-0.3, 0.5)))
    assert (found.answer, found.constant) == ("no", "no")
    assert found.title.endswith(f"; it is not better than {same}")
    for open_ in (  # where mistakes have costs half is no bound
        verdict(
            small("portfolio", "agents.costs={miss: 3, false_alarm: 1}"), compared(-0.1, 0.1, rival=alone, model=model)
        ),
        verdict(own(), compared(-0.1, 0.1, rival=alone, model=(*model[:2], estimate(0.8, 0.49, 0.9)))),
    ):
        assert open_.constant == "cannot be told"


def test_a_model_that_beats_a_constant_is_not_called_better_than_another_one():
    """The rival is the constant that was believed to be best: here it errs on more than the other one."""
    than, other = "The model is better than saying '<=50K' to everybody", "saying something else to everybody"
    for beside, answer, title, last in (
        ((-0.3, -0.2), "yes", than, "The model is better, by 10 points to 20 points, with 95% confidence."),
        ((0.1, 0.2), "no", f"{than}; it is not better than {other}",
         f"The model is worse than {other}, by 10 points to 20 points, with 95% confidence."),
        ((-0.2, 0.1), "cannot be told", f"{than}; whether it is better than {other} cannot be told",
         "it errs on 20 points less to 10 points more, with 95% confidence; about 5,900 more agents would settle it."),
    ):  # fmt: skip
        known = told(*beside) | {"hypothesis": constant(1)}
        found = verdict(own(), compared(-0.2, -0.1, constant=known))
        assert (found.answer, found.constant, found.title) == (answer, answer, title)
        assert found.text.endswith(last)
    assert verdict(own(), compared(-0.2, 0.1, constant=known)).constant == "cannot be told"


def test_a_regression_that_predicts_one_number_is_a_constant():
    mean = {"kind": "regressor", "weights": [0.0], "intercept": 0.5, "response": 3}
    found = verdict(own(), compared(-0.2, -0.1, rival=("constant", mean, SAID_NO)))
    assert found.title == "The model is better than saying 0.5 to everybody"
    assert (found.answer, found.constant) == ("yes", "yes")


def test_a_number_is_named_in_the_unit_of_its_column():
    """Agents tell the mean to within their noise, and a better number may err as little as the model does."""
    label, response = {"column": "price", "above": 5}, {"kind": "number", "column": "price", "low": -10, "high": 30}
    features = [{"kind": "number", "column": "visits", "low": 0, "high": 9}, response]
    tables = {
        side: {"table": {"files": [f"{side}.csv"], "label": label, "features": features}}
        for side in ("source", "target")
    }
    of_prices = parse(loading.load("adult").wire() | tables)
    for intercept, number in ((0.25, "0"), (0.305, "2.2"), (1.5, "30")):
        mean = {"kind": "regressor", "weights": [0.0], "intercept": intercept, "response": 1}
        found = verdict(of_prices, compared(-0.2, -0.1, rival=("constant", mean, SAID_NO)))
        assert found.title == f"The model is better than saying {number} to everybody"
        assert f" Saying {number} to everybody errs on 35%" in found.text


def test_a_model_that_says_the_same_to_everybody_is_no_better_than_a_constant():
    """What a curator's model of several classes is where noise alone would decide: its weights are 0."""
    zero = {"kind": "linear", "weights": [0.0], "threshold": 0.0}
    named = {"kind": "argmax", "first": 1, "hypotheses": [zero, {**zero, "threshold": -1.0}, zero]}
    less = {**named, "hypotheses": [{**zero, "threshold": threshold} for threshold in (1.0, -0.5, -0.2)]}
    taught = ("model, recalibrated", less, estimate(0.71, 0.57, 0.84))
    for rival in (("constant 2", named, estimate(0.82, 0.65, 0.95)), ("model", named, estimate(0.82, 0.65, 0.95))):
        for low, high in ((-0.32, 0.05), (-0.3, -0.1)):
            document = compared(low, high, -0.05, agents=30_000, model=taught, rival=rival, constant=told(low, high))
            found = verdict(small("portfolio-classes"), document)
            assert (found.answer, found.constant, found.tone) == ("no", "no", "open")
            assert found.title == "The model says the same to everybody"
            assert found.text == (
                "Saying class 2 to everybody errs on 71% of the population (57% to 84%). The model says the same to "
                "everybody: no agents can show it to be better than that."
            )


def test_one_model_that_was_tested_says_its_loss_and_that_nothing_was_asked_about_constants():
    errs, sure = "errs on 12% of the population (8% to 16%)", "with 95% confidence"
    less, none = "errs on less than 16% of the population", {"answer": None, "estimate": None}
    for scenario, document, title, tone, text in (
        (HALTED, {}, f"The model {less}", "good",
         f"A test shows {sure} that the model {less}. The estimate is 12% (8% to 16%).{UNASKED}"),
        (AGNOSTIC, {}, f"The model {errs}", "good", f"The model {errs}, {sure}.{UNASKED}"),
        (AGNOSTIC, {"estimate": WIDE}, "Too few agents answered to tell how good the model is", "open",
         f"The model errs on 0% to 40% of the population, {sure}.{UNASKED}"),
        (("mode=realizable", "alpha=0.05", "accuracy.halt_below=2"), {"status": "exhausted"},
         f"The model is not shown to be below 10%: it {errs}", "open",
         f"The model {errs}, {sure}; it is not shown to be below 10%.{UNASKED}"),
        ((), {"status": "failed", **none}, "No answer: the run failed", "bad", ""),
        ((), {"status": "refused", **none}, "No answer: the run was refused", "bad", ""),
        ((), {"tasks": [{"status": "done"}, {"status": "exhausted"}]},
         "1 of 2 tasks have what was asked for", "open", ""),
    ):  # fmt: skip
        found = verdict(tiny(*scenario), result(**document))
        assert (found.title, found.tone, found.detail) == (title, tone, "why")
        assert found.text == (text or f"{title}.")
        assert found.answer == ("cannot be told" if text else None)


def pair(rival: str, hypothesis: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    return {"rival": rival, "hypothesis": hypothesis, "difference": estimate((low + high) / 2.0, low, high)}


ALONE = pair("agents alone", RAISED, -0.065, -0.048)
PAIRS = [ALONE, pair("constant -1", constant(-1), -0.2, -0.1), pair("constant +1", constant(1), -0.3, -0.2)]


def test_a_model_is_better_than_its_rivals_only_if_agents_told_of_all_of_them():
    """Agents may run out once they have told of the first rival: of constants nothing is shown then."""
    scenario, less = small("discrepancy"), "Its share of mistakes less that of its rivals, with 95% confidence together"
    unasked = "Too few agents were asked about saying the same to everybody"
    worse = pair("constant -1", constant(-1), 0.01, 0.1)
    for pairs, answer, of_constants in (
        (PAIRS, "yes", "yes"),
        (PAIRS[:1], "cannot be told", "cannot be told"),
        (PAIRS[:2], "cannot be told", "cannot be told"),
        ([*PAIRS[:2], pair("constant +1", constant(1), -1.0, 1.0)], "cannot be told", "cannot be told"),
        ([ALONE, worse], "no", "no"),
        ([pair("agents alone", RAISED, 0.01, 0.1)], "no", "cannot be told"),
        ([pair("agents alone", RAISED, -0.01, 0.1), *PAIRS[1:]], "cannot be told", "yes"),
    ):
        found = verdict(scenario, result(pairs=pairs))
        assert (found.answer, found.constant) == (answer, of_constants)
        assert f"{less}: {pairs[0]['rival']}" in found.text
        assert (unasked in found.text) == (len(pairs) < 3 and worse not in pairs)


def test_the_ends_of_pairs_are_rounded_outward():
    pairs = [
        pair("agents alone", RAISED, -0.06522, -0.04787),
        *PAIRS[1:2],
        pair("constant +1", constant(1), -0.0004, 4e-4),
    ]
    found = verdict(small("discrepancy"), result(pairs=pairs))
    assert "agents alone -6.6% to -4.7%; constant -1 -20% to -10%; constant +1 -0.1% to +0.1%." in found.text


def test_pairs_of_which_some_were_silent_are_about_those_who_answered_and_never_green():
    """Also where hardly anybody was silent about the answer's own loss, which alone is counted."""
    few = {**SILENT, "matters": False, "left_out": FOUND}
    whole, some = (verdict(small("discrepancy"), result(pairs=PAIRS, **more)) for more in ({}, {"silent": few}))
    assert (whole.answer, whole.tone) == ("yes", "good")
    assert (some.answer, some.tone) == ("yes", "open")
    assert "Among those who answered: its share of mistakes less that of its rivals" in some.text
    assert "mong those who answered" not in whole.text


def test_how_a_run_ended_does_not_contradict_a_verdict_that_it_cannot_be_told():
    assert verdict(small("portfolio"), compared(-0.1, 0.05, 0.01)).answer == "cannot be told"
    assert ENDED["done"] == "ended as planned"


def test_a_level_that_a_one_sided_test_shows_may_lie_within_the_two_sided_interval_and_it_is_said_why():
    found = verdict(tiny(*HALTED), result(estimate=estimate(0.12, 0.09, 0.164)))
    assert found.title == "The model errs on less than 16% of the population"
    assert "12% (9% to 16.4%): that interval is two-sided and holds for all rounds together" in found.text


def test_a_model_that_errs_on_more_than_half_is_worse_than_the_better_constant():
    found = verdict(tiny(*AGNOSTIC), result(estimate=estimate(0.56, 0.51, 0.61)))
    assert (found.answer, found.tone) == ("no", "open")
    assert found.text.endswith("to everybody errs on 50% at most, so the model is not better.")
    many = {"kind": "argmax", "scores": []}  # of several classes the most frequent one may err on more
    assert verdict(tiny(*AGNOSTIC), result(answer=many, estimate=estimate(0.56, 0.51, 0.61))).answer == "cannot be told"
    assert verdict(tiny(*AGNOSTIC), result(answer=constant(1))).answer == "no"


def test_a_loss_that_is_no_share_of_people_is_a_number():
    found = verdict(tiny(*AGNOSTIC, "agents.loss=hinge", "agents.reweigh=mistakes"), result())
    assert found.title == "The model has a hinge loss of 0.12 (0.0801 to 0.1599)"
    assert "%" not in found.title
    scenario = small("portfolio-regression")
    between = verdict(scenario, compared(-0.1, 0.05, 0.01)).text
    assert f"cannot be told: its {base.tested_loss(scenario)} is 0.1 less to 0.05 more, with 95% confidence" in between


def test_mistakes_that_have_costs_are_told_in_what_a_hundred_people_cost_and_what_one_costs_once():
    costs = Costs(miss=4.0, false_alarm=1.0)
    scenario = small("portfolio", "agents.costs={miss: 4, false_alarm: 1}")
    found = verdict(scenario, compared(-0.1, 0.05, 0.01))
    assert found.text.startswith(
        "The model costs 112 a hundred people, where a miss costs 4, a false alarm 1 (84 to 144). Saying -1 to "
        "everybody costs 140 a hundred people (124 to 156). Whether the model is better cannot be told: it costs 40 a "
        "hundred people less to 20 a hundred people more, with 95% confidence."
    )
    assert exact(0.28, of_costs(costs)) == "112"
    assert measure_of(scenario) == "what a hundred people cost (a miss costs 4, a false alarm 1)"
    assert judged_in_words({"estimate": TAUGHT[2], "asked": 900}, unit=unit_of(scenario)) == (
        "112 a hundred people (84 to 144), 900 agents"
    )


def test_where_nobody_says_what_the_silent_could_change_that_is_said():
    agents = {"enrolled": 600, "asked": 600, "answered": 540}  # without a word of the silent, which are some
    found = verdict(tiny(*HALTED), result(agents=agents))
    assert found.detail == "why; 60 of 600 agents asked did not answer: `referee audit` says what they could change"
    assert found.tone == "open"
    assert verdict(tiny(*HALTED), result(agents={**agents, "answered": 600})).detail == "why"


SILENT = {"missing": 0.71, "most": 0.73, "gap": None, "matters": True,
          "estimate": {"value": 0.12, "low": 0.0216, "high": 0.77317, "confidence": 0.9},
          "left_out": {"value": 0.12, "low": 0.0, "high": 0.8811, "confidence": 0.95}}  # fmt: skip


def test_a_loss_where_some_are_silent_is_about_all_who_were_asked_and_counts_them_against_it():
    few = {**SILENT, "matters": False}
    few["estimate"] = few["left_out"] = {**SILENT["estimate"], "high": 0.155, "confidence": 0.9}
    some = {**few, "matters": True, "left_out": {**SILENT["estimate"], "low": 0.05, "high": 0.161}}
    words = "up to 71.0% of the agents asked about it did not answer"
    could = f"why; {words}: were they to differ from those who did, the loss could be 2% to 78% with 90%"
    asked, vague = (
        " of the population among all who were asked",
        "Too few agents answered to tell how good the model is",
    )
    between = f"it errs on 12%{asked} (5% to 17%)"
    for scenario, silent, title, tone, detail, text in (
        (HALTED, SILENT, vague, "open", could, f"errs on 0% to 89%{asked}, with 95%"),
        (AGNOSTIC, SILENT, vague, "open", "were answers left out because of what they say, it is 0% to 89%", ""),
        (AGNOSTIC, {**SILENT, "gap": 0.8}, vague, "open", "and exceed its rival's by 80 points; were", ""),
        (HALTED, few, f"The model errs on less than 16%{asked}", "good", "the loss is 2% to 16% with 90%", "with 90%"),
        (HALTED, some, f"The model is not shown to be below 16%: {between}", "open", "", "with 90% confidence"),
        (AGNOSTIC, {**some, "matters": False}, between.replace("it", "The model", 1), "good", "", "with 90%"),
        (HALTED, {**SILENT, "left_out": None}, vague, "open", "what they say, nothing is known", "0% to 100%"),
    ):
        found = verdict(tiny(*scenario), result(silent=silent))
        assert (found.title, found.tone) == (title, tone)
        assert detail in found.detail
        assert text in found.text
    problem = verdict(tiny(), result(estimate=None, silent={**SILENT, "estimate": None}))
    assert problem.detail == f"why; {words}: the answer is about those who did, and may be another one for all"
    assert (problem.title, problem.tone) == ("The run has an answer; it depends on those who did not answer", "open")


def test_a_comparison_where_some_are_silent_is_about_those_who_answered_and_never_green():
    found = verdict(own(), compared(-0.16, -0.01, silent={**SILENT, "gap": 0.3}))
    assert (found.answer, found.tone) == ("yes", "open")
    assert found.title == "The model is better than saying '<=50K' to everybody, among those who answered"
    assert found.text.startswith("Among those who answered: the model errs on 28% of the population")


def test_no_confidence_is_rounded_up():
    stated = {0.95: "95%", 0.999: "99.9%", 0.9999999: "99.99%", 0.5: "50%", 0.99996: "99.99%", 1.0 - 1e-14: "99.99%"}
    for confidence, words in stated.items():
        assert certainty(confidence) == words
        found = verdict(tiny(*AGNOSTIC), result(estimate={**FOUND, "confidence": confidence}))
        assert f"with {words} confidence" in found.text


def test_numbers_are_rounded_outward_to_as_many_places_as_an_interval_is_worth():
    found = [ends(*pair) for pair in ((0.2049, 0.3601), (0.201, 0.2511), (0.2011, 0.20789))]
    assert found == ["20% to 37%", "20.1% to 25.2%", "20.11% to 20.79%"]
    assert estimate_or_vague(WIDE) == "0% to 40%: too few agents answered about it to tell"
    assert estimate_or_vague(FOUND, AS_IT_IS) == "0.12 (0.0801 to 0.1599)"
    assert (points(0.0101, up=True), points(0.01, up=True)) == ("1.1 points", "1 point")
    assert points(0.301, up=False) == "30 points"
    assert [rounded_up(count) for count in (5, 5_828, 41_000, 1_234_567)] == ["5", "5,900", "41,000", "1,300,000"]
