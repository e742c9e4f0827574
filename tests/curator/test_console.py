"""The owner's console: what it shows equals ledger and weights, beside a curator that runs; folders that are none."""

import json
import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core.errors import BadInput, BrokenLedger
from common.log.ledger import LEDGER
from curator.cli import app
from curator.console import console_app, page_values, read_state
from curator.sample.reweighing import Reweighing
from curator.startup import open_curator
from curator.state import BINS, OWNERS, TIMES, operation_times, weights_of
from tests.common.data.test_people import CSV, own
from tests.curator.given import edited
from tests.support import Bench
from tests.tandem.ui.asking import KEY, RULES, Browser, Tab, browser_of, outside, rules, serving

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The state directory of a curator whose run has ended, and the curator's weights in memory. Read only."""
    folder = tmp_path_factory.mktemp("console")
    with Bench(folder) as bench:
        bench.run()
        yield bench.curator, folder / "curator"


@pytest.fixture
def folder(ended, tmp_path):
    """A copy, which a test may change."""
    shutil.copytree(ended[1], tmp_path / "state")
    return tmp_path / "state"


def opened(folder) -> Browser:
    return Browser(console_app(folder, RULES))


def test_charges_add_up_to_what_the_curator_itself_counts(ended):
    curator, folder = ended
    seen = read_state(folder)  # the curator still holds the directory
    known = [(charge.operation_id, charge.event) for charge in curator._ledger]
    assert [(charge.operation, charge.event) for charge in seen.charges] == known
    assert seen.budget is not None
    assert (seen.budget.guarantee, seen.budget.cap) == (curator._budget.guarantee, curator._budget.cap)
    charged = curator._budget.share(curator._ledger.events) * curator._budget.cap
    assert seen.charges[-1].total == pytest.approx(charged, rel=1e-12)
    assert all(charge.released and charge.when is not None for charge in seen.charges)
    assert 0.0 < float(seen.charges[-1].total or 0.0) <= seen.budget.cap


def test_the_histogram_is_that_of_the_weights_in_memory(ended):
    curator, folder = ended
    reweighing = curator._engine.workspace.reweighing
    weights = read_state(folder).owner["weights"]
    assert weights["updates"] == reweighing.updates > 0
    scores = np.concatenate(list(curator._sample.cumulative_losses()))
    assert sum(people for _, _, people, _ in weights["bins"]) == len(scores) == reweighing.n
    relative = np.exp(reweighing.eta * np.minimum(scores - reweighing.density().top, 0.0))
    mu = relative / relative.sum()
    assert sum(share for *_, share in weights["bins"]) == pytest.approx(1.0)
    assert weights["largest"] == pytest.approx(mu.max() * len(mu))
    assert weights["mean_score"] == pytest.approx(scores.mean() / reweighing.updates)
    assert weights["largest"] <= weights["cap"]
    assert weights["density"] == pytest.approx(1.0 / (mu.max() * len(mu)))
    assert weights["at_cap"] == int(np.sum(scores >= reweighing.density().cut))


def test_very_many_scores_stay_few_bars():
    reweighing = Reweighing(50_000, 0.5, 0.01)
    levels = np.arange(0, 50_000, dtype=np.int64)
    reweighing._histogram = type(reweighing._histogram)(levels, np.ones(50_000, dtype=np.int64))
    reweighing.updates, reweighing._parts = 50, 1024
    bins = weights_of(reweighing)["bins"]
    assert len(bins) <= BINS
    assert sum(people for _, _, people, _ in bins) == 50_000
    assert 0.0 <= bins[0][0] <= bins[-1][1] <= 1.0


def test_the_page_says_first_that_it_is_private_and_shows_all_three(ended):
    page = opened(ended[1]).page("/")
    assert page.index("Private.") < page.index("<h1>")
    assert "publish nothing of it" in page
    seen = page_values(read_state(ended[1]))
    assert f"Charged: {seen['spent']:.6g} of {seen['cap']:.6g}" in page
    assert page.count('<rect class="people"') == len(seen["bars"]) > 1
    for line in seen["lines"]:
        assert line["event"] in page
    assert "of no table" in page
    assert not outside(page)


def test_it_is_guarded_as_every_local_page(ended):
    stranger = Browser(console_app(ended[1], RULES), admitted=False)
    refused = stranger.get("/")
    assert refused.status_code == 403
    assert "Budget" not in refused.text
    assert stranger.get(f"/?key={KEY}").status_code == 303


def test_what_has_not_changed_is_not_read_or_sent_again(ended, monkeypatch):
    browser = opened(ended[1])
    first = browser.get("/part")
    monkeypatch.setattr("curator.console.read_state", lambda state: 1 / 0)
    again = browser.get("/part", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_nothing_in_the_directory_is_changed(folder):
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir() if path.is_file()}
    folder.chmod(0o500)
    try:
        opened(folder).page("/")
    finally:
        folder.chmod(0o700)
    assert before == {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir() if p.is_file()}


def test_times_outlive_a_restart(tmp_path):
    with Bench(tmp_path) as bench:
        bench.run()
        operations = {charge.operation for charge in read_state(tmp_path / "curator").charges}
    times = operation_times(tmp_path / "curator")
    assert operations == times.keys() != set()
    assert all(abs(when - time.time()) < 3600 for when in times.values())
    with Bench(tmp_path):
        assert {charge.operation: charge.when for charge in read_state(tmp_path / "curator").charges} == times
    for name in (OWNERS, TIMES):
        assert (tmp_path / "curator" / name).stat().st_mode & 0o077 == 0


def test_what_is_written_of_an_operation_does_not_grow_with_how_many_there_were(ended):
    state = ended[1]
    document = json.loads((state / OWNERS).read_bytes())
    assert not {str(charge.operation) for charge in read_state(state).charges} & set(json.dumps(document).split('"'))
    assert len((state / TIMES).read_bytes().splitlines()) <= 1 + len(read_state(state).charges)


def test_a_time_that_a_crash_cut_off_spoils_no_other(folder):
    whole = operation_times(folder)
    with (folder / TIMES).open("ab") as file:
        file.write(b'\n["77", 12')
        file.write(b'\n["78", 3.5]\n\xff\n[' + b"[" * 10_000)
    assert operation_times(folder) == {**whole, "78": 3.5}


REPLACED = edited(lambda lines: lines.insert(2, lines.pop(2).replace(b'"kind":"charge"', b'"kind":"other"')))


@pytest.mark.parametrize(("change", "error", "words"), [
    (lambda folder: (folder / LEDGER).unlink(), BadInput, "is not a curator's state directory"),
    (lambda folder: (folder / LEDGER).write_bytes(b""), BadInput, "has no entries yet"),
    (lambda folder: (folder / LEDGER).write_bytes(b"x\n"), BrokenLedger, "does not follow the entry before"),
    (REPLACED, BrokenLedger, "does not follow the entry before"),
])  # fmt: skip
def test_a_folder_that_is_foreign_or_half_written_is_said(folder, change, error, words):
    change(folder)
    with pytest.raises(error, match=words):
        read_state(folder)
    page = opened(folder).page("/")
    assert words.replace("'", "&#39;") in page
    assert "Private." in page
    done = CliRunner().invoke(app, ["console", "--state", str(folder), "--port", "0"])
    assert done.exit_code == 1
    assert words in " ".join(done.stderr.split())


def test_without_a_sound_owners_file_the_ledger_is_shown_all_the_same_and_one_that_lies_is_no_fault(folder):
    lying: dict[str, object] = {"version": 1, "epsilon": None, "times": {}, "weights": {"bins": []}, "people": 3}
    for text, words in (
        (None, "Only the ledger can be shown"),
        *((text, "Only the ledger can be shown") for text in ("{", "[]", "[" * 100_000, '{"version": 99}')),
        (json.dumps({"version": 1, "epsilon": 1.0}), "edited"),
        (json.dumps(lying), "cannot be shown"),
    ):
        (folder / OWNERS).unlink() if text is None else (folder / OWNERS).write_text(text)
        page = opened(folder).page("/")
        assert words in page
        assert text is not None or "not known" in page


def test_a_pipe_in_the_place_of_the_owners_files_does_not_hold_the_page(folder):
    charges = read_state(folder).charges
    with ThreadPoolExecutor(1) as pool:
        for name in (OWNERS, TIMES):
            (folder / name).unlink()
            os.mkfifo(folder / name)
        reading = pool.submit(read_state, folder)
        try:
            state = reading.result(timeout=10)
        finally:
            while not reading.done():  # end a reader that waits
                for name in (OWNERS, TIMES):
                    with suppress(OSError):
                        os.close(os.open(folder / name, os.O_WRONLY | os.O_NONBLOCK))
    assert [charge.operation for charge in state.charges] == [charge.operation for charge in charges]
    assert OWNERS in state.missing


def test_hostile_column_names_are_text(folder):
    written = json.loads((folder / OWNERS).read_bytes())
    written |= {"scenario": EVIL, "read": {"rows": 9, "clipped": {EVIL: 4}, "unlisted": {}, "missing": {}}}
    (folder / OWNERS).write_text(json.dumps(written))
    page = opened(folder).page("/")
    assert not outside(page)
    assert page.count("&lt;script&gt;") == 2
    assert re.search(r"&lt;/script&gt;</th><td>listed values</td><td class=\"number\">4</td>", page)


def test_what_was_clipped_when_the_sample_was_read_is_kept(tmp_path):
    chosen = own(tmp_path)
    rows = CSV.replace("6,", "19,")
    (tmp_path / "people.csv").write_text(rows)
    open_curator(chosen, tmp_path / "state", None, None).close()
    clipped = rows.count("19,")
    page = opened(tmp_path / "state").page("/")
    assert clipped == 8
    assert "to the 60 rows" in page
    assert re.search(rf'<th scope="row">x</th><td>0 to 7</td><td class="number">{clipped}</td>', page)
    assert "Do not choose other bounds by these numbers" in page


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_only_this_machine_is_served(ended, host):
    done = CliRunner().invoke(app, ["console", "--state", str(ended[1]), "--host", host])
    assert done.exit_code == 1
    assert "--host must be 127.0.0.1 or ::1" in done.stderr


LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 720}},
}


@pytest.mark.slow
@pytest.mark.xdist_group("chromium")
def test_the_console_is_accessible_fits_asks_nobody_else_and_follows_the_curator(tmp_path):
    with (
        browser_of() as browser,
        Bench(tmp_path) as bench,
        serving(lambda port: console_app(tmp_path / "curator", rules(port))) as port,
    ):
        tab = Tab(browser, port)
        assert "Nothing was charged yet" in tab.page.text_content("main")
        assert tab.violations() == []
        bench.run()
        tab.page.wait_for_selector("table caption:has-text('Charges')")
        # It may have looked in the middle of the run, and looks again.
        tab.page.locator("svg.bars rect").nth(2).wait_for(state="attached")
        assert tab.violations() == []
        assert tab.wrong == []
        for look, options in LOOKS.items():
            tab = Tab(browser, port, **options)
            assert "publish nothing" in tab.page.text_content("#private")
            assert tab.violations() == [], look
            assert not tab.scrolls_sideways, look
            assert tab.wrong == [], look
