"""The meter: what each event pays for, to the last digit, and that what is refused takes nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from common.privacy.events import (
    Event,
    Gaussian,
    NoEvent,
    NonPrivate,
    PrivateSelection,
    Release,
    SubsampledRelease,
    SubsampledSteps,
)
from curator.learners.base import LEARNERS
from curator.metering.meter import Meter, Overdrawn
from tests.tiers import for_each

LAW = LEARNERS["chosen"].example()[0].event(1.0).law  # type: ignore[attr-defined]
STEPS = SubsampledSteps(count=10, tv_bound=0.01, ratio=2.0)
DRAWN = SubsampledRelease(draws=100, tv_bound=0.01, epsilon=1.0, delta=1e-6)
EVENTS: dict[str, Event] = {
    "none": NoEvent(),
    "steps": STEPS,
    "draws": DRAWN,
    "draws of everybody": SubsampledRelease(draws=100, tv_bound=1.0, epsilon=1.0, delta=1e-6),
    "release": Release(epsilon=1.0, delta=1e-6),
    "gaussian": Gaussian(count=4, mu=0.5),
    "selection": PrivateSelection(mu=1.0, law=LAW),
}
PURE, GAUSS = Release(epsilon=1e-3), Gaussian(mu=1e-3)
ASKS: dict[str, Any] = {
    "everybody": lambda meter: meter.everybody(),
    "a draw": lambda meter: meter.draws(1),
    "a step": lambda meter: meter.steps(1, Fraction(1)),
    "a selection": lambda meter: meter.selection(),
    "a pure mechanism": lambda meter: meter.mechanism(PURE),
    "a gaussian mechanism": lambda meter: meter.mechanism(GAUSS),
}
PAYS = {
    "none": set(),
    "steps": {"a step"},
    "draws": {"a draw", "a pure mechanism"},
    "draws of everybody": {"a draw", "everybody", "a pure mechanism"},
    "release": {"everybody", "a pure mechanism"},
    "gaussian": {"everybody", "a gaussian mechanism"},
    "selection": {"everybody", "a selection"},
}


@for_each("event", EVENTS)
@for_each("ask", ASKS)
def test_an_event_pays_for_its_own_kind_and_for_nothing_else(event: str, ask: str) -> None:
    meter = Meter(EVENTS[event])
    if ask in PAYS[event]:
        ASKS[ask](meter)
        assert not meter.spoilt
    else:
        with pytest.raises(Overdrawn, match="does not pay for"):
            ASKS[ask](meter)
        assert meter.spoilt


def test_what_promises_nothing_pays_for_everything() -> None:
    meter = Meter(NonPrivate())
    for ask in ("everybody", "a draw", "a step", "a pure mechanism", "a gaussian mechanism"):
        for _ in range(3):
            ASKS[ask](meter)
    assert not meter.spoilt


def test_draws_and_steps_run_out_and_a_refused_ask_takes_nothing() -> None:
    meter = Meter(DRAWN)
    meter.draws(60)
    for much in (41, 100, 0, -5):
        with pytest.raises(Overdrawn, match="40 are left"):
            meter.draws(much)
    meter.draws(40)
    with pytest.raises(Overdrawn, match="0 are left"):
        meter.draws(1)
    stepping = Meter(STEPS)
    stepping.steps(10, Fraction(2))
    with pytest.raises(Overdrawn, match="0 are left"):
        stepping.steps(1, Fraction(2))


def test_a_ratio_beyond_the_declared_one_is_refused_by_the_last_bit() -> None:
    Meter(STEPS).steps(1, Fraction(2))
    with pytest.raises(Overdrawn, match="standard deviations"):
        Meter(STEPS).steps(1, Fraction(2) + Fraction(1, 2**200))


def test_epsilons_and_deltas_add_up_exactly() -> None:
    meter = Meter(Release(epsilon=0.3, delta=1e-6))
    for _ in range(2):
        meter.mechanism(Release(epsilon=0.1, delta=5e-7))
    with pytest.raises(Overdrawn, match=r"epsilon 0\.1"):
        meter.mechanism(Release(epsilon=0.1))  # as doubles, 0.3 - 0.1 - 0.1 is below 0.1: three of these cost more
    with pytest.raises(Overdrawn, match="delta"):
        meter.mechanism(Release(epsilon=0.01, delta=1e-12))
    meter.mechanism(Release(epsilon=0.0999))


def test_squares_of_mu_add_up_exactly() -> None:
    meter = Meter(Gaussian(count=4, mu=0.5))
    meter.mechanism(Gaussian(count=3, mu=0.5))
    with pytest.raises(Overdrawn):
        meter.mechanism(Gaussian(mu=0.5000000001))
    meter.mechanism(Gaussian(mu=0.5))
    with pytest.raises(Overdrawn):
        meter.mechanism(Gaussian(mu=1e-9))


def test_there_is_one_selection() -> None:
    meter = Meter(EVENTS["selection"])
    meter.selection()
    with pytest.raises(Overdrawn):
        meter.selection()
