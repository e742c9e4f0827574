"""The lease of the driver, by the clock of the database, when that clock jumps."""

from __future__ import annotations

from contextlib import closing

from referee.state.store import FAR, Store
from tests.clocks import Clock


def test_nobody_waits_for_a_lease_of_a_clock_that_was_put_back_by_a_day(tmp_path, monkeypatch):
    clock = Clock(1_000_000.0)
    monkeypatch.setattr("time.time", clock)
    url = f"sqlite:///{tmp_path}/shared.sqlite"
    with closing(Store(url)) as first, closing(Store(url)) as second:
        assert first.take_lease("first", 10.0)
        clock.now -= 10.0 * (FAR - 2)  # one that is a little behind is waited for
        assert not second.take_lease("second", 10.0)
        clock.now -= 86_400.0
        assert second.take_lease("second", 10.0)
        assert (second.fence, second.lease_left()) == (2, 10.0)
        first.renew_lease(10.0)  # it learns that it was replaced
        assert first.fence is None


def test_a_clock_that_jumps_ahead_lets_another_drive_and_the_first_write_nothing(tmp_path, monkeypatch):
    clock = Clock(1_000_000.0)
    monkeypatch.setattr("time.time", clock)
    url = f"sqlite:///{tmp_path}/shared.sqlite"
    with closing(Store(url)) as first, closing(Store(url)) as second:
        assert first.take_lease("first", 10.0)
        clock.now += 86_400.0
        assert second.take_lease("second", 10.0)
        first.renew_lease(10.0)
        assert (first.fence, second.fence) == (None, 2)


def test_a_driver_whose_clock_was_put_back_drives_on(tmp_path, monkeypatch):
    clock = Clock(1_000_000.0)
    monkeypatch.setattr("time.time", clock)
    with closing(Store(f"sqlite:///{tmp_path}/shared.sqlite")) as only:
        assert only.take_lease("only", 10.0)
        clock.now -= 86_400.0
        assert only.take_lease("only", 10.0)
        only.renew_lease(10.0)
        assert (only.fence, only.lease_left()) == (1, 10.0)
