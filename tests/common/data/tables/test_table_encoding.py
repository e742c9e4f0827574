"""Rows that are at hand become what they would become from a file."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core.errors import BadData
from common.data.tables import TableSource, encode, load

SOURCE = TableSource.parse(
    {
        "files": ["people.parquet"],
        "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
        "features": [
            {"kind": "number", "column": "visits", "low": -1.5, "high": 30},
            {"kind": "category", "column": "plan", "values": ["basic", "pro"]},
        ],
        "norm": 1.2,
    }
)


@given(
    st.lists(st.tuples(st.floats(-1e9, 1e9) | st.none(), st.sampled_from(["basic", "pro", "other", None])), max_size=9)
)
def test_rows_at_hand_are_encoded_as_from_a_file(tmp_path_factory, rows):
    folder, rows = tmp_path_factory.mktemp("table"), [*rows, (0.1, "pro")]
    schema = {"visits": polars.Float64, "plan": polars.String}
    frame = polars.DataFrame(rows, schema=schema, orient="row")
    frame.with_columns(renews=polars.lit("yes")).write_parquet(folder / "people.parquet")
    np.testing.assert_array_equal(encode(frame, SOURCE), load(folder, SOURCE).features)


def test_a_column_that_is_missing_is_named():
    with pytest.raises(BadData, match="has no column 'visits'"):
        encode(polars.DataFrame({"plan": ["pro"]}), SOURCE)
