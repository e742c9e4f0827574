"""Pages about run folders: what they show is what the result says, and what is no finished run says why."""

import json
import os
import re
import shutil
import threading
from html import unescape
from pathlib import Path

import pytest

from common.core.errors import BadData, BadScenario
from common.log.transcript import SignedEntry
from common.scenario import loading
from referee.protocols.base import PROTOCOLS
from referee.view.show import figure, plans
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tandem.ui.pages import page as made
from tandem.ui.parties import story
from tandem.ui.planning import FIELDS, Planned, Planner, WantedPlan, form, planned
from tests.common.core.test_machine import KINDS
from tests.support import Bench, small
from tests.tandem.ui.asking import RULES, Browser, outside
from tests.tiers import for_each

EVIL = '<script>alert("x")</script>\x1b[31m<img src=x onerror=alert(1)>'


def change(folder, **changes):
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, **changes}))


@for_each(
    "text",
    ['<a href="http://x">', "<img src=//x>", "<script>", "<p onclick=x>", '<form action="https://x">', "<p style=a>"],
)
def test_what_leads_outside_would_be_seen(text):
    assert outside(text)


def test_the_list_names_each_run_with_its_verdict(browser):
    page = browser.page("/")
    assert 'href="/run/tiny"' in page
    assert re.search(r'class="badge (good|open)"', page)
    assert not outside(page)


def test_the_page_of_a_run_shows_its_result(browser, runs):
    page, result = browser.page("/run/tiny"), json.loads((runs / "tiny" / "result.json").read_text())
    assert result["rounds"]
    for numbers in result["rounds"]:
        assert f"{numbers['low']:.4f}" in page
        assert f"{numbers['high']:.4f}" in page
        assert f'<td class="number">{numbers["asked"]:,.0f}</td>' in page
    assert f"{result['agents']['asked']:,} of {result['agents']['enrolled']:,}" in page
    assert not outside(page)


def test_a_result_that_changes_is_read_again(browser, runs):
    assert "halted by hand" not in browser.page("/run/tiny")
    change(runs / "tiny", reason="halted by hand")
    assert "Halted by hand" in browser.page("/run/tiny")


def test_hostile_text_is_text(browser, runs):
    change(runs / "tiny", reason=EVIL, status=EVIL, run=EVIL)
    for path in ("/", "/run/tiny"):
        page = browser.page(path)
        assert not outside(page)
        assert "\x1b" not in page
    assert EVIL.replace("\x1b", "\\x1b") in unescape(browser.page("/run/tiny"))


def test_a_folder_whose_name_is_no_text_hides_no_other(browser, runs):
    shutil.copytree(runs / "tiny", runs / os.fsdecode(b"\xff\x1b[2J"))
    page = browser.page("/")
    assert "\x1b" not in page
    assert 'href="/run/tiny"' in page


def test_a_hostile_folder_name_is_text_and_its_link_leads_to_it(browser, runs):
    name = "a b'\"><script>&?#%2e"
    shutil.copytree(runs / "tiny", runs / name)
    page = browser.page("/")
    assert not outside(page)
    (link,) = (link for link in re.findall(r'href="(/run/[^"]*)"', page) if "tiny" not in link)
    assert "Round by round" in browser.page(unescape(link))


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda folder: (folder / "result.json").unlink(), "scenario.yaml"),
        (lambda folder: (folder / "result.json").write_text("{"), "result.json is not JSON"),
        (lambda folder: (folder / "result.json").write_text("{}"), "result.json cannot be read"),
        (lambda folder: (folder / "scenario.yaml").write_text("a: ["), "scenario.yaml is not YAML"),
        (lambda folder: (folder / "scenario.yaml").unlink(), "scenario.yaml cannot be read"),
    ],
)
def test_a_damaged_folder_says_what_happened_and_the_others_are_shown(browser, runs, break_it, words):
    shutil.copytree(runs / "tiny", runs / "broken")
    break_it(runs / "broken")
    page = browser.page("/")
    assert "cannot be shown" in page or "not ended" in page
    assert 'href="/run/tiny"' in page
    refused = browser.get("/run/broken")
    assert refused.status_code in (404, 422)
    assert "Traceback" not in refused.text
    assert words in page + refused.text or "result.json" in page


def test_a_run_that_has_not_ended_says_how_to_go_on(browser, runs):
    (runs / "begun").mkdir()
    (runs / "begun" / "claim.json").write_text('{"run": "x", "scenario": "0", "seed": 1}')
    assert "not ended" in browser.page("/")
    assert "goes on with it" in browser.get("/run/begun").text


@pytest.mark.parametrize("name", ["%2e%2e", "..%2ftiny", "none", "tiny%2f..%2ftiny", ".%00", "x" * 300])
def test_only_the_directorys_own_names_lead_to_a_folder(browser, name):
    assert browser.get(f"/run/{name}").status_code in (404, 422)


def test_a_directory_may_be_empty_or_missing_or_one_run_folder(tmp_path, runs):
    for root, words in (
        (tmp_path / "none", "referee run ball"),
        (runs / "none", "referee run ball"),
        (runs / "tiny", 'href="/run/tiny"'),
    ):
        assert words in Browser(ui_app(RunFolders(root), RULES)).page("/")


def test_nothing_private_is_opened(browser, runs, monkeypatch):
    """What lies in ``state`` is a party's own."""
    (runs / "tiny" / "state").mkdir()
    (runs / "tiny" / "state" / "curator.key").write_text("the curator's secret")
    opened: list[str] = []
    for owner, name in ((Path, "read_bytes"), (Path, "read_text"), (Path, "open"), (os, "open")):
        real = getattr(owner, name)
        noting = lambda path, *a, real=real, **k: (opened.append(str(path)), real(path, *a, **k))[1]  # noqa: E731
        monkeypatch.setattr(owner, name, noting)
    for path in ("/", "/run/tiny", "/run/state", "/run/tiny%2fstate"):
        assert "secret" not in browser.get(path).text
    assert any("result.json" in path for path in opened)
    assert not [path for path in opened if "state" in path.removeprefix(str(runs))]


PARTIES_EVIL = "<script>alert(1)</script>\x1b[31m"


def entries(runs) -> list[SignedEntry]:
    return [
        SignedEntry.model_validate_json(line) for line in (runs / "tiny" / "transcript.jsonl").read_bytes().splitlines()
    ]


def test_every_message_is_in_one_step_in_order_with_its_numbers(runs):
    found = entries(runs)
    steps = story(found).steps
    assert sorted(number for step in steps for number in step.entries) == list(range(len(found)))
    assert [step.entries[0] for step in steps] == sorted(step.entries[0] for step in steps)
    for step in steps:
        held = [found[number] for number in step.entries]
        if step.kind == "question":
            asked = sum(stop - start for entry in held for _, start, stop in entry.body["parts"])
            assert step.title == f"A question to {asked:,} agents"
        if step.kind == "answers":
            assert step.title == f"The answers of {sum(entry.body['answered'] for entry in held):,} agents"
        if step.kind == "terms":
            assert step.says["people"] == held[0].body["terms"]["message"]["n"]


def test_each_page_tells_what_leaves_whom_and_what_is_learned(browser, runs):
    for at, step in enumerate(story(entries(runs)).steps, start=1):
        text = unescape(browser.page(f"/run/tiny/parties?at={at}"))
        parties = re.findall(r'<section class="party( speaks)?"><h2>([^<]*)</h2>\s*<p>([^<]*)</p>', text)
        sends = {name: bool(speaks) for speaks, name, _ in parties}
        assert list(sends) == ["Curator", "Referee", "Each agent"]
        assert not any(speaks and does.startswith("It has no part") for speaks, _, does in parties)
        assert sends["Curator"] == (step.way.startswith("from the curator") or "and back" in step.way)
        assert sends["Each agent"] == step.way.startswith("from the agents")
        for kind, words in {
            "terms": f"it has {step.says.get('people', 0):,} people",
            "answers": "tells the truth with probability 0.881, and the contrary with 0.119",  # e^2/(1 + e^2)
            "operation": "no outcome would be more than"
            if step.title.endswith("learn")
            else "the same for all records",
        }.items():
            assert step.kind != kind or words in text


def test_the_pages_go_through_the_run(browser, runs):
    count = len(story(entries(runs)).steps)
    pages = [browser.page(f"/run/tiny/parties?at={at}") for at in range(1, count + 1)]
    for at, page in enumerate(pages, start=1):
        assert f"Step {at} of {count}" in page
        assert ('rel="next"' in page) == (at < count)
        assert ('rel="prev"' in page) == (at > 1)
        assert not outside(page)
    assert "People are simulated" in pages[0]
    beyond = browser.get(f"/run/tiny/parties?at={count + 1}")
    assert beyond.status_code == 404
    assert f"his run has {count} steps" in beyond.text


def test_a_damaged_transcript_says_so(browser, runs):
    file = runs / "tiny" / "transcript.jsonl"
    lines = file.read_text().splitlines()
    other_body = json.dumps({**json.loads(lines[1]), "body": {"terms": 3}})
    for damaged in ([lines[0], lines[1][:50]], lines[1:], [lines[0], other_body], []):
        file.write_text("".join(line + "\n" for line in damaged))
        found = browser.get("/run/tiny/parties")
        assert found.status_code == 422
        assert "Traceback" not in found.text
        with pytest.raises((BadData, ValueError)):
            story(entries(runs))


def test_hostile_text_of_a_message_is_text(browser, runs):
    file = runs / "tiny" / "transcript.jsonl"
    lines = file.read_text().splitlines()
    last = json.loads(lines[-1])
    last["body"]["result"]["reason"] = last["body"]["result"]["status"] = PARTIES_EVIL
    file.write_text("".join(line + "\n" for line in [*lines[:-1], json.dumps(last)]))
    count = len(story(entries(runs)).steps)
    page = browser.page(f"/run/tiny/parties?at={count}")
    assert not outside(page)
    assert "\x1b" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROTOCOLS.names()))
def test_the_story_of_every_protocol_can_be_told(name, tmp_path):
    with Bench(tmp_path, small(name)) as bench:
        bench.run()
        found = [SignedEntry.model_validate_json(line) for line in bench.referee.store.entries("run")]
    numbers = [number for step in story(found).steps for number in step.entries]
    assert sorted(numbers) == list(range(len(found)))
    around = {"here": "runs", "part": "parties", "name": "run", "at": 1, "count": 1, "notice": "", "messages": ()}
    for step in story(found).steps:
        text = made("parties.html", step=step, most=1, titles=[(1, step.title)], **around)
        assert text.count('<section class="party') == 3


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


def test_a_violation_is_amber_and_who_cannot_help_is_red_each_with_its_reason():
    found, document = planned(WantedPlan("halfspace", ())), plans(loading.load("halfspace"))
    assert document["violations"]
    assert not document["advice"]["warnings"]
    assert (found.tone, found.reasons) == ("open", tuple(document["violations"]))
    assert found.detectable == tuple(document["advice"]["sentences"])
    changed = (("curator.n", "50"), ("agents.count", "60"))
    chosen = loading.load("reverse-adaptation", [f"{key}={text}" for key, text in changed])
    warnings = plans(chosen)["advice"]["warnings"]
    assert warnings
    found = planned(WantedPlan("reverse-adaptation", changed))
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


def test_the_form_has_the_scenarios_numbers_and_sliders_within_their_ends():
    shown = {each.field.key: each for each in form(WantedPlan("parity", (("curator.epsilon", "5"),)))}
    tree = loading.load("parity").wire()
    assert shown["curator.epsilon"].value == "5"
    assert shown["agents.mechanism.epsilon"].value == f"{tree['agents']['mechanism']['epsilon']:g}"
    assert shown["curator.n"].value == "plan"
    assert all(0.0 <= each.slider <= 1.0 for each in shown.values())
    assert "curator.epsilon" not in {each.field.key for each in form(WantedPlan("halfspace", ()))}  # it has no budget


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

    def work(wanted: WantedPlan) -> Planned:
        seen.append(wanted.scenario)
        begun.set()
        assert go_on.wait(60)
        return Planned("good", wanted.scenario)

    planner = Planner(work)
    assert planner.look(WantedPlan("first", ()), 0.0) is None
    assert begun.wait(60)
    for name in ("second", "third", "fourth"):
        assert planner.look(WantedPlan(name, ()), 0.0) is None
    go_on.set()
    assert planner.look(WantedPlan("fourth", ()), 20.0) == Planned("good", "fourth")
    assert seen == ["first", "fourth"]
    assert planner.look(WantedPlan("first", ()), 0.0) == Planned("good", "first")


def test_a_plan_that_takes_long_is_waited_for(browser, monkeypatch):
    monkeypatch.setattr(Planner, "look", lambda self, wanted, patience: None)
    page = browser.page("/plan/part?scenario=ball")
    assert "the page asks again by itself" in page
    assert "data-ended" not in page


def test_a_fault_of_the_planner_is_told_and_does_not_stop_it():
    faults = list(KINDS)

    def work(wanted: WantedPlan) -> Planned:
        if faults:
            raise faults.pop()
        return Planned("good", "fine")

    planner = Planner(work)
    for number in range(len(KINDS)):
        found = planner.look(WantedPlan(f"bad {number}", ()), 600.0)
        assert found is not None
        assert "a fault of the planner" in found.reasons[0]
    assert planner.look(WantedPlan("good", ()), 600.0) == Planned("good", "fine")


def test_a_query_sets_numbers_of_the_form_and_nothing_else():
    with pytest.raises(BadScenario, match=r"agents\.count must be a number or plan, found 'x'"):
        WantedPlan.of({"scenario": "ball", "agents.count": "x"})
    own = {shown.field.key: shown.value for shown in form(WantedPlan(QUICK, ()))}
    for query in ({"data": "/etc", "curator.learner": "x"}, own):  # what the scenario has already is no change
        assert WantedPlan.of({"scenario": QUICK, **query}) == WantedPlan(QUICK, ())
