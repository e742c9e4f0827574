"""Figures are measured once, whatever interrupts that, and the same results give the same picture."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.figures import __main__ as command
from benchmarks.figures.running import missing, run
from benchmarks.figures.store import ResultFile, Row
from benchmarks.figures.summary import grouped, summaries
from common.core.errors import BadData, BadInput
from tests.benchmarks.figures.toy import DEADLY, FIGURE, draw, repeat

ROWS = [Row(point, k, FIGURE.seed(point, k), 0.5, repeat("quick", k)) for point in FIGURE.points for k in (1, 0)]


def stored(path, rows):
    file = ResultFile(path)
    with file.writing() as append:
        for row in rows:
            append(row)
    return file


def test_what_was_appended_is_read_again(tmp_path):
    assert stored(tmp_path / "new" / "toy.jsonl", ROWS).rows() == ROWS


def test_a_line_that_was_cut_off_is_none_and_is_written_anew(tmp_path):
    file = stored(tmp_path / "toy.jsonl", ROWS)
    whole = file.path.read_bytes()
    for cut in (1, 20):
        file.path.write_bytes(whole[:-cut])
        assert file.rows() == ROWS[:-1]
    assert stored(file.path, ROWS[-1:]).rows() == ROWS
    assert file.path.read_bytes() == whole


def test_a_damaged_line_is_named(tmp_path):
    file = stored(tmp_path / "toy.jsonl", ROWS)
    file.path.write_bytes(b'{"point":1}\n' + file.path.read_bytes())
    with pytest.raises(BadData, match="line 1"):
        file.rows()


def test_one_process_writes_at_a_time(tmp_path):
    file = ResultFile(tmp_path / "toy.jsonl")
    with file.writing(), pytest.raises(BadInput, match="another process"), file.writing():
        pass


def test_every_point_has_its_first_repetition_before_any_has_its_second():
    tasks = missing(FIGURE, FIGURE.points, 2, [])
    assert tasks == [("quick", 0), ("slow", 0), ("quick", 1), ("slow", 1)]
    assert missing(FIGURE, ("slow",), 2, []) == [("slow", 0), ("slow", 1)]
    assert missing(FIGURE, FIGURE.points, 3, ROWS) == [("quick", 2), ("slow", 2)]


def test_each_repetition_has_a_seed_of_its_own():
    seeds = {FIGURE.seed(point, k) for point in FIGURE.points for k in range(50)}
    assert len(seeds) == 100
    assert FIGURE.seed("quick", 0) == FIGURE.seed("quick", 0) != DEADLY.seed("quick", 0)


def test_processes_measure_what_the_seeds_say():
    kept: list[Row] = []
    run(FIGURE, missing(FIGURE, FIGURE.points, 2, []), 2, kept.append)
    assert {(row.point, row.repetition) for row in kept} == {(p, k) for p in FIGURE.points for k in range(2)}
    assert all(row.measured == repeat("quick", FIGURE.seed(row.point, row.repetition)) for row in kept)


def test_a_killed_process_is_told_of():
    with pytest.raises(BadInput, match="memory"):
        run(DEADLY, [("deadly", 0)], 1, lambda row: None)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes below /proc")
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    """Kill the whole run after its first results: they stay as they are, and nothing is measured twice."""
    given = ["2", "--output", str(tmp_path), "--points", "slow", "--repetitions", "8", "--json"]
    modules = {2: "tests.benchmarks.figures.toy"}
    script = f"import sys; from benchmarks.figures.__main__ import main; sys.exit(main({given}, {modules}))"
    file = ResultFile(tmp_path / "toy.jsonl")
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    while len(file.rows()) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    workers = [int(task) for task in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 600
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived the run"
        time.sleep(0.02)
    before = file.rows()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    after = file.rows()
    assert after[: len(before)] == before
    assert sorted(row.repetition for row in after) == list(range(8))
    assert json.loads(done.stdout)[0]["repetitions"] == 8
    assert (tmp_path / "toy.svg").exists()
    assert (tmp_path / "toy.png").exists()


def test_the_same_results_give_the_same_picture(tmp_path):
    pictures = []
    for name in ("a", "b"):
        draw(grouped(FIGURE, ROWS), tmp_path / name / "toy.svg")
        pictures.append((tmp_path / name / "toy.svg").read_bytes())
    assert pictures[0] == pictures[1]


def test_summaries_are_of_numbers_only():
    summary = summaries(FIGURE, ROWS)[0]
    assert (summary["point"], summary["repetitions"]) == ("quick", 2)
    assert summary["loss"] == {"mean": 0.005, "deviation": pytest.approx(0.00707, abs=1e-5), "least": 0.0, "most": 0.01}
    assert set(summary) == {"figure", "point", "repetitions", "seconds", "loss", "rounds"}


def test_an_unknown_point_is_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["2", "--points", "nowhere"], {2: "tests.benchmarks.figures.toy"})
    assert "nowhere" in capsys.readouterr().err
