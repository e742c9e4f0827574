"""Folders and files from strangers: every command refuses in one line, in bounded memory and time, whatever is there.

A child process runs all commands on all folders, so that a hang, a signal and memory are seen from outside.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fuzz.folders import Folders, fuzz_folders
from common.core import folder as reader
from common.core.errors import AuditFailed, BadData, NotFound
from referee.audit.audit import audit
from tests.referee.audit.signing import identity_of
from tests.referee.view.hostile_folders import FILES, HELD, INSTEAD

MEMORY = 512 << 20
"""Bytes that all commands together may take, each of which may take as much."""


@pytest.mark.slow
def test_every_command_refuses_a_hostile_folder_in_one_line(undisturbed, tmp_path):
    run = undisturbed[0] / "run"
    command = [sys.executable, "-m", "tests.referee.view.hostile_folders", str(run), str(tmp_path)]
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


def test_more_than_the_limits_hold_is_read_by_who_says_that_it_is_large(undisturbed, tmp_path):
    run = Path(shutil.copytree(undisturbed[0] / "run", tmp_path / "run"))
    os.truncate(run / "participants", reader.PARTICIPANTS.most + 40)
    with pytest.raises(AuditFailed, match=r"participants has 41,943,080 bytes.* give --large if you know"):
        audit(run)
    with pytest.raises(AuditFailed, match="no participant has 0 agents"):
        audit(run, large=True)


def test_what_is_no_regular_file_of_the_folder_is_refused_and_says_what_it_is(tmp_path):
    folder = tmp_path / "folder"
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
