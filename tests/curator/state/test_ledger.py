"""The ledger: what it has returned from is on disk, in order, once; what it says follows from its entries."""

from __future__ import annotations

import pytest

from common.core.errors import CannotWrite
from common.crypto.identity import Identity, Signed
from common.log.entries import Head
from common.log.ledger import Chain, Journal
from common.privacy.events import NoEvent, SubsampledSteps
from common.wire.messages import Perform
from curator.state.ledger import Holder, Ledger

HOLDER = Holder("run", "a" * 64, "b" * 64, "c" * 64)
STEPS = SubsampledSteps(count=3, tv_bound=0.1, ratio=1.0)
SEEN = Head(chain="1" * 64, entries=2, hash="2" * 64)
LEARN = {"kind": "learn"}
REFEREE = Identity.create()


def request(number: int, kind: str = "learn") -> Signed:
    asked = Perform(run="run", digest="d" * 64, operation_id=str(number), operation={"kind": kind}, seen=SEEN)
    return REFEREE.sign(asked.KIND, asked.wire())


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path, {"policy": "b" * 64})
    yield journal
    journal.close()


def test_what_was_written_is_there_after_a_restart(journal, tmp_path):
    first = Ledger(journal)
    assert first.holder is None
    first.open_run(HOLDER)
    first.charge(request(7), LEARN, STEPS)
    first.charge(request(3), LEARN, STEPS)
    first.finish("7", {"x": 0.1})
    journal.publish()
    journal.close()
    again = Ledger(reopened := Journal(tmp_path, {"policy": "b" * 64}))
    assert again.holder == HOLDER
    assert [(c.operation_id, c.result) for c in again] == [("7", {"x": 0.1}), ("3", None)]
    assert again.find("3").request == request(3)
    reopened.close()


def test_a_reopened_ledger_says_the_same(journal):
    ledger = Ledger(journal)
    ledger.open_run(HOLDER)
    for number, (kind, event) in enumerate([("learn", STEPS), ("reweigh", NoEvent()), ("learn", STEPS)]):
        ledger.charge(request(number, kind), {"kind": kind}, event)
        if number < 2:
            ledger.finish(str(number), {"released": number})
    again = Ledger(journal)
    assert [c.operation_id for c in again] == ["0", "1", "2"]
    assert again.events == ledger.events == [STEPS, STEPS]
    assert again.unfinished() == ledger.unfinished() == ledger.find("2")
    assert again.find("1").result == {"released": 1}
    assert again.find("7") is None


def test_an_empty_ledger_has_nothing_unfinished(journal):
    assert Ledger(journal).unfinished() is None


@pytest.mark.parametrize("deed", ["charge", "finish"])
def test_what_the_disk_does_not_take_is_not_in_the_ledger(journal, monkeypatch, deed):
    # Durably first: were it the other way round, memory would know what the disk may never learn.
    ledger = Ledger(journal)
    ledger.charge(request(0), LEARN, STEPS)

    def full(*arguments):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(Chain, "append", full)
    with pytest.raises(CannotWrite, match="no space left"):
        ledger.charge(request(1), LEARN, STEPS) if deed == "charge" else ledger.finish("0", {"released": 0})
    assert [c.operation_id for c in ledger] == ["0"]
    assert ledger.events == [STEPS]
    assert ledger.find("0").result is None
    assert ledger.unfinished() == ledger.find("0")
