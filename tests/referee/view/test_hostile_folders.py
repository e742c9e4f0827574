"""Folders and files from strangers: every command refuses in one line, in bounded memory and time, whatever is there.

A child process, this file with RUN PLACE, runs all commands on all folders: a hang, a signal and memory are seen from
outside.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.fuzz.folders import Folders, fuzz_folders
from common.core import folder as reader
from common.core.errors import AuditFailed, BadData, NotFound
from referee.audit.audit import audit
from referee.cli import app
from tests.referee.audit.signing import identity_of

FILES = ("scenario.yaml", "result.json", "transcript.jsonl", "checkpoints.jsonl", "participants", "reports/1.reports")
LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 8}]\n" for i in range(1, 12))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{f'*a{i - 1},' * 9}]}}\n" for i in range(1, 30))


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one, chdir(path.parent):  # the name of a socket is short
        one.bind(path.name)


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
        *(LAUGHS, MERGES, "a: &a [*a]"),
        *(text * 100_000 for text in ("[", "{a: ", "- ", "? ")),
        "".join(f"%TAG !a{i}! b\n" for i in range(100_000)) + "--- 1",
        "a: " + "1:" * 500_000 + "1",
        "a: 0x" + "f" * 500_000,
        "[" + "a," * 1_000_000 + "]",
        "!!python/object/apply:os.system [id]",
        "--- 1\n" * 10,
        *("\0", "1", "", "x" * 5_000_000),
    ),
    "result.json": (
        *(text * 100_000 for text in ("[", '{"a":', "9")),
        '{"answer":' + "[" * 100_000 + "]" * 100_000 + "}",
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


READS = {"audit": (*FILES, "reports"), "report": FILES[:2], "model": FILES[:2]}
"""What each command reads: of a file that it does not read, an endless one would show if it did."""


def attack(run: Path, place: Path) -> None:
    """Run every command on every folder that is hostile to it, and print how each ended."""
    for name, folder in hostile(run, place):
        page = place / "report.html"
        for words in (["audit", folder], ["report", folder, "--output", page], ["model", folder]):
            if name.partition(":")[0] not in READS[words[0]] and not name.endswith(": zero"):
                continue
            began = time.monotonic()
            done = CliRunner().invoke(app, [str(word) for word in words])
            raised = done.exception is not None and not isinstance(done.exception, SystemExit)
            status = Path("/proc/self/status").read_text()  # the peak that getrusage knows begins with the parent's
            most = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10
            row = [name, words[0], done.exit_code, raised, done.output, time.monotonic() - began, most]
            sys.stdout.write(json.dumps(row) + "\n")


MEMORY = 512 << 20
"""Bytes that all commands together may take, each of which may take as much."""


@pytest.mark.slow
def test_every_command_refuses_a_hostile_folder_in_one_line(undisturbed, tmp_path):
    run = undisturbed[0] / "run"
    command = [sys.executable, "-m", __name__, str(run), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    folders, others = (sum(len(INSTEAD) + len(HELD[file]) for file in files) for files in (FILES[:2], FILES[2:]))
    tried = {"audit": folders + others + 1, "report": folders + 4, "model": folders + 4}
    assert Counter(words for _, words, *_ in rows) == tried
    for name, words, status, raised, output, _, most in rows:
        assert not raised, (name, words, output)
        assert "Traceback" not in output
        assert most < MEMORY, (name, words, most)
        file = name.partition(":")[0]
        if file in READS[words]:
            assert status == 1, (name, words, output)
            assert len(output.splitlines()) == 1, (name, words, output)
            assert len(output) < 2500
            if "text" not in name:
                assert file in output, (name, words, output)


def test_more_than_the_limits_hold_is_read_by_who_says_that_it_is_large(undisturbed, tmp_path):
    run = Path(shutil.copytree(undisturbed[0] / "run", tmp_path / "run"))
    os.truncate(run / "participants", reader.PARTICIPANTS.most + 40)
    with pytest.raises(AuditFailed, match=r"participants has 41,943,080 bytes.* give --large if you know"):
        audit(run)
    with pytest.raises(AuditFailed, match="no participant has 0 agents"):
        audit(run, large=True)


def test_what_is_no_regular_file_of_the_folder_is_refused_and_says_what_it_is(tmp_path):
    folder, other = tmp_path / "folder", tmp_path / "other"
    said = {**dict.fromkeys(("zero", "outside", "itself"), "a link"), "pipe": "a pipe", "directory": "a directory"}
    said |= {"socket": "a socket", "sparse": "has 1,099,511,627,776 bytes"}
    for name, put in INSTEAD.items():
        folder.mkdir()
        put(folder / "result.json")
        with pytest.raises(BadData, match=said[name]) as refused:
            reader.read(Path("result.json"), reader.RESULT, folder)
        assert str(folder / "result.json") in refused.value.detail
        shutil.rmtree(folder)
    with pytest.raises(NotFound, match="there is no result"):
        reader.read(Path("result.json"), reader.RESULT, tmp_path)
    folder.mkdir()
    other.mkdir()
    (other / "1.reports").write_bytes(b"x")
    (folder / "reports").symlink_to(other)
    (tmp_path / "zero").symlink_to("/dev/zero")
    for way, why in (
        ((Path("reports/1.reports"), reader.REPORTS, folder), r"a link at .*/folder/reports,"),
        ((tmp_path / "zero", reader.REPORTS), "found a device"),
        ((Path("a\0b"), reader.REPORTS, folder), "cannot be used"),
    ):
        with pytest.raises(BadData, match=why):
            reader.read(*way)
    (tmp_path / "named").symlink_to(other / "1.reports")  # a file that a user names may be a link
    assert reader.read(tmp_path / "named", reader.REPORTS) == b"x"


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
@pytest.mark.parametrize("inputs", [75, pytest.param(300, marks=pytest.mark.thorough)])
def test_no_changed_folder_breaks_a_reader(undisturbed, tmp_path, inputs):
    folder = undisturbed[0]
    counts, findings = fuzz_folders(Folders(folder / "run", identity_of(folder), 7, tmp_path / "changed"), inputs)
    assert findings == []
    assert min(count.inputs for count in counts.values()) == inputs
    assert all(counts[name].refused for name in ("audit", "report", "model"))


if __name__ == "__main__":
    attack(Path(sys.argv[1]), Path(sys.argv[2]))
