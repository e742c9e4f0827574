"""Mistakes that people make with two files: what the message says is a remedy that works when it is followed."""

from dataclasses import dataclass, field
from pathlib import Path

import polars
import pytest
from typer.testing import CliRunner

from referee.cli import app

HEADER = "member,age,income,sex,sick\n"
PAIRS = [f"{2 * pair},30,1200.5,f,yes\n{2 * pair + 1},60,900,m,no\n" for pair in range(300)]
FIRST, SECOND = "".join(PAIRS[:150]), "".join(PAIRS[150:])
GOOD = HEADER + FIRST + SECOND
LABEL = {"--label": "sick", "--positive": "yes", "--negative": "no", "--id": "member"}
FEATURES = {"--bounds": ("age=18:90", "income=0:9000"), "--categories": ("sex=f,m",)}
BUDGETS = {"--epsilon": "4", "--agent-epsilon": "4", "--output": "mine.yaml"}
Way = dict[str, str | tuple[str, ...]]
OPTIONS: Way = {**LABEL, **FEATURES, **BUDGETS}


@dataclass(frozen=True)
class Mistake:
    """What somebody does, what is said, and what they do then.

    Attributes:
        said: Words of the message.
        content: Of ``s.csv``.
        options: Of ``referee init``, beside the usual ones; empty ones are left out.
        then: The options that follow the message; the table is ``better`` then, where the message asks for that.
        check: The message is that of ``referee check``; ``sets`` follow it.
    """

    said: str
    content: str | bytes = GOOD
    options: Way = field(default_factory=dict)
    then: Way = field(default_factory=dict)
    better: str | bytes | None = None
    check: bool = False
    sets: tuple[str, ...] = ()


def spelled(old: str, new: str) -> str:
    """Return the table with a field written otherwise, in quotes."""
    return GOOD.replace(f",{old},", f',"{new}",', 3)


def bounded(said: str, age: str) -> Mistake:
    """Return a mistake about the bounds of the age, which are put right."""
    return Mistake(said, options={"--bounds": (age, "income=0:9000")}, then=dict(FEATURES))


LAYOUT = "source.table.layout."
MISTAKES = {
    "semicolons": Mistake('is divided, as --separator ";"', GOOD.replace(",", ";"), then={"--separator": ";"}),
    "tabs": Mistake(r'is divided, as --separator "\t"', GOOD.replace(",", "\t"), then={"--separator": r"\t"}),
    "a spreadsheet": Mistake("save the table as CSV in UTF-8", b"PK\x03\x04\xff" + b"\n" * 9, better=GOOD),
    "another encoding": Mistake(
        "--encoding windows-1252", GOOD.replace("f", "ü").encode("windows-1252"),
        {"--categories": ("sex=ü,m",)}, {"--encoding": "windows-1252", "--categories": ("sex=ü,m",)},
    ),
    "UTF-16": Mistake("--encoding utf-16", GOOD.encode("utf-16"), then={"--encoding": "utf-16"}),
    "a short row": Mistake("line 602 has 2 fields where there are 5 columns", GOOD + "9,30\n", better=GOOD),
    "an open quote": Mistake("a quote without an end", GOOD + '9,"30,1,f,yes\n', better=GOOD),
    "no rows": Mistake("there is no row below its header", HEADER, better=GOOD),
    "an empty file": Mistake("no column in common", "", better=GOOD),
    "a misspelt label": Mistake("did you mean 'sick'?", options={"--label": "sik"}, then={"--label": "sick"}),
    "a misspelt column": bounded("did you mean 'age'?", "agee=18:90"),
    "a label that is a feature": Mistake(
        "is the label", options={"--categories": ("sex=f,m", "sick=yes,no")}, then=dict(FEATURES)
    ),
    "bounds in words": bounded("as age=18:90", "age=young:old"),
    "bounds that are swapped": bounded("must be below high", "age=90:18"),
    "bounds too far apart": bounded("farther apart than any number", "age=-1e308:1e308"),
    "a column that is forgotten": Mistake(
        "--skip", options={"--bounds": ("age=18:90",)}, then={"--bounds": ("age=18:90",), "--skip": "income"}
    ),
    "costs without a colon": Mistake("such as 10:1", options={"--costs": "10"}, then={"--costs": "10:1"}),
    "no budget": Mistake("must be positive", options={"--epsilon": "0"}, then={"--epsilon": "4"}),
    "an unknown encoding": Mistake("'utf-8'", options={"--encoding": "ansi"}, then={"--encoding": "utf-8"}),
    "one text for yes and no": Mistake(
        "cannot be both positive and negative", options={"--negative": "yes"}, then={"--negative": "no"}
    ),
    "another label": Mistake(
        "add it to label.positive", GOOD.replace("yes", "Yes", 3), check=True,
        sets=("source.table.label.positive=['yes', 'Yes']",),
    ),
    "thousands": Mistake("thousands: ','", spelled("1200.5", "1,200.5"), check=True, sets=(f"{LAYOUT}thousands=','",)),
    "a decimal comma": Mistake(
        "decimal: ','", GOOD.replace(",1200.5,", ',"1200,5",'), check=True, sets=(f"{LAYOUT}decimal=','",)
    ),
    "a missing code": Mistake(
        "missing: ['', '?', 'NA']", spelled("1200.5", "NA"), check=True, sets=(f"{LAYOUT}missing=['', '?', 'NA']",)
    ),
    "a category in another spelling": Mistake(
        "values: [[f, F]]", spelled("f", "F"), check=True,
        sets=("source.table.features=[{kind: category, column: sex, values: [[f, F], m]}]",
              "target.table.features=[{kind: category, column: sex, values: [[f, F], m]}]"),
    ),
    "two files put together": Mistake(
        "(line 302): 'age' is neither a finite number", HEADER + FIRST + "\ufeff" + HEADER + SECOND,
        check=True, better=HEADER + FIRST + "\ufeff" + SECOND,
    ),
    "an id twice": Mistake(
        "s.csv: column 'member' is the id of people, and some rows have the same one", GOOD + PAIRS[0], check=True,
        better=GOOD,
    ),
    "one class alone": Mistake(
        "nothing can be learned from one class", GOOD.replace("yes", "no"), check=True, better=GOOD
    ),
}  # fmt: skip


def init(options: Way, source: str = "s.csv") -> tuple[int, str]:
    """Write the scenario; return exit status and all that is printed, in one line."""
    return words("init", source, "t.csv", *as_words(options), "--yes")


def as_words(options: Way) -> list[str]:
    pairs = ((name, (of,) if isinstance(of, str) else of) for name, of in options.items())
    return [word for option, values in pairs for value in values for word in (option, value)]


def words(*typed: str) -> tuple[int, str]:
    """Run a command; return its status and all that it prints, in one line, without the box of a usage error."""
    done = CliRunner().invoke(app, list(typed))
    return done.exit_code, " ".join(done.output.split())


def check(*sets: str) -> tuple[int, str]:
    return words("check", "mine.yaml", *as_words({"--set": sets}))


def write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1])
def test_a_message_is_followed_and_then_it_works(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed = []
    for number, (name, one) in enumerate(MISTAKES.items()):
        if number % 2 != part:
            continue
        write(tmp_path / "s.csv", GOOD if one.check else one.content)
        encoded = one.content if isinstance(one.content, bytes) and one.better is None else GOOD
        write(
            tmp_path / "t.csv",
            {"semicolons": GOOD.replace(",", ";"), "tabs": GOOD.replace(",", "\t")}.get(name, encoded),
        )
        if one.check:
            assert init(OPTIONS)[0] == 0
            write(tmp_path / "s.csv", one.content)
            status, printed = check()
        else:
            status, printed = init({**OPTIONS, **one.options})
        if status == 0 or one.said not in printed:
            failed.append(f"{name}: {status} {printed[-300:]}")
        if one.better is not None:
            write(tmp_path / "s.csv", one.better)
        status, printed = check(*one.sets) if one.check else init({**OPTIONS, **one.options, **one.then})
        if status != 0:
            failed.append(f"{name}, followed: {status} {printed[-300:]}")
        (tmp_path / "mine.yaml").unlink(missing_ok=True)
    assert not failed, "\n".join(failed)


def test_a_parquet_file_by_another_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", GOOD)
    polars.read_csv(GOOD.encode()).write_parquet(tmp_path / "s.csv")
    status, printed = init(OPTIONS)
    assert (status, "give it a name that ends in .parquet" in printed) == (1, True)
    (tmp_path / "s.csv").rename(tmp_path / "s.parquet")
    status, printed = init(OPTIONS, "s.parquet")
    assert status == 0, printed
