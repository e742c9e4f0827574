"""Credentials and grants: what an issuer's word is bound to, and what is none."""

from __future__ import annotations

import base64
import hashlib
import secrets

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from common.core.errors import BadData, BadMessage, NotVouched
from common.crypto.blindrsa import blind, blind_sign, finalize, public_key
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import (
    Credential,
    Grant,
    IssuerKey,
    blinded_in,
    check_credential,
    check_grant,
    read_issuer,
    read_voucher,
    stored,
    token_input,
    token_request,
)
from common.wire.messages import Enrolment
from common.wire.sealed import Sealed, read
from tests.tiers import for_each
from tests.vouched import ours

GRANTS = Identity.create()
KEY = IssuerKey.of(ours().public_key(), GRANTS.public)
OTHER = IssuerKey.of(public_key((1 << 2048) - 1, 65537), Identity.create().public)
AGENT, SOMEBODY = Identity.create(), Identity.create()


def credential(agent: str) -> Credential:
    nonce = secrets.token_bytes(32)
    message = token_input(agent, nonce, KEY.token_key_id)
    blinded = blind(KEY.token_key, message)
    signature = finalize(KEY.token_key, message, blind_sign(ours(), blinded.message), blinded.inverse)
    return Credential(issuer=KEY.token_key_id, nonce=nonce.hex(), signature=signature.hex())


OWN = credential(AGENT.public)


def grant(people: int = 100, host: str = AGENT.public, signer: Identity = GRANTS) -> Signed:
    said = Grant(host=host, name="City Hospital", people=people)
    return signer.sign(said.KIND, said.wire())


def test_a_credential_is_good_for_the_key_that_it_was_made_for_and_for_no_other():
    assert check_credential(OWN, AGENT.public, [OTHER, KEY]) == KEY
    with pytest.raises(NotVouched, match="made for another key, or forged"):
        check_credential(OWN, SOMEBODY.public, [KEY])


@pytest.mark.parametrize("field", ["nonce", "signature"])
def test_a_changed_credential_is_none(field):
    text = getattr(OWN, field)
    changed = OWN.model_copy(update={field: f"{int(text[0], 16) ^ 1:x}{text[1:]}"})
    with pytest.raises(NotVouched, match="forged"):
        check_credential(changed, AGENT.public, [KEY])


def test_a_credential_of_another_issuer_is_not_accepted_whatever_it_calls_itself():
    with pytest.raises(NotVouched, match="not accepted here"):
        check_credential(OWN, AGENT.public, [OTHER])
    with pytest.raises(NotVouched, match="forged"):
        check_credential(OWN.model_copy(update={"issuer": OTHER.token_key_id}), AGENT.public, [OTHER])


def test_a_token_is_one_of_the_privacy_pass_type_two():
    """98 bytes: type, nonce, digest of the challenge, identifier of the key (RFC 9578, section 6.1)."""
    raw = token_input(AGENT.public, bytes(32), KEY.token_key_id)
    assert (len(raw), raw[:2], raw[2:34], raw[66:].hex()) == (98, b"\x00\x02", bytes(32), KEY.token_key_id)
    names = b"\x00\x0dtandem-issuer", b"\x20" + bytes.fromhex(AGENT.public), b"\x00\x10tandem-enrolment"
    assert raw[34:66] == hashlib.sha256(b"\x00\x02" + b"".join(names)).digest()


def test_an_issuers_key_is_encoded_as_the_rfc_says_and_other_libraries_read_it():
    der = base64.b64decode(KEY.tokens)
    assert KEY.token_key_id == hashlib.sha256(der).hexdigest()
    found = load_der_public_key(der)
    assert isinstance(found, rsa.RSAPublicKey)
    assert found.public_numbers() == ours().public_key().public_numbers()
    assert KEY.token_key.public_numbers() == found.public_numbers()


@for_each(
    "tokens",
    [
        "x" * 464,
        base64.b64encode(bytes(346)).decode(),
        KEY.tokens[:-4] + "AQM=",
        base64.b64encode(base64.b64decode(KEY.tokens)[:80] + bytes(261) + base64.b64decode(KEY.tokens)[-5:]).decode(),
    ],
)
def test_another_kind_of_key_is_no_issuers(tokens, tmp_path):
    with pytest.raises(BadMessage, match=r"key of tokens|IssuerKey"):
        IssuerKey.parse({**KEY.wire(), "tokens": tokens})
    (tmp_path / "issuer.json").write_text(f'{{"tokens": "{tokens}", "grants": "{KEY.grants}"}}')
    with pytest.raises(BadData, match="no issuer's public keys"):
        read_issuer(tmp_path / "issuer.json")


@pytest.mark.parametrize(("bits", "exponent"), [(2048, 3), (3072, 65537)])
def test_an_issuer_has_keys_of_one_form(bits, exponent):
    with pytest.raises(BadMessage, match="2048 bits and the exponent 65537"):
        IssuerKey.of(public_key((1 << bits) - 1, exponent), GRANTS.public)


def test_a_request_is_read_as_it_was_made_and_nothing_else_is_one():
    blinded = secrets.token_bytes(256)
    request = token_request(KEY, blinded)
    assert blinded_in(KEY, request) == blinded
    for wrong in (b"", request[:-1], request + b"\x00", b"\x00\x01" + request[2:]):
        with pytest.raises(BadMessage, match="token request has type 2"):
            blinded_in(KEY, wrong)
    with pytest.raises(BadMessage, match="another key"):
        blinded_in(KEY, request[:2] + bytes([request[2] ^ 1]) + request[3:])


def test_a_grant_is_for_one_host_and_at_most_so_many_people():
    assert check_grant(grant(), AGENT.public, 100, [OTHER, KEY])[1].name == "City Hospital"
    for signed, host, people, why in (
        (grant(), AGENT.public, 101, "at most 100 people, the host brings 101"),
        (grant(), SOMEBODY.public, 1, "for the host with the key"),
        (grant(signer=SOMEBODY), AGENT.public, 1, "not accepted here"),
        (grant().model_copy(update={"message": {**grant().message, "people": 10**6}}), AGENT.public, 1, "no grant"),
        (grant().model_copy(update={"kind": "enrolment"}), AGENT.public, 1, "no grant"),
    ):
        with pytest.raises(NotVouched, match=why):
            check_grant(signed, host, people, [KEY])


def test_what_is_kept_is_read_again():
    assert read_voucher(stored(OWN)) == OWN
    assert len(stored(OWN)) == 321
    assert read_voucher(stored(grant())) == grant()
    for wrong in (b"", b"c", stored(OWN)[:-1], b"x" + stored(OWN)[1:], b"g", b"g{}"):
        with pytest.raises(BadMessage):
            read_voucher(wrong)


def test_an_enrolment_without_a_word_of_an_issuer_is_what_it_was():
    """To the byte, and on the short way; with one it goes the usual way, and says the same."""
    plain = Enrolment(agents=1)
    assert plain.wire() == {"agents": 1}
    short = read(AGENT.sign(plain.KIND, plain.wire()).raw())
    assert isinstance(short, Sealed)
    assert short.value == plain
    assert short.message == plain.wire()
    shown = Enrolment(agents=1, credential=OWN)
    usual = read(AGENT.sign(shown.KIND, shown.wire()).raw())
    assert isinstance(usual, Signed)
    assert Enrolment.parse(usual.message) == shown
