"""Each sentence of docs/security.md that says what a malicious party cannot do has a test with a party that tries."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from local_agent.cli import app as local_agent
from referee.cli import app as referee
from tests.documents.reading import ROOT
from tests.tiers import for_each

PAGE = (ROOT / "docs" / "security.md").read_text()
SECTION = PAGE.partition("## What a malicious party can do")[2].partition("\n## ")[0]
PROSE, _, TABLE = SECTION.partition('Each "cannot" above has a party that tries:')
ROWS = re.findall(r"^\| (referee|agent|curator|eavesdropper) \| ([^|]+) \| ([^|]+) \|$", TABLE, re.MULTILINE)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that say what cannot be done, each in one line."""
    found = re.split(r"(?<=[.:])\s+(?=[A-Z*])", " ".join(text.split()))
    return [sentence for sentence in found if "cannot" in sentence]


@for_each("sentence", sentences(PROSE), ids=lambda text: text[:60])
def test_each_sentence_that_says_cannot_has_a_row(sentence):
    after = sentence.partition("cannot")[2]
    assert [claim for _, claim, _ in ROWS if claim in after], f"no test tries: {sentence}"


@for_each(("who", "claim", "tests"), ROWS)
def test_each_row_is_a_claim_of_the_page_and_names_tests(who, claim, tests):
    assert any(claim in sentence.partition("cannot")[2] for sentence in sentences(PROSE)), claim
    named = re.findall(r"`(test_\w+)`", tests)
    assert named
    for name in named:
        assert name in _defined(), f"{name} is no test"


def _defined() -> set[str]:
    return {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE)
    }


def test_a_claim_without_a_test_is_noticed():
    assert len(ROWS) >= 10
    assert sentences("It can do this. It cannot fly: it tries. It may sing.") == ["It cannot fly: it tries."]


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


PROMISES = PAGE.partition("## What an exit status promises")[2].partition("\n## ")[0]
STATUSES = re.findall(r"^\| (`[^|]+) \| (\d) \| ([^|]+) \| ([^|]*) \| ([^|]+) \| ([^|]+) \|$", PROMISES, re.MULTILINE)


def test_the_table_of_exit_statuses_is_what_the_help_says_and_each_row_names_an_attack():
    """The commands' help is the short form: each of its statements stands in a row of that command and status."""
    assert len(STATUSES) == PROMISES.count("\n| `")
    for command, application in (("local-agent check", local_agent), ("referee audit", referee)):
        words = " ".join(CliRunner().invoke(application, [command.split()[1], "--help"]).stdout.split())
        stated = words.partition("Exit status 0: ")[2].partition(". Example:")[0]
        said = dict(zip((0, *map(int, re.findall(r"; (\d): ", stated))), re.split(r"; \d: ", stated), strict=True))
        rows = [row for row in STATUSES if row[0].startswith(f"`{command}")]
        assert {int(row[1]) for row in rows} == set(said)
        for status, meaning in said.items():
            promised = " ".join(row[2] for row in rows if int(row[1]) == status)
            for part in meaning.split(" and, with --witness, "):
                assert part in promised, (command, status, part)
    for *_, tests in STATUSES:
        named = re.findall(r"`(test_\w+)`", tests)
        assert named
        assert set(named) <= _defined(), tests
