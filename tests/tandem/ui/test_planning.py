"""The page of plans: the numbers of ``referee plan``, a light with its reasons, and only the newest of what waits."""

from __future__ import annotations

import re
import threading
from html import unescape

import pytest

from common.core.errors import BadScenario
from common.scenario import loading
from referee.view.show import figure, plans
from tandem.ui.planning import FIELDS, Planned, Planner, Wanted, form, planned
from tests.tandem.ui.asking import outside

QUICK = "select-then-estimate"


def test_the_page_shows_the_numbers_of_the_command(browser):
    page = browser.page(f"/plan?scenario={QUICK}&curator.epsilon=0.7")
    document = plans(loading.load(QUICK, ["curator.epsilon=0.7"]))
    assert document["rows"]
    for row in document["rows"]:
        assert f'<td class="number">{figure(row["paper"])}</td><td class="number">{figure(row["tight"])}</td>' in page
    assert f"referee plan {QUICK} --set curator.epsilon=0.7" in page
    assert "Green" in page
    assert not outside(page)


def test_a_violation_is_amber_with_its_reason():
    found, document = planned(Wanted("halfspace", ())), plans(loading.load("halfspace"))
    assert document["violations"]
    assert not document["advice"]["warnings"]
    assert (found.tone, found.reasons) == ("open", tuple(document["violations"]))
    assert found.told == tuple(document["advice"]["sentences"])


def test_who_cannot_help_is_red_with_its_reason():
    changed = (("curator.n", "50"), ("agents.count", "60"))
    found = planned(Wanted("reverse-adaptation", changed))
    warnings = plans(loading.load("reverse-adaptation", [f"{key}={text}" for key, text in changed]))["advice"][
        "warnings"
    ]
    assert warnings
    assert (found.tone, found.reasons) == ("bad", tuple(warnings))


def test_what_cannot_be_planned_says_why(browser):
    page = unescape(browser.page(f"/plan?scenario={QUICK}&alpha=0.9"))
    assert "This cannot be planned" in page
    assert "alpha" in page.partition("This cannot be planned")[2]
    assert "Red" in page


@pytest.mark.parametrize(
    "query",
    ["scenario=none", "scenario=../x", "scenario=ball&curator.n=[1]", "scenario=ball&alpha=%0adata: /etc", "alpha=nan"],
)
def test_nothing_but_shipped_scenarios_and_numbers_is_taken(browser, query):
    refused, part = browser.get(f"/plan?{query}"), browser.get(f"/plan/part?{query}")
    assert (refused.status_code, part.status_code) == (422, 200)
    assert "This cannot be planned" in part.text
    assert not outside(refused.text + part.text)


def test_other_keys_of_a_scenario_cannot_be_set():
    assert Wanted.of({"scenario": QUICK, "data": "/etc", "curator.learner": "x"}) == Wanted(QUICK, ())


def test_what_the_scenario_has_already_is_no_change():
    own = {shown.field.key: shown.value for shown in form(Wanted(QUICK, ()))}
    assert Wanted.of({"scenario": QUICK, **own}) == Wanted(QUICK, ())


def test_the_form_has_the_scenarios_numbers_and_sliders_within_their_ends():
    shown = {each.field.key: each for each in form(Wanted("parity", (("curator.epsilon", "5"),)))}
    tree = loading.load("parity").wire()
    assert shown["curator.epsilon"].value == "5"
    assert shown["agents.mechanism.epsilon"].value == f"{tree['agents']['mechanism']['epsilon']:g}"
    assert shown["curator.n"].value == "plan"
    assert all(0.0 <= each.slider <= 1.0 for each in shown.values())
    assert "curator.epsilon" not in {each.field.key for each in form(Wanted("halfspace", ()))}  # it has no budget


def test_every_field_of_the_page_has_a_label(browser):
    page = browser.page(f"/plan?scenario={QUICK}")
    named = set(re.findall(r'<label for="([^"]+)"', page))
    fields = re.findall(r"<(?:input|select)([^>]*)>", page)
    assert len(fields) > len(FIELDS)
    for attributes in fields:
        own = re.search(r' id="([^"]+)"', attributes)
        assert 'type="hidden"' in attributes or "aria-label=" in attributes or (own and own[1] in named)


def test_of_what_waits_only_the_newest_is_worked_out():
    begun, go_on, seen = threading.Event(), threading.Event(), []

    def work(wanted: Wanted) -> Planned:
        seen.append(wanted.scenario)
        begun.set()
        assert go_on.wait(60)
        return Planned("good", wanted.scenario)

    planner = Planner(work)
    assert planner.look(Wanted("first", ()), 0.0) is None
    assert begun.wait(60)
    for name in ("second", "third", "fourth"):
        assert planner.look(Wanted(name, ()), 0.0) is None
    go_on.set()
    assert planner.look(Wanted("fourth", ()), 20.0) == Planned("good", "fourth")
    assert seen == ["first", "fourth"]
    assert planner.look(Wanted("first", ()), 0.0) == Planned("good", "first")


def test_a_plan_that_takes_long_is_waited_for(browser, monkeypatch):
    monkeypatch.setattr(Planner, "look", lambda self, wanted, patience: None)
    page = browser.page("/plan/part?scenario=ball")
    assert "the page asks again by itself" in page
    assert "data-ended" not in page


def test_a_fault_of_the_planner_is_told_and_does_not_stop_it():
    def work(wanted: Wanted) -> Planned:
        if wanted.scenario == "bad":
            raise ZeroDivisionError
        return Planned("good", "fine")

    planner = Planner(work)
    found = planner.look(Wanted("bad", ()), 20.0)
    assert found is not None
    assert "a fault of the planner" in found.reasons[0]
    assert planner.look(Wanted("good", ()), 20.0) == Planned("good", "fine")


def test_a_value_that_is_no_number_names_its_field():
    with pytest.raises(BadScenario, match=r"agents\.count must be a number or plan, found 'x'"):
        Wanted.of({"scenario": "ball", "agents.count": "x"})
