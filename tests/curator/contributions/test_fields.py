"""What a person contributes is the row that they would be in a file, of one length, and refused where it is none."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadData
from common.data.tables import load
from common.data.tables.record import record_of
from common.data.tables.source import TableSource
from curator.contributions import fields
from tests.curator.contributions.given import CONTRIBUTED, TABLE, rows, write
from tests.tiers import for_each

SOURCE = TableSource.parse(CONTRIBUTED)
ONE = {"visits": 12, "plan": "family", "renews": "yes"}


def test_what_is_read_again_is_the_record_of_a_files_row_to_the_bit(tmp_path):
    people = rows()
    write(tmp_path / "people.csv", people)
    loaded = load(tmp_path, TableSource.parse({**TABLE, "files": ["people.csv"]}))
    for place, person in enumerate(people):
        texts = fields.read(fields.written(fields.checked(person, SOURCE), SOURCE), SOURCE)
        record = record_of(texts, SOURCE)
        np.testing.assert_array_equal(record.features[0], loaded.features[place])
        assert record.labels[0] == loaded.labels[place]


def test_all_records_of_a_table_have_one_length_before_they_are_sealed():
    lengths = {len(fields.written(fields.checked(person, SOURCE), SOURCE)) for person in rows(200)}
    longest = {**ONE, "visits": "0.000000000000000000000000000001", "plan": "professional"}
    lengths |= {len(fields.written(fields.checked(longest, SOURCE), SOURCE))}
    assert lengths == {fields.length(SOURCE)}


def test_no_more_is_sent_than_the_table_describes():
    assert fields.checked({**ONE, "name": "Ada", "address": "here"}, SOURCE).keys() == ONE.keys()


@for_each(
    ("change", "said"),
    [
        ({"visits": 31}, "field 'visits' is beyond the public bounds 0 to 30"),
        ({"visits": -1e-9}, "field 'visits' is beyond the public bounds"),
        ({"visits": "many"}, "field 'visits' must be a finite number"),
        ({"visits": "1e999"}, "field 'visits' must be a finite number"),
        ({"visits": "1" + 32 * "0"}, "field 'visits': a number has at most 32 characters"),
        ({"visits": [1]}, "field 'visits' must be a number, a text, a boolean or null"),
        ({"plan": "gold"}, 'field \'plan\' must be one of "basic", "family", "professional", "pro", or null'),
        ({"renews": "maybe"}, "field 'renews': the label must be one of yes, no"),
        ({"renews": None}, "field 'renews': the label"),
    ],
)
def test_a_record_that_is_none_is_refused_before_it_is_sealed_and_no_value_is_shown(change, said):
    with pytest.raises(BadData) as refused:
        fields.checked({**ONE, **change}, SOURCE)
    assert refused.value.detail.startswith(said)
    for value in change.values():
        assert value is None or str(value) not in refused.value.detail.replace("0 to 30", "")


def test_a_missing_column_is_named():
    with pytest.raises(BadData, match="no field 'plan'"):
        fields.checked({"visits": 1, "renews": "no"}, SOURCE)


def test_a_label_above_a_number_has_its_length_too():
    source = TableSource.parse({**CONTRIBUTED, "label": {"column": "income", "above": 50}})
    person = {**ONE, "income": "0." + 30 * "1"}
    assert len(fields.written(fields.checked(person, source), source)) == fields.length(source)
    with pytest.raises(BadData, match="'income': a number has at most"):
        fields.checked({**ONE, "income": "0." + 31 * "1"}, source)


GOOD = fields.written(fields.checked(ONE, SOURCE), SOURCE)


@for_each(
    "plaintext",
    [
        b"",
        b"\xff" * len(GOOD),
        GOOD[:-1],
        GOOD + b" ",
        b" " + GOOD[:-1],
        GOOD.replace(b'"12"', b"12  "),
        GOOD.replace(b'"12"', b'"99"'),
        GOOD.replace(b"family", b"golden"),
        GOOD.replace(b"visits", b"wisits"),
        GOOD.replace(b"{", b'{"a":1,')[: len(GOOD)],
        GOOD.replace(b'"yes"', b"null "),
        b"[" * len(GOOD),
        b'"text"'.ljust(len(GOOD)),
    ],
)
def test_a_curator_takes_nothing_but_records_of_the_table_and_says_the_same_of_all_others(plaintext):
    with pytest.raises(BadData, match=r"^the sealed record is none that the offer's table describes: nothing of it"):
        fields.read(plaintext, SOURCE)
