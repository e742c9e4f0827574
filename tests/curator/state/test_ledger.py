"""The ledger: what it has returned from is on disk, in order, once."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError

from common.privacy.events import NoEvent
from common.service.database import sqlite_url
from curator.state.ledger import Charge, Holder, Ledger

HOLDER = Holder("run", "a" * 64, "b" * 64, "c" * 64)


def charge(operation_id: str) -> Charge:
    return Charge(operation_id, "d" * 64, {"kind": "learn", "round": 1}, NoEvent(), None)


def test_what_was_written_is_there_after_a_restart(tmp_path):
    url = sqlite_url(tmp_path / "deep" / "ledger.sqlite")
    first = Ledger(url)
    assert first.holder() is None
    first.open_run(HOLDER)
    first.charge("run", charge("7"))
    first.charge("run", charge("3"))
    first.finish("run", "7", {"x": 0.1})
    first.close()
    again = Ledger(url)
    assert again.holder() == HOLDER
    assert [(c.operation_id, c.result) for c in again.charges()] == [("7", {"x": 0.1}), ("3", None)]
    assert again.charges()[1] == charge("3")
    again.close()


def test_an_id_is_charged_once_and_a_result_is_stored_once(tmp_path):
    ledger = Ledger(sqlite_url(tmp_path / "ledger.sqlite"))
    ledger.open_run(HOLDER)
    ledger.charge("run", charge("7"))
    with pytest.raises(IntegrityError):
        ledger.charge("run", charge("7"))
    ledger.finish("run", "7", {"x": 1})
    ledger.finish("run", "7", {"x": 2})
    assert [c.result for c in ledger.charges()] == [{"x": 1}]
    with pytest.raises(IntegrityError):
        ledger.charge("another", charge("8"))
    ledger.close()
