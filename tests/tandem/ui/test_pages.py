"""Pages about run folders: what they show is what the result says, and what is no finished run says why."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape
from typer.testing import CliRunner

from common.core import canonical
from common.core.errors import BadData, BadScenario
from common.crypto.identity import Identity
from common.log.receipts import receipt_for
from common.log.transcript import SignedEntry
from common.net.pages import HEADERS, Rules
from common.scenario import loading
from referee.audit.audit import audit
from referee.audit.history import kept_in
from referee.protocols.base import PROTOCOLS
from referee.runfolder import unpack_reports
from referee.runs.percents import estimate_or_vague
from referee.service.witness import WitnessLog
from referee.view.audited import audit_lines
from referee.view.show import figure, plans
from tandem.cli import app
from tandem.ui.app import ui_app
from tandem.ui.folders import LINES_ON_A_PAGE, ON_A_PAGE, RunFolders, Transcript, near_steps, pages_of, story
from tandem.ui.pages import page as made
from tandem.ui.planning import PlanChoice, Planner, PlanView, form, plan_view
from tests.common.core.test_machine import KINDS
from tests.referee.audit.signing import entries_of, identity_of
from tests.support import Bench, small
from tests.tandem.ui.asking import HERE, KEY, RULES, Browser, outside

EVIL = '<script>alert("x")</script>\x1b[31m<img src=x onerror=alert(1)>'


def change(folder, **changes):
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, **changes}))


def test_what_leads_outside_would_be_seen():
    texts = '<a href="http://x"> | <img src=//x> | <script> | <p onclick=x> | <form action="https://x"> | <p style=a>'
    assert all(map(outside, texts.split("|")))


def test_the_list_and_the_page_of_a_run_show_its_result_and_read_it_again_when_it_changes(browser, runs):
    listed, page = browser.page("/"), browser.page("/run/tiny")
    assert 'href="/run/tiny"' in listed
    assert re.search(r'class="badge (good|open)"', listed)
    rounds = json.loads((runs / "tiny" / "result.json").read_text())["rounds"]
    assert rounds
    assert all(estimate_or_vague(numbers) in page for numbers in rounds)
    change(runs / "tiny", reason="halted by hand")
    assert "Halted by hand" in browser.page("/run/tiny")


def test_hostile_texts_and_names_of_folders_are_text_and_hide_no_other(browser, runs):
    name = "a b'\"><script>&?#%2e"
    for other in (name, os.fsdecode(b"\xff\x1b[2J")):
        shutil.copytree(runs / "tiny", runs / other)
    change(runs / "tiny", reason=EVIL, status=EVIL, run=EVIL)
    listed, page = browser.page("/"), browser.page("/run/tiny")
    assert EVIL.replace("\x1b", "\\x1b") in unescape(page)
    links = re.findall(r'href="(/run/[^"]*)"', listed)
    assert "/run/tiny" in links
    (link,) = (link for link in links if "script" in link)
    assert "Round by round" in browser.page(unescape(link))


def test_a_folder_without_a_result_says_what_happened_and_the_others_are_shown(browser, runs):
    begun = runs / "begun"
    begun.mkdir()
    (begun / "claim.json").write_text('{"run": "x", "scenario": "0", "seed": 1}')
    for number, (file, text, words) in enumerate(
        (
            ("result.json", "{", "result.json is not JSON"),
            ("result.json", "{}", "result.json: rounds must be a list of mappings"),
            ("scenario.yaml", "a: [", "scenario.yaml is not YAML"),
            ("scenario.yaml", None, "scenario.yaml cannot be read"),
        )
    ):
        broken = Path(shutil.copytree(runs / "tiny", runs / f"broken{number}"))
        (broken / file).write_text(text) if text else (broken / file).unlink()
        refused = browser.get(f"/run/{broken.name}")
        assert refused.status_code in (404, 422)
        assert "Traceback" not in refused.text
        assert words in browser.page("/") + refused.text, words
    listed = browser.page("/")
    assert all(words in listed for words in ("cannot be shown", "not ended", 'href="/run/tiny"'))
    assert "goes on with it" in browser.get("/run/begun").text


def test_pages_that_are_asked_for_at_once_share_what_is_kept(runs, monkeypatch):
    class Slow(dict[Any, Any]):
        """Lets other threads go first while it is gone through."""

        def __iter__(self):
            for key in super().__iter__():
                time.sleep(0.001)
                yield key

    folders, stamps = RunFolders(runs), itertools.count()
    folders._cache = Slow()
    monkeypatch.setattr("tandem.ui.folders._stamp", lambda path: (float(next(stamps)), 0.0))

    def work(number: int) -> None:
        for at in range(20):
            assert folders.cached("view", runs / f"run{at % 3}", lambda: number) == number

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_runs_are_found_by_words_and_answers_and_compared_side_by_side(browser, runs):
    for name in ("second", "third"):
        shutil.copytree(runs / "tiny", runs / name)
    (runs / "begun").mkdir()
    (runs / "begun" / "claim.json").write_text("{}")
    listed = browser.page("/")
    assert "4 of 4 run folders" in listed
    assert "compared with saying the same to everybody" in listed
    (answer,) = {run.answer for run in RunFolders(runs).listed() if run.name == "tiny"}
    for query, found in (
        ({"words": "SECOND"}, {"second"}),
        ({"words": "second third"}, set()),
        ({"words": "not begun"}, {"begun"}),
        ({"answer": answer}, {"tiny", "second", "third"}),
        ({"answer": "none"}, {"begun"}),
        ({"answer": answer, "words": "tiny"}, {"tiny"}),
    ):
        shown = browser.get("/", params=query).text
        assert set(re.findall(r'<th scope="row">(?:<a[^>]*>)?(\w+)', shown)) == found, query
        assert found or "No run folder fits this filter" in shown
    both = browser.page("/compare?run=tiny&run=second&run=tiny")
    assert "2 runs compared" in both
    assert all(f'href="/run/{name}"' in both for name in ("tiny", "second"))
    refused = {"": "0 are ticked", "run=tiny": "1 are ticked", "run=tiny&run=begun": "goes on with it"}
    for ticked, words in refused.items():
        assert words in browser.page(f"/compare?{ticked}"), ticked


def test_only_the_directorys_own_names_lead_to_a_folder(browser):
    for name in ("%2e%2e", "..%2ftiny", "none", "tiny%2f..%2ftiny", ".%00", "x" * 300):
        assert browser.get(f"/run/{name}").status_code in (404, 422), name


def test_a_directory_may_be_missing_or_one_run_folder(runs):
    for root, words in ((runs / "none", "referee run ball"), (runs / "tiny", 'href="/run/tiny"')):
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


def entries(runs) -> list[SignedEntry]:
    return entries_of(runs / "tiny")


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
    steps = story(entries(runs)).steps
    for at, step in enumerate(steps, start=1):
        page = browser.page(f"/run/tiny/parties?at={at}")
        assert ('rel="next"' in page, 'rel="prev"' in page) == (at < len(steps), at > 1)
        text = unescape(page)
        parties = re.findall(r'<section class="party( speaks)?"><h2>([^<]*)</h2>\s*<p>([^<]*)</p>', text)
        sends = {name: bool(speaks) for speaks, name, _ in parties}
        assert list(sends) == ["Curator", "Referee", "Each agent"]
        assert not any(speaks and does.startswith("It has no part") for speaks, _, does in parties)
        assert sends["Curator"] == (step.way.startswith("from the curator") or "and back" in step.way)
        assert sends["Each agent"] == step.way.startswith("from the agents")
        for kind, words in {
            "configuration": "People are simulated",
            "terms": f"it has {step.says.get('people', 0):,} people",
            "question": "What each agent is asked",
            "answers": "tells the truth with probability 0.881, and the contrary with 0.119",  # e^2/(1 + e^2)
            "operation": "no outcome would be more than"
            if step.title.endswith("learn")
            else "the same for all records",
        }.items():
            assert step.kind != kind or words in text
    beyond = browser.get(f"/run/tiny/parties?at={len(steps) + 1}")
    assert (beyond.status_code, f"his run has {len(steps)} steps" in beyond.text) == (404, True)


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
    *lines, last = file.read_text().splitlines()
    last = json.loads(last)
    last["body"]["result"]["reason"] = last["body"]["result"]["status"] = EVIL
    file.write_text("".join(line + "\n" for line in [*lines, json.dumps(last)]))
    assert "alert" in browser.page(f"/run/tiny/parties?at={len(story(entries(runs)).steps)}")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROTOCOLS.names()))
def test_the_story_of_every_protocol_can_be_told(name, tmp_path):
    with Bench(tmp_path, small(name)) as bench:
        bench.run()
        found = [SignedEntry.model_validate_json(line) for line in bench.referee.store.entries("run")]
    numbers = [number for step in story(found).steps for number in step.entries]
    assert sorted(numbers) == list(range(len(found)))
    around = {"here": "runs", "part": "parties", "name": "run", "count": 1, "notice": "", "messages": ()}
    steps = story(found).steps
    for at, step in enumerate(steps, 1):
        text = made("parties.html", step=step, most=1, at=at, groups=near_steps(steps, at), **around)
        assert f'at={at}" aria-current="step">{escape(step.title)}</a>' in text
        assert text.count('<section class="party') == 3


QUICK = "select-then-estimate"


def test_the_page_shows_the_numbers_of_the_command(browser, monkeypatch):
    monkeypatch.setattr("tandem.ui.planning.PATIENCE", 600.0)
    page = browser.page(f"/plan?scenario={QUICK}&curator.epsilon=0.7")
    document = plans(loading.load(QUICK, ["curator.epsilon=0.7"]))
    assert document["rows"]
    for row in document["rows"]:
        assert f'<td class="number">{figure(row["paper"])}</td><td class="number">{figure(row["tight"])}</td>' in page
    assert f"referee plan {QUICK} --set curator.epsilon=0.7" in page
    assert "Green" in page


def test_a_violation_is_amber_and_who_cannot_help_is_red_each_with_its_reason():
    found, document = plan_view(PlanChoice("halfspace", ())), plans(loading.load("halfspace"))
    assert document["violations"]
    assert (found.tone, found.reasons) == ("open", tuple(document["violations"]))
    assert found.detectable[1:] == tuple(document["advice"]["sentences"])  # the first is about the scenario itself
    changed = (("curator.n", "50"), ("agents.count", "60"))
    chosen = loading.load("reverse-adaptation", [f"{key}={text}" for key, text in changed])
    warnings = plans(chosen)["advice"]["warnings"]
    found = plan_view(PlanChoice("reverse-adaptation", changed))
    assert (found.tone, found.reasons) == ("bad", tuple(warnings))
    assert warnings


def test_nothing_but_shipped_scenarios_and_numbers_is_taken(browser, monkeypatch):
    monkeypatch.setattr("tandem.ui.planning.PATIENCE", 600.0)
    page = unescape(browser.page(f"/plan?scenario={QUICK}&alpha=0.9"))
    assert "alpha" in page.partition("This cannot be planned")[2]
    assert "Red" in page
    for query in (
        *("scenario=none", "scenario=../x", "alpha=nan"),
        *("scenario=ball&curator.n=[1]", "scenario=ball&alpha=%0adata: /etc"),
    ):
        refused, part = browser.get(f"/plan?{query}"), browser.get(f"/plan/part?{query}")
        assert (refused.status_code, part.status_code) == (422, 200)
        assert "This cannot be planned" in part.text
        assert not outside(refused.text + part.text)


def test_a_wrong_number_keeps_the_form_and_names_the_field_as_the_form_does(browser):
    refused = browser.get(f"/plan?scenario={QUICK}&alpha=x&curator.epsilon=0.7")
    page = unescape(refused.text)
    assert refused.status_code == 422
    assert """role="alert">'Error that is aimed at (alpha)' must be a number, such as 0.5, found 'x'.""" in page
    assert re.search(r'name="alpha" value="x"[^>]*aria-invalid="true"', page)
    assert 'name="curator.epsilon" value="0.7"' in page
    assert f"<option selected>{QUICK}</option>" in page


def test_sentences_come_before_formulas_and_every_number_last(browser, monkeypatch):
    monkeypatch.setattr("tandem.ui.planning.PATIENCE", 600.0)
    page = browser.page("/plan?scenario=halfspace")
    places = [page.index(words) for words in ("budgets are kept", "What the run will tell", "bounds are not met</h2>")]
    assert sorted(places) == places
    assert places[-1] < page.index("Every number")


def test_the_form_has_the_scenarios_numbers_and_sliders_within_their_ends():
    shown = {each["field"].key: each for each in form(PlanChoice("parity", (("curator.epsilon", "5"),)))}
    tree = loading.load("parity").wire()
    assert shown["curator.epsilon"]["value"] == "5"
    assert shown["agents.mechanism.epsilon"]["value"] == f"{tree['agents']['mechanism']['epsilon']:g}"
    assert shown["curator.n"]["value"] == "plan"
    assert all(0.0 <= each["slider"] <= 1.0 for each in shown.values())
    without_budget = form(PlanChoice("halfspace", ()))
    assert "curator.epsilon" not in {each["field"].key for each in without_budget}


def test_of_what_waits_only_the_newest_is_worked_out():
    begun, go_on, seen = threading.Event(), threading.Event(), []

    def work(wanted: PlanChoice) -> PlanView:
        seen.append(wanted.scenario)
        begun.set()
        assert go_on.wait(60)
        return PlanView("good", wanted.scenario)

    planner = Planner(work)
    assert planner.look(PlanChoice("first", ()), 0.0) is None
    assert begun.wait(60)
    for name in ("second", "third", "fourth"):
        assert planner.look(PlanChoice(name, ()), 0.0) is None
    go_on.set()
    assert planner.look(PlanChoice("fourth", ()), 20.0) == PlanView("good", "fourth")
    assert seen == ["first", "fourth"]
    assert planner.look(PlanChoice("first", ()), 0.0) == PlanView("good", "first")


def test_a_plan_that_takes_long_is_waited_for(browser, monkeypatch):
    monkeypatch.setattr(Planner, "look", lambda self, wanted, patience: None)
    page = browser.page("/plan/part?scenario=ball")
    assert "the page asks again by itself" in page
    assert "data-ended" not in page


def test_a_fault_of_the_planner_is_told_and_does_not_stop_it():
    faults = list(KINDS)

    def work(wanted: PlanChoice) -> PlanView:
        if faults:
            raise faults.pop()
        return PlanView("good", "fine")

    planner = Planner(work)
    for number in range(len(KINDS)):
        assert "a fault of the planner" in planner.look(PlanChoice(f"bad {number}", ()), 600.0).reasons[0]
    assert planner.look(PlanChoice("good", ()), 600.0) == PlanView("good", "fine")


def test_a_query_sets_numbers_of_the_form_and_nothing_else():
    with pytest.raises(BadScenario, match="'Agents' must be a number, or plan, found 'x'"):
        PlanChoice.from_query({"scenario": "ball", "agents.count": "x"})
    own = {shown["field"].key: shown["value"] for shown in form(PlanChoice(QUICK, ()))}
    for query in ({"data": "/etc", "curator.learner": "x"}, own):  # what the scenario has already is no change
        assert PlanChoice.from_query({"scenario": QUICK, **query}) == PlanChoice(QUICK, ())


@pytest.fixture
def stranger(runs) -> Browser:
    return Browser(ui_app(RunFolders(runs), RULES), admitted=False)


def test_the_printed_address_admits_and_hides_its_key(stranger):
    opened = stranger.get(f"/?key={KEY}")
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    assert all(words in opened.headers["set-cookie"] for words in (KEY, "HttpOnly", "SameSite=strict"))
    for path in ("//evil.example/", "/\\evil.example/"):  # the way back leads nowhere else
        opened = stranger.get(f"{HERE}{path}?key={KEY}&a=b")
        assert opened.headers["location"] == "/evil.example/?a=b"
    for other in ('prefs={"a": 1}', "a[b]=1", "bad"):  # of another server on this machine: cookies know no ports
        headers = {"Cookie": f"{other}; {RULES.cookie}={KEY}"}
        assert stranger.get("/", headers=headers).status_code == 200, other


def test_without_the_key_nothing_is_shown(stranger):
    for path in ("/", "/run/tiny", "/static/ui.css", "/nothing", "/?key=", "/?key=wrong"):
        refused = stranger.get(path)
        assert refused.status_code == 403, path
        assert "Open the address that `tandem ui` printed" in refused.text
        assert "tiny" not in refused.text


def test_another_host_and_a_form_of_another_site_are_refused(browser):
    """A page elsewhere whose name was made to resolve to this machine; and a request that names no host."""
    for host, status in (
        *(("evil.example:8100", 421), ("127.0.0.1:8101", 421), ("127.0.0.1", 421), ("", 400)),
        *(("localhost.evil.example:8100", 421), ("localhost:8100", 200)),
    ):
        assert browser.get("/", headers={"Host": host}).status_code == status, host
    assert {"127.0.0.1", "[::1]:80"} < set(Rules(KEY, 80).hosts)  # as browsers write the usual port, and others
    for origin in ("", "null", "http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8100"):
        headers = {"Origin": origin} if origin else {}
        sent = browser.ask("POST", "/run/tiny/audit", data={"token": RULES.form_token}, headers=headers)
        assert (sent.status_code, "another site" in sent.text) == (403, True), origin
    assert browser.ask("POST", "/run/tiny/audit", data={"token": "x"}, headers={"Origin": HERE}).status_code == 401
    assert browser.get("/run/tiny/audit").status_code == 405


def test_every_answer_carries_the_strict_policy(browser, stranger, monkeypatch):
    answers = [browser.get(path) for path in ("/", "/run/tiny", "/static/ui.js", "/nothing", "/run/none")]
    monkeypatch.setattr(RunFolders, "listed", lambda self: 1 / 0)
    broken = browser.get("/")
    assert broken.status_code == 500
    assert "its log says more" in broken.text
    assert "division" not in broken.text
    for found in (*answers, stranger.get("/"), broken):
        assert {name: found.headers[name] for name in HEADERS} == HEADERS
        assert "unsafe" not in found.headers["Content-Security-Policy"]


def test_a_body_is_limited(browser):
    assert browser.post("/run/tiny/audit", {"more": "x" * 70_000}).status_code == 413


SCRIPT = "<script>alert(1)</script>"


def lines(runs) -> list[bytes]:
    return (runs / "tiny" / "transcript.jsonl").read_bytes().splitlines()


def test_every_entry_is_listed_with_its_hash_and_signers_and_shown_as_the_json_that_it_is(browser, runs):
    page, held = browser.page("/run/tiny/transcript"), lines(runs)
    for number, line in enumerate(held):
        for words in (f'/run/tiny/transcript/{number}">{number}</a>', json.loads(line)["hash"][:12], f"{len(line):,}"):
            assert words in page
    referee, curator = json.loads(held[0])["body"]["referee"], json.loads(held[1])["body"]["terms"]["key"]
    assert f"curator {curator[:8]}" in page
    assert f"referee {referee[:8]}" in page
    shown = browser.page("/run/tiny/transcript/2")
    (text,) = re.findall(r"<pre[^>]*>(.*?)</pre>", shown, re.DOTALL)
    assert json.loads(unescape(text)) == json.loads(held[2])
    found = browser.get("/run/tiny/transcript.jsonl")
    assert found.content == (runs / "tiny" / "transcript.jsonl").read_bytes()
    assert found.headers["content-type"].startswith("text/plain")


def test_lists_and_long_entries_have_pages(browser, runs):
    whole = Transcript(b"[]\n" * (2 * ON_A_PAGE + 1))
    assert [len(whole.listed(page * ON_A_PAGE)) for page in (0, 2, 3)] == [ON_A_PAGE, 1, 0]
    assert pages_of(len(whole.lines)) == 3
    entry = json.loads(lines(runs)[0])
    entry["body"]["more"] = list(range(2 * LINES_ON_A_PAGE))
    (runs / "tiny" / "transcript.jsonl").write_text(json.dumps(entry) + "\n")
    first, second = (browser.page(f"/run/tiny/transcript/0?at={at}") for at in (1, 2))
    assert 'rel="next"' in first
    assert 'rel="prev"' in second
    assert [f"{LINES_ON_A_PAGE + 100}," in page for page in (first, second)] == [False, True]


def test_the_audit_of_the_server_says_what_the_command_says(browser, runs):
    page = unescape(browser.post("/run/tiny/audit").text)
    assert "<h1>Verified</h1>" in page
    assert all(line[1:] in page for line in audit_lines(audit(runs / "tiny")))
    assert not outside(page)
    file = runs / "tiny" / "transcript.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"answered":', b'"answered":1', 1))
    page = browser.post("/run/tiny/audit").text
    assert "<h1>Not verified</h1>" in page
    assert "was changed: its hash does not match its content" in page


def test_lines_that_are_no_entries_and_hostile_texts_in_entries_are_shown_as_text(browser, runs):
    file = runs / "tiny" / "transcript.jsonl"
    entry = json.loads(lines(runs)[3])
    entry["kind"], entry["body"]["query"]["kind"] = "question", SCRIPT + "\x1b[31m\u202e"
    file.write_bytes(file.read_bytes() + json.dumps(entry).encode() + b"\n" + SCRIPT.encode() + b'\xff{\n{"index":')
    last = len(lines(runs)) - 1
    pages = [browser.page(f"/run/tiny/transcript{path}") for path in ("", f"/{last - 2}", f"/{last - 1}", f"/{last}")]
    assert "\u202e" not in "".join(pages)
    assert "the line is no entry: it was cut off or changed" in pages[0]
    assert "&lt;script&gt;" in pages[2]


def test_what_is_not_there_is_not_found(browser, runs):
    for path in ("/9999", "/-1", "/x", "/0?at=0", "?at=0"):
        found = browser.get(f"/run/tiny/transcript{path}")
        assert (found.status_code in (404, 422), "Traceback" in found.text) == (True, False), path
    (runs / "tiny" / "transcript.jsonl").unlink()
    found = browser.get("/run/tiny/transcript")
    assert (found.status_code, "transcript.jsonl cannot be read" in found.text) == (404, True)


def test_checkpoints_are_listed_with_who_has_seen_them_and_another_history_is_said_so(browser, runs, tmp_path):
    kept = kept_in(runs / "tiny")
    page = unescape(browser.page("/run/tiny/history"))
    assert kept
    assert all(each.verified().hash[:12] in page for each in kept)
    assert "no witness has seen this history: the referee could show others another one" in page.replace("No w", "no w")
    log = WitnessLog(tmp_path, Identity.create(), lambda: 86400.0)
    words = [each.model_copy(update={"witnessed": (log.keep(each.checkpoint),)}) for each in kept]
    (runs / "tiny" / "checkpoints.jsonl").write_bytes(b"".join(canonical.encode(w.wire()) + b"\n" for w in words))
    page = browser.page("/run/tiny/history")
    assert f"{words[0].witnessed[0].key[:16]}</code> since 1970-01-02 00:00:00 UTC" in page
    assert ", to its end." in page
    path = runs / "tiny" / "transcript.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    page = unescape(browser.page("/run/tiny/history"))
    assert all(words in page for words in ("This does not agree:", "here it is cut short"))


def test_a_receipt_is_compared_with_the_reports(browser, runs, undisturbed):
    run = json.loads(lines(runs)[0])["body"]["configuration"]["run"]
    stored = next(unpack_reports((runs / "tiny" / "reports" / "1.reports").read_bytes()))
    good, bad = (
        receipt_for(identity_of(undisturbed[0]), run, 1, signature, 7).decode()
        for signature in (stored.signature.hex(), "ab" * 64)
    )
    held = json.dumps({"receipt": json.loads(good), "report": {}, "leaf": ""})
    for text, words in (
        (good, "Compared with 1 receipt: its report is there"),
        (held, "Compared with 1 receipt: its report is there"),
        (bad, "a report on question 1 is left out"),
        *((text, "this is no receipt") for text in ("", "{", "[]", SCRIPT, '{"receipt": 3}', "[" * 5000)),
    ):
        page = browser.post("/run/tiny/receipt", {"receipt": text})
        assert page.status_code == 200
        assert words in page.text
        assert "<script>alert" not in page.text


def test_only_this_machine_is_served():
    for host in ("0.0.0.0", "192.0.2.1", "example.org"):
        done = CliRunner().invoke(app, ["ui", "--host", host])
        assert done.exit_code == 1
        assert all(words in done.stderr for words in ("--host must be 127.0.0.1 or ::1", "ssh -L"))
