"""Hybrid public-key encryption against the RFC's vectors, and against another implementation."""

from __future__ import annotations

import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from common.core.errors import BadMessage
from common.crypto.hpke import KEY_BYTES, TAG_BYTES, RecipientKey, seal
from tests.tiers import for_each

# RFC 9180, appendix A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode.
INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
MATERIAL = bytes.fromhex("6db9df30aa07dd42ee5e8181afdb977e538f5e1fec8a06223f33f7013e525037")
PRIVATE = bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
PUBLIC = bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d")
EPHEMERAL = bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
ENCAPSULATED = bytes.fromhex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
EXPORTED = {
    b"": "3853fe2b4035195a573ffc53856e77058e15d9ea064de3e59f4961d0095250ee",
    b"\x00": "2e8f0b54673c7029649d4eb9d5e33bf1872cf76d623ff164ac185da9e88c21a5",
    b"TestContext": "e9e43065102c3836401bed8c3c3c75ae46be1639869391d62c61f1ec7af54931",
}
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def test_the_vectors_of_the_rfc():
    key = RecipientKey.derived(MATERIAL)
    assert key.public == RecipientKey.of(PRIVATE).public == PUBLIC
    sealed = seal(PUBLIC, b"text", INFO, ephemeral=EPHEMERAL)
    assert sealed.encapsulated == ENCAPSULATED
    plain, shared = key.open(sealed.encapsulated, sealed.ciphertext, INFO)
    assert plain == b"text"
    for label, secret in EXPORTED.items():
        assert sealed.shared.export(label, 32).hex() == shared.export(label, 32).hex() == secret


def test_the_other_implementation_opens_the_text_of_the_rfc():
    """Sequence number 0, with associated data, which only its private interface takes."""
    text = bytes.fromhex("f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a")
    key = X25519PrivateKey.from_private_bytes(PRIVATE)
    plain = openssl.hpke._decrypt_with_aad(SUITE, ENCAPSULATED + text, key, INFO, b"Count-0")
    assert plain == b"Beauty is truth, truth beauty"


def test_another_implementation_opens_what_is_sealed_and_seals_what_is_opened():
    sealed = seal(PUBLIC, b"there", INFO)
    private = X25519PrivateKey.from_private_bytes(PRIVATE)
    assert SUITE.decrypt(sealed.encapsulated + sealed.ciphertext, private, INFO) == b"there"
    theirs = SUITE.encrypt(b"back", X25519PublicKey.from_public_bytes(PUBLIC), INFO)
    assert RecipientKey.of(PRIVATE).open(theirs[:KEY_BYTES], theirs[KEY_BYTES:], INFO)[0] == b"back"


def test_what_is_sealed_twice_has_nothing_in_common():
    first, second = seal(PUBLIC, b"same", INFO), seal(PUBLIC, b"same", INFO)
    assert first.encapsulated != second.encapsulated
    assert first.ciphertext != second.ciphertext
    assert first.shared.export(b"", 16) != second.shared.export(b"", 16)
    assert len(first.ciphertext) == len(b"same") + TAG_BYTES


@for_each("change", ["encapsulated", "ciphertext", "info", "key", "short", "small order", "empty"])
def test_what_was_changed_does_not_open(change):
    sealed, key = seal(PUBLIC, b"text", INFO), RecipientKey.of(PRIVATE)
    enc, text, info = sealed.encapsulated, sealed.ciphertext, INFO
    match change:
        case "encapsulated":
            enc = bytes([enc[0] ^ 1]) + enc[1:]
        case "ciphertext":
            text = bytes([text[0] ^ 1]) + text[1:]
        case "info":
            info += b"."
        case "key":
            key = RecipientKey.derived(PRIVATE)
        case "short":
            enc = enc[:31]
        case "small order":
            enc = bytes(KEY_BYTES)
        case "empty":
            text = b""
    with pytest.raises(BadMessage):
        key.open(enc, text, info)


@for_each("public", [b"", bytes(32), b"\x01" + bytes(31), b"x" * 33])
def test_nothing_is_sealed_to_what_is_no_key(public):
    with pytest.raises(BadMessage):
        seal(public, b"text", INFO)


def test_a_private_key_does_not_show_itself():
    assert PRIVATE.hex()[:8] not in repr(RecipientKey.of(PRIVATE))
