"""The transcript page by page, and its audit on the server: what it says of a folder that was changed."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from referee.audit.audit import audit
from referee.view.show import audit_lines
from tandem.ui.transcripts import LINES_ON_A_PAGE, ON_A_PAGE, Transcript
from tests.tandem.ui.asking import HERE, outside

EVIL = "<script>alert(1)</script>"


def lines(runs) -> list[bytes]:
    return (runs / "tiny" / "transcript.jsonl").read_bytes().splitlines()


def test_every_entry_is_listed_with_its_kind_hash_and_signers(browser, runs):
    page = browser.page("/run/tiny/transcript")
    for number, line in enumerate(lines(runs)):
        entry = json.loads(line)
        assert f'/run/tiny/transcript/{number}">{number}</a>' in page
        assert entry["hash"][:12] in page
        assert f"{len(line):,}" in page
    terms = json.loads(lines(runs)[1])["body"]["terms"]
    assert f"curator {terms['key'][:8]}" in page
    assert f"referee {json.loads(lines(runs)[0])['body']['referee'][:8]}" in page
    assert not outside(page)


def test_an_entry_is_shown_as_the_json_that_it_is(browser, runs):
    for number in (0, 2):
        page = browser.page(f"/run/tiny/transcript/{number}")
        (text,) = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
        assert json.loads(unescape(text)) == json.loads(lines(runs)[number])
        assert not outside(page)


def test_the_raw_lines_are_the_file(browser, runs):
    found = browser.get("/run/tiny/transcript.jsonl")
    assert found.content == (runs / "tiny" / "transcript.jsonl").read_bytes()
    assert found.headers["content-type"].startswith("text/plain")


def test_lists_and_long_entries_have_pages():
    whole = Transcript.of(b"[]\n" * (2 * ON_A_PAGE + 1))
    assert (whole.pages, len(whole.listed(1)), len(whole.listed(3)), whole.listed(4)) == (3, ON_A_PAGE, 1, [])
    assert whole.listed(3)[0].index == 2 * ON_A_PAGE


def test_a_long_entry_is_shown_in_pages(browser, runs):
    entry = json.loads(lines(runs)[0])
    entry["body"]["more"] = list(range(2 * LINES_ON_A_PAGE))
    (runs / "tiny" / "transcript.jsonl").write_text(json.dumps(entry) + "\n")
    first, second = (browser.page(f"/run/tiny/transcript/0?at={at}") for at in (1, 2))
    assert 'rel="next"' in first
    assert 'rel="prev"' in second
    assert f"{LINES_ON_A_PAGE + 100}," not in first
    assert f"{LINES_ON_A_PAGE + 100}," in second


def test_the_audit_of_the_server_says_what_the_command_says(browser, runs):
    page = unescape(browser.post("/run/tiny/audit").text)
    assert "<h1>Verified</h1>" in page
    for line in audit_lines(audit(runs / "tiny")):
        assert line[1:] in page
    assert not outside(page)


def test_a_changed_folder_is_not_verified_and_the_page_says_where(browser, runs):
    file = runs / "tiny" / "transcript.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"answered":', b'"answered":1', 1))
    page = browser.post("/run/tiny/audit").text
    assert "<h1>Not verified</h1>" in page
    assert "was changed: its hash does not match its content" in page


def test_an_audit_takes_our_own_form(browser):
    assert browser.ask("POST", "/run/tiny/audit", data={"token": "x"}, headers={"Origin": HERE}).status_code == 401
    assert browser.get("/run/tiny/audit").status_code == 405


def test_lines_that_are_no_entries_are_shown_as_text(browser, runs):
    file = runs / "tiny" / "transcript.jsonl"
    file.write_bytes(file.read_bytes() + EVIL.encode() + b"\xff{\n" + b'{"index":')
    count = len(lines(runs))
    page = browser.page("/run/tiny/transcript")
    assert "the line is no entry: it was cut off or changed" in page
    page = browser.page(f"/run/tiny/transcript/{count - 2}")
    assert not outside(page)
    assert "&lt;script&gt;" in page


def test_hostile_text_in_an_entry_is_text(browser, runs):
    entry = json.loads(lines(runs)[3])
    entry["body"]["query"]["kind"] = EVIL + "\x1b[31m\u202e"
    entry["kind"] = "question"
    (runs / "tiny" / "transcript.jsonl").write_text("".join(json.dumps(entry) + "\n" for _ in range(4)))
    for path in ("", "/3"):
        page = browser.page(f"/run/tiny/transcript{path}")
        assert not outside(page)
        assert "\x1b" not in page
        assert "\u202e" not in page


@pytest.mark.parametrize("path", ["/9999", "/-1", "/x", "/0?at=0", "?at=0"])
def test_what_is_not_there_is_not_found(browser, path):
    found = browser.get(f"/run/tiny/transcript{path}")
    assert found.status_code in (404, 422)
    assert "Traceback" not in found.text


def test_a_folder_without_a_transcript_says_so(browser, runs):
    (runs / "tiny" / "transcript.jsonl").unlink()
    found = browser.get("/run/tiny/transcript")
    assert found.status_code == 404
    assert "transcript.jsonl cannot be read" in found.text
