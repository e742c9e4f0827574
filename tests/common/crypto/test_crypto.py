"""Blind RSA signatures against RFC 9474: its vector, what a signer sees, and what is refused."""

import base64
import hashlib
import json
import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from common.core.errors import BadData, BadInput, BadMessage, Forged, NotVouched
from common.crypto import blindrsa, vouching
from common.crypto.blindrsa import blind, blind_sign, encode, finalize, public_key
from common.crypto.hpke import KEY_BYTES, RecipientKey, seal
from common.crypto.identity import Identity, Signed, announce_body, check_announcement, verify
from tests.vouched import credential, ours, rsa_key

VECTOR = json.loads((Path(__file__).parent / "vectors" / "rfc9474.json").read_text())
MESSAGE = secrets.token_bytes(98)


def numbers(name: str) -> int:
    return int(VECTOR[name], 16)


def raw(name: str) -> bytes:
    return bytes.fromhex(VECTOR[name])


def test_the_vector_of_the_rfc():
    private = rsa_key(numbers("p"), numbers("q"))
    public = private.public_key()
    blinded = blind(public, raw("msg"), raw("salt"), numbers("inv"))
    assert blinded.message == raw("blinded_msg")
    assert blind_sign(private, blinded.message) == raw("blind_sig")
    assert finalize(public, raw("msg"), raw("blind_sig"), blinded.inverse) == raw("sig")


def test_what_is_unblinded_is_a_usual_signature_and_of_nothing_else():
    """A signer gives the same again, and takes no numbers beyond its modulus."""
    public = ours().public_key()
    blinded, modulus = blind(public, MESSAGE), public.public_numbers().n
    reply = blind_sign(ours(), blinded.message)
    assert blind_sign(ours(), blinded.message) == reply
    signature = finalize(public, MESSAGE, reply, blinded.inverse)
    blindrsa.verify(public, MESSAGE, signature)
    for message, changed in ((MESSAGE[:-1], signature), (MESSAGE, signature[:-1] + bytes([signature[-1] ^ 1]))):
        with pytest.raises(Forged):
            blindrsa.verify(public, message, changed)
    for wrong in (reply[:-1] + bytes([reply[-1] ^ 1]), reply[1:], bytes(256), b""):
        with pytest.raises(Forged):
            finalize(public, MESSAGE, wrong, blinded.inverse)
    sent = blinded.message
    for wrong in (modulus.to_bytes(256, "big"), b"\xff" * 256, sent[1:], sent + b"\x00", b""):
        with pytest.raises(BadMessage, match="256 bytes and is below"):
            blind_sign(ours(), wrong)


def test_every_token_fits_everything_that_an_issuer_has_seen():
    """For any token and any request there is one blinding factor that leads from the one to the other: it is computed.

    The factor is drawn uniformly, so each pair is as likely as every other: an issuer that keeps all requests and is
    shown all tokens, and has its own private key, cannot do better than to guess which belongs to which.
    """
    private, public = ours(), ours().public_key()
    n, e, d = public.public_numbers().n, 65537, private.private_numbers().d
    seen, tokens = [], []
    for message in (MESSAGE, secrets.token_bytes(98)):
        blinded = blind(public, message)
        reply = blind_sign(private, blinded.message)
        seen.append((blinded.message, reply))
        tokens.append((message, finalize(public, message, reply, blinded.inverse)))
    assert len({blind(public, MESSAGE).message for _ in range(20)}) == 20
    for request, reply in seen:
        for message, signature in tokens:
            encoded = pow(int.from_bytes(signature, "big"), e, n)
            factor = pow(int.from_bytes(request, "big") * pow(encoded, -1, n), d, n)  # r, in [1, n)
            assert encoded * pow(factor, e, n) % n == int.from_bytes(request, "big")
            inverse = pow(factor, -1, n)
            assert finalize(public, message, reply, inverse) == signature  # it is what this person would have unblinded


def test_a_miscomputed_signature_never_leaves():
    """A fault in one of the two halves would give the factors away."""
    right = ours().private_numbers()
    parts = {f: getattr(right, f) for f in ("p", "q", "dmp1", "dmq1", "iqmp", "public_numbers")}
    wrong = SimpleNamespace(**{**parts, "dmp1": right.dmp1 ^ 2})
    faulty = SimpleNamespace(key_size=2048, public_key=ours().public_key, private_numbers=lambda: wrong)
    with pytest.raises(AssertionError, match="miscomputes"):
        blind_sign(faulty, blind(ours().public_key(), MESSAGE).message)


def test_keys_that_nothing_can_be_signed_with_are_refused():
    with pytest.raises(BadMessage, match="no RSA key"):
        public_key(4, 65537)
    with pytest.raises(BadMessage, match="too short"):
        encode(MESSAGE, 511, bytes(48))
    small = public_key(3 * ours().public_key().public_numbers().n, 65537)
    with pytest.raises(BadMessage, match="small factor"):
        blind(small, MESSAGE, bytes(48), 3)


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


def test_the_vectors_of_the_rfc():
    key = RecipientKey.derived(MATERIAL)
    assert key.public == RecipientKey.of(PRIVATE).public == PUBLIC
    sealed = seal(PUBLIC, b"text", INFO, ephemeral=EPHEMERAL)
    assert sealed.encapsulated == ENCAPSULATED
    plain, shared = key.open(sealed.encapsulated, sealed.ciphertext, INFO)
    assert plain == b"text"
    for label, secret in EXPORTED.items():
        assert sealed.shared.export(label, 32).hex() == shared.export(label, 32).hex() == secret


def test_what_was_changed_does_not_open_and_nothing_is_sealed_to_what_is_no_key():
    key, (enc, text, _) = RecipientKey.of(PRIVATE), seal(PUBLIC, b"text", INFO)
    for opener, changed, cipher, info in (
        (key, bytes([enc[0] ^ 1]) + enc[1:], text, INFO),
        (key, enc, bytes([text[0] ^ 1]) + text[1:], INFO),
        (key, enc, text, INFO + b"."),
        (RecipientKey.derived(PRIVATE), enc, text, INFO),
        (key, enc[:31], text, INFO),
        (key, bytes(KEY_BYTES), text, INFO),
        (key, enc, b"", INFO),
    ):
        with pytest.raises(BadMessage):
            opener.open(changed, cipher, info)
    for public in (b"", bytes(32), b"\x01" + bytes(31), b"x" * 33):
        with pytest.raises(BadMessage):
            seal(public, b"text", INFO)


WHO, STRANGER = Identity.create(), Identity.create()
SAID = announce_body(WHO, "PUT", "/a", b"body")


def test_a_proof_announces_the_body_and_nothing_else():
    for key in (None, WHO.public):
        assert check_announcement(SAID, "PUT", "/a", 4, key) == hashlib.sha256(b"body").hexdigest()
    for other in (
        *(("POST", "/a", 4, None), ("PUT", "/b", 4, None), ("PUT", "/a", 5, None)),
        ("PUT", "/a", 4, STRANGER.public),
    ):
        with pytest.raises(Forged):
            check_announcement(SAID, *other)
    for spoiled in ("", "x", SAID + "\n", SAID.upper(), SAID.replace(" ", "  "), SAID[:-1]):
        with pytest.raises(BadMessage):
            check_announcement(spoiled, "PUT", "/a", 4, None)


def test_a_key_is_kept_and_private(tmp_path):
    path = tmp_path / "deep" / "identity.key"
    first = Identity.load_or_create(path)
    assert Identity.load_or_create(path).public == first.public
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(b"short")
    with pytest.raises(BadInput, match="cut off or damaged"):
        Identity.load_or_create(path)


def test_a_signature_is_of_one_kind_one_content_and_one_key():
    """Whether one verifies is looked at once a message: of a copy with another one, key or kind nothing is known."""
    message = {"a": 1, "words": "x" * 40_000}
    signed = WHO.sign("kind", message)
    assert verify(signed, "kind", WHO.public) == message
    for broken in (
        *({"kind": "other"}, {"message": {**message, "a": 2}}, {"message": {**message, "b": None}}),
        *({"key": STRANGER.public}, {"key": "f" * 64}, {"signature": "0" * 128}),
    ):
        for found in (Signed.parse({**signed.wire(), **broken}), signed.model_copy(update=broken)):
            for kind in {"kind", found.kind}:
                with pytest.raises(Forged):
                    verify(found, kind)
    assert signed.content() == message
    with pytest.raises(Forged, match="signed by"):
        verify(signed, "kind", STRANGER.public)


GRANTS = Identity.create()
KEY = vouching.IssuerKey.of(ours().public_key(), GRANTS.public)
OTHER = vouching.IssuerKey.of(public_key((1 << 2048) - 1, 65537), Identity.create().public)
ISSUER: Any = SimpleNamespace(public=KEY, issue=lambda _, asked: blind_sign(ours(), vouching.blinded_in(KEY, asked)))
OWN = credential(ISSUER, "code", WHO.public)


def grant(people: int = 100, host: str = WHO.public, signer: Identity = GRANTS) -> Signed:
    said = vouching.Grant(host=host, name="City Hospital", people=people)
    return signer.sign(said.KIND, said.wire())


def test_a_credential_is_good_for_the_key_that_it_was_made_for_and_for_no_other():
    assert vouching.check_credential(OWN, WHO.public, [OTHER, KEY]) == KEY
    nonce, signature = (f"{int(text[0], 16) ^ 1:x}{text[1:]}" for text in (OWN.nonce, OWN.signature))
    for changes, agent, issuer, why in (
        ({}, STRANGER, KEY, "made for another key, or forged"),
        ({"nonce": nonce}, WHO, KEY, "forged"),
        ({"signature": signature}, WHO, KEY, "forged"),
        ({}, WHO, OTHER, "not accepted here"),
        ({"issuer": OTHER.token_key_id}, WHO, OTHER, "forged"),
    ):
        with pytest.raises(NotVouched, match=why):
            vouching.check_credential(OWN.model_copy(update=changes), agent.public, [issuer])


def test_a_token_is_one_of_the_privacy_pass_type_two():
    """98 bytes: type, nonce, digest of the challenge, identifier of the key (RFC 9578, section 6.1)."""
    raw = vouching.token_input(WHO.public, bytes(32), KEY.token_key_id)
    assert (len(raw), raw[:2], raw[2:34], raw[66:].hex()) == (98, b"\x00\x02", bytes(32), KEY.token_key_id)
    names = b"\x00\x0dtandem-issuer", b"\x20" + bytes.fromhex(WHO.public), b"\x00\x10tandem-enrolment"
    assert raw[34:66] == hashlib.sha256(b"\x00\x02" + b"".join(names)).digest()


def test_an_issuers_key_is_encoded_as_the_rfc_says_and_other_libraries_read_it():
    der = base64.b64decode(KEY.tokens)
    assert KEY.token_key_id == hashlib.sha256(der).hexdigest()
    found = load_der_public_key(der)
    assert isinstance(found, rsa.RSAPublicKey)
    assert KEY.token_key.public_numbers() == found.public_numbers() == ours().public_key().public_numbers()
    for bits, exponent in ((2048, 3), (3072, 65537)):
        with pytest.raises(BadMessage, match="2048 bits and the exponent 65537"):
            vouching.IssuerKey.of(public_key((1 << bits) - 1, exponent), GRANTS.public)


def test_a_file_with_another_kind_of_key_is_no_issuers(tmp_path):
    """Which keys are none is in the vectors of credentials (tests/vectors)."""
    (tmp_path / "issuer.json").write_text(json.dumps({**KEY.wire(), "tokens": "x" * 464}))
    with pytest.raises(BadData, match="no issuer's public keys"):
        vouching.read_issuer(tmp_path / "issuer.json")


def test_a_grant_is_for_one_host_and_at_most_so_many_people():
    assert vouching.check_grant(grant(), WHO.public, 100, [OTHER, KEY])[1].name == "City Hospital"
    for signed, host, people, why in (
        (grant(), WHO.public, 101, "at most 100 people, the host brings 101"),
        (grant(), STRANGER.public, 1, "for the host with the key"),
        (grant(signer=STRANGER), WHO.public, 1, "not accepted here"),
        (grant().model_copy(update={"message": {**grant().message, "people": 10**6}}), WHO.public, 1, "no grant"),
        (grant().model_copy(update={"kind": "enrolment"}), WHO.public, 1, "no grant"),
    ):
        with pytest.raises(NotVouched, match=why):
            vouching.check_grant(signed, host, people, [KEY])


def test_what_is_kept_is_read_again():
    assert vouching.read_voucher(vouching.stored(OWN)) == OWN
    assert len(vouching.stored(OWN)) == 321
    assert vouching.read_voucher(vouching.stored(grant())) == grant()
    for wrong in (b"", b"c", vouching.stored(OWN)[:-1], b"x" + vouching.stored(OWN)[1:], b"g", b"g{}"):
        with pytest.raises(BadMessage):
            vouching.read_voucher(wrong)
