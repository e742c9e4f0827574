"""Every command of every document is known, and those that take long say so and would be understood."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from common.scenario.loading import shipped
from tests.documents import table, unrun
from tests.documents.jobs import BETA
from tests.documents.parsing import examples, named_only, options, understood
from tests.documents.reading import ROOT, Block, Printed, blocks, commands, mentions, of_page, pages
from tests.documents.table import QUICK, SLOW
from tests.tiers import for_each

PRINTED = commands()
RUN = {step.command for job in (*table.QUICK, *table.SLOW) for step in job.steps}
ROWS = {
    *(*RUN, *unrun.IN_CI, *unrun.SITE, *unrun.IN_A_BROWSER),
    *(*unrun.CORRECTIONS, *unrun.CONTAINERS, *unrun.EXTRAS, *unrun.NAMES),
}
LONG = re.compile(r"\b(hours?|minutes?)\b")
PARSED = {found.text for found in PRINTED if found.text not in ROWS and LONG.search(found.beside)}


def without_a_row(printed: list[Printed]) -> list[str]:
    # A program's name happens to begin a line of a drawing.
    drawn = [start for starts in unrun.NO_CODE.values() for start in starts if "<--" in start]
    unknown = (found for found in printed if not (found.text in ROWS or LONG.search(found.beside)))
    unknown = (found for found in unknown if not named_only(found.text))
    return [str(found) for found in unknown if not any(start in found.beside for start in drawn)]


def without_a_kind(found: list[Block]) -> list[str]:
    return [
        str(block)
        for block in found
        if block.kind == "unknown"
        and not block.text.strip().startswith((*unrun.SHOWN, *unrun.NO_CODE.get(block.document, ())))
    ]


def test_every_printed_command_has_a_row_or_says_how_long_it_takes() -> None:
    assert without_a_row(PRINTED) == [], "give each a row in tests/documents/table.py"
    assert len(PARSED) > 50


def test_every_block_is_known_for_what_it_is() -> None:
    assert without_a_kind([block for page in pages() for block in blocks(page)]) == []


@for_each(
    "text",
    [
        "    referee run nobody-knows-this",
        "Type `referee run ball --seed 77` and wait.",
        "| `make new-target` | new |",
        "Run `python -m\n  benchmarks.new` first.",
        "```sh\ngit clone https://example.org/x\n```",
        "```\nkubectl apply -f deploy.yaml\n```",
        "    export A=b",
        "    $ referee plan sparse\n    a line of output",
    ],
)
def test_a_new_command_in_a_page_is_noticed(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{text}\n\nMore.\n")
    assert len(without_a_row(list(of_page(page)))) == 1


def test_no_row_is_dead() -> None:
    assert {printed.text for printed in PRINTED} >= ROWS
    found = [block.text.strip() for page in pages() for block in blocks(page)]
    for start in (*unrun.SHOWN, *(start for starts in unrun.NO_CODE.values() for start in starts)):
        assert any(text.startswith(start) for text in found), start
    assert set(unrun.SHOWN.values()) <= RUN


@pytest.mark.slow
def test_every_command_would_be_understood() -> None:
    """Those that this tier runs show it by running."""
    run_here = {step.command for job in (*QUICK, *SLOW) if not job.thorough for step in job.steps}
    for command in sorted({*RUN, *PARSED, *unrun.CORRECTIONS, *unrun.EXTRAS} - run_here):
        _understand(command)


def _understand(command: str) -> None:
    program = next(word for word in command.split() if "=" not in word).rpartition("/")[2]
    if program in ("referee", "curator", "local-agent", "tandem", "pip") or command.startswith("python -m benchmarks"):
        text = command.removesuffix(" &")
        for name, value in unrun.VALUES.items():
            text = text.replace(name, value)
        if "[--table N]" not in text and "FILE.yaml" not in text:
            understood(text)


def test_the_examples_of_the_commands_help_would_be_understood() -> None:
    for command in sorted(set(examples())):
        understood(command)


def test_every_option_that_is_named_exists() -> None:
    known = options()
    for printed in mentions():
        assert printed.text.split()[0] in known, str(printed)


def test_the_tables_of_benchmarks_name_all_of_them_and_nothing_else() -> None:
    rows = re.findall(
        r"^\| (`.*?`) \|", (ROOT / "docs" / "benchmarks.md").read_text().partition("benchmarks.NAME")[2], re.MULTILINE
    )
    named = {name.split()[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    there = {path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py")}
    there |= {path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py")}
    assert named == there
    scale = (ROOT / "docs" / "scale.md").read_text().partition("| `python -m benchmarks.`")[2]
    assert {name.split(".")[0].split()[0] for name in re.findall(r"^\| `([^`]+)`", scale, re.MULTILINE)} <= there


def test_continuous_integration_runs_what_is_said_to_be_run_there_and_nothing_twice() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    made = [word for line in lines if line.startswith("make ") for word in line.split()[1:] if word[0] != "-"]
    assert made == [word for command in unrun.IN_CI for word in command.split()[1:]]


def test_all_tries_miss_less_often_than_once_in_a_million_runs() -> None:
    """Each misses with probability beta at most, which is the scenario's; a seed of its own makes it independent."""
    likely = [step for job in (*QUICK, *SLOW) for step in job.steps if step.chance]
    assert len(likely) > 10
    for step in likely:
        scenario = yaml.safe_load((ROOT / "scenarios" / f"{step.command.split()[2]}.yaml").read_text())
        assert scenario["beta"] <= BETA
        assert step.chance < 1e-6
    assert sum(step.chance for step in likely) < 1e-5


def test_the_hooks_before_a_commit_are_those_of_make_check() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    lines = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == lines


def test_the_changelog_begins_with_this_version_and_its_day_or_what_came_after() -> None:
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version = str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    released = rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)"
    assert re.fullmatch("Unreleased" if ".dev" in version else released, heads[0])
    assert len({head.split()[0] for head in heads}) == len(heads)


def test_every_scenario_and_every_line_of_the_papers_says_what_runs_it_and_which_tests_hold_it() -> None:
    text = (ROOT / "docs" / "papers.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    rows = [row for row in rows if row[0] != "what"]
    assert len(rows) > 40
    for what, runs, held, differs in rows:
        assert runs.startswith("not here") != bool(re.search(r"`tests/[\w/]+\.py`", held)), what
        assert differs or runs.startswith("not here"), what
    assert [name for name in shipped() if f"`{name}`" not in text] == []
