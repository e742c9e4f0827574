"""Signatures bind kind, content and key; the chain binds every entry to all before it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import AuditFailed, BadInput, Forged
from common.crypto.identity import Identity, Signed, verify
from common.log.merkle import merkle_root
from common.log.transcript import append, read
from tests.tiers import for_each

ME = Identity.create()


def test_a_key_is_kept_and_private(tmp_path):
    path = tmp_path / "deep" / "identity.key"
    first = Identity.load_or_create(path)
    assert Identity.load_or_create(path).public == first.public
    assert path.stat().st_mode & 0o077 == 0
    assert first.public not in repr(first)
    path.write_bytes(b"short")
    with pytest.raises(BadInput, match="cut off or damaged"):
        Identity.load_or_create(path)


def test_a_signature_is_of_one_kind_one_content_and_one_key():
    signed = ME.sign("kind", {"a": 1})
    assert verify(signed, "kind", ME.public) == {"a": 1}
    for broken in (
        {"kind": "other"},
        {"message": {"a": 2}},
        {"message": {"a": 1, "b": None}},
        {"key": Identity.create().public},
        {"signature": "0" * 128},
        {"key": "f" * 64},
    ):
        with pytest.raises(Forged):
            verify(Signed.parse({**signed.wire(), **broken}), "kind")
    with pytest.raises(Forged, match="signed by"):
        verify(signed, "kind", Identity.create().public)
    relabelled = Signed.parse({**ME.sign("a", {}).wire(), "kind": "b"})
    with pytest.raises(Forged):
        verify(relabelled, "b")


def chain(count: int = 4):
    entries = [append(None, "start", {"referee": ME.public}, ME)]
    for number in range(1, count):
        entries.append(append(entries[-1], "next", {"number": number}, ME))
    return entries


def lines(*entries):
    return [entry.line().encode() + b"\n" for entry in entries]


def test_a_chain_reads_back():
    entries = chain()
    said = [(entry.index, entry.kind, entry.hash, entry.body) for entry in entries]
    for key in (None, ME.public):
        assert [(found.index, found.kind, found.hash, found.body) for found in read(lines(*entries), key)] == said


@for_each("raw", [b"", b"\n", b"x", b"{}\n", b"\xff\n", b"[]\n"])
def test_what_is_no_transcript(raw):
    with pytest.raises(AuditFailed):
        read(raw.splitlines(keepends=True))


def test_an_entry_of_another_signer_breaks_the_chain():
    entries = chain(2)
    stranger = append(entries[-1], "next", {}, Identity.create())
    with pytest.raises(AuditFailed, match=r"line 3.*does not verify"):
        read(lines(*entries, stranger))
    with pytest.raises(AuditFailed, match="line 2 does not follow"):
        read(lines(entries[0], entries[0]))


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.binary(max_size=5), min_size=1, max_size=9), st.data())
def test_a_root_is_of_these_leaves_in_this_order(leaves, data):
    at = data.draw(st.integers(0, len(leaves) - 1))
    root = merkle_root(leaves)
    assert root == merkle_root(list(leaves))
    assert root != merkle_root([*leaves[:at], leaves[at] + b"x", *leaves[at + 1 :]])
    assert root != merkle_root(leaves[:at] + leaves[at + 1 :])
    assert root != merkle_root([*leaves, leaves[-1]])
    if leaves != leaves[::-1]:
        assert root != merkle_root(leaves[::-1])


def test_a_number_beyond_all_numbers_breaks_a_transcript_as_any_change_does():
    line = b'{"body":{"x":1e999},"hash":"%b","index":0,"kind":"k","previous":"%b","signature":"%b"}\n'
    with pytest.raises(AuditFailed, match="transcript line 1"):
        read([line % (b"0" * 64, b"0" * 64, b"0" * 128)])
