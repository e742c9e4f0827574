"""Pages about run folders: what they show is what the result says, and what is no finished run says why."""

from __future__ import annotations

import json
import os
import re
import shutil
from html import unescape

import pytest

from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
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


def test_an_empty_or_missing_directory_says_how_to_begin(tmp_path):
    for root in (tmp_path, tmp_path / "none"):
        assert "referee run ball" in Browser(ui_app(RunFolders(root), RULES)).page("/")


def test_one_run_folder_is_a_directory_of_one(runs):
    assert 'href="/run/tiny"' in Browser(ui_app(RunFolders(runs / "tiny"), RULES)).page("/")


def test_nothing_private_is_opened(browser, runs, monkeypatch):
    """What lies in ``state`` is a party's own; here it could not even be read without an error."""
    (runs / "tiny" / "state").mkdir()
    (runs / "tiny" / "state" / "curator.key").write_text("the curator's secret")
    opened: list[str] = []
    real = os.open

    from pathlib import Path

    for name in ("read_bytes", "read_text", "open"):
        kept = getattr(Path, name)
        monkeypatch.setattr(
            Path, name, lambda self, *a, kept=kept, **k: (opened.append(str(self)), kept(self, *a, **k))[1]
        )
    monkeypatch.setattr(os, "open", lambda path, *a, **k: (opened.append(str(path)), real(path, *a, **k))[1])
    for path in ("/", "/run/tiny", "/run/state", "/run/tiny%2fstate"):
        assert "secret" not in browser.get(path).text
    assert any("result.json" in path for path in opened)
    assert not [path for path in opened if "state" in path.removeprefix(str(runs))]
