"""A hash chain: a head says all that came before it, and links alone show that one head extends another."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import product

import pytest

from common.core.errors import BrokenLedger
from common.log.chain import Chain
from common.wire.primitives.chain import Extension


@pytest.fixture
def chain(tmp_path):
    chain = Chain(tmp_path / "ledger.sqlite")
    for number in range(5):
        chain.append("entry", {"number": number})
    yield chain
    chain.close()


def test_every_head_extends_every_older_one_and_no_newer_one(chain):
    for old, new in product(range(1, 6), repeat=2):
        head = chain.head(old)
        for since in range(new + 1):
            extension = chain.extension(since, new)
            assert extension.extends(head) == (since in (0, old) and old <= new)
    assert chain.extension(0).extends(None)
    assert not chain.extension(1).extends(None)


def test_another_chain_or_a_changed_link_extends_nothing(chain, tmp_path):
    other = Chain(tmp_path / "other.sqlite")
    for number in (0, 1, 7, 3, 4):
        other.append("entry", {"number": number})
    assert other.holds(chain.head(2))
    for entries in (3, 4, 5):
        assert not other.holds(chain.head(entries))
        assert not other.extension(2).extends(chain.head(entries))
    good = chain.extension(2)
    for place in range(3):
        links = list(good.links)
        links[place] = "0" * 64
        assert not Extension(head=good.head, since=2, links=tuple(links)).extends(chain.head(2))
    assert not Extension(head=good.head, since=2, links=good.links[:-1]).extends(chain.head(2))
    assert not Extension(head=good.head, since=1, links=good.links).extends(chain.head(2))
    other.close()


def test_all_that_is_committed_is_in_the_file_itself(chain, tmp_path):
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(chain.path.read_bytes())
    assert sorted(path.name for path in tmp_path.glob("ledger.sqlite*")) == ["ledger.sqlite"]
    copied = Chain(copy)
    assert (len(copied), copied.head()) == (5, chain.head())
    copied.close()


def test_an_entry_that_was_changed_taken_out_or_moved_is_noticed(chain, tmp_path):
    """Only what is cut off at the end is a chain: the head and the witnesses notice that."""
    changes = {
        """UPDATE entries SET body = '{"number": 9}' WHERE position = 2""": 2,
        "UPDATE entries SET body = 'no JSON' WHERE position = 2": 2,
        "UPDATE entries SET kind = 'other' WHERE position = 3": 3,
        "UPDATE entries SET hash = upper(hash) WHERE position = 4": 4,
        "DELETE FROM entries WHERE position = 0": 0,
        "DELETE FROM entries WHERE position = 2": 2,
        "UPDATE entries SET position = 9 WHERE position = 4": 4,
        "DELETE FROM entries WHERE position = 4": None,
    }
    for change, place in changes.items():
        copy = tmp_path / "copy.sqlite"
        copy.write_bytes(chain.path.read_bytes())
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute(change)
        if place is None:
            with closing(Chain(copy)) as cut:
                assert cut.head() == chain.head(4)
                assert [number for number, _ in cut.numbered()] == [1, 2, 3, 4]
            continue
        with pytest.raises(BrokenLedger, match=f"^entry {place} of "):
            Chain(copy)
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("DROP TABLE entries")
    with pytest.raises(BrokenLedger, match="cannot be read"):
        Chain(copy)
