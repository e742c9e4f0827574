"""Signed shares are unbiased with the variance that is claimed; a parity is found where rows have enough agents."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadInput, BadMessage
from common.local.answers import Answers
from common.local.mechanisms.none import NoMechanism
from common.local.mechanisms.warner import Warner
from common.local.queries.code import CodeQuery
from common.local.queries.query import parse_query
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.statistics.frequency import likeliest_parity, signed_shares
from local_agent.answering import evaluate, randomize
from tests.tiers import for_each

BITS = 4
WARNER = Warner(epsilon=1.0)


def people(n, seed=0):
    """Return people with an item of four bits, a sign and a presence; labels are the parity of the first two bits."""
    features = np.random.default_rng(seed).integers(0, 2, (n, BITS + 2)).astype(np.uint8)
    return Records(features, np.where(features[:, 0] ^ features[:, 1], 1, -1).astype(np.int8))


def ask(query, records, mechanism, seed):
    slots = np.arange(len(records))
    values = evaluate(query, records.only(query.columns), slots)
    answers = randomize(query, values, mechanism, slots, RandomSource.seeded(seed))
    return query, Answers(len(records), answers, slots)


def held(records):
    """Return the share that holds each item with sign +, less that with sign -; absent people hold none."""
    items = records.features[:, :BITS] @ (1 << np.arange(BITS)[::-1])
    signs = (1.0 - 2.0 * records.features[:, BITS]) * records.features[:, BITS + 1]
    return np.bincount(items, weights=signs, minlength=1 << BITS) / len(records)


def test_signed_shares_are_unbiased_and_vary_at_most_as_much_as_claimed():
    records, runs = people(500), 400
    truth = held(records)
    found = np.array(
        [
            signed_shares(
                [ask(CodeQuery(first=0, bits=BITS, sign=BITS, present=BITS + 1, public=run), records, WARNER, run)],
                WARNER,
            )
            for run in range(runs)
        ]
    )
    most = 1.0 / (len(records) * (2.0 * WARNER.truth - 1.0) ** 2)
    # Sixteen means and variances of 400 runs: five standard errors are exceeded once in 100,000 times.
    assert np.all(np.abs(found.mean(axis=0) - truth) < 5.0 * np.sqrt(most / runs))
    assert np.all(found.var(axis=0, ddof=1) < most * (1.0 + 5.0 * np.sqrt(2.0 / runs)))
    assert found.var(axis=0).mean() > 0.8 * most


def test_several_questions_count_as_one():
    first, second = people(300, 1), people(700, 2)
    asked = [
        ask(CodeQuery(first=0, bits=BITS, sign=BITS, public=p), r, WARNER, p) for p, r in ((1, first), (2, second))
    ]
    parts = [signed_shares([one], WARNER) for one in asked]
    np.testing.assert_allclose(signed_shares(asked, WARNER), 0.3 * parts[0] + 0.7 * parts[1], atol=1e-12)


def test_nobody_and_too_many_items():
    query = CodeQuery(first=0, bits=BITS, public=1)
    nobody = Answers(0, np.empty(0, np.uint8), np.empty(0, np.int64))
    assert not signed_shares([(query, nobody)], WARNER).any()
    assert likeliest_parity([(query, nobody)]) == 0
    with pytest.raises(BadInput, match="items are estimated at once"):
        signed_shares([(CodeQuery(first=0, bits=25, public=1), nobody)], WARNER)


def test_a_parity_is_found_where_every_row_has_many_agents_and_not_where_it_has_one():
    records = people(20_000)
    short = CodeQuery(first=0, bits=BITS, sign="label", public=3)
    assert likeliest_parity([ask(short, records, WARNER, 1)]) == 0b1100
    few = people(60, 5)
    guesses = [
        likeliest_parity([ask(CodeQuery(first=0, bits=BITS, sign="label", public=k), few, WARNER, k)])
        for k in range(60)
    ]
    assert np.mean(np.array(guesses) == 0b1100) < 0.7


def test_without_noise_the_transform_is_exact_for_each_row():
    records = people(50)
    query = CodeQuery(first=0, bits=BITS, sign=BITS, public=9)
    _, answers = ask(query, records, NoMechanism(), 1)
    rows, items = query.rows(answers.slots), np.arange(1 << BITS)
    signs = 1.0 - 2.0 * answers.values
    inner = np.array([[bin(row & item).count("1") & 1 for item in items] for row in rows])
    expected = (signs[:, None] * (1 - 2 * inner)).mean(axis=0)
    np.testing.assert_allclose(signed_shares([(query, answers)], NoMechanism()), expected)


@for_each("sign", [-1, 1 << 20, "labels"])
def test_a_sign_that_is_no_feature_is_refused(sign):
    with pytest.raises(BadMessage):
        parse_query({"kind": "code", "first": 0, "bits": 4, "sign": sign, "public": 1})
