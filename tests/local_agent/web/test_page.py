"""The folder of a page: what is in it, who signed it, and that every change of it is found."""

import base64
import hashlib
import json
import re
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from common.crypto.identity import Identity
from common.local.naming import Names
from common.protocols.base import pattern_of
from common.scenario.loading import described_people, load, shipped
from deploy.people import Files, serving
from local_agent.cli import app
from local_agent.page import MANIFEST, WEB, plain_module, public_schema
from tests.local_agent.web.node import in_node
from tests.local_agent.web.people import KEY, page_of, scenario_file
from tests.tiers import for_each

REFEREE, WITNESS = "https://referee.example", "https://witness.example:8010"


def run(*words: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, [str(word) for word in words])
    return found.exit_code, " ".join(found.output.split())


def written(folder: Path, *more: str, referee: str = REFEREE) -> Path:
    status, output = page_of(folder, referee, *more)
    assert status == 0, output
    return folder / "page"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("page"), referee="https://referee.example:8000/tandem").parent


@pytest.fixture
def page(made, tmp_path) -> Path:
    return Path(shutil.copytree(made / "page", tmp_path / "page"))


def test_a_page_talks_to_its_referee_alone_and_runs_nothing_but_its_files(made):
    frame = (made / "page" / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', frame)[1]
    [own] = re.findall(r"<script>(.*?)</script>", frame, re.DOTALL)  # which loads the page again
    pinned = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'self' 'sha256-{pinned}'; style-src 'self'; img-src data:; "
        "connect-src https://referee.example:8000; base-uri 'none'; form-action 'none'"
    )
    files = json.loads((made / "page" / MANIFEST).read_text())["message"]["files"]
    loaded = re.findall(r'(?:src|href)="(?!data:)([^"]*)"', frame)
    assert {*loaded, "index.html"} == {*files}
    assert "{{" not in frame
    first = (made / "page" / "page" / "page.js").read_text()
    later = re.findall(r'^import"\.\./(\w+\.js)";', first)
    assert later  # what is needed later is loaded with the page, or the page is loaded again
    assert len(re.findall(r"<script(?![^>]*(?: src=|application/json))", frame)) == 1


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_every_page_is_small_and_has_the_kinds_alone_that_its_scenario_asks(tmp_path):
    found = {}
    for scenario in (*shipped(), "examples/own_data/scenario.yaml", "examples/people/scenario.yaml"):
        folder = tmp_path / "pages" / Path(scenario).parent.name / Path(scenario).name
        where = ["--output", folder, "--referee", REFEREE, "--referee-key", KEY, "--key", tmp_path / "k"]
        status, output = run("page", scenario, *where)
        if status:
            assert "the people of this scenario are simulated" in output, (scenario, output)
            continue
        found[scenario] = sizes(folder)
        settings = re.search(r'id="settings">(.*?)</script>', (folder / "index.html").read_text())[1]
        policy = json.loads(settings)["policy"]
        assert {*policy["queries"]} == pattern_of(load(scenario).protocol).kinds("agents")
        assert policy["mechanisms"] == [load(scenario).agents.mechanism.name]
    assert {"adult", "adult-biased", "flights"} < {*found}
    assert {name: each for name, each in found.items() if sum(each.values()) > 100_000} == {}
    families = ("bits", "features", "items", "laplace", "losses", "oracles", "residuals", "scores")
    assert {f"{name}.js" for name in families} & {*found["examples/people/scenario.yaml"]} == {"features.js", "bits.js"}


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js here")
def test_a_page_names_the_columns_as_the_referee_does():
    scenarios = ("adult", "adult-biased", "flights", "examples/people/scenario.yaml")
    tables = [described_people(scenario).table for scenario in scenarios]
    script = """
        import { namesOfTable } from "WEB/words.js";
        console.log(JSON.stringify(given.map((each) => namesOfTable(each).wire)));
    """
    found = in_node(script, [public_schema(each) for each in tables])
    assert found == [json.loads(json.dumps(Names.of_table(each.wire()).wire())) for each in tables]


def test_a_page_accepts_more_where_its_maker_says_so(tmp_path):
    found = sizes(written(tmp_path, "--accept", "loss", "--accept", "item"))
    assert {"losses.js", "hypotheses.js", "items.js", "bits.js"} <= {*found}
    assert "features.js" not in found


def test_what_is_left_of_a_module_has_no_comment_and_all_of_its_texts():
    for module in [*Path(str(WEB)).glob("*.js"), WEB / "page" / "page.js"]:
        text = module.read_text("utf-8")
        left = plain_module(text).decode()
        assert "/*" not in left, module.name
        lines = [line for line in text.splitlines() if not re.search(r"['`/]|^ \*", line)]  # where strings end in it
        texts = re.findall(r'"[^"\n]*"', "\n".join(lines))
        assert texts
        assert [each for each in texts if each not in left] == [], module.name


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("const a = 1; // one\nlet b =\n  /[ /]\\/ x/g;", "const a=1;let b=/[ /]\\/ x/g;"),
        ("f(a / b, c / d) // /", "f(a/b,c/d)"),
        ("`a  ${ b ? `.  ${ {c: d}[e] }` : '  ' } // f`", "`a  ${b?`.  ${{c:d}[e]}`:'  '} // f`"),
        ("x = a + +b - -c; return /  /;", "x=a+ +b- -c;return/  /;"),
        ("if (a) {\n  b();\n}\nc();\nif (d) {\n}\n[e] = f;", "if(a){b()}c();if(d){}\n[e]=f;"),
    ],
)
def test_spaces_that_separate_nothing_are_left_out_and_no_others(text, left):
    assert plain_module(text).decode() == left


def test_a_page_is_as_its_maker_has_signed_it(page, made):
    maker = Identity.load_or_create(made / "page.key").public
    status, output = run("check-page", page, "--maker", maker)
    assert status == 0, output
    assert f"is as {maker} has signed it" in output
    assert f"for the referee {KEY} at https://referee.example:8000/tandem" in output
    status, output = run("check-page", page)
    assert (status, "no --maker was named" in output) == (0, True)
    status, output = run("check-page", page, "--maker", "0" * 64)
    assert (status, "signed by" in output) == (1, True)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("agent.js", lambda old: old + b"\n", "agent.js is not the file that its maker has signed"),
        ("index.html", lambda old: old.replace(b"https://referee", b"https://other"), "index.html is not the file"),
        ("more.js", lambda old: b"", "holds more.js, which its maker has not listed"),
        (MANIFEST, lambda old: old.replace(b"page/page.js", b"../../other.js"), "does not verify"),
        (MANIFEST, lambda old: b"{}", "is not the list of a page's files"),
        (MANIFEST, lambda old: b"[" * 10_000, "is not the list of a page's files"),
    ],
)
def test_a_page_that_was_changed_is_refused(page, name, change, said):
    path = page / name
    path.write_bytes(change(path.read_bytes() if path.exists() else b""))
    status, output = run("check-page", page)
    assert (status, said in output) == (1, True), output


def test_a_file_that_is_gone_and_what_is_no_page_are_refused(page, tmp_path):
    (page / "store.js").unlink()
    status, output = run("check-page", page)
    assert (status, "there is no file of a page" in output) == (1, True), output
    status, output = run("check-page", tmp_path)
    assert (status, f"has no {MANIFEST}" in output) == (1, True), output


def test_what_makes_no_page_is_refused_and_leaves_none(tmp_path):
    own = scenario_file(tmp_path)
    (tmp_path / "texts.json").write_text('{"anser": "Ja"}')
    (tmp_path / "numbers.json").write_text('{"problems": {"forged": 7}}')
    (tmp_path / "column.json").write_text('{"columns": {"visits": 1}}')
    (tmp_path / "label.json").write_text('{"columns": {"visits": {"label": 5}}}')
    (tmp_path / "lable.json").write_text('{"columns": {"visits": {"lable": "Visits"}}}')
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    page = ["--output", tmp_path / "page", "--referee"]
    for words, said in (
        (["ball", *page, REFEREE], "the people of this scenario are simulated"),
        ([own, *page, REFEREE, "--texts", tmp_path / "texts.json"], "'anser' is no text of the page"),
        ([own, *page, REFEREE, "--texts", tmp_path / "numbers.json"], "each of the problems must have a text"),
        *(
            ([own, *page, REFEREE, "--texts", tmp_path / name], "columns: 'visits' must have texts")
            for name in ("column.json", "label.json", "lable.json")
        ),
        ([own, "--output", tmp_path / "full", "--referee", REFEREE], "is there already"),
        ([own, *page, REFEREE, "--epsilon", "0"], "--epsilon must be positive and finite"),
        ([own, *page, REFEREE, "--refuse", "no-such-kind"], "no question is of kind"),
        ([own, *page, REFEREE, "--witness", WITNESS, "--relay", "https://relay.example"], "give one of the two"),
        ([own, *page, "http://[::1]:8000"], "a page cannot ask http://[::1]:8000"),
    ):
        status, output = run("page", *words, "--referee-key", KEY, "--key", tmp_path / "k")
        assert (status != 0, said in output) == (True, True), output
        assert not (tmp_path / "page").exists()


def test_texts_of_some_problems_leave_the_others_as_they_are(tmp_path):
    """What a page says where it has no text of a problem, that nothing was sent, is not true of each."""
    (tmp_path / "texts.json").write_text('{"problems": {"forged": "Falsch", "pattern": "Zu spät"}}')
    frame = (written(tmp_path, "--texts", str(tmp_path / "texts.json")) / "index.html").read_text()
    texts = json.loads(re.search(r'id="settings">(.*?)</script>', frame)[1])["texts"]["problems"]
    assert (texts["forged"], texts["pattern"]) == ("Falsch", "Zu spät")
    assert "this browser has no state" in texts["invitation-used"]


@for_each(("language", "direction"), [("he", "rtl"), ("fa-IR", "rtl"), ("haw", "ltr")])
def test_a_page_is_written_in_the_direction_of_its_language(tmp_path, language, direction):
    (tmp_path / "texts.json").write_text(json.dumps({"language": language}))
    frame = (written(tmp_path, "--texts", str(tmp_path / "texts.json")) / "index.html").read_text()
    assert f'<html lang="{language}" dir="{direction}">' in frame


@for_each(
    ("more", "referee", "dialled", "module"),
    [
        (("--witness", f"{WITNESS}/"), REFEREE, f"{REFEREE} {WITNESS}", "witness.js"),
        (("--relay", "https://relay.example"), REFEREE, "https://relay.example", "relay.js"),
        # A policy that is not in ASCII lets a browser dial nobody.
        ((), "https://Bücher:8000/a", "https://xn--bcher-kva:8000", "agent.js"),
    ],
)
def test_a_page_dials_those_alone_that_it_names(tmp_path, more, referee, dialled, module):
    page = written(tmp_path, *more, referee=referee)
    frame = (page / "index.html").read_text()
    assert f"connect-src {dialled};" in frame
    assert "who_issuer" not in frame
    assert (page / module).exists()
    named = json.loads((page / MANIFEST).read_text())["message"]["witness"]
    assert named == (WITNESS if "--witness" in more else None)


def test_a_server_that_is_busy_has_room_for_all_that_a_browser_asks_at_once(tmp_path, monkeypatch):
    """Who finds none tries again after a second, three, seven and so on: a page stood still for minutes."""
    busy, serve = Event(), Files.serve_forever
    monkeypatch.setattr(Files, "serve_forever", lambda server: busy.wait() and serve(server))
    (tmp_path / "page.js").write_text("let here;")
    with serving(tmp_path) as address, ExitStack() as opened:
        opened.callback(busy.set)
        port = int(address.rpartition(":")[2])
        asked = [opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)) for _ in range(60)]
        for each in asked:
            each.sendall(b"GET /page.js HTTP/1.0\r\n\r\n")
        busy.set()
        assert all(each.makefile("rb").read().endswith(b"let here;") for each in asked)
