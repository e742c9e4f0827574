"""The history page: checkpoints and their witnesses as they are stored, and receipts that are compared."""

from __future__ import annotations

import json
from html import unescape

import pytest

from common.core import canonical
from common.crypto.identity import Identity, Signed
from common.log.receipts import StoredCheckpoint, receipt_for
from common.log.transcript import Entry
from referee.audit.history import kept_in
from referee.state.runfolder import unpack_reports
from referee.state.witness_log import WitnessLog
from tests.referee.audit.signing import identity_of
from tests.tandem.ui.asking import outside


@pytest.fixture
def folder(runs):
    return runs / "tiny"


def configuration(folder) -> dict[str, str]:
    return json.loads((folder / "transcript.jsonl").read_bytes().split(b"\n")[0])["body"]["configuration"]


@pytest.fixture
def referee(undisturbed) -> Identity:
    return identity_of(undisturbed[0])


def test_every_checkpoint_is_listed_and_a_run_that_nobody_saw_says_so(browser, folder):
    page = unescape(browser.page("/run/tiny/history"))
    kept = kept_in(folder)
    assert kept
    for each in kept:
        assert each.said().hash[:12] in page
    assert "no witness has seen this history: the referee could show others another one" in page.replace("No w", "no w")
    assert "nobody" in page
    assert not outside(page)


def test_witnesses_are_shown_with_their_times(browser, folder, referee, tmp_path):
    log = WitnessLog(tmp_path, Identity.create(), lambda: 86400.0)
    key, run = referee.public, configuration(folder)["run"]
    words = [
        StoredCheckpoint(checkpoint=each.checkpoint, witnessed=(log.keep(key, run, each.checkpoint),))
        for each in kept_in(folder)
    ]
    lines = b"".join(canonical.encode(each.wire()) + b"\n" for each in words)
    (folder / "checkpoints.jsonl").write_bytes(lines)
    page = browser.page("/run/tiny/history")
    assert f"{words[0].witnessed[0].key[:16]}</code> since 1970-01-02 00:00:00 UTC" in page
    assert ", to its end." in page


def test_a_receipt_is_compared_with_the_reports(browser, folder, referee):
    def receipt(signature: str) -> str:
        said = {"run": configuration(folder)["run"], "question": 1}
        return receipt_for(referee, Signed(kind="report", message=said, key="0" * 64, signature=signature), 7).decode()

    stored = next(unpack_reports((folder / "reports" / "1.reports").read_bytes()))
    good, bad = receipt(stored.signature.hex()), receipt("ab" * 64)
    assert "Compared with 1 receipt: its report is there" in browser.post("/run/tiny/receipt", {"receipt": good}).text
    held = json.dumps({"receipt": json.loads(good), "report": {}, "leaf": ""})
    assert "Compared with 1 receipt: its report is there" in browser.post("/run/tiny/receipt", {"receipt": held}).text
    assert "a report on question 1 is left out" in browser.post("/run/tiny/receipt", {"receipt": bad}).text


@pytest.mark.parametrize("text", ["", "{", "[]", "<script>alert(1)</script>", '{"receipt": 3}', "[" * 5000])
def test_what_is_no_receipt_is_said_so(browser, text):
    page = browser.post("/run/tiny/receipt", {"receipt": text})
    assert page.status_code == 200
    assert "this is no receipt" in page.text
    assert "<script>alert" not in page.text


def test_checkpoints_of_another_history_are_said_so(browser, folder):
    path = folder / "transcript.jsonl"
    entries = [Entry.model_validate_json(line) for line in path.read_bytes().splitlines()]
    path.write_text("".join(entry.line() + "\n" for entry in entries[:-1]))
    page = unescape(browser.page("/run/tiny/history"))
    assert "This does not agree:" in page
    assert "here it is cut short" in page
