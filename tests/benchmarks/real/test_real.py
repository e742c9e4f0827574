"""Weights of survey statisticians: they match what they promise, find the right ones, and stay bounded."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from benchmarks.real import __main__ as command
from benchmarks.real import balance, probabilities
from benchmarks.real.balance import DESIGN_EFFECT, Margins, design_effect, odds, raked
from benchmarks.real.methods import METHODS, Split, logistic
from benchmarks.real.page import text
from benchmarks.real.provenance import unlike
from benchmarks.real.running import Row, Task, interval, plan, run, split
from benchmarks.real.shifts import OPTIONAL_SHIFTS, SHIFTS, Shift, by_name, load, rows, table
from benchmarks.real.verdicts import verdict
from common.local.losses import Costs
from common.local.records import Records
from common.scenario.plan import resolve
from deploy.simulation import conduct
from tests.support import public_data
from tests.tiers import for_each


def row(method: str, *losses: float, shift: str = "wine-red", epsilon: float = 1.0, **more: Any) -> Row:
    """Return a row with these losses; without any it was refused."""
    low, high = interval(list(losses))
    settings = {"n": 1_000, "agents": 2_000, "settings": "", "share_source": 0.5, "share_target": 0.4}
    mean = sum(losses) / len(losses) if losses else None
    found = {"mean": mean, "low": low, "high": high, "splits": len(losses), "losses": list(losses)}
    timing = {"asked": len(losses), "plan_seconds": 0.0, "split_seconds": 0.0}
    return {"shift": shift, "method": method, "epsilon": epsilon, **settings, **found, **timing, **more}


def cells(*rows: Row) -> dict[str, Row]:
    return {one["method"]: one for one in rows}


def population(count: int, seed: int) -> Records:
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(count, 4)).astype(np.float32)
    score = 4.0 * features[:, 0] - 3.0 * features[:, 1] - 0.5 + rng.logistic(size=count)
    return Records(features, np.where(score > 0, np.int8(1), np.int8(-1)))


def chosen(people: Records, readiness: np.ndarray, seed: int) -> tuple[Records, np.ndarray]:
    """Return who volunteers, each with a chance of its own, and the weights that undo it, of mean 1."""
    kept = np.flatnonzero(np.random.default_rng(seed).uniform(size=len(people)) < readiness)
    weights = 1.0 / readiness[kept]
    return people.take(kept), weights / weights.mean()


def test_raked_volunteers_have_the_margins_and_raking_finds_the_weights_of_a_selection_by_them() -> None:
    people = population(40_000, 1)
    # Selected by an exponential of the margins: then, and only then, the raked weights are the right ones.
    tilt = np.exp(-1.5 * people.features[:, 0] - 1.0 * (people.labels > 0))
    volunteers, right = chosen(people, tilt, 2)
    weights = raked(volunteers, Margins.of(population(40_000, 3)))
    assert weights.mean() == pytest.approx(1.0)
    columns = np.column_stack([volunteers.features, volunteers.labels > 0])
    assert np.average(columns, axis=0, weights=weights) == pytest.approx(Margins.of(people).means, abs=0.01)
    assert np.corrcoef(weights, right)[0, 1] > 0.99


def test_raking_repairs_a_model_whose_label_shares_were_shifted() -> None:
    people, others = population(40_000, 4), population(20_000, 5)
    volunteers, _ = chosen(people, np.where(people.labels > 0, 0.1, 1.0), 6)
    plain = logistic(volunteers).mistakes(others).mean()
    repaired = logistic(volunteers, raked(volunteers, Margins.of(others))).mistakes(others).mean()
    optimum = logistic(others).mistakes(others).mean()
    assert plain > optimum + 0.05
    assert repaired < optimum + 0.01


def test_inverse_propensity_finds_the_weights_of_a_selection_by_features() -> None:
    people = population(40_000, 7)
    volunteers, right = chosen(people, np.exp(-2.0 * people.features[:, 1]), 8)
    weights = odds(volunteers.features, population(40_000, 9).features)
    assert weights.mean() == pytest.approx(1.0)
    assert np.corrcoef(weights, right)[0, 1] > 0.98


def test_margins_that_nobody_has_do_not_let_a_few_volunteers_stand_for_all() -> None:
    volunteers = population(2_000, 10)
    near = volunteers.take(np.flatnonzero(volunteers.features[:, 0] < 0.2))
    away = volunteers.take(np.flatnonzero(volunteers.features[:, 0] > 0.8))
    weights = raked(near, Margins.of(away))
    assert 1.0 < design_effect(weights) <= DESIGN_EFFECT
    assert odds(near.features, away.features).max() <= balance.CAP * 2.0


def test_a_feature_that_all_volunteers_share_is_left_out() -> None:
    volunteers, others = population(3_000, 11), population(3_000, 12)
    same = np.ones((len(volunteers), 1), dtype=np.float32)
    here = Records(np.hstack([volunteers.features, same]), volunteers.labels)
    there = Records(np.hstack([others.features, 0 * same]), others.labels)
    for found, expected in (
        (raked(here, Margins.of(there)), raked(volunteers, Margins.of(others))),
        (odds(here.features, there.features), odds(volunteers.features, others.features)),
        (logistic(here).predict(there.features), logistic(volunteers).predict(others.features)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert logistic(here).weights[-1] == 0.0


ROWS = [
    row("constant", 0.3, 0.3),
    row("curator-alone", 0.2, 0.24),
    row("agents-alone", refused="too few agents"),
    row("private-optimum", 0.1, 0.14, n=3_000),
    row("portfolio", 0.15, 0.15, gap=0.07, chosen={"model": 2}),
]


def test_tables_verdicts_and_winners_are_those_of_the_rows() -> None:
    page = text(ROWS, "pictures")
    assert "| `wine-red` | `curator-alone` | 22.0 | 15.0 | +7.0 (-18.4 to +32.4) | 7.0 | not told apart |" in page
    assert "| +10.0 | 70% |" in page
    assert "Of 1 shifts it is better in 0, worse in 0, and these splits do not tell in 1." in page
    assert "by no more than the mean stated gap in 1 of 1." in page
    assert "It is longer in 1, and in 1 of these so much is closed." in page
    worse = [{**one, "losses": [0.27, 0.31]} if one["method"] == "portfolio" else one for one in ROWS]
    assert "Of 1 shifts it is better in 0, worse in 1, and these splits do not tell in 0." in text(worse, "pictures")
    wide = [{**one, "gap": 0.5} if one["method"] == "portfolio" else one for one in ROWS]
    assert "In 1 the stated gap is wider" in text(wide, "pictures")
    assert "In 0 the stated gap is wider" in page
    assert "over all shifts and splits: model 2 times." in page
    assert "* `agents-alone` is refused: too few agents" in page
    assert re.search(r"\| refused \|", page)
    assert "| 12.0* (" in page  # drawn with replacement: n is above N


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


def asked(
    data: Path, output: Path, *more: str, methods: Sequence[str] = ("constant", "curator-alone", "portfolio")
) -> list[str]:
    where = ["--data", str(data), "--output", str(output), "--jobs", "1", "--json"]
    chosen = [f"--method={name}" for name in methods]
    return ["--shift", "wind-seasons", "--epsilon", "1", "--splits", "2", *chosen, *where, *more]


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
        alone = conduct(resolve(scenario), seed, lambda round_, hypothesis: None, records=held).hypothesis
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


@pytest.mark.thorough
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
    for more, lines in ((["--splits", "1"], 4), (["--again"], 5)):
        assert command.main(asked(data, output, *more, methods=["constant"])) == 0
        assert output.read_bytes().count(b"\n") == lines


@pytest.mark.thorough
def test_a_page_is_written_from_rows_that_the_present_code_reproduces_and_from_no_others(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, page = tmp_path / "real.jsonl", tmp_path / "real.md"
    where = ["--data", str(data), "--output", str(output), "--jobs", "1"]
    one = ["--shift", "wind-seasons", "--epsilon", "1", "--splits", "2", "--method", "curator-alone"]
    assert command.main([*one, *where]) == 0
    row = json.loads(output.read_text())
    assert {"version", "commit", "machine"} == set(row["origin"])
    assert all(row["origin"].values())
    to_page = ["--page", str(page), "--pictures", str(tmp_path / "drawn")]
    assert command.main([*to_page, *where]) == 0
    assert f"commit `{row['origin']['commit'][:12]}`" in page.read_text()
    of_old_code = {key: value for key, value in row.items() if key != "origin"}
    others = [{"losses": [0.123, row["losses"][1]]}, {"settings": "0123456789abcdef"}, {"shift": "wine-red"}]
    found = unlike([row, of_old_code, *(row | changed for changed in others)], data, 1)
    assert [one.partition(": ")[2].partition(str(data))[0] for one in found] == [
        "its people or settings are others today",
        f"the first split gives {row['losses'][0]}, the row has 0.123",
        "the row does not say which version measured it",
        "there is no ",
    ]
    output.write_text(json.dumps(of_old_code) + "\n")
    page.unlink()
    capsys.readouterr()
    assert command.main([*to_page, *where]) == 1
    assert not page.exists()
    assert "1 rows: measure them anew" in capsys.readouterr().out


def test_what_cannot_help_is_refused_in_words_before_anybody_is_asked(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(asked(data, tmp_path / "real.jsonl", "--agents", "4")) == 0
    printed = capsys.readouterr()
    assert [row["method"] for row in json.loads(printed.out)] == ["constant", "curator-alone"]
    assert "refused: agents.count: 4 agents are too few for a portfolio" in printed.err


SIZES = {
    "wine-red": (4_898, 1_599),
    "gas-later": (1_689, 5_008),
    "wind-seasons": (1_624, 4_950),
    "credit-newcomers": (562, 438),
}


@for_each("shift", SHIFTS, ids=lambda shift: shift.name)
def test_both_sides_of_a_shift(shift: Shift) -> None:
    shelf = public_data(shift.data).parent
    frame = rows(shift, shelf)
    assert isinstance(frame, polars.DataFrame)
    assert not np.any(shift.source(frame) & shift.target(frame))
    people = load(shift, shelf)
    for side in (people.source, people.target):
        assert side.dimension == table(shift).dimension
        assert 0.0 <= side.features.min() <= side.features.max() <= 1.0
        assert np.linalg.norm(side.features.astype(np.float64), axis=1).max() <= 2.0 + 1e-6
        assert 0.0 < np.mean(side.labels > 0) < 1.0
    if shift.name in SIZES:
        assert (len(people.source), len(people.target)) == SIZES[shift.name]
    # Public bounds that most people lie beyond would make all of them alike.
    assert np.mean(np.ptp(np.concatenate([people.source.features, people.target.features]), axis=0) > 0.05) > 0.9


@for_each(("loss", "relation", "closed"), [(0.13, "better", 0.9), (0.31, "worse", -0.9)])
@for_each("gap", [0.0, 0.03, 0.5])
def test_one_rule_calls_better_and_worse_whatever_gap_is_stated(
    loss: float, gap: float, relation: str, closed: float
) -> None:
    """A loss that is .09 worse on every split is worse, although a run of few agents states a gap of .5."""
    rows = cells(*ROWS[:2], ROWS[3], row("portfolio", loss - 0.02, loss + 0.02, gap=gap))
    found: Any = verdict(rows, "portfolio")
    assert (found.best, found.relation, found.closed) == ("curator-alone", relation, pytest.approx(closed))


def test_differences_are_taken_split_by_split() -> None:
    """Losses vary much from split to split, their difference does not: its interval must not hold 0."""
    rows = row("curator-alone", 0.1, 0.3, 0.5), row("portfolio", 0.09, 0.29, 0.49, gap=0.0)
    found: Any = verdict(cells(*rows), "portfolio")
    assert (found.low, found.high) == pytest.approx((0.01, 0.01))


def test_a_gain_and_a_loss_that_may_be_chance_are_neither_better_nor_worse() -> None:
    for losses, sign in (((0.1, 0.21, 0.22), 1.0), ((0.3, 0.19, 0.18), -1.0), ((0.1,), 1.0), ((0.3,), -1.0)):
        alone = row("curator-alone", *[0.2] * len(losses))
        found: Any = verdict(cells(alone, row("portfolio", *losses, gap=0.0)), "portfolio")
        assert found.gained * sign > 0.0
        assert found.relation == "open", losses


def test_costs_by_which_both_constants_cost_the_same() -> None:
    assert probabilities.costs_of(0.04) == Costs(miss=24.0, false_alarm=1.0)
    assert probabilities.costs_of(0.696) == Costs(miss=1.0, false_alarm=2.3)


def test_shifts_whose_files_need_not_be_there_are_skipped_where_they_are_not(tmp_path: Path) -> None:
    (tmp_path / "crashes").mkdir()
    there = {shift.name: probabilities.has_data(shift, tmp_path) for shift in (*SHIFTS, *OPTIONAL_SHIFTS)}
    assert there.pop("stops") is False
    assert all(there.values())


@pytest.mark.slow
def test_probabilities_and_costs_are_measured_on_real_people(tmp_path: Path) -> None:
    shelf = str(public_data("wind").parent)
    table = tmp_path / "table.md"
    probabilities.main(["--shift", "wind-strong", "--splits", "1", "--data", shelf, "--output", str(table)])
    cells = [cell.strip() for cell in table.read_text("utf-8").splitlines()[-1].strip("|").split("|")]
    share, constant, source, portfolio, target, log_loss, base = (float(cells[at]) for at in (1, 3, 4, 5, 6, 7, 8))
    assert (cells[0], share, cells[2]) == ("wind-seasons: above 25 knots", 7.4, "12.6 to 1")
    assert target < portfolio < constant
    assert source < constant
    assert log_loss < base
