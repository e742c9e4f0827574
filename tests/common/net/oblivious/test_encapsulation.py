"""Encapsulation: the example of RFC 9458, and what a relay may do to what it carries."""

import struct

import pytest

from common.core.errors import BadMessage, Forged, UnknownKey
from common.crypto.hpke import RecipientKey
from common.crypto.identity import Identity
from common.net.oblivious.encapsulation import (
    REQUEST_OVERHEAD,
    RESPONSE_OVERHEAD,
    GatewayKey,
    KeyConfiguration,
    ObliviousKeys,
    decode_list,
    encapsulate,
    encode_list,
    signed_keys,
    verified_keys,
)

# RFC 9458, appendix A.
SECRET = bytes.fromhex("3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a")
CONFIGURATION = bytes.fromhex(
    "01002031e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e79815500080001000100010003"
)
REQUEST = bytes.fromhex("00034745540568747470730b6578616d706c652e636f6d012f")
EPHEMERAL = bytes.fromhex("bc51d5e930bda26589890ac7032f70ad12e4ecb37abb1b65b1256c9c48999c73")
ENCAPSULATED_REQUEST = bytes.fromhex(
    "010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b4726374e469135906992e"
    "1268c594d2a10c695d858c40a026e7965e7d86b83dd440b2c0185204b4d63525"
)
RESPONSE = bytes.fromhex("0140c8")
NONCE = bytes.fromhex("c789e7151fcba46158ca84b04464910d")
ENCAPSULATED_RESPONSE = bytes.fromhex("c789e7151fcba46158ca84b04464910d86f9013e404feea014e7be4a441f234f857fbd")

GATEWAY = GatewayKey.derived(b"material" * 4)


def listed(*configurations: bytes) -> bytes:
    return b"".join(struct.pack(">H", len(raw)) + raw for raw in configurations)


def test_the_example_of_the_rfc():
    (configuration,) = decode_list(listed(CONFIGURATION))
    gateway = GatewayKey(configuration, RecipientKey.of(SECRET))
    assert gateway.key.public == configuration.public
    sent, here = encapsulate(configuration, REQUEST, ephemeral=EPHEMERAL)
    assert sent == ENCAPSULATED_REQUEST
    opened, there = gateway.open(sent)
    assert opened == REQUEST
    assert there.seal(RESPONSE, NONCE) == ENCAPSULATED_RESPONSE
    assert here.open(ENCAPSULATED_RESPONSE) == RESPONSE


def test_two_requests_of_one_sender_share_nothing_but_the_gateway_s_key():
    first, second = (encapsulate(GATEWAY.configuration, b"the same request")[0] for _ in range(2))
    assert first[:7] == second[:7]  # identifier and algorithms, the same for everybody
    assert not set(struct.iter_unpack("4s", first[7:39])) & set(struct.iter_unpack("4s", second[7:39]))
    assert first[39:] != second[39:]


def test_a_request_that_was_changed_or_cut_off_does_not_open_and_another_key_is_named_as_such():
    sent = encapsulate(GATEWAY.configuration, b"request")[0]
    for at in (*range(7), 7, 20, 39, len(sent) - 1):
        with pytest.raises(UnknownKey if at < 7 else BadMessage):
            GATEWAY.open(sent[:at] + bytes([sent[at] ^ 1]) + sent[at + 1 :])
    for size in (0, 6, 7, 38, REQUEST_OVERHEAD - 1, REQUEST_OVERHEAD):
        with pytest.raises(BadMessage):
            GATEWAY.open(sent[:size])


def test_a_response_is_the_answer_to_one_request():
    mine, here = encapsulate(GATEWAY.configuration, b"mine")
    theirs, _ = encapsulate(GATEWAY.configuration, b"theirs")
    right, wrong = GATEWAY.open(mine)[1].seal(b"x"), GATEWAY.open(theirs)[1].seal(b"x")
    assert here.open(right) == b"x"
    changed = right[:-1] + bytes([right[-1] ^ 1])
    for handed_back in (wrong, changed, right[:-1], right[:16], right[:31], b"", right + b"\x00"):
        with pytest.raises(Forged):
            here.open(handed_back)


def test_a_request_that_is_sent_again_opens_and_its_answer_is_for_the_first_sender_alone():
    sent, here = encapsulate(GATEWAY.configuration, b"request")
    answers = [GATEWAY.open(sent)[1].seal(b"answer") for _ in range(2)]
    assert answers[0] != answers[1]
    assert [here.open(answer) for answer in answers] == [b"answer", b"answer"]
    assert len(sent) == len(b"request") + REQUEST_OVERHEAD
    assert len(answers[0]) == len(b"answer") + RESPONSE_OVERHEAD


def test_keys_are_read_as_they_are_written_and_unknown_algorithms_are_passed_over():
    known = KeyConfiguration.of(GATEWAY.key.public)
    assert decode_list(encode_list([known])) == [known]
    p256 = b"\x05\x00\x10" + bytes(65) + b"\x00\x04\x00\x01\x00\x01"
    other_cipher = known.encode()[:-4] + b"\x00\x03\x00\x03"
    assert decode_list(listed(p256, other_cipher, known.encode())) == [known]
    with pytest.raises(BadMessage, match="there is no key configuration"):
        decode_list(listed(p256, other_cipher))


def test_what_is_no_list_of_keys_is_refused():
    cut = (CONFIGURATION[:-1], CONFIGURATION[:-4], CONFIGURATION + b"\x00", CONFIGURATION[:20])
    whole = listed(CONFIGURATION)
    for raw in (b"", b"\x00", b"\x00\x00", b"\xff\xff", whole[:-1], whole * 100, *map(listed, cut)):
        with pytest.raises(BadMessage):
            decode_list(raw)


def test_keys_are_those_of_the_pinned_referee_or_none():
    referee, relay = Identity.create(), Identity.create()
    ours = signed_keys(referee, [GATEWAY.configuration])
    assert verified_keys(ours, referee.public) == GATEWAY.configuration
    theirs = [GatewayKey.derived(b"relay's " * 4).configuration]
    swapped = ObliviousKeys(keys=encode_list(theirs).hex()).wire()
    for signed in (signed_keys(relay, theirs), ours.model_copy(update={"message": swapped})):
        with pytest.raises(Forged):
            verified_keys(signed, referee.public)


def test_a_gateway_s_key_follows_from_the_identity_and_from_nothing_else():
    identity = Identity.create()
    assert identity.derived(b"one") == identity.derived(b"one") != identity.derived(b"two")
    assert identity.derived(b"one") != Identity.create().derived(b"one")
