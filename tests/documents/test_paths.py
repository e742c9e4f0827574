"""Every path, module and test that a document or a docstring names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.figures.store import JsonLines
from benchmarks.real.__main__ import RESULTS, latest
from benchmarks.real.page import text as page_of
from common.scenario.sections import CuratorSection
from tests.documents.reading import ROOT, pages
from tests.tiers import for_each

SOURCES = ("common", "curator", "issuer", "local_agent", "referee", "deploy", "tandem", "scenarios")
TREES = (*SOURCES, "benchmarks", "tests", "docs", "examples")
_TREE = "|".join(TREES)
PATH = re.compile(rf"(?<![\w./-])(?:\.\./)?(?:{_TREE})/[\w./-]*\w/?")
"""A path from the root of the repository."""
FILE = re.compile(r"(?<=`)(?:[\w-]+/)*[\w-]+\.(?:py|md|svg|toml|yml)(?=`)")
"""A file that is named without its folder, or with the last of its folders."""
MODULE = re.compile(rf"(?<![\w./-])(?:{_TREE})(?:\.(?!(?:py|md|svg)\b)[A-Za-z_]\w*)+(?![\w/(-])")
TEST = re.compile(r"(?<![\w./])test_\w+(?![\w.])")
GROUP = re.compile(
    r"tandem\.(?:accountants|demands|distributions|hypotheses|learners|mechanisms|operations|problems|protocols|queries)"
)
"""A group of entry points, which is no module."""
GIVEN = {
    "benchmarks.NAME", "benchmarks/results/figureN.jsonl", "benchmarks/results/figureN.svg", "common.x",
    "figureN.svg", "figureN-procedures.svg", "two_coins.py", "docs/pictures/house", "issuer.json",
}  # fmt: skip
"""What stands for a choice of the reader's, and files that a run writes."""


@cache
def _files() -> frozenset[str]:
    """Return all files of the repository that a document may name, from its root."""
    found = {path for tree in TREES for path in (ROOT / tree).rglob("*") if "__pycache__" not in path.parts}
    return frozenset(path.relative_to(ROOT).as_posix() for path in {*found, *ROOT.glob("*")} if path.is_file())


@cache
def named_tests() -> frozenset[str]:
    """Return the names of all tests, and of the files that they stand in."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= {path.stem, *re.findall(r"def (test_\w+)", path.read_text("utf-8"))}
    return frozenset(found)


def _is_module(name: str) -> bool:
    """Return whether a dotted name is a module, a name in one, or a key of a scenario's section ``curator``."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        place, rest = ROOT.joinpath(*parts[:end]), parts[end:]
        file = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
        if file.is_file():
            is_key = parts[0] == "curator" and parts[1] in CuratorSection.model_fields
            return not rest or is_key or re.search(rf"\b{rest[0]}\b", file.read_text("utf-8")) is not None
    return False


def wrong(text: str, folder: Path) -> list[str]:
    """Return the paths, files, modules and tests that ``text`` names and that are not there."""
    text = re.sub(rf"\btandem([./])(?={_TREE})", r"", text)  # as a wheel has them
    paths = {path for path in _all(PATH, text) if not (ROOT / path.removeprefix("../")).exists()}
    files = {name for name in _all(FILE, text) if not any(f"/{path}".endswith(f"/{name}") for path in _files())}
    found = {path for path in paths | files if not (folder / path).exists()}
    found |= {name for name in _all(MODULE, text) if not (_is_module(name) or GROUP.fullmatch(name))}
    return sorted((found | _all(TEST, text) - named_tests()) - GIVEN)


def _all(pattern: re.Pattern[str], text: str) -> set[str]:
    return {match[0] for match in pattern.finditer(text)}


def links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead to a file of the repository."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if not re.match(r"https?:|mailto:", target):
            yield target


@for_each("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_document_names_exists(page: Path) -> None:
    assert wrong(page.read_text("utf-8"), page.parent) == []
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


@pytest.mark.slow
def test_what_a_docstring_or_comment_names_exists() -> None:
    paths = [path for package in (*SOURCES, "benchmarks", "examples") for path in (ROOT / package).rglob("*.py")]
    assert {str(path): missing for path in paths if (missing := wrong(_prose(path), path.parent))} == {}


def _prose(path: Path) -> str:
    text = path.read_text("utf-8")
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, documented))
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    return "\n".join([*docstrings, *re.findall(r"(?:^|\s)# (.*)", text)])


@for_each(
    "text",
    [
        "see `common/numerics/nowhere.py`",
        "`curator/nowhere/`",
        "the file `nowhere.py`",
        "in `common.numerics.nowhere`",
        "`common.core.errors.NotThere`",
        "checked in `test_that_is_not_there`",
        "python -m referee.nowhere",
    ],
)
def test_a_name_of_nothing_is_noticed(text: str) -> None:
    there = (
        "`curator.storage.place`, `common.core.errors`, `README.md`, `docs/privacy.md`, `test_paths`, `tests/deploy/`"
    )
    assert len(wrong(f"{there} {text}", ROOT / "docs")) == 1


TOO_BROAD = {
    r"when a run ends `done` the loss|when a run ends `done`, the loss": "what done states is each protocol's own",
    r"trusting nobody|needs to trust nobody": "keys, people and reports that were never signed are the referee's word",
    r"sure to tell": "a stated gap holds with probability 1 - beta",
    r"within it of the best candidate": "a gap holds with a probability",
    r"were a share of the answers lies|liars \(the largest share of": "a share of the first n answers",
    r"left out, or silent, because they disagree": "what was left out after it was seen has a wider interval",
    r"[Uu]nbiased mean of the answers, clipped": "not after a stop or a choice",
    r"equal within its (stated )?gap": "better and worse take the same interval",
    r"the privacy code is changed": "only what targets.py lists is mutated",
    r"publish a wrong result; the audit then fails|audit then fails": "not where people are invented, or answers lie",
    r"an auditor \| nobody": "keys, invented people and what nobody has acknowledged are the referee's word",
    r"recomputes everything from it|everything again, from the run folder": "that participants are people is no part",
    r"confidence among those who answer\"|states in its\s+verdict how far": "a verdict is about all who were asked",
    r"receipts? (is|are) compared with the reports\b": "with the roots that the transcript signs",
    r"Check that what left this device is counted: the referee must prove it": "as it was sent, and against whom",
}
"""Sentences that claimed more than their theorem, and what is true."""


@for_each("pattern", TOO_BROAD)
def test_no_sentence_that_claimed_too_much_comes_back(pattern):
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    product = ("common", "curator", "deploy", "local_agent", "referee", "tandem", "scenarios", "benchmarks")
    sources = [path for room in product for kind in ("*.py", "*.html", "*.yaml") for path in (ROOT / room).rglob(kind)]
    told_before = {ROOT / "docs" / "attacks.md"}  # what happened before, beside what happens now
    found = [path for path in (*pages, *sources) if path not in told_before and re.search(pattern, path.read_text())]
    assert found == [], TOO_BROAD[pattern]


def test_the_page_of_real_shifts_is_that_of_the_stored_rows_and_has_all_pictures() -> None:
    rows, page = latest(JsonLines(RESULTS).values()), ROOT / "benchmarks" / "results" / "real.md"
    assert page.read_text() == page_of(rows, "../../docs/pictures/real"), (
        "write it again: python -m benchmarks.real --page benchmarks/results/real.md --pictures docs/pictures/real"
    )
    drawn = {path.stem for path in (ROOT / "docs" / "pictures" / "real").glob("*.svg")}
    assert drawn == {row["shift"] for row in JsonLines(RESULTS).values()} != set()


def test_what_to_expect_says_what_the_record_says() -> None:
    record, page = ((ROOT / name).read_text() for name in ("benchmarks/results/real.md", "docs/real.md"))
    rows = re.findall(
        r": ([+-][\d.]+) points gained on average, ([+-][\d.]+) at worst, ([+-][\d.]+) at best; .* is ([\d.]+) on",
        record,
    )
    assert re.findall(r"shifts\) \| ([+-][\d.]+) \| ([+-][\d.]+), ([+-][\d.]+) \| ([\d.]+) \|", page) == rows != []
