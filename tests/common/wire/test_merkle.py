"""Merkle trees: every leaf's path leads to the root, and nothing else does."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.wire.merkle import Tree, climbed, merkle_root

LEAVES = st.lists(st.binary(max_size=40), min_size=1, max_size=40, unique=True)


@given(LEAVES, st.data())
def test_a_path_leads_from_its_leaf_to_the_root_and_from_no_other(leaves, data):
    tree = Tree(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = tree.path(index)
    assert tree.root == merkle_root(leaves)
    assert len(tree) == len(leaves)
    assert tree.find(leaves[index]) == index
    assert climbed(leaves[index], index, len(leaves), path) == tree.root
    assert climbed(leaves[index] + b"x", index, len(leaves), path) != tree.root
    for at, part in enumerate(path):
        other = ("0" if part[0] != "0" else "1") + part[1:]
        assert climbed(leaves[index], index, len(leaves), [*path[:at], other, *path[at + 1 :]]) != tree.root
    assert climbed(leaves[index], index, len(leaves), [*path, "00" * 32]) is None
    if path:
        assert climbed(leaves[index], index, len(leaves), path[:-1]) is None
        assert climbed(leaves[index], index, len(leaves), [*path[:-1], "no hash"]) is None


def test_no_node_passes_for_a_leaf():
    """Without first bytes of their own, the two hashes below a root would be one leaf of a tree with the same root."""
    tree = Tree([b"a", b"b"])
    below = b"".join(hashlib.sha256(b"\x00" + leaf).digest() for leaf in (b"a", b"b"))
    assert merkle_root([below]) != tree.root
    assert climbed(below, 0, 1, []) != tree.root


@pytest.mark.parametrize("index", [-1, 3])
def test_there_is_no_path_from_where_no_leaf_is(index):
    tree = Tree([b"a", b"b", b"c"])
    assert climbed(b"a", index, 3, tree.path(0)) is None
    with pytest.raises(IndexError):
        tree.path(index)


def test_what_is_not_there_is_not_found_not_even_across_two_hashes():
    tree = Tree([b"a", b"b"])
    assert tree.find(b"c") is None
    level = tree._levels[0]
    tree._levels[0] = level[16:] + level[:16]
    assert tree.find(b"b") is None
    assert merkle_root([]) == hashlib.sha256(b"").hexdigest()
