"""The page in a real browser, with a real referee: the whole way, and that nobody answers twice."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack, closing
from typing import Any

import pytest

from benchmarks.browsers import launching
from benchmarks.house import ROOT
from common.core.canonical import decode
from common.net.client import WitnessClient
from common.net.oblivious.relay import relay_app
from deploy.people import serving
from issuer.issuer import issuer_app
from referee.service.witness import witness_app
from tests.local_agent.web import people
from tests.local_agent.web.people import GO_ON, Person
from tests.local_agent.web.world import CHROMIUM, OTHERS, PHONE, check_looks
from tests.support import TOKEN, served
from tests.vouched import an_issuer, codes

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
pytestmark = pytest.mark.slow
DESKTOP = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}
FILE = {"name": "me.json", "mimeType": "application/json"}
FIELDS = {"age": 41, "travels": "bicycle", "sport": "yes"}


def check_all_looks(page):
    for look in (DESKTOP, PHONE):
        page.set_viewport_size(look["viewport"])
        page.emulate_media(color_scheme=look["color_scheme"])
        check_looks(page)


def test_from_the_form_to_a_counted_answer_and_nothing_else_leaves(world, person):
    me = person()
    page = me.page
    me.wait("About you")
    assert page.url == f"{world.page}/"
    assert page.evaluate("history.length") <= 2
    check_all_looks(page)
    me.press(GO_ON)
    assert page.evaluate("document.activeElement.id") == "field-1"  # the first that has to be chosen
    me.enter()
    me.wait("Waiting for your question")
    check_all_looks(page)
    world.start()
    me.wait("Your question")
    check_all_looks(page)
    assert page.evaluate("document.activeElement.textContent") == "Your question"
    assert page.evaluate("document.querySelector('dl').lang") == "en"  # in whatever language the page is
    for words in (
        '"How many go <by> bicycle", in the words of the referee',
        '"travels" is "bicycle"',
        "(1, 0)-differential",
    ):
        assert words in me.stage
    me.press("Answer")
    me.wait("You have answered")
    finished = world.end()
    me.check_counted()
    me.show_log()
    check_all_looks(page)
    for words in (
        "The randomized answer",
        "Of your lifetime budget, epsilon 1, 0 is left.",
        " asked. ",
        " agreed. ",
        " answered. ",
    ):
        assert words in me.stage, words
    assert finished.result["agents"]["answered"] == OTHERS + 1
    assert len(me.reports()) == 1
    for each in me.sent:
        assert each.url.startswith((world.page, world.remote.url, "data:")), each.url
        assert not re.search(f"{TOKEN}|bicycle|invitation|answer", each.url), each.url
        body = decode(each.post_data.encode()) if each.post_data else {"message": {}}
        assert not {"age", "travels", "sport", "features", "label"} & {*body["message"]}, body
    assert me.wrong == []


def test_who_does_not_agree_answers_nothing_and_spends_nothing(world, me):
    me.press("Do not answer")
    me.page.wait_for_selector("text=No answer left this device")
    assert world.end().result["lost"] == {"silent": 0, "declined": {"consent-withheld": 1}}
    assert me.reports() == []
    me.show_log()
    assert (" declined. " in me.stage, " answered. " in me.stage) == (True, False)


@CHROMIUM
def test_a_record_from_a_file_is_the_same_and_what_does_not_fit_is_said(world, person):
    me = person()
    me.wait("About you")
    me.page.click("summary:has-text('Or take a file')")
    for content, said in (
        ({**FIELDS, "sport": "perhaps"}, "field 'sport': the label must be one of yes, no"),
        ({"age": 41}, "the record has no field 'sport'"),
        ({**FIELDS, "age": "old"}, "field 'age' must be a finite number"),
        ("not JSON", "not acceptable JSON"),
    ):
        text = content if isinstance(content, str) else json.dumps(content)
        me.page.set_input_files("#file", {**FILE, "buffer": text.encode()})
        me.press(GO_ON)
        me.page.wait_for_selector(f'[role=alert]:has-text("{said}")')
        assert me.page.inner_text("[role=alert]").endswith("Correct it, and go on.")
        check_looks(me.page)
    assert [each for each in me.sent if each.url.startswith(world.remote.url)] == []
    me.page.set_input_files("#file", {**FILE, "buffer": json.dumps(FIELDS).encode()})
    me.press(GO_ON)
    world.start()
    me.agree()
    world.end()


@CHROMIUM
def test_columns_and_values_may_be_called_what_an_object_has_by_itself(browser, tmp_path, monkeypatch):
    """`constructor` is a word for a job, and what an empty object of JavaScript holds under that name is none."""
    odd = ["constructor", "toString", "__proto__"]
    label = {"column": "valueOf", "positive": ["constructor"], "negative": ["name"]}
    features = [{"kind": "category", "column": column, "values": odd} for column in odd]
    monkeypatch.setattr(people, "TABLE", {"label": label, "features": features})
    assert people.page_of(tmp_path, "https://referee.example")[0] == 0
    with serving(tmp_path / "page") as address:
        me = Person(browser.new_context(**PHONE), f"{address}/#invitation={TOKEN}")
        me.wait("About you")
        assert me.page.locator("label").all_inner_texts()[:4] == [*odd, "valueOf"]
        for at in range(3):
            given = me.page.locator(f"#field-{at} option").all_inner_texts()
            assert given == ["please choose", *odd, "I do not know", "something else"]
            me.page.select_option(f"#field-{at}", label="__proto__")
        assert me.page.locator("#field-3 option").all_inner_texts() == ["please choose", "constructor", "name"]
        me.page.select_option("#field-3", label="name")
        me.press(GO_ON)
        me.wait("Waiting for your question")


# Nobody answers twice -------------------------------------------------------------------------------------------------


def test_a_browser_that_is_killed_between_storing_and_sending_sends_the_same_answer(world, browser, tmp_path):
    playwright = browser.browser_type
    own = {"user_data_dir": str(tmp_path / "profile"), **launching(playwright.name), **PHONE}
    context = playwright.launch_persistent_context(**own)
    me = Person(context, world.link)
    me.page.route("**/v1/reports/**", lambda route: None)  # the network takes it, and nothing comes back
    world.start()
    me.be_asked()
    with me.page.expect_request("**/v1/reports/**") as asked:
        me.press("Answer")
    first = asked.value.post_data
    pids = subprocess.run(["pgrep", "-f", f"{tmp_path}/profile"], capture_output=True, text=True, check=True)
    for pid in pids.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    assert not world.running.done()
    (tmp_path / "profile" / "SingletonLock").unlink(missing_ok=True)
    context = playwright.launch_persistent_context(**own)
    try:
        again = Person(context, world.link)
        again.wait("You have answered")
        assert again.reports() == [first]
        assert world.end().result["agents"]["answered"] == OTHERS + 1
    finally:
        context.close()


def test_a_reload_while_the_question_is_open_asks_again_and_one_after_the_answer_does_not(world, me):
    me.page.reload()
    me.answer()  # what was entered is not stored; the invitation is
    me.page.reload()
    me.wait("You have answered")
    world.end()
    assert len({*me.reports()}) == 1


@CHROMIUM
def test_an_answer_that_is_lost_on_its_way_is_sent_again_as_it_was_and_counted_once(world, person):
    me, ways = person(), ["no way there", "no way back"]

    def lose(route: Any) -> None:
        if not ways:
            return route.continue_()
        if ways.pop(0) == "no way back":
            assert route.fetch().status == 200
        return route.abort()

    me.page.route("**/v1/reports/**", lose)
    world.start()
    me.answer()
    assert world.end().result["agents"]["answered"] == OTHERS + 1
    assert ways == []
    assert len(me.reports()) == 3
    assert len({*me.reports()}) == 1


def test_a_run_that_ends_while_the_person_reads_gets_no_answer(world, me):
    world.cancel()
    me.press("Answer")
    me.page.wait_for_selector("text=the question was closed meanwhile")
    me.page.wait_for_timeout(2000)  # in which it has asked for a question again
    assert me.page.is_visible("text=the question was closed meanwhile")
    check_looks(me.page)
    assert me.reports() == []
    me.show_log()
    assert " answered. " not in me.stage


def test_an_answer_that_comes_after_the_run_is_not_counted_and_no_other_one_leaves(world, me):
    me.page.route("**/v1/reports/**", lambda route: route.abort())
    with me.page.expect_request("**/v1/reports/**"):
        me.press("Answer")
    world.cancel()
    me.page.unroute("**/v1/reports/**")
    for _ in range(2):
        me.wait("Your answer was not taken")
        assert "question 0 is closed" in me.stage
        assert "nothing is spent" not in me.stage
        assert "0 is left" in me.stage
        assert me.page.get_by_role("button", name="Check that it is counted").count() == 0
        check_looks(me.page)
        me.page.reload()
    assert len({*me.reports()}) == 1


def test_a_second_tab_says_that_another_one_is_open(browser, alone):
    me = Person(browser.new_context(**PHONE), alone)
    me.wait("About you")
    other = me.page.context.new_page()
    other.goto(alone)
    other.wait_for_selector("text=another tab has this page open")
    assert "nothing is spent" not in other.inner_text("section")  # which that one may have done
    check_looks(other)
    me.page.close()
    for _ in range(2):
        other.reload()
        other.wait_for_selector("h2:text-is('About you')")
    assert other.url == alone.partition("#")[0]
    assert other.query_selector("#invitation") is None  # it is not asked for once it was given


def test_the_state_moves_by_a_file_and_is_gone_once_it_is_deleted(world, person, downloads):
    me = person()
    world.start()
    me.answer()
    world.end()
    saved, before = b"", {*downloads.iterdir()}
    me.press("Save my state as a file")
    while not saved.endswith(b"}"):
        me.page.wait_for_timeout(100)
        saved = b"".join(path.read_bytes() for path in {*downloads.iterdir()} - before)  # Firefox announces no download
    other = person()
    other.wait("About you")
    other.page.set_input_files("#state", {**FILE, "buffer": b"{}"})
    other.page.wait_for_selector("text=this file is no state")
    other.page.reload()
    with other.page.expect_response("**/v1/polls"):
        other.enter()
    other.page.set_input_files("#state", {**FILE, "buffer": b"{"})
    other.page.wait_for_timeout(3000)  # in which it would have asked again
    assert "not acceptable JSON" in other.stage
    other.page.reload()
    other.wait("About you")
    other.page.set_input_files("#state", {**FILE, "buffer": saved})
    other.wait("You have answered")
    me.page.on("dialog", lambda dialog: dialog.accept())
    me.press("Delete everything")
    me.wait("Everything is deleted from this device")
    assert "You have answered" not in me.page.inner_text("main")


def test_a_code_of_the_issuer_vouches_and_a_relay_hides_from_where(world, browser):
    """The referee is dialled by the relay alone; the issuer signs what it cannot see."""
    folder, referee = world.folder, world.referee
    with an_issuer(folder / "issuer") as issuer, ExitStack() as opened:
        vouching = opened.enter_context(served(issuer_app(issuer, folder / "issuer", [world.page])))
        relay = opened.enter_context(served(relay_app(world.remote.url, origins=[world.page])))
        [code] = codes(folder / "issuer", 1)
        key = str(folder / "issuer" / "issuer.json")
        world.write_page("--relay", relay, "--issuer", vouching, "--issuer-key", key)
        referee.registrar.issuers = (issuer.public,)
        me = Person(browser.new_context(**PHONE), world.link)
        me.wait("About you")
        check_looks(me.page)
        me.page.fill("#code", "not-a-code")
        me.enter()
        me.wait("This page cannot go on")
        assert "or enter the invitation again" in me.stage
        me.page.reload()
        me.page.fill("#invitation", TOKEN)
        me.page.fill("#code", code)
        me.enter()
        me.wait("Waiting for your question")
        world.start()
        me.agree()
        world.end()
        me.check_counted()
        dialled = {each.url.split("/v1/")[0] for each in me.sent if "/v1/" in each.url}
        assert dialled == {relay, vouching}
        assert not [each.url for each in me.sent if code in each.url or TOKEN in each.url]
        asked = [each for each in me.sent if each.url == f"{vouching}/v1/token-requests" and each.method == "POST"]
        assert len(asked) == 2  # a wrong code, and the right one
        assert me.wrong == [] or all("401" in each for each in me.wrong), me.wrong


@CHROMIUM
def test_an_answer_counts_once_the_witness_of_the_page_has_seen_it(world, browser):
    folder, referee = world.folder, world.referee
    with served(witness_app(folder / "witness", TOKEN, [world.page])) as place:
        world.write_page("--witness", place)
        me = Person(browser.new_context(**PHONE), world.link)
        world.start()
        me.answer()
        finished = world.end()
        me.press("Check that it is counted")
        me.page.wait_for_selector("text=not witnessed: entry")
        check_looks(me.page)
        with closing(WitnessClient(place, TOKEN)) as witness:
            witness.keep(finished.checkpoints[-1].checkpoint)
        me.check_counted()
        asked = {f"{each.method} {each.url.removeprefix(place)}" for each in me.sent if each.url.startswith(place)}
        run = f"GET /v1/runs/{referee.identity.public}/run?after=0&most=100"
        assert asked - {each for each in asked if each.startswith("OPTIONS ")} == {"GET /v1/witness", run}
        assert me.wrong == []
        page = Person(browser.new_context(**PHONE), world.link).page
        put = f"{place}/v1/runs/{referee.identity.public}/run"
        refused = page.evaluate(f"fetch('{put}', {{method: 'PUT', body: '{{}}'}}).then(() => 'read', () => 'refused')")
        assert refused == "refused"  # no page may make a witness keep something


@CHROMIUM
def test_make_people_shows_how_the_own_answer_is_counted(browser, tmp_path):
    command = [sys.executable, "-m", "deploy.people", str(tmp_path / "run"), "--once"]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as process:
        lines = iter(process.stdout)
        link = next(line for line in lines if line.startswith("Answer here: ")).split()[-1]
        runs = next(line for line in lines if line.startswith("See how it comes in: ")).split()[-1]
        page = browser.new_context(**PHONE).new_page()
        page.set_default_timeout(60_000)
        page.goto(link)
        page.fill("#field-0", "41")
        page.fill("#field-1", "20")
        page.select_option("#field-2", label="by bicycle")
        page.select_option("#field-3", label="yes")
        page.get_by_role("button", name=GO_ON).click()
        page.get_by_role("button", name="Answer", exact=True).click()
        page.wait_for_selector("h2:text-is('You have answered')")
        shown = browser.new_context().new_page()
        shown.goto(runs)
        assert "people" in shown.inner_text("main")
        left = "".join(lines)
    assert process.returncode == 0, left
    assert "201 of 201 people were asked, 201" in left
