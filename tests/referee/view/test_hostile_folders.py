"""Folders and files from strangers: every command refuses in one line, in bounded memory and time, whatever is there.

A child process runs all commands on all folders, so that a hang, a signal and memory are seen from outside.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.fuzz.folders import Folders, fuzz_folders
from common.core import folder as reader
from common.core.errors import BadData, NotFound
from referee.cli import app
from tests.referee.audit.signing import identity_of

FILES = ("scenario.yaml", "result.json", "transcript.jsonl", "checkpoints.jsonl", "participants", "reports/1.reports")
MEMORY = 512 << 20
"""Bytes that all commands together may take, each of which may take as much."""
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
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            row = [name, words[0], done.exit_code, raised, done.output, time.monotonic() - began, most]
            sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    attack(Path(sys.argv[1]), Path(sys.argv[2]))


@pytest.mark.slow
def test_every_command_refuses_a_hostile_folder_in_one_line(undisturbed, tmp_path):
    run = undisturbed[0] / "run"
    command = [sys.executable, "-m", "tests.referee.view.test_hostile_folders", str(run), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 3 * (1 + sum(len(INSTEAD) + len(HELD[file]) for file in FILES))
    concerned = {"audit": set(FILES), "report": set(FILES[:2]), "model": set(FILES[:2])}
    for name, words, status, raised, output, _, most in rows:
        assert not raised, (name, words, output)
        assert "Traceback" not in output
        assert most < MEMORY, (name, words, most)
        file = name.partition(":")[0]
        if file in concerned[words] or (words == "audit" and file == "reports"):
            assert status == 1, (name, words, output)
            assert len(output.splitlines()) == 1, (name, words, output)
            assert len(output) < 2500
            if "text" not in name:
                assert file in output, (name, words, output)


def test_what_is_no_regular_file_of_the_folder_is_refused_and_says_what_it_is(tmp_path):
    folder = tmp_path / "folder"
    said = {
        "zero": "a link",
        "outside": "a link",
        "itself": "a link",
        "pipe": "a pipe",
        "directory": "a directory",
        "socket": "a socket",
        "sparse": "has 1,099,511,627,776 bytes",
    }
    for name, put in INSTEAD.items():
        folder.mkdir()
        put(folder / "result.json")
        with pytest.raises(BadData, match=said[name]) as refused:
            reader.read(Path("result.json"), reader.RESULT, folder)
        assert str(folder / "result.json") in refused.value.detail
        shutil.rmtree(folder)
    with pytest.raises(NotFound, match="there is no result"):
        reader.read(Path("result.json"), reader.RESULT, tmp_path)


def test_no_part_of_the_way_inside_a_folder_is_a_link_and_a_file_that_a_user_names_may_be_one(tmp_path):
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "1.reports").write_bytes(b"x")
    (folder / "reports").symlink_to(other)
    with pytest.raises(BadData, match=r"a link at .*/folder/reports,"):
        reader.read(Path("reports/1.reports"), reader.REPORTS, folder)
    (tmp_path / "named").symlink_to(other / "1.reports")
    assert reader.read(tmp_path / "named", reader.REPORTS) == b"x"
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(BadData, match="found a device"):
        reader.read(tmp_path / "zero", reader.REPORTS)
    with pytest.raises(BadData, match="cannot be used"):
        reader.read(Path("a\0b"), reader.REPORTS, folder)


def test_a_file_is_read_no_further_than_its_kind_may_be(tmp_path):
    kind = reader.Kind("thing", 10)
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert reader.read(tmp_path / "a", kind) == b"x" * 10
    (tmp_path / "a").write_bytes(b"x" * 11)
    with pytest.raises(BadData, match="has 11 bytes, and a thing may have 10"):
        reader.read(tmp_path / "a", kind)
    with reader.opened(tmp_path / "a", reader.RESULT):
        pass
    with pytest.raises(BadData, match="and a thing may have 10"):  # its size is 0, and it holds more
        reader.read(Path("/proc/self/status"), kind)


def test_a_directory_of_very_many_names_is_not_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MOST_NAMES", 5)
    monkeypatch.setattr(reader, "MOST_TOGETHER", 5)
    for number in range(5):
        (tmp_path / f"{number}.json").write_bytes(b"1")
    assert reader.names(tmp_path, ".json") == [f"{number}.json" for number in range(5)]
    assert len(list(reader.documents(tmp_path, reader.RECEIPT))) == 5
    (tmp_path / "4.json").write_bytes(b"12")
    with pytest.raises(BadData, match="more than 5 bytes together"):
        list(reader.documents(tmp_path, reader.RECEIPT))
    (tmp_path / "other").touch()
    with pytest.raises(BadData, match="more than 5 names"):
        reader.names(tmp_path, ".json")
    with pytest.raises(NotFound):
        reader.names(tmp_path / "none")


@pytest.mark.slow
def test_no_changed_folder_breaks_a_reader(undisturbed, tmp_path):
    folder = undisturbed[0]
    counts, findings = fuzz_folders(Folders(folder / "run", identity_of(folder), 7, tmp_path / "changed"), 300)
    assert findings == []
    assert min(count.inputs for count in counts.values()) == 300
    assert all(counts[name].refused for name in ("audit", "report", "model"))
