"""A hash chain: a head says all that came before it, and links alone show that one head extends another."""

import shutil
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from common.core.errors import BrokenLedger, CannotWrite
from common.log.entries import Extension
from common.log.ledger import CLOSED, HEAD, KEY, LEDGER, Chain, Journal, read_head
from common.log.witness import FileWitness, last_head


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


ABOUT = {"about": "tests"}


class Recording(FileWitness):
    """A witness that remembers what it is sent: from which number of entries to which."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sent: list[tuple[int, int]] = []

    def keep(self, signed):
        extension = Extension.parse(signed.message)
        self.sent.append((extension.since, extension.head.entries))
        super().keep(signed)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def opened(folder, *witnesses, **more):
    return closing(Journal(folder, ABOUT, witnesses, **more))


def test_the_head_the_key_and_the_ledger_are_only_taken_together(folder, tmp_path):
    with opened(folder) as log:
        first = log.chain.head()
        assert log.chain.entries[0].body["about"] == "tests"
        assert len(log.chain.entries[0].body["number"]) == 32  # no two ledgers begin alike
    (folder / HEAD).unlink()  # so it looks after a crash behind the first entry: nothing was charged
    with opened(folder) as log:
        assert read_head(folder / HEAD, log.identity.public) == first == log.chain.head()
        log.append("charge", {})
        log.publish()
    for file in (HEAD, KEY):
        assert (folder / file).stat().st_mode & 0o777 == 0o600
    for lost in ((HEAD,), (KEY,), (LEDGER,), (LEDGER, HEAD), (LEDGER, KEY)):
        shutil.copytree(folder, tmp_path / "copy")
        for name in lost:
            (tmp_path / "copy" / name).unlink()
        with pytest.raises(BrokenLedger), opened(tmp_path / "copy"):
            pass
        shutil.rmtree(tmp_path / "copy")
    with opened(folder) as log:
        assert len(log.chain) == 2


def test_entries_that_were_cut_off_or_exchanged_are_noticed_by_the_head(folder, tmp_path):
    with opened(folder) as log:
        shutil.copy(folder / LEDGER, tmp_path / "older")
        log.append("charge", {})
        log.publish()
    shutil.copy(tmp_path / "older", folder / LEDGER)
    with pytest.raises(BrokenLedger, match="cut off"), opened(folder):
        pass
    (tmp_path / "other").mkdir()
    with opened(tmp_path / "other"):
        shutil.copy(tmp_path / "other" / LEDGER, folder / LEDGER)
    with pytest.raises(BrokenLedger, match="another ledger"), opened(folder):
        pass


def test_heads_go_to_every_witness_once_with_the_links_from_the_last_one(folder, tmp_path):
    witnesses = [Recording(tmp_path / "one"), Recording(tmp_path / "two")]
    with opened(folder, *witnesses) as log:
        known = log.chain.head()
        assert {last_head(witness) for witness in witnesses} == {known}
        log.append("charge", {})
        assert {last_head(witness) for witness in witnesses} == {known}
        for _ in range(2):
            log.publish()
            assert {last_head(witness) for witness in witnesses} == {log.chain.head()}
    for witness in witnesses:
        before, after = zip(*witness.sent, strict=True)
        assert before == (0, *after[:-1])  # each goes on where the last one ended
        assert witness.sent[-1] == (known.entries, known.entries + 1)
    sent = [list(witness.sent) for witness in witnesses]
    with opened(folder, *witnesses) as log:
        assert [entry.kind for entry in log.chain.entries] == ["genesis", "witness", "witness", "charge"]
    assert [witness.sent for witness in witnesses] == sent  # they know the head already


def test_a_witness_is_named_or_reached_at_every_start_and_must_remember(folder, tmp_path):
    witness, reached = FileWitness(tmp_path / "heads"), []

    def reach(place):
        reached.append(place)
        return FileWitness(Path(place))

    with opened(folder, witness) as log:
        log.append("charge", {})
        log.publish()
    with pytest.raises(BrokenLedger, match="give it with --witness"), opened(folder):
        pass
    with opened(folder, reach=reach) as log:
        log.append("charge", {})
        log.publish()
        assert (reached, last_head(witness)) == ([witness.place], log.chain.head())
    with opened(folder, witness, reach=reach):
        assert len(reached) == 1
    shutil.copytree(folder, tmp_path / "older")
    with opened(folder, witness) as log:
        log.append("charge", {})
        log.publish()
    with pytest.raises(BrokenLedger, match="put back or cut off"), opened(tmp_path / "older", witness):
        pass
    (tmp_path / "heads").unlink()
    with pytest.raises(BrokenLedger, match="has forgotten"), opened(folder, witness):
        pass


def test_a_witness_that_could_not_be_reached_at_first_has_forgotten_nothing(folder, tmp_path):
    place = tmp_path / "disk" / "heads"
    with pytest.raises(CannotWrite), opened(folder, FileWitness(place)):
        pass
    place.parent.mkdir()
    with opened(folder, FileWitness(place)) as log:
        assert last_head(FileWitness(place)) == log.chain.head()
        log.append("charge", {})
    place.unlink()
    with pytest.raises(BrokenLedger, match="has forgotten"), opened(folder, FileWitness(place)):
        pass


def test_a_witness_that_attends_is_told_from_then_on_and_need_not_be_named(folder, tmp_path):
    witness = FileWitness(tmp_path / "heads")
    with opened(folder) as log:
        with pytest.raises(BrokenLedger, match="has forgotten"):
            log.add_witness(witness, opened=True)
        assert last_head(witness) is None
        log.add_witness(witness, opened=False)
        assert last_head(witness) == log.chain.head()
        shutil.copytree(folder, tmp_path / "older")
        log.append("charge", {})
        log.publish()
        assert last_head(witness) == log.chain.head()
    with opened(folder) as log:
        log.add_witness(witness, opened=True)
    with opened(tmp_path / "older") as log, pytest.raises(BrokenLedger, match="put back or cut off"):
        log.add_witness(witness, opened=False)


def test_a_closed_ledger_says_why_and_tells_nobody(folder, tmp_path):
    witness, other = FileWitness(tmp_path / "heads"), FileWitness(tmp_path / "other")
    with opened(folder, witness) as log:
        known = last_head(witness)
        assert log.closed is None
        for why in ("the first reason", "a later one"):
            log.append(CLOSED, {"why": why})
            assert log.closed == "the first reason"
        log.publish()
        log.add_witness(other, opened=True)
        assert (last_head(witness), last_head(other)) == (known, None)
        (tmp_path / "heads").unlink()
        (tmp_path / "heads").mkdir()
        assert log.witnesses_lacking() is None
    with opened(folder) as log:  # nothing is charged any more: its witness need not be there
        assert log.closed == "the first reason"


def test_what_a_ledger_lacks_is_said_without_a_change(folder, tmp_path):
    witness = FileWitness(tmp_path / "heads")
    with opened(folder, witness, FileWitness(tmp_path / "more")) as log:
        head = log.chain.head()
        assert (log.lacking(), log.witnesses_lacking()) == (None, None)
        (tmp_path / "heads").unlink()
        (tmp_path / "heads").mkdir()
        assert log.witnesses_lacking() == "1 of 2 cannot be written"
        for name in (HEAD, LEDGER):
            (folder / name).rename(tmp_path / "away")
            assert log.lacking() == "is gone"
            (tmp_path / "away").rename(folder / name)
        assert (log.lacking(), log.chain.head()) == (None, head)
        with log.chain._engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE entries")
        assert log.lacking() == "cannot be written"
        with pytest.raises(CannotWrite, match=r"no such table.*nothing was released"):
            log.append("charge", {})
        assert log.chain.head() == head
