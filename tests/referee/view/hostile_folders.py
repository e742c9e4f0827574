"""Run folders as a stranger may leave them, and a process that runs every command on each: so that it may die alone.

python -m tests.referee.view.hostile_folders RUN PLACE
"""

import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from typer.testing import CliRunner

from referee.cli import app

FILES = ("scenario.yaml", "result.json", "transcript.jsonl", "checkpoints.jsonl", "participants", "reports/1.reports")
LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 8}]\n" for i in range(1, 12))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{f'*a{i - 1},' * 9}]}}\n" for i in range(1, 30))


def socket_at(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


INSTEAD: dict[str, Callable[[Path], object]] = {
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "outside": lambda path: path.symlink_to("/etc/passwd"),
    "itself": lambda path: path.symlink_to(path.name),
    "pipe": lambda path: os.mkfifo(path),
    "directory": lambda path: path.mkdir(),
    "socket": socket_at,
    "sparse": sparse,
}
"""What stands in the place of a file."""
HELD: dict[str, tuple[str, ...]] = {
    "scenario.yaml": (
        LAUGHS,
        MERGES,
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "a: &a [*a]",
        "".join(f"%TAG !a{i}! b\n" for i in range(100_000)) + "--- 1",
        "a: " + "1:" * 500_000 + "1",
        "a: 0x" + "f" * 500_000,
        "[" + "a," * 1_000_000 + "]",
        "!!python/object/apply:os.system [id]",
        "--- 1\n" * 10,
        *("\0", "1", "", "x" * 5_000_000),
    ),
    "result.json": (
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"answer":' + "[" * 100_000 + "]" * 100_000 + "}",
        "9" * 100_000,
        "[" + "[]," * 6_000_000 + "[]]",
        '{"answer": ' + "1" * 4000 + "}",
        *('{"answer": 1e999}', '{"a": 1, "a": 2}', '{"answer": NaN}', "[]", "1", "", "\0"),
    ),
    "transcript.jsonl": (
        "[" * 100_000 + "\n",
        '{"body":' * 100_000 + "\n",
        "\n" * 3_000_000,
        "x" * 30_000_000,
        "{}\n" * 1_000_000,
        '{"index":0,"previous":"","kind":"a","hash":"","signature":"","body":{"a":' + "[" * 200 + "]" * 200 + "}}\n",
        "\0",
    ),
    "checkpoints.jsonl": ("[" * 100_000 + "\n", "{}\n" * 100_000, "\n", "x"),
    "participants": ("x" * 39, "x" * 40 * 100_000, "\0" * 80),
    "reports/1.reports": ("x", "\xff" * 1000, "\0" * 10_000_000),
}
"""What a file holds."""


def hostile(run: Path, place: Path) -> Iterator[tuple[str, Path]]:
    """Yield each hostile folder with its name: made when it is asked for, gone when the next one is."""

    def copy() -> Path:
        shutil.rmtree(place / "run", ignore_errors=True)
        return Path(shutil.copytree(run, place / "run"))

    for file in FILES:
        for name, put in INSTEAD.items():
            folder = copy()
            (folder / file).unlink()
            put(folder / file)
            yield f"{file}: {name}", folder
        for number, text in enumerate(HELD[file]):
            folder = copy()
            (folder / file).write_text(text, "latin-1")
            yield f"{file}: text {number}", folder
    folder = copy()
    (folder / "reports").rename(place / "reports")
    (folder / "reports").symlink_to(place / "reports")
    yield "reports: a link to a directory", folder


def attack(run: Path, place: Path) -> None:
    """Run every command on every hostile folder, and print how each ended."""
    for name, folder in hostile(run, place):
        page = place / "report.html"
        for words in (["audit", folder], ["report", folder, "--output", page], ["model", folder]):
            began = time.monotonic()
            done = CliRunner().invoke(app, [str(word) for word in words])
            raised = done.exception is not None and not isinstance(done.exception, SystemExit)
            status = Path("/proc/self/status").read_text()  # the peak that getrusage knows begins with the parent's
            most = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10
            row = [name, words[0], done.exit_code, raised, done.output, time.monotonic() - began, most]
            sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    attack(Path(sys.argv[1]), Path(sys.argv[2]))
