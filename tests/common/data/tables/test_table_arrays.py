"""NumPy files: they read as text does, and what is no table of numbers and texts is refused."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core.errors import BadData
from common.data.tables import TableSource, load
from tests.tiers import for_each

DESCRIPTION = {
    "files": ["people.npz"],
    "label": {"column": "income", "above": 50},
    "features": [
        {"kind": "number", "column": "age", "low": 20, "high": 70},
        {"kind": "category", "column": "job", "values": ["clerk", "nurse"]},
    ],
}
COLUMNS = {
    "age": np.array([20.0, 45.0, np.nan, 90.0]),
    "job": np.array(["clerk", "doctor", "", "nurse"]),
    "income": np.array([51, 50, 10, 99]),
}
FEATURES = [[0, 1, 0], [0.5, 0, 0], [0, 0, 0], [1, 0, 1]]


def source(**changes):
    return TableSource.parse(DESCRIPTION | changes)


def flaw(folder, **changes):
    with pytest.raises(BadData) as caught:
        load(folder, source(**changes))
    return caught.value.detail


def test_named_columns_read_as_text_does(tmp_path):
    np.savez(tmp_path / "people.npz", **COLUMNS)
    polars.DataFrame(COLUMNS).fill_nan(None).write_csv(tmp_path / "people.csv")
    found = load(tmp_path, source())
    np.testing.assert_array_equal(found.features, FEATURES)
    np.testing.assert_array_equal(found.labels, [1, -1, -1, 1])
    same = load(tmp_path, source(files=["people.csv"]))
    np.testing.assert_array_equal(found.features, same.features)
    np.testing.assert_array_equal(found.labels, same.labels)


def test_compressed_archives_and_columns_that_nobody_names(tmp_path):
    np.savez_compressed(tmp_path / "people.npz", secret=np.arange(4), **COLUMNS)
    np.testing.assert_array_equal(load(tmp_path, source()).features, FEATURES)


def test_a_structured_array_brings_its_names(tmp_path):
    people = np.empty(4, dtype=[("age", ">f4"), ("job", "S8"), ("income", "<i2")])
    for name, column in COLUMNS.items():
        people[name] = column
    np.save(tmp_path / "people.npy", people)
    np.testing.assert_array_equal(load(tmp_path, source(files=["people.npy"])).features, FEATURES)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_gets_its_names_from_the_layout(tmp_path, order):
    matrix = np.array([[20, 1, 60], [45, 0, 40]], dtype=np.float16, order=order)
    np.save(tmp_path / "people.npy", matrix)
    changes = {
        "files": ["people.npy"],
        "layout": {"columns": ["age", "retired", "income"]},
        "features": [DESCRIPTION["features"][0], {"kind": "number", "column": "retired", "low": 0, "high": 1}],
    }
    found = load(tmp_path, source(**changes))
    np.testing.assert_array_equal(found.features, [[0, 1], [0.5, 0]])
    np.testing.assert_array_equal(found.labels, [1, -1])
    assert "matrix of 3 columns" in flaw(tmp_path, files=["people.npy"])


def test_booleans_are_texts(tmp_path):
    flags = {**COLUMNS, "job": np.array([True, False, True, False])}
    np.savez(tmp_path / "people.npz", **flags)
    category = {"kind": "category", "column": "job", "values": ["true"]}
    found = load(tmp_path, source(features=[category]))
    np.testing.assert_array_equal(found.features[:, 0], [1, 0, 1, 0])


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_numbers_keep_their_value(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("numbers")
    np.savez(folder / "people.npz", age=np.array(numbers), income=np.zeros(len(numbers)))
    feature = {"kind": "number", "column": "age", "low": -1e6, "high": 1e6}
    found = load(folder, source(features=[feature])).features[:, 0]
    np.testing.assert_array_equal(found, ((np.array(numbers) + 1e6) / 2e6).astype(np.float32))


@for_each(
    ("changed", "says"),
    [
        ({"age": np.arange(3.0)}, "same length"),
        ({"age": np.ones((4, 2))}, "same length"),
        ({"age": np.ones(4, dtype=complex)}, "neither numbers"),
        ({"age": np.array(["2020-01-01"] * 4, dtype="datetime64[D]")}, "neither numbers"),
        ({"age": np.array([1, np.inf, 2, 3])}, "line 2, column 'age': must be a finite number"),
        ({"job": np.array([b"\xff"] * 4)}, "not UTF-8"),
        ({"income": np.array([1.0, np.nan, 2, 3])}, "line 2, column 'income': the label is missing"),
    ],
)
def test_columns_that_are_none_are_refused(tmp_path, changed, says):
    np.savez(tmp_path / "people.npz", **COLUMNS | changed)
    assert says in flaw(tmp_path)


def test_pickled_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "people.npz", **COLUMNS | {"job": np.array([object()] * 4)})
    assert "not a readable NumPy file" in flaw(tmp_path)
    np.save(tmp_path / "people.npy", np.array([{"age": 1}]), allow_pickle=True)
    assert "not a readable NumPy file" in flaw(tmp_path, files=["people.npy"])


@for_each("suffix", [".npy", ".npz"])
@for_each("content", [b"", b"not an array", b"\x93NUMPY\x01\x00", b"PK\x03\x04 cut off"])
def test_damaged_files_are_refused(tmp_path, suffix, content):
    (tmp_path / f"people{suffix}").write_bytes(content)
    assert "not a readable NumPy file" in flaw(tmp_path, files=[f"people{suffix}"])


def test_the_other_kind_of_file_under_the_suffix_is_refused(tmp_path):
    np.save(tmp_path / "people.npy", np.ones((2, 3)))
    (tmp_path / "people.npy").rename(tmp_path / "people.npz")
    assert "not a readable NumPy file" in flaw(tmp_path)


def test_a_file_that_is_not_there_is_called_so(tmp_path):
    assert "there is no such file" in flaw(tmp_path)


def test_a_column_that_is_not_there_is_named(tmp_path):
    np.savez(tmp_path / "people.npz", age=COLUMNS["age"], income=COLUMNS["income"])
    assert "has no column 'job'" in flaw(tmp_path)
