"""Merkle trees: every leaf's path leads to the root, and nothing else does."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.log.merkle import RunningRoot, Tree, merkle_root, root_from_inclusion_proof, verify_consistency
from tests.tiers import for_each

LEAVES = st.lists(st.binary(max_size=40), min_size=1, max_size=40, unique=True)


@given(LEAVES, st.data())
def test_a_path_leads_from_its_leaf_to_the_root_and_from_no_other(leaves, data):
    tree = Tree(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = tree.path(index)
    assert tree.root == merkle_root(leaves)
    assert len(tree) == len(leaves)
    assert tree.find(leaves[index]) == index
    assert root_from_inclusion_proof(leaves[index], index, len(leaves), path) == tree.root
    assert root_from_inclusion_proof(leaves[index] + b"x", index, len(leaves), path) != tree.root
    for at, part in enumerate(path):
        other = ("0" if part[0] != "0" else "1") + part[1:]
        changed = [*path[:at], other, *path[at + 1 :]]
        assert root_from_inclusion_proof(leaves[index], index, len(leaves), changed) != tree.root
    assert root_from_inclusion_proof(leaves[index], index, len(leaves), [*path, "00" * 32]) is None
    if path:
        assert root_from_inclusion_proof(leaves[index], index, len(leaves), path[:-1]) is None
        assert root_from_inclusion_proof(leaves[index], index, len(leaves), [*path[:-1], "no hash"]) is None


def test_no_node_passes_for_a_leaf():
    """Without first bytes of their own, the two hashes below a root would be one leaf of a tree with the same root."""
    tree = Tree([b"a", b"b"])
    below = b"".join(hashlib.sha256(b"\x00" + leaf).digest() for leaf in (b"a", b"b"))
    assert merkle_root([below]) != tree.root
    assert root_from_inclusion_proof(below, 0, 1, []) != tree.root


@pytest.mark.parametrize("index", [-1, 3])
def test_there_is_no_path_from_where_no_leaf_is(index):
    tree = Tree([b"a", b"b", b"c"])
    assert root_from_inclusion_proof(b"a", index, 3, tree.path(0)) is None
    with pytest.raises(IndexError):
        tree.path(index)


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


@for_each("first", [-1, 0, 4])
def test_there_is_no_path_for_what_is_no_beginning(first):
    tree = Tree([b"a", b"b", b"c"])
    assert not verify_consistency(tree.root, first, tree.root, 3, ())
    with pytest.raises(IndexError):
        tree.consistency(first)


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
