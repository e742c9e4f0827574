"""The page in a real browser, where something goes wrong: what is said, and that nothing leaves or is lost."""

import json
from typing import Any

import pytest

from referee.collection.enrolment import create_invitations
from tests.local_agent.web.people import Person
from tests.local_agent.web.world import CHROMIUM, PHONE, check_looks

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
pytestmark = pytest.mark.slow

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


def test_a_browser_that_cannot_do_it_says_so_before_anything_is_sent(browser, alone):
    for script, said in (
        (NO_SIGNING, "cannot sign with Ed25519"),
        (NO_STORE, "stores nothing for this page"),
        (NO_LOCK, "stores nothing for this page"),
        ("Object.defineProperty(window, 'isSecureContext', { value: false });", "opened by http. Open it by https"),
    ):
        me = Person(browser.new_context(**PHONE), alone, script=script)
        me.wait("This page cannot go on")
        assert said in me.stage
        check_looks(me.page)
        assert [each.url for each in me.sent if "/v1/" in each.url] == []


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
def test_after_everything_is_deleted_nothing_leaves(world, me):
    me.page.on("dialog", lambda dialog: dialog.accept())
    me.page.route("**/v1/reports/**", lambda route: route.abort())
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
def test_who_answers_nothing_leaves_no_invitation_behind(world, person):
    me = person()
    me.page.on("dialog", lambda dialog: dialog.accept())
    me.wait("About you")
    me.press("Delete everything")
    me.wait("Everything is deleted from this device")
    me.page.reload()
    me.wait("About you")
    assert me.page.is_visible("#invitation")


@CHROMIUM
def test_what_cannot_be_deleted_is_not_said_to_be(world, person):
    me = person(script="IDBObjectStore.prototype.clear = () => { throw new DOMException('no', 'UnknownError'); };")
    me.page.on("dialog", lambda dialog: dialog.accept())
    me.wait("About you")
    me.press("Delete everything")
    me.wait("This page cannot go on")
    assert "this browser stores nothing for this page (UnknownError)" in me.stage


@CHROMIUM
def test_a_referee_that_cannot_store_at_present_is_asked_again(world, person):
    me = person()
    problem = {"type": "urn:tandem:problem:cannot-write", "title": "no", "detail": "ask again", "status": 503}
    headers = {"tandem-protocol": "3 tandem/test", "access-control-allow-origin": world.page}
    answer = {"status": 503, "headers": headers, "content_type": "application/problem+json"}
    me.page.route("**/v1/polls", lambda route: route.fulfill(**answer, body=json.dumps(problem)))
    me.enter()
    me.page.wait_for_selector("text=It is tried again", timeout=60_000)
    me.wait("Waiting for your question")
    me.page.unroute("**/v1/polls")
    world.start()
    me.agree()
    world.end()


@CHROMIUM
def test_what_stands_before_the_referee_is_not_said_to_have_cost_nothing(world, me):
    """As a proxy that answers in words of its own: the answer is stored, and may have been read."""
    headers = {"access-control-allow-origin": world.page}
    for resource in ("reports/**", "proofs"):
        me.page.route(f"**/v1/{resource}", lambda route: route.fulfill(status=404, headers=headers, body="<html>"))
    me.press("Answer")
    me.page.wait_for_selector("text=Your answer is stored on this device, and sent again")
    assert "nothing is spent" not in me.stage
    me.page.unroute("**/v1/reports/**")
    me.wait("You have answered")
    me.press("Check that it is counted")
    me.page.wait_for_selector("text=It is not shown that your answer is counted.")
    assert "Nothing about you was sent" not in me.stage
    me.page.unroute("**/v1/proofs")
    me.check_counted()
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
def test_another_question_than_the_one_that_was_read_is_said_to_be_one(world, me):

    def exchange(route):
        found = route.fetch()
        other = {**found.json()["message"], "question": 7}
        route.fulfill(response=found, json=world.referee.identity.sign("assignment", other).wire())

    me.page.route("**/v1/polls", exchange)
    me.press("Answer")
    me.page.wait_for_selector("text=question 7;")
    assert me.heading == "Your question"
    assert "the question was closed meanwhile: nothing was answered" in me.stage
    assert me.reports() == []
    check_looks(me.page)
    me.page.unroute("**/v1/polls")
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
    [code] = create_invitations(world.referee.store, 1)
    first, other = (Person(browser.new_context(**PHONE), world.link) for _ in range(2))
    for each in (first, other):
        each.page.goto(f"{world.page}/?#invitation={code}")
    with first.page.expect_response("**/v1/polls"):
        first.enter()
    other.enter()
    other.page.wait_for_selector("text=This invitation was used before, and this browser has no state")
    assert "Take my state from a file" in other.stage
    check_looks(other.page)


def test_a_page_that_was_changed_on_its_way_does_not_run(browser, alone):
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.route("**/agent.js", lambda route: route.fulfill(body="// evil", content_type="text/javascript"))
    page.goto(alone)
    page.wait_for_timeout(1500)
    assert "This page is being loaded" in page.inner_text("main")
    assert page.query_selector("h2") is None


def test_a_page_whose_modules_break_off_is_loaded_again(browser, alone):
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
    page.goto(alone)
    page.wait_for_selector("h2:text-is('About you')", timeout=60_000)
    assert len(broken) == 3
    assert page.url == alone.partition("#")[0]
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
    me.check_counted()


@CHROMIUM
def test_a_private_window_is_told_what_it_forgets_and_other_browsers_that_they_remember(browser, alone):
    for kept, said in (
        ("false", "a private window when that is closed"),
        ("true", "remembers what you have answered until you delete"),
    ):
        script = f"navigator.storage.persist = async () => {kept};"
        me = Person(browser.new_context(**PHONE), alone, script=script)
        me.enter()
        me.wait("Waiting for your question")
        assert said in me.stage
