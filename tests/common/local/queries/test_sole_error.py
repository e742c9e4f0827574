"""Sole errors: where only the one errs; their difference is that of the losses, on every record."""

from __future__ import annotations

import numpy as np

from common.local.losses import evaluate
from common.local.naming import Names
from common.local.queries.sole_error import SoleErrorQuery
from common.local.records import Records


def test_both_directions_differ_by_the_losses_and_never_count_an_error_of_both() -> None:
    generator = np.random.default_rng(1)
    features = generator.normal(size=(500, 3)).astype(np.float32)
    records = Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), 500))
    for query in SoleErrorQuery.example():
        mirrored = SoleErrorQuery(hypothesis=query.other, other=query.hypothesis)
        first, second = (evaluate("zero-one", hypothesis, records) for hypothesis in (query.hypothesis, query.other))
        alone, other = (asked.evaluate(records, np.arange(500)) for asked in (query, mirrored))
        np.testing.assert_array_equal(alone - other, first - second)
        assert 0.0 < alone.mean() < 1.0
        assert not np.any(alone * other)
        assert not np.any(alone * second)


def test_a_person_is_told_about_both_rules() -> None:
    names = Names.of_table(
        {
            "features": [{"column": name, "low": 0, "high": 9} for name in ("visits", "months", "age")],
            "label": {"column": "insured", "positive": ["yes"], "negative": ["no"]},
        }
    )
    (constant, two) = (query.asks(names, 0) for query in SoleErrorQuery.example())
    rule = 'rule that predicts "insured" from "visits", "months" and "age"'
    assert constant == (
        f'whether a {rule} is wrong about you where the rule that "insured" is "yes" for everybody is right: '
        "the value is 1 if so, else 0"
    )
    assert two == f"whether a {rule} is wrong about you where another {rule} is right: the value is 1 if so, else 0"
