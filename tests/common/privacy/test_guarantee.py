"""What a guarantee says, and that it never says more than what holds."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.privacy.guarantee import NOTHING, Guarantee, of_agent, of_curator, together
from tests.tiers import for_each


def test_a_curators_names_what_is_protected_in_what_neighbours_differ_and_what_is_covered():
    told = str(of_curator((1.0, 1e-6), "records"))
    assert told.startswith(
        "epsilon = 1, delta = 1e-06 for the whole record: one record of the curator's file is replaced"
    )
    assert told.endswith("all that the curator releases in this run together, not for other runs")


def test_labels_only_never_speaks_of_the_whole_record():
    told = str(of_curator((1.0, 1e-6), "labels"))
    assert "the LABEL ONLY, features are not protected and may be released as they are" in told
    assert "whole record" not in told


def test_an_agents_is_for_its_one_answer():
    assert str(of_agent((2.0, 0.0))).endswith("the one answer that the agent gives in this run, not for other runs")
    assert not of_agent((math.inf, 1.0)).private


def test_no_privacy_and_no_release_are_two_things():
    said = {str(NOTHING), str(of_curator((None, None), "records")), str(of_agent((math.inf, 1.0)))}
    assert len(said) == 3
    assert "no guarantee" not in str(NOTHING)
    assert of_curator((math.inf, 1.0), "records").pair == (math.inf, 1.0)


@for_each(
    "wrong",
    [
        {"epsilon": 1.0},
        {"epsilon": 1.0, "delta": 0.0, "protects": "labels"},
        {"epsilon": 1.0, "delta": 0.0, "neighbours": "one label"},
        {"epsilon": -1.0, "delta": 0.0},
        {"epsilon": 1.0, "delta": 2.0},
    ],
)
def test_half_a_guarantee_is_refused(wrong):
    with pytest.raises(BadMessage):
        Guarantee.parse(wrong)


def test_a_row_that_changes_sides_costs_both_and_no_less():
    """The worst mechanisms of both sides at once: exactly the sum of the epsilons, at delta 0."""
    curator, agent = of_curator((0.7, 0.0), "records"), of_agent((1.1, 0.0))
    both = together(curator, agent)
    assert both.epsilon is not None
    rates = [math.exp(e) / (1 + math.exp(e)) for e in (0.7, 1.1)]
    here = np.array([a * b for a, b in product(*((p, 1 - p) for p in rates))])
    there = np.array([a * b for a, b in product(*((1 - p, p) for p in rates))])
    assert both.epsilon >= np.log(here / there).max() > both.epsilon - 1e-9
    assert "all that the curator releases and all agents answer" in str(both)


@for_each(
    "sides",
    [
        (of_curator((1.0, 0.1), "labels"), of_agent((1.0, 0.0))),
        (of_curator((None, None), "records"), of_agent((1.0, 0.0))),
        (of_curator((1.0, 0.1), "records"), of_agent((math.inf, 1.0))),
    ],
)
def test_nothing_holds_for_a_row_if_one_side_does_not_protect_it(sides):
    assert not together(*sides).private
    assert str(together(*sides)).startswith("no guarantee")


def test_deltas_add_up():
    both = together(of_curator((1.0, 1e-6), "records"), of_agent((1.0, 1e-7)))
    assert both.delta == pytest.approx(1.1e-6)
    assert both.delta >= 1.1e-6
