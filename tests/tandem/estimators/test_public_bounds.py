"""Bounds by the public sample, and the word where declared bounds do not fit it."""

import json
import warnings
from pathlib import Path

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from common.core.errors import BadFit
from referee.cli import app
from tandem.estimators import (
    CannotHelpWarning,
    DomainAdapter,
    DomainAdapterRegressor,
    PrivateClippingWarning,
    PublicClippingWarning,
    TransferClassifier,
)
from tandem.estimators.fitting import MOST, warn_of_clipping
from tandem.estimators.frames import numeric_schema, public_pairs, public_schema, response_cost, widened
from tests.deploy.test_accepting import write_table
from tests.tandem.estimators.people import made

RAW = {"iterations": 100, "epsilon": 4.0, "agent_epsilon": 4.0, "random_state": 0}


def far(count, seed, shift=0.0):
    """People in units of their own: features in the thousands, and responses around 500 with a deviation of 20."""
    draw = np.random.default_rng(seed)
    X = 5000.0 + 1000.0 * draw.normal(size=(count, 3)) + 300.0 * shift
    return X, 500.0 + (X - 5000.0) @ np.array([0.012, -0.008, 0.012]) + 5.0 * draw.normal(size=count)


def test_a_regressor_that_is_far_off_does_not_report_an_error_of_0_without_a_word():
    public, mine, others = far(1000, 1), far(500, 2, 1.0), far(500, 3, 1.0)
    model = made(DomainAdapterRegressor, bounds=(0, 10_000), response_bounds=(-1, 1), **RAW)
    with pytest.warns(
        PublicClippingWarning, match=r"100.0% of the public sample's responses .* estimate_ is the error"
    ):
        model.fit(*mine, public=public, population=others)
    assert model.public_clipped_["response"] == 1.0
    assert np.mean((model.predict(others[0]) - others[1]) ** 2) > 400.0**2 > 100 * model.estimate_.value


def test_by_default_bounds_are_the_public_samples_and_raw_units_do():
    public, mine, others = far(2000, 1), far(1000, 2, 1.0), far(1000, 3, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = made(DomainAdapterRegressor, **RAW).fit(*mine, public=public, population=others)
    error = float(np.mean((model.predict(others[0]) - others[1]) ** 2))
    assert error < 2.0 * 25.0
    assert model.estimate_.low <= error <= model.estimate_.high
    assert model.public_clipped_ == {}
    learner = model._scenario["curator"]["learner"]
    assert (learner["residual_clip"], learner["start"], learner["whitening"]) == ("public", "public", "public")
    signs = [(X, np.where(y > 500, "up", "down")) for X, y in (public, mine, others)]
    labels = made(DomainAdapter, **RAW).fit(*signs[1], public=signs[0], population=signs[2])
    assert labels.score(*signs[2]) > 0.9


def test_bounds_take_nothing_from_the_private_people():
    public, mine = far(300, 1), far(300, 2)
    wild = (mine[0].copy(), mine[1].copy())
    wild[0][0], wild[1][0] = 1e9, -1e9
    learned = []
    for people in (mine, wild):
        model = made(DomainAdapterRegressor, **RAW).fit(*people, public=public, population=far(100, 3))
        learned.append((model._schema, model._range, model._scenario["curator"]))
    assert learned[0] == learned[1]
    assert learned[0][1] == (public[1].min(), public[1].max())


def test_features_of_the_public_sample_beyond_declared_bounds_are_told():
    public, mine = far(400, 1), far(400, 2)
    signs = [(X, y > 500) for X, y in (public, mine)]
    with pytest.warns(PublicClippingWarning, match="beyond its bounds in 3 features"):
        model = made(DomainAdapter, **RAW).set_params(bounds=(0, 5000)).fit(*signs[1], public=signs[0])
    assert set(model.public_clipped_) == {"x0", "x1", "x2"}
    assert all(0.4 < share < 0.6 for share in model.public_clipped_.values())


@pytest.mark.slow
def test_a_good_public_source_is_kept_by_the_defaults():
    # 60 people at epsilon 1: nothing of their own can be heard.
    public, mine, others = far(4000, 1), far(60, 2), far(2000, 3)
    errors = []
    for seed in range(3):
        model = DomainAdapterRegressor(epsilon=1.0, random_state=seed).fit(*mine, public=public, population=others)
        errors.append(np.mean((model.predict(others[0]) - others[1]) ** 2))
    assert np.mean(errors) < 1.3 * 25.0


def test_pairs_of_columns_and_what_a_public_sample_must_have():
    X = np.array([[1.0, 7.0, np.nan], [3.0, 7.0, np.nan]])
    for given in (X, polars.DataFrame({"b": X[:, 1], "a": X[:, 0], "c": X[:, 2], "y": [0, 1]})):
        assert public_pairs(given, ["a", "b", "c"]) == [(1.0, 3.0), (3.5, 10.5), (-0.5, 0.5)]
    with pytest.raises(BadFit, match="no column 'c'"):
        public_pairs(polars.DataFrame({"a": [1.0]}), ["a", "c"])
    with pytest.raises(BadFit, match="has 2 features, and X has 3"):
        public_pairs(np.zeros((4, 2)), ["a", "b", "c"])
    with pytest.raises(BadFit, match="numbers only"):
        public_pairs(np.array([["a"]]), ["a"])
    assert response_cost(np.array([-1.0, 1.0]), -1.0, 1.0) == 0.0
    assert response_cost(np.array([0.0, 4.0]), 0.0, 2.0) == pytest.approx(0.5)
    assert response_cost(np.array([5.0, 5.0]), 0.0, 2.0) == np.inf
    assert widened(np.array([np.inf, 2.0])) == (1.0, 3.0)


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
