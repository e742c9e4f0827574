"""Pages about a running referee: what it says, what it said last while it is away, and that its token is in no page."""

import math
import re

import pytest

from common.core.errors import NotFound, PeerUnavailable, Unauthorized
from common.log.transcript import SignedEntry
from common.net.messages import Configuration
from common.statistics.evidence import gather
from deploy.remote import operating
from referee.runs.percents import estimate_or_vague
from referee.runs.results import rounds_of
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tandem.ui.live import RefereeWatch, shown_tests
from tests.clocks import Clock
from tests.referee.service.test_operating import nobody_answers, running
from tests.referee.service.test_referee import until
from tests.support import TOKEN, Bench, tiny
from tests.tandem.ui.asking import HERE, RULES, Browser
from tests.tiers import for_each

EVIL = "<script>alert(1)</script>\x1b[31m"
AWAY = "cannot connect to http://referee.example; is the service running there?"


class Said:
    """A referee that says what a test lets it say."""

    url, waits_for, text = "http://referee.example", "agents: 5 of 400 on question 3", "round"
    begun, ended, restarted = True, False, 0
    error: Exception | None = None
    test: dict[str, float] | None = None

    def __init__(self, finished) -> None:
        self.lines = [SignedEntry.model_validate_json(line) for line in finished.transcript.splitlines()]
        self.result = finished.result
        self.rounds: list[dict[str, float]] = []
        self.asked: list[tuple[object, ...]] = []

    def _said(self, *what) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    def runs(self):
        self._said("runs")
        line = {"run": "run", "scenario": "ball", "status": "running", "waits_for": self.waits_for, "verdict": ""}
        return [{**line, "run": "old", "status": "done", "waits_for": "", "verdict": "The model is better"}, line]

    def state(self, run, after):
        self._said("state", after)
        if run != "run":
            raise NotFound(f"there is no run {run!r}")
        notes = [{"text": f"{self.text} {n['round']:.0f}", "numbers": n} for n in self.rounds][self.restarted :]
        status = self.result["status"] if self.ended else "running" if self.begun else "waiting"
        return {"status": status, "progress": notes[after:], "result": self.result if self.ended else None}

    def standing(self, run):
        self._said("standing")
        counts = {"enrolled": 6000, "asked": 900, "answered": 700, "declined": {"policy": 3}}
        return {"waits_for": self.waits_for, **counts, "test": self.test}

    def configuration(self, run):
        self._said("configuration")
        if not self.begun:
            raise NotFound("the run has not begun")
        return Configuration.parse(self.lines[0].body["configuration"])

    def entries(self, run, after, most):
        self._said("entries", after, most)
        return self.lines[after : after + most]

    def ask_to_cancel(self, run):
        self._said("cancel", run)


def numbered(count: int, most: int = 1000) -> list[dict[str, float]]:
    one = {"rounds": float(most), "asked": 400.0, "value": 0.2, "low": 0.15, "high": 0.25, "confidence": 0.95}
    return [{"round": float(n), **one} for n in range(1, count + 1)]


@pytest.fixture
def said(undisturbed) -> Said:
    return Said(undisturbed[1])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def live(said, clock, runs) -> Browser:
    return Browser(ui_app(RunFolders(runs), RULES, RefereeWatch(said, clock)))


def test_the_list_shows_who_waits_for_what_and_what_goes_on_first(live):
    page = live.page("/")
    assert page.index("/referee/run") < page.index("/referee/old") < page.index("/run/tiny")
    assert "agents: 5 of 400 on question 3" in page


def test_a_run_that_goes_on_shows_its_rounds_agents_and_budgets(live, said, clock):
    said.rounds = numbered(3)
    page = live.page("/referee/run")
    for words in (
        *("Round 3 of at most", "20% (15% to 25%)", "3 declined: policy 3", "197 have not answered (yet)"),
        *("900 of 6,000", "differential privacy"),
    ):
        assert words in page
    said.rounds, said.waits_for, said.text = numbered(1000), EVIL, EVIL
    clock.wait(60.0)
    page = live.page("/referee/run/part")
    assert "The newest 12 of 1000 rounds" in page
    assert len(page) < 60_000
    for page in (live.page("/"), live.page("/referee/run")):
        assert "&lt;script&gt;" in page


def test_only_what_is_new_is_asked_for_and_sent_and_pages_share_an_answer(live, said, clock):
    said.rounds = numbered(2)
    live.page("/referee/run")
    said.rounds = numbered(3)
    first = live.get("/referee/run/part")
    again = live.get("/referee/run/part", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert [what[1] for what in said.asked if what[0] == "state"] == [0]
    clock.wait(1.0)
    assert "Round 3 of" in live.page("/referee/run/part")
    assert [what[1] for what in said.asked if what[0] == "state"] == [0, 2]
    assert [what[0] for what in said.asked].count("configuration") == 1


@for_each(("lost", "left"), [(0, [1, 2, 3, 4, 5, 6]), (2, [3, 4, 5, 6])])
def test_a_referee_that_went_away_is_said_and_comes_back_by_itself_and_tells_its_rounds_once(
    undisturbed, runs, lost, left
):
    """Where it was started again its list of notes is another one: here it has lost the first two."""
    said, clock = Said(undisturbed[1]), Clock()
    live = Browser(ui_app(RunFolders(runs), RULES, RefereeWatch(said, clock)))
    said.rounds = numbered(4)
    live.page("/referee/run")
    said.error = PeerUnavailable(AWAY)
    clock.wait(2.0)
    page = live.page("/referee/run")
    assert f"cannot be asked: {AWAY[:40]}" in page
    assert "Round 4 of" in page
    assert "cannot be asked" in live.page("/")
    said.error, said.rounds, said.restarted = None, numbered(6), lost
    clock.wait(2.0)
    page = live.page("/referee/run")
    assert "cannot be asked" not in page
    assert [int(n) for n in re.findall(r'class="number">(\d+)</th>', page)] == left


def test_a_run_says_what_it_waits_for_and_then_the_time_left_by_the_rounds_that_were_seen(live, said, clock):
    said.begun, said.waits_for = False, "agents: 100,000 wanted, 3 enrolled"
    page = live.page("/referee/run")
    assert all(words in page for words in ("The run has not begun", "agents: 100,000 wanted"))
    said.begun = True
    for count, words in (
        (1, "not known until two rounds"),
        (2, "about 4 s a round"),
        (3, "about 4 s a round; 32 s more if all rounds are needed"),
    ):
        clock.wait(4.0)
        said.rounds = numbered(count, most=11)
        assert words in live.page("/referee/run")


def test_an_ended_run_shows_its_result_and_is_asked_about_no_more(live, said, clock):
    said.ended = True
    page, asked = live.page("/referee/run"), len(said.asked)
    assert "data-ended" in page
    assert "Cancel this run" not in page
    assert all(estimate_or_vague(numbers) in page for numbers in said.result["rounds"])
    clock.wait(60.0)
    live.page("/referee/run")
    assert len(said.asked) == asked


def test_nonsense_of_a_referee_a_wrong_token_and_an_unknown_run_are_said(live, said, clock, monkeypatch):
    for state in ({}, {"status": 1, "progress": [3], "result": None}, {"status": "x", "progress": [{}]}):
        monkeypatch.setattr(said, "state", lambda run, after, state=state: state)
        assert "is not the state of a run" in live.page("/referee/run")
        clock.wait(60.0)
    monkeypatch.undo()
    for name in ("none", "a%20b", "x" * 65):
        assert live.get(f"/referee/{name}").status_code in (404, 422)
    said.error = Unauthorized("wrong token")
    assert "start `tandem ui` with its TANDEM_OPERATOR_TOKEN" in live.page("/")


def test_cancelling_takes_our_own_form(live, said):
    own = {"token": RULES.form_token}
    assert f'name="token" value="{RULES.form_token}"' in live.page("/referee/run")
    here = {"Origin": HERE}
    for fields, headers, status in (({"token": "wrong"}, here, 401), ({}, here, 401), (own, {}, 403)):
        assert live.ask("POST", "/referee/run/cancel", data=fields, headers=headers).status_code == status
    assert ("cancel", "run") not in said.asked
    done = live.post("/referee/run/cancel")
    assert (done.status_code, done.headers["location"]) == (303, "/referee/run")
    assert ("cancel", "run") in said.asked


def under_way(below: float) -> dict[str, float]:
    counts = {"asked": 700.0, "tested_answers": 650.0, "tested_worst_case": 2000.0}
    return {**counts, "tested_above": -3.0, "tested_below": below, "tested_needed": math.log(20_000)}


def test_the_test_under_way_is_shown_with_its_evidence_and_where_it_stops(live, said, clock):
    said.rounds = [{**numbered(1)[0], **under_way(-1.0), "tested_above": 10.0, "asked": 400.0}]
    said.test = under_way(math.log(142))
    page = live.page("/referee/run")
    for words in (
        *("Evidence that the loss is below 0.16: 142 of 20,000", "50% of the way", "Answers: 650 of 2,000"),
        "700 agents were asked",
    ):
        assert words in page
    assert "above 0.12" in re.search(r'<th scope="row">round 1</th>.*', page)[0]
    said.test = {"tested_needed": math.nan}
    clock.wait(1.0)
    assert "round under way" not in live.page("/referee/run")


def test_the_evidence_of_a_real_run_ends_as_its_result_says(tmp_path):
    """Round by round: as many agents as the result has, and the verdict by which the run went on or halted."""
    with Bench(tmp_path, tiny("agents.batch=25")) as bench:
        bench.referee.create("run", bench.chosen.wire(), 1)
        seen, wait = [], bench.referee._wait

        def watching(seconds: float) -> None:
            seen.append(bench.referee.test("run"))
            wait(seconds)

        bench.referee._wait = watching
        result = bench.referee.execute("run")
        notes = [note.numbers for note in bench.referee.notes("run") if "tested_needed" in note.numbers]
        assert rounds_of(notes) == result["rounds"]
        shown = shown_tests(bench.chosen, notes, None)
        assert [test["asked"] for test in shown] == [int(numbers["asked"]) for numbers in result["rounds"]]
        halted = [test["verdict"].startswith("below") for test in shown]
        assert halted == [False] * (len(shown) - 1) + [result["status"] == "done"]
        told = [test for test in seen if test is not None]
        assert all(test["tested_below"] < test["tested_needed"] for test in told)
        assert any(test["tested_answers"] > 0 for test in told)
        assert bench.referee.test("run") is None
        mechanism, accuracy = bench.chosen.agents.value_mechanism, bench.chosen.accuracy
        levels = (level * bench.chosen.alpha for level in (accuracy.reweigh_above, accuracy.halt_below))
        again, truth = gather(mechanism, *levels), mechanism.truth  # type: ignore[attr-defined]  # a bit mechanism
        for numbers in notes:  # everybody has answered: the estimate and the number of answers say all there is
            count = int(numbers["tested_answers"])
            total = count * ((1 - truth) + (2 * truth - 1) * numbers["value"])
            assert count == numbers["asked"]
            found = [side.log_value(total, count) for side in (again.below, again.above)]
            assert found == pytest.approx([numbers["tested_below"], numbers["tested_above"]], abs=1e-6)


def test_a_real_referee_is_watched_and_its_run_cancelled_and_no_page_holds_the_token(tmp_path, runs):
    with Bench(tmp_path / "state") as bench:
        asked = nobody_answers(bench)
        bench.referee.create("run", bench.chosen.wire(), 1)
        with running(bench) as address, operating(address, TOKEN, patience=0.0) as there:
            assert asked.wait(600)
            watch = RefereeWatch(there)
            browser = Browser(ui_app(RunFolders(runs), RULES, watch))
            pages = [browser.page(path) for path in ("/", "/referee/run", "/referee/run/part", "/referee-runs")]
            assert re.search(r"agents: 0 of [\d,]+ on question", pages[1])
            assert "have not answered (yet)" in pages[1]
            browser.post("/referee/run/cancel")
            until(lambda: watch.look("run").ended)
            pages.append(browser.page("/referee/run"))
    assert "No answer: the run was cancelled" in pages[-1]
    assert not any(TOKEN in page for page in pages)
