"""The curve of load tests over their sizes: its picture, its refusals, and (slow) what is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from benchmarks import load_curve


def document(size: int) -> dict[str, Any]:
    row = {"per_second": 1000.0, "p99_ms": 50.0, "cpu_us_referee": 300.0 + size / 100, "commits": 20}
    return {
        "phases": dict.fromkeys(load_curve.PHASES, row),
        "options": {"individuals": size},
        "machine": {"cores": 2, "load_average": 0.5},
    }


def test_the_picture_shows_every_phase(tmp_path):
    load_curve.picture([document(1000), document(10_000)], tmp_path / "curve.svg")
    drawn = (tmp_path / "curve.svg").read_text()
    assert "<svg" in drawn
    assert drawn.count('<g id="line2d') > 6


def test_what_was_kept_is_drawn_by_database_without_what_is_no_curve(tmp_path):
    lines = []
    for size, database, hosted in ((1000, False, 0), (10_000, False, 0), (1000, True, 0), (10, False, 5000)):
        options = {"individuals": size, "hosted": hosted, "schedule": "closed", "database": database}
        lines.append(json.dumps({**document(size), "options": options, "idle": None}))
    (tmp_path / "kept.jsonl").write_text("\n".join(lines))
    found = load_curve.kept(tmp_path / "kept.jsonl")
    assert [test["options"]["individuals"] for test in found] == [1000, 1000, 10_000]
    load_curve.picture(found, tmp_path / "curve.svg")
    assert "PostgreSQL" in (tmp_path / "curve.svg").read_text()


@pytest.mark.parametrize(("missing", "arguments"), [("flwr", ["--flower"]), ("matplotlib", ["--picture", "x.svg"])])
def test_what_is_not_installed_is_named_before_anything_is_measured(monkeypatch, capsys, missing, arguments):
    monkeypatch.setattr(load_curve, "find_spec", lambda name: None)
    monkeypatch.setattr(load_curve, "curve", lambda sizes: pytest.fail("it measured"))
    monkeypatch.setattr(sys, "argv", ["load_curve", *arguments])
    with pytest.raises(SystemExit, match="2"):
        load_curve.main()
    assert "pip install" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_measured_is_drawn(tmp_path):
    picture = tmp_path / "curve.svg"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load_curve", "--sizes", "60", "--picture", str(picture), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)["load_tests"]
    assert [test["counted"] for test in found] == [60]
    assert all(test["phases"]["report"]["commits"] > 0 for test in found)
    assert picture.stat().st_size > 1000
