"""The same people are recognised however they are written down; others are not."""

import io
import zlib

import numpy as np
import pandas
import polars
import pytest

from common.core.errors import BadData
from common.data.tables import Layout
from common.lifetime.recognition import Digester, by_id, decimals, recognised, rows_of_data

DIGESTER = Digester(bytes(32))


def frame(n: int = 400, seed: int = 0) -> pandas.DataFrame:
    r = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "person": [f"p{seed}-{at}" for at in range(n)],
            "age": r.integers(18, 90, n),
            "income": r.lognormal(10, 1, n).round(2),
            "score": r.normal(size=n),
            "plan": r.choice(["basic", "family", "pro"], n),
            "active": r.random(n) < 0.5,
        }
    )


def people(data, id_column=None, label=None):
    rows, named = rows_of_data(data, label, Layout())
    return DIGESTER.people([rows], named=named, id_column=id_column)


def as_csv(data: pandas.DataFrame, tmp_path, **more):
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
    data.to_csv(path, index=False, **more)
    return path


FEATURES = ["age", "income", "score", "plan", "active"]
NUMBERS = ["age", "income", "score"]


def written_otherwise(data: pandas.DataFrame, tmp_path):
    """Yield the same people in other forms, each with the share of them that must be recognised."""
    yield "as they are", data, 1.0
    yield "in another order", data.sample(frac=1.0, random_state=1), 1.0
    yield "other columns first", data[data.columns[::-1]], 1.0
    yield "a column more", data.assign(more=1), 1.0
    yield "a column of random numbers more", data.assign(more=np.random.default_rng(5).random(len(data))), 1.0
    yield "a column less", data.drop(columns="income"), 1.0
    yield "another label", data.assign(active=~data["active"]), 1.0
    yield "a column in other units", data.assign(income=data["income"] / 1000.0), 1.0
    yield "half of the columns", data[["income", "score", "plan"]], 1.0
    yield "two columns in other units", data.assign(income=data["income"] / 7, age=data["age"] * 12), 1.0
    yield "other names", data.rename(columns="x_{}".format), 1.0
    yield "other names, a column less", data.rename(columns="x_{}".format).drop(columns="x_income"), 1.0
    yield "other names, two columns more", data.rename(columns="x_{}".format).assign(more=1, still=2), 1.0
    yield "half of the people", data.iloc[::2], 1.0
    yield "among others", pandas.concat([data, frame(400, 9)]), 0.5
    yield "single precision", data.astype({"score": np.float32, "income": np.float32}), 0.95
    yield "whole numbers as floats", data.astype({"age": float}), 1.0
    yield "texts", data.astype(str), 1.0
    yield "capitals and spaces", data.assign(plan=" " + data["plan"].str.upper() + " "), 1.0
    yield "polars", polars.DataFrame(data.to_dict("list")), 1.0
    yield "nullable types", data.convert_dtypes(), 1.0
    yield "truths as numbers", data.assign(active=data["active"].astype(int)), 1.0
    yield "a file", as_csv(data, tmp_path), 1.0
    yield "a file of rounded numbers", as_csv(data, tmp_path, float_format="%.6g"), 0.95
    parquet = tmp_path / "people.parquet"
    polars.DataFrame(data.to_dict("list")).write_parquet(parquet)
    yield "parquet", parquet, 1.0


def test_the_same_people_are_recognised_however_they_are_written(tmp_path):
    data = frame()[FEATURES]
    known = people(data)
    for what, other, share in written_otherwise(data, tmp_path):
        assert recognised(known, people(other)).mean() >= share, what
        assert recognised(people(other), known).mean() >= share / 2, what


def test_arrays_without_names_are_recognised_too():
    array = frame()[NUMBERS].to_numpy(dtype=float)
    wide = np.column_stack([array, np.random.default_rng(3).random((len(array), 3))])
    known = people(array)
    forms = {
        "as they are": array,
        "swapped columns": array[:, ::-1],
        "one column less": array[:, :2],
        "one more": np.column_stack([array, np.ones(len(array))]),
        "three more": wide,
        "single precision": array.astype(np.float32),
        "objects": array.astype(object),
        "the frame": frame()[NUMBERS],
        "one column scaled": array * [1.0, 0.001, 1.0],
    }
    for what, other in forms.items():
        assert recognised(known, people(other)).mean() >= 0.95, what
    assert recognised(people(wide), known).mean() >= 0.95


@pytest.mark.slow
def test_wide_arrays_and_those_of_few_values_are_recognised_with_other_columns(monkeypatch):
    """More columns than are compared each with each; and ones whose values alone do not say which column they are."""
    monkeypatch.setattr("common.lifetime.recognition.PAIRS", 4000)
    r = np.random.default_rng(0)
    wide = r.random((300, 64))
    binary = (r.random((300, 60)) < r.random(60)).astype(int)
    for what, array in (("wide", wide), ("binary", binary), ("two", wide[:, :2])):
        d = array.shape[1]
        more = np.column_stack([array, r.random((300, 2))])
        forms = {
            "two more": more,
            "two more in front": more[:, [d, d + 1, *range(d)]],
            "one in other units": array * np.where(np.arange(d) == 1, 3.7, 1.0),
            "half of the people, one more": np.column_stack([array, np.ones(300)])[::2],
        }
        if d > 2:
            forms |= {
                "without two": array[:, 2:],
                "without every third": array[:, np.arange(d) % 3 > 0],
                "without every third, in another order": array[:, np.flatnonzero(np.arange(d) % 3)[::-1]],
                "two others": np.column_stack([array[:, 2:], r.random((300, 2))]),
            }
        known = people(array)
        for form, other in forms.items():
            found = people(other)
            assert recognised(known, found).mean() > 0.95, (what, form)
            assert recognised(found, known).mean() > 0.45, (what, form)
        others = r.random(array.shape) if what != "binary" else None
        assert others is None or not recognised(people(more), people(others)).any(), what


def test_any_one_column_may_have_changed_in_small_tables_too():
    """Half of a small table, or ten rows of a large one, must agree without it."""
    for n in (6, 15, 200):
        data = frame(n)[FEATURES]
        array = data[NUMBERS].to_numpy(dtype=float)
        for name in FEATURES:
            assert recognised(people(data), people(data.assign(**{name: "other"}))).all(), (n, name)
        for at in range(array.shape[1]):
            scaled, less = array * np.where(np.arange(3) == at, 1e-3, 1.0), np.delete(array, at, axis=1)
            for known, other in ((array, scaled), (array, less), (less, array)):
                assert recognised(people(known), people(other)).all(), (n, at)
    known = people(frame(200)[FEATURES])
    ten = pandas.concat([frame(200)[FEATURES].iloc[:10], frame(400, 9)[FEATURES]]).assign(score="other")
    assert recognised(known, people(ten)).sum() == 10
    assert not recognised(known, people(ten[1:])).any()


def test_a_column_less_or_more_hides_nobody_however_alike_rows_are():
    """Rows that look the same count as one person, which is the private side; of other columns few say nothing."""
    few = np.random.default_rng(2).integers(0, 2, (200, 4)) + 10 * np.arange(4)
    for some, wanted in (([0, 1], True), ([2, 3], True), ([1, 2], False)):  # the first, the last, and others
        assert recognised(people(few), people(few[:, some])).all() == wanted
        assert recognised(people(few[:, some]), people(few)).any() == wanted
    for at in range(4):
        less = np.delete(few, at, axis=1)
        assert recognised(people(few), people(less)).all()
        assert recognised(people(less), people(few)).all()
    assert not recognised(people(few), people(few[:, :1] + 5)).any()
    one, other = pandas.DataFrame({"a": [0], "b": [0], "c": [5]}), pandas.DataFrame({"b": [0], "c": [0]})
    assert not recognised(people(one), people(other)).any()  # columns with names are the same by these alone


def test_rows_are_compared_on_half_of_the_columns_that_one_table_names_and_not_on_fewer():
    data = frame()[["person", *FEATURES]]
    others = frame(seed=9)[["person", *FEATURES]].rename(columns=lambda name: f"other {name}")
    for shared, more, wanted in (
        (["person", "income", "score"], 3, True),
        (["income", "score"], 2, True),
        (["income", "score"], 3, False),
    ):
        mixed = pandas.concat([data[shared], others.iloc[:, :more]], axis=1)
        assert recognised(people(data), people(mixed)).all() == wanted
        assert recognised(people(mixed), people(data)).any() == wanted


def test_columns_without_names_are_matched_by_the_share_of_values_that_both_have():
    """Beside columns of other values, in another order, and whatever a few rows of them hold."""
    rng = np.random.default_rng(8)
    array, noise = frame()[NUMBERS].to_numpy(dtype=float), rng.random((400, 4))
    for shared in (1.0, 0.5):
        wide = np.column_stack([noise[:, :2], array[:, 1], noise[:, 2:], array[:, [2, 0]]])
        rows = int(400 * shared)
        wide[rows:, [2, 5, 6]] = -rng.random((400 - rows, 3))
        found = recognised(people(array), people(rng.permutation(wide)))
        assert found.mean() == pytest.approx(shared)
    two = np.column_stack([noise[:, 0], array[:, 1], noise[:, 1:3], array[:, 2]])[::2]  # of three, among others
    for at in range(5):
        assert recognised(people(array), people(np.roll(two, at, axis=1))).all()
        assert recognised(people(np.roll(two, at, axis=1)), people(array)).mean() == 0.5
    many = np.column_stack([rng.random((2400, 4)), np.concatenate([array, -rng.random((2000, 3))])])
    assert recognised(people(array), people(many)).mean() == pytest.approx(1 / 6)  # of the table that has fewer rows
    assert recognised(people(many), people(array)).all()


def test_other_people_are_not_recognised():
    for columns in (FEATURES, NUMBERS):
        assert not recognised(people(frame()[columns]), people(frame(seed=1)[columns])).any()
    array = frame()[NUMBERS].to_numpy(dtype=float)
    assert not recognised(people(array), people(frame(seed=1)[NUMBERS].to_numpy(dtype=float))).any()


def test_rows_of_few_values_look_alike_only_where_all_columns_agree():
    """Without any one column all of these rows look alike, whoever they are: that says nothing."""
    one, two = (
        frame(400, seed)[["plan", "active", "age"]].assign(days=range(400 * seed, 400 * seed + 400)) for seed in (0, 1)
    )
    known = people(one)
    assert not recognised(known, people(two)).any()
    assert recognised(known, people(one.assign(plan="pro"))).mean() > 0.9
    assert recognised(known, people(one.drop(columns="days"))).all()


def test_people_who_look_alike_are_told_apart_by_an_id():
    """Without an id, a row that agrees counts as the same person; with one, the id decides alone."""
    one, two = frame()[["person", "plan", "active"]], frame(seed=1)[["person", "plan", "active"]]
    assert recognised(people(one[["plan", "active"]]), people(two[["plan", "active"]])).all()
    assert not recognised(people(one), people(two)).any()  # the column of ids, though it is not named as such, differs
    first = people(one, "person")
    assert by_id(first, people(two, "person"))
    assert not recognised(first, people(two, "person")).any()
    # It is enough that one of the two names the id, where both have the column.
    assert not recognised(people(one), people(two, "person")).any()
    changed = one.assign(plan="pro", active=True)
    assert recognised(first, people(changed, "person")).all()


def test_an_id_that_does_not_tell_people_apart_is_refused():
    data = frame(5)
    many = [f"2024.0000{at}" for at in range(5)]
    for values, why in ((list("aabcd"), ""), (["a", None, *"bcd"], ""), (many, ".*put a letter before numbers")):
        with pytest.raises(BadData, match=f"is the id of people{why}") as refused:
            people(data.assign(person=values), "person")
        assert "'a'" not in refused.value.detail
    with pytest.raises(BadData, match="no column 'nobody'"):
        people(data, "nobody")
    data = frame(50)
    twice = data.assign(PERSON=range(50))
    with pytest.raises(BadData, match="has its name but for capitals"):
        people(twice, "person")
    # Where another table has the name twice it is no id there: the same rows are the same people.
    assert recognised(people(twice), people(data.assign(person=range(50, 100)), "person")).all()


def test_columns_that_have_no_text_and_are_there_twice_are_left_out(tmp_path):
    data = polars.DataFrame({"a": [1.5, 2.5], "b": [[1], [2]], "c": ["x", "y"]})
    assert people(data).cells.shape == (2, 2)
    data.write_parquet(tmp_path / "lists.parquet")
    assert people(tmp_path / "lists.parquet").cells.shape == (2, 2)
    (tmp_path / "twice.csv").write_text("a,b,a\n1,2,3\n")
    assert people(tmp_path / "twice.csv").cells.shape == (1, 1)


def test_people_without_any_column_to_know_them_by_are_refused(tmp_path):
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    with pytest.raises(BadData, match="no column but the label's is there exactly once"):
        people(tmp_path / "twice.csv")


def test_a_file_without_rows_has_nobody(tmp_path):
    path = tmp_path / "nobody.csv"
    path.write_text("a,b\n")
    rows, named = rows_of_data(path, "b", Layout())
    assert (rows.columns, len(rows), named) == (["a"], 0, True)


def test_numbers_agree_to_six_digits_and_whole_ones_entirely():
    pairs = [(0.1, np.float32(0.1)), (1.0, 0.9999999), (123456.4, 123456.0), (-5e-324, -5e-324)]
    for one, other in pairs:
        k, e = decimals(np.array([one, float(other)]))
        assert (k[0], e[0]) == (k[1], e[1]), (one, other)
    for one, other in [(1.0, 1.00001), (1234567.0, 1234568.0), (0.1, 0.100001), (1e-5, -1e-5), (0.0, 1e-9)]:
        k, e = decimals(np.array([one, other]))
        assert (k[0], e[0]) != (k[1], e[1]), (one, other)
    assert not np.any(decimals(np.array([0.0, -0.0])))


def test_what_is_stored_is_read_again_and_holds_no_record():
    known = people(frame())
    content = known.encoded()
    again = type(known).decoded(content, known.id_name, ())
    assert np.array_equal(again.cells, known.cells)
    assert recognised(again, people(frame())).all()
    with np.load(io.BytesIO(zlib.decompress(content))) as arrays:
        assert {arrays[name].dtype for name in arrays} == {np.dtype(np.uint64)}
