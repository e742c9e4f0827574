"""Blind RSA signatures against RFC 9474: its vector, what a signer sees, and what is refused."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from common.core.errors import BadMessage, Forged
from common.crypto.blindrsa import Blinded, blind, blind_sign, encode, finalize, public_key, size_of, verify
from tests.vouched import ours

VECTOR = json.loads((Path(__file__).parent / "vectors" / "rfc9474.json").read_text())
MESSAGE = secrets.token_bytes(98)


def numbers(name: str) -> int:
    return int(VECTOR[name], 16)


def raw(name: str) -> bytes:
    return bytes.fromhex(VECTOR[name])


def private_key(p: int, q: int, e: int = 65537) -> rsa.RSAPrivateKey:
    d = pow(e, -1, (p - 1) * (q - 1))
    parts = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    return rsa.RSAPrivateNumbers(p, q, d, *parts, rsa.RSAPublicNumbers(e, p * q)).private_key(
        unsafe_skip_rsa_key_validation=True  # it takes a second
    )


def test_the_vector_of_the_rfc():
    private = private_key(numbers("p"), numbers("q"))
    public = private.public_key()
    blinded = blind(public, raw("msg"), raw("salt"), numbers("inv"))
    assert blinded.message == raw("blinded_msg")
    assert blind_sign(private, blinded.message) == raw("blind_sig")
    assert finalize(public, raw("msg"), raw("blind_sig"), blinded.inverse) == raw("sig")


def test_what_is_unblinded_is_a_usual_signature_and_of_nothing_else():
    public = ours().public_key()
    blinded = blind(public, MESSAGE)
    reply = blind_sign(ours(), blinded.message)
    signature = finalize(public, MESSAGE, reply, blinded.inverse)
    verify(public, MESSAGE, signature)
    for message, changed in ((MESSAGE[:-1], signature), (MESSAGE, signature[:-1] + bytes([signature[-1] ^ 1]))):
        with pytest.raises(Forged):
            verify(public, message, changed)
    for wrong in (reply[:-1] + bytes([reply[-1] ^ 1]), reply[1:], bytes(256), b""):
        with pytest.raises(Forged):
            finalize(public, MESSAGE, wrong, blinded.inverse)


def test_a_signer_gives_the_same_again_and_takes_no_numbers_beyond_its_modulus():
    blinded = blind(ours().public_key(), MESSAGE).message
    assert blind_sign(ours(), blinded) == blind_sign(ours(), blinded)
    modulus = ours().public_key().public_numbers().n
    for wrong in (modulus.to_bytes(256, "big"), b"\xff" * 256, blinded[1:], blinded + b"\x00", b""):
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
    for request, reply in seen:
        for message, signature in tokens:
            encoded = pow(int.from_bytes(signature, "big"), e, n)
            factor = pow(int.from_bytes(request, "big") * pow(encoded, -1, n), d, n)  # r, in [1, n)
            assert encoded * pow(factor, e, n) % n == int.from_bytes(request, "big")
            inverse = pow(factor, -1, n)
            assert finalize(public, message, reply, inverse) == signature  # it is what this person would have unblinded


def test_the_same_message_is_blinded_differently_each_time_and_a_request_shows_nothing_of_it():
    public = ours().public_key()
    requests = {blind(public, MESSAGE).message for _ in range(20)}
    assert len(requests) == 20
    # With one salt and message, requests are r^e EM: a further factor moves one to the other.
    one, other = (blind(public, MESSAGE, bytes(48)) for _ in range(2))
    n = public.public_numbers().n
    between = other.inverse * pow(one.inverse, -1, n) % n
    moved = int.from_bytes(one.message, "big") * pow(pow(between, -1, n), 65537, n) % n
    assert moved == int.from_bytes(other.message, "big")


def test_a_miscomputed_signature_never_leaves(monkeypatch):
    """A fault in one of the two halves would give the factors away."""

    class Faulty:
        def __init__(self, key: rsa.RSAPrivateKey) -> None:
            self.key, self.key_size = key, key.key_size

        def public_key(self) -> rsa.RSAPublicKey:
            return self.key.public_key()

        def private_numbers(self) -> object:
            right = self.key.private_numbers()
            fields = ("p", "q", "dmp1", "dmq1", "iqmp", "public_numbers")
            return type("Numbers", (), {**{f: getattr(right, f) for f in fields}, "dmp1": right.dmp1 ^ 2})()

    with pytest.raises(AssertionError, match="miscomputes"):
        blind_sign(Faulty(ours()), blind(ours().public_key(), MESSAGE).message)


def test_keys_that_nothing_can_be_signed_with_are_refused():
    with pytest.raises(BadMessage, match="no RSA key"):
        public_key(4, 65537)
    with pytest.raises(BadMessage, match="too short"):
        encode(MESSAGE, 511, bytes(48))
    assert size_of(ours()) == 256
    small = public_key(3 * ours().public_key().public_numbers().n, 65537)
    with pytest.raises(BadMessage, match="small factor"):
        blind(small, MESSAGE, bytes(48), 3)
    assert Blinded(b"", 1).inverse == 1
