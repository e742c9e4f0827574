"""A run about own tables in the browser: from two files to a model, and what no page of it may show or take."""

from __future__ import annotations

import json
import re
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from html import unescape

import pytest
from typer.testing import CliRunner

from common.core.durable import hold
from common.lifetime.charging import Charging
from common.lifetime.ledger import PeopleLedger
from common.net.edge import LARGE
from common.scenario.loading import load
from deploy import running
from referee.cli import app
from referee.runfolder import read_result
from tandem.ui.app import ui_app
from tandem.ui.folders import RunFolders
from tandem.ui.own import DRAFT, OwnRuns, forecast_from, new_draft
from tests.tandem.ui.asking import HERE, RULES, Browser
from tests.tiers import for_each

HEADER = "age,sex,town,sick\n"
ROWS = "30,f,Bern,yes\n95,x,Thun,no\n"
PRIVATE = ("Bern", "Thun", "95")
COLUMNS = {
    "label": "sick", "positive": "yes", "negative": "no", "kind:age": "number", "low:age": "18", "high:age": "90",
    "kind:sex": "category", "values:sex": "f,m", "epsilon": "2", "agent_epsilon": "2",
}  # fmt: skip


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward.csv").write_text(HEADER + ROWS * 1000)
    (tmp_path / "city.csv").write_text(HEADER + ROWS * 2000)
    return {"source": "ward.csv", "target": "city.csv"}


@pytest.fixture
def own(tables, tmp_path):
    return OwnRuns(tmp_path / "runs", Charging(tmp_path / "ledger"))


@pytest.fixture
def browser(own):
    return Browser(ui_app(RunFolders(own.root), RULES, own_runs=own))


def hidden(page: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page)
    return {unescape(key): unescape(value) for key, value in found if key != "token"}


def problem(page: str) -> str:
    found = re.search(r'role="alert">(.*?)(<a|</p>)', page)
    return unescape(found[1]).strip() if found else ""


def chosen(browser: Browser, draft: str, side: str, name: str, content: bytes, token: str = RULES.form_token):
    headers = {"Origin": HERE, "Tandem-Form": token}
    return browser.ask("POST", f"/own/file/{draft}/{side}", params={"name": name}, content=content, headers=headers)


def test_a_wrong_value_keeps_the_form_and_names_the_field_as_the_form_does(browser, tables):
    for changed, words, key in (
        ({"source": ""}, "'File S' is missing", "source"),
        ({"target": "none.csv"}, "'File T': there is no file 'none.csv' on this machine", "target"),
        ({"separator": ";"}, "only column 'age,sex,town,sick' in common: is 'Between two fields' right", "separator"),
        ({"label": ""}, "'The column to predict' is missing", "label"),
        ({"label": "ill"}, "'The column to predict': both tables must have column 'ill'", "label"),
        ({"positive": "no"}, "'Its texts that mean yes' and 'Its texts that mean no'", "positive"),
        ({"high:age": "ninety"}, "Column 'age': the highest value must be a number, found 'ninety'", "high:age"),
        ({"low:age": "90"}, "Column 'age': the lowest value must be below the highest", "low:age"),
        ({"values:sex": ""}, "Column 'sex': write its public values", "values:sex"),
        ({"kind:age": "", "kind:sex": ""}, "Say of one column at least", "kind:age"),
        ({"epsilon": "much"}, "'Epsilon of each person in S' must be a number", "epsilon"),
        ({"agent_epsilon": "-1"}, "'Epsilon of each person in T' must be above 0", "agent_epsilon"),
        ({"worse": "miss", "times": ""}, "'How many times worse' must be a number", "times"),
        ({"delta": "2"}, "'Delta of each person in S' must be above 0 and below 1", "delta"),
        ({"lifetime": "8"}, "'All runs together, each person' must be an epsilon and a delta", "lifetime"),
        ({"id": "sick"}, "'The column that says who is who' sick", "id"),
    ):
        sent = {**tables, **COLUMNS, **changed}
        page = browser.post("/own/forecast", sent).text
        assert words in problem(page), (changed, problem(page))
        assert "--" not in problem(page)
        values = {unescape(value) for value in re.findall(r'value="([^"]*)"', page)}
        assert {text for text in sent.values() if text} <= values | {"ill"}, changed  # a list has no such column
        if key:
            assert re.search(rf'(id|name)="{key}"[^>]*aria-invalid="true"', page), changed
            assert f'href="#{key}"' in page


def test_two_files_become_the_scenario_of_the_command_and_no_page_shows_a_field_of_theirs(browser, tables):
    pages = [browser.post(f"/own/{step}", {**tables, **COLUMNS}).text for step in ("files", "columns", "forecast")]
    assert "It can be run" in pages[2] or "read this first" in pages[2]
    assert "2,000 people" in pages[2]
    assert "4,000 people" in pages[2]
    # What was entered stands in the form, and drafts are named by the time and at random: a name may have any digits.
    shown = [re.sub(r'value="[^"]*"|own-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}', "", page) for page in pages]
    assert not [words for page in shown for words in PRIVATE if words in page]
    found = forecast_from({**tables, **COLUMNS, "worse": "false alarm", "times": "4.0000001"})
    assert (found.start.n, found.start.agents, found.start.epsilon, found.start.agent_epsilon) == (2000, 4000, 2.0, 2.0)
    assert found.asked.agents.costs.wire() == {"miss": 1.0, "false_alarm": 4.0000001}
    assert found.asked.curator.lifetime is None
    longer = forecast_from({**tables, **COLUMNS, "lifetime": "8, 0.0002"})
    assert longer.asked.curator.lifetime.wire() == {"epsilon": 8.0, "delta": 0.0002}
    assert not found.refused


def test_a_number_is_predicted_itself_or_whether_it_is_above_a_bound(browser, tmp_path):
    for file, count in (("ward.csv", 2000), ("city.csv", 4000)):
        (tmp_path / file).write_text(
            "patient_id,age,days\n" + "".join(f"{k},{20 + k % 60},{k % 9}\n" for k in range(count))
        )
    sent = {"source": "ward.csv", "target": "city.csv", "label": "days", "kind:age": "number"}
    sent |= {"low:age": "18", "high:age": "90", "id": "patient_id"}
    assert "By its name it is an id." in browser.post("/own/columns", sent).text
    found = forecast_from({**sent, "predict": "above", "above": "3"}).start
    assert (found.label.above, found.response) == (3.0, None)
    found = forecast_from(
        {**sent, "predict": "response", "response_low": "0", "response_high": "30", "worse": "miss"}
    ).start
    assert found.response == (0.0, 30.0)
    for changed, words, key in (
        ({"predict": "above"}, "'Above this number it is a yes' is missing", "above"),
        ({"predict": "above", "above": "x"}, "'Above this number it is a yes' must be a finite number", "above"),
        (
            {"predict": "response", "response_low": "9", "response_high": "1"},
            "The column to predict: the lowest",
            "response_low",
        ),
    ):
        page = browser.post("/own/forecast", {**sent, **changed}).text
        assert words in problem(page), problem(page)
        assert re.search(rf'id="{key}"[^>]*aria-invalid="true"', page), changed


def test_of_very_many_columns_all_others_are_numbers_at_once_and_stand_in_groups(browser, tmp_path):
    names = [f"x{k}" for k in range(60)]
    for file, count in (("ward.csv", 2000), ("city.csv", 4000)):
        (tmp_path / file).write_text(",".join([*names, "sick"]) + "\n" + (",".join(["0.5"] * 60) + ",yes\n") * count)
    sent = {"source": "ward.csv", "target": "city.csv", "label": "sick", "positive": "yes", "negative": "no"}
    page = browser.post("/own/columns", sent).text
    assert page.count("<summary>Columns") == 3
    sent |= {"rest": "number", "rest_low": "0", "rest_high": "1", "kind:x1": "skip", "kind:x2": "number"}
    sent |= {"low:x2": "-1", "high:x2": "2"}
    found = forecast_from(sent).start.features
    assert [feature.column for feature in found] == [name for name in names if name != "x1"]
    assert [(feature.low, feature.high) for feature in found[:2]] == [(0.0, 1.0), (-1.0, 2.0)]
    page = browser.post("/own/forecast", {**sent, "rest_high": "one"}).text
    assert problem(page) == "All other columns: the highest value must be a number, found 'one'."


def test_what_a_run_would_refuse_is_known_before_it_and_never_begun(browser, tables, tmp_path):
    (tmp_path / "ward.csv").write_text(HEADER + ROWS * 1000 + "40,f,Bern,perhaps\n")
    page = browser.post("/own/forecast", {**tables, **COLUMNS}).text
    assert "A run of this is refused" in page
    assert "Run it" not in page
    sent = browser.post("/own/run", {**hidden(page), "spend": "yes"})
    assert "A run of this is refused" in sent.text
    assert not (tmp_path / "runs").exists()


def test_a_file_that_is_chosen_stays_in_the_private_part_of_its_runs_folder(browser, own, tmp_path):
    draft = hidden(browser.page("/own"))["draft"]
    for side, folder in (("source", "S"), ("target", "T")):
        kept = chosen(browser, draft, side, "../a b/Würde.csv", b"a,b\n1,2\n")
        assert kept.text == str(own.root / draft / "state" / "tables" / folder / "Würde.csv")
    again = chosen(browser, draft, "source", "other.csv", b"a,b\n3,4\n")
    tables = own.root / draft / "state" / "tables"
    assert sorted(path.name for path in tables.rglob("*.csv")) == ["Würde.csv", "other.csv"]
    assert again.status_code == 200
    for path in (own.root / draft, *(own.root / draft).rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.is_file() else 0o700), path
    assert draft not in browser.page("/")
    assert browser.get(f"/run/{draft}").status_code == 404
    own.close()
    assert not (own.root / draft).exists()


def test_both_files_may_be_sent_at_once(own, monkeypatch):
    def slowly(folder):
        time.sleep(0.05)
        return hold(folder)

    monkeypatch.setattr("tandem.ui.own.hold", slowly)
    with ThreadPoolExecutor(2) as pool:
        kept = list(pool.map(partial(own.keep, new_draft(), name="a.csv", content=b"a"), ("source", "target")))
    assert [path.parent.name for path in kept] == ["S", "T"]
    own.close()


def test_tables_that_a_killed_server_left_are_removed_at_the_next_start(browser, own):
    drafts = [hidden(browser.page("/own"))["draft"] for _ in range(2)]
    for draft in drafts:
        assert chosen(browser, draft, "source", "a.csv", b"a").status_code == 200
    own._chosen.pop(drafts[0]).close()  # as the system does when its process is killed
    (own.root / "own-thesis" / "state" / "tables").mkdir(parents=True)
    OwnRuns(own.root).remove_left_behind()
    assert sorted(path.name for path in own.root.iterdir()) == sorted([drafts[1], "own-thesis"])
    assert chosen(browser, drafts[1], "target", "b.csv", b"b").status_code == 200
    own.close()


def test_only_a_page_of_ours_sends_a_file_and_only_into_a_draft(browser, own):
    draft = hidden(browser.page("/own"))["draft"]
    assert chosen(browser, draft, "source", "a.csv", b"a", token="x").status_code == 401
    for other in ("tiny", "..", draft + "x", "own-20260101-000000-zzzz"):
        assert chosen(browser, other, "source", "a.csv", b"a").status_code in (404, 422), other
    assert chosen(browser, draft, "elsewhere", "a.csv", b"a").status_code == 422
    assert "is no table" in chosen(browser, draft, "source", "run.sh", b"a").text
    foreign = {"Origin": "http://evil.example", "Tandem-Form": RULES.form_token}
    address = f"/own/file/{draft}/source"
    assert browser.ask("POST", address, params={"name": "a.csv"}, content=b"a", headers=foreign).status_code == 403
    announced = {"Origin": HERE, "Tandem-Form": RULES.form_token, "Content-Length": str(LARGE + 1)}
    assert browser.ask("POST", address, params={"name": "a.csv"}, content=b"", headers=announced).status_code == 413
    assert browser.post("/own/forecast", {"token": "x"}).status_code == 401
    assert not own.root.exists()
    (own.root / draft).mkdir(parents=True)
    (own.root / draft / "claim.json").write_text("{}")
    assert "has begun" in chosen(browser, draft, "source", "a.csv", b"a").text


def test_a_form_names_no_folder_but_a_draft(browser, own, tables):
    for draft in ("../elsewhere", "/elsewhere", "own-20261127-000000-abcd/../../elsewhere"):
        kept = hidden(browser.post("/own/forecast", {**tables, **COLUMNS, "draft": draft}).text)["draft"]
        assert re.fullmatch(DRAFT, kept), draft
        sent = browser.post("/own/run", {**tables, **COLUMNS, "draft": draft, "spend": "yes", "epsilon": "-1"})
        assert sent.status_code == 200
    assert own.under_way is None
    assert not [path for path in own.root.parent.iterdir() if path.name == "elsewhere"]


def test_no_run_begins_in_the_folder_of_another_one(browser, own, tables):
    draft = hidden(browser.page("/own"))["draft"]
    own.root.mkdir()
    (own.root / "claim.json").write_text("{}")
    assert "start tandem ui with --runs DIRECTORY" in chosen(browser, draft, "source", "a.csv", b"a").text
    sent = browser.post("/own/run", {**tables, **COLUMNS, "spend": "yes"})
    assert "start tandem ui with --runs DIRECTORY" in problem(sent.text)
    assert [path.name for path in own.root.iterdir()] == ["claim.json"]


@pytest.mark.slow
def test_two_files_become_a_run_that_is_watched_to_its_end_and_a_model_that_is_taken_home(browser, own, tmp_path):
    draft = hidden(browser.page("/own"))["draft"]
    files = {
        side: chosen(browser, draft, side, name, (tmp_path / name).read_bytes()).text
        for side, name in (("source", "ward.csv"), ("target", "city.csv"))
    }
    asked = hidden(browser.post("/own/forecast", {**files, **COLUMNS, "draft": draft}).text)
    assert asked["draft"] == draft
    assert "Set the tick" in problem(browser.post("/own/run", asked).text)
    sent = browser.post("/own/run", {**asked, "spend": "yes"})
    assert (sent.status_code, sent.headers["location"]) == (303, f"/own/run/{draft}")
    assert "goes on" in browser.page(f"/own/run/{draft}")
    assert "has begun already" in problem(browser.post("/own/run", {**asked, "spend": "yes"}).text) or own.under_way
    assert own.get(waited(own, draft)).problem == ""
    assert "See what it has shown" in browser.page(f"/own/run/{draft}/part")
    folder = own.root / draft
    result = read_result(folder)
    assert result["verdict"]["title"] in unescape(browser.page(f"/run/{draft}"))
    assert load(str(folder / "scenario.yaml")).curator.n == 2000
    model = browser.get(f"/run/{draft}/model.json")
    assert json.loads(model.text)["scenario"] == "ward"
    assert "attachment" in model.headers["content-disposition"]
    report = browser.get(f"/run/{draft}/report.html")
    assert result["verdict"]["title"] in unescape(report.text)
    pages = [browser.page(f"/run/{draft}{part}") for part in ("", "/parties?at=1", "/transcript", "/history")]
    assert not [words for page in [*pages, report.text] for words in ("Bern", "Thun") if words in page]
    second = begun(browser, own, files)
    assert "charged before" in own.get(second).problem
    assert "The run has no result" in browser.page(f"/own/run/{second}")


def begun(browser, own, tables) -> str:
    """Begin a run, wait for its end, and return its name."""
    asked = hidden(browser.post("/own/forecast", {**tables, **COLUMNS}).text)
    name = browser.post("/own/run", {**asked, "spend": "yes"}).headers["location"].rpartition("/")[2]
    return waited(own, name)


def waited(own, name: str) -> str:
    while not own.get(name).ended:
        time.sleep(0.05)
    return name


def stop_at(words: str, browser, patch) -> None:
    """Have the page's button pressed, with all that it says then, when a run says such words of its progress."""
    carried_out = running.carry_out

    def stopped(asked, deployment, *, watching, **options):
        @contextmanager
        def pressing(chosen, seed, folder):
            address = f"/own/run/{folder.name}"

            def noted(text, numbers):
                if words in text:
                    assert f'action="{address}/stop"' in browser.page(f"{address}/part")
                    assert browser.ask("POST", f"{address}/stop", headers={"Origin": HERE}).status_code == 401
                    assert browser.post(f"{address}/stop").status_code == 303
                    assert "being stopped" in browser.page(f"{address}/part")
                on_progress(text, numbers)

            with watching(chosen, seed, folder) as on_progress:
                yield noted

        return carried_out(asked, deployment, watching=pressing, **options)

    patch.setattr("tandem.ui.own.carry_out", stopped)


@pytest.mark.slow
def test_a_run_is_stopped_as_by_ctrl_c_and_goes_on_without_a_further_charge(browser, own, tables):
    ledger = PeopleLedger(own.root.parent / "ledger")
    with pytest.MonkeyPatch.context() as patch:
        stop_at("agents", browser, patch)
        name = begun(browser, own, tables)
    folder, page, charged = own.root / name, browser.page(f"/own/run/{name}"), ledger.table()
    for words in ("The run was stopped", "2,000 people of S and 4,000 people of T are charged and stay so"):
        assert words in page
    assert own.under_way is None
    assert "has not ended" in unescape(browser.page("/"))
    assert f'<a href="/own/run/{name}">' in browser.page("/")
    assert (len(charged), charged[0]["people"]) == (1, 2000)
    assert browser.post(f"/own/run/{name}/on").headers["location"] == f"/own/run/{name}"
    assert own.get(waited(own, name)).problem == ""
    assert (read_result(folder)["status"], ledger.table()) == ("done", charged)
    assert "See what it has shown" in browser.page(f"/own/run/{name}")
    for step, words in (("stop", "has ended"), ("on", "begun already")):
        assert words in browser.post(f"/own/run/{name}/{step}").text
    (folder / "result.json").unlink()  # as where the server was stopped
    command = ["run", str(folder / "state" / "scenario.yaml"), "--output", str(folder), "--ledger", str(ledger.folder)]
    again = CliRunner().invoke(app, [*command, "--yes"])
    assert (again.exit_code, ledger.table()) == (0, charged), again.output


def test_a_run_that_is_stopped_before_anybody_is_charged_says_so(browser, own, tables):
    for where in ("before the claim", ""):
        with pytest.MonkeyPatch.context() as patch:
            if where:
                patch.setattr("deploy.running.check_lifetimes", lambda *given: own.stop(next(iter(own._runs))))
            else:
                stop_at("", browser, patch)
            name = begun(browser, own, tables)
        assert "No person was charged" in browser.page(f"/own/run/{name}")
        assert (own.root / name).exists() != bool(where)
        ledger = own.root.parent / "ledger"
        assert not (ledger.exists() if where else PeopleLedger(ledger).table())


@for_each("address", ("/own/run/none", "/own/run/none/part", "/run/none/model.json", "/run/none/report.html"))
def test_what_is_not_there_is_not_found(browser, address):
    assert browser.get(address).status_code == 404
