"""Chunks: public functions of a record's place or content, so that one record moves little."""

from __future__ import annotations

import numpy as np
import pytest

from common.local.records import Records
from common.vocabulary.learners.model_agnostic import TOUCHED
from curator.learners.teachers.chunks import chunk_of


def people(n: int, seed: int = 1) -> Records:
    features = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def replaced(records: Records, place: int) -> Records:
    features, labels = records.features.copy(), records.labels.copy()
    features[place], labels[place] = -features[place] + 1.0, -labels[place]
    return Records(features, labels)


def contents(records: Records, chunks: int, by: str) -> list[frozenset[bytes]]:
    chunk = chunk_of(records, chunks, by)
    rows = [row.tobytes() + label.tobytes() for row, label in zip(records.features, records.labels, strict=True)]
    return [frozenset(row for row, place in zip(rows, chunk, strict=True) if place == j) for j in range(chunks)]


@pytest.mark.parametrize("by", ["slot", "content"])
def test_replacing_a_record_changes_no_more_chunks_than_stated(by):
    records = people(60)
    before = contents(records, 7, by)
    for place in range(60):
        after = contents(replaced(records, place), 7, by)
        assert 1 <= sum(a != b for a, b in zip(before, after, strict=True)) <= TOUCHED[by]


def test_by_content_a_record_that_leaves_changes_one_chunk_and_by_place_it_may_change_all():
    records = people(60)
    rest = records.take(np.arange(1, 60))
    changed = {
        by: sum(a != b for a, b in zip(contents(records, 7, by), contents(rest, 7, by), strict=True))
        for by in ("slot", "content")
    }
    assert changed == {"slot": 7, "content": 1}


def test_content_alone_decides_and_not_the_order():
    records = people(60)
    order = np.random.default_rng(2).permutation(60)
    np.testing.assert_array_equal(chunk_of(records.take(order), 7, "content"), chunk_of(records, 7, "content")[order])


def test_a_slot_is_counted_from_the_first_one():
    np.testing.assert_array_equal(chunk_of(people(5), 3, "slot", first=4), [1, 2, 0, 1, 2])


@pytest.mark.parametrize("by", ["slot", "content"])
def test_chunks_are_of_nearly_one_size(by):
    sizes = np.bincount(chunk_of(people(7000), 7, by), minlength=7)
    assert sizes.min() > 850
    assert sizes.max() < 1150
