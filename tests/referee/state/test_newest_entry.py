"""The newest entry of a transcript, which the driver remembers: never longer than nobody else can have appended one."""

from __future__ import annotations

from contextlib import closing

import pytest

from common.core.errors import Superseded
from common.log.transcript import append
from referee.state.store import Store


def test_a_driver_that_comes_back_reads_what_another_has_appended(bench):
    bench.open()
    ours = bench.referee.store
    url = ours._engine.url.render_as_string(hide_password=False)
    with closing(Store(url)) as theirs:
        before = ours.last_entry("run")
        ours.release_lease()
        assert theirs.take_lease("another", 60.0)
        entry = append(theirs.last_entry("run"), "answers", {"root": "theirs"}, bench.referee.identity)
        theirs.add_entry("run", entry)
        assert theirs.last_entry("run") == entry
        theirs.release_lease()
        assert ours.take_lease("first", 60.0)
        assert ours.last_entry("run") == entry != before


def test_what_was_not_stored_is_not_remembered(bench):
    bench.open()
    store = bench.referee.store
    before = store.last_entry("run")
    entry = append(before, "answers", {}, bench.referee.identity)
    fence, store.fence = store.fence, 10**6
    with pytest.raises(Superseded):
        store.add_entry("run", entry)
    store.fence = fence
    assert store.last_entry("run") == before
    with pytest.raises(ValueError, match="no"):
        _fail(store, entry)
    assert store.last_entry("run") == before


def _fail(store: Store, entry: object) -> None:
    """Append an entry in a transaction that does not end well."""
    with store._driving() as connection:
        store._insert_entry(connection, "run", entry, None)
        raise ValueError("no")
