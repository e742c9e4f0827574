"""The page in a real browser: a live run to its end, its accessibility, its widths, and its own verification."""

import json
import shutil
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from common.crypto.identity import Identity
from common.log.transcript import SignedEntry, append, read
from deploy.remote import operating
from referee.runs import percents
from referee.runs.verdict import ENDED
from referee.service.app import referee_app
from referee.service.runner import Runner
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tandem.ui.live import RefereeWatch
from tests.clocks import Clock
from tests.referee.service.test_referee import until
from tests.support import TOKEN, Bench
from tests.tandem.ui.asking import Tab, browser_of, rules, serving
from tests.tandem.ui.test_live import Said, numbered, under_way

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chromium")]
PAGES = (
    "/", "/run/tiny", "/run/tiny/parties?at=1", "/run/tiny/parties?at=5", "/run/tiny/transcript",
    "/run/tiny/transcript/2", "/run/tiny/history", "/plan?scenario=select-then-estimate", "/plan?scenario=halfspace",
    "/referee/run", "/run/none", "/own",
)  # fmt: skip
LOOKS = (("light", 1280, 800), ("dark", 1280, 800), ("light", 360, 720))
"""Colours, width and height: of a screen by day and by night, and of a phone."""


@pytest.fixture(scope="module")
def browser():
    with browser_of() as found:
        yield found


@pytest.fixture(scope="module")
def folders(undisturbed, tmp_path_factory) -> Path:
    runs = tmp_path_factory.mktemp("chromium") / "runs"
    shutil.copytree(undisturbed[0] / "run", runs / "tiny")
    (runs / "begun").mkdir()
    (runs / "begun" / "claim.json").write_text("{}")
    return runs


@pytest.fixture(scope="module")
def said(undisturbed) -> Said:
    found = Said(undisturbed[1])
    found.rounds = [{**numbers, **under_way(1.0)} for numbers in numbered(1000)]
    found.test = under_way(4.0)
    return found


@pytest.fixture(scope="module")
def port(folders, said):
    with serving(lambda port: ui_app(RunFolders(folders), rules(port), RefereeWatch(said, Clock()))) as found:
        yield found


def test_every_page_is_accessible_fits_and_asks_nobody_else(browser, port):
    tab = Tab(browser, port)
    for path in PAGES:
        page = tab.open(path)
        for scheme, width, height in LOOKS:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": height})
            assert (tab.violations(), tab.scrolls_sideways) == ([], False), (path, scheme, width)
    assert [words for words in tab.wrong if "404" not in words] == []  # of the page about a run that is not there


def test_axe_would_find_something_and_a_script_of_a_stranger_would_not_run_nor_read_the_cookie(browser, port):
    """The policy's own test: even if escaping failed, nothing would run."""
    tab = Tab(browser, port)
    tab.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img><input>')")
    assert len(tab.violations()) >= 2
    assert tab.page.evaluate("document.cookie") == ""
    tab.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=/x onerror=\"window.taken = 1\">')")
    tab.page.evaluate(
        "const s = document.createElement('script'); s.text = 'window.taken = 1'; document.body.append(s)"
    )
    tab.page.wait_for_timeout(300)
    assert tab.page.evaluate("window.taken") is None
    assert any("Content Security Policy" in words for words in tab.wrong)


def test_the_keyboard_leads_into_the_content_and_shows_where_it_is(browser, port):
    tab = Tab(browser, port)
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert tab.page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("document.activeElement.id") == "main"
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


# Verification in the browser ----------------------------------------------------------------------------------------


def verified(tab: Tab) -> str:
    tab.open("/run/tiny/transcript")
    tab.page.get_by_role("button", name="Verify the chain in this browser").click()
    tab.page.wait_for_selector(".verified.good, .verified.bad")
    return str(tab.page.text_content("[data-verified]"))


def test_the_browser_verifies_the_chain_and_every_signature_and_has_the_audit_run(browser, port, folders):
    tab = Tab(browser, port)
    count = len((folders / "tiny" / "transcript.jsonl").read_bytes().splitlines())
    assert verified(tab) == (
        f"This browser verified {count} entries: each holds the hash of the one before it, and the referee signed each."
    )
    tab.page.get_by_role("button", name="Verify now, all of it").click()
    tab.page.wait_for_selector("h1:text-is('Verified')")
    assert (tab.violations(), tab.wrong) == ([], [])


def odd_transcript() -> list[str]:
    """Return entries whose text looks like an entry's end, is not ASCII, or needs escapes."""
    referee = Identity.create()
    words = ['","hash":"' + "0" * 64 + '","index":0,"kind":"x"', "é\u2028\U0001f600", '\\"}\n\t\u0001', "}}]}"]
    entries: list[SignedEntry] = []
    for word in words:
        body = {"referee": referee.public, "words": word, "z": [1e-9, 1e22, -0.5, 3, None, True]}
        entries.append(append(entries[-1] if entries else None, "question", body, referee))
    read(entry.line().encode() + b"\n" for entry in entries)
    return [entry.line() for entry in entries]


def test_the_browser_agrees_with_the_audit_about_odd_and_changed_lines(browser, tmp_path):
    lines = odd_transcript()
    signature = json.loads(lines[1])["signature"]
    other = signature[:-2] + ("00" if signature[-2:] != "00" else "01")
    file = tmp_path / "runs" / "tiny" / "transcript.jsonl"
    file.parent.mkdir(parents=True)
    with serving(lambda port: ui_app(RunFolders(tmp_path / "runs"), rules(port))) as port:
        for second, words in (
            (lines[1], "This browser verified 4 entries"),
            (lines[1].replace("\U0001f600", "\U0001f601"), "line 2 was changed: its hash does not match its content"),
            (lines[1].replace(signature, other), "line 2: the referee did not sign this"),
            (None, "line 2 does not follow the line before it"),
            (json.dumps(json.loads(lines[1])), "line 2 is no entry in canonical form"),
        ):
            changed = [lines[0], *([] if second is None else [second]), *lines[2:]]
            file.write_text("".join(line + "\n" for line in changed))
            assert words in verified(Tab(browser, port))


# Plans --------------------------------------------------------------------------------------------------------------


def test_a_slider_plans_again_and_the_address_says_what(browser, port):
    tab = Tab(browser, port)
    page = tab.open("/plan?scenario=select-then-estimate")
    before = page.text_content("#answer .cards")
    slider = page.get_by_role("slider", name="Epsilon of each agent's answer, slider")
    slider.focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    # Not wait_for_function: the page's policy lets no text be evaluated.
    sync_api.expect(page.locator("#answer .cards")).not_to_have_text(before)
    assert "agents.mechanism.epsilon=" in page.url
    assert slider.evaluate("slider => slider === document.activeElement")
    assert "It keeps every bound" in page.text_content("[data-said]")
    tab.page.reload()
    assert page.text_content("#answer .cards") != before
    page.get_by_label("Error that is aimed at (alpha)", exact=True).fill("7")
    page.wait_for_selector("text=This cannot be planned")
    assert tab.violations() == []
    assert tab.wrong == []


# A live run ---------------------------------------------------------------------------------------------------------


class Paced:
    """Agents who work only as far as a test lets them."""

    def __init__(self, bench: Bench) -> None:
        self._steps = threading.Semaphore(0)
        self._host = bench.host
        self._waits = self._done = 0
        bench.referee._wait = self.wait

    def wait(self, seconds: float) -> None:
        self._waits += 1
        if self._steps.acquire(timeout=0.02):
            self._host.step()
            self._done += 1

    def go(self, steps: int) -> None:
        self._steps.release(steps)

    def go_once(self) -> None:
        """Let the agents take one step, and wait until the referee has worked it in and waits again."""
        done = self._done
        self.go(1)
        until(lambda: self._done > done)
        waits = self._waits
        until(lambda: self._waits > waits)


def test_a_live_run_is_seen_to_its_end_through_a_reload_and_a_referee_that_was_away(browser, folders, tmp_path):
    with Bench(tmp_path) as bench, ExitStack() as until_the_end:
        pace = Paced(bench)
        bench.referee.create("live", bench.chosen.wire(), 1)
        runner = Runner(bench.referee)
        runner.start()
        until_the_end.callback(runner.stop)

        def referee(port):
            return referee_app(bench.referee, runner)

        with serving(referee) as at:
            there = until_the_end.enter_context(operating(f"http://127.0.0.1:{at}", TOKEN, patience=0.0, timeout=5.0))
            watch = RefereeWatch(there)
            shown = until_the_end.enter_context(serving(lambda port: ui_app(RunFolders(folders), rules(port), watch)))
            tab = Tab(browser, shown)
            page = tab.open("/")
            page.click("text=live")
            page.wait_for_selector("text=agents: 0 of")
            while not any("round" in note.numbers for note in bench.referee.notes("live")):
                pace.go_once()
            page.wait_for_selector("h1:has-text('Round 1 of at most 3 has ended')")
            assert tab.violations() == []
            page.reload()
            assert "Round 1 of at most 3 has ended" in page.text_content("h1")
        page.wait_for_selector("text=The referee cannot be asked")
        assert "Round 1 of at most 3" in page.text_content("h1")
        assert tab.violations() == []
        with serving(referee, at):
            page.wait_for_selector("text=The referee cannot be asked", state="detached")
            pace.go(10_000)
            page.wait_for_selector("h2:has-text('Verify it')")
            result = bench.referee.store.run("live").result
            for numbers in result["rounds"]:
                assert percents.ends(numbers["low"], numbers["high"]) in page.text_content("main")
            assert ENDED[result["status"]] in page.text_content("[data-said]")
            assert TOKEN not in page.content()
            assert (tab.violations(), tab.wrong) == ([], [])


def test_what_is_unfolded_focused_and_scrolled_stays_when_the_page_is_renewed(browser, folders, undisturbed):
    said = Said(undisturbed[1])
    said.rounds = numbered(2)
    with serving(lambda port: ui_app(RunFolders(folders), rules(port), RefereeWatch(said))) as port:
        tab = Tab(browser, port, viewport={"width": 360, "height": 700})
        page = tab.open("/referee/run")
        page.click("summary")
        page.focus("[aria-label='Table: rounds']")
        page.evaluate("document.activeElement.scrollLeft = 40")
        said.rounds, said.waits_for = numbered(3), "agents: 6 of 400 on question 4"
        page.wait_for_selector("h1:has-text('Round 3')")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Table: rounds"
        assert page.evaluate("document.activeElement.scrollLeft") == 40
        assert page.evaluate("document.querySelector('details').open")
        assert "Round 3" in page.text_content("[data-said]")
        assert tab.wrong == []


def test_a_page_whose_own_server_went_away_says_so_and_comes_back(browser, folders, undisturbed):
    said = Said(undisturbed[1])

    def make(port):
        return ui_app(RunFolders(folders), rules(port), RefereeWatch(said))

    with serving(make) as port:
        tab = Tab(browser, port)
        page = tab.open("/referee/run")
    page.wait_for_selector("text=own server does not answer")
    said.rounds = numbered(4)
    with serving(make, port):
        page.wait_for_selector("h1:has-text('Round 4')")
        assert not page.is_visible(".gone")
