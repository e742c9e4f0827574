"""Warnings of estimators, `check` and `run` for the keeper of the records: values beyond bounds, constant columns."""

import json
import warnings
from pathlib import Path

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from referee.cli import app
from tandem.estimators import CannotHelpWarning, PrivateClippingWarning, PrivateConstantWarning, TransferClassifier
from tandem.estimators.fitting import MOST, warn_of_clipping, warn_of_constants
from tandem.estimators.frames import clipped_shares, numeric_schema, public_schema, table_source
from tests.deploy.test_accepting import write_table


def test_the_share_is_said_from_the_stated_one_on() -> None:
    bounded = numeric_schema([(-1.0, 1.0)], ["age"], None)
    for beyond, rows in ((0, 10), (4, 10), (5, 10), (9, 10), (10, 10), (1, 1), (499, 1000), (500, 1000)):
        for far_off in (-50.0, 50.0):
            frame = polars.DataFrame({"age": [far_off] * beyond + [0.5] * (rows - beyond)})
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warn_of_clipping({"curator": frame, "population": frame}, bounded)
            assert len(caught) == (beyond / rows >= MOST), (beyond, rows)
            for one in caught:
                assert issubclass(one.category, PrivateClippingWarning)
                said = f"{beyond / rows:.1%} of the population's values of 'age' are beyond -1 .. 1"
                assert all(words in str(one.message) for words in (said, "private", "keeper"))
    schema = public_schema({"features": [{"kind": "number", "column": "age", "low": 0, "high": 10}]})
    people = polars.DataFrame({"age": ["70", "80", None, "5"]})
    with pytest.warns(PrivateClippingWarning, match=r"50.0% of the curator's values of 'age' are beyond 0 .. 10"):
        warn_of_clipping({"curator": people}, schema)
    layout = {"layout": {"missing": ["", "-99"]}}
    described_people = table_source(public_schema({**schema.wire(), **layout}), "people.parquet")
    assert clipped_shares(polars.DataFrame({"age": ["70", "-99", "", "5"]}), described_people) == {"age": 0.25}


def test_a_column_that_varies_in_the_population_alone_is_named() -> None:
    schema = numeric_schema([(-1.0, 1.0)] * 3, ["age", "sex", "lot"], None)
    curators = polars.DataFrame({"age": [0.1, 0.2, 0.3], "sex": [1.0] * 3, "lot": [0.0] * 3})
    population = polars.DataFrame({"age": [0.1] * 3, "sex": [1.0, -1.0, 1.0], "lot": [0.0] * 3})
    with pytest.warns(PrivateConstantWarning, match="the same value of 'sex', and the population has others") as said:
        warn_of_constants({"curator": curators, "population": population}, schema)
    assert all(words in str(said[0].message) for words in ("private", "keeper"))
    texts = population.with_columns(polars.all().cast(polars.String))
    for silent in (
        {"curator": curators},
        {"curator": curators[:1], "population": population},
        {"a": curators, "b": texts},
    ):
        warn_of_constants(silent, schema)  # not a word: warnings are errors here


def test_a_fit_says_where_the_user_called_it_which_column_only_the_population_varies_in() -> None:
    """And what it learns is hardly moved by that column: the mean chance of the population is about its share."""
    rng = np.random.default_rng(3)
    (X, y), (others, labels) = ((of := rng.uniform(-1, 1, (n, 3)), (of[:, 0] > 0.2).astype(int)) for n in (1500, 3000))
    X[:, 2], others[:, 2] = -1.0, 1.0
    model = TransferClassifier(epsilon=1.0, agent_epsilon=1.0, random_state=0)
    with pytest.warns(PrivateConstantWarning, match="the same value of 'x2'") as said:
        model.fit(X, y, population=(others, labels))
    assert said[0].filename == __file__
    assert model.predict_proba(others)[:, 1].mean() == pytest.approx(labels.mean(), abs=0.12)
    assert model.score(others, labels) > 0.8


@pytest.mark.slow
def test_default_bounds_on_natural_units_warn_before_anything_is_spent_and_leave_no_trace(tmp_path: Path) -> None:
    """Ages and incomes without ``bounds=``: a score of .55 instead of .99, without a word."""
    drawn = np.random.default_rng(1)

    def people(n: int) -> tuple[np.ndarray, np.ndarray]:
        X = np.c_[drawn.uniform(18, 90, n), drawn.uniform(0, 80, n)]
        return X, (X[:, 0] > 50).astype(int)

    (X, y), population = people(2000), people(2000)
    given = {"epsilon": 2.0, "agent_epsilon": 2.0, "random_state": 0}
    model = TransferClassifier(**given)
    with pytest.raises(PrivateClippingWarning):  # warnings are errors here
        model.fit(X, y, population=population)
    assert not hasattr(model, "guarantee_")
    with pytest.warns(CannotHelpWarning, match="100.0% of the population's values of 'x0' are beyond -1 .. 1") as said:
        model.fit(X, y, population=population)
    assert said[0].filename == __file__
    folder = model.save_run(tmp_path / "run")
    assert not [file for file in folder.rglob("*") if file.is_file() and b"are beyond" in file.read_bytes()]
    bounded = TransferClassifier(**given, bounds=[(18, 90), (0, 80)])
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
    options = ["--label", "renews", "--positive", "yes", "--negative", "no", "--bounds", "visits=-1:1"]
    options += ["--skip", "months,plan", "--yes"]
    runner = CliRunner()
    assert runner.invoke(app, ["init", "s.csv", "t.csv", *options, "--output", "mine.yaml"]).exit_code == 0
    checked = runner.invoke(app, ["check", "mine.yaml"])
    assert checked.exit_code == 0
    assert checked.stdout.count("WARNING: the bounds clip") == 2
    assert json.loads(runner.invoke(app, ["check", "mine.yaml", "--json"]).stdout)["sound"] is True
    done = runner.invoke(app, ["run", "mine.yaml", "--output", "run", "--yes"])
    assert done.exit_code == 0, done.output
    assert "PRIVATE, for the keeper of these records alone" in done.stderr
    for file in (tmp_path / "run").rglob("*"):
        if file.is_file() and "state" not in file.parts:
            assert b"beyond its bounds" not in file.read_bytes(), file
