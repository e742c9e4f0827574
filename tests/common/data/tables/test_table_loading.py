"""Tables: what a row becomes, and what each flaw of a file is called. Private values appear in no message."""

from __future__ import annotations

import gzip
import lzma

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core.errors import BadData, BadMessage
from common.data.tables import Category, TableSource, load
from common.data.tables import files as reading
from tests.tiers import for_each

DESCRIPTION = {
    "files": ["people.csv"],
    "label": {"column": "income", "positive": [">50K", ">50K."], "negative": ["<=50K"]},
    "features": [
        {"kind": "number", "column": "age", "low": 20, "high": 70},
        {"kind": "category", "column": "job", "values": ["clerk", ["nurse", "doctor"]]},
    ],
}
HEADER = "age,job,income,secret\n"
GOOD = HEADER + "20,clerk,>50K,a\n45,doctor,<=50K,b\n70,nurse,>50K.,c\n"


def source(**changes):
    return TableSource.parse(DESCRIPTION | changes)


def read(folder, text, **changes):
    (folder / "people.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(folder, source(**changes))


def flaw(folder, text, **changes):
    with pytest.raises(BadData) as caught:
        read(folder, text, **changes)
    message = caught.value.detail
    assert "\n" not in message
    return message


class TestEncoding:
    def test_numbers_are_scaled_by_public_bounds_and_values_become_bits(self, tmp_path):
        records = read(tmp_path, GOOD)
        assert records.features.dtype == np.float32
        np.testing.assert_array_equal(records.features, [[0, 1, 0], [0.5, 0, 1], [1, 0, 1]])
        np.testing.assert_array_equal(records.labels, [1, -1, 1])

    def test_numbers_beyond_the_bounds_are_clipped(self, tmp_path):
        records = read(tmp_path, HEADER + "-1e300,clerk,>50K,a\n71,clerk,>50K,a\n")
        np.testing.assert_array_equal(records.features[:, 0], [0, 1])

    @for_each("missing", ["", "?", " ? "])
    def test_missing_and_unlisted_fields_are_zeros(self, tmp_path, missing):
        records = read(tmp_path, HEADER + f"{missing},{missing},>50K,a\n?,astronaut,>50K,a\n")
        np.testing.assert_array_equal(records.features, np.zeros((2, 3)))

    def test_a_row_is_encoded_by_itself_whatever_the_others_are(self, tmp_path):
        rows = GOOD.splitlines()[1:]
        together = read(tmp_path, GOOD, norm=0.7).features
        alone = [read(tmp_path, HEADER + row + "\n", norm=0.7).features[0] for row in rows]
        np.testing.assert_array_equal(together, alone)

    @given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.01, 2))
    def test_no_feature_vector_is_longer_than_the_norm(self, tmp_path_factory, ages, norm):
        rows = "".join(f"{age},clerk,>50K,a\n" for age in ages)
        features = read(tmp_path_factory.mktemp("norm"), HEADER + rows, norm=norm).features
        lengths = np.linalg.norm(features.astype(np.float64), axis=1)
        assert lengths.max() <= norm
        free = np.hypot(np.clip((np.array(ages) - 20) / 50, 0, 1), 1)
        np.testing.assert_allclose(lengths, np.minimum(free, norm), rtol=1e-6)

    def test_where_keeps_the_rows_with_the_listed_values(self, tmp_path):
        records = read(tmp_path, GOOD, where={"secret": ["a", "c"], "job": ["nurse"]})
        np.testing.assert_array_equal(records.features, [[1, 0, 1]])

    def test_the_dimension_is_known_before_any_data(self, tmp_path):
        assert source().dimension == read(tmp_path, GOOD).dimension == 3


class TestLayout:
    def test_spaces_comments_blank_lines_and_names_from_the_scenario(self, tmp_path):
        text = "junk\n| a comment\n\n 20, clerk , >50K, a\n\n| more\n45, doctor, <=50K, b\n"
        layout = {"columns": ["age", "job", "income", "secret"], "skip_lines": 1, "comment": "|"}
        np.testing.assert_array_equal(read(tmp_path, text, layout=layout).features, [[0, 1, 0], [0.5, 0, 1]])

    def test_another_separator_quotes_and_a_byte_order_mark(self, tmp_path):
        text = '\ufeff"age";"job";"income"\n20;"clerk";">50K"\n'
        assert len(read(tmp_path, text, layout={"separator": ";"})) == 1

    def test_carriage_returns_do_not_matter(self, tmp_path):
        assert len(read(tmp_path, GOOD.replace("\n", "\r\n"))) == 3

    @pytest.mark.parametrize(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
    def test_compressed_files_read_as_plain_ones(self, tmp_path, suffix, compress):
        (tmp_path / f"people.csv{suffix}").write_bytes(compress(GOOD.encode()))
        assert len(load(tmp_path, source(files=[f"people.csv{suffix}"]))) == 3

    def test_parquet_reads_as_text_does(self, tmp_path):
        frame = {"age": [20, 45, None], "job": ["clerk", None, "nurse"], "income": [">50K", "<=50K", ">50K."]}
        polars.DataFrame(frame).write_parquet(tmp_path / "people.parquet")
        records = load(tmp_path, source(files=["people.parquet"]))
        np.testing.assert_array_equal(records.features, [[0, 1, 0], [0.5, 0, 0], [0, 0, 1]])

    def test_several_files_follow_each_other(self, tmp_path):
        (tmp_path / "more.csv").write_text(HEADER + "30,clerk,<=50K,d\n")
        assert read(tmp_path, GOOD, files=["people.csv", "more.csv"]).labels.tolist() == [1, -1, 1, -1]

    def test_the_size_of_the_pieces_does_not_show(self, tmp_path, monkeypatch):
        whole = read(tmp_path, GOOD)
        monkeypatch.setattr(reading, "PIECE", 2)
        np.testing.assert_array_equal(read(tmp_path, GOOD).features, whole.features)


class TestFlaws:
    def test_missing_file(self, tmp_path):
        with pytest.raises(BadData, match=r"people\.csv: there is no such file"):
            load(tmp_path, source())

    def test_a_folder_in_place_of_a_file(self, tmp_path):
        (tmp_path / "people.csv").mkdir()
        with pytest.raises(BadData, match="cannot be read"):
            load(tmp_path, source())

    @for_each(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
    @for_each("damage", ["cut", "overwrite", "replace"])
    def test_cut_off_or_corrupt_compressed_files(self, tmp_path, suffix, compress, damage):
        whole = compress((HEADER + "20,clerk,>50K,a\n" * 500).encode())
        middle = len(whole) // 2
        damaged = {
            "cut": whole[:middle],
            "overwrite": whole[:middle] + bytes(8) + whole[middle + 8 :],
            "replace": b"not compressed",
        }
        (tmp_path / f"people.csv{suffix}").write_bytes(damaged[damage])
        with pytest.raises(BadData, match="the compressed file is cut off or corrupt"):
            load(tmp_path, source(files=[f"people.csv{suffix}"]))

    def test_a_file_that_is_not_parquet(self, tmp_path):
        (tmp_path / "people.parquet").write_text(GOOD)
        with pytest.raises(BadData, match="not a readable Parquet file"):
            load(tmp_path, source(files=["people.parquet"]))

    def test_bytes_that_are_not_utf_8(self, tmp_path):
        expected = "people.csv: line 5 is not UTF-8 text: save the file as CSV in UTF-8"
        assert flaw(tmp_path, GOOD.encode() + b"20,\xff,>50K,a\n") == expected

    @for_each("row", ["20,clerk,>50K", "20,clerk,>50K,a,b", "20"])
    def test_rows_with_a_wrong_number_of_fields(self, tmp_path, row):
        found = row.count(",") + 1
        message = flaw(tmp_path, GOOD + row + "\n")
        assert message == f"people.csv: line 5 has {found} fields where there are 4 columns: " + (
            "a field that holds the separator needs quotes around it"
        )

    @pytest.mark.parametrize("row", ['20,"clerk,>50K,a', '20,"clerk"x,>50K,a'])
    def test_quotes_that_do_not_match(self, tmp_path, row):
        assert "not well-formed CSV" in flaw(tmp_path, GOOD + row + "\n")

    @for_each("number", ["nan", "NaN", "inf", "-inf", "1e999", "old", "0x10"])
    def test_numbers_that_are_no_finite_numbers(self, tmp_path, number):
        message = flaw(tmp_path, GOOD + f"{number},clerk,>50K,a\n" * 2)
        assert message == "people.csv: line 5, column 'age': must be a finite number (and 1 more such rows); " + (
            "a text that stands for a missing one is listed in layout.missing"
        )

    def test_labels_outside_the_declared_set(self, tmp_path):
        message = flaw(tmp_path, GOOD + "20,clerk,>60K,a\n")
        assert message == "people.csv: line 5, column 'income': the label is outside the declared set; " + (
            "declare it, or leave such rows out with where"
        )

    def test_line_numbers_are_those_of_the_file(self, tmp_path):
        layout = {"comment": "#"}
        message = flaw(tmp_path, "# one\n" + HEADER + "\n# four\n20,clerk,?,a\n", layout=layout)
        assert "line 5," in message

    @for_each("text", ["", "\n\n", HEADER])
    def test_no_rows_at_all(self, tmp_path, text):
        assert "no" in flaw(tmp_path, text)

    def test_no_row_left_by_the_filters(self, tmp_path):
        assert "no row is left" in flaw(tmp_path, GOOD, where={"job": ["astronaut"]})

    def test_a_column_that_is_not_there(self, tmp_path):
        assert "has no column 'weight'" in flaw(tmp_path, GOOD, where={"weight": ["1"]})

    @given(st.binary(max_size=400))
    def test_any_bytes_are_read_or_refused(self, tmp_path_factory, noise):
        folder = tmp_path_factory.mktemp("noise")
        # Blank lines, of spaces or an empty quotation too, leave the three good rows; nothing else is a row here.
        if noise.decode("latin-1").strip(' \r\n"'):
            flaw(folder, GOOD.encode() + noise)
            return
        try:
            assert len(read(folder, GOOD.encode() + noise)) == 3
        except BadData:
            assert b'"' in noise

    @for_each("row", ["hunter2,clerk,>50K,hunter2", "20,clerk,hunter2,hunter2", "hunter2", '20,"hunter2'])
    def test_no_message_shows_what_a_field_holds(self, tmp_path, row):
        assert "hunter2" not in flaw(tmp_path, GOOD + row + "\n")


class TestDescription:
    @for_each(
        ("wrong", "says"),
        [
            ({"files": []}, "files"),
            ({"features": []}, "features"),
            ({"norm": 0}, "norm"),
            ({"layout": {"columns": ["a", "a"]}}, "differ"),
            ({"features": [{"kind": "number", "column": "age", "low": 1, "high": 1}]}, "below high"),
            (
                {"features": [{"kind": "category", "column": "job", "values": ["a", ["b", "a"]]}]},
                "listed twice",
            ),
            ({"label": {"column": "x", "positive": ["a"], "negative": ["a"]}}, "both positive and negative"),
            ({"surprise": 1}, "surprise"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, wrong, says):
        with pytest.raises(BadMessage, match=says):
            source(**wrong)

    def test_survives_the_wire(self):
        described = source(norm=1.5, where={"job": ["clerk"]})
        assert TableSource.parse(described.wire()) == described

    def test_a_group_of_texts_is_one_value(self):
        assert Category(column="job", values=("a", ("b", "c"))).groups == (("a",), ("b", "c"))


@pytest.mark.parametrize(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_a_file_that_is_named_plain_is_found_compressed(tmp_path, suffix, compress):
    plain = read(tmp_path, GOOD).features
    (tmp_path / "people.csv").unlink()
    (tmp_path / f"people.csv{suffix}").write_bytes(compress(GOOD.encode()))
    np.testing.assert_array_equal(load(tmp_path, source()).features, plain)
