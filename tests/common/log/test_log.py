"""Logs: hash chains, the journals and transcripts made of them, and the Merkle trees over their entries."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core import canonical
from common.core.errors import AuditFailed, BrokenLedger, CannotWrite
from common.crypto.identity import Identity
from common.log.entries import Extension
from common.log.ledger import CLOSED, HEADS, KEY, LEDGER, Chain, Journal, read_head
from common.log.merkle import RunningRoot, Tree, merkle_root, root_from_inclusion_proof, verify_consistency
from common.log.transcript import append, read
from common.log.witness import FileWitness, last_head, last_line
from tests.curator.given import full_disk, no_space
from tests.tiers import for_each


@pytest.fixture
def chain(tmp_path):
    chain = Chain(tmp_path / "ledger.jsonl")
    for number in range(5):
        chain.append("entry", {"number": number})
    return chain


def test_every_head_extends_every_older_one_and_no_newer_one(chain):
    for old, new in product(range(1, 6), repeat=2):
        for since in range(new + 1):
            assert chain.extension(since, new).extends(chain.head(old)) == (since in (0, old) and old <= new)
    assert chain.extension(0).extends(None)
    assert not chain.extension(1).extends(None)


def test_another_chain_or_a_changed_link_extends_nothing(chain, tmp_path):
    other = Chain(tmp_path / "other.jsonl")
    for number in (0, 1, 7, 3, 4):
        other.append("entry", {"number": number})
    assert [other.holds(chain.head(entries)) for entries in (2, 3, 4, 5)] == [True, False, False, False]
    assert not any(other.extension(2).extends(chain.head(entries)) for entries in (3, 4, 5))
    good = chain.extension(2)
    spoiled = [(2, (*good.links[:at], "0" * 64, *good.links[at + 1 :])) for at in range(3)]
    for since, links in (*spoiled, (2, good.links[:-1]), (1, good.links)):
        assert not Extension(head=good.head, since=since, links=links).extends(chain.head(2))


def test_an_entry_that_was_changed_taken_out_or_moved_is_noticed(chain, tmp_path):
    """Only what is cut off at the end is a chain: the head and the witnesses notice that."""
    lines = chain.path.read_bytes().splitlines(keepends=True)

    def other(place: int, **changed: Any) -> list[bytes]:
        line = canonical.encode(json.loads(lines[place]) | changed) + b"\n"
        return [*lines[:place], line, *lines[place + 1 :]]

    changes = {
        "another body": (other(2, body={"number": 9}), 2),
        "no JSON": ([*lines[:2], b"no JSON\n", *lines[3:]], 2),
        "another kind": (other(3, kind="other"), 3),
        "another hash": (other(4, hash=json.loads(lines[4])["hash"].upper()), 4),
        "more": (other(4, more=1), 4),
        "no first entry": (lines[1:], 0),
        "one taken out": ([*lines[:2], *lines[3:]], 2),
        "one moved": ([*lines[:2], lines[3], lines[2], lines[4]], 2),
        "another number": (other(4, index=9), 4),
        "nothing": ([b"\n", *lines], 0),
    }
    copy = tmp_path / "copy.jsonl"
    for changed, place in changes.values():
        copy.write_bytes(b"".join(changed))
        with pytest.raises(BrokenLedger, match=f"^entry {place} of "):
            Chain(copy)
    copy.write_bytes(b"".join(lines[:4]))
    cut = Chain(copy)
    assert cut.head() == chain.head(4)
    assert [number for number, _ in cut.numbered()] == [1, 2, 3, 4]
    copy.unlink()
    copy.mkdir()
    with pytest.raises(BrokenLedger, match="cannot be read"):
        Chain(copy)


def test_an_entry_whose_append_was_cut_off_or_failed_is_none(chain, monkeypatch):
    """A power cut leaves any part of a line; a full disk what it has taken: the next entry stands in its place."""
    whole, head = chain.path.read_bytes(), chain.head()
    chain.append("entry", {"number": 5, "why": "lines\r\nof\x85a text\u2028"})
    longer = chain.path.read_bytes()
    for length in range(len(whole), len(longer)):
        chain.path.write_bytes(longer[:length])
        again = Chain(chain.path)
        assert again.head() == head
        again.append("entry", {"number": 6})
        assert Chain(chain.path).head() == again.head()
        assert chain.path.read_bytes().startswith(whole)
    chain.path.write_bytes(longer)
    again = Chain(chain.path)
    assert again.head() == chain.head()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_space)
        with pytest.raises(OSError, match="no space left"):
            again.append("entry", {"number": 6})
    assert (again.head(), chain.path.read_bytes()) == (chain.head(), longer)
    with full_disk(len(longer) + 10), pytest.raises(OSError, match="File too large"):
        again.append("entry", {"number": 6})
    assert (again.head(), chain.path.read_bytes()) == (chain.head(), longer)
    chain.path.write_bytes(whole)
    for work in (again.check_writable, lambda: again.append("entry", {"number": 6})):
        with pytest.raises(OSError, match="the file was cut off"):
            work()
    assert chain.path.read_bytes() == whole
    chain.path.unlink()
    with pytest.raises(FileNotFoundError):
        again.append("entry", {"number": 6})
    assert not chain.path.exists()


ABOUT = {"about": "tests"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def opened(folder, *witnesses, **more):
    return nullcontext(Journal(folder, ABOUT, witnesses, **more))


def grow(log: Journal) -> None:
    log.append("charge", {})
    log.publish()


def assert_refused(why: str, folder: Path, *witnesses: FileWitness) -> None:
    with pytest.raises(BrokenLedger, match=why), opened(folder, *witnesses):
        pass


def test_a_head_is_the_last_whole_line_of_its_file_which_begins_anew(folder, monkeypatch):
    def stored() -> list[int]:
        return [json.loads(line)["message"]["entries"] for line in (folder / HEADS).read_bytes().splitlines()]

    with opened(folder) as log:
        grow(log)
        grow(log)
        assert stored() == [1, 2, 3]
        log.append("charge", {})
        with full_disk((folder / HEADS).stat().st_size + 10), pytest.raises(CannotWrite):
            log.publish()
        assert stored() == [1, 2, 3]
        (folder / HEADS).unlink()  # whoever deletes it changes nothing: this process knows the head
        grow(log)
        grow(log)
        newest = log.chain.head()
        assert stored() == [newest.entries - 1, newest.entries]
    with (folder / HEADS).open("ab") as file:
        file.write(b'{"cut": ')
    with opened(folder) as log:
        assert read_head(folder / HEADS, log.identity.public) == newest
        assert stored() == [newest.entries]  # a process begins it anew
        monkeypatch.setattr("common.log.ledger.MAX_HEADS", 1)
        grow(log)
        assert stored() == [newest.entries + 1]


def test_the_head_the_key_and_the_ledger_are_only_taken_together(folder, tmp_path):
    with opened(folder) as log:
        first = log.chain.head()
        assert log.chain.entries[0].body["about"] == "tests"
        assert len(log.chain.entries[0].body["number"]) == 32  # no two ledgers begin alike
    (folder / HEADS).unlink()  # so it looks after a crash behind the first entry: nothing was charged
    with opened(folder) as log:
        assert read_head(folder / HEADS, log.identity.public) == first == log.chain.head()
        grow(log)
    for file in (HEADS, KEY):
        assert (folder / file).stat().st_mode & 0o777 == 0o600
    for lost in ((HEADS,), (KEY,), (LEDGER,), (LEDGER, HEADS), (LEDGER, KEY)):
        copy = Path(shutil.copytree(folder, tmp_path / "+".join(lost)))
        for name in lost:
            (copy / name).unlink()
        assert_refused(".", copy)
    with opened(folder) as log:
        assert len(log.chain) == 2


def test_heads_go_to_every_witness_once(folder, tmp_path):
    witnesses = [FileWitness(tmp_path / "one"), FileWitness(tmp_path / "two")]
    with opened(folder, *witnesses) as log:
        known = log.chain.head()
        log.append("charge", {})
        assert {last_head(witness) for witness in witnesses} == {known}
        for _ in range(2):
            log.publish()
            assert {last_head(witness) for witness in witnesses} == {log.chain.head()}
    sent = [Path(witness.place).read_bytes() for witness in witnesses]
    with opened(folder, *witnesses) as log:
        assert [entry.kind for entry in log.chain.entries] == ["genesis", "witness", "witness", "charge"]
    assert [Path(witness.place).read_bytes() for witness in witnesses] == sent  # they know the head already


def test_of_the_heads_that_a_witness_keeps_only_the_last_one_is_read(folder, tmp_path):
    """Else n heads would take n^2: here a terabyte stands before it, a hole in the file."""
    witness = FileWitness(tmp_path / "heads")
    with opened(folder, witness) as log:
        written = (tmp_path / "heads").read_bytes()
        with (tmp_path / "heads").open("wb") as file:
            file.seek(1 << 40)
            file.write(b"\n" + written + b"cut off")
        assert last_head(witness) == log.chain.head()
        grow(log)
        assert last_head(witness) == log.chain.head()


def test_a_head_whose_writing_failed_is_synchronised_before_it_is_taken_for_kept(folder, tmp_path, monkeypatch):
    witness, synchronised = FileWitness(tmp_path / "heads"), list[int]()
    with opened(folder, witness) as log:
        extension = log.chain.extension(0)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", synchronised.append)
            witness.keep(log.identity.sign(extension.KIND, extension.wire()))
    assert len(synchronised) == 2  # the folder's name of the file, and the file


def test_an_entry_whose_writer_was_killed_is_synchronised_before_the_head_says_that_it_is_there(folder, monkeypatch):
    with opened(folder) as log:
        log.append("charge", {})  # and no head
    synchronised = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synchronised.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    with opened(folder) as log:
        assert len(log.chain) == 2
    assert [Path(path).name for path in synchronised] == [LEDGER, f"{HEADS}.part", folder.name]


@pytest.mark.parametrize("size", [0, 1, 100, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 200_000])
def test_the_last_whole_line_is_found_wherever_it_lies(size):
    for before in (b"", b"\n", b"x\n", b"x" * 70_000 + b"\n"):
        for after in (b"", b"cut", b"cut" * 50_000):
            content = before + b"a" * size + b"\n"
            assert last_line(io.BytesIO(content + after)) == (b"a" * size, len(content))
    assert last_line(io.BytesIO(b"x" * size)) == (None, 0)


def test_a_witness_is_named_or_reached_at_every_start_and_must_remember(folder, tmp_path):
    witness, reached = FileWitness(tmp_path / "heads"), []

    def reach(place):
        reached.append(place)
        return FileWitness(Path(place))

    with opened(folder, witness) as log:
        grow(log)
    assert_refused("give it with --witness", folder)
    with opened(folder, reach=reach) as log:
        grow(log)
        assert (reached, last_head(witness)) == ([witness.place], log.chain.head())
    with opened(folder, witness, reach=reach):
        assert len(reached) == 1
    shutil.copytree(folder, tmp_path / "older")
    with opened(folder, witness) as log:
        grow(log)
    assert_refused("put back or cut off", tmp_path / "older", witness)
    (tmp_path / "heads").unlink()
    assert_refused("has forgotten", folder, witness)


def test_a_witness_that_could_not_be_reached_at_first_has_forgotten_nothing(folder, tmp_path):
    place = tmp_path / "disk" / "heads"
    with pytest.raises(CannotWrite), opened(folder, FileWitness(place)):
        pass
    place.parent.mkdir()
    with opened(folder, FileWitness(place)) as log:
        assert last_head(FileWitness(place)) == log.chain.head()
        log.append("charge", {})
    place.unlink()
    assert_refused("has forgotten", folder, FileWitness(place))


def test_a_witness_that_attends_is_told_from_then_on_and_need_not_be_named(folder, tmp_path):
    witness = FileWitness(tmp_path / "heads")
    with opened(folder) as log:
        with pytest.raises(BrokenLedger, match="has forgotten"):
            log.add_witness(witness, opened=True)
        assert last_head(witness) is None
        log.add_witness(witness, opened=False)
        assert last_head(witness) == log.chain.head()
        shutil.copytree(folder, tmp_path / "older")
        grow(log)
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
        for name in (HEADS, LEDGER):
            (folder / name).rename(tmp_path / "away")
            assert log.lacking() == "is gone"
            (tmp_path / "away").rename(folder / name)
        assert (log.lacking(), log.chain.head()) == (None, head)
        os.truncate(folder / LEDGER, 5)
        assert log.lacking() == "cannot be written"
        with pytest.raises(CannotWrite, match=r"the file was cut off.*nothing was released"):
            log.append("charge", {})
        assert log.chain.head() == head


ME = Identity.create()


def test_a_transcript_reads_back_and_is_of_one_signer_in_one_order():
    entries = [append(None, "start", {"referee": ME.public}, ME)]
    for number in range(1, 4):
        entries.append(append(entries[-1], "next", {"number": number}, ME))
    lines = [entry.line().encode() + b"\n" for entry in entries]
    for key in (None, ME.public):
        found = [(each.index, each.kind, each.hash, each.body) for each in read(lines, key)]
        assert found == [(entry.index, entry.kind, entry.hash, entry.body) for entry in entries]
    stranger = append(entries[1], "next", {}, Identity.create()).line().encode() + b"\n"
    beyond = b'{"body":{"x":1e999},"hash":"%b","index":0,"kind":"k","previous":"%b","signature":"%b"}\n'
    for raw, why in (
        ([*lines[:2], stranger], r"line 3.*does not verify"),
        ([lines[0], lines[0]], "line 2 does not follow"),
        ([beyond % (b"0" * 64, b"0" * 64, b"0" * 128)], "transcript line 1"),
        *(([raw], "transcript line 1") for raw in (b"\n", b"x", b"{}\n", b"\xff\n", b"[]\n")),
        ([], "is empty"),
    ):
        with pytest.raises(AuditFailed, match=why):
            read(raw)


LEAVES = st.lists(st.binary(max_size=40), min_size=1, max_size=40, unique=True)


@given(LEAVES, st.data())
def test_a_path_leads_from_its_leaf_to_the_root_and_from_no_other(leaves, data):
    tree, count = Tree(leaves), len(leaves)
    index = data.draw(st.integers(0, count - 1))
    path = tree.path(index)
    assert (tree.root, len(tree), tree.find(leaves[index])) == (merkle_root(leaves), count, index)
    assert count == 1 or merkle_root(leaves[::-1]) != tree.root
    assert root_from_inclusion_proof(leaves[index], index, count, path) == tree.root
    assert root_from_inclusion_proof(leaves[index] + b"x", index, count, path) != tree.root
    for at, part in enumerate(path):
        changed = [*path[:at], ("0" if part[0] != "0" else "1") + part[1:], *path[at + 1 :]]
        assert root_from_inclusion_proof(leaves[index], index, count, changed) != tree.root
    for wrong in ([*path, "00" * 32], *((path[:-1], [*path[:-1], "no hash"]) if path else ())):
        assert root_from_inclusion_proof(leaves[index], index, count, wrong) is None


def test_no_node_passes_for_a_leaf():
    """Without first bytes of their own, the two hashes below a root would be one leaf of a tree with the same root."""
    tree = Tree([b"a", b"b"])
    below = b"".join(hashlib.sha256(b"\x00" + leaf).digest() for leaf in (b"a", b"b"))
    assert merkle_root([below]) != tree.root
    assert root_from_inclusion_proof(below, 0, 1, []) != tree.root


def test_there_is_no_path_from_where_no_leaf_is_and_for_what_is_no_beginning():
    """That none which is shown all the same leads anywhere is in the vectors of trees (tests/vectors)."""
    tree = Tree([b"a", b"b", b"c"])
    for find, places in ((tree.path, (-1, 3)), (tree.consistency, (-1, 0, 4))):
        for place in places:
            with pytest.raises(IndexError):
                find(place)


def test_what_is_not_there_is_not_found_not_even_across_two_hashes():
    tree = Tree([b"a", b"b"])
    assert tree.find(b"c") is None
    level = tree._levels[0]
    tree._levels[0] = level[16:] + level[:16]
    assert tree.find(b"b") is None
    assert merkle_root([]) == hashlib.sha256(b"").hexdigest()


@for_each("count", [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 33])
def test_a_list_is_shown_to_begin_with_each_of_its_beginnings_and_with_no_other_list(count):
    leaves = [bytes([number]) for number in range(count)]
    tree = Tree(leaves)
    for first in range(1, count + 1):
        older, path = merkle_root(leaves[:first]), tree.consistency(first)
        assert verify_consistency(older, first, tree.root, count, path)
        for at in range(first):  # another leaf at any place of the beginning
            other = merkle_root([*leaves[:at], b"other", *leaves[at + 1 : first]])
            assert not verify_consistency(other, first, tree.root, count, path)
            changed = Tree([*leaves[:at], b"other", *leaves[at + 1 :]])
            assert not verify_consistency(older, first, changed.root, count, changed.consistency(first))
        for at in range(len(path)):
            for wrong in ("00" * 32, "no hash", "00"):
                assert not verify_consistency(older, first, tree.root, count, [*path[:at], wrong, *path[at + 1 :]])
        assert not verify_consistency(older, first, tree.root, count, [*path, "00" * 32])
        if path:
            assert not verify_consistency(older, first, tree.root, count, path[:-1])


def test_the_path_for_a_beginning_is_that_of_the_rfc():
    """RFC 6962, section 2.1.3, has the paths of a tree of seven leaves for its beginnings of 3, 4 and 6 leaves."""
    leaves = [bytes([number]) for number in range(7)]
    tree = Tree(leaves)

    def node(start: int, stop: int) -> str:
        return merkle_root(leaves[start:stop])

    assert tree.consistency(3) == (node(2, 3), node(3, 4), node(0, 2), node(4, 7))
    assert tree.consistency(4) == (node(4, 7),)
    assert tree.consistency(6) == (node(4, 6), node(6, 7), node(0, 4))


def test_a_tree_has_the_root_of_every_beginning():
    for count in (0, 1, 2, 3, 7, 8, 9, 33, 100):
        leaves = [bytes([number]) for number in range(count)]
        tree, running = Tree(leaves), RunningRoot()
        for first in range(count + 1):
            assert tree.beginning(first) == merkle_root(leaves[:first]) == Tree(leaves[:first]).root == running.root
            if first < count:
                running.add(leaves[first])
        with pytest.raises(IndexError):
            tree.beginning(count + 1)
