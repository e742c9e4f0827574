"""Bounds that clip most of what private people hold: their keeper is warned with the share, and nobody else."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from referee.cli import app
from tandem.estimators import CannotHelpWarning, PrivateClippingWarning, TransferClassifier
from tandem.estimators.fitting import MOST, warn_of_clipping
from tandem.estimators.schema import numeric_schema, public_schema
from tests.deploy.test_accepting import write_table

SIDES = ("curator", "population")


def told(values: list[float], bounds: tuple[float, float]) -> list[str]:
    frame = polars.DataFrame({"age": values})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_clipping(dict.fromkeys(SIDES, frame), numeric_schema([bounds], ["age"], None))
    assert all(issubclass(one.category, PrivateClippingWarning) for one in caught)
    return [str(one.message) for one in caught]


def test_the_share_is_said_from_the_stated_one_on() -> None:
    for beyond, rows in ((0, 10), (4, 10), (5, 10), (9, 10), (10, 10), (1, 1), (499, 1000), (500, 1000)):
        for high in (False, True):
            values = [50.0 if high else -50.0] * beyond + [0.5] * (rows - beyond)
            said = told(values, (-1.0, 1.0))
            assert len(said) == (beyond / rows >= MOST), (beyond, rows)
            for words in said:
                assert f"{beyond / rows:.1%} of the population's values of 'age' are beyond -1 .. 1" in words
                assert "private" in words
                assert "keeper" in words


def test_texts_of_a_schema_are_read_as_the_parties_do_and_missing_ones_are_none() -> None:
    schema = public_schema({"features": [{"kind": "number", "column": "age", "low": 0, "high": 10}]})
    people = polars.DataFrame({"age": ["70", "80", None, "5"]})
    with pytest.warns(PrivateClippingWarning, match=r"50.0% of the curator's values of 'age' are beyond 0 .. 10"):
        warn_of_clipping({"curator": people}, schema)


@pytest.mark.slow
def test_default_bounds_on_natural_units_warn_before_anything_is_spent_and_leave_no_trace(tmp_path: Path) -> None:
    """Ages and incomes without ``bounds=``: a score of .55 instead of .99, without a word."""
    drawn = np.random.default_rng(1)

    def people(n: int) -> tuple[np.ndarray, np.ndarray]:
        X = np.c_[drawn.uniform(18, 90, n), drawn.uniform(0, 80, n)]
        return X, (X[:, 0] > 50).astype(int)

    (X, y), population = people(2000), people(2000)
    model = TransferClassifier(epsilon=2.0, agent_epsilon=2.0, random_state=0)
    with pytest.raises(PrivateClippingWarning):  # warnings are errors here
        model.fit(X, y, population=population)
    assert not hasattr(model, "guarantee_")
    with pytest.warns(CannotHelpWarning, match="100.0% of the population's values of 'x0' are beyond -1 .. 1") as said:
        model.fit(X, y, population=population)
    assert said[0].filename == __file__
    folder = model.save_run(tmp_path / "run")
    for file in folder.rglob("*"):
        if file.is_file():
            assert b"are beyond" not in file.read_bytes()
    bounded = TransferClassifier(epsilon=2.0, agent_epsilon=2.0, random_state=0, bounds=[(18, 90), (0, 80)])
    bounded.fit(X, y, population=population)  # not a word
    assert bounded.score(*population) > model.score(*population)


@pytest.mark.slow
def test_check_and_run_warn_the_keeper_too_and_nothing_of_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "people"))
    write_table(tmp_path / "s.csv", 400, 1)
    write_table(tmp_path / "t.csv", 900, 2)
    options = ["--label", "renews", "--positive", "yes", "--negative", "no", "--bounds", "visits=-1:1", "--yes"]
    runner = CliRunner()
    assert runner.invoke(app, ["init", "s.csv", "t.csv", *options, "--output", "mine.yaml"]).exit_code == 0
    checked = runner.invoke(app, ["check", "mine.yaml"])
    assert checked.exit_code == 0
    assert checked.stdout.count("WARNING: the bounds clip") == 2
    assert json.loads(runner.invoke(app, ["check", "mine.yaml", "--json"]).stdout)["sound"] is True
    done = runner.invoke(app, ["run", "mine.yaml", "--output", "run"])
    assert done.exit_code == 0, done.output
    assert "PRIVATE, for the keeper of these records alone" in done.stderr
    for file in (tmp_path / "run").rglob("*"):
        if file.is_file() and "state" not in file.parts:
            assert b"beyond its bounds" not in file.read_bytes(), file
