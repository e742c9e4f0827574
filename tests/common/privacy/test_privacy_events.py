"""Events are facts as frozen values: they can be stored and read back, and say nothing impossible."""

from __future__ import annotations

import math

import pytest

from common.core.errors import BadMessage
from common.privacy.events import (
    Event,
    Gaussian,
    NoEvent,
    NonPrivate,
    PrivateSelection,
    Release,
    SubsampledRelease,
    SubsampledSteps,
    parse_event,
)
from common.privacy.theorems.stopping import Poisson, geometric
from tests.tiers import for_each

EVENTS: list[Event] = [
    NoEvent(),
    NonPrivate(),
    SubsampledSteps(count=10, tv_bound=1e-6, ratio=0.4),
    SubsampledRelease(draws=3, tv_bound=0.1, epsilon=1.0, delta=1e-6),
    Release(epsilon=1.0),
    Gaussian(count=3, mu=0.5),
    PrivateSelection(mu=0.5, law=geometric(4.0)),
    PrivateSelection(mu=0.5, law=Poisson(rate=4.0, most=20)),
]


@for_each("event", EVENTS, ids=lambda event: event.kind)
def test_a_stored_event_reads_back_equal_and_hashes_equal(event: Event) -> None:
    again = parse_event(event.wire())
    assert again == event
    assert hash(again) == hash(event)


@for_each(
    "wire",
    [
        None,
        [],
        {},
        {"kind": ["none"]},
        {"kind": "gaussian"},
        {"kind": "gaussian", "mu": 0.0},
        {"kind": "gaussian", "mu": 1.0, "count": 0},
        {"kind": "selected", "mu": 0.1},
        {"kind": "selected", "mu": 0.1, "law": {"name": "always", "most": 3}},
        {"kind": "laplace"},
        {"kind": "none", "extra": 1},
        {"kind": "subsampled-steps", "count": 0, "tv_bound": 0.1, "ratio": 1.0},
        {"kind": "subsampled-steps", "count": 1, "tv_bound": 0.0, "ratio": 1.0},
        {"kind": "subsampled-steps", "count": 1, "tv_bound": 1.1, "ratio": 1.0},
        {"kind": "subsampled-steps", "count": 1, "tv_bound": 0.1, "ratio": math.nan},
        {"kind": "subsampled-steps", "count": 1, "tv_bound": 0.1, "ratio": math.inf},
        {"kind": "subsampled-release", "draws": 1, "tv_bound": 0.1, "epsilon": -1.0},
        {"kind": "subsampled-release", "draws": 1, "tv_bound": 0.1, "epsilon": 1.0, "delta": 1.0},
    ],
)
def test_what_is_not_an_event_is_refused(wire: object) -> None:
    with pytest.raises(BadMessage):
        parse_event(wire)
