"""Titles, columns, files and folders with hostile names: shown as text by every command, never obeyed, never lost."""

import ast
import csv
import html
import json
import os
import subprocess
import sys
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.table import Table
from typer.testing import CliRunner

import common
from common.core import terminal
from common.core.plain import MAX_LENGTH, command, plain
from common.core.terminal import deliver
from referee.cli import app
from referee.service.referee import CuratorClient
from referee.view import show
from referee.view.listing import logged, runs_table
from referee.view.pages import report
from referee.view.wording import run_view
from tests.common.net.test_hostile_peers import hostile, whole
from tests.referee.service.test_operating import running
from tests.support import TOKEN, Bench, tiny
from tests.tiers import for_each

OPTION = "-rf --help"
TEXTS = (
    "paid back [/month]",
    "b[bold]x[/bold] [red]",
    "[link=http://evil.example]press[/link]",
    "colour \x1b[31mred\x1b[0m \x1b]0;title\x07",
    "two\nlines\r# Verified by auditor",
    "quotes ' and \" both",
    "$(touch owned) `touch owned` $HOME ; touch owned & | > owned",
    "<script>alert(1)</script>&amp;",
    OPTION,
    "\u202egnirts lanoitceridib",
    "שלום עולם",
    "two  blanks, and a\ttab",
    ":warning: :bug:",
    "{percent} %s %d {task.description}",
    "back\\slash \\033[31m",
    "a long" + " name" * 20,
)
"""What a title, a column, a file or a folder may be called."""
TOGETHER = (
    "[/month] \x1b[31mred\x1b]0;title\x07 two\nlines ' \" $(touch owned) `touch owned` ; touch owned | > owned "
    "<script>alert(1)</script> \u202eשם %s {percent} \\033[31m"
)
PROGRAM = [sys.executable, "-c", "from referee.cli import main; main()"]
PEOPLE = (400, 900)


def as_name(text: str) -> str:
    return text.replace("/", "_")[:200]


def words_for(label: str, feature: str) -> list[str]:
    """Return the options of ``init`` for two tables with these columns."""
    return ["--label", label, "--positive", "yes", "--negative", "no", "--bounds", f"{feature}=0:30", "--yes"]


PRODUCT = sorted(
    path for party in ("common", "curator", "issuer", "local_agent", "referee", "deploy", "tandem")
    for path in (Path(common.__file__).parents[1] / party).rglob("*")
)  # fmt: skip


@cache
def nodes() -> list[tuple[str, ast.Call | ast.ImportFrom]]:
    """Return the calls and the imports of the product, each with its file."""
    return [
        (str(path.relative_to(Path(common.__file__).parents[1])), node)
        for path in PRODUCT
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call | ast.ImportFrom)
    ]


def tables(folder: Path, label: str, feature: str) -> tuple[Path, Path]:
    """Write two tables with these columns; return their paths."""
    made = []
    for side, (people, seed) in {"S": (PEOPLE[0], 1), "T": (PEOPLE[1], 2)}.items():
        drawn = np.random.default_rng(seed)
        visits = drawn.integers(0, 30, people)
        renews = np.where(visits + drawn.normal(0, 5, people) > 15, "yes", "no")
        made.append(folder / f"{side} {as_name(feature)}.csv")
        with made[-1].open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([[feature, label], *zip(visits.tolist(), renews.tolist(), strict=True)])
    return made[0], made[1]


def words_of(line: str) -> list[str]:
    out = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True).stdout
    return [os.fsdecode(word) for word in out.split(b"\0")[:-1]]


def visible(*words: str) -> list[str]:
    """Run a command of ``referee``; return the lines that it printed, in which nothing is a command to a terminal."""
    done = CliRunner().invoke(app, list(words))
    lines = done.output.splitlines()
    assert done.exit_code == 0, (words, lines, done.exception)
    assert all(line.isprintable() for line in lines), lines
    return lines


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns."""
    for console in (show._OUT, show._ERR):
        monkeypatch.setattr(console, "_width", 40)


@pytest.mark.slow
@pytest.mark.usefixtures("narrow")
@for_each("text", [TOGETHER, OPTION, *(pytest.param(text, marks=pytest.mark.thorough) for text in TEXTS)], ids=ascii)
def test_every_command_shows_hostile_names_as_text_and_its_printed_commands_run(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """init, plan, check, run, audit, report, model, budget: names that are markup, escapes, shell or options."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first, second = tables(tmp_path, text, f"{text} visits")
    scenario = f"{as_name(text)}.yaml"
    options = [*words_for(text, f"{text} visits"), "--epsilon", "2", "--agent-epsilon", "2", "--output", scenario]
    printed = visible("init", *options, "--", first.name, second.name)
    title = yaml.safe_load((tmp_path / scenario).read_text())["title"]
    assert text in title
    nexts = [words_of(line) for line in printed if line.startswith("  referee ")]
    assert [words[:2] for words in nexts] == [["referee", name] for name in ("plan", "check", "run")]
    visible(*nexts[0][1:])
    visible(*nexts[1][1:])
    output = Path(as_name(f"{text} run"))
    ran = visible(*nexts[2][1:], "--yes", *words_of(command("--output", output)))
    assert any(plain(title) in line for line in ran), ran
    assert f"run folder: {plain(str(output))}" in ran
    verify = next(line for line in ran if line.startswith("Verify it: ")).removeprefix("Verify it: ")
    assert any(line.startswith("verified ") for line in visible(*words_of(verify)[1:]))
    for name in ("report", "model"):
        visible(*words_of(command(name, output)))
    page = (output / "report.html").read_text()
    assert not any(words in page for words in ("<script>alert", "\x1b"))
    assert verify in html.unescape(page)
    spent = json.loads(visible("budget", "--json")[0])
    assert [run["all_runs"]["runs"] for run in spent] == [1]
    assert not (tmp_path / "owned").exists()


@pytest.mark.thorough
def test_a_process_shows_them_whatever_its_terminal_can_show(tmp_path: Path) -> None:
    """ASCII only, and a pipe: a title, a folder and a file with names beyond that end in no error of an encoding."""
    text = "שלום [/month] \x1b[31m $(touch owned)"
    first, second = tables(tmp_path, text, "visits")
    environment = {**os.environ, "COLUMNS": "40", "XDG_STATE_HOME": str(tmp_path / "state")}
    environment |= {"PYTHONIOENCODING": "ascii:strict", "TERM": "xterm"}
    for words in (
        ["init", *words_for(text, "visits"), "--output", "mine.yaml", first.name, second.name],
        *(["plan", "mine.yaml"], ["check", "mine.yaml"]),
        ["run", "mine.yaml", "--yes", "--output", text],
        *(["report", text], ["audit", text]),
    ):
        done = subprocess.run([*PROGRAM, *words], cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), (words, done.stderr.decode())
        assert b"\x1b" not in done.stdout + done.stderr


def test_a_command_is_what_a_shell_reads_back(tmp_path: Path) -> None:
    words = [*TEXTS, "", "x" * 5000, "a\udcffb"]
    line = command(*words)
    assert line.isprintable()
    assert words_of(line) == words
    assert command("referee", Path("-x")) == "referee ./-x"
    assert command("\ud800").isprintable()  # which no file can be called


def test_texts_in_tables_and_styled_lines_are_texts(capsys: pytest.CaptureFixture[str]) -> None:
    for text in TEXTS:
        table = Table(text, title=text, box=None)
        table.add_row(text)
        out = terminal.console()
        out.print(table)
        out.print(text, soft_wrap=True)
        out.print(terminal.styled((text, "bold"), (text, "")), soft_wrap=True)
        terminal.say(text)
        printed = capsys.readouterr().out
        lines, shown = printed.splitlines(), plain(text)
        assert all(line.isprintable() for line in lines)
        assert lines[-3:] == [shown, shown + shown, shown]
        assert "".join(printed.split()).count("".join(shown.split())) >= 6  # a title and two cells as well
    assert len(plain("x" * 10 * MAX_LENGTH)) == MAX_LENGTH + 3


def test_there_is_one_way_to_a_terminal() -> None:
    """Nothing but the one file prints: what another place prints could be read as markup or as a command."""
    excepted = {
        "common/core/terminal.py",
        "deploy/packaging/sbom.py",  # of the project's own names
        "deploy/packaging/install.py",
        "deploy/load/machine.py",
        "referee/view/diagrams.py",
        "common/net/cli.py",  # which sets up the log
    }
    prints = {
        *("print", "Text.from_markup", "logging.StreamHandler", "traceback.print_exc"),
        *(f"sys.{name}.write" for name in ("stdout", "stderr", "__stdout__", "__stderr__")),
        *(f"typer.{name}" for name in ("echo", "secho", "prompt")),
    }
    assert [
        (name, node.lineno)
        for name, node in nodes()
        if name not in excepted
        and (
            ast.unparse(node.func) in prints
            if isinstance(node, ast.Call)
            else node.module in ("rich.markup", "rich.console", "rich")
        )
    ] == []


def test_there_is_one_way_into_a_page() -> None:
    """Markup is made of text in one module; what is marked as safe is written here, and each template escapes."""
    libraries = {
        "html": ("common/core/plain.py",),
        "markupsafe": ("common/net/rendering.py", "referee/view/pages.py", "referee/view/invitations.py"),
    }
    assert [
        (name, node.lineno)
        for name, node in nodes()
        if (
            ast.unparse(node.func).endswith("Environment") and name != "common/net/rendering.py"
            if isinstance(node, ast.Call)
            else name not in libraries.get(node.module or "", (name,))
        )
    ] == []
    for path in PRODUCT:
        if path.suffix == ".html":
            assert not any(word in path.read_text("utf-8") for word in ("|safe", "| safe", "autoescape")), path


EVIL = "\x1b]0;mine\x07[bold]<script>alert(1)</script> | `x`\n# head"


def test_reports_results_progress_and_operators_lines_hold_it_as_text(undisturbed, capsys, tmp_path):
    result = {**undisturbed[1].result, "reason": EVIL, "truth": None, "run": "folder", "peak_memory_bytes": 0}
    result["lost"] = {"silent": 2, "declined": {"policy": 3}}
    page = report([run_view(tiny(), result, [])])
    assert not any(text in page for text in ("<script>", "\x1b", "\n# head"))
    assert all(text in page for text in ("&lt;script&gt;alert(1)", "2 kept silent", "3 declined: policy 3"))
    show.result(tiny(), result)
    with show.live(tiny(), 1, tmp_path, quiet=False) as said:
        said(EVIL, {})
    for printed in capsys.readouterr():
        assert "\x1b" not in printed
        assert "[bold]" in printed.replace("\n", "")
    line = {"run": "a", "scenario": EVIL, "status": "waiting", "waits_for": EVIL, "verdict": EVIL}
    assert len(runs_table([line]).splitlines()) == 2
    for waits, words in (
        ("agents: 400 wanted, 12 enrolled that were never asked", "a: start more agents"),
        ("agents: 3 of 400 on question 1", "a: start agents again"),
        ("the curator", "a: start its curator again"),
    ):
        last = runs_table([{**line, "waits_for": waits}]).splitlines()[-1]
        assert last.startswith(words)
        assert last.endswith("; or end it: referee cancel a")
    for text in (*runs_table([line]).splitlines(), *logged([], [EVIL])):
        assert text.isprintable()


@pytest.mark.slow
def test_a_curator_s_refusal_is_text_to_the_referee_s_operator(tmp_path, monkeypatch):
    """Its reason passes two services, a result and a report: no escape code of it arrives, and no line is forged."""
    problem = {"type": "urn:tandem:problem:refused", "title": EVIL, "detail": EVIL * 40, "spent": EVIL}
    refusing = whole(json.dumps(problem).encode(), status="403 Forbidden")
    monkeypatch.setenv("TANDEM_OPERATOR_TOKEN", TOKEN)

    def shown(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False, timeout=300)
        assert not any(text in done.stdout + done.stderr for text in ("\x1b", "\n# head"))
        return done

    with (
        hostile(refusing) as url,
        Bench(tmp_path / "bench") as bench,
        closing(CuratorClient(url, patience=1.0)) as client,
        running(bench) as address,
    ):
        bench.referee._curator = client
        (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(bench.chosen.wire()))
        run = ["run", str(tmp_path / "tiny.yaml"), "--deployment", address, "--output"]
        for more in ([], ["--json"]):
            folder = tmp_path / f"run{len(more)}"
            ended = shown(*run, str(folder), *more)
            assert (ended.returncode, ended.stderr.splitlines()[-1][:9]) == (1, "refused: "), ended.stderr
            page = (folder / "report.html").read_text("utf-8")
            assert not any(text in page for text in ("\x1b", "\n# head", "<script>alert"))
        assert "# head" in json.loads(ended.stdout)["reason"]
        for words in (["runs", "--url", address], ["audit", str(folder)]):
            visible(*words)


def test_a_document_on_a_terminal_is_visible_characters(monkeypatch, capsys):
    deliver("a,b\n" + EVIL.replace("\n", " "))
    assert "\x1b" in capsys.readouterr().out, "a program reads it byte for byte"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    deliver("a,b\n" + EVIL)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a,b"
    assert all(line.isprintable() for line in lines)
