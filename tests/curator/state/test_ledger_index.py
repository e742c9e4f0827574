"""The ledger in memory: what follows from the charges."""

import pytest

from common.privacy.events import NoEvent, SubsampledSteps
from common.service.database import sqlite_url
from curator.state.ledger import Charge, Holder, Ledger
from curator.state.ledger_index import LedgerIndex

STEPS = SubsampledSteps(count=3, tv_bound=0.1, ratio=1.0)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(sqlite_url(tmp_path / "ledger.sqlite"))
    ledger.open_run(Holder("run", "0" * 64, "1" * 64, "2" * 64))
    yield ledger
    ledger.close()


def charge(number, kind="learn", event=STEPS, **more):
    return Charge(str(number), f"{number:064d}", {"kind": kind, **more}, event, None)


def test_a_reopened_book_says_the_same(ledger):
    index = LedgerIndex(ledger)
    for number, (kind, event) in enumerate([("learn", STEPS), ("reweigh", NoEvent()), ("learn", STEPS)]):
        index.charge("run", charge(number, kind, event))
        if number < 2:
            index.finish("run", str(number), {"released": number})
    again = LedgerIndex(ledger)
    assert [c.operation_id for c in again] == ["0", "1", "2"]
    assert again.events == index.events == [STEPS, STEPS]
    assert again.unfinished() == index.unfinished() == index.find("2")
    assert again.find("1").result == {"released": 1}
    assert again.find("7") is None


def test_an_empty_book_has_nothing_unfinished(ledger):
    assert LedgerIndex(ledger).unfinished() is None


@pytest.mark.parametrize("deed", ["charge", "finish"])
def test_what_the_disk_does_not_take_is_not_in_the_book(ledger, monkeypatch, deed):
    # Durably first: were it the other way round, memory would know what the disk may never learn.
    index = LedgerIndex(ledger)
    index.charge("run", charge(0))

    def full(*arguments):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(Ledger, deed, full)
    with pytest.raises(OSError, match="no space left"):
        index.charge("run", charge(1)) if deed == "charge" else index.finish("run", "0", {"released": 0})
    assert [c.operation_id for c in index] == ["0"]
    assert index.events == [STEPS]
    assert index.find("0").result is None
    assert index.unfinished() == index.find("0")
