"""Five strangers with two files each: public commands alone, from CSV to a verdict, without a YAML file edited.

    python -m benchmarks.strangers [--only NAME] [--keep DIRECTORY] [--json]

Tables are invented with fixed seeds: ``messy`` (semicolons, decimal comma, accents, ja/nein, fields that are missing),
``rare`` (4% are a yes), ``number`` (the label is a number), ``small`` (300 rows of S) and ``wide`` (200 columns).
Printed for each: the seconds of all its commands, on the wall and of processors, and the verdict, held against the
records, which the audit cannot see: the interval of the answer's loss must hold the true one, and what is called better
than saying the same to everybody must be better. Exit status 1 if a command fails, a verdict is wrong, or a path takes
more than five minutes of processors.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tandem

BIN = Path(sys.executable).parent
LONGEST = 300.0  # most seconds of processor time for a path
Row = dict[str, str]
ROUNDING = 1e-9


@dataclass(frozen=True)
class Stranger:
    """A new user with two tables, and the options that they type.

    Attributes:
        person: Generates a row; the second argument states whether it is of S.
        sizes: Numbers of rows of S and of T.
        options: Options of ``referee init``, beside both files and ``--yes``.
        positive: Whether a row of the file has the positive label.
        separator, encoding: Those of both files.
    """

    person: Callable[[random.Random, bool], Row]
    sizes: tuple[int, int]
    options: tuple[str, ...]
    positive: Callable[[Row], bool]
    separator: str = ","
    encoding: str = "utf-8"


def _messy(source: random.Random, volunteer: bool) -> Row:
    size, age = source.gauss(176 if volunteer else 170, 9), source.uniform(18, 90)
    town, sport = source.choice(["Zürich", "Genève", "Bern"]), source.choice(["Ja", "nein"])
    score = (size - 170) / 18 + (age - 54) / 40 + 0.7 * (town == "Genève") - 0.5 * (sport == "Ja")
    income = f"{source.uniform(20_000, 90_000):,.2f}".replace(",", "'").replace(".", ",")
    row = {"Größe": f"{size:.1f}".replace(".", ","), "Alter": f"{age:.0f}", "Ort": town, "Sport": sport}
    row["Einkommen"] = income
    for column in row:
        if source.random() < 0.03:
            row[column] = source.choice(["", "k.A."])
    return {
        "Kunden-Nr": str(source.randrange(10**9)),
        **row,
        "kauft": "ja" if score + source.gauss(0, 0.3) > 0.2 else "nein",
    }


def _rare(source: random.Random, volunteer: bool) -> Row:
    hours, faults = source.uniform(0, 100), source.randrange(12)
    chance = 0.4 if hours > 80 and faults > 8 else 0.024
    row = {"hours": f"{hours:.1f}", "faults": str(faults), "site": source.choice(["north", "south"])}
    return {**row, "broke": "1" if source.random() < chance else "0"}


def _number(source: random.Random, volunteer: bool) -> Row:
    rooms, metres = source.randint(1, 7), source.uniform(20, 180) * (0.7 if volunteer else 1.0)
    price = 2_000 * metres + 15_000 * rooms + source.gauss(0, 25_000)
    return {"rooms": str(rooms), "metres": f"{metres:.0f}", "price": f"{price:,.0f}"}


def _small(source: random.Random, volunteer: bool) -> Row:
    first, second = source.gauss(0, 1), source.gauss(0, 1)
    sick = first + 0.5 * second + source.gauss(0, 0.5) > 0
    return {"marker": f"{first:.3f}", "pressure": f"{120 + 15 * second:.0f}", "sick": "TRUE" if sick else "FALSE"}


def _wide(source: random.Random, volunteer: bool) -> Row:
    features = [source.random() for _ in range(200)]
    score = sum(features[:20]) - sum(features[20:40]) + source.gauss(0, 0.5)
    return {**{f"q{at}": f"{value:.4f}" for at, value in enumerate(features)}, "agrees": "yes" if score > 0 else "no"}


def _is(column: str, text: str) -> Callable[[Row], bool]:
    return lambda row: row[column] == text


STRANGERS = {
    "messy": Stranger(
        _messy,
        (6_000, 20_000),
        (
            *("--label", "kauft", "--positive", "ja", "--negative", "nein", "--id", "Kunden-Nr"),
            *("--bounds", "Größe=140:210", "--bounds", "Alter=18:90", "--bounds", "Einkommen=0:100000"),
            *("--categories", "Ort=Zürich,Genève,Bern", "--categories", "Sport=Ja,nein"),
            *("--separator", ";", "--decimal", ",", "--thousands", "'", "--encoding", "windows-1252"),
            *("--missing-texts", "k.A.", "--epsilon", "2", "--agent-epsilon", "2"),
        ),
        _is("kauft", "ja"),
        ";",
        "windows-1252",
    ),
    "rare": Stranger(
        _rare,
        (8_000, 30_000),
        (
            *("--label", "broke", "--positive", "1", "--negative", "0", "--bounds", "hours=0:100"),
            *("--bounds", "faults=0:11", "--categories", "site=north,south", "--agent-epsilon", "2"),
        ),
        _is("broke", "1"),
    ),
    "number": Stranger(
        _number,
        (5_000, 20_000),
        (
            *("--label", "price", "--above", "250000", "--bounds", "rooms=1:7", "--bounds", "metres=20:180"),
            *("--thousands", ",", "--agent-epsilon", "2"),
        ),
        lambda row: float(row["price"].replace(",", "")) > 250_000,
    ),
    "small": Stranger(
        _small,
        (300, 3_000),
        (
            *("--label", "sick", "--positive", "TRUE", "--negative", "FALSE", "--bounds", "marker=-3:3"),
            *("--bounds", "pressure=80:180", "--epsilon", "4", "--agent-epsilon", "4"),
        ),
        _is("sick", "TRUE"),
    ),
    "wide": Stranger(
        _wide,
        (10_000, 40_000),
        (
            *("--label", "agrees", "--positive", "yes", "--negative", "no", "--epsilon", "4", "--agent-epsilon", "4"),
            *(word for at in range(200) for word in ("--bounds", f"q{at}=0:1")),
        ),
        _is("agrees", "yes"),
    ),
}


def invent(name: str, stranger: Stranger, folder: Path) -> list[Row]:
    """Write ``s.csv`` and ``t.csv``; return the rows of T."""
    source, rows = random.Random(f"stranger {name}"), []
    for file, count in zip(("s.csv", "t.csv"), stranger.sizes, strict=True):
        rows = [stranger.person(source, file == "s.csv") for _ in range(count)]
        with (folder / file).open("w", newline="", encoding=stranger.encoding) as stream:
            writer = csv.DictWriter(stream, list(rows[0]), delimiter=stranger.separator)
            writer.writeheader()
            writer.writerows(rows)
    return rows


def commands(stranger: Stranger) -> Iterator[tuple[str, ...]]:
    """Yield the commands that a stranger types, in order."""
    yield ("init", "s.csv", "t.csv", *stranger.options, "--output", "mine.yaml", "--yes")
    yield ("check", "mine.yaml")
    yield ("plan", "mine.yaml")
    yield ("run", "mine.yaml", "--output", "runs/mine", "--yes")
    yield ("audit", "runs/mine")


def wrong(result: Mapping[str, Any], rows: list[Row], stranger: Stranger) -> list[str]:
    """Return the statements in a result's verdict that are false for T's rows."""
    truth = [stranger.positive(row) for row in rows]
    model, shown = tandem.load_model(result["run"]), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yes = tandem.predict(model, "t.csv") == model.classes[1]
    errors = sum(bool(said) != true for said, true in zip(yes, truth, strict=True)) / len(truth)
    constant = min(sum(truth), len(truth) - sum(truth)) / len(truth)
    found, answer = result["estimate"], result["verdict"].get("constant", {}).get("answer")
    if not found["low"] - ROUNDING <= errors <= found["high"] + ROUNDING:
        shown.append(f"the answer errs on {errors:.1%}, outside {found['low']:.1%} to {found['high']:.1%}")
    if (answer in ("yes", "probably") and errors >= constant) or (answer == "no" and errors < constant):
        shown.append(f"the answer errs on {errors:.1%}, a constant on {constant:.1%}")
    return shown


def _processors() -> float:
    """Return the processor seconds of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def travel(name: str, stranger: Stranger, folder: Path) -> dict[str, Any]:
    """Follow one path in an empty folder; return its results."""
    rows = invent(name, stranger, folder)
    own = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    before, steps = _processors(), {}
    for words in commands(stranger):
        since = time.monotonic()
        done = subprocess.run(
            [BIN / "referee", *words], cwd=folder, env=own, text=True, capture_output=True, check=False
        )
        steps[words[0]] = round(time.monotonic() - since, 1)
        (folder / f"{words[0]}.txt").write_text(done.stdout + done.stderr)
        if done.returncode:
            return {"stranger": name, "steps": steps, "wrong": [f"referee {words[0]}: {done.stderr.strip()[-400:]}"]}
    seconds = round(_processors() - before, 1)
    result = json.loads((folder / "runs/mine/result.json").read_text())
    with chdir(folder):
        problems = wrong(result, rows, stranger)
    if seconds > LONGEST:
        problems.append(f"{seconds:.0f} seconds")
    return {"stranger": name, "steps": steps, "seconds": seconds, "verdict": result["verdict"], "wrong": problems}


def main() -> None:
    """Go all paths and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=STRANGERS)
    parser.add_argument("--keep", type=Path, help="leave each stranger's folder here")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = []
    for name, stranger in STRANGERS.items():
        if given.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) if given.keep is None else given.keep / name
            place.mkdir(parents=True, exist_ok=True)
            row = travel(name, stranger, place)
        found.append(row)
        if not given.json:
            print(f"{name}: {sum(row['steps'].values()):.0f} s {row['steps']}, of processors {row.get('seconds')}")
            print(f"    {row.get('verdict', {}).get('text')}")
            for problem in row["wrong"]:
                print(f"    WRONG: {problem}", flush=True)
    if given.json:
        print(json.dumps(found))
    sys.exit(any(row["wrong"] for row in found))


if __name__ == "__main__":
    main()
