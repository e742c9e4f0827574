"""Who may ask the local page: its own user's browser; what is refused, and what every answer forbids."""

import json
import re
from html import unescape

import pytest
from typer.testing import CliRunner

from common.core import canonical
from common.crypto.identity import Identity
from common.log.receipts import receipt_for
from common.log.transcript import SignedEntry
from common.net.pages import HEADERS
from referee.audit.audit import audit
from referee.audit.history import kept_in
from referee.runfolder import unpack_reports
from referee.view.audited import audit_lines
from referee.witness_log import WitnessLog
from tandem.cli import app
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tandem.ui.transcripts import LINES_ON_A_PAGE, ON_A_PAGE, Transcript, pages_of
from tests.referee.audit.signing import identity_of
from tests.tandem.ui.asking import HERE, KEY, RULES, Browser, outside
from tests.tiers import for_each


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


@for_each("path", ["/", "/run/tiny", "/static/ui.css", "/nothing", "/?key=", "/?key=wrong"])
def test_without_the_key_nothing_is_shown(stranger, path):
    refused = stranger.get(path)
    assert refused.status_code == 403
    assert "Open the address that `tandem ui` printed" in refused.text
    assert "tiny" not in refused.text


@for_each(
    ("host", "status"),
    [
        *(("evil.example:8100", 421), ("127.0.0.1:8101", 421), ("127.0.0.1", 421), ("", 400)),
        *(("localhost.evil.example:8100", 421), ("localhost:8100", 200)),
    ],
)
def test_another_host_is_refused(browser, host, status):
    """A page elsewhere whose name was made to resolve to this machine; and a request that names no host."""
    assert browser.get("/", headers={"Host": host}).status_code == status


@for_each("origin", [None, "null", "http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8100"])
def test_a_form_of_another_site_is_refused(browser, origin):
    headers = {} if origin is None else {"Origin": origin}
    sent = browser.ask("POST", "/run/tiny/audit", data={"token": RULES.form_token}, headers=headers)
    assert sent.status_code == 403
    assert "another site" in sent.text
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


def test_an_entry_is_shown_as_the_json_that_it_is_and_the_raw_lines_are_the_file(browser, runs):
    for number in (0, 2):
        page = browser.page(f"/run/tiny/transcript/{number}")
        (text,) = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
        assert json.loads(unescape(text)) == json.loads(lines(runs)[number])
        assert not outside(page)
    found = browser.get("/run/tiny/transcript.jsonl")
    assert found.content == (runs / "tiny" / "transcript.jsonl").read_bytes()
    assert found.headers["content-type"].startswith("text/plain")


def test_lists_and_long_entries_have_pages(browser, runs):
    whole = Transcript.of(b"[]\n" * (2 * ON_A_PAGE + 1))
    assert [len(whole.listed(page)) for page in (1, 3, 4)] == [ON_A_PAGE, 1, 0]
    assert (pages_of(len(whole.lines)), whole.listed(3)[0].index) == (3, 2 * ON_A_PAGE)
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
    entry["kind"], entry["body"]["query"]["kind"] = "question", EVIL + "\x1b[31m\u202e"
    file.write_bytes(file.read_bytes() + json.dumps(entry).encode() + b"\n" + EVIL.encode() + b'\xff{\n{"index":')
    last = len(lines(runs)) - 1
    assert "the line is no entry: it was cut off or changed" in browser.page("/run/tiny/transcript")
    for path in ("", f"/{last - 2}", f"/{last - 1}", f"/{last}"):
        page = browser.page(f"/run/tiny/transcript{path}")
        assert not outside(page)
        assert "\x1b" not in page
        assert "\u202e" not in page
    assert "&lt;script&gt;" in browser.page(f"/run/tiny/transcript/{last - 1}")


def test_what_is_not_there_is_not_found(browser, runs):
    for path in ("/9999", "/-1", "/x", "/0?at=0", "?at=0"):
        found = browser.get(f"/run/tiny/transcript{path}")
        assert found.status_code in (404, 422)
        assert "Traceback" not in found.text
    (runs / "tiny" / "transcript.jsonl").unlink()
    found = browser.get("/run/tiny/transcript")
    assert found.status_code == 404
    assert "transcript.jsonl cannot be read" in found.text


def test_checkpoints_are_listed_with_who_has_seen_them(browser, runs, tmp_path):
    kept = kept_in(runs / "tiny")
    page = unescape(browser.page("/run/tiny/history"))
    assert kept
    assert all(each.verified().hash[:12] in page for each in kept)
    assert "no witness has seen this history: the referee could show others another one" in page.replace("No w", "no w")
    assert "nobody" in page
    assert not outside(page)
    log = WitnessLog(tmp_path, Identity.create(), lambda: 86400.0)
    words = [each.model_copy(update={"witnessed": (log.keep(each.checkpoint),)}) for each in kept]
    (runs / "tiny" / "checkpoints.jsonl").write_bytes(b"".join(canonical.encode(w.wire()) + b"\n" for w in words))
    page = browser.page("/run/tiny/history")
    assert f"{words[0].witnessed[0].key[:16]}</code> since 1970-01-02 00:00:00 UTC" in page
    assert ", to its end." in page


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
        *((text, "this is no receipt") for text in ("", "{", "[]", EVIL, '{"receipt": 3}', "[" * 5000)),
    ):
        page = browser.post("/run/tiny/receipt", {"receipt": text})
        assert page.status_code == 200
        assert words in page.text
        assert "<script>alert" not in page.text


def test_checkpoints_of_another_history_are_said_so(browser, runs):
    path = runs / "tiny" / "transcript.jsonl"
    entries = [SignedEntry.model_validate_json(line) for line in path.read_bytes().splitlines()]
    path.write_text("".join(entry.line() + "\n" for entry in entries[:-1]))
    page = unescape(browser.page("/run/tiny/history"))
    assert "This does not agree:" in page
    assert "here it is cut short" in page


@for_each("host", ["0.0.0.0", "192.0.2.1", "example.org"])
def test_only_this_machine_is_served(host):
    done = CliRunner().invoke(app, ["ui", "--host", host])
    assert done.exit_code == 1
    assert "--host must be 127.0.0.1 or ::1" in done.stderr
    assert "ssh -L" in done.stderr
