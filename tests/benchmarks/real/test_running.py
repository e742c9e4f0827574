"""Rows: what a split is, that one plan serves all splits, and that what was measured survives an interruption."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real import __main__ as command
from benchmarks.real.methods import METHODS, Split
from benchmarks.real.running import Planned, Task, plan, run, split
from benchmarks.real.shifts import by_name, load
from common.planning.plan import resolve
from deploy.simulation import conduct

STATIONS = ["RPT", "VAL", "ROS", "KIL", "SHA", "BIR", "DUB", "CLA", "MUL", "CLO", "BEL", "MAL"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write days that look like those of ``wind``: the last station follows the others, stronger in winter."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(1961)
    month = rng.integers(1, 13, size=4_000)
    common = rng.gamma(6.0, 2.0, size=4_000) + 4.0 * np.isin(month, (12, 1, 2))
    winds = common[:, None] + rng.normal(0.0, 2.0, size=(4_000, 12))
    lines = ["year,month,day," + ",".join(STATIONS)]
    lines += [f"61,{m},1," + ",".join(f"{max(0.0, w):.2f}" for w in row) for m, row in zip(month, winds, strict=True)]
    (folder / "wind").mkdir()
    (folder / "wind" / "wind.csv").write_text("\n".join(lines) + "\n")
    return folder


def asked(data: Path, output: Path, *more: str) -> list[str]:
    methods = ["--method", "constant", "--method", "curator-alone", "--method", "portfolio"]
    where = ["--data", str(data), "--output", str(output), "--jobs", "1", "--json"]
    return ["--shift", "wind-seasons", "--epsilon", "1", "--splits", "2", *methods, *where, *more]


def test_agents_and_judges_of_a_split_are_different_people_and_all_of_t(data: Path) -> None:
    shift = by_name("wind-seasons")
    people = load(shift, data)
    one, again, other = (split(shift, people, seed) for seed in (3, 3, 4))

    def keys(found: Split) -> list[set[bytes]]:
        return [{row.tobytes() for row in side.features} for side in (found.agents, found.judges)]

    agents, judges = keys(one)
    assert not agents & judges
    assert len(one.agents) + len(one.judges) == len(people.target)
    assert keys(again) == [agents, judges] != keys(other)
    assert len(split(shift, people, 3, 100).agents) == 100
    assert keys(split(shift, people, 3, 100))[1] == judges  # the same judges, however many agents are asked


def test_one_plan_gives_each_split_what_planning_it_alone_would(data: Path) -> None:
    task = Task("wind-seasons", "curator-alone", (1.0,), 2, None, data)
    planned = plan(task)
    for seed in range(2):
        people = split(by_name("wind-seasons"), load(by_name("wind-seasons"), data), seed)
        scenario = METHODS["curator-alone"].scenario(people.shift, len(people.volunteers), len(people.agents), 1.0)
        assert scenario is not None
        held = (people.volunteers, people.agents)
        alone = conduct(resolve(scenario), seed, lambda round_, hypothesis: None, held=held).hypothesis
        assert run(task, planned, seed).loss == float(alone.mistakes(people.judges).mean())


def test_private_optimum_learns_from_as_many_people_of_t_as_there_are_volunteers(data: Path) -> None:
    shift = by_name("wind-seasons")
    people = split(shift, load(shift, data), 0, 50)
    method = METHODS["private-optimum"]
    drawn = method.curator(people)  # type: ignore[attr-defined]
    assert len(drawn) == len(people.volunteers) > len(people.agents)
    agents = {row.tobytes() for row in people.agents.features}
    assert {row.tobytes() for row in drawn.features} <= agents
    many = split(shift, load(shift, data), 0)
    kept = method.curator(many)  # type: ignore[attr-defined]
    assert len({row.tobytes() for row in kept.features}) == len(many.volunteers) < len(many.agents)


def test_the_command_goes_on_where_it_was_stopped(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "real.jsonl"
    assert command.main(asked(data, output)) == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)
    assert [row["method"] for row in rows] == ["constant", "curator-alone", "portfolio"]
    assert all(row["splits"] == 2 and 0.0 <= row["low"] <= row["mean"] <= row["high"] <= 1.0 for row in rows)
    assert rows[2]["gap"] > 0.0
    assert sum(rows[2]["chosen"].values()) == 2
    assert printed.err.count("s to plan") == 3
    whole = output.read_bytes()
    # Nothing is missing: nothing is measured, and the same is printed.
    assert command.main(asked(data, output)) == 0
    again = capsys.readouterr()
    assert (output.read_bytes(), json.loads(again.out), again.err) == (whole, rows, "")
    # Killed within the last line: that row alone is measured again, and comes out the same.
    output.write_bytes(whole[:-20])
    assert command.main(asked(data, output)) == 0
    resumed = capsys.readouterr()
    assert resumed.err.count("s to plan") == 1
    assert [row["losses"] for row in json.loads(resumed.out)] == [row["losses"] for row in rows]
    # Other splits are another row; --again measures what is there.
    for more, lines in ((["--splits", "1"], 6), (["--again"], 9)):
        assert command.main(asked(data, output, *more)) == 0
        assert output.read_bytes().count(b"\n") == lines


def test_what_cannot_help_is_refused_in_words_before_anybody_is_asked(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(asked(data, tmp_path / "real.jsonl", "--agents", "4")) == 0
    printed = capsys.readouterr()
    assert [row["method"] for row in json.loads(printed.out)] == ["constant", "curator-alone"]
    assert "refused: agents.count: 4 agents are too few for a portfolio" in printed.err


def test_a_refused_plan_runs_on_nobody(data: Path) -> None:
    task = Task("wind-seasons", "portfolio", (1.0,), 1, None, data)
    found = run(task, Planned(None, "far too few", 0.0), 0)
    assert (found.loss, found.refused, found.seconds) == (None, "far too few", 0.0)
