"""The page in a real browser, with a real referee: the whole way, what goes wrong, and that nobody answers twice."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from benchmarks.browsers import launching
from benchmarks.house import ROOT
from common.core.canonical import decode
from common.net.client import WitnessClient
from common.net.oblivious.relay import relay_app
from common.scenario import loading
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario
from curator.startup import open_curator
from deploy.deployment import RunOutput
from deploy.people import serving
from deploy.remote import Remote
from issuer.issuer import issuer_app
from local_agent.host import Host
from local_agent.hosted.population import open_population
from referee.audit.audit import audit
from referee.collection.enrolment import invited
from referee.service.referee import Referee
from referee.service.witness import witness_app
from tests.local_agent.web.people import GO_ON, Person, page_of, scenario_file
from tests.support import TOKEN, leave_folder, operated, served
from tests.tandem.ui.asking import browser_of, scrolls_sideways, violations
from tests.vouched import an_issuer, codes

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
pytestmark = pytest.mark.slow
BROWSERS = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("chromium", "firefox")]
CHROMIUM = pytest.mark.parametrize("browser", BROWSERS[:1], indirect=True)  # what no browser does differently
PHONE = {"viewport": {"width": 360, "height": 720}, "color_scheme": "light"}
LOOKS = (PHONE, {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"})
FILE = {"name": "me.json", "mimeType": "application/json"}
OTHERS = 35  # the fewest with whom the protocol promises something
FIELDS = {"age": 41, "travels": "bicycle", "sport": "yes"}


@dataclass
class World:
    """A referee, a page for it and who serves that, and what has reached the referee's store."""

    folder: Path
    referee: Referee
    remote: Remote
    chosen: ResolvedScenario
    page: str
    running: list[Thread] = field(default_factory=list)
    finished: list[RunOutput] = field(default_factory=list)

    @property
    def link(self) -> str:
        return f"{self.page}/#referee=x&key={self.referee.identity.public}&invitation={TOKEN}"

    def start(self) -> None:
        """Let a run begin."""

        def run() -> None:
            self.finished.append(self.remote.run(self.chosen, 1, "run", lambda text, numbers: None))

        self.running.append(Thread(target=run))
        self.running[0].start()

    def cancel(self) -> None:
        """End the run before its time."""
        self.remote.ask_to_cancel("run")
        self.running[0].join(120)

    def end(self) -> RunOutput:
        """Wait for the run's end, and audit it."""
        self.running[0].join(120)
        [finished] = self.finished
        assert audit(leave_folder(self.folder / "left", self.chosen, 1, finished)).status == finished.result["status"]
        return finished


@contextmanager
def people(folder: Path) -> Iterator[World]:
    """Serve a referee and a page; all who are asked but one are hosted, and answer at once."""
    for name, count in (("members", 10), ("people", OTHERS)):
        (folder / f"{name}.csv").write_text("age,travels,sport\n" + "30,car,no\n" * count)
    (folder / "page").mkdir()
    path = str(scenario_file(folder))
    chosen, hosted = (
        resolve(loading.load(path, ["people=simulated", f"agents.count={count}"])) for count in (OTHERS + 1, OTHERS)
    )
    with ExitStack() as opened:
        address = opened.enter_context(serving(folder / "page"))
        curator = opened.enter_context(closing(open_curator(chosen, folder / "curator", 1, None)))
        referee, url, remote = opened.enter_context(operated(folder, curator, address))
        referee.registrar.allow("individual", TOKEN)
        status, output = page_of(folder, url, key=referee.identity.public)
        assert status == 0, output
        key = referee.identity.public
        population = opened.enter_context(closing(open_population(hosted, folder / "agents", 1, key, None)))
        host, over = Host(population, referee, key), Event()
        host.enrol(TOKEN)

        def answer() -> None:
            while not over.wait(0.1):
                host.step()

        others = Thread(target=answer)
        others.start()
        opened.callback(others.join)
        opened.callback(over.set)
        yield World(folder, referee, remote, chosen, address)


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    with people(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module", params=BROWSERS)
def browser(request, downloads):
    with browser_of(request.param, downloads_path=str(downloads)) as found:
        yield found


@pytest.fixture
def person(browser, world) -> Callable[..., Person]:
    def made(*, script: str = "", **options: Any) -> Person:
        return Person(browser.new_context(**{**PHONE, **options}), world.link, script=script)

    return made


def check_looks(page: Any) -> None:
    assert violations(page) == []
    assert not scrolls_sideways(page)


@pytest.mark.parametrize("look", LOOKS)
def test_from_the_form_to_a_counted_answer_and_nothing_else_leaves(world, person, look):
    me = person(**look)
    page = me.page
    me.wait("About you")
    assert page.url == f"{world.page}/"
    assert page.evaluate("history.length") <= 2
    check_looks(page)
    me.press(GO_ON)
    assert page.evaluate("document.activeElement.id") == "field-1"  # the first that has to be chosen
    me.enter()
    me.wait("Waiting for your question")
    check_looks(page)
    world.start()
    me.wait("Your question")
    check_looks(page)
    assert page.evaluate("document.activeElement.textContent") == "Your question"
    for words in (
        '"How many go <by> bicycle", in the words of the referee',
        '"travels" is "bicycle"',
        "(1, 0)-differential",
    ):
        assert words in me.stage
    me.press("Answer")
    me.wait("You have answered")
    finished = world.end()
    me.press("Check that it is counted")
    page.wait_for_selector("text=Your answer is counted as it was sent.")
    page.click("summary:has-text('Show my log')")
    page.wait_for_selector(".log li")
    check_looks(page)
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


def test_who_does_not_agree_answers_nothing_and_spends_nothing(world, person):
    me = person()
    world.start()
    me.be_asked()
    me.press("Do not answer")
    me.page.wait_for_selector("text=No answer left this device")
    assert world.end().result["lost"] == {"silent": 0, "declined": {"consent-withheld": 1}}
    assert me.reports() == []
    me.page.click("summary:has-text('Show my log')")
    me.page.wait_for_selector(".log li")  # the browser fills the list a moment after the click
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
        check_looks(me.page)
    assert [each for each in me.sent if each.url.startswith(world.remote.url)] == []
    me.page.set_input_files("#file", {**FILE, "buffer": json.dumps(FIELDS).encode()})
    me.press(GO_ON)
    world.start()
    me.agree()
    world.end()


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
    assert world.finished == []
    (tmp_path / "profile" / "SingletonLock").unlink(missing_ok=True)
    context = playwright.launch_persistent_context(**own)
    try:
        again = Person(context, world.link)
        again.wait("You have answered")
        assert again.reports() == [first]
        assert world.end().result["agents"]["answered"] == OTHERS + 1
    finally:
        context.close()


def test_a_reload_while_the_question_is_open_asks_again_and_one_after_the_answer_does_not(world, person):
    me = person()
    world.start()
    me.be_asked()
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


def test_a_run_that_ends_while_the_person_reads_gets_no_answer(world, person):
    me = person()
    world.start()
    me.be_asked()
    world.cancel()
    me.press("Answer")
    me.page.wait_for_selector("text=the question was closed meanwhile")
    check_looks(me.page)
    assert me.reports() == []
    me.page.click("summary:has-text('Show my log')")
    me.page.wait_for_selector(".log li")
    assert " answered. " not in me.stage


def test_an_answer_that_comes_after_the_run_is_not_counted_and_no_other_one_leaves(world, person):
    me = person()
    me.page.route("**/v1/reports/**", lambda route: route.abort())
    world.start()
    me.be_asked()
    with me.page.expect_request("**/v1/reports/**"):
        me.press("Answer")
    world.cancel()
    me.page.unroute("**/v1/reports/**")
    for _ in range(2):
        me.wait("Your answer was not taken")
        assert "question 0 is closed" in me.stage
        assert "nothing is spent" not in me.stage
        assert "0 is left" in me.stage
        check_looks(me.page)
        me.page.reload()
    assert len({*me.reports()}) == 1


def test_a_second_tab_says_that_another_one_is_open(world, person):
    me = person()
    me.wait("About you")
    other = me.page.context.new_page()
    other.goto(world.link)
    other.wait_for_selector("text=another tab has this page open")
    check_looks(other)
    me.page.close()
    other.reload()
    other.wait_for_selector("h2:text-is('About you')")
    assert other.url == f"{world.page}/"
    other.reload()
    other.wait_for_selector("h2:text-is('About you')")
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
    other.wait("About you")
    other.page.set_input_files("#state", {**FILE, "buffer": saved})
    other.wait("You have answered")
    me.page.on("dialog", lambda dialog: dialog.accept())
    me.press("Delete everything")
    me.wait("Everything is deleted from this device")
    assert "You have answered" not in me.page.inner_text("main")


# What goes wrong ------------------------------------------------------------------------------------------------------

NO_SIGNING = "crypto.subtle.generateKey = async () => { throw new DOMException('no', 'NotSupportedError'); };"
NO_STORE = "indexedDB.open = () => { throw new DOMException('no', 'SecurityError'); };"
NO_LOCK = "navigator.locks.request = async () => { throw new DOMException('no', 'SecurityError'); };"
CLOSED = """
const transaction = IDBDatabase.prototype.transaction;
IDBDatabase.prototype.transaction = function (...given) {
  if (window.closing) this.close();
  window.closing = false;
  return transaction.apply(this, given);
};
"""
FULL = """
const put = IDBObjectStore.prototype.put;
IDBObjectStore.prototype.put = function (value, name) {
  if (name === 'answers') throw new DOMException('full', 'QuotaExceededError');
  return put.call(this, value, name);
};
"""


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (NO_SIGNING, "cannot sign with Ed25519"),
        (NO_STORE, "stores nothing for this page"),
        (NO_LOCK, "stores nothing for this page"),
        ("Object.defineProperty(window, 'isSecureContext', { value: false });", "opened by http. Open it by https"),
    ],
)
def test_a_browser_that_cannot_do_it_says_so_before_anything_is_sent(world, person, script, said):
    me = person(script=script)
    me.wait("This page cannot go on")
    assert said in me.stage
    check_looks(me.page)
    assert [each.url for each in me.sent if each.url.startswith(world.remote.url)] == []


@CHROMIUM
def test_a_store_that_the_browser_closes_is_opened_again(world, person):
    """As iPhones do while the page is not in view."""
    me = person(script=CLOSED)
    world.start()
    me.be_asked()
    me.page.evaluate("window.closing = true")
    me.press("Answer")
    me.wait("You have answered")
    me.page.evaluate("window.closing = true")
    me.press("Check that it is counted")
    me.page.wait_for_selector(".notice")
    world.end()


@CHROMIUM
def test_after_everything_is_deleted_nothing_leaves(world, person):
    me = person()
    me.page.on("dialog", lambda dialog: dialog.accept())
    me.page.route("**/v1/reports/**", lambda route: route.abort())
    world.start()
    me.be_asked()
    with me.page.expect_request("**/v1/reports/**"):
        me.press("Answer")
    me.wait("Your answer is stored on this device, and on its way")
    me.press("Delete everything")
    me.wait("Everything is deleted from this device")
    me.page.unroute("**/v1/reports/**")
    sent = len(me.sent)
    me.page.wait_for_timeout(4000)
    assert (me.heading, len(me.sent)) == ("Everything is deleted from this device", sent)
    world.cancel()


@CHROMIUM
def test_a_referee_that_cannot_store_at_present_is_asked_again(world, person):
    me = person()
    problem = {"type": "urn:tandem:problem:cannot-write", "title": "no", "detail": "ask again", "status": 503}
    headers = {"tandem-protocol": "3 test", "access-control-allow-origin": world.page}
    answer = {"status": 503, "headers": headers, "content_type": "application/problem+json"}
    me.page.route("**/v1/polls", lambda route: route.fulfill(**answer, body=json.dumps(problem)))
    me.enter()
    me.page.wait_for_selector("text=It is tried again", timeout=60_000)
    me.wait("Waiting for your question")
    me.page.unroute("**/v1/polls")
    world.start()
    me.agree()
    world.end()


def test_a_store_that_is_full_lets_nothing_leave(world, person):
    me = person(script=FULL)
    world.start()
    me.be_asked()
    me.press("Answer")
    me.page.wait_for_selector("text=its storage is full or forbidden")
    assert me.reports() == []
    world.cancel()


@CHROMIUM
def test_a_question_that_costs_too_much_is_refused(world, person):
    me = person()
    world.start()
    me.enter(budget="0.5")
    me.wait("This device has refused the question")
    assert "lifetime budget" in me.stage
    assert world.end().result["lost"]["declined"] == {"policy": 1}
    assert me.reports() == []


@CHROMIUM
def test_a_page_or_link_of_another_referee_and_a_wrong_token_are_refused(world, browser):
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.goto(world.link.replace(world.referee.identity.public, "0" * 64))
    page.wait_for_selector("text=The link is for another referee")
    me = Person(browser.new_context(**PHONE), world.link)
    me.page.goto(f"{world.page}/?#invitation=wrong-token-1234")
    me.enter()
    me.page.wait_for_selector("text=Open the whole link that you were given")
    assert "This page cannot go on" in me.heading
    assert me.reports() == []


def test_an_invitation_that_was_used_and_a_store_that_is_empty_say_what_was_lost(world, browser):
    [code] = invited(world.referee.store, 1)
    first, other = (Person(browser.new_context(**PHONE), world.link) for _ in range(2))
    for each in (first, other):
        each.page.goto(f"{world.page}/?#invitation={code}")
    with first.page.expect_response("**/v1/polls"):
        first.enter()
    other.enter()
    other.page.wait_for_selector("text=This invitation was used before, and this browser has no state")
    assert "Take my state from a file" in other.stage
    check_looks(other.page)


def test_a_page_that_was_changed_on_its_way_does_not_run(world, browser):
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.route("**/agent.js", lambda route: route.fulfill(body="// evil", content_type="text/javascript"))
    page.goto(world.link)
    page.wait_for_timeout(1500)
    assert "This page is being loaded" in page.inner_text("main")
    assert page.query_selector("h2") is None


def test_a_page_whose_modules_break_off_is_loaded_again(world, browser):
    """As where a phone changes its network: Chromium then gives up what it was loading."""
    page = browser.new_context(**PHONE).new_page()
    broken: list[Any] = []

    def route(asked: Any) -> None:
        if len(broken) < 3:
            broken.append(asked.request.url)
            asked.abort("connectionreset")
        else:
            asked.continue_()

    page.route("**/values.js", route)
    page.goto(world.link)
    page.wait_for_selector("h2:text-is('About you')", timeout=60_000)
    assert len(broken) == 3
    assert page.url == f"{world.page}/"
    assert page.query_selector("#invitation") is None  # it was not lost


def test_a_referee_that_is_away_is_waited_for(world, person):
    me = person()
    me.page.route("**/v1/**", lambda route: route.abort())
    me.enter()
    me.page.wait_for_selector("text=Look at this device's connection, and at its date", timeout=90_000)
    check_looks(me.page)
    me.page.unroute("**/v1/**")
    world.start()
    me.agree()
    world.end()


@CHROMIUM
def test_a_referee_of_another_version_gets_nothing(world, person):
    me = person()

    def skewed(route: Any) -> None:
        found = route.fetch()
        route.fulfill(response=found, headers={**found.headers, "tandem-protocol": "99 newer"})

    me.page.route(f"{world.remote.url}/v1/**", skewed)
    me.enter()
    me.wait("This page cannot go on")
    assert "speaks protocol 99 newer, this agent" in me.stage
    assert "Load this page again, or ask who invited you for a newer one." in me.stage
    assert {each.url for each in me.sent if "/v1/" in each.url} == {f"{world.remote.url}/v1/enrolments"}


LATE = "const now = Date.now; Date.now = () => now() + 400 * 86400e3;"


def test_a_clock_that_is_wrong_changes_nothing(world, person):
    me = person(script=LATE)
    world.start()
    me.answer()
    world.end()
    me.press("Check that it is counted")
    me.page.wait_for_selector("text=Your answer is counted as it was sent.")


@CHROMIUM
@pytest.mark.parametrize(
    ("kept", "said"),
    [("false", "a private window when that is closed"), ("true", "remembers what you have answered until you delete")],
)
def test_a_private_window_is_told_what_it_forgets_and_other_browsers_that_they_remember(world, person, kept, said):
    me = person(script=f"navigator.storage.persist = async () => {kept};")
    me.enter()
    me.wait("Waiting for your question")
    assert said in me.stage


@pytest.mark.parametrize(
    "browser", [BROWSERS[0], pytest.param("firefox", marks=[*BROWSERS[1].marks, pytest.mark.thorough])], indirect=True
)
def test_a_code_of_the_issuer_vouches_and_a_relay_hides_from_where(world, browser):
    """The referee is dialled by the relay alone; the issuer signs what it cannot see."""
    folder, referee = world.folder, world.referee
    with an_issuer(folder / "issuer") as issuer, ExitStack() as opened:
        vouching = opened.enter_context(served(issuer_app(issuer, folder / "issuer", [world.page])))
        relay = opened.enter_context(served(relay_app(world.remote.url, origins=[world.page])))
        [code] = codes(folder / "issuer", 1)
        shutil.rmtree(folder / "page")
        more = ("--relay", relay, "--issuer", vouching, "--issuer-key", str(folder / "issuer" / "issuer.json"))
        status, output = page_of(folder, world.remote.url, *more, key=referee.identity.public)
        assert status == 0, output
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
        me.press("Check that it is counted")
        me.page.wait_for_selector("text=Your answer is counted as it was sent.")
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
        shutil.rmtree(folder / "page")
        status, output = page_of(folder, world.remote.url, "--witness", place, key=referee.identity.public)
        assert status == 0, output
        me = Person(browser.new_context(**PHONE), world.link)
        world.start()
        me.answer()
        finished = world.end()
        me.press("Check that it is counted")
        me.page.wait_for_selector("text=not witnessed: entry")
        check_looks(me.page)
        with closing(WitnessClient(place, TOKEN)) as witness:
            witness.keep(finished.checkpoints[-1].checkpoint)
        me.press("Check that it is counted")
        me.page.wait_for_selector("text=Your answer is counted as it was sent.")
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
